package watermillsqs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// One message is one call, and several travel in batches of ten.
func TestPublishBatches(t *testing.T) {
	for count, calls := range map[int][]int{
		0: nil, 1: {1}, 2: {2}, 9: {9}, 10: {10}, 11: {10, 1}, 12: {10, 2}, 20: {10, 10}, 21: {10, 10, 1}, 35: {10, 10, 10, 5},
	} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(count)...))
				sent, found := entriesOf(h.service), bodies(q)
				assert.ElementsMatch(t, numbers(0, count), found)
				assert.ElementsMatch(t, calls, sent)
				for _, call := range h.service.Calls("SendMessageBatch") {
					assert.Greater(t, call.Entries, 1, "one message is no batch")
				}
				if count == 0 {
					assert.Zero(t, h.service.Count(), "nothing to send, nothing to look up")
				}
			})
		})
	}
}

// However many a call publishes to a standard queue, up to 64 batches of it are on their
// way at a time, the last included, which may be less than full.
func TestPublishTakesOneRoundTrip(t *testing.T) {
	const trip = 15 * time.Millisecond
	for count, want := range map[int]time.Duration{1: trip, 10: trip, 11: trip, 25: trip, 635: trip, 640: trip, 641: 2 * trip, 645: 2 * trip} {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("orders", nil)
			pub := h.publisher(watermillsqs.PublisherConfig{})
			require.NoError(t, pub.Publish("orders", numbered(1)...)) // finds the queue
			h.service.ResetCalls()
			h.service.Inject(sqstest.Fault{Effect: sqstest.Latency(trip, trip)})
			start := time.Now()
			require.NoError(t, pub.Publish("orders", numbered(count)...))
			assert.Equal(t, want, time.Since(start), "%d messages", count)
			assert.Len(t, entriesOf(h.service), (count+9)/10)
		})
	}
}

// The size of a batch is counted as SQS counts it: bodies, and the names, types and
// values of attributes. Exactly 1 MiB still fits.
func TestPublishBatchSizes(t *testing.T) {
	const limit = 1 << 20
	// What each of the messages weighs apart from its payload.
	own := len(watermillsqs.UUIDAttribute) + len("String") + len("0")
	wide := "größe" // seven bytes, five characters
	for _, test := range []struct {
		name     string
		sizes    []int // of the payloads
		metadata message.Metadata
		calls    []int
	}{
		{"exactly", []int{limit/2 - own, limit/2 - own}, nil, []int{2}},
		{"one byte more", []int{limit/2 - own, limit/2 - own + 1}, nil, []int{1, 1}},
		{"one byte less", []int{limit/2 - own, limit/2 - own - 1}, nil, []int{2}},
		{"attributes count, exactly", []int{limit/2 - own - 1 - 6 - 1000, limit/2 - own - 1 - 6 - 1000},
			message.Metadata{"k": strings.Repeat("v", 1000)}, []int{2}},
		{"attributes count, one more", []int{limit/2 - own - 1 - 6 - 1000, limit/2 - own - 1 - 6 - 1000 + 1},
			message.Metadata{"k": strings.Repeat("v", 1000)}, []int{1, 1}},
		{"bytes count, exactly", []int{limit/2 - own - 1 - 6 - len(wide), limit/2 - own - 1 - 6 - len(wide)},
			message.Metadata{"k": wide}, []int{2}},
		{"bytes count, one more", []int{limit/2 - own - 1 - 6 - len(wide), limit/2 - own - 1 - 6 - len(wide) + 1},
			message.Metadata{"k": wide}, []int{1, 1}},
		{"trace header is free", []int{limit/2 - own, limit/2 - own},
			message.Metadata{watermillsqs.TraceHeaderKey: "Root=1-5759e988-bd862e3fe1be46a994272793"}, []int{2}},
		{"one of the largest", []int{limit - own}, nil, []int{1}},
		{"two of the largest", []int{limit - own, limit - own}, nil, []int{1, 1}},
		{"a large one between small ones", []int{10, 10, limit - own, 10, 10}, nil, []int{2, 1, 2}},
		{"the third does not fit", []int{limit/2 - own, limit/2 - own, 1}, nil, []int{2, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				messages := make([]*message.Message, len(test.sizes))
				for i, size := range test.sizes {
					messages[i] = message.NewMessage("0", bytes.Repeat([]byte{'a' + byte(i)}, size))
					messages[i].Metadata = maps.Clone(test.metadata)
				}
				require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...))
				assert.ElementsMatch(t, test.calls, entriesOf(h.service))
				arrived := bodies(q)
				slices.Sort(arrived)
				for i, body := range arrived {
					assert.Equal(t, test.sizes[i], len(body))
					assert.Equal(t, 'a'+byte(i), body[0])
				}
			})
		})
	}
}

