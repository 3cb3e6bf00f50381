package watermillsqs_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// Config.Called sees what the service sees, and CallCounter adds it up.
func TestCalls(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		var calls watermillsqs.CallCounter
		var last watermillsqs.Call
		cfg := h.service.AWSConfig()
		h.connectWith(watermillsqs.Config{AWS: &cfg, Called: func(call watermillsqs.Call) {
			calls.Count(call)
			if call.Action == "SendMessageBatch" {
				last = call
			}
		}})
		assert.Zero(t, calls.PerMessage())

		h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Times: 1, Effect: sqstest.Latency(time.Second, time.Second)})
		h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Times: 1, Effect: sqstest.LoseAnswer()})
		h.service.Inject(sqstest.Fault{Action: "SendMessageBatch", Skip: 10, Times: 1, Effect: sqstest.FailEntry("InvalidMessageContents", "no", true)})
		require.Error(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(10)...))
		assert.GreaterOrEqual(t, last.Duration, time.Second)
		last.Duration = 0
		assert.Equal(t, watermillsqs.Call{Action: "SendMessageBatch", Queue: "orders", Messages: 9, Failed: 1, Attempts: 2}, last)

		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 100}, "orders")
		var all []*message.Message
		for range 18 { // the send whose answer was lost has taken effect
			all = append(all, h.next(messages))
		}
		for _, msg := range all {
			msg.Ack()
		}
		require.NoError(t, sub.Close())

		counts := calls.Counts()
		for action, count := range counts {
			assert.Equal(t, h.service.Count(action), count.Attempts, action)
		}
		assert.Equal(t, watermillsqs.CallCount{Calls: 2, Attempts: 2, Messages: 18}, counts["DeleteMessageBatch"])
		assert.InDelta(t, 9.0, counts["DeleteMessageBatch"].Fill(), 0)
		assert.InDelta(t, float64(h.service.Count())/18, calls.PerMessage(), 1e-9)
		assert.Zero(t, counts["ReceiveMessage"].Failed)
		assert.Zero(t, watermillsqs.CallCount{}.Fill())

		_, err := watermillsqs.NewSubscriber(h.conn, watermillsqs.SubscriberConfig{}, nil)
		require.NoError(t, err)
		require.Error(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("nowhere", numbered(1)...))
		assert.Positive(t, calls.Counts()["GetQueueUrl"].Calls)
	})
}
