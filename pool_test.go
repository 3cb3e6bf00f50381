package watermillsqs_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// The polls of all subscriptions of a connection together are no more than its pool
// carries, and one for each subscription.
func TestPollersShareThePool(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		var mu sync.Mutex
		underWay, most := 0, 0
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if actionOf(r) != "ReceiveMessage" {
				return next.RoundTrip(r)
			}
			mu.Lock()
			underWay++
			most = max(most, underWay)
			mu.Unlock()
			defer func() {
				mu.Lock()
				underWay--
				mu.Unlock()
			}()
			select {
			case <-time.After(100 * time.Millisecond):
				return next.RoundTrip(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		const queues, each = 3, 4000
		var all []<-chan *message.Message
		for i := range queues {
			topic := fmt.Sprint("orders-", i)
			h.queue(topic, nil)
			require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish(topic, numbered(each)...))
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1000}, topic)
			all = append(all, messages)
		}
		var done sync.WaitGroup
		for _, messages := range all {
			done.Go(func() { handleAll(messages, each, func(*message.Message) {}) })
		}
		done.Wait()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, most, 64+queues)
		assert.Greater(t, most, 50, "they are used")
		assert.LessOrEqual(t, underWay, queues, "one each when there is nothing to do")
	})
}

// Where the HTTP client of a prebuilt configuration has few connections, half of them are
// left to sends and settlements.
func TestPollersLeaveConnections(t *testing.T) {
	service := sqstest.Start()
	t.Cleanup(service.Close)
	endpoint, err := service.Listen()
	require.NoError(t, err)
	cfg := service.AWSConfig()
	cfg.HTTPClient = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 4}}
	var calls watermillsqs.CallCounter
	conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{AWS: &cfg, Endpoint: endpoint, Called: calls.Count})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		cfg.HTTPClient.(*http.Client).CloseIdleConnections()
	})
	pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{CreateIfMissing: true}, nil)
	require.NoError(t, err)
	require.NoError(t, pub.Publish("orders", numbered(2000)...))
	sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{MaxInFlight: 1000}, nil)
	require.NoError(t, err)
	messages, err := sub.Subscribe(t.Context(), "orders")
	require.NoError(t, err)
	handleAll(messages, 2000, func(*message.Message) {})
	require.NoError(t, sub.Close())
	// Each poller finds the queue empty once: there were two of them, not sixty.
	assert.LessOrEqual(t, calls.Counts()["ReceiveMessage"].Calls, 200+20)
	assert.Equal(t, 2000, calls.Counts()["DeleteMessageBatch"].Messages+calls.Counts()["DeleteMessage"].Messages)
}
