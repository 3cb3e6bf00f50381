package watermillsqs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// One program on two transports: the source is the one line that changes.
func TestRetryOnEveryTransport(t *testing.T) {
	for name, source := range map[string]func(h *harness) (watermillsqs.Source, message.Publisher){
		"SQS": func(h *harness) (watermillsqs.Source, message.Publisher) {
			h.queue("orders", nil)
			return watermillsqs.Source{Subscriber: h.subscriber(watermillsqs.SubscriberConfig{})},
				h.publisher(watermillsqs.PublisherConfig{})
		},
		"gochannel": func(h *harness) (watermillsqs.Source, message.Publisher) {
			channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
			return watermillsqs.Source{
				Subscriber: channel,
				Republish:  &watermillsqs.Republish{Publisher: channel, Topic: "orders", MaxAttempts: 5},
			}, channel
		},
	} {
		t.Run(name, func(t *testing.T) {
			realTime(t, func(t *testing.T, h *harness) {
				source, pub := source(h)
				retry, err := watermillsqs.NewRetry(source)
				require.NoError(t, err)
				router, err := message.NewRouter(message.RouterConfig{}, h.log)
				require.NoError(t, err)
				router.AddMiddleware(retry)
				var mu sync.Mutex
				var handled []string
				finished := make(chan struct{})
				router.AddConsumerHandler("h", "orders", source.Subscriber, func(msg *message.Message) error {
					mu.Lock()
					defer mu.Unlock()
					body := string(msg.Payload)
					handled = append(handled, body)
					if len(handled) == 4 {
						close(finished)
					}
					switch count(handled, body) {
					case 1:
						if body == "drop" {
							return watermillsqs.DropError(errors.New("hopeless"))
						}
						return errors.New("plain")
					case 2:
						return watermillsqs.RetryAfterError(errors.New("busy"), time.Second)
					}
					return nil
				})
				ran := make(chan error, 1)
				go func() { ran <- router.Run(t.Context()) }()
				<-router.Running()
				start := time.Now()
				for _, body := range []string{"drop", "retry"} {
					require.NoError(t, pub.Publish("orders", message.NewMessage(watermill.NewUUID(), []byte(body))))
				}
				// drop once; retry three times, the last one a second later.
				<-finished
				assert.GreaterOrEqual(t, time.Since(start), time.Second)
				require.NoError(t, router.Close())
				require.NoError(t, <-ran)
				assert.Equal(t, 1, count(handled, "drop"))
				assert.Equal(t, 3, count(handled, "retry"))
				if name == "SQS" {
					assert.Equal(t, 2, h.service.Count("SendMessage"), "nothing is republished")
					assert.Equal(t, 0, h.service.Queue("orders").Len())
				}
			})
		})
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

type recordingPublisher struct{ sent []*message.Message }

func (p *recordingPublisher) Publish(_ string, messages ...*message.Message) error {
	p.sent = append(p.sent, messages...)
	return nil
}

func (p *recordingPublisher) Close() error { return nil }

// The fallback counts attempts in metadata and lets the last error go on.
func TestRepublish(t *testing.T) {
	fail := errors.New("failed")
	channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	defer channel.Close()
	pub := &recordingPublisher{}
	retry, err := watermillsqs.NewRetry(watermillsqs.Source{
		Subscriber: channel, Republish: &watermillsqs.Republish{Publisher: pub, Topic: "t"},
	})
	require.NoError(t, err)
	msg := message.NewMessage("1", []byte("x"))
	for attempt := 1; attempt <= 3; attempt++ {
		_, err := retry(func(*message.Message) ([]*message.Message, error) { return nil, fail })(msg)
		if attempt == 3 {
			assert.ErrorIs(t, err, fail)
			assert.Len(t, pub.sent, 2)
			break
		}
		require.NoError(t, err)
		require.Len(t, pub.sent, attempt)
		msg = pub.sent[attempt-1]
		assert.Equal(t, "1", msg.UUID)
	}
	// Where it is stopped while it waits, the original is not acked.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	msg = message.NewMessageWithContext(ctx, "2", nil)
	_, err = retry(func(*message.Message) ([]*message.Message, error) {
		return nil, watermillsqs.RetryAfterError(fail, time.Hour)
	})(msg)
	assert.ErrorIs(t, err, fail)
	assert.Len(t, pub.sent, 2)
}

type unwrapper struct {
	message.Subscriber

	inner message.Subscriber
}

func (u unwrapper) Unwrap() message.Subscriber { return u.inner }

// decorations are ways in which a subscriber can be wrapped.
func decorations(t *testing.T, sub message.Subscriber) map[string]message.Subscriber {
	transformed, err := message.MessageTransformSubscriberDecorator(func(*message.Message) {})(sub)
	require.NoError(t, err)
	twice, err := message.MessageTransformSubscriberDecorator(func(*message.Message) {})(transformed)
	require.NoError(t, err)
	return map[string]message.Subscriber{
		"plain": sub, "Watermill's decorator": transformed, "twice": twice,
		"Unwrap": unwrapper{inner: sub}, "Unwrap of a decorator": unwrapper{inner: transformed},
	}
}

func TestRetryRefusesToRepublish(t *testing.T) {
	realTime(t, func(t *testing.T, h *harness) {
		channel := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		defer channel.Close()
		fallback := &watermillsqs.Republish{Publisher: channel, Topic: "t"}
		for name, sub := range decorations(t, h.subscriber(watermillsqs.SubscriberConfig{})) {
			_, err := watermillsqs.NewRetry(watermillsqs.Source{Subscriber: sub, Republish: fallback})
			require.ErrorIs(t, err, watermillsqs.ErrRepublishRetry, name)
			assert.ErrorContains(t, err, "MaxAttempts")
			_, err = watermillsqs.NewRetry(watermillsqs.Source{Subscriber: sub})
			require.NoError(t, err, name)
			err = watermillsqs.CheckRequeuer(requeuer.Config{Subscriber: sub, SubscribeTopic: "dead"})
			require.ErrorIs(t, err, watermillsqs.ErrRepublishRetry, name)
			assert.ErrorContains(t, err, `"dead"`)
		}
		for name, sub := range decorations(t, channel) {
			_, err := watermillsqs.NewRetry(watermillsqs.Source{Subscriber: sub})
			require.ErrorIs(t, err, watermillsqs.ErrNoRepublisher, name)
			_, err = watermillsqs.NewRetry(watermillsqs.Source{Subscriber: sub, Republish: fallback})
			require.NoError(t, err, name)
			require.NoError(t, watermillsqs.CheckRequeuer(requeuer.Config{Subscriber: sub}))
		}
		for _, republish := range []watermillsqs.Republish{{Topic: "t"}, {Publisher: channel}, {Publisher: channel, Topic: "t", MaxAttempts: 1}} {
			_, err := watermillsqs.NewRetry(watermillsqs.Source{Subscriber: channel, Republish: &republish})
			assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
		}
		_, err := watermillsqs.NewRetry(watermillsqs.Source{})
		assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
	})
}

// The guard refuses what would republish and lets everything else pass.
func TestGuard(t *testing.T) {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	pub := &recordingPublisher{}
	poison, err := middleware.PoisonQueue(pub, "poison")
	require.NoError(t, err)
	filtered, err := middleware.PoisonQueueWithFilter(pub, "poison", func(error) bool { return true })
	require.NoError(t, err)
	for _, piece := range []message.HandlerMiddleware{poison, filtered} {
		err := watermillsqs.AddMiddleware(router, middleware.Recoverer, piece)
		require.ErrorIs(t, err, watermillsqs.ErrRepublishRetry)
		assert.ErrorContains(t, err, "PoisonQueue")
		assert.ErrorContains(t, err, "Queue.MaxAttempts")
	}
	err = watermillsqs.AddMiddleware(router, (&middleware.Deduplicator{}).Middleware)
	require.ErrorIs(t, err, watermillsqs.ErrUnsafeMiddleware)
	assert.ErrorContains(t, err, "Deduplicator")
	handler := router.AddConsumerHandler("h", "t", gochannel.NewGoChannel(gochannel.Config{}, nil), nil)
	require.ErrorIs(t, watermillsqs.AddMiddleware(handler, poison), watermillsqs.ErrRepublishRetry)
	harmless := []message.HandlerMiddleware{
		middleware.Recoverer, middleware.Retry{}.Middleware, middleware.NewThrottle(1, time.Second).Middleware,
		(&middleware.DelayOnError{}).Middleware, middleware.Timeout(time.Second), middleware.CorrelationID, watermillsqs.Outcomes,
		middleware.InstantAck, middleware.NewIgnoreErrors(nil).Middleware,
	}
	require.NoError(t, watermillsqs.AddMiddleware(router, harmless...))
	require.NoError(t, watermillsqs.AddMiddleware(handler, harmless...))
}

// The second line: a closure hides the piece from the guard, and the publisher refuses
// what it sends. The message is retried natively and ends in the dead-letter queue.
func TestPublisherRefusesAHiddenPoisonQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		poisonQueue := h.queue("poison", nil)
		dead := h.queue("dead", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		poison, err := middleware.PoisonQueue(pub, "poison")
		require.NoError(t, err)
		h.queue("orders", map[string]string{"RedrivePolicy": redrivePolicy(dead, 3)})
		h.publish("orders", "x")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		fail := errors.New("failed")
		for range 3 {
			msg := h.next(messages)
			_, err := poison(func(*message.Message) ([]*message.Message, error) { return nil, fail })(msg)
			require.ErrorIs(t, err, watermillsqs.ErrRepublishRetry)
			require.ErrorIs(t, err, fail, "the handler's error stays one")
			msg.Nack()
		}
		h.none(messages, time.Minute)
		assert.Equal(t, 0, poisonQueue.Len())
		assert.Equal(t, 1, dead.Len())
	})
}

