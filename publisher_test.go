package watermillsqs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// readAll reads the body of a request and leaves it as it was.
func readAll(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	replaceBody(r, string(body))
	return string(body)
}

func replaceBody(r *http.Request, body string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

func replaceResponse(r *http.Response, body string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

// numbered are messages whose UUID and payload are their number.
func numbered(n int) []*message.Message {
	messages := make([]*message.Message, n)
	for i := range messages {
		messages[i] = message.NewMessage(fmt.Sprint(i), []byte(fmt.Sprint(i)))
	}
	return messages
}

// bodies are what the queue holds, in the order it was sent.
func bodies(q *sqstest.Queue) (bodies []string) {
	for _, m := range q.Messages() {
		bodies = append(bodies, m.Body)
	}
	return bodies
}

// numbers are the bodies of numbered messages, those from i to j.
func numbers(i, j int) (bodies []string) {
	for ; i < j; i++ {
		bodies = append(bodies, fmt.Sprint(i))
	}
	return bodies
}

// entriesOf are the sizes of the send calls so far, in messages.
func entriesOf(service *sqstest.Service) (sizes []int) {
	for _, call := range service.Calls("SendMessage", "SendMessageBatch") {
		sizes = append(sizes, call.Entries)
	}
	return sizes
}

// failedOf asserts that an error is a PublishError that names just these messages of
// a call with numbered ones, and returns it.
func failedOf(t *testing.T, err error, count int, indexes ...int) *watermillsqs.PublishError {
	t.Helper()
	var failed *watermillsqs.PublishError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, count, failed.Messages)
	got := []int{}
	for _, m := range failed.Failed {
		got = append(got, m.Index)
		assert.Equal(t, fmt.Sprint(m.Index), m.UUID)
		assert.Error(t, m.Err)
		assert.ErrorIs(t, err, m.Err)
	}
	require.Equal(t, indexes, got)
	return failed
}

func span(i, j int) (indexes []int) {
	for ; i < j; i++ {
		indexes = append(indexes, i)
	}
	return indexes
}

// bodyIs makes a fault hit the message with a body.
func bodyIs(bodies ...string) func(sqstest.MessageView) bool {
	return func(m sqstest.MessageView) bool {
		return slices.Contains(bodies, m.Body)
	}
}

// One message is one call, and several travel in batches of ten, in order.
func TestPublishBatches(t *testing.T) {
	for count, calls := range map[int][]int{
		0: nil, 1: {1}, 2: {2}, 9: {9}, 10: {10}, 11: {10, 1}, 12: {10, 2}, 20: {10, 10}, 21: {10, 10, 1}, 35: {10, 10, 10, 5},
	} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(count)...))
				assert.Equal(t, calls, entriesOf(h.service))
				assert.Equal(t, numbers(0, count), bodies(q))
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
				assert.Equal(t, test.calls, entriesOf(h.service))
				for i, body := range bodies(q) {
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

// An entry that fails through a fault of its own is reported and not sent again. The
// others, and those after it, are sent.
func TestPublishEntryAtFault(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		fault := h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Message: bodyIs("3", "14"), Effect: sqstest.FailEntry("InvalidParameterValue", "too long for this queue", true)})
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(25)...)
		failed := failedOf(t, err, 25, 3, 14)
		for _, m := range failed.Failed {
			assert.ErrorContains(t, m.Err, "too long for this queue")
			var coded interface{ ErrorCode() string }
			require.ErrorAs(t, m.Err, &coded)
			assert.Equal(t, "InvalidParameterValue", coded.ErrorCode())
		}
		assert.Equal(t, 2, fault.Hits())
		assert.Equal(t, []int{10, 10, 5}, entriesOf(h.service))
		want := append(append(numbers(0, 3), numbers(4, 14)...), numbers(15, 25)...)
		assert.Equal(t, want, bodies(q))
	})
}

// The real thing: an entry over the queue's own limit.
func TestPublishOverTheQueuesLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", map[string]string{"MaximumMessageSize": "1024"})
		messages := numbered(5)
		messages[2].Payload = bytes.Repeat([]byte("x"), 2000)
		failedOf(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...), 5, 2)
		assert.Equal(t, 4, q.Len())
		assert.Equal(t, []int{5}, entriesOf(h.service))
	})
}

