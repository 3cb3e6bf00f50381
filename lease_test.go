package watermillsqs_test

import (
	"context"
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

// A handler that runs for ten visibility timeouts keeps its message: one receive,
// an extension each half timeout, one delete.
func TestLeaseHeldForTenTimeouts(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		msg := h.next(messages)
		time.Sleep(299 * time.Second)
		assert.NoError(t, msg.Context().Err())
		msg.Ack()
		synctest.Wait()
		assert.Len(t, h.changes(), 19, "at 15 s, 30 s, … 285 s")
		for _, seconds := range h.changes() {
			assert.Equal(t, int32(30), seconds)
		}
		assert.Equal(t, 1, h.deletes())
		assert.Empty(t, h.lost())
	})
}

// Extensions travel ten in a call.
func TestLeaseExtensionsAreBatched(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		for range 25 {
			h.publish("in", "a")
		}
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 25}, "in")
		var last time.Duration
		start := time.Now()
		for range 25 {
			defer h.next(messages).Ack()
			last = time.Since(start)
		}
		require.Less(t, last, time.Second)
		time.Sleep(20 * time.Second)
		assert.Equal(t, 3, h.service.Count("ChangeMessageVisibilityBatch"))
		assert.Equal(t, 0, h.service.Count("ChangeMessageVisibility"))
		assert.Len(t, h.changes(), 25)
	})
}

// What is received and not handed out yet is extended, too.
func TestLeaseFromReceipt(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a", "b", "c")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		time.Sleep(10 * time.Minute)
		for range 3 {
			msg := h.next(messages)
			facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
			assert.Equal(t, 1, facts.ReceiveCount)
			msg.Ack()
		}
		synctest.Wait()
		assert.Equal(t, 0, q.Len())
	})
}

// After 12 hours the service takes the message back. Extensions never ask for more
// than is left, the handler is told, and its ack deletes nothing that is not ours.
func TestLeaseOfTwelveHours(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		msg := h.next(messages)
		start := time.Now()
		<-msg.Context().Done()
		assert.ErrorIs(t, context.Cause(msg.Context()), watermillsqs.ErrLeaseLost)
		assert.InDelta(t, 12*time.Hour, time.Since(start), float64(2*time.Second))
		synctest.Wait() // the context ends first
		for _, call := range h.settlementCalls() {
			assert.Empty(t, call.Code, "the service refused an extension")
		}
		assert.Len(t, h.log.matching("held for as long as it can be"), 1)
		require.Len(t, h.lost(), 1)
		assert.Equal(t, 1, q.Len())
		msg.Nack()
	})
}

// settlementCalls are the deletes and visibility changes that the service has seen.
func (h *harness) settlementCalls() []sqstest.Call {
	return h.service.Calls("DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch")
}

// MaxExtension ends the extensions earlier; negative, there are none.
func TestMaxExtension(t *testing.T) {
	for _, test := range []struct {
		max     time.Duration
		lost    time.Duration
		changes []int32
	}{
		{75 * time.Second, 75 * time.Second, []int32{30, 30, 30}},
		{20 * time.Second, 30 * time.Second, nil},
		{-1, 30 * time.Second, nil},
	} {
		for _, permits := range []int{1, 10} { // with more than one, our own poll may receive it in that instant
			t.Run(fmt.Sprint(test.max, permits), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					h.queue("in", nil)
					h.publish("in", "a")
					_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: permits, MaxExtension: test.max}, "in")
					msg := h.next(messages)
					start := time.Now()
					<-msg.Context().Done()
					assert.Equal(t, test.lost, time.Since(start))
					synctest.Wait() // the context ends first
					assert.ErrorIs(t, context.Cause(msg.Context()), watermillsqs.ErrLeaseLost)
					assert.Equal(t, test.changes, h.changes())
					msg.Ack()
				})
			})
		}
	}
}

// A failed extension is tried again while the lease runs.
func TestLeaseExtensionRetried(t *testing.T) {
	for _, effect := range []sqstest.Effect{
		sqstest.FailEntry("InternalError", "try again", false), sqstest.Error(500, "InternalError", "try again"), sqstest.Hang(),
		sqstest.Error(403, "AccessDenied", "not now"), sqstest.Throttle(),
	} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.queue("in", nil)
			h.publish("in", "a", "b")
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 2}, "in")
			first, second := h.next(messages), h.next(messages)
			fault := h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibilityBatch", Times: 2, Effect: effect})
			time.Sleep(5 * time.Minute)
			assert.Equal(t, 2, fault.Hits())
			assert.NoError(t, first.Context().Err())
			assert.NoError(t, second.Context().Err())
			first.Ack()
			second.Ack()
			synctest.Wait()
			assert.Equal(t, 0, q.Len())
			assert.Empty(t, h.lost())
			for _, msg := range q.Messages() {
				assert.Equal(t, 1, msg.ReceiveCount)
			}
		})
	}
}

