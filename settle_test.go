package watermillsqs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	pkgerrors "github.com/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// The five rows of the outcome table, each by its calls.
func TestOutcomes(t *testing.T) {
	const redrive = `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dlq","maxReceiveCount":2}`
	for _, test := range []struct {
		name       string
		attributes map[string]string
		verdict    func(msg *message.Message)
		deletes    int
		changes    []int32
		outcome    watermillsqs.Outcome
		back       time.Duration // when the message is back, -1 for never
	}{
		{"ack", nil, func(m *message.Message) { m.Ack() }, 1, nil, watermillsqs.Acked, -1},
		{"nack", nil, func(m *message.Message) { m.Nack() }, 0, []int32{0}, watermillsqs.Retried, 0},
		{"retry", nil, func(m *message.Message) { watermillsqs.Retry(m); m.Nack() }, 0, []int32{0}, watermillsqs.Retried, 0},
		{"retry after 90.2s", nil, func(m *message.Message) {
			watermillsqs.RetryAfter(m, 90200*time.Millisecond)
			m.Nack()
		}, 0, []int32{91}, watermillsqs.Retried, 91 * time.Second},
		{"drop", nil, func(m *message.Message) { watermillsqs.Drop(m); m.Nack() }, 1, nil, watermillsqs.Dropped, -1},
		{"drop below the limit", map[string]string{"RedrivePolicy": redrive},
			func(m *message.Message) { watermillsqs.Drop(m); m.Ack() }, 1, nil, watermillsqs.Dropped, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("dlq", nil)
				q := h.queue("orders", test.attributes)
				h.publish("orders", "a")
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "orders")
				msg := h.next(messages)
				start := time.Now()
				test.verdict(msg)
				synctest.Wait()

				assert.Equal(t, test.deletes, h.deletes())
				assert.Equal(t, test.changes, h.changes())
				require.Len(t, h.settled(), 1)
				assert.Equal(t, test.outcome, h.settled()[0].Outcome)
				assert.NoError(t, h.settled()[0].Err)
				assert.Error(t, msg.Context().Err())
				if test.back < 0 {
					assert.Equal(t, 0, q.Len())
					return
				}
				again := h.within(messages, test.back+time.Second)
				assert.Equal(t, test.back, time.Since(start))
				facts, ok := watermillsqs.DeliveryFromContext(again.Context())
				require.True(t, ok)
				assert.Equal(t, 2, facts.ReceiveCount)
				again.Ack()
			})
		})
	}
}

