package watermillsqs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A retried head counts as out until the change that makes it visible is answered, however
// many receives come back empty before that: a head that keeps failing does not burn its
// followers where changes of visibility take longer than a receive waits.
func TestFIFOSlowChangeKeepsReceivesNarrow(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dead := h.fifo("dead.fifo", nil)
		q := h.fifo("orders.fifo", map[string]string{"RedrivePolicy": redrivePolicy(dead, 3)})
		h.send(q, countUp("a ", 1, 10)...)
		for _, action := range []string{"ChangeMessageVisibility", "ChangeMessageVisibilityBatch"} {
			h.service.Inject(sqstest.Fault{Action: action, Effect: sqstest.Latency(2500*time.Millisecond, 2500*time.Millisecond)})
		}
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Wait: time.Second}}, "orders.fifo")
		var order []string
		for len(order) < 9 {
			var payload string
			select {
			case msg := <-messages:
				if payload = string(msg.Payload); payload == "1" {
					msg.Nack()
					continue
				}
				msg.Ack()
			case <-time.After(time.Minute):
				payload = "nothing"
			}
			order = append(order, payload)
		}
		time.Sleep(2 * time.Second)
		assert.Equal(t, countUp("", 2, 10), order)
		dead.AssertBodies(t, "1")
	})
}

// A retry that is known to have happened because the message is there again is no failure,
// on a FIFO queue as on a standard one.
func TestFIFORetryReceivedAgainIsNoFailure(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		bubble(t, func(t *testing.T, h *harness) {
			topic := "orders"
			if fifo {
				topic = "orders.fifo"
				h.send(h.fifo(topic, nil), "a 1")
			} else {
				h.queue(topic, nil)
				h.publish(topic, "1")
			}
			h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.LoseAnswer()})
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, topic)
			h.next(messages).Nack()
			again := h.next(messages)
			time.Sleep(5 * time.Second)
			again.Ack()
			time.Sleep(time.Second)
			for _, s := range h.settled() {
				assert.NoError(t, s.Err, "fifo %v: %v", fifo, s.Outcome)
			}
			assert.Len(t, h.settled(), 2)
		})
	}
}

// Ten messages of a group that fail once each are all handled where three receives are
// allowed: one behind the first of them, one to fail and one to succeed.
func TestFIFOEachFailsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dead := h.fifo("dead.fifo", nil)
		q := h.fifo("orders.fifo", map[string]string{"RedrivePolicy": redrivePolicy(dead, 3)})
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		failed := map[string]bool{}
		var order []string
		for range 20 {
			select {
			case msg := <-messages:
				if p := string(msg.Payload); !failed[p] {
					failed[p] = true
					msg.Nack()
				} else {
					order = append(order, p)
					msg.Ack()
				}
			case <-time.After(time.Minute):
			}
		}
		assert.Equal(t, countUp("", 1, 10), order)
		dead.AssertBodies(t)
	})
}

// A drop at the limit moves the head to the dead-letter queue, and the rest goes on.
func TestFIFODropAtTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dead := h.fifo("dead.fifo", nil)
		q := h.fifo("orders.fifo", map[string]string{"RedrivePolicy": redrivePolicy(dead, 1)})
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		for i := 1; i <= 10; i++ {
			msg := h.next(messages)
			assert.Equal(t, fmt.Sprint(i), string(msg.Payload))
			if i == 1 || i == 5 {
				watermillsqs.Drop(msg)
				msg.Nack()
			} else {
				msg.Ack()
			}
		}
		time.Sleep(25 * time.Second)
		q.AssertEmpty(t)
		dead.AssertBodies(t, "1", "5")
	})
}

// A server that hands out more than it is asked for makes no permits, and takes none.
func TestFIFOGenerousServer(t *testing.T) {
	for _, limit := range []int{1, 3} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", nil)
			for i := range 60 {
				h.send(q, fmt.Sprintf("g%d %d", i%6, i))
			}
			h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				if actionOf(r) == "ReceiveMessage" {
					rewriteRequest(r, func(body string) string {
						for n := 1; n < 10; n++ {
							if s := fmt.Sprintf(`"MaxNumberOfMessages":%d,`, n); len(body) > 0 && strings.Contains(body, s) {
								return strings.ReplaceAll(body, s, `"MaxNumberOfMessages":10,`)
							}
						}
						return body
					})
				}
				return next.RoundTrip(r)
			})
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: limit}, "orders.fifo")
			for range 60 {
				h.next(messages).Ack()
			}
			time.Sleep(2 * time.Second)
			q.AssertEmpty(t)
			// All permits are there again: that many groups are in hand at a time.
			for i := range limit {
				h.send(q, fmt.Sprintf("h%d more%d", i, i))
			}
			for range limit {
				h.next(messages)
			}
		})
	}
}
