package watermillsqs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
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

// deleteQueue deletes a queue by the API, past the connection.
func (h *harness) deleteQueue(name string) {
	h.t.Helper()
	_, err := h.service.Client().DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: aws.String(h.service.Queue(name).URL())})
	require.NoError(h.t, err)
}

// receives are the instants of the receives so far, since start.
func (h *harness) receives(start time.Time) (at []time.Duration) {
	for _, call := range h.service.Calls("ReceiveMessage") {
		at = append(at, call.At.Sub(start))
	}
	return at
}

func (h *harness) receiveFailures() []watermillsqs.ReceiveFailure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.failures)
}

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

func TestSubscriberAndPublisherConfigs(t *testing.T) {
	t.Parallel()
	conn := watermillsqs.NewConnection(watermillsqs.Config{})
	for _, test := range []struct {
		config watermillsqs.SubscriberConfig
		says   []string
	}{
		{watermillsqs.SubscriberConfig{MaxInFlight: -1}, []string{"MaxInFlight", "-1", "at least 1"}},
		{watermillsqs.SubscriberConfig{MaxExtension: 12*time.Hour + 1}, []string{"MaxExtension", "12h0m0.000000001s", "12h"}},
	} {
		_, err := watermillsqs.NewSubscriber(conn, test.config, nil)
		require.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
		for _, text := range test.says {
			assert.ErrorContains(t, err, text)
		}
	}
	_, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{PublishTimeout: -time.Second}, nil)
	require.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
	assert.ErrorContains(t, err, "PublishTimeout is -1s")
	_, err = watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{
		Marshaler: watermillsqs.DefaultMarshaler{AttributeKeys: make([]string, 9)},
	}, nil)
	assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
}

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
		{"FIFO", "orders.fifo", nil, []string{"orders.fifo", "FIFO"}},
		{"FIFO by a function", "orders", returns("orders.fifo"), []string{"orders", "FIFO"}},
		{"FIFO by URL", "https://sqs.us-east-1.amazonaws.com/000000000000/orders.fifo", nil, []string{"FIFO"}},
		{"FIFO by ARN", "arn:aws:sqs:us-east-1:000000000000:orders.fifo", nil, []string{"FIFO"}},
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

// slowly makes one action take a while, as seen by the client.
func (h *harness) slowly(action string, d time.Duration) {
	h.t.Helper()
	h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if actionOf(r) == action {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return next.RoundTrip(r)
	})
}

// One lookup a queue, however many come at once, on either side.
func TestOneLookup(t *testing.T) {
	for _, creates := range []bool{false, true} {
		t.Run(fmt.Sprintf("CreateIfMissing %v", creates), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				if !creates {
					h.queue("orders", nil)
				}
				h.slowly("GetQueueUrl", time.Second)
				pub := h.publisher(watermillsqs.PublisherConfig{CreateIfMissing: creates})
				sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{CreateIfMissing: creates}})
				var group sync.WaitGroup
				for i := range 60 {
					group.Go(func() {
						switch i % 3 {
						case 0:
							assert.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
						case 1:
							_, err := sub.Subscribe(t.Context(), "orders")
							assert.NoError(t, err)
						default:
							assert.NoError(t, sub.SubscribeInitialize("orders"))
						}
					})
				}
				group.Wait()
				require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
				assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
				if creates {
					assert.Equal(t, 1, h.service.Count("CreateQueue"))
				}
				assert.Equal(t, 21, h.service.Count("SendMessage"))
			})
		})
	}
}

// A failed lookup is shared by those who waited for it and not kept.
func TestFailedLookupIsNotCached(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.slowly("GetQueueUrl", time.Second)
		h.service.Inject(sqstest.Fault{Action: "GetQueueUrl", Times: 1, Effect: sqstest.Error(403, "AccessDenied", "no")})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				err := pub.Publish("orders", message.NewMessage("1", []byte("x")))
				assert.ErrorContains(t, err, "AccessDenied")
				assert.ErrorContains(t, err, `"orders"`)
			})
		}
		group.Wait()
		assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
		require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
		assert.Equal(t, 2, h.service.Count("GetQueueUrl"))
	})
}