// An entry that fails alone and not through its own fault is sent again alone, up to
// three times in all, with a pause.
func TestPublishEntryAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		bodies []string
		fault  sqstest.Fault
		calls  []int
		failed []int
	}{
		{"one, once", []string{"3"}, sqstest.Fault{Times: 1}, []int{10, 1, 10, 5}, nil},
		{"two, once", []string{"3", "7"}, sqstest.Fault{Times: 2}, []int{10, 2, 10, 5}, nil},
		{"two, one of them twice", []string{"3", "7"}, sqstest.Fault{Times: 3}, []int{10, 2, 1, 10, 5}, nil},
		{"two, for ever", []string{"3", "7"}, sqstest.Fault{}, []int{10, 2, 2, 10, 5}, []int{3, 7}},
		{"all of a batch, for ever", numbers(10, 20), sqstest.Fault{}, []int{10, 10, 10, 10, 5}, span(10, 20)},
		{"throttled for ever", []string{"3", "7"}, sqstest.Fault{Effect: sqstest.FailEntry("RequestThrottled", "", false)}, []int{10, 2, 2, 10, 5}, []int{3, 7}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				test.fault.Action, test.fault.Message = "SendMessageBatch", bodyIs(test.bodies...)
				if test.name != "throttled for ever" {
					test.fault.Effect = sqstest.FailEntry("InternalError", "on our side", false)
				}
				fault := h.service.Inject(test.fault)
				start := time.Now()
				err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(25)...)
				if test.failed == nil {
					require.NoError(t, err)
				} else {
					failedOf(t, err, 25, test.failed...)
					assert.Equal(t, 3*len(test.failed), fault.Hits())
				}
				assert.Positive(t, time.Since(start), "not at once")
				assert.LessOrEqual(t, time.Since(start), 2*time.Second)
				assert.Equal(t, test.calls, entriesOf(h.service))
				assert.Equal(t, 25-len(test.failed), q.Len(), "none of them twice")
				seen := map[string]int{}
				for _, body := range bodies(q) {
					seen[body]++
				}
				assert.Len(t, seen, 25-len(test.failed))
			})
		})
	}
}

// An entry that fails alone for ever, also where it is tried in a call of its own, is
// its own misfortune: the others of the call are sent.
func TestPublishEntryFailsAloneForEver(t *testing.T) {
	for name, effect := range map[string]sqstest.Effect{
		"on our side":    sqstest.FailEntry("InternalError", "", false),
		"sender's fault": sqstest.FailEntry("SomeFault", "", true), // on its own, only
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Message: bodyIs("3"), Effect: sqstest.FailEntry("InternalError", "", false)})
				h.service.Inject(sqstest.Fault{Action: "SendMessage", Message: bodyIs("3"), Effect: effect})
				err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(25)...)
				failedOf(t, err, 25, 3)
				assert.Equal(t, append(numbers(0, 3), numbers(4, 25)...), bodies(q))
			})
		})
	}
}

// An entry that the answer does not mention was not accepted, as far as one knows.
func TestPublishUnansweredEntry(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if actionOf(r) == "SendMessageBatch" {
				replaceResponse(response, `{"Successful":[{"Id":"0","MessageId":"a","MD5OfMessageBody":"cfcd208495d565ef66e7dff9f98764da"}],"Failed":[]}`)
			}
			return response, err
		})
		failedOf(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(3)...), 3, 1, 2)
	})
}

// The order of an answer's entries means nothing.
func TestPublishAnswerInAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Message: bodyIs("4"), Effect: sqstest.FailEntry("Whatever", "", true)})
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if actionOf(r) == "SendMessageBatch" {
				body, _ := io.ReadAll(response.Body)
				var answer map[string][]any
				if err := json.Unmarshal(body, &answer); err != nil {
					return nil, err
				}
				for i, j := 0, len(answer["Successful"])-1; i < j; i, j = i+1, j-1 {
					answer["Successful"][i], answer["Successful"][j] = answer["Successful"][j], answer["Successful"][i]
				}
				body, _ = json.Marshal(answer)
				replaceResponse(response, string(body))
			}
			return response, err
		})
		failedOf(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(10)...), 10, 4)
	})
}

