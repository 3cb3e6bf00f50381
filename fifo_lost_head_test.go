package watermillsqs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// The lease of a head is lost while its handler is at work, and the group comes again. A
// late ack deletes the head under its newer receipt; a late nack does nothing, and the newer
// delivery is handed out. The rest goes on: nothing is given back a second time, so that
// nothing healthy goes to the dead-letter queue where two receives are allowed.
func TestFIFOLateVerdictAfterLoss(t *testing.T) {
	for _, test := range []struct {
		verdict func(*message.Message) bool
		policy  bool
		handed  []string
	}{
		{(*message.Message).Ack, false, []string{"2", "3"}},
		{(*message.Message).Ack, true, []string{"2", "3"}},
		{(*message.Message).Nack, false, []string{"1", "2", "3"}},
	} {
		bubble(t, func(t *testing.T, h *harness) {
			dead := h.fifo("dead.fifo", nil)
			attributes := map[string]string{}
			if test.policy {
				attributes["RedrivePolicy"] = redrivePolicy(dead, 2)
			}
			q := h.fifo("orders.fifo", attributes)
			h.send(q, countUp("a ", 1, 3)...)
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{
				Queue: watermillsqs.Queue{Visibility: 4 * time.Second}, MaxExtension: -1,
			}, "orders.fifo")
			first := h.next(messages)
			time.Sleep(5 * time.Second)
			test.verdict(first)
			for _, want := range test.handed {
				msg := h.next(messages)
				assert.Equal(t, want, string(msg.Payload))
				msg.Ack()
			}
			time.Sleep(2 * time.Second)
			q.AssertEmpty(t)
			dead.AssertBodies(t)
			if !test.policy { // with one, the head comes alone
				for _, body := range []string{"1", "2", "3"} {
					h.service.AssertReceived(t, body, 2)
				}
			}
		})
	}
}

// A handler that outlives its lease many times over keeps one permit, not one for each
// message that comes again meanwhile: other groups go on.
func TestFIFOHungHandlerKeepsOnePermit(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{
			Queue: watermillsqs.Queue{Visibility: 4 * time.Second}, MaxExtension: -1, CloseTimeout: -1,
		}, "orders.fifo")
		hung := h.next(messages)
		time.Sleep(time.Minute)
		h.send(q, "b x")
		select {
		case msg := <-messages:
			assert.Equal(t, "x", string(msg.Payload))
			msg.Ack()
		case <-time.After(5 * time.Minute):
			t.Error("one hung handler stalls the other groups")
		}
		hung.Ack()
	})
}

// While a handler has outlived its lease, its message comes alone: its followers do not use
// up their receives with it.
func TestFIFOHungHandlerBurnsNoFollowers(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dead := h.fifo("dead.fifo", nil)
		q := h.fifo("orders.fifo", map[string]string{"RedrivePolicy": redrivePolicy(dead, 5)})
		h.send(q, countUp("a ", 1, 5)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{
			Queue: watermillsqs.Queue{Visibility: 10 * time.Second}, MaxExtension: -1, CloseTimeout: -1,
		}, "orders.fifo")
		hung := h.next(messages)
		// The head is received four times, and would be moved next. Others keep us busy.
		for start := time.Now(); time.Since(start) < 39*time.Second; {
			for i := range 20 {
				h.send(q, fmt.Sprintf("g%d %v", i, fmt.Sprint(i, "-", time.Now().UnixNano())))
			}
			for range 20 {
				msg := h.next(messages)
				time.Sleep(20 * time.Millisecond)
				msg.Ack()
			}
		}
		for _, body := range countUp("", 2, 5) {
			h.service.AssertReceived(t, body, 1)
		}
		hung.Ack()
	})
}