// What a handler can say, and what comes of it.
func TestPrecedence(t *testing.T) {
	const (
		deleted = -1
		backoff = 7
	)
	fail := errors.New("failed")
	outcomes := watermillsqs.Outcomes
	retry := func(h message.HandlerFunc) message.HandlerFunc {
		return middleware.Retry{MaxRetries: 2, ShouldRetry: watermillsqs.ShouldRetry}.Middleware(h)
	}
	retryAlways := middleware.Retry{MaxRetries: 2}.Middleware
	delayed := (&middleware.DelayOnError{InitialInterval: 90 * time.Second, MaxInterval: time.Hour, Multiplier: 2}).Middleware
	type handler = func(msg *message.Message, run int) error
	use := func(m ...message.HandlerMiddleware) []message.HandlerMiddleware { return m }

	for _, test := range []struct {
		name        string
		middlewares []message.HandlerMiddleware // outermost first
		handler     handler
		want        int32 // the visibility timeout that is asked for, or deleted
		runs        int
	}{
		{"nothing, ack", nil, func(*message.Message, int) error { return nil }, deleted, 1},
		{"nothing, nack: backoff", nil, func(*message.Message, int) error { return fail }, backoff, 1},
		{"retry, nack: no backoff", nil, func(m *message.Message, _ int) error { watermillsqs.Retry(m); return fail }, 0, 1},
		{"retry after, nack", nil, func(m *message.Message, _ int) error { watermillsqs.RetryAfter(m, 100*time.Second); return fail }, 100, 1},
		{"retry after nothing, nack", nil, func(m *message.Message, _ int) error { watermillsqs.RetryAfter(m, -time.Second); return fail }, 0, 1},
		{"retry after, ack", nil, func(m *message.Message, _ int) error { watermillsqs.RetryAfter(m, 100*time.Second); return nil }, deleted, 1},
		{"drop, ack", nil, func(m *message.Message, _ int) error { watermillsqs.Drop(m); return nil }, deleted, 1},
		{"drop, nack", nil, func(m *message.Message, _ int) error { watermillsqs.Drop(m); return fail }, deleted, 1},
		{"the last verdict wins", nil, func(m *message.Message, _ int) error {
			watermillsqs.Drop(m)
			watermillsqs.RetryAfter(m, 9*time.Second)
			return fail
		}, 9, 1},
		{"delay set in this delivery", nil, func(m *message.Message, _ int) error { delay.Message(m, delay.For(30*time.Second)); return fail }, 30, 1},
		{"a verdict beats a delay", nil, func(m *message.Message, _ int) error {
			delay.Message(m, delay.For(30*time.Second))
			watermillsqs.RetryAfter(m, 5*time.Second)
			return fail
		}, 5, 1},
		{"metadata by hand, nack", nil, func(m *message.Message, _ int) error {
			m.Metadata.Set(watermillsqs.OutcomeKey, "retry")
			m.Metadata.Set(watermillsqs.RetryAfterKey, "1m40s")
			return fail
		}, 100, 1},
		{"metadata by hand: drop, nack", nil, func(m *message.Message, _ int) error {
			m.Metadata.Set(watermillsqs.OutcomeKey, "drop")
			return fail
		}, deleted, 1},
		{"metadata by hand that is not valid", nil, func(m *message.Message, _ int) error {
			m.Metadata.Set(watermillsqs.OutcomeKey, "explode")
			return fail
		}, backoff, 1},
		{"a copy that keeps the context", nil, func(m *message.Message, _ int) error {
			watermillsqs.RetryAfter(m.CopyWithContext(), 11*time.Second)
			return fail
		}, 11, 1},
		{"DelayOnError", use(delayed), func(*message.Message, int) error { return fail }, 90, 1},
		{"error: retry after", use(outcomes), func(*message.Message, int) error { return watermillsqs.RetryAfterError(fail, 90200*time.Millisecond) }, 91, 1},
		{"error: drop, wrapped", use(outcomes), func(*message.Message, int) error {
			return fmt.Errorf("outer: %w", pkgerrors.Wrap(watermillsqs.DropError(fail), "inner"))
		}, deleted, 1},
		{"error: nil inside", use(outcomes), func(*message.Message, int) error { return watermillsqs.RetryAfterError(nil, time.Second) }, 1, 1},
		{"error without Outcomes is an error", nil, func(*message.Message, int) error { return watermillsqs.DropError(fail) }, backoff, 1},
		{"IgnoreErrors swallows retry after", use(middleware.NewIgnoreErrors([]error{fail}).Middleware, outcomes),
			func(*message.Message, int) error { return watermillsqs.RetryAfterError(fail, time.Minute) }, deleted, 1},
		{"Retry: drop, then success", use(retryAlways, outcomes), func(_ *message.Message, run int) error {
			if run == 1 {
				return watermillsqs.DropError(fail)
			}
			return nil
		}, deleted, 2},
		{"Retry: drop, then retry after", use(retryAlways, outcomes), func(_ *message.Message, run int) error {
			if run < 3 {
				return watermillsqs.DropError(fail)
			}
			return watermillsqs.RetryAfterError(fail, time.Minute)
		}, 60, 3},
		{"Retry: retry after, then a plain error", use(retryAlways, outcomes), func(_ *message.Message, run int) error {
			if run < 3 {
				return watermillsqs.RetryAfterError(fail, time.Minute)
			}
			return fail
		}, backoff, 3},
		{"ShouldRetry ends Retry on a verdict", use(retry, outcomes), func(*message.Message, int) error {
			return watermillsqs.RetryAfterError(fail, time.Minute)
		}, 60, 1},
		{"ShouldRetry goes on without one", use(retry, outcomes), func(_ *message.Message, run int) error {
			if run < 3 {
				return fail
			}
			return nil
		}, deleted, 3},
		{"Recoverer", use(middleware.Recoverer), func(*message.Message, int) error { panic("x") }, backoff, 1},
		{"Recoverer, after a verdict", use(middleware.Recoverer), func(m *message.Message, _ int) error {
			watermillsqs.RetryAfter(m, time.Minute)
			panic("x")
		}, 60, 1},
		{"Timeout", use(outcomes, middleware.Timeout(time.Second)), func(m *message.Message, _ int) error {
			<-m.Context().Done()
			return watermillsqs.RetryAfterError(m.Context().Err(), time.Minute)
		}, 60, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("in", nil)
				h.publish("in", "a")
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{
					MaxInFlight: 1,
					Backoff:     func(int) time.Duration { return backoff * time.Second },
				}, "in")
				// A router does the same: run the chain, then Ack or Nack.
				runs := 0
				chain := func(msg *message.Message) ([]*message.Message, error) {
					runs++
					return nil, test.handler(msg, runs)
				}
				for _, m := range slices.Backward(test.middlewares) {
					chain = m(chain)
				}
				msg := h.next(messages)
				if _, err := chain(msg); err != nil {
					msg.Nack()
				} else {
					msg.Ack()
				}
				synctest.Wait()

				assert.Equal(t, test.runs, runs)
				if test.want == deleted {
					assert.Equal(t, 0, q.Len())
					assert.Empty(t, h.changes())
					return
				}
				assert.Equal(t, []int32{test.want}, h.changes())
				assert.Equal(t, 0, h.deletes())
			})
		})
	}
}

