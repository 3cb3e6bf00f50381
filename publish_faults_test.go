package watermillsqs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A panic in what the application has hung into a call (Config.Called, an SDK middleware,
// a transport), which Watermill's Recoverer catches, holds no group and no outbox.
func TestPublishPanicInACallHoldsNoGroup(t *testing.T) {
	for _, topic := range []string{"orders.fifo", "orders"} {
		t.Run(topic, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				if topic == "orders" {
					h.queue("orders", nil)
				} else {
					h.fifo("orders.fifo", nil)
				}
				cfg := h.service.AWSConfig()
				var once atomic.Bool
				h.connectWith(watermillsqs.Config{AWS: &cfg, Called: func(c watermillsqs.Call) {
					if c.Action == "SendMessage" && once.CompareAndSwap(false, true) {
						panic("a bug of the application")
					}
				}})
				pub := h.publisher(watermillsqs.PublisherConfig{})
				assert.Panics(t, func() { _ = pub.Publish(topic, grouped("A1")...) })
				synctest.Wait()
				assert.Zero(t, watermillsqs.Leftovers(h.conn))
				start := time.Now()
				first := publishing(pub, topic, grouped("A2"))
				assert.Empty(t, first.wait())
				assert.Zero(t, time.Since(start), "nothing is under way")
			})
		})
	}
}

// What waits behind a call that hangs waits 250 ms for it, also where another call was
// answered meanwhile.
func TestPublishPatienceIsThatOfTheCallThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.inject(sqstest.Fault{Message: bodyIs("0"), Effect: sqstest.Hang()})
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Times: 1, Effect: sqstest.Latency(20*time.Millisecond, 20*time.Millisecond)})
		pub := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: time.Second})
		start := time.Now()
		hangs := publishing(pub, "orders", singles(0, 1)...) // at 0
		time.Sleep(200 * time.Millisecond)
		full := publishing(pub, "orders", numbered(20)[10:]) // a full batch, 200 to 220
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		lone := publishing(pub, "orders", singles(30, 31)...) // at 210
		assert.Empty(t, lone.wait())
		assert.Equal(t, 250*time.Millisecond, time.Since(start))
		full.wait()
		hangs.wait()
	})
}

// A message whose context ended while it was on the wire, and that is to be sent again
// after all, since its batch was refused for another, is not sent, and its caller does
// not wait for its turn.
func TestPublishContextEndedOnTheWireOfARefusedBatch(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.inject(sqstest.Fault{Action: "SendMessage", Message: bodyIs("A1"), Effect: sqstest.Latency(20*time.Second, 20*time.Second)})
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Times: 1, Effect: sqstest.Latency(100*time.Millisecond, 100*time.Millisecond)})
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Times: 1, Effect: sqstest.Error(400, "InvalidParameterValue", "poison")})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		second := grouped("A2")
		second[0].SetContext(ctx)
		h.slowFirst(100 * time.Millisecond)
		lead := publishing(pub, "orders.fifo", grouped("B0"))
		synctest.Wait()
		one := publishing(pub, "orders.fifo", grouped("A1"))
		synctest.Wait()
		two := publishing(pub, "orders.fifo", second)
		synctest.Wait()
		start := time.Now()
		time.Sleep(150 * time.Millisecond) // the batch is on the wire
		cancel()
		failed := two.wait()
		assert.Less(t, time.Since(start), time.Second, "it is not on the wire any more, and nobody wants it sent")
		require.Len(t, failed, 1)
		assert.Empty(t, one.wait())
		assert.Empty(t, lead.wait())
		assert.Equal(t, []string{"A1"}, ofGroup(q, "A"))
	})
}

// The pause before an entry is sent again is not cut short by the context of a message
// that was accepted.
func TestPublishPauseIsNotCutShortByOthers(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		var again []time.Duration
		start := time.Now()
		h.inject(sqstest.Fault{Message: func(m sqstest.MessageView) bool {
			if m.Body == "0" {
				again = append(again, time.Since(start))
			}
			return m.Body == "0"
		}, Effect: sqstest.FailEntry("InternalError", "not now", false)})
		messages := numbered(3)
		for i, d := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond} {
			if d > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				messages[i].SetContext(ctx)
			}
		}
		_ = h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...)
		assert.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond, "%v", again)
	})
}

// The error of a message whose context ended during the lookup of the queue wraps the cause.
func TestPublishContextEndsDuringLookupCause(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.slowly("GetQueueUrl", 10*time.Second)
		cause := errors.New("no longer wanted")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, cause)
		defer cancel()
		messages := numbered(1)
		messages[0].SetContext(ctx)
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...)
		assert.ErrorIs(t, err, cause)
	})
}

// So it is with several messages that nobody wants any more.
func TestPublishContextOfAllEndsDuringLookup(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.slowly("GetQueueUrl", 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		messages := numbered(3)
		for _, m := range messages {
			m.SetContext(ctx)
		}
		start := time.Now()
		require.Error(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", messages...))
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

// When a queue has moved, a Publish of many looks it up once.
func TestPublishOfManyWhenTheQueueWasMadeAnew(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		h.publish("orders", "x")
		h.service.ResetCalls()
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Effect: sqstest.Latency(20*time.Millisecond, 40*time.Millisecond)})
		h.inject(sqstest.Fault{Action: "GetQueueUrl", Effect: sqstest.Latency(time.Millisecond, time.Millisecond)})
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Times: 64, Effect: sqstest.Error(0, "QueueDoesNotExist", "")})
		require.NoError(t, pub.Publish("orders", numbered(640)...))
		assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
		assert.Equal(t, 641, h.service.Queue("orders").Len())
	})
}

// What was not sent, since PublishTimeout passed during an earlier call, does not claim that
// it may have been accepted.
func TestPublishNotSentIsNotPerhapsAccepted(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T, h *harness) {
			h.fifo("orders.fifo", nil)
			h.inject(sqstest.Fault{Action: "SendMessageBatch", Effect: sqstest.Hang()})
			pub := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: time.Second, GroupID: func(_ string, m *message.Message) string { return m.UUID }})
			for _, m := range failedOf(t, pub.Publish("orders.fifo", numbered(25)...), 25, span(0, 25)...).Failed {
				if m.Index >= 10 {
					require.ErrorContains(t, m.Err, "not sent")
					require.NotContains(t, m.Err.Error(), "may have accepted")
				}
			}
		})
	}
}
