package watermillsqs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A descriptor that SQS would refuse is refused before any call, by an error that
// names the queue, the field, the value and the range.
func TestQueueDescriptors(t *testing.T) {
	for _, test := range []struct {
		name  string
		queue watermillsqs.Queue
		says  []string // nil: it is accepted
	}{
		{"defaults", watermillsqs.Queue{}, nil},
		{"shortest wait", watermillsqs.Queue{Wait: time.Second}, nil},
		{"longest wait", watermillsqs.Queue{Wait: 20 * time.Second}, nil},
		{"wait too long", watermillsqs.Queue{Wait: 21 * time.Second}, []string{"Wait", "21s", "20s"}},
		{"wait just too long", watermillsqs.Queue{Wait: 20*time.Second + 1}, []string{"Wait", "20.000000001s", "20s"}},
		{"wait too short", watermillsqs.Queue{Wait: 500 * time.Millisecond}, []string{"Wait", "500ms", "1s"}},
		{"wait negative", watermillsqs.Queue{Wait: -time.Second}, []string{"Wait", "-1s", "1s"}},
		{"wait with a fraction", watermillsqs.Queue{Wait: 1500 * time.Millisecond}, []string{"Wait", "1.5s", "whole seconds"}},
		{"smallest batch", watermillsqs.Queue{BatchSize: 1}, nil},
		{"largest batch", watermillsqs.Queue{BatchSize: 10}, nil},
		{"batch too large", watermillsqs.Queue{BatchSize: 11}, []string{"BatchSize", "11", "1 to 10"}},
		{"batch negative", watermillsqs.Queue{BatchSize: -1}, []string{"BatchSize", "-1", "1 to 10"}},
		{"shortest visibility", watermillsqs.Queue{Visibility: time.Second}, nil},
		{"longest visibility", watermillsqs.Queue{Visibility: 12 * time.Hour}, nil},
		{"visibility too long", watermillsqs.Queue{Visibility: 12*time.Hour + time.Second}, []string{"Visibility", "12h0m1s", "1s", "12h"}},
		{"visibility too short", watermillsqs.Queue{Visibility: 999 * time.Millisecond}, []string{"Visibility", "999ms", "1s"}},
		{"visibility negative", watermillsqs.Queue{Visibility: -time.Second}, []string{"Visibility", "-1s", "1s"}},
		{"visibility with a fraction", watermillsqs.Queue{Visibility: 30*time.Second + time.Millisecond}, []string{"Visibility", "30.001s", "whole seconds"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			service := sqstest.New(t)
			cfg := service.AWSConfig()
			conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{AWS: &cfg})
			require.NoError(t, err)
			for name, config := range map[string]watermillsqs.SubscriberConfig{
				"Queue":            {Queue: test.queue},
				`Queues["orders"]`: {Queues: map[string]watermillsqs.Queue{"fine": {}, "orders": test.queue}},
			} {
				sub, err := watermillsqs.NewSubscriber(conn, config, nil)
				if test.says == nil {
					assert.NoError(t, err)
					continue
				}
				assert.Nil(t, sub)
				require.ErrorIs(t, err, watermillsqs.ErrInvalidQueue)
				for _, text := range append(test.says, name) {
					assert.ErrorContains(t, err, text)
				}
			}
			assert.Zero(t, service.Count())
			require.NoError(t, conn.Close())
		})
	}
}

func TestDefaultQueueName(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]string{
		"orders":                 "orders",
		"Orders_2-a":             "Orders_2-a",
		"orders.created":         "orders-created",
		"orders/created now":     "orders-created-now",
		"orders.fifo":            "orders.fifo",
		"my.orders.fifo":         "my-orders.fifo",
		"orders.fifo.fifo":       "orders-fifo.fifo",
		"orders.FIFO":            "orders-FIFO",
		"orders.fifo2":           "orders-fifo2",
		".fifo":                  ".fifo",
		"":                       "",
		"größe":                  "gr--e", // one for each character
		"\u65e5\u672c":           "--",
		"a\xffb":                 "a-b",
		"*aggregate.Created":     "-aggregate-Created",
		strings.Repeat("x", 100): strings.Repeat("x", 100),
	} {
		got := watermillsqs.DefaultQueueName(topic)
		assert.Equal(t, want, got, topic)
		assert.Equal(t, got, watermillsqs.DefaultQueueName(got), "mapping twice changes nothing")
	}
}

