package watermillsqs_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A message that keeps failing is in the dead-letter queue after exactly as many
// receives as the descriptor says, with its id; both queues are created.
func TestMaxAttempts(t *testing.T) {
	for _, attempts := range []int{1, 3} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				sub, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{
					CreateIfMissing: true, MaxAttempts: attempts, DeadLetter: "orders.dead",
				}}, "orders")
				q, dead := h.service.Queue("orders"), h.service.Queue("orders-dead")
				require.NotNil(t, dead)
				h.publish("orders", "bad", "good")
				for range attempts + 1 {
					msg := h.next(messages)
					if string(msg.Payload) == "good" {
						msg.Ack()
					} else {
						msg.Nack()
					}
				}
				h.none(messages, time.Hour)
				assert.Equal(t, 0, q.Len())
				require.Equal(t, 1, dead.Len())
				assert.Equal(t, "bad", dead.Messages()[0].Body)
				assert.Equal(t, attempts, dead.Messages()[0].ReceiveCount)
				assert.Equal(t, attempts == 1, len(h.log.matching("MaxAttempts is 1")) == 1)
				require.NoError(t, sub.Close())

				// What is in the dead-letter queue can be handled like anything else.
				_, messages = h.subscribe(watermillsqs.SubscriberConfig{}, "orders.dead")
				h.next(messages).Ack()
			})
		})
	}
}

// The policy is written when it differs, and not when an equal one is there.
func TestRedrivePolicyIsWrittenOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dead := h.queue("dead", nil)
		h.queue("orders", nil)
		for i, topic := range []string{"dead", dead.URL(), dead.ARN()} {
			sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{MaxAttempts: 4, DeadLetter: topic}})
			require.NoError(t, sub.SubscribeInitialize("orders"))
			require.NoError(t, sub.SubscribeInitialize("orders"))
			assert.Equal(t, 1, h.service.Count("SetQueueAttributes"), "%d", i)
		}
		sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{MaxAttempts: 5, DeadLetter: "dead"}})
		require.NoError(t, sub.SubscribeInitialize("orders"))
		assert.Equal(t, 2, h.service.Count("SetQueueAttributes"))
		// Without a declaration the queue's own policy stays, and drop sees it.
		require.NoError(t, h.subscriber(watermillsqs.SubscriberConfig{}).SubscribeInitialize("orders"))
		assert.Equal(t, 2, h.service.Count("SetQueueAttributes"))
	})
}

// A declared policy is what drop goes by.
func TestDropWithADeclaredPolicy(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dead := h.queue("dead", nil)
		q := h.queue("orders", nil)
		h.publish("orders", "a", "b")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{MaxAttempts: 2, DeadLetter: "dead"}}, "orders")
		first := h.next(messages)
		watermillsqs.Drop(first) // below the limit: deleted
		first.Ack()
		h.next(messages).Nack()
		again := h.next(messages)
		watermillsqs.Drop(again) // at the limit: moved
		again.Ack()
		h.none(messages, time.Minute)
		assert.Equal(t, 0, q.Len())
		assert.Equal(t, 1, dead.Len())
	})
}