// A queue that is missing now may be there a moment later.
func TestMissingQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		pub, sub := h.publisher(watermillsqs.PublisherConfig{}), h.subscriber(watermillsqs.SubscriberConfig{})
		for name, err := range everyHandle(t, pub, sub, "orders") {
			if name == "Publish of nothing" {
				continue
			}
			var missing *types.QueueDoesNotExist
			require.ErrorAs(t, err, &missing, name)
			assert.ErrorContains(t, err, `"orders"`)
			assert.ErrorContains(t, err, "CreateIfMissing")
		}
		assert.Zero(t, h.service.Count("CreateQueue"))
		h.queue("orders", nil)
		for name, err := range everyHandle(t, pub, sub, "orders") {
			assert.NoError(t, err, name)
		}
	})
}

// One who looks up a queue and gives up does not fail those who wait for it, and
// one who waits gives up on its own.
func TestLookupOutlivesItsLeader(t *testing.T) {
	cause := errors.New("shutting down")
	for _, leader := range []string{"Publish", "Subscribe", "Subscriber.Close"} {
		t.Run(leader, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.slowly("GetQueueUrl", 10*time.Second)
				ctx, cancel := context.WithCancelCause(t.Context())
				other := h.subscriber(watermillsqs.SubscriberConfig{})
				led := make(chan error, 1)
				go func() {
					if leader == "Publish" {
						msg := message.NewMessage("leader", []byte("x"))
						msg.SetContext(ctx)
						led <- h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", msg)
						return
					}
					_, err := other.Subscribe(ctx, "orders")
					led <- err
				}()
				synctest.Wait()

				var group sync.WaitGroup
				for i := range 10 {
					group.Go(func() {
						if i%2 == 0 {
							assert.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", message.NewMessage("1", []byte("x"))))
							return
						}
						_, err := h.subscriber(watermillsqs.SubscriberConfig{}).Subscribe(t.Context(), "orders")
						assert.NoError(t, err)
					})
				}
				waiter := make(chan error, 1)
				go func() {
					short, stop := context.WithTimeout(t.Context(), time.Second)
					defer stop()
					start := time.Now()
					_, err := h.subscriber(watermillsqs.SubscriberConfig{}).Subscribe(short, "orders")
					assert.Equal(t, time.Second, time.Since(start))
					waiter <- err
				}()

				time.Sleep(3 * time.Second)
				assert.ErrorIs(t, <-waiter, context.DeadlineExceeded)
				if leader == "Subscriber.Close" {
					require.NoError(t, other.Close())
					assert.ErrorIs(t, <-led, watermillsqs.ErrClosed)
				} else {
					cancel(cause)
					assert.Error(t, <-led)
				}
				start := time.Now()
				group.Wait()
				assert.Equal(t, 10*time.Second, time.Since(start), "one of those who waited looks it up again")
				cancel(nil)
				assert.Equal(t, 1, h.service.Count("GetQueueUrl"), "the leader's never arrived")
				assert.Equal(t, 5, h.service.Count("SendMessage"))
				_ = q
			})
		})
	}
}

// Where one caller may not create the queue and another may, the failure of the
// first is not that of the second.
func TestLookupOfOneWhoCreates(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.slowly("GetQueueUrl", time.Second)
		failed := make(chan error, 1)
		go func() {
			failed <- h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", message.NewMessage("1", []byte("x")))
		}()
		synctest.Wait()
		creating := h.publisher(watermillsqs.PublisherConfig{CreateIfMissing: true})
		require.NoError(t, creating.Publish("orders", message.NewMessage("1", []byte("x"))))
		assert.Error(t, <-failed)
		assert.Equal(t, 1, h.service.Count("CreateQueue"))
	})
}

