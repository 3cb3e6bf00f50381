package watermillsqs_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// Nothing to a nil logger.
func TestNilLogger(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.queue("dlq", nil)
		pub, sub := handles(t, h.conn)
		require.NoError(t, pub.Publish("orders", numbered(3)...))
		messages, err := sub.Subscribe(t.Context(), "orders")
		require.NoError(t, err)
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.Error(403, "AccessDenied", "")})
		for range 3 {
			h.next(messages).Ack()
		}
		assert.Error(t, pub.Publish("missing", numbered(1)...))
		require.NoError(t, sub.Close())
	})
}

// Payloads are never logged.
func TestPayloadsAreNotLogged(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "SendMessage", Skip: 1, Effect: sqstest.Error(400, "InvalidParameterValue", "no")})
		h.publish("orders", "top-secret")
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", message.NewMessage("1", []byte("top-secret")))
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "top-secret")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		h.next(messages).Ack()
		assert.Empty(t, h.log.matching("top-secret"))
		assert.NotEmpty(t, h.log.matching("Publishing"))
	})
}