// A call with messages that can never be sent sends nothing, and its error names all
// of them.
func TestPublishValidatesFirst(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		const limit = 1 << 20
		own := len(watermillsqs.UUIDAttribute) + len("String") + len("12")
		messages := numbered(30)
		messages[12].Payload = make([]byte, limit) // zeros, and so encoded
		messages[13].Payload = bytes.Repeat([]byte("x"), limit-own+1)
		messages[20].Metadata.Set(delay.DelayedForKey, "16m")
		messages[21].Metadata.Set(delay.DelayedUntilKey, "tomorrow")
		messages[25] = nil
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...)
		assert.Zero(t, h.service.Count(), "not even a lookup")

		var failed *watermillsqs.PublishError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, "orders", failed.Topic)
		assert.Equal(t, 30, failed.Messages)
		got := map[int]string{}
		for _, m := range failed.Failed {
			got[m.Index] = m.UUID
		}
		assert.Equal(t, map[int]string{12: "12", 13: "13", 20: "20", 21: "21", 25: ""}, got)
		assert.ErrorIs(t, failed.Failed[0].Err, watermillsqs.ErrMessageTooLarge)
		assert.ErrorIs(t, failed.Failed[1].Err, watermillsqs.ErrMessageTooLarge)
		assert.ErrorIs(t, failed.Failed[2].Err, watermillsqs.ErrInvalidDelay)
		assert.ErrorIs(t, failed.Failed[3].Err, watermillsqs.ErrInvalidDelay)
		assert.ErrorContains(t, failed.Failed[4].Err, "nil")
		assert.ErrorIs(t, err, watermillsqs.ErrInvalidDelay, "seen through the whole error, too")
		var large *watermillsqs.TooLargeError
		require.ErrorAs(t, failed.Failed[1].Err, &large)
		assert.Equal(t, watermillsqs.TooLargeError{Size: limit + 1, Body: limit - own + 1, Attributes: own, Limit: limit}, *large)
		assert.ErrorContains(t, err, `"orders"`)
		assert.ErrorContains(t, err, "5 of 30")
		assert.ErrorContains(t, err, "1048577")
	})
}

// A marshaler of the user's own is checked likewise: what it makes wrong would fail
// the other entries of a batch.
type wrongMarshaler struct {
	watermillsqs.DefaultMarshaler

	wrong func(out *watermillsqs.Outgoing) error
}

func (m wrongMarshaler) Marshal(topic string, msg *message.Message) (watermillsqs.Outgoing, error) {
	out, err := m.DefaultMarshaler.Marshal(topic, msg)
	if err == nil && msg.UUID == "3" {
		err = m.wrong(&out)
	}
	return out, err
}

func TestPublishChecksWhatAMarshalerMakes(t *testing.T) {
	mine := errors.New("not today")
	for name, wrong := range map[string]func(out *watermillsqs.Outgoing) error{
		"error":          func(*watermillsqs.Outgoing) error { return mine },
		"empty body":     func(o *watermillsqs.Outgoing) error { o.Body = ""; return nil },
		"control in it":  func(o *watermillsqs.Outgoing) error { o.Body = "\x01"; return nil },
		"invalid UTF-8":  func(o *watermillsqs.Outgoing) error { o.Body = "\xff"; return nil },
		"delay":          func(o *watermillsqs.Outgoing) error { o.DelaySeconds = 901; return nil },
		"negative delay": func(o *watermillsqs.Outgoing) error { o.DelaySeconds = -1; return nil },
		"attribute": func(o *watermillsqs.Outgoing) error {
			o.Attributes["AWS.x"] = o.Attributes[watermillsqs.UUIDAttribute]
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				pub := h.publisher(watermillsqs.PublisherConfig{Marshaler: wrongMarshaler{wrong: wrong}})
				err := pub.Publish("orders", numbered(15)...)
				failedOf(t, err, 15, 3)
				if name == "error" {
					assert.ErrorIs(t, err, mine)
				} else {
					assert.ErrorIs(t, err, watermillsqs.ErrInvalidMessage)
				}
				assert.Zero(t, h.service.Count())
			})
		})
	}
}