// After InstantAck the handler still writes metadata, verbs included, while the
// message is settled; run with -race.
func TestInstantAck(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		msg.Ack()
		for i := range 1000 {
			msg.Metadata.Set(fmt.Sprint(i), "x")
			watermillsqs.RetryAfter(msg, time.Second)
			watermillsqs.Drop(msg)
		}
		synctest.Wait()
		assert.Equal(t, 0, q.Len())
	})
}

// What a message was published with takes effect once: a delayed message that is
// nacked is not delayed again.
func TestPublishedDelayIsNotARetryDelay(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		msg := message.NewMessage("1", []byte("a"))
		delay.Message(msg, delay.For(20*time.Second))
		require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("in", msg))
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		start := time.Now()
		got := h.next(messages)
		assert.Equal(t, 20*time.Second, time.Since(start))
		assert.Empty(t, got.Metadata)
		got.Nack()
		h.next(messages).Ack()
		assert.Equal(t, 20*time.Second, time.Since(start))
	})
}

// A delay past the 12 hours is cut to what is left of them, with a warning that
// names the queue. The service would refuse it.
func TestRetryAfterIsCutToTwelveHours(t *testing.T) {
	for _, test := range []struct {
		held, after time.Duration
		want        int32
	}{
		{0, 12 * time.Hour, 43199},
		{0, 1 << 62, 43199},
		{time.Hour, 11*time.Hour + 30*time.Minute, 43199 - 3600},
		{time.Hour, 10 * time.Hour, 36000},
	} {
		t.Run(fmt.Sprint(test.held, test.after), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("in", map[string]string{"VisibilityTimeout": "7200"})
				h.publish("in", "a")
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
				msg := h.next(messages)
				time.Sleep(test.held)
				h.service.ResetCalls()
				watermillsqs.RetryAfter(msg, test.after)
				msg.Nack()
				synctest.Wait()
				changes := h.changes()
				assert.Equal(t, test.want, changes[len(changes)-1])
				warnings := h.log.matching("delay is shortened")
				if test.after == 10*time.Hour {
					assert.Empty(t, warnings)
					return
				}
				require.Len(t, warnings, 1)
				assert.Contains(t, warnings[0], "queue:in")
				assert.NoError(t, h.settled()[0].Err)
			})
		})
	}
}

