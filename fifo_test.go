package watermillsqs_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// fifo makes a FIFO queue.
func (h *harness) fifo(name string, attributes map[string]string) *sqstest.Queue {
	h.t.Helper()
	all := map[string]string{"FifoQueue": "true"}
	maps.Copy(all, attributes)
	return h.queue(name, all)
}

// send sends messages past the library, each given as "group body" (or "group:body").
func (h *harness) send(q *sqstest.Queue, messages ...string) {
	h.t.Helper()
	for _, m := range messages {
		group, body, _ := strings.Cut(m, " ")
		_, err := h.service.Client().SendMessageBatch(h.t.Context(), &sqs.SendMessageBatchInput{
			QueueUrl: aws.String(q.URL()), Entries: []types.SendMessageBatchRequestEntry{{
				Id: aws.String("0"), MessageBody: aws.String(body), MessageGroupId: aws.String(group), MessageDeduplicationId: aws.String(watermill.NewUUID()),
			}},
		})
		require.NoError(h.t, err)
	}
}

func countUp(prefix string, from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return all
}

// One delivery at a time of a group, in order; the deletes of what one receive brought
// leave in one call.
func TestFIFOOrder(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		for i := 1; i <= 10; i++ {
			msg := h.next(messages)
			assert.Equal(t, fmt.Sprint(i), string(msg.Payload))
			h.none(messages, 10*time.Millisecond)
			msg.Ack()
		}
		time.Sleep(time.Second)
		q.AssertEmpty(t)
		assert.Equal(t, 1, h.deletes())
	})
}

// After a retry, what was received behind it is given back and comes again in order.
func TestFIFORetry(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		var order []string
		failed := false
		for len(order) < 10 {
			msg := h.next(messages)
			if string(msg.Payload) == "3" && !failed {
				failed = true
				watermillsqs.RetryAfter(msg, 5*time.Second)
				msg.Nack()
				continue
			}
			order = append(order, string(msg.Payload))
			msg.Ack()
		}
		time.Sleep(2 * time.Second)
		assert.Equal(t, countUp("", 1, 10), order)
		q.AssertEmpty(t)
		assert.Equal(t, []int32{0, 0, 0, 0, 0, 0, 0, 5}, h.changes())
		assert.Equal(t, 1, h.service.Count("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"))
	})
}

// A head that always fails goes to the dead-letter queue, and nothing else does.
func TestFIFOFailingHead(t *testing.T) {
	for _, attempts := range []int{2, 3, 5} {
		bubble(t, func(t *testing.T, h *harness) {
			dead := h.fifo("dead.fifo", nil)
			q := h.fifo("orders.fifo", map[string]string{"RedrivePolicy": redrivePolicy(dead, attempts)})
			h.send(q, countUp("a ", 1, 10)...)
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			var order []string
			for len(order) < 9 {
				msg := h.next(messages)
				if string(msg.Payload) == "1" {
					msg.Nack()
					continue
				}
				order = append(order, string(msg.Payload))
				msg.Ack()
			}
			time.Sleep(2 * time.Second)
			assert.Equal(t, countUp("", 2, 10), order)
			q.AssertEmpty(t)
			dead.AssertBodies(t, "1")
		})
	}
}
