package watermillsqs_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// One delivery at a time of a group, in order, and the next in the instant of the
// verdict before it.
func TestFIFOOrder(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 25)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		for i := 1; i <= 25; i++ {
			acked := time.Now()
			msg := h.next(messages)
			assert.Equal(t, fmt.Sprint(i), string(msg.Payload))
			assert.Equal(t, "a", groupOf(msg))
			assert.Equal(t, acked, time.Now())
			h.none(messages, 10*time.Millisecond)
			msg.Ack()
		}
		synctest.Wait()
		q.AssertEmpty(t)
		assert.Empty(t, h.changes())
		for i := 1; i <= 25; i++ {
			h.service.AssertReceived(t, fmt.Sprint(i), 1)
		}
	})
}

// Groups are handled in parallel, and no more of them than MaxInFlight: a permit is a
// group in hand, whatever is received behind its head.
func TestFIFOPermitsAreGroups(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		for group := range 11 {
			h.send(q, countUp(fmt.Sprintf("%d %d-", group, group), 1, 10)...)
		}
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		start := time.Now()
		for range 10 {
			defer h.next(messages).Ack()
		}
		assert.Equal(t, start, time.Now())
		h.none(messages, time.Minute)
		inHand := make(map[string]int)
		for _, m := range q.Messages() {
			if m.InFlight {
				inHand[m.GroupID]++
			}
		}
		assert.Len(t, inHand, 10)
		assert.Equal(t, 10, inHand["0"], "the followers of the first need no permits")
	})
}

// Two groups in hand, and no third, with what one receive may ask for then.
func TestFIFOTwoGroupsInHand(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		for _, group := range []string{"a", "b", "c"} {
			h.send(q, countUp(group+" "+group, 1, 10)...)
		}
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 2}, "orders.fifo")
		first := h.nextOf(messages, "a", "b")
		a, b := first["a"], first["b"]
		assert.Equal(t, []string{"a1", "b1"}, []string{string(a.Payload), string(b.Payload)})
		h.none(messages, time.Minute)
		h.service.AssertReceived(t, "c1", 0)
		b.Ack()
		c := h.next(messages) // it need not be of c, if b has been received again before
		a.Ack()
		c.Ack()
		crew := h.employ(messages, func(*message.Message) error { return nil })
		crew.until(27)
		assert.LessOrEqual(t, crew.most, 2)
		synctest.Wait()
		q.AssertEmpty(t)
	})
}

// The deletes of a group leave at once when nothing of it is left in hand, whatever the
// other groups do.
func TestFIFODeleteAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, "a a1", "b b1", "b b2")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		first := h.nextOf(messages, "a", "b")
		a, b := first["a"], first["b"]
		defer b.Ack()
		time.Sleep(300 * time.Millisecond)
		a.Ack()
		acked := time.Now()
		synctest.Wait()
		require.Len(t, h.deleteCalls(), 1)
		assert.Equal(t, acked, h.deleteCalls()[0].At)
		assert.Equal(t, []string{"a1"}, h.calledBodies(h.deleteCalls()[0]))
	})
}

// The ten acks of a group are one DeleteMessageBatch, which leaves with the last.
func TestFIFODeletesTogether(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		h.send(q, "b b1")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		var acked time.Time
		for i := 1; i <= 11; i++ {
			msg := h.next(messages)
			if groupOf(msg) == "b" {
				defer msg.Ack() // b is in hand all the time
				continue
			}
			time.Sleep(99 * time.Millisecond)
			msg.Ack()
			acked = time.Now()
		}
		synctest.Wait()
		require.Len(t, h.deleteCalls(), 1)
		assert.Equal(t, "DeleteMessageBatch", h.deleteCalls()[0].Action)
		assert.Equal(t, acked, h.deleteCalls()[0].At)
		assert.Equal(t, countUp("", 1, 10), h.calledBodies(h.deleteCalls()[0]))
	})
}

// Deletes wait for those of their followers, but for a second and a quarter of the
// shortest lease at most.
func TestFIFODeletesLinger(t *testing.T) {
	for _, test := range []struct {
		visibility string
		linger     time.Duration
	}{{"30", time.Second}, {"2", 500 * time.Millisecond}} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", map[string]string{"VisibilityTimeout": test.visibility})
			h.send(q, countUp("a ", 1, 10)...)
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			h.next(messages).Ack()
			acked := time.Now()
			time.Sleep(test.linger / 2)
			h.next(messages).Ack() // the first of them counts
			last := h.next(messages)
			time.Sleep(10 * time.Second)
			require.Len(t, h.deleteCalls(), 1)
			assert.Equal(t, acked.Add(test.linger), h.deleteCalls()[0].At)
			assert.Equal(t, []string{"1", "2"}, h.calledBodies(h.deleteCalls()[0]))
			last.Ack()
		})
	}
}

// After a drop the next goes at once, as after an ack.
func TestFIFODrop(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 3)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		start := time.Now()
		for i := 1; i <= 3; i++ {
			msg := h.next(messages)
			assert.Equal(t, fmt.Sprint(i), string(msg.Payload))
			watermillsqs.Drop(msg)
			msg.Nack()
		}
		assert.Equal(t, start, time.Now())
		synctest.Wait()
		q.AssertEmpty(t)
		assert.Equal(t, 1, h.deletes())
		assert.Empty(t, h.changes())
	})
}

// Dropped at the redrive limit, a message is given back, so that the next receive moves
// it to the dead-letter queue. Those behind it go on at once.
func TestFIFODropAtTheRedriveLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q, dead := h.redriven(1)
		h.send(q, countUp("a ", 1, 3)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		start := time.Now()
		msg := h.next(messages)
		watermillsqs.Drop(msg)
		msg.Ack()
		second := h.next(messages)
		assert.Equal(t, "2", string(second.Payload))
		assert.Equal(t, start, time.Now())
		time.Sleep(5 * time.Second)
		assert.Equal(t, []int32{0}, h.changes())
		dead.AssertBodies(t, "1")
		second.Ack()
		h.next(messages).Ack()
		synctest.Wait()
		q.AssertEmpty(t)
		dead.AssertBodies(t, "1")
	})
}

// An answer that was overtaken by a later one brings an old receipt of a message that is
// in hand, and changes nothing.
func TestFIFOAnswerIsOvertaken(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 3)...)
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.After(sqstest.Latency(3*time.Second, 3*time.Second))})
		_, late := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{BatchSize: 1, Visibility: 2 * time.Second}}, "orders.fifo")
		time.Sleep(time.Second)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		for i := 1; i <= 3; i++ {
			msg := h.next(messages)
			assert.Equal(t, fmt.Sprint(i), string(msg.Payload))
			h.none(late, 3*time.Second)
			msg.Ack()
		}
		synctest.Wait()
		q.AssertEmpty(t)
	})
}
