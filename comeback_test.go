package watermillsqs_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// The cases of a message that comes back to the process that still has it.

// Undecided: the newest receipt counts, and the message is not handed out again.
func TestComebackUndecided(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		// Somebody makes it visible; our own poll gets it.
		makeVisible(h, q)
		h.none(messages, time.Minute)
		facts, ok := watermillsqs.DeliveryFromContext(msg.Context())
		require.True(t, ok)
		assert.Equal(t, 2, facts.ReceiveCount)
		assert.NoError(t, msg.Context().Err())
		msg.Ack()
		synctest.Wait()
		assert.Equal(t, 0, q.Len(), "deleted under the newest receipt")
		assert.Equal(t, 1, h.deletes())
	})
}

// An answer that was under way for long brings a receipt that is older than the one in
// hand, and worth nothing.
func TestOlderReceipt(t *testing.T) {
	var slow atomic.Bool
	slow.Store(true)
	bubble(t, func(t *testing.T, h *harness) {
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if actionOf(r) == "ReceiveMessage" && slow.CompareAndSwap(true, false) {
				time.Sleep(5 * time.Second)
			}
			return response, err
		})
		q := h.queue("in", map[string]string{"VisibilityTimeout": "3"})
		h.publish("in", "a")
		_, one := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		synctest.Wait()
		_, two := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(two) // at 3 s, count 2; at 5 s comes the answer with count 1
		time.Sleep(2500 * time.Millisecond)
		facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
		assert.Equal(t, 2, facts.ReceiveCount, "the newest receipt counts")
		assert.NoError(t, context.Cause(msg.Context()))
		msg.Ack()
		select {
		case again := <-one:
			t.Error("handled again although it was acked in time")
			again.Ack()
		case again := <-two:
			t.Error("handled again although it was acked in time")
			again.Ack()
		case <-time.After(time.Minute):
		}
		assert.Equal(t, 0, q.Len())
	})
}

// Its delete hangs or fails: it is deleted under the new receipt, not handled again.
func TestComebackAcked(t *testing.T) {
	for name, effect := range map[string]sqstest.Effect{
		"under way":   sqstest.Hang(),
		"unconfirmed": sqstest.Error(500, "InternalError", "down"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("in", map[string]string{"VisibilityTimeout": "10"})
				h.publish("in", "a")
				fault := h.service.Inject(sqstest.Fault{Action: "DeleteMessage", Effect: effect})
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
				h.next(messages).Ack()
				time.Sleep(9900 * time.Millisecond)
				fault.Remove()
				h.none(messages, time.Minute)
				assert.Equal(t, 0, q.Len())
			})
		})
	}
}

// Its retry is under way, in effect but not answered: it is a fresh delivery, and
// the old retry is not sent again.
func TestComebackRetried(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.HangAfter()})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		h.next(messages).Nack()
		again := h.next(messages)
		facts, _ := watermillsqs.DeliveryFromContext(again.Context())
		assert.Equal(t, 2, facts.ReceiveCount)
		time.Sleep(14 * time.Second) // before it is extended, after the old call gave up or not
		assert.Equal(t, []int32{0}, h.changes())
		again.Ack()
		time.Sleep(time.Minute)
		assert.Equal(t, 0, q.Len())
		require.Len(t, h.settled(), 2)
		for _, settled := range h.settled() {
			assert.NoError(t, settled.Err)
		}
	})
}

// Nor does the SDK repeat a retry whose answer was lost: the message may have a new
// handler by then.
func TestRetryIsNotRepeatedByTheSDK(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 2}, "in")
		msg := h.next(messages)
		synctest.Wait() // the next poll is under way
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.LoseAnswer()})
		msg.Nack()
		again := h.within(messages, time.Millisecond)
		time.Sleep(5 * time.Second)
		assert.Equal(t, 2, q.Messages()[0].ReceiveCount, "it was visible while its handler has it")
		assert.Len(t, h.changes(), 1, "the old retry is not repeated")
		again.Ack()
	})
}