// Where SQS refuses a whole request for what one message contains, the others get a
// request of their own.
func TestPublishRequestAtFault(t *testing.T) {
	for _, code := range []string{"InvalidParameterValue", "InvalidMessageContents", "MissingParameter", "InvalidAttributeValue"} {
		for _, poison := range [][]int{{0}, {13}, {19}, {10, 15, 24}} {
			t.Run(fmt.Sprint(code, poison), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					q := h.queue("orders", nil)
					var wrong []string
					isPoison := map[int]bool{}
					for _, i := range poison {
						wrong = append(wrong, fmt.Sprint(i))
						isPoison[i] = true
					}
					h.service.Inject(sqstest.Fault{Message: bodyIs(wrong...), Effect: sqstest.Error(400, code, "one of them is poison")})
					err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(25)...)
					for _, m := range failedOf(t, err, 25, poison...).Failed {
						assert.ErrorContains(t, m.Err, "poison")
					}
					var want []string
					for i := range 25 {
						if !isPoison[i] {
							want = append(want, fmt.Sprint(i))
						}
					}
					assert.Equal(t, want, bodies(q), "in order, each once")
				})
			})
		}
	}
}

// A call that fails as a whole although the SDK has tried it again: what it held,
// and what comes after, is named; nothing more is tried.
func TestPublishCallFails(t *testing.T) {
	for name, test := range map[string]struct {
		effect   sqstest.Effect
		attempts int
		says     string
	}{
		"throttled":    {sqstest.Throttle(), 3, "RequestThrottled"},
		"500":          {sqstest.Error(500, "InternalFailure", "on our side"), 3, "on our side"},
		"denied":       {sqstest.Error(403, "AccessDenied", "not you"), 1, "not you"},
		"broken":       {sqstest.LoseAnswer(), 3, "EOF"},
		"queue gone":   {sqstest.Error(0, "QueueDoesNotExist", "it is gone"), 2, "it is gone"},
		"wrong region": {sqstest.Error(0, "InvalidAddress", "elsewhere"), 1, "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Skip: 1, Effect: test.effect})
				err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(35)...)
				failed := failedOf(t, err, 35, span(10, 35)...)
				for _, m := range failed.Failed {
					assert.ErrorContains(t, m.Err, test.says)
					if m.Index >= 20 {
						assert.ErrorContains(t, m.Err, "not sent")
					} else {
						assert.NotContains(t, m.Err.Error(), "not sent")
					}
				}
				assert.Equal(t, 1+test.attempts, h.service.Count("SendMessageBatch"))
				assert.Equal(t, numbers(0, 10), bodies(q)[:10])
			})
		})
	}
}

// A service that fails once, or an answer that is lost, is no failure of Publish.
func TestPublishSurvivesAFault(t *testing.T) {
	for name, test := range map[string]struct {
		effect sqstest.Effect
		stored int
	}{
		"throttled":   {sqstest.Throttle(), 1},
		"500":         {sqstest.Error(500, "InternalFailure", ""), 1},
		"503":         {sqstest.Error(503, "ServiceUnavailable", ""), 1},
		"answer lost": {sqstest.LoseAnswer(), 2},
		"queue gone":  {sqstest.Error(0, "QueueDoesNotExist", ""), 1},
	} {
		for _, count := range []int{1, 10} {
			t.Run(fmt.Sprint(name, " ", count), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					q := h.queue("orders", nil)
					for _, action := range []string{"SendMessage", "SendMessageBatch"} {
						h.service.Inject(sqstest.Fault{Action: action, Times: 1, Effect: test.effect})
					}
					require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(count)...))
					assert.Equal(t, test.stored*count, q.Len())
					assert.Equal(t, []int{count, count}, entriesOf(h.service))
				})
			})
		}
	}
}

// Publish takes no longer than PublishTimeout, whatever hangs.
func TestPublishTimeout(t *testing.T) {
	for _, test := range []struct {
		action    string
		timeout   time.Duration
		published int
	}{
		{"SendMessageBatch", 0, 10},
		{"SendMessageBatch", 5 * time.Second, 10},
		{"GetQueueUrl", 5 * time.Second, 0},
	} {
		t.Run(fmt.Sprint(test.action, test.timeout), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				skip := 1
				if test.action == "GetQueueUrl" {
					skip = 0
				}
				h.service.Inject(sqstest.Fault{Action: test.action, Skip: skip, Effect: sqstest.Hang()})
				start := time.Now()
				err := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: test.timeout}).Publish("orders", numbered(25)...)
				want := test.timeout
				if want == 0 {
					want = 30 * time.Second
				}
				assert.Equal(t, want, time.Since(start))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if test.published > 0 {
					failedOf(t, err, 25, span(10, 25)...)
				}
				assert.Equal(t, test.published, q.Len())
			})
		})
	}
}

