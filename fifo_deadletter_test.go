package watermillsqs_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// A FIFO queue and its FIFO dead-letter queue are created together, and a message that
// keeps failing is there after exactly as many receives as it is allowed, with its id.
func TestFIFODeadLetterQueue(t *testing.T) {
	for _, attempts := range []int{1, 3} {
		bubble(t, func(t *testing.T, h *harness) {
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{
				CreateIfMissing: true, MaxAttempts: attempts, DeadLetter: "dead.fifo",
			}}, "orders.fifo")
			q, dead := h.service.Queue("orders.fifo"), h.service.Queue("dead.fifo")
			require.NotNil(t, q)
			require.NotNil(t, dead)
			for _, create := range h.service.Calls("CreateQueue") {
				assert.Contains(t, string(create.Request), `"FifoQueue":"true"`)
			}

			pub := h.publisher(watermillsqs.PublisherConfig{})
			bad, good := message.NewMessage("1", []byte("bad")), message.NewMessage("2", []byte("good"))
			bad.Metadata.Set(watermillsqs.GroupIDKey, "a")
			good.Metadata.Set(watermillsqs.GroupIDKey, "b")
			require.NoError(t, pub.Publish("orders.fifo", bad, good))
			id := q.Messages()[0].ID
			for range attempts + 1 {
				msg := h.next(messages)
				if msg.UUID == "2" {
					msg.Ack()
				} else {
					msg.Nack()
				}
			}
			h.none(messages, time.Hour)
			q.AssertEmpty(t)
			out, err := h.service.Client().ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
				QueueUrl: aws.String(dead.URL()), MaxNumberOfMessages: 10,
				MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
			})
			require.NoError(t, err)
			require.Len(t, out.Messages, 1)
			got := out.Messages[0]
			assert.Equal(t, id, aws.ToString(got.MessageId))
			assert.Equal(t, q.ARN(), got.Attributes["DeadLetterQueueSourceArn"])
			assert.Equal(t, "a", got.Attributes["MessageGroupId"])
			h.service.AssertReceived(t, "bad", attempts+1) // by us once, past the library
		})
	}
}

// A dead-letter queue of the other kind is refused before any call.
func TestDeadLetterQueueOfAnotherKind(t *testing.T) {
	for topic, deadLetter := range map[string]string{
		"orders.fifo": "dead",
		"orders":      "dead.fifo",
		"arn:aws:sqs:us-east-1:000000000000:orders.fifo": "arn:aws:sqs:us-east-1:000000000000:dead",
	} {
		bubble(t, func(t *testing.T, h *harness) {
			sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{MaxAttempts: 3, DeadLetter: deadLetter, CreateIfMissing: true}})
			err := sub.SubscribeInitialize(topic)
			require.ErrorIs(t, err, watermillsqs.ErrInvalidQueue)
			assert.ErrorContains(t, err, deadLetter)
			assert.ErrorContains(t, err, "FIFO")
			assert.Zero(t, h.service.Count())
		})
	}
}

// What a queue is created as follows from its name; attributes that say otherwise are
// refused before the queue is made.
func TestFIFOAttributeThatDisagrees(t *testing.T) {
	for topic, value := range map[string]string{"orders.fifo": "false", "orders": "true"} {
		bubble(t, func(t *testing.T, h *harness) {
			queue := watermillsqs.Queue{CreateIfMissing: true, Attributes: map[string]string{"FifoQueue": value}}
			err := h.subscriber(watermillsqs.SubscriberConfig{Queue: queue}).SubscribeInitialize(topic)
			require.ErrorIs(t, err, watermillsqs.ErrInvalidQueue)
			assert.ErrorContains(t, err, "FifoQueue")
			assert.Zero(t, h.service.Count("CreateQueue"))
		})
	}
	bubble(t, func(t *testing.T, h *harness) {
		queue := watermillsqs.Queue{CreateIfMissing: true, Attributes: map[string]string{"FifoQueue": "false"}}
		require.NoError(t, h.subscriber(watermillsqs.SubscriberConfig{Queue: queue}).SubscribeInitialize("orders"))
		queue.Attributes["FifoQueue"] = "true"
		require.NoError(t, h.subscriber(watermillsqs.SubscriberConfig{Queue: queue}).SubscribeInitialize("orders.fifo"))
	})
}
