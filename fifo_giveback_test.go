package watermillsqs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// When the third of ten is to be received again, however that comes about, the seven
// behind it are given back with it, last first in one call, and not handled before. The
// two that were acked are deleted at once, the rest comes again in order, and another
// group has nothing to do with it.
func TestFIFOGiveBack(t *testing.T) {
	for _, test := range []struct {
		name    string
		backoff time.Duration
		verb    func(msg *message.Message)
		after   time.Duration
		seconds int32
	}{
		{name: "nack"},
		{name: "retry", verb: watermillsqs.Retry, backoff: time.Minute},
		{name: "retry after", verb: func(msg *message.Message) { watermillsqs.RetryAfter(msg, 4500*time.Millisecond) }, after: 5 * time.Second, seconds: 5},
		{name: "retry after more than the visibility timeout", verb: func(msg *message.Message) { watermillsqs.RetryAfter(msg, 5*time.Minute) }, after: 5 * time.Minute, seconds: 300},
		{name: "backoff", backoff: 7 * time.Second, after: 7 * time.Second, seconds: 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.fifo("orders.fifo", nil)
				h.send(q, countUp("a ", 1, 10)...)
				h.send(q, countUp("b b", 1, 2)...)
				config := watermillsqs.SubscriberConfig{}
				if test.backoff > 0 {
					config.Backoff = func(int) time.Duration { return test.backoff }
				}
				_, messages := h.subscribe(config, "orders.fifo")
				first := h.nextOf(messages, "a", "b")
				first["a"].Ack()
				h.next(messages).Ack()
				third := h.next(messages)
				assert.Equal(t, "3", string(third.Payload))
				time.Sleep(100 * time.Millisecond)
				if test.verb != nil {
					test.verb(third)
				}
				third.Nack()
				failed := time.Now()
				synctest.Wait()

				require.Len(t, h.changeCalls(-1), 1)
				call := h.changeCalls(-1)[0]
				assert.Equal(t, failed, call.At)
				assert.Equal(t, []string{"10", "9", "8", "7", "6", "5", "4", "3"}, h.calledBodies(call))
				assert.Equal(t, []int32{0, 0, 0, 0, 0, 0, 0, test.seconds}, call.VisibilityTimeouts)
				require.Len(t, h.deleteCalls(), 1)
				assert.Equal(t, failed, h.deleteCalls()[0].At)
				assert.Equal(t, []string{"1", "2"}, h.calledBodies(h.deleteCalls()[0]))

				third = h.within(messages, 10*time.Minute)
				assert.Equal(t, test.after, time.Since(failed))
				assert.Equal(t, "3", string(third.Payload))
				assert.Equal(t, 2, countOf(third))
				third.Ack()
				for _, body := range countUp("", 4, 10) {
					msg := h.next(messages)
					assert.Equal(t, body, string(msg.Payload))
					assert.Equal(t, 2, countOf(msg))
					msg.Ack()
				}
				require.NoError(t, first["b"].Context().Err())
				first["b"].Ack()
				b2 := h.next(messages)
				assert.Equal(t, "b2", string(b2.Payload))
				b2.Ack()
				synctest.Wait()
				q.AssertEmpty(t)
				for _, s := range h.settled() {
					assert.NoError(t, s.Err)
				}
				h.service.AssertReceived(t, "b1", 1)
				h.service.AssertReceived(t, "b2", 1)
			})
		})
	}
}

// A message that cannot be decoded holds up its group, and no other, until it decodes or
// is taken away by a redrive policy.
func TestFIFOUndecodable(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q, dead := h.redriven(3)
		h.send(q, "a 1")
		h.sendBroken(q, "a", "%%%")
		h.send(q, "a 3", "a 4", "b b1")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		start := time.Now()
		first := h.nextOf(messages, "a", "b")
		first["b"].Ack()
		first["a"].Ack()
		synctest.Wait()
		call := h.changeCalls(-1)[0]
		assert.Equal(t, []string{"4", "3", "%%%"}, h.calledBodies(call))
		assert.Equal(t, []int32{0, 0, 1}, call.VisibilityTimeouts)
		h.send(q, "b b2")
		h.next(messages).Ack()
		assert.Less(t, time.Since(start), time.Second)
		for _, body := range []string{"3", "4"} {
			msg := h.next(messages)
			assert.Equal(t, body, string(msg.Payload))
			msg.Ack()
		}
		assert.Less(t, time.Since(start), 9*time.Second, "1 s, 2 s, 4 s")
		synctest.Wait()
		dead.AssertBodies(t, "%%%")
		q.AssertEmpty(t)
		assert.Len(t, h.receiveFailures(), 3)
	})
}

