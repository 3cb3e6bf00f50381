package watermillsqs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// A head whose next receive moves it to the dead-letter queue does not come back: receives
// do not go on asking for one message until its visibility timeout has passed.
func TestFIFODeadLetteredHeadEndsNarrowReceives(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dead := h.fifo("dead.fifo", nil)
		q := h.fifo("orders.fifo", map[string]string{"RedrivePolicy": redrivePolicy(dead, 2)})
		h.send(q, "poison bad")
		h.slowly("ReceiveMessage", 10*time.Millisecond)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: 5 * time.Minute}}, "orders.fifo")
		h.next(messages).Nack()
		h.next(messages).Nack()
		time.Sleep(time.Second)
		dead.AssertBodies(t, "bad")
		before := h.service.Count("ReceiveMessage")
		for i := range 300 {
			h.send(q, fmt.Sprintf("g%d %d", i, i))
		}
		for range 300 {
			h.next(messages).Ack()
		}
		time.Sleep(time.Second)
		q.AssertEmpty(t)
		assert.Less(t, h.service.Count("ReceiveMessage")-before, 100, "300 messages, ten in a receive")
	})
}

// A receive of several messages is answered before a retried head is visible.
func TestFIFOReceivesEndBeforeAHeadIsBack(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q, dead := h.redriven(2)
		h.send(q, countUp("a ", 0, 9)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		h.employ(messages, func(msg *message.Message) error {
			if string(msg.Payload) == "0" {
				watermillsqs.RetryAfter(msg, 3*time.Second)
				return errHandler
			}
			return nil
		})
		time.Sleep(30 * time.Second)
		q.AssertEmpty(t)
		dead.AssertBodies(t, "0")
	})
}