// The queue is created with what the descriptor says.
func TestCreateIfMissing(t *testing.T) {
	tags := map[string]string{"team": "orders", "cost": "42"}
	for _, test := range []struct {
		name       string
		queue      watermillsqs.Queue
		attributes map[string]string
		visibility int32
	}{
		{"plain", watermillsqs.Queue{}, nil, 30},
		{"Visibility", watermillsqs.Queue{Visibility: 2 * time.Minute}, map[string]string{"VisibilityTimeout": "120"}, 120},
		{"attributes and tags", watermillsqs.Queue{
			Attributes: map[string]string{"MessageRetentionPeriod": "3600", "VisibilityTimeout": "77"}, Tags: tags,
		}, map[string]string{"MessageRetentionPeriod": "3600", "VisibilityTimeout": "77"}, 77},
		{"the attribute over Visibility", watermillsqs.Queue{
			Visibility: time.Minute, Attributes: map[string]string{"VisibilityTimeout": "90"},
		}, map[string]string{"VisibilityTimeout": "90"}, 60},
	} {
		for _, unknown := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, not known everywhere %v", test.name, unknown), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					if unknown {
						// A queue that has just been created is not known everywhere at once.
						for _, action := range []string{"GetQueueUrl", "GetQueueAttributes"} {
							h.service.Inject(sqstest.Fault{Action: action, Effect: sqstest.Error(0, "QueueDoesNotExist", "")})
						}
					}
					test.queue.CreateIfMissing = true
					sub := h.subscriber(watermillsqs.SubscriberConfig{Queue: test.queue})
					messages, err := sub.Subscribe(t.Context(), "orders")
					require.NoError(t, err)
					synctest.Wait()
					receive := h.service.Calls("ReceiveMessage")
					require.NotEmpty(t, receive)
					assert.Equal(t, []int32{test.visibility}, receive[0].VisibilityTimeouts)

					calls := h.service.Calls("CreateQueue")
					require.Len(t, calls, 1)
					var request struct {
						QueueName        string
						Attributes, Tags map[string]string
					}
					require.NoError(t, json.Unmarshal(calls[0].Request, &request))
					assert.Equal(t, "orders", request.QueueName)
					assert.Equal(t, len(test.attributes), len(request.Attributes))
					for name, value := range test.attributes {
						assert.Equal(t, value, request.Attributes[name])
					}
					assert.Equal(t, test.queue.Tags, request.Tags)
					assert.NotContains(t, test.queue.Attributes, "FifoQueue")

					// The URL of CreateQueue serves the publisher as well.
					h.publish("orders", "x")
					h.next(messages).Ack()
					assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
				})
			})
		}
	}
}

func TestPublisherCreatesIfMissing(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.service.Inject(sqstest.Fault{Action: "GetQueueUrl", Effect: sqstest.Error(0, "QueueDoesNotExist", "")})
		pub := h.publisher(watermillsqs.PublisherConfig{
			CreateIfMissing: true,
			Attributes:      map[string]string{"VisibilityTimeout": "99"},
			Tags:            map[string]string{"team": "orders"},
		})
		for range 3 {
			require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
		}
		calls := h.service.Calls("CreateQueue")
		require.Len(t, calls, 1)
		assert.Contains(t, string(calls[0].Request), `"VisibilityTimeout":"99"`)
		assert.Contains(t, string(calls[0].Request), `"team":"orders"`)
		assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
		assert.Equal(t, 3, h.service.Queue("orders").Len())
	})
}

// Somebody else creates the queue between our GetQueueUrl and our CreateQueue, with
// other attributes: it is there, and not changed.
func TestCreateQueueRace(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", map[string]string{"VisibilityTimeout": "77"})
		h.service.Inject(sqstest.Fault{Action: "GetQueueUrl", Times: 1, Effect: sqstest.Error(0, "QueueDoesNotExist", "")})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{
			Queue: watermillsqs.Queue{CreateIfMissing: true, Attributes: map[string]string{"VisibilityTimeout": "60"}},
		}, "orders")
		require.Equal(t, "QueueAlreadyExists", h.service.Calls("CreateQueue")[0].Code)
		h.publish("orders", "x")
		h.next(messages).Ack()
		synctest.Wait()
		assert.Zero(t, q.Len())
		assert.Equal(t, []int32{77}, h.service.Calls("ReceiveMessage")[0].VisibilityTimeouts)
	})
}

func TestCreateQueueFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		sub := h.subscriber(watermillsqs.SubscriberConfig{
			Queue: watermillsqs.Queue{CreateIfMissing: true, Attributes: map[string]string{"VisibilityTimeout": "a minute"}},
		})
		_, err := sub.Subscribe(t.Context(), "orders")
		require.ErrorContains(t, err, "CreateQueue")
		assert.ErrorContains(t, err, `"orders"`)
		assert.Nil(t, h.service.Queue("orders"))
		_, err = sub.Subscribe(t.Context(), "orders")
		require.Error(t, err)
		assert.Equal(t, 2, h.service.Count("CreateQueue"), "a failure is not kept")
	})
}

// A queue that was deleted and recreated is found again by publishers and new
// subscriptions, without a restart.
func TestQueueDeletedAndRecreated(t *testing.T) {
	for _, creates := range []bool{false, true} {
		t.Run(fmt.Sprintf("CreateIfMissing %v", creates), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				pub := h.publisher(watermillsqs.PublisherConfig{CreateIfMissing: creates})
				send := func() error { return pub.Publish("orders", message.NewMessage("1", []byte("x"))) }
				require.NoError(t, send())
				h.deleteQueue("orders")
				err := send()
				require.Error(t, err)
				var missing *types.QueueDoesNotExist
				require.ErrorAs(t, err, &missing)
				assert.Error(t, send())
				time.Sleep(61 * time.Second) // until the name is free again
				if !creates {
					require.Error(t, send())
					h.queue("orders", nil)
				}
				require.NoError(t, send())
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				h.next(messages).Ack()
			})
		})
	}
}

// spellings are the forms in which SQS says that a queue does not exist.
var spellings = map[string]func(response *http.Response){
	"legacy code in the header": func(*http.Response) {},
	"modelled name only":        func(r *http.Response) { r.Header.Del("X-Amzn-Query-Error") },
	"unmodelled":                func(r *http.Response) { r.Header.Set("X-Amzn-Errortype", "AWS.SimpleQueueService.NonExistentQueue") },
}

// moving makes the queue "orders" move: from now on its former URL is unknown, and
// GetQueueUrl returns another.
type moving struct {
	mu    sync.Mutex
	moved bool
}

func (m *moving) move() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved = true
}

func (h *harness) moving(spelling func(*http.Response)) *moving {
	m := &moving{}
	h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		m.mu.Lock()
		moved := m.moved
		m.mu.Unlock()
		if moved {
			r.Host = "new.example" // which is in the URLs that are returned
		}
		if moved && actionOf(r) != "GetQueueUrl" && actionOf(r) != "CreateQueue" {
			body := readAll(r)
			if !strings.Contains(body, "new.example") {
				body = strings.ReplaceAll(body, "/orders", "/gone")
			}
			replaceBody(r, body)
		}
		response, err := next.RoundTrip(r)
		if err == nil && response.StatusCode == http.StatusBadRequest {
			spelling(response)
		}
		return response, err
	})
	return m
}

// Seen by its URL: what was cached is of no use, so the queue is looked up again,
// once, and the call is made again.
func TestQueueMovedUnderAPublisher(t *testing.T) {
	for name, spelling := range spellings {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				m := h.moving(spelling)
				pub := h.publisher(watermillsqs.PublisherConfig{})
				require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
				m.move()
				h.service.ResetCalls()
				batch := make([]*message.Message, 25)
				for i := range batch {
					batch[i] = message.NewMessage(fmt.Sprint(i), []byte(fmt.Sprint(i)))
				}
				require.NoError(t, pub.Publish("orders", batch...))
				assert.Equal(t, 26, q.Len())
				assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
				assert.Equal(t, 4, h.service.Count("SendMessageBatch"))
				require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
				assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
			})
		})
	}
}