// A failed lookup, too, leaves it to no guess what was sent: nothing.
func TestPublishLookupFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.service.Inject(sqstest.Fault{Action: "GetQueueUrl", Effect: sqstest.Error(403, "AccessDenied", "not you")})
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(3)...)
		require.ErrorContains(t, err, "not you")
		assert.ErrorContains(t, err, `"orders"`)
		assert.Zero(t, h.service.Count("SendMessage", "SendMessageBatch"))
		var failed *watermillsqs.PublishError
		if assert.ErrorAs(t, err, &failed, "spec §6: an error that names, per message, what failed (errors.As to *PublishError)") {
			failedOf(t, err, 3, 0, 1, 2)
		}
	})
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
		assert.Equal(t, []int{10, 10, 2}, entriesOf(h.service))

		h.service.ResetCalls()
		for _, m := range messages {
			m.SetContext(ended)
		}
		failedOf(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("other", messages...), 25, span(0, 25)...)
		assert.Zero(t, h.service.Count())
	})
}

// A context that ends while the message waits for its turn counts; one that ends
// when it is on the wire does not.
func TestPublishContextEndsMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.slowly("SendMessageBatch", 4*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		messages := numbered(25)
		for _, i := range []int{1, 12, 24} { // one in each batch
			messages[i].SetContext(ctx)
		}
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...)
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

// A message that was stored damaged is reported. It was accepted, so it is not sent
// again.
func TestPublishStoredDamaged(t *testing.T) {
	for _, count := range []int{1, 12} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
					response, err := next.RoundTrip(r)
					if err == nil && strings.HasPrefix(actionOf(r), "SendMessage") {
						body, _ := io.ReadAll(response.Body)
						// The MD5 of "0" becomes that of "1".
						replaceResponse(response, strings.ReplaceAll(string(body), "cfcd208495d565ef66e7dff9f98764da", "c4ca4238a0b923820dcc509a6f75849b"))
					}
					return response, err
				})
				err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(count)...)
				failed := failedOf(t, err, count, 0)
				assert.ErrorContains(t, failed.Failed[0].Err, "MD5")
				assert.ErrorContains(t, failed.Failed[0].Err, "accepted")
				assert.Equal(t, count, q.Len(), "once each")
			})
		})
	}
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

// Callers of a queue that was deleted and recreated all find it again.
func TestPublishConcurrentlyWhenTheQueueMoves(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		m := h.moving(func(*http.Response) {})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
		m.move()
		h.service.ResetCalls()
		var group sync.WaitGroup
		for range 30 {
			group.Go(func() { assert.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x")))) })
		}
		group.Wait()
		assert.Equal(t, 31, q.Len())
		assert.LessOrEqual(t, h.service.Count("GetQueueUrl"), 30)
		h.service.ResetCalls()
		require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
		assert.Zero(t, h.service.Count("GetQueueUrl"))
	})
}

// Nothing to a nil logger.
func TestNilLogger(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.queue("dlq", nil)
		pub, sub := handles(t, h.conn)
		require.NoError(t, pub.Publish("orders", numbered(3)...))
		messages, err := sub.Subscribe(t.Context(), "orders")
		require.NoError(t, err)
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.Error(403, "AccessDenied", "")})
		for range 3 {
			h.next(messages).Ack()
		}
		assert.Error(t, pub.Publish("missing", numbered(1)...))
		require.NoError(t, sub.Close())
	})
}

// Payloads are never logged.
func TestPayloadsAreNotLogged(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "SendMessage", Skip: 1, Effect: sqstest.Error(400, "InvalidParameterValue", "no")})
		h.publish("orders", "top-secret")
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", message.NewMessage("1", []byte("top-secret")))
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "top-secret")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		h.next(messages).Ack()
		assert.Empty(t, h.log.matching("top-secret"))
		assert.NotEmpty(t, h.log.matching("Publishing"))
	})
}

// The text of a PublishError is bounded; its list is not.
func TestPublishErrorText(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Effect: sqstest.Error(0, "QueueDoesNotExist", "")})
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(1000)...)
		failedOf(t, err, 1000, span(0, 1000)...)
		assert.Less(t, len(err.Error()), 4000)
		assert.ErrorContains(t, err, "1000 of 1000")
		assert.ErrorContains(t, err, "995 more")
		var missing *types.QueueDoesNotExist
		assert.ErrorAs(t, err, &missing)
	})
}