// After a lost lease it is handed out once the old handler has said its verdict,
// and deleted if that was an ack.
func TestComebackAfterLoss(t *testing.T) {
	for _, ack := range []bool{true, false} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.queue("in", nil)
			h.publish("in", "a")
			fault := h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Effect: sqstest.Error(500, "InternalError", "down")})
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
			msg := h.next(messages)
			<-msg.Context().Done()
			fault.Remove()
			time.Sleep(time.Second) // received again
			count := q.Messages()[0].ReceiveCount
			assert.Greater(t, count, 1)
			h.none(messages, 10*time.Minute) // and kept, its lease extended
			assert.Equal(t, count, q.Messages()[0].ReceiveCount)
			if ack {
				msg.Ack()
				h.none(messages, 10*time.Minute)
				assert.Equal(t, 0, q.Len())
				return
			}
			msg.Nack()
			again := h.next(messages)
			again.Ack()
			synctest.Wait()
			assert.Equal(t, 0, q.Len())
		})
	}
}

// An ack after the lease was lost tries one delete, and is remembered.
func TestAckAfterLossIsRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.InvalidateReceipt()})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		<-msg.Context().Done()
		msg.Ack()
		synctest.Wait()
		assert.Equal(t, 1, h.deletes(), "one delete is tried")
		assert.Equal(t, 1, q.Len(), "somebody else has it")
		h.none(messages, time.Hour) // it comes back when that receipt's time is over
		assert.Equal(t, 0, q.Len())
		assert.Equal(t, 2, h.deletes())
	})
}

// Two subscriptions of a connection to one queue have one entry a message.
func TestComebackToAnotherSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, one := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		msg := h.next(one)
		_, two := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		makeVisible(h, q)
		h.none(two, time.Minute)
		msg.Ack()
		synctest.Wait()
		assert.Equal(t, 0, q.Len())
	})
}

// makeVisible ends the visibility timeout of everything in the queue, as another
// holder of the receipts could.
func makeVisible(h *harness, q *sqstest.Queue) {
	h.t.Helper()
	for _, msg := range q.Messages() {
		_, err := h.service.Client().ChangeMessageVisibility(h.t.Context(), changeVisibilityInput(q.URL(), msg.Receipt, 0))
		require.NoError(h.t, err)
	}
	h.service.ResetCalls()
}

// A second lease of the message is lost while it waits for the first handler: it is
// still not handed out before that one has ended.
func TestLeaseLostTwice(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", map[string]string{"VisibilityTimeout": "5"})
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxExtension: -1}, "in")
		first := h.next(messages)
		select {
		case again := <-messages:
			t.Error("handed out again while its first handler runs")
			again.Nack()
		case <-time.After(time.Minute):
		}
		first.Ack()
		time.Sleep(time.Minute)
	})
}

// The ack of the first handler counts, whatever became of the leases since.
func TestAckAfterTwoLosses(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", map[string]string{"VisibilityTimeout": "5"})
		h.publish("in", "a")
		// One in hand and one permit: the second delivery waits, the third is not
		// received before the first handler has acked.
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxExtension: -1, MaxInFlight: 2}, "in")
		first := h.next(messages)
		<-first.Context().Done()
		time.Sleep(4 * time.Second) // received again and waiting
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 3, Effect: sqstest.Error(500, "InternalFailure", "")})
		time.Sleep(1100 * time.Millisecond) // the second is lost at 5 s
		first.Ack()
		select {
		case again := <-messages:
			t.Error("handled again although it was acked")
			again.Ack()
		case <-time.After(time.Minute):
		}
		assert.Equal(t, 0, q.Len())
	})
}

// It counts, too, when a Close has given the waiting delivery back.
func TestAckAfterLossDuringClose(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", map[string]string{"VisibilityTimeout": "5"})
		h.publish("in", "a")
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxExtension: -1}, "in")
		first := h.next(messages)
		<-first.Context().Done()
		time.Sleep(2 * time.Second) // received again and waiting
		closed := make(chan struct{})
		go func() { defer close(closed); assert.NoError(t, sub.Close()) }()
		time.Sleep(2 * time.Second)
		first.Ack()
		<-closed
		_, messages = h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		select {
		case again := <-messages:
			t.Error("handled again although it was acked")
			again.Ack()
		case <-time.After(time.Minute):
		}
		assert.Equal(t, 0, q.Len())
	})
}