func TestQueueMovedUnderASubscription(t *testing.T) {
	for name, spelling := range spellings {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				m := h.moving(spelling)
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				h.none(messages, 30*time.Second)
				m.move()
				h.none(messages, time.Minute)
				h.publish("orders", "x")
				msg := h.next(messages)
				msg.Ack()
				synctest.Wait()
				assert.Zero(t, h.service.Queue("orders").Len())
				assert.Len(t, h.receiveFailures(), 1)
				assert.LessOrEqual(t, h.service.Count("GetQueueUrl"), 3)

				// A new subscription, to a URL that has long been of no use, too.
				_, more := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				h.publish("orders", "y")
				select {
				case msg := <-more:
					msg.Ack()
				case msg := <-messages:
					msg.Ack()
				case <-time.After(time.Minute):
					t.Fatal("no message")
				}
			})
		})
	}
}

// Subscribe finds a cached URL of no use: it looks the queue up again, and creates
// it where it may.
func TestSubscribeAfterQueueMoved(t *testing.T) {
	for name, spelling := range spellings {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				m := h.moving(spelling)
				h.publish("orders", "x")
				m.move()
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				h.next(messages).Ack()
				assert.Empty(t, h.receiveFailures())
				assert.Equal(t, 2, h.service.Count("GetQueueUrl"))
			})
		})
	}
	t.Run("creates", func(t *testing.T) {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("orders", nil)
			h.publish("orders", "x")
			h.deleteQueue("orders")
			time.Sleep(61 * time.Second)
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{CreateIfMissing: true}}, "orders")
			h.publish("orders", "x")
			h.next(messages).Ack()
			assert.Equal(t, 1, h.service.Count("CreateQueue"))
		})
	})
}

// A queue that is gone for good ends its subscription loudly: after GetQueueUrl has
// said so twice, a second apart, the channel is closed and an error names the
// queue.
func TestQueueGone(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		time.Sleep(5 * time.Second)
		h.service.ResetCalls()
		h.deleteQueue("orders")
		start := time.Now()
		_, open := <-messages
		require.False(t, open)
		assert.GreaterOrEqual(t, time.Since(start), time.Second)
		assert.LessOrEqual(t, time.Since(start), 3*time.Second)
		lookups := h.service.Calls("GetQueueUrl")
		require.Len(t, lookups, 2)
		assert.Equal(t, time.Second, lookups[1].At.Sub(lookups[0].At))
		assert.Len(t, h.receiveFailures(), 1)
		var loud []string
		for _, entry := range h.log.matching("gone") {
			if strings.HasPrefix(entry, "ERROR") {
				loud = append(loud, entry)
			}
		}
		require.Len(t, loud, 1)
		assert.Contains(t, loud[0], "orders")

		// Nothing goes on in the background, and the subscriber is of use still.
		h.service.ResetCalls()
		time.Sleep(5 * time.Minute)
		assert.Zero(t, h.service.Count())
		h.queue("orders", nil)
		again, err := sub.Subscribe(t.Context(), "orders")
		require.NoError(t, err)
		h.publish("orders", "x")
		h.next(again).Ack()
	})
}

// A message in hand when its queue goes is not torn from its handler at once.
func TestQueueGoneWithAMessageInHand(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", map[string]string{"VisibilityTimeout": "600"})
		h.publish("orders", "x")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{CloseTimeout: 5 * time.Second, MaxInFlight: 2}, "orders")
		msg := h.next(messages)
		h.deleteQueue("orders")
		start := time.Now()
		<-msg.Context().Done()
		assert.ErrorIs(t, context.Cause(msg.Context()), watermillsqs.ErrClosed)
		assert.GreaterOrEqual(t, time.Since(start), 6*time.Second, "gone for good after a second, then the grace")
		msg.Ack()
		_, open := <-messages
		assert.False(t, open)
	})
}

// With many polls under way the end is just as certain.
func TestQueueGoneUnderManyPolls(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		for range 12 {
			h.publish("orders", strings.Split(strings.Repeat("x", 10), "")...)
		}
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 100}, "orders")
		go func() {
			time.Sleep(3 * time.Second)
			h.deleteQueue("orders")
		}()
		start := time.Now()
		for msg := range messages {
			msg.Ack()
		}
		assert.LessOrEqual(t, time.Since(start), 40*time.Second)
		assert.NotEmpty(t, h.log.matching("gone"))
	})
}