// Drop at the redrive limit gives the message back, and the next receive moves it
// to the dead-letter queue.
func TestDropAtTheRedriveLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dlq := h.queue("dlq", nil)
		q := h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dlq, 2)})
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		h.next(messages).Nack()
		last := h.next(messages)
		watermillsqs.Drop(last)
		last.Ack()
		synctest.Wait()
		assert.Equal(t, []int32{0, 0}, h.changes())
		assert.Equal(t, 0, h.deletes())
		assert.Equal(t, 0, q.Len(), "our own poll moves it, though the queue is idle")
		assert.Equal(t, 1, dlq.Len())
		assert.Equal(t, watermillsqs.Dropped, h.settled()[1].Outcome)
	})
}

// Received more often than the policy allows, SQS did not move the message: the
// policy is read again, at most once a minute.
func TestDropPastTheRedriveLimit(t *testing.T) {
	for _, gone := range []bool{true, false} {
		t.Run(fmt.Sprintf("policy gone %v", gone), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				dlq := h.queue("dlq", nil)
				q := h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dlq, 1)})
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
				if !gone {
					// The dead-letter queue is gone, so the message stays where it is.
					_, err := h.service.Client().DeleteQueue(t.Context(), deleteQueueInput(dlq.URL()))
					require.NoError(t, err)
				} else {
					setAttribute(h, q, "RedrivePolicy", "")
				}
				h.publish("in", "a")
				h.next(messages).Nack()
				synctest.Wait()
				h.service.ResetCalls()
				for range 3 {
					msg := h.next(messages)
					watermillsqs.Drop(msg)
					msg.Nack()
					synctest.Wait()
					if gone {
						break
					}
				}
				assert.Equal(t, 1, h.service.Count("GetQueueAttributes"), "once a minute")
				if gone {
					assert.Equal(t, 0, q.Len())
					assert.Equal(t, 1, h.deletes())
					return
				}
				assert.Equal(t, 1, q.Len())
				assert.Equal(t, []int32{1, 1, 1}, h.changes(), "never a hot loop")
				assert.NotEmpty(t, h.log.matching("SQS has not moved it"))
			})
		})
	}
}

// A settlement that fails is tried again while the lease runs, with a call of its
// own; what cannot be settled is reported.
func TestSettlementRetries(t *testing.T) {
	for name, effect := range map[string]sqstest.Effect{
		"failed entry": sqstest.FailEntry("InternalError", "again", false),
		"failed call":  sqstest.Error(500, "InternalError", "again"),
		"throttled":    sqstest.Throttle(),
		"hang":         sqstest.Hang(),
		"lost answer":  sqstest.LoseAnswer(),
	} {
		for _, ack := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ack %v", name, ack), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					q := h.queue("in", nil)
					h.publish("in", "a")
					action := "ChangeMessageVisibility"
					if ack {
						action = "DeleteMessage"
					}
					// The SDK itself tries three times.
					fault := h.service.Inject(sqstest.Fault{Action: action, Times: 4, Effect: effect})
					_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
					msg := h.next(messages)
					if ack {
						msg.Ack()
					} else {
						watermillsqs.RetryAfter(msg, time.Hour)
						msg.Nack()
					}
					time.Sleep(29 * time.Second)
					require.Len(t, h.settled(), 1)
					if name == "hang" { // half of what is left of the lease, each: 15, 7.5, 3.75, 1.9 s
						assert.NotZero(t, fault.Hits())
					} else {
						assert.Equal(t, 4, fault.Hits())
					}
					assert.NoError(t, h.settled()[0].Err)
					if ack {
						assert.Equal(t, 0, q.Len())
					} else {
						assert.Equal(t, 1, q.InFlight())
					}
				})
			})
		}
	}
}

func TestSettlementFailureIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.publish("in", "a")
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Effect: sqstest.Error(400, "AccessDenied", "no")})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		h.next(messages).Nack()
		again := h.next(messages) // when the lease has ended; the subscription goes on
		require.Len(t, h.settled(), 1)
		assert.Error(t, h.settled()[0].Err)
		failures := h.log.matching("Settling a message failed")
		require.Len(t, failures, 1)
		assert.Contains(t, failures[0], "queue:in")
		assert.Contains(t, failures[0], "outcome:retried")
		assert.Contains(t, failures[0], h.settled()[0].MessageID)
		again.Ack()
	})
}

// An undecodable message is reported, holds up nobody, and comes back later and
// later, so that a redrive policy collects it.
func TestUndecodable(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dlq := h.queue("dlq", nil)
		q := h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dlq, 4)})
		_, err := h.service.Client().SendMessage(t.Context(), sendInput(q.URL(), "%%%", watermillsqs.BodyEncodingAttribute, "base64"))
		require.NoError(t, err)
		h.publish("in", "good")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		assert.Equal(t, "good", string(msg.Payload))
		msg.Ack()
		h.none(messages, time.Minute)
		assert.Equal(t, []int32{1, 2, 4, 8}, h.changes())
		assert.Equal(t, 1, dlq.Len())
		assert.Equal(t, 0, q.Len())
		h.mu.Lock()
		defer h.mu.Unlock()
		require.Len(t, h.failures, 4)
		assert.ErrorIs(t, h.failures[0].Err, watermillsqs.ErrUndecodable)
		for _, line := range h.log.matching("cannot be decoded") {
			assert.NotContains(t, line, "%%%", "payloads are not logged")
		}
	})
}

// Retries that could not be sent while their lease ran are not sent after it: another
// consumer may have the message.
func TestRetriesAreNotSentAfterTheirLease(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", map[string]string{"VisibilityTimeout": "2"})
		for range 10 {
			h.publish("in", strings.Split(strings.Repeat("x", 20), "")...)
		}
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Effect: sqstest.Hang()})
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibilityBatch", Effect: sqstest.Hang()})
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 200}, "in")
		start := time.Now()
		var all []*message.Message
		for range 200 {
			all = append(all, h.next(messages))
		}
		require.Less(t, time.Since(start), 10*time.Millisecond)
		for _, m := range all {
			m.Nack()
		}
		time.Sleep(1900 * time.Millisecond)
		go sub.Close()
		time.Sleep(10 * time.Second)
		late := 0
		for _, call := range h.service.Calls("ChangeMessageVisibility", "ChangeMessageVisibilityBatch") {
			if call.At.Sub(start) > 2*time.Second+10*time.Millisecond {
				late += call.Entries
			}
		}
		assert.Equal(t, 0, late, "entries sent after the lease of their message")
	})
}

// The context of a message ends at its verdict, also while the redrive policy is read
// again.
func TestContextEndsAtTheVerdict(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dlq := h.queue("dlq", nil)
		q := h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dlq, 1)})
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		setAttribute(h, q, "RedrivePolicy", "")
		h.next(messages).Nack()
		msg := h.next(messages) // count 2
		h.service.Inject(sqstest.Fault{Action: "GetQueueAttributes", Effect: sqstest.Hang()})
		watermillsqs.Drop(msg)
		msg.Nack()
		synctest.Wait()
		assert.Error(t, msg.Context().Err())
		time.Sleep(time.Minute)
	})
}

type zeroMarshaler struct{ watermillsqs.DefaultMarshaler }

func (zeroMarshaler) Unmarshal(string, types.Message) (*message.Message, error) {
	return &message.Message{UUID: "x", Payload: []byte("p")}, nil
}

// A marshaler that makes its message without NewMessage.
func TestMarshalerWithoutNewMessage(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Marshaler: zeroMarshaler{}}, "in")
		h.next(messages).Ack()
		time.Sleep(time.Minute)
		assert.Equal(t, 0, q.Len())
	})
}
