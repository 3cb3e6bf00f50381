package watermillsqs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// The five rows of the outcome table, each by its calls.
func TestOutcomes(t *testing.T) {
	const redrive = `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dlq","maxReceiveCount":2}`
	for _, test := range []struct {
		name       string
		attributes map[string]string
		verdict    func(msg *message.Message)
		deletes    int
		changes    []int32
		outcome    watermillsqs.Outcome
		back       time.Duration // when the message is back, -1 for never
	}{
		{"ack", nil, func(m *message.Message) { m.Ack() }, 1, nil, watermillsqs.Acked, -1},
		{"nack", nil, func(m *message.Message) { m.Nack() }, 0, []int32{0}, watermillsqs.Retried, 0},
		{"retry", nil, func(m *message.Message) { watermillsqs.Retry(m); m.Nack() }, 0, []int32{0}, watermillsqs.Retried, 0},
		{"retry after 90.2s", nil, func(m *message.Message) {
			watermillsqs.RetryAfter(m, 90200*time.Millisecond)
			m.Nack()
		}, 0, []int32{91}, watermillsqs.Retried, 91 * time.Second},
		{"drop", nil, func(m *message.Message) { watermillsqs.Drop(m); m.Nack() }, 1, nil, watermillsqs.Dropped, -1},
		{"drop below the limit", map[string]string{"RedrivePolicy": redrive},
			func(m *message.Message) { watermillsqs.Drop(m); m.Ack() }, 1, nil, watermillsqs.Dropped, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("dlq", nil)
				q := h.queue("orders", test.attributes)
				h.publish("orders", "a")
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "orders")
				msg := h.next(messages)
				start := time.Now()
				test.verdict(msg)
				synctest.Wait()

				assert.Equal(t, test.deletes, h.deletes())
				assert.Equal(t, test.changes, h.changes())
				require.Len(t, h.settled(), 1)
				assert.Equal(t, test.outcome, h.settled()[0].Outcome)
				assert.NoError(t, h.settled()[0].Err)
				assert.Error(t, msg.Context().Err())
				if test.back < 0 {
					assert.Equal(t, 0, q.Len())
					return
				}
				again := h.within(messages, test.back+time.Second)
				assert.Equal(t, test.back, time.Since(start))
				facts, ok := watermillsqs.DeliveryFromContext(again.Context())
				require.True(t, ok)
				assert.Equal(t, 2, facts.ReceiveCount)
				again.Ack()
			})
		})
	}
}