// A QueueName of the user's own is used on both sides, for names only.
func TestQueueNameFunction(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("staging-orders-new", nil)
		var asked []string
		queueName := func(topic string) string {
			asked = append(asked, topic)
			return "staging-" + watermillsqs.DefaultQueueName(topic)
		}
		pub := h.publisher(watermillsqs.PublisherConfig{QueueName: queueName})
		require.NoError(t, pub.Publish("orders.new", message.NewMessage("1", []byte("x"))))
		require.NoError(t, pub.Publish(q.URL(), message.NewMessage("1", []byte("x"))))
		require.NoError(t, pub.Publish(q.ARN(), message.NewMessage("1", []byte("x"))))
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{QueueName: queueName}, "orders.new")
		for range 3 {
			h.next(messages).Ack()
		}
		assert.Equal(t, []string{"orders.new"}, slices.Compact(asked), "never a URL or an ARN")
	})
}

// What can never be a queue is refused before any call, on both sides.
func TestTopicsThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", 81)
	returns := func(name string) func(string) string { return func(string) string { return name } }
	for _, test := range []struct {
		name, topic string
		queueName   func(string) string
		says        []string
	}{
		{"empty", "", nil, []string{`""`, "empty"}},
		{"empty, mapped", "", watermillsqs.DefaultQueueName, []string{"empty"}},
		{"too long", long, nil, []string{long, "81", "80"}},
		{"too long once mapped", "prefix", returns(long), []string{"prefix", long, "81", "80"}},
		{"mapped to nothing", "orders", returns(""), []string{"orders", "empty"}},
		{"mapped to illegal characters", "orders", returns("or.ders"), []string{"orders", "or.ders", "A-Za-z0-9_-"}},
		{"mapped to letters of another alphabet", "orders", returns("größe"), []string{"größe", "A-Za-z0-9_-"}},
		{"mapped to a space", "orders", returns("or ders"), []string{"or ders", "A-Za-z0-9_-"}},
		{"nothing but the suffix", ".fifo", nil, []string{".fifo"}},
		{"URL without a path", "https://sqs.us-east-1.amazonaws.com", nil, []string{"URL", "https://HOST/ACCOUNT/NAME"}},
		{"URL with one segment", "https://sqs.us-east-1.amazonaws.com/orders", nil, []string{"URL", "https://HOST/ACCOUNT/NAME"}},
		{"URL without host", "https:///000000000000/orders", nil, []string{"URL"}},
		{"URL with an illegal name", "https://sqs.us-east-1.amazonaws.com/000000000000/or.ders", nil, []string{"or.ders", "A-Za-z0-9_-"}},
		{"URL that is none", "http://[::1/000000000000/orders", nil, []string{"URL"}},
		{"ARN of another region", "arn:aws:sqs:eu-west-1:000000000000:orders", nil, []string{"eu-west-1", "us-east-1", "region"}},
		{"ARN of another service", "arn:aws:sns:us-east-1:000000000000:orders", nil, []string{"sns", "sqs"}},
		{"ARN that is none", "arn:aws:sqs", nil, []string{"ARN"}},
		{"ARN without a name", "arn:aws:sqs:us-east-1:000000000000:", nil, []string{"empty"}},
		{"ARN with an illegal name", "arn:aws:sqs:us-east-1:000000000000:or:ders", nil, []string{"or:ders", "A-Za-z0-9_-"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				pub := h.publisher(watermillsqs.PublisherConfig{QueueName: test.queueName, CreateIfMissing: true})
				sub := h.subscriber(watermillsqs.SubscriberConfig{QueueName: test.queueName, Queue: watermillsqs.Queue{CreateIfMissing: true}})
				for name, err := range everyHandle(t, pub, sub, test.topic) {
					require.ErrorIs(t, err, watermillsqs.ErrInvalidQueue, name)
					for _, text := range append(test.says, test.topic) {
						assert.ErrorContains(t, err, text, name)
					}
				}
				assert.Zero(t, h.service.Count())
			})
		})
	}
}

// A topic is a name, a URL or an ARN; all of them lead to the same queue.
func TestTopicForms(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders-new", nil)
		longest := strings.Repeat("x", 80)
		h.queue(longest, nil)
		for _, topic := range []string{"orders-new", "orders.new", q.URL(), q.ARN(), longest} {
			h.service.ResetCalls()
			queueName := watermillsqs.DefaultQueueName // one of the user's own, so that the forms do not collide
			pub := h.publisher(watermillsqs.PublisherConfig{QueueName: queueName})
			sub := h.subscriber(watermillsqs.SubscriberConfig{QueueName: queueName})
			require.NoError(t, pub.Publish(topic, message.NewMessage("1", []byte("x"))))
			require.NoError(t, sub.SubscribeInitialize(topic))
			messages, err := sub.Subscribe(t.Context(), topic)
			require.NoError(t, err)
			msg := h.next(messages)
			facts, ok := watermillsqs.DeliveryFromContext(msg.Context())
			require.True(t, ok)
			if topic != longest {
				assert.Equal(t, "orders-new", facts.Queue)
			}
			msg.Ack()
			require.NoError(t, sub.Close())
			if topic == q.URL() {
				assert.Zero(t, h.service.Count("GetQueueUrl"), "a URL is used as it is")
			} else {
				assert.LessOrEqual(t, h.service.Count("GetQueueUrl"), 1)
			}
		}
	})
}