// loseFirst makes the first extension of the message 1 fail because of its receipt,
// 15 s after it was received. It is visible 30 s after it was received.
func (h *harness) loseFirst() {
	h.service.Inject(sqstest.Fault{
		Action: "ChangeMessageVisibilityBatch", Message: bodyIs("1"), Times: 1, Effect: sqstest.InvalidateReceipt(),
	})
}

// When the lease of the head is lost, those behind it are given back at once, last first
// in one call. Its handler goes on until it has said its verdict, and nothing of the
// group is handled meanwhile. What it said then counts.
func TestFIFOLostHead(t *testing.T) {
	for _, test := range []struct {
		name    string
		verdict func(msg *message.Message) bool
		again   bool
	}{
		{"ack", (*message.Message).Ack, false},
		{"nack", (*message.Message).Nack, true},
		{"drop", func(msg *message.Message) bool { watermillsqs.Drop(msg); return msg.Nack() }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.fifo("orders.fifo", nil)
				h.send(q, countUp("a ", 1, 10)...)
				h.send(q, "b b1")
				h.loseFirst()
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
				first := h.nextOf(messages, "a", "b")
				head, start := first["a"], time.Now()
				defer first["b"].Ack()
				<-head.Context().Done()
				assert.Equal(t, 15*time.Second, time.Since(start))
				synctest.Wait()
				require.Len(t, h.changeCalls(30), 1)
				call := h.changeCalls(30)[0]
				assert.Equal(t, 15*time.Second, call.At.Sub(start))
				assert.Equal(t, []string{"10", "9", "8", "7", "6", "5", "4", "3", "2"}, h.calledBodies(call))
				assert.Equal(t, make([]int32, 9), call.VisibilityTimeouts)
				h.none(messages, 10*time.Second)

				test.verdict(head) // before its message is back
				said := time.Now()
				from := 2
				if test.again {
					from = 1
				}
				for _, body := range countUp("", from, 10) {
					msg := h.next(messages)
					assert.Equal(t, body, string(msg.Payload))
					assert.Equal(t, 2, countOf(msg))
					msg.Ack()
				}
				assert.Equal(t, 5*time.Second, time.Since(said), "when its message is visible")
				synctest.Wait()
				assert.Equal(t, 1, q.Len())
				require.NoError(t, first["b"].Context().Err())
				h.service.AssertReceived(t, "b1", 1)
				require.Len(t, h.lost(), 1)
			})
		})
	}
}

// Likewise where the message of the lost head, and those behind it, have come back by
// the time its handler says its verdict.
func TestFIFOLostHeadComesBackFirst(t *testing.T) {
	for _, ack := range []bool{true, false} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", nil)
			h.send(q, countUp("a ", 1, 10)...)
			h.loseFirst()
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			head := h.next(messages)
			h.none(messages, 40*time.Second)
			h.service.AssertReceived(t, "1", 2)
			from := 1
			if ack {
				head.Ack()
				from = 2
			} else {
				head.Nack()
			}
			start := time.Now()
			for _, body := range countUp("", from, 10) {
				msg := h.next(messages)
				assert.Equal(t, body, string(msg.Payload))
				msg.Ack()
			}
			assert.Less(t, time.Since(start), time.Second)
			synctest.Wait()
			q.AssertEmpty(t)
		})
	}
}

// A handler that never looks at its context does not hold its group up in the other
// consumers, and two subscriptions of one connection keep the order between them.
func TestFIFOLostHeadInAnotherSubscription(t *testing.T) {
	for _, ack := range []bool{true, false} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", nil)
			h.send(q, countUp("a ", 1, 3)...)
			_, one := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1, MaxExtension: -1}, "orders.fifo")
			head := h.next(one)
			_, two := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			h.none(two, 40*time.Second)
			h.service.AssertReceived(t, "1", 2)
			from := 1
			if ack {
				head.Ack()
				from = 2
			} else {
				head.Nack()
			}
			for _, body := range countUp("", from, 3) {
				var msg *message.Message
				select {
				case msg = <-one:
				case msg = <-two:
				case <-time.After(time.Minute):
					require.FailNow(t, "nothing comes", body)
				}
				assert.Equal(t, body, string(msg.Payload))
				msg.Ack()
			}
			synctest.Wait()
			q.AssertEmpty(t)
		})
	}
}

// A follower that cannot be given back does not hold back those before it, and comes in
// its turn.
func TestFIFOGiveBackFailsForOne(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		h.service.Inject(sqstest.Fault{
			Message: bodyIs("5"), Action: "ChangeMessageVisibilityBatch", Times: 1, Effect: sqstest.FailEntry("InternalError", "", false),
		})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		start := time.Now()
		h.next(messages).Nack()
		crew := h.employ(messages, func(*message.Message) error { return nil })
		crew.until(10)
		assert.Equal(t, countUp("", 1, 10), crew.handledOf("a"))
		assert.Less(t, time.Since(start), 2*time.Second)
		synctest.Wait()
		q.AssertEmpty(t)
	})
}
