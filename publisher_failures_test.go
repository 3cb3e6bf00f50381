package watermillsqs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

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
		assert.ElementsMatch(t, []int{10, 10, 5}, entriesOf(h.service))
		want := append(append(numbers(0, 3), numbers(4, 14)...), numbers(15, 25)...)
		assert.ElementsMatch(t, want, bodies(q))
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
				assert.ElementsMatch(t, test.calls, entriesOf(h.service))
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
				assert.ElementsMatch(t, append(numbers(0, 3), numbers(4, 25)...), bodies(q))
			})
		})
	}
}

// An entry that the answer does not mention was not accepted, as far as one knows.
func TestPublishUnansweredEntry(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.rewriteAnswers(func(string) string {
			return `{"Successful":[{"Id":"0","MessageId":"a","MD5OfMessageBody":"cfcd208495d565ef66e7dff9f98764da"}],"Failed":[]}`
		}, "SendMessageBatch")
		failedOf(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(3)...), 3, 1, 2)
	})
}

// The order of an answer's entries means nothing.
func TestPublishAnswerInAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Message: bodyIs("4"), Effect: sqstest.FailEntry("Whatever", "", true)})
		h.rewriteAnswers(func(body string) string {
			var answer map[string][]any
			assert.NoError(t, json.Unmarshal([]byte(body), &answer))
			slices.Reverse(answer["Successful"])
			reversed, err := json.Marshal(answer)
			assert.NoError(t, err)
			return string(reversed)
		}, "SendMessageBatch")
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
					assert.ElementsMatch(t, want, bodies(q), "each once")
				})
			})
		}
	}
}

// A call that fails as a whole although the SDK has tried it again: what it held,
// and what comes after, is named; nothing more is tried. So it is with the first call,
// with those of a FIFO queue, and with what has not left when one fails.
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
				q := h.fifo("orders.fifo", nil)
				h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Skip: 1, Effect: test.effect})
				err := h.publisher(watermillsqs.PublisherConfig{
					GroupID: func(_ string, msg *message.Message) string { return msg.UUID },
				}).Publish("orders.fifo", numbered(35)...)
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

// A message that was stored damaged is reported. It was accepted, so it is not sent
// again.
func TestPublishStoredDamaged(t *testing.T) {
	for _, count := range []int{1, 12} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.rewriteAnswers(func(body string) string {
					// The MD5 of "0" becomes that of "1".
					return strings.ReplaceAll(body, "cfcd208495d565ef66e7dff9f98764da", "c4ca4238a0b923820dcc509a6f75849b")
				}, "SendMessage", "SendMessageBatch")
				err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(count)...)
				failed := failedOf(t, err, count, 0)
				assert.ErrorContains(t, failed.Failed[0].Err, "MD5")
				assert.ErrorContains(t, failed.Failed[0].Err, "accepted")
				assert.Equal(t, count, q.Len(), "once each")
			})
		})
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
				fault := sqstest.Fault{Action: test.action, Effect: sqstest.Hang()}
				if test.action != "GetQueueUrl" {
					fault.Message = bodyIs(numbers(10, 25)...) // all batches but the first
				}
				h.service.Inject(fault)
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
