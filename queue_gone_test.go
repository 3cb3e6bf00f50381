package watermillsqs_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

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
			rewriteRequest(r, func(body string) string {
				if strings.Contains(body, "new.example") {
					return body
				}
				return strings.ReplaceAll(body, "/orders", "/gone")
			})
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
				require.NoError(t, pub.Publish("orders", numbered(25)...))
				assert.Equal(t, 26, q.Len())
				assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
				assert.Equal(t, 6, h.service.Count("SendMessageBatch"), "each batch twice")
				require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
				assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
			})
		})
	}
}

// Callers of a queue that was deleted and recreated all find it again.
func TestPublishConcurrentlyWhenTheQueueMoves(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		m := h.moving(func(*http.Response) {})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
		m.move()
		h.service.ResetCalls()
		var group sync.WaitGroup
		for range 30 {
			group.Go(func() { assert.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x")))) })
		}
		group.Wait()
		assert.Equal(t, 31, q.Len())
		assert.LessOrEqual(t, h.service.Count("GetQueueUrl"), 30)
		h.service.ResetCalls()
		require.NoError(t, pub.Publish("orders", message.NewMessage("1", []byte("x"))))
		assert.Zero(t, h.service.Count("GetQueueUrl"))
	})
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
