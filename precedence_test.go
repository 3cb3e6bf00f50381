package watermillsqs_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	pkgerrors "github.com/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// What a handler can say, and what comes of it.
func TestPrecedence(t *testing.T) {
	const (
		deleted = -1
		backoff = 7
	)
	fail := errors.New("failed")
	outcomes := watermillsqs.Outcomes
	retry := func(h message.HandlerFunc) message.HandlerFunc {
		return middleware.Retry{MaxRetries: 2, ShouldRetry: watermillsqs.ShouldRetry}.Middleware(h)
	}
	retryAlways := middleware.Retry{MaxRetries: 2}.Middleware
	delayed := (&middleware.DelayOnError{InitialInterval: 90 * time.Second, MaxInterval: time.Hour, Multiplier: 2}).Middleware
	copying := func(h message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) { return h(m.CopyWithContext()) }
	}
	type handler = func(msg *message.Message, run int) error
	use := func(m ...message.HandlerMiddleware) []message.HandlerMiddleware { return m }

	for _, test := range []struct {
		name        string
		middlewares []message.HandlerMiddleware // outermost first
		handler     handler
		want        int32 // the visibility timeout that is asked for, or deleted
		runs        int
	}{
		{"nothing, ack", nil, func(*message.Message, int) error { return nil }, deleted, 1},
		{"nothing, nack: backoff", nil, func(*message.Message, int) error { return fail }, backoff, 1},
		{"retry, nack: no backoff", nil, func(m *message.Message, _ int) error { watermillsqs.Retry(m); return fail }, 0, 1},
		{"retry after, nack", nil, func(m *message.Message, _ int) error { watermillsqs.RetryAfter(m, 100*time.Second); return fail }, 100, 1},
		{"retry after nothing, nack", nil, func(m *message.Message, _ int) error { watermillsqs.RetryAfter(m, -time.Second); return fail }, 0, 1},
		{"retry after, ack", nil, func(m *message.Message, _ int) error { watermillsqs.RetryAfter(m, 100*time.Second); return nil }, deleted, 1},
		{"drop, ack", nil, func(m *message.Message, _ int) error { watermillsqs.Drop(m); return nil }, deleted, 1},
		{"drop, nack", nil, func(m *message.Message, _ int) error { watermillsqs.Drop(m); return fail }, deleted, 1},
		{"the last verdict wins", nil, func(m *message.Message, _ int) error {
			watermillsqs.Drop(m)
			watermillsqs.RetryAfter(m, 9*time.Second)
			return fail
		}, 9, 1},
		{"delay set in this delivery", nil, func(m *message.Message, _ int) error { delay.Message(m, delay.For(30*time.Second)); return fail }, 30, 1},
		{"a verdict beats a delay", nil, func(m *message.Message, _ int) error {
			delay.Message(m, delay.For(30*time.Second))
			watermillsqs.RetryAfter(m, 5*time.Second)
			return fail
		}, 5, 1},
		{"metadata by hand, nack", nil, func(m *message.Message, _ int) error {
			m.Metadata.Set(watermillsqs.OutcomeKey, "retry")
			m.Metadata.Set(watermillsqs.RetryAfterKey, "1m40s")
			return fail
		}, 100, 1},
		{"metadata by hand: drop, nack", nil, func(m *message.Message, _ int) error {
			m.Metadata.Set(watermillsqs.OutcomeKey, "drop")
			return fail
		}, deleted, 1},
		{"metadata by hand that is not valid", nil, func(m *message.Message, _ int) error {
			m.Metadata.Set(watermillsqs.OutcomeKey, "explode")
			return fail
		}, backoff, 1},
		{"a copy that keeps the context", nil, func(m *message.Message, _ int) error {
			watermillsqs.RetryAfter(m.CopyWithContext(), 11*time.Second)
			return fail
		}, 11, 1},
		{"DelayOnError", use(delayed), func(*message.Message, int) error { return fail }, 90, 1},
		{"error: retry after", use(outcomes), func(*message.Message, int) error { return watermillsqs.RetryAfterError(fail, 90200*time.Millisecond) }, 91, 1},
		{"error: drop, wrapped", use(outcomes), func(*message.Message, int) error {
			return fmt.Errorf("outer: %w", pkgerrors.Wrap(watermillsqs.DropError(fail), "inner"))
		}, deleted, 1},
		{"error: nil inside", use(outcomes), func(*message.Message, int) error { return watermillsqs.RetryAfterError(nil, time.Second) }, 1, 1},
		{"error without Outcomes is an error", nil, func(*message.Message, int) error { return watermillsqs.DropError(fail) }, backoff, 1},
		{"IgnoreErrors swallows retry after", use(middleware.NewIgnoreErrors([]error{fail}).Middleware, outcomes),
			func(*message.Message, int) error { return watermillsqs.RetryAfterError(fail, time.Minute) }, deleted, 1},
		{"Retry: drop, then success", use(retryAlways, outcomes), func(_ *message.Message, run int) error {
			if run == 1 {
				return watermillsqs.DropError(fail)
			}
			return nil
		}, deleted, 2},
		{"Retry: drop, then retry after", use(retryAlways, outcomes), func(_ *message.Message, run int) error {
			if run < 3 {
				return watermillsqs.DropError(fail)
			}
			return watermillsqs.RetryAfterError(fail, time.Minute)
		}, 60, 3},
		{"Retry: retry after, then a plain error", use(retryAlways, outcomes), func(_ *message.Message, run int) error {
			if run < 3 {
				return watermillsqs.RetryAfterError(fail, time.Minute)
			}
			return fail
		}, backoff, 3},
		{"ShouldRetry ends Retry on a verdict", use(retry, outcomes), func(*message.Message, int) error {
			return watermillsqs.RetryAfterError(fail, time.Minute)
		}, 60, 1},
		{"ShouldRetry goes on without one", use(retry, outcomes), func(_ *message.Message, run int) error {
			if run < 3 {
				return fail
			}
			return nil
		}, deleted, 3},
		{"CorrelationID, and a copy on the way", use(middleware.CorrelationID, copying, outcomes), func(*message.Message, int) error {
			return watermillsqs.RetryAfterError(fail, 13*time.Second)
		}, 13, 1},
		{"Recoverer", use(middleware.Recoverer), func(*message.Message, int) error { panic("x") }, backoff, 1},
		{"Recoverer, after a verdict", use(middleware.Recoverer), func(m *message.Message, _ int) error {
			watermillsqs.RetryAfter(m, time.Minute)
			panic("x")
		}, 60, 1},
		{"Timeout", use(outcomes, middleware.Timeout(time.Second)), func(m *message.Message, _ int) error {
			<-m.Context().Done()
			return watermillsqs.RetryAfterError(m.Context().Err(), time.Minute)
		}, 60, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("in", nil)
				h.publish("in", "a")
				router, err := message.NewRouter(message.RouterConfig{}, h.log)
				require.NoError(t, err)
				router.AddMiddleware(test.middlewares...)
				sub := h.subscriber(watermillsqs.SubscriberConfig{
					MaxInFlight: 1,
					Backoff:     func(int) time.Duration { return backoff * time.Second },
				})
				runs := 0
				router.AddConsumerHandler("h", "in", sub, func(msg *message.Message) error {
					if facts, ok := watermillsqs.DeliveryFromContext(msg.Context()); !ok || facts.ReceiveCount > 1 {
						return nil // the verdict was about the first delivery
					}
					runs++
					return test.handler(msg, runs)
				})
				ran := make(chan error, 1)
				go func() { ran <- router.Run(t.Context()) }()
				time.Sleep(5 * time.Minute) // for what is retried to come again
				synctest.Wait()

				assert.Equal(t, test.runs, runs)
				assert.Equal(t, 0, q.Len())
				assert.Equal(t, 1, h.deletes())
				if test.want == deleted {
					assert.Empty(t, h.changes())
				} else {
					assert.Equal(t, []int32{test.want}, h.changes())
				}
				// The subscription's end ends the router.
				require.NoError(t, sub.Close())
				require.NoError(t, <-ran)
			})
		})
	}
}

