package watermillsqs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// Two subscriptions of a connection on one FIFO queue: where one receives a group again of
// which the other still has the head in hand, undecided, what came behind it waits too.
func TestFIFOAdoptedHeadKeepsItsFollowersBack(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 2)...)
		// The answer is late, so that the service lets go of the lease before we extend it.
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.After(sqstest.Latency(3*time.Second, 3*time.Second))})
		config := watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: 4 * time.Second}}
		config.MaxInFlight = 1
		_, one := h.subscribe(config, "orders.fifo")
		first := h.next(one)
		assert.Equal(t, "1", string(first.Payload))
		config.MaxInFlight = 0
		_, other := h.subscribe(config, "orders.fifo")
		h.send(q, "a 3") // 2 and 3 come to the other
		select {
		case msg := <-other:
			t.Errorf("%s is handed out while 1 is in hand", msg.Payload)
			msg.Ack()
		case <-time.After(3100 * time.Millisecond): // not in the instant of an extension
		}
		first.Ack()
		order := []string{}
		for len(order) < 2 {
			select {
			case msg := <-one:
				order = append(order, string(msg.Payload))
				msg.Ack()
				continue
			case msg := <-other:
				order = append(order, string(msg.Payload))
				msg.Ack()
				continue
			case <-time.After(time.Minute):
			}
			break
		}
		assert.Equal(t, []string{"2", "3"}, order)
		time.Sleep(2 * time.Second)
		q.AssertEmpty(t)
	})
}