// An old poison queue, filled before, can still be drained by a passthrough handler.
func TestOldPoisonQueueCanBeDrained(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		orders := h.queue("orders", nil)
		h.queue("poison", nil)
		old := message.NewMessage("1", []byte("x"))
		old.Metadata.Set(middleware.ReasonForPoisonedKey, "failed")
		old.Metadata.Set(requeuer.RetriesKey, "2")
		pub := h.publisher(watermillsqs.PublisherConfig{})
		require.NoError(t, pub.Publish("poison", old))
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "poison")
		msg := h.next(messages)
		require.NoError(t, pub.Publish("orders", msg))
		msg.Ack()
		assert.Equal(t, 1, orders.Len())
	})
}

// A message that was unwrapped from an envelope has the context of the envelope's
// delivery, and marks of its own: it is not the delivery, and is not refused.
func TestUnwrappedMessageKeepsItsMarks(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		orders := h.queue("orders", nil)
		h.queue("outbox", nil)
		h.publish("outbox", "envelope")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "outbox")
		envelope := h.next(messages)
		inner := message.NewMessageWithContext(envelope.Context(), "inner", []byte("x"))
		inner.Metadata.Set(middleware.ReasonForPoisonedKey, "failed elsewhere")
		require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", inner))
		envelope.Ack()
		assert.Equal(t, 1, orders.Len())
	})
}

// Requeueing hidden from CheckRequeuer is refused by the publisher, too.
func TestPublisherRefusesAHiddenRequeuer(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.publish("orders", "x")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		msg := h.next(messages)
		msg.Metadata.Set(requeuer.RetriesKey, "1")
		err := h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", msg)
		require.ErrorIs(t, err, watermillsqs.ErrRepublishRetry)
		assert.ErrorContains(t, err, "requeuer")
		msg.Ack()
	})
}