// What a receive says alone is not enough: a queue that GetQueueUrl still knows is
// there, and the subscription goes on.
func TestQueueIsNotGone(t *testing.T) {
	for name, test := range map[string]struct{ receives, lookups int }{
		"known all the time":        {3, 0},
		"known a second later":      {1, 1},
		"every receive fails twice": {2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				time.Sleep(5 * time.Second)
				h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: test.receives, Effect: sqstest.Error(0, "QueueDoesNotExist", "")})
				if test.lookups > 0 {
					h.service.Inject(sqstest.Fault{Action: "GetQueueUrl", Times: test.lookups, Effect: sqstest.Error(0, "QueueDoesNotExist", "")})
				}
				h.none(messages, time.Minute)
				assert.Len(t, h.receiveFailures(), test.receives)
				assert.Empty(t, h.log.matching("gone"))
				h.publish("orders", "x")
				h.next(messages).Ack()
			})
		})
	}
}

// GetQueueUrl that fails for another reason says nothing about the queue.
func TestQueueIsNotGoneWhenTheLookupFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		start := time.Now()
		time.Sleep(time.Second)
		h.service.ResetCalls()
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Error(0, "QueueDoesNotExist", "")})
		h.service.Inject(sqstest.Fault{Action: "GetQueueUrl", Effect: sqstest.Error(403, "AccessDenied", "")})
		h.none(messages, time.Minute)
		at := h.receives(start)
		assert.GreaterOrEqual(t, len(at), 30)
		assert.LessOrEqual(t, len(at), 61, "never a hot loop")
		assert.Empty(t, h.log.matching("gone"))
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

// The queue's own visibility timeout is read when the subscription opens and then
// sent with every receive, so that a change of the queue cannot put us out of step.
func TestVisibilityIsSentWithEveryReceive(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", map[string]string{"VisibilityTimeout": "77"})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		_, err := h.service.Client().SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
			QueueUrl: aws.String(q.URL()), Attributes: map[string]string{"VisibilityTimeout": "5"},
		})
		require.NoError(t, err)
		h.none(messages, time.Minute)
		for _, call := range h.service.Calls("ReceiveMessage") {
			assert.Equal(t, []int32{77}, call.VisibilityTimeouts)
		}
	})
}

// A receive that fails is seen by hook and log, and made again a second later.
func TestReceiveFails(t *testing.T) {
	for name, test := range map[string]struct {
		effect sqstest.Effect
		code   string
	}{
		"denied":    {sqstest.Error(403, "AccessDenied", "not you"), "AccessDenied"},
		"KMS":       {sqstest.Error(0, "KmsAccessDenied", "no key"), "KMS.AccessDenied"},
		"malformed": {sqstest.Error(400, "InvalidParameterValue", "no"), "InvalidParameterValue"},
		"address":   {sqstest.Error(0, "InvalidAddress", "wrong region"), "InvalidAddress"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				const failures = 30
				h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: failures, Effect: test.effect})
				start := time.Now()
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				h.none(messages, 40*time.Second)
				at := h.receives(start)
				require.Greater(t, len(at), failures)
				for i := range failures + 1 {
					assert.Equal(t, time.Duration(i)*time.Second, at[i])
				}
				failed := h.receiveFailures()
				require.Len(t, failed, failures)
				for _, failure := range failed {
					assert.Equal(t, "orders", failure.Queue)
					assert.Empty(t, failure.MessageID)
					assert.ErrorContains(t, failure.Err, test.code)
				}
				logged := h.log.matching("Receiving failed")
				require.Len(t, logged, failures)
				assert.Contains(t, logged[0], "orders")
				assert.Contains(t, logged[0], test.code)
				h.publish("orders", "x")
				h.next(messages).Ack()
			})
		})
	}
}