// A URL need not be one of the connection's endpoint: it is not rebased.
func TestTopicURLIsUsedAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.connectWith(h.built())
		topic := "https://queue.amazonaws.com/" + sqstest.AccountID + "/orders"
		h.publish(topic, "x")
		assert.Equal(t, []string{topic}, queueURLs(t, h.service, "SendMessage"))
	})
}

// An ARN names the queue's owner, which the lookup asks for.
func TestTopicARNNamesTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		err := pub.Publish("arn:aws:sqs:us-east-1:123456789012:orders", message.NewMessage("1", []byte("x")))
		var missing *types.QueueDoesNotExist
		require.ErrorAs(t, err, &missing, "ours of that name is not the one")
		assert.Contains(t, string(h.service.Calls("GetQueueUrl")[0].Request), "123456789012")
		require.NoError(t, pub.Publish("arn:aws:sqs:us-east-1:000000000000:orders", message.NewMessage("1", []byte("x"))))
	})
}

// A queue of another account cannot be created. Creating one of the same name in
// our own account, and using that, would lose the messages for those who wait for
// them.
func TestQueueOfAnotherAccountIsNotCreatedInOurs(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		const topic = "arn:aws:sqs:us-east-1:123456789012:orders"
		pub := h.publisher(watermillsqs.PublisherConfig{CreateIfMissing: true})
		assert.Error(t, pub.Publish(topic, message.NewMessage("1", []byte("x"))))
		sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{CreateIfMissing: true}})
		assert.Error(t, sub.SubscribeInitialize(topic))
		if q := h.service.Queue("orders"); q != nil {
			assert.Zero(t, q.Len(), "the message went to a queue that nobody named")
		}
	})
}

// Two topics that the default mapping makes the same queue of would mix their
// messages.
func TestTopicsThatCollide(t *testing.T) {
	type side = func(topic string) error
	for _, test := range []struct{ first, second string }{
		{"orders.new", "orders-new"},
		{"orders-new", "orders.new"},
		{"orders.new", "orders/new"},
	} {
		for _, how := range []string{"publish, subscribe", "subscribe, publish", "publish, publish", "subscribe, subscribe", "initialize, publish"} {
			t.Run(test.first+" "+test.second+" "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					h.queue("orders-new", nil)
					sides := map[string]side{
						"publish": func(topic string) error {
							return h.publisher(watermillsqs.PublisherConfig{}).Publish(topic, message.NewMessage("1", []byte("x")))
						},
						"subscribe": func(topic string) error {
							_, err := h.subscriber(watermillsqs.SubscriberConfig{}).Subscribe(t.Context(), topic)
							return err
						},
						"initialize": func(topic string) error {
							return h.subscriber(watermillsqs.SubscriberConfig{}).SubscribeInitialize(topic)
						},
					}
					first, second, _ := strings.Cut(how, ", ")
					require.NoError(t, sides[first](test.first))
					h.service.ResetCalls()
					err := sides[second](test.second)
					require.ErrorIs(t, err, watermillsqs.ErrInvalidQueue)
					for _, text := range []string{test.first, test.second, "orders-new"} {
						assert.ErrorContains(t, err, fmt.Sprintf("%q", text))
					}
					assert.Zero(t, h.service.Count("GetQueueUrl", "SendMessage", "GetQueueAttributes", "CreateQueue"))
					// The one that was there first goes on.
					assert.NoError(t, sides["publish"](test.first))
				})
			})
		}
	}
}

// Topics that name a queue by other means, or by a mapping of the user's own, are
// nobody's mistake.
func TestTopicsThatMayCoincide(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders-new", nil)
		one := func(string) string { return "orders-new" }
		send := func(config watermillsqs.PublisherConfig, topic string) {
			t.Helper()
			assert.NoError(t, h.publisher(config).Publish(topic, message.NewMessage("1", []byte("x"))))
		}
		send(watermillsqs.PublisherConfig{}, "orders.new")
		send(watermillsqs.PublisherConfig{}, q.URL())
		send(watermillsqs.PublisherConfig{}, q.ARN())
		send(watermillsqs.PublisherConfig{QueueName: one}, "a")
		send(watermillsqs.PublisherConfig{QueueName: one}, "b")
		send(watermillsqs.PublisherConfig{}, "orders.new")
		assert.Equal(t, 6, q.Len())
	})
}
