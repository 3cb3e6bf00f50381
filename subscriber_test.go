package watermillsqs_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// The descriptor of a topic replaces the default one as a whole, and is what the
// receives ask for.
func TestDescriptorOfATopic(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("a", map[string]string{"VisibilityTimeout": "77"})
		h.queue("b", map[string]string{"VisibilityTimeout": "77"})
		h.queue("c", map[string]string{"VisibilityTimeout": "77"})
		sub := h.subscriber(watermillsqs.SubscriberConfig{
			Queue:  watermillsqs.Queue{Wait: 4 * time.Second, BatchSize: 3, Visibility: time.Minute},
			Queues: map[string]watermillsqs.Queue{"b": {}, "c": {Wait: 2 * time.Second, BatchSize: 5, Visibility: 12 * time.Hour}},
		})
		for name, want := range map[string]string{"a": "4 3 60", "b": "20 10 77", "c": "2 5 43200"} {
			h.service.ResetCalls()
			_, err := sub.Subscribe(t.Context(), name)
			require.NoError(t, err)
			synctest.Wait()
			calls := h.service.Calls("ReceiveMessage")
			require.Len(t, calls, 1)
			var request struct{ WaitTimeSeconds, MaxNumberOfMessages, VisibilityTimeout int }
			require.NoError(t, json.Unmarshal(calls[0].Request, &request))
			assert.Equal(t, want, fmt.Sprint(request.WaitTimeSeconds, request.MaxNumberOfMessages, request.VisibilityTimeout), name)
		}
	})
}

// The queue's own visibility timeout is read when the subscription opens and then
// sent with every receive, so that a change of the queue cannot put us out of step.
func TestVisibilityIsSentWithEveryReceive(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", map[string]string{"VisibilityTimeout": "77"})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		setAttribute(h, q, "VisibilityTimeout", "5")
		h.none(messages, time.Minute)
		for _, call := range h.service.Calls("ReceiveMessage") {
			assert.Equal(t, []int32{77}, call.VisibilityTimeouts)
		}
	})
}

// A queue whose own visibility timeout is 0 gives every message out again at once.
func TestVisibilityZero(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", map[string]string{"VisibilityTimeout": "0"})
		sub := h.subscriber(watermillsqs.SubscriberConfig{})
		_, err := sub.Subscribe(t.Context(), "orders")
		require.ErrorIs(t, err, watermillsqs.ErrInvalidQueue)
		for _, text := range []string{"orders", "0", "Queue.Visibility", "VisibilityTimeout"} {
			assert.ErrorContains(t, err, text)
		}
		assert.ErrorIs(t, sub.SubscribeInitialize("orders"), watermillsqs.ErrInvalidQueue)
		assert.Zero(t, h.service.Count("ReceiveMessage"))

		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: time.Second}}, "orders")
		h.publish("orders", "x")
		h.next(messages).Ack()
	})
}

// Where GetQueueAttributes is denied, Visibility has to be set; then it is only
// warned that drop cannot see a redrive policy.
func TestAttributesDenied(t *testing.T) {
	for _, code := range []string{"AccessDenied", "AccessDeniedException"} {
		t.Run(code, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				h.service.Inject(sqstest.Fault{Action: "GetQueueAttributes", Effect: sqstest.Error(403, code, "not you")})
				_, err := h.subscriber(watermillsqs.SubscriberConfig{}).Subscribe(t.Context(), "orders")
				require.ErrorContains(t, err, "not you")
				for _, text := range []string{"orders", "Visibility", "sqs:GetQueueAttributes"} {
					assert.ErrorContains(t, err, text)
				}
				assert.Empty(t, h.log.matching("redrive"))

				_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: 45 * time.Second}}, "orders")
				warnings := h.log.matching("redrive policy cannot be read")
				require.Len(t, warnings, 1)
				assert.Contains(t, warnings[0], "orders")
				assert.Contains(t, warnings[0], "drop")
				h.publish("orders", "x")
				msg := h.next(messages)
				assert.Equal(t, []int32{45}, h.service.Calls("ReceiveMessage")[0].VisibilityTimeouts)
				watermillsqs.Drop(msg)
				msg.Nack()
				synctest.Wait()
				assert.Equal(t, 1, h.deletes())
			})
		})
	}
}

// Another failure of GetQueueAttributes fails Subscribe, Visibility or not.
func TestAttributesUnreadable(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "GetQueueAttributes", Effect: sqstest.Error(500, "InternalFailure", "no luck")})
		for _, visibility := range []time.Duration{0, time.Minute} {
			_, err := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: visibility}}).Subscribe(t.Context(), "orders")
			require.ErrorContains(t, err, "no luck")
			assert.ErrorContains(t, err, "orders")
		}
		assert.Zero(t, h.service.Count("ReceiveMessage"))
	})
}
