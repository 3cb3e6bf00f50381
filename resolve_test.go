package watermillsqs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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
				assert.Equal(t, 21, h.service.Queue("orders").Len(), "each of them was published")
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
				h.queue("orders", nil)
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
				assert.Equal(t, 5, h.service.Queue("orders").Len(), "each of them was published")
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

// A server often answers with a host name of its own, which the client may not be
// able to reach: its URLs are moved onto the endpoint that is configured, however
// that was done.
func TestQueueURLsAreRebased(t *testing.T) {
	withoutAWSEnvironment(t)
	service := sqstest.New(t)
	_, err := service.CreateQueue("there", nil)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "sqs.internal.example:4566"
		service.ServeHTTP(w, r)
	}))
	defer server.Close()
	test := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
	})
	for name, connect := range map[string]func(t *testing.T) watermillsqs.Config{
		"Config.Endpoint": func(*testing.T) watermillsqs.Config {
			return watermillsqs.Config{Endpoint: server.URL, TestCredentials: true}
		},
		"Config.Endpoint over a path": func(*testing.T) watermillsqs.Config {
			return watermillsqs.Config{Endpoint: server.URL + "/", TestCredentials: true}
		},
		"prebuilt BaseEndpoint": func(*testing.T) watermillsqs.Config {
			return watermillsqs.Config{AWS: &aws.Config{Region: "us-east-1", Credentials: test, BaseEndpoint: aws.String(server.URL)}}
		},
		"environment": func(t *testing.T) watermillsqs.Config {
			t.Setenv("AWS_ENDPOINT_URL_SQS", server.URL)
			return watermillsqs.Config{TestCredentials: true}
		},
		"SQSOptions": func(*testing.T) watermillsqs.Config {
			return watermillsqs.Config{TestCredentials: true, SQSOptions: []func(*sqs.Options){func(o *sqs.Options) {
				o.BaseEndpoint = aws.String(server.URL)
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := watermillsqs.Connect(t.Context(), connect(t))
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			service.ResetCalls()
			pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{CreateIfMissing: true}, nil)
			require.NoError(t, err)
			sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{}, nil)
			require.NoError(t, err)
			created := watermillsqs.DefaultQueueName(t.Name())
			for _, topic := range []string{"there", created} {
				require.NoError(t, pub.Publish(topic, message.NewMessage("1", []byte("x"))))
				require.NoError(t, sub.SubscribeInitialize(topic))
			}
			require.Equal(t, 1, service.Count("CreateQueue"))
			urls := queueURLs(t, service, "SendMessage", "GetQueueAttributes")
			there, made := server.URL+"/"+sqstest.AccountID+"/there", server.URL+"/"+sqstest.AccountID+"/"+created
			assert.Equal(t, []string{there, there, made, made}, urls)
		})
	}
}

// Without a configured endpoint the service's URL is used as it is.
func TestQueueURLsAreKept(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			r.Host = "queue.amazonaws.com"
			return next.RoundTrip(r)
		})
		h.publish("in", "x")
		assert.Equal(t, []string{"https://queue.amazonaws.com/" + sqstest.AccountID + "/in"}, queueURLs(t, h.service, "SendMessage"))
	})
}