// A message whose context has ended is not sent; the others of the call are.
func TestPublishEndedContext(t *testing.T) {
	cause := errors.New("too late for this one")
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		messages := numbered(25)
		for _, i := range []int{0, 3, 15} {
			messages[i].SetContext(ended)
		}
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...)
		for _, m := range failedOf(t, err, 25, 0, 3, 15).Failed {
			assert.ErrorIs(t, m.Err, cause)
			assert.ErrorContains(t, m.Err, "not sent")
		}
		assert.Equal(t, 22, q.Len())
		assert.ElementsMatch(t, []int{10, 10, 2}, entriesOf(h.service))

		h.service.ResetCalls()
		for _, m := range messages {
			m.SetContext(ended)
		}
		failedOf(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("other", messages...), 25, span(0, 25)...)
		assert.Zero(t, h.service.Count())
	})
}

// A context that ends while the message waits for its turn counts; one that ends
// when it is on the wire does not. (The batches to a FIFO queue take turns.)
func TestPublishContextEndsMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.slowly("SendMessageBatch", 4*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		messages := numbered(25)
		for _, i := range []int{1, 12, 24} { // one in each batch
			messages[i].SetContext(ctx)
		}
		err := h.publisher(watermillsqs.PublisherConfig{
			GroupID: func(_ string, msg *message.Message) string { return msg.UUID },
		}).Publish("orders.fifo", messages...)
		for _, m := range failedOf(t, err, 25, 12, 24).Failed {
			assert.ErrorIs(t, m.Err, context.DeadlineExceeded)
		}
		assert.Equal(t, 23, q.Len())
	})
}

// While the queue is looked up, nothing is on the wire: a lone message that is no
// longer wanted is not sent, and Publish returns at once.
func TestPublishContextEndsDuringLookup(t *testing.T) {
	for _, count := range []int{1, 3} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.slowly("GetQueueUrl", 10*time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				messages := numbered(count)
				messages[0].SetContext(ctx)
				start := time.Now()
				err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...)
				require.Error(t, err)
				assert.Equal(t, count-1, q.Len())
				if count == 1 {
					assert.Equal(t, 2*time.Second, time.Since(start))
				} else {
					failedOf(t, err, count, 0)
				}
			})
		})
	}
}

// A router publishes what a handler produced after the context of the delivery may
// have ended: that context lends its values, never its cancellation.
func TestPublishWithTheContextOfADelivery(t *testing.T) {
	type key struct{}
	for name, wrap := range map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"itself": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"a child": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, key{}, 1), func() {}
		},
		"a child with an end": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
	} {
		for _, count := range []int{1, 12} {
			t.Run(fmt.Sprint(name, " ", count), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					h.queue("in", nil)
					out := h.queue("out", nil)
					h.publish("in", "x")
					_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
					msg := h.next(messages)
					ctx, cancel := wrap(msg.Context())
					defer cancel()
					msg.Ack()
					synctest.Wait()
					require.Error(t, ctx.Err())
					produced := numbered(count)
					for _, m := range produced {
						m.SetContext(ctx)
					}
					require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("out", produced...))
					assert.Equal(t, count, out.Len())
				})
			})
		}
	}
}

// The values of the context reach the calls, for tracing.
func TestPublishLendsValues(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		var seen []any
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			seen = append(seen, r.Context().Value(key{}))
			return next.RoundTrip(r)
		})
		msg := message.NewMessage("1", []byte("x"))
		msg.SetContext(context.WithValue(t.Context(), key{}, "span"))
		require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", msg))
		assert.Equal(t, []any{"span", "span"}, seen)
	})
}