func TestRedriveIsRefused(t *testing.T) {
	for _, test := range []struct {
		queue watermillsqs.Queue
		want  error
		text  string
	}{
		{watermillsqs.Queue{MaxAttempts: 3}, watermillsqs.ErrIncompleteRedrive, "DeadLetter"},
		{watermillsqs.Queue{DeadLetter: "dead"}, watermillsqs.ErrIncompleteRedrive, "MaxAttempts"},
		{watermillsqs.Queue{MaxAttempts: 1001, DeadLetter: "dead"}, watermillsqs.ErrInvalidQueue, "1 to 1000"},
		{watermillsqs.Queue{MaxAttempts: -1, DeadLetter: "dead"}, watermillsqs.ErrInvalidQueue, "1 to 1000"},
		{
			watermillsqs.Queue{MaxAttempts: 3, DeadLetter: "dead", Attributes: map[string]string{"RedrivePolicy": "{}"}},
			watermillsqs.ErrInvalidQueue, "RedrivePolicy",
		},
	} {
		bubble(t, func(t *testing.T, h *harness) {
			_, err := watermillsqs.NewSubscriber(h.conn, watermillsqs.SubscriberConfig{Queue: test.queue}, nil)
			require.ErrorIs(t, err, test.want)
			assert.ErrorContains(t, err, test.text)
			_, err = watermillsqs.NewSubscriber(h.conn, watermillsqs.SubscriberConfig{Queues: map[string]watermillsqs.Queue{"orders": test.queue}}, nil)
			require.ErrorIs(t, err, test.want)
			assert.ErrorContains(t, err, "orders")
		})
	}
	for topic, text := range map[string]string{
		"orders": "its own dead-letter queue",
		"arn:aws:sqs:us-east-1:000000000000:orders": "its own dead-letter queue",
		"dead.fifo": "FIFO",
		"arn:aws:sqs:eu-west-1:000000000000:dead": "region",
	} {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("orders", nil)
			sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{MaxAttempts: 3, DeadLetter: topic}})
			err := sub.SubscribeInitialize("orders")
			require.ErrorIs(t, err, watermillsqs.ErrInvalidQueue)
			assert.ErrorContains(t, err, text)
			assert.Zero(t, h.service.Count(), "refused before any call")
		})
	}
	t.Run("unknown dead-letter queue", func(t *testing.T) {
		for _, topic := range []string{"nowhere", "arn:aws:sqs:us-east-1:000000000000:nowhere"} {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{MaxAttempts: 3, DeadLetter: topic}})
				err := sub.SubscribeInitialize("orders")
				assert.ErrorContains(t, err, `queue "orders"`)
				assert.ErrorContains(t, err, "nowhere")
			})
		}
	})
	t.Run("denied", func(t *testing.T) {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("orders", nil)
			h.queue("dead", nil)
			h.service.Inject(sqstest.Fault{Action: "SetQueueAttributes", Effect: sqstest.Error(403, "AccessDenied", "not you")})
			sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{MaxAttempts: 3, DeadLetter: "dead"}})
			err := sub.SubscribeInitialize("orders")
			assert.ErrorContains(t, err, `queue "orders": write its redrive policy`)
			assert.ErrorContains(t, err, "AccessDenied")
		})
	})
	t.Run("missing main queue", func(t *testing.T) {
		bubble(t, func(t *testing.T, h *harness) {
			sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{MaxAttempts: 3, DeadLetter: "dead"}})
			var missing *types.QueueDoesNotExist
			assert.ErrorAs(t, sub.SubscribeInitialize("orders"), &missing)
		})
	})
}

// A dead-letter queue that we create keeps its messages for 14 days.
func TestCreatedDeadLetterQueueKeepsItsMessages(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{CreateIfMissing: true, MaxAttempts: 3, DeadLetter: "dead"}}, "orders")
		for _, call := range h.service.Calls("CreateQueue") {
			if call.Queue == "dead" {
				assert.Contains(t, string(call.Request), `"MessageRetentionPeriod":"1209600"`)
				return
			}
		}
		t.Fatal("the dead-letter queue was not created")
	})
}

// Random verdicts on many messages: each ends where the table says, after as many
// receives as it says.
func TestRandomVerdictsEndWhereTheTableSays(t *testing.T) {
	const messages, attempts = 100, 3
	for seed := range uint64(5) {
		bubble(t, func(t *testing.T, h *harness) {
			random := rand.New(rand.NewPCG(seed, 0))
			dead, q := h.queue("dead", nil), h.queue("orders", nil)
			verdicts := map[string][]string{} // by payload, what the handler says at each delivery
			type end struct {
				receives int
				dead     bool
			}
			want := map[string]end{}
			for i := range messages {
				body := fmt.Sprint(i)
				for delivery := 1; ; delivery++ {
					verdict := []string{"ack", "nack", "retry", "later", "drop"}[random.IntN(5)]
					verdicts[body] = append(verdicts[body], verdict)
					final := verdict == "ack" || verdict == "drop"
					if final || delivery == attempts {
						want[body] = end{delivery, verdict != "ack" && delivery == attempts}
						break
					}
				}
				h.publish("orders", body)
			}
			_, in := h.subscribe(watermillsqs.SubscriberConfig{
				MaxInFlight: 20, Queue: watermillsqs.Queue{MaxAttempts: attempts, DeadLetter: "dead"},
			}, "orders")
			got := map[string]end{}
			for quiet := false; !quiet; {
				select {
				case msg := <-in:
					body := string(msg.Payload)
					facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
					got[body] = end{receives: facts.ReceiveCount}
					switch verdicts[body][facts.ReceiveCount-1] {
					case "ack":
						msg.Ack()
					case "nack":
						msg.Nack()
					case "retry":
						watermillsqs.Retry(msg)
						msg.Nack()
					case "later":
						watermillsqs.RetryAfter(msg, time.Duration(random.IntN(100))*time.Second)
						msg.Nack()
					case "drop":
						watermillsqs.Drop(msg)
						msg.Ack()
					}
				case <-time.After(10 * time.Minute):
					quiet = true
				}
			}
			for _, msg := range dead.Messages() {
				got[msg.Body] = end{msg.ReceiveCount, true}
			}
			assert.Equal(t, want, got)
			assert.Equal(t, 0, q.Len())
			t.Logf("seed %d: %d of %d messages in the dead-letter queue", seed, dead.Len(), messages)
		})
	}
}
