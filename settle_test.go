package watermillsqs_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
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

// A retry delay that was cut to what is left of the 12 hours, and hung, is not repeated
// as it was: it is too long by then, and the refusal would look like a lost receipt.
func TestRetryAfterThatHung(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.intercept(passThrough) // the attempt ends after 25 s
		h.queue("in", map[string]string{"VisibilityTimeout": "300"})
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.Hang()})
		watermillsqs.RetryAfter(msg, 24*time.Hour)
		msg.Nack()
		start := time.Now()
		again := h.within(messages, 13*time.Hour)
		assert.Greater(t, time.Since(start), 11*time.Hour, "it returns before its delay")
		again.Ack()
	})
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
		outcomes := []watermillsqs.Outcome{h.settled()[0].Outcome, h.settled()[1].Outcome}
		assert.ElementsMatch(t, []watermillsqs.Outcome{watermillsqs.Retried, watermillsqs.Dropped}, outcomes) // the hooks race
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
					h.deleteQueue("dlq")
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
