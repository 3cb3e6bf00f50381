package watermillsqs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// Groups on a standard queue are for its fairness: they say whose a message is, and
// neither order nor lock anything.
func TestFairQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.send(q, countUp("tenant-a ", 1, 8)...)
		h.send(q, "tenant-b b1")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 9}, "orders")
		start := time.Now()
		groups := make(map[string]int)
		for i := range 9 {
			msg := h.next(messages)
			groups[groupOf(msg)]++
			if string(msg.Payload) == "3" {
				msg.Nack() // holds up nobody
				continue
			}
			if i%2 == 0 {
				defer msg.Ack()
				continue
			}
			msg.Ack()
		}
		assert.Equal(t, map[string]int{"tenant-a": 8, "tenant-b": 1}, groups)
		assert.Equal(t, start, time.Now(), "all at a time")
		again := h.next(messages)
		assert.Equal(t, "3", string(again.Payload))
		assert.Equal(t, "tenant-a", groupOf(again))
		again.Ack()
		synctest.Wait()
		assert.Len(t, h.changes(), 1, "nothing else is given back")
		for _, call := range h.service.Calls("ReceiveMessage") {
			assert.Empty(t, attemptID(t, call), "SQS refuses it on a standard queue")
		}
	})
}

// A permit of a standard queue is a message, whatever its group.
func TestFairQueuePermitsAreMessages(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.send(q, countUp("tenant ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 3}, "orders")
		for range 3 {
			defer h.next(messages).Ack()
		}
		h.none(messages, time.Minute)
		assert.Equal(t, 3, q.InFlight())
	})
}