// A redrive policy without a backoff is warned about, once a subscription.
func TestMissingBackoffIsWarnedAbout(t *testing.T) {
	for _, backoff := range []func(int) time.Duration{nil, watermillsqs.ExponentialBackoff(time.Second, time.Minute)} {
		bubble(t, func(t *testing.T, h *harness) {
			dead := h.queue("dead", nil)
			h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dead, 3)})
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{Backoff: backoff}, "in")
			h.none(messages, time.Minute)
			assert.Equal(t, backoff == nil, len(h.log.matching("no Backoff")) == 1)
		})
	}
}

// The backoff grows with the receive count, up to its limit, and is spread.
func TestExponentialBackoff(t *testing.T) {
	backoff := watermillsqs.ExponentialBackoff(time.Second, time.Minute)
	for count, most := range []int{0, 1, 2, 4, 8, 16, 32, 60, 60} {
		if count == 0 {
			continue
		}
		limit := time.Duration(most) * time.Second
		seen := map[time.Duration]bool{}
		for range 100 {
			d := backoff(count)
			assert.LessOrEqual(t, d, limit)
			assert.GreaterOrEqual(t, d, limit/2)
			seen[d] = true
		}
		assert.Greater(t, len(seen), 50, "jitter")
	}
	assert.LessOrEqual(t, backoff(1_000_000), time.Minute)
	assert.Zero(t, watermillsqs.ExponentialBackoff(0, 0)(3))
	assert.Zero(t, watermillsqs.ExponentialBackoff(-1, -1)(3))
}

// What a message was published with takes effect once: a delayed message that is
// nacked is not delayed again.
func TestPublishedDelayIsNotARetryDelay(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		msg := message.NewMessage("1", []byte("a"))
		delay.Message(msg, delay.For(20*time.Second))
		require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("in", msg))
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		start := time.Now()
		got := h.next(messages)
		assert.Equal(t, 20*time.Second, time.Since(start))
		assert.Empty(t, got.Metadata)
		got.Nack()
		h.next(messages).Ack()
		assert.Equal(t, 20*time.Second, time.Since(start))
	})
}