// A batch of extensions that is refused as a whole is sent one by one.
func TestExtensionBatchRefused(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.publish("in", strings.Split(strings.Repeat("x", 10), "")...)
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibilityBatch", Times: 1, Effect: sqstest.Error(400, "InvalidParameterValue", "x")})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		var all []*message.Message
		for range 10 {
			all = append(all, h.next(messages))
		}
		time.Sleep(time.Minute + time.Second) // not when they are extended
		for _, m := range all {
			assert.NoError(t, context.Cause(m.Context()))
			m.Ack()
		}
		time.Sleep(time.Minute)
	})
}

// An extension that hung is not repeated with seconds that are too many by then: the
// refusal would look like a lost receipt.
func TestExtensionThatHung(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.intercept(passThrough) // the attempt ends after 25 s
		h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: 8 * time.Hour}}, "in")
		msg := h.next(messages)
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.Hang()})
		time.Sleep(5 * time.Hour)
		assert.NoError(t, context.Cause(msg.Context()), "the lease runs for three more hours")
		msg.Ack()
		synctest.Wait()
	})
}

// Loss by error: the service refuses the receipt.
func TestLeaseLostByError(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		msg := h.next(messages)
		start := time.Now()
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.InvalidateReceipt()})
		<-msg.Context().Done()
		assert.Equal(t, 15*time.Second, time.Since(start))
		assert.ErrorIs(t, context.Cause(msg.Context()), watermillsqs.ErrLeaseLost)
		synctest.Wait()
		assert.Len(t, h.log.matching("lease of a message is lost"), 1)
		msg.Nack()
		synctest.Wait()
		assert.Len(t, h.changes(), 1, "a nack after the loss makes no call")
	})
}

// Loss by our own clock: a standard queue would answer 200 to an extension that
// comes too late.
func TestLeaseLostByClock(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.publish("in", "a")
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Effect: sqstest.Error(500, "InternalError", "down")})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		msg := h.next(messages)
		start := time.Now()
		<-msg.Context().Done()
		assert.Equal(t, 30*time.Second, time.Since(start))
		assert.ErrorIs(t, context.Cause(msg.Context()), watermillsqs.ErrLeaseLost)
		// Its place is taken until the handler has ended.
		h.none(messages, 10*time.Second)
		msg.Nack()
		h.next(messages).Ack()
	})
}

// No extension goes out after the settlement, and a retry waits for the extension
// under way, so that a late one cannot undo it.
func TestRetryWaitsForTheExtensionUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		msg := h.next(messages)
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.HangAfter()})
		time.Sleep(16 * time.Second) // the extension hangs
		start := time.Now()
		msg.Nack()
		again := h.next(messages)
		assert.Equal(t, []int32{30, 0}, h.changes())
		assert.Equal(t, 6500*time.Millisecond, time.Since(start), "half of what was left of the lease, at most")
		again.Ack()
	})
}

// An ack does not wait for the extension under way.
func TestAckDoesNotWaitForTheExtensionUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		msg := h.next(messages)
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.HangAfter()})
		time.Sleep(16 * time.Second)
		msg.Ack()
		synctest.Wait()
		assert.Equal(t, 0, q.Len())
		time.Sleep(time.Minute)
		assert.Empty(t, h.lost())
		assert.Len(t, h.changes(), 1)
	})
}

// A slow hook holds up nobody: the lease of another message is extended meanwhile.
func TestSlowLeaseLostHook(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", map[string]string{"VisibilityTimeout": "4"})
		h.publish("in", "a", "b")
		isA := func(m sqstest.MessageView) bool { return m.Body == "a" }
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibilityBatch", Message: isA, Effect: sqstest.FailEntry("InternalError", "", false)})
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Message: isA, Effect: sqstest.Error(500, "InternalFailure", "")})
		hooks := watermillsqs.Hooks{LeaseLost: func(watermillsqs.LeaseLoss) { time.Sleep(10 * time.Second) }}
		sub, err := watermillsqs.NewSubscriber(h.conn, watermillsqs.SubscriberConfig{MaxInFlight: 2, Hooks: hooks}, h.log)
		require.NoError(t, err)
		messages, err := sub.Subscribe(context.Background(), "in")
		require.NoError(t, err)
		all := map[string]*message.Message{}
		for range 2 {
			msg := h.next(messages)
			all[string(msg.Payload)] = msg
		}
		time.Sleep(15 * time.Second)
		assert.Error(t, all["a"].Context().Err())
		assert.NoError(t, all["b"].Context().Err())
		all["a"].Nack()
		all["b"].Ack()
	})
}