// Publish does not change the messages, whatever becomes of them.
func TestPublishDoesNotChangeMessages(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Message: bodyIs("4"), Effect: sqstest.FailEntry("InternalError", "", false)})
		messages := numbered(14)
		messages[1].Payload = nil
		messages[2].Payload = []byte{0xff, 0x00}
		messages[3].Metadata = nil
		messages[5].UUID = ""
		delay.Message(messages[6], delay.For(time.Minute))
		messages[7].Metadata = message.Metadata{watermillsqs.OutcomeKey: "drop", watermillsqs.RetryAfterKey: "5s", "": "x", "AWS.x": ""}
		for i := range 20 {
			messages[8].Metadata.Set(fmt.Sprint("key", i), "v")
		}
		ctx := t.Context()
		messages[9].SetContext(ctx)
		before := make([]*message.Message, len(messages))
		payloads := make([][]byte, len(messages))
		for i, m := range messages {
			before[i] = &message.Message{UUID: m.UUID, Metadata: maps.Clone(m.Metadata)}
			payloads[i] = bytes.Clone(m.Payload)
		}
		pub := h.publisher(watermillsqs.PublisherConfig{})
		_ = pub.Publish("orders", messages...)
		require.NoError(t, pub.Publish("orders", messages...))
		for i, m := range messages {
			assert.Equal(t, before[i].UUID, m.UUID)
			assert.Equal(t, before[i].Metadata, m.Metadata)
			assert.Equal(t, payloads[i], []byte(m.Payload))
			select {
			case <-m.Acked():
				t.Error("acked")
			case <-m.Nacked():
				t.Error("nacked")
			default:
			}
		}
		assert.Equal(t, ctx, messages[9].Context())
	})
}

// Metadata that this library reserves is not published.
func TestPublishLeavesOutReservedMetadata(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		msg := message.NewMessage("1", []byte("x"))
		watermillsqs.RetryAfter(msg, time.Minute)
		delay.Message(msg, delay.For(time.Minute))
		msg.Metadata.Set("kept", "yes")
		require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", msg))
		attributes := q.Messages()[0].Attributes
		assert.Len(t, attributes, 2)
		assert.Contains(t, attributes, "kept")
		assert.Contains(t, attributes, watermillsqs.UUIDAttribute)
		assert.Len(t, msg.Metadata, 5)
	})
}

// Delay metadata becomes DelaySeconds: what remains of it, rounded up.
func TestPublishDelay(t *testing.T) {
	for _, test := range []struct {
		delay delay.Delay
		later time.Duration // until it is published
		want  int
	}{
		{delay.Delay{}, 0, 0},
		{delay.For(90 * time.Second), 0, 90},
		{delay.For(90 * time.Second), 10500 * time.Millisecond, 80},
		{delay.For(15 * time.Minute), 0, 900},
		{delay.For(time.Minute), time.Minute, 0},
		{delay.For(time.Minute), time.Hour, 0},
	} {
		for _, count := range []int{1, 2} {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				messages := numbered(count)
				for _, msg := range messages {
					if !test.delay.IsZero() {
						msg.Metadata.Set(delay.DelayedForKey, "1h") // the time counts, not this
						msg.Metadata.Set(delay.DelayedUntilKey, time.Now().Add(durationOf(test.delay)).UTC().Format(time.RFC3339))
					}
				}
				time.Sleep(test.later)
				require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...))
				at := time.Now()
				for _, m := range q.Messages() {
					assert.Equal(t, time.Duration(test.want)*time.Second, m.VisibleAt.Sub(at))
				}
				assert.Equal(t, test.want > 0, q.Delayed() == count)
			})
		}
	}
}

// durationOf reads what delay.Delay does not tell.
func durationOf(d delay.Delay) time.Duration {
	msg := message.NewMessage("", nil)
	delay.Message(msg, d)
	duration, err := time.ParseDuration(msg.Metadata.Get(delay.DelayedForKey))
	if err != nil {
		panic(err)
	}
	return duration
}

// A publisher serves many goroutines and topics at once.
func TestPublishConcurrently(t *testing.T) {
	t.Parallel()
	service := sqstest.New(t)
	queues := make([]*sqstest.Queue, 3)
	for i := range queues {
		var err error
		queues[i], err = service.CreateQueue(fmt.Sprint("orders", i), nil)
		require.NoError(t, err)
	}
	cfg := service.AWSConfig()
	conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{AWS: &cfg})
	require.NoError(t, err)
	pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{}, nil)
	require.NoError(t, err)
	shared := message.NewMessage("shared", []byte("x")) // Publish only reads it
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			for range 5 {
				assert.NoError(t, pub.Publish(fmt.Sprint("orders", i%3), append(numbered(11), shared)...))
			}
		})
	}
	group.Wait()
	for _, q := range queues {
		assert.Equal(t, 10*5*12, q.Len())
	}
	assert.Equal(t, 3, service.Count("GetQueueUrl"))
	require.NoError(t, conn.Close())
}
