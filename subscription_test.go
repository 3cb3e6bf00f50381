package watermillsqs_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// An undecodable message is reported, holds up nobody, and comes back later and
// later, so that a redrive policy collects it.
func TestUndecodable(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dlq := h.queue("dlq", nil)
		q := h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dlq, 4)})
		_, err := h.service.Client().SendMessage(t.Context(), sendInput(q.URL(), "%%%", watermillsqs.BodyEncodingAttribute, "base64"))
		require.NoError(t, err)
		h.publish("in", "good")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		assert.Equal(t, "good", string(msg.Payload))
		msg.Ack()
		h.none(messages, time.Minute)
		assert.Equal(t, []int32{1, 2, 4, 8}, h.changes())
		assert.Equal(t, 1, dlq.Len())
		assert.Equal(t, 0, q.Len())
		require.Len(t, h.receiveFailures(), 4)
		assert.ErrorIs(t, h.receiveFailures()[0].Err, watermillsqs.ErrUndecodable)
		for _, line := range h.log.matching("cannot be decoded") {
			assert.NotContains(t, line, "%%%", "payloads are not logged")
		}
	})
}

// sendInput is a foreign message with one attribute.
func sendInput(queueURL, body, attribute, value string) *sqs.SendMessageInput {
	return &sqs.SendMessageInput{
		QueueUrl: aws.String(queueURL), MessageBody: aws.String(body),
		MessageAttributes: map[string]types.MessageAttributeValue{attribute: {DataType: aws.String("String"), StringValue: aws.String(value)}},
	}
}

type zeroMarshaler struct{ watermillsqs.DefaultMarshaler }

func (zeroMarshaler) Unmarshal(string, types.Message) (*message.Message, error) {
	return &message.Message{UUID: "x", Payload: []byte("p")}, nil
}

// A marshaler that makes its message without NewMessage.
func TestMarshalerWithoutNewMessage(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Marshaler: zeroMarshaler{}}, "in")
		h.next(messages).Ack()
		time.Sleep(time.Minute)
		assert.Equal(t, 0, q.Len())
	})
}

// After InstantAck the handler still writes metadata, verbs included, while the
// message is settled; run with -race.
func TestInstantAck(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		msg.Ack()
		for i := range 1000 {
			msg.Metadata.Set(fmt.Sprint(i), "x")
			watermillsqs.RetryAfter(msg, time.Second)
			watermillsqs.Drop(msg)
		}
		synctest.Wait()
		assert.Equal(t, 0, q.Len())
	})
}

// The context of a message ends at its verdict, also while the redrive policy is read
// again.
func TestContextEndsAtTheVerdict(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dlq := h.queue("dlq", nil)
		q := h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dlq, 1)})
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		setAttribute(h, q, "RedrivePolicy", "")
		h.next(messages).Nack()
		msg := h.next(messages) // count 2
		h.service.Inject(sqstest.Fault{Action: "GetQueueAttributes", Effect: sqstest.Hang()})
		watermillsqs.Drop(msg)
		msg.Nack()
		synctest.Wait()
		assert.Error(t, msg.Context().Err())
		time.Sleep(time.Minute)
	})
}