// Server errors, and a network that breaks, are tried again by the SDK first; the
// pause comes on top.
func TestReceiveBreaks(t *testing.T) {
	for name, broken := range map[string]func(h *harness){
		"500": func(h *harness) {
			h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Error(500, "InternalFailure", "")})
		},
		"connection": func(h *harness) {
			h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.LoseAnswer()})
		},
		"unreachable": func(h *harness) {
			h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				if actionOf(r) == "ReceiveMessage" {
					return nil, errors.New("network is unreachable")
				}
				return next.RoundTrip(r)
			})
		},
		"answer that is none": func(h *harness) {
			h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if actionOf(r) == "ReceiveMessage" && err == nil {
					replaceResponse(response, "<html>")
				}
				return response, err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				broken(h)
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Wait: time.Second}}, "orders")
				h.none(messages, time.Minute)
				failed := len(h.receiveFailures())
				assert.GreaterOrEqual(t, failed, 12)
				assert.LessOrEqual(t, failed, 61, "at most one a second")
				assert.LessOrEqual(t, h.service.Count("ReceiveMessage"), 3*61)
				assert.Len(t, h.log.matching("Receiving failed"), failed)
			})
		})
	}
}

// Under throttling the pause is longer, and grows, up to a limit.
func TestReceiveIsThrottled(t *testing.T) {
	for _, code := range []string{"OverLimit", "KmsThrottled", "RequestThrottled", "ThrottlingException"} {
		t.Run(code, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				cfg := h.service.AWSConfig()
				cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // the SDK's pauses would blur it
				h.connectWith(watermillsqs.Config{AWS: &cfg})
				fault := h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Error(0, code, "")})
				start := time.Now()
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				h.none(messages, 5*time.Minute)
				at := h.receives(start)
				require.Greater(t, len(at), 8)
				for i := 1; i < len(at); i++ {
					pause := at[i] - at[i-1]
					assert.Greater(t, pause, time.Second)
					assert.LessOrEqual(t, pause, 20*time.Second)
					if i > 1 {
						assert.GreaterOrEqual(t, pause, at[i-1]-at[i-2])
					}
				}
				fault.Remove()
				h.none(messages, 21*time.Second)
				h.publish("orders", "x")
				h.next(messages).Ack()
				// It starts from the beginning after a success.
				first := at[1] - at[0]
				h.service.ResetCalls()
				h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.Error(0, code, "")})
				h.none(messages, 45*time.Second)
				at = h.receives(start)
				require.GreaterOrEqual(t, len(at), 2)
				assert.Equal(t, first, at[1]-at[0])
			})
		})
	}
}

// A server that answers at once that there is nothing, whatever the wait, is not
// asked in a hot loop.
func TestEmptyAnswersAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		var mu sync.Mutex
		receives := 0
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if actionOf(r) != "ReceiveMessage" {
				return next.RoundTrip(r)
			}
			mu.Lock()
			receives++
			hot := receives > 1000
			mu.Unlock()
			if hot { // or else time would stand still for ever
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			r.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues") // an answer without messages
			replaceBody(r, `{"QueueNamePrefix":"none"}`)
			return next.RoundTrip(r)
		})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		h.none(messages, 10*time.Second)
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, receives, 100)
	})
}

// Close does not wait for the pause after a failure.
func TestCloseDuringThePause(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Error(0, "OverLimit", "")})
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		time.Sleep(time.Minute)
		start := time.Now()
		require.NoError(t, sub.Close())
		assert.Zero(t, time.Since(start))
		_, open := <-messages
		assert.False(t, open)
	})
}

// An idle subscription costs exactly three receives a minute, and nothing else.
func TestIdleSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 500}, "orders")
		synctest.Wait()
		h.service.ResetCalls()
		start := time.Now().Add(-time.Nanosecond)
		h.none(messages, time.Hour+10*time.Second)
		at := h.receives(start)
		assert.Len(t, at, 3*60)
		assert.Equal(t, 3*60, h.service.Count())
		for i := 1; i < len(at); i++ {
			assert.Equal(t, 20*time.Second, at[i]-at[i-1])
		}
	})
}

// After a burst the subscription is as cheap as before.
func TestIdleAfterABurst(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		for range 30 {
			h.publish("orders", strings.Split(strings.Repeat("x", 10), "")...)
		}
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 200}, "orders")
		for range 300 {
			h.next(messages).Ack()
		}
		h.none(messages, time.Minute)
		h.service.ResetCalls()
		h.none(messages, 10*time.Minute)
		assert.LessOrEqual(t, h.service.Count(), 31)
	})
}
