package components

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func eventBus(t *testing.T, publisher message.Publisher, topic func(event string) string) *cqrs.EventBus {
	t.Helper()
	bus, err := cqrs.NewEventBusWithConfig(publisher, cqrs.EventBusConfig{
		GeneratePublishTopic: func(params cqrs.GenerateEventPublishTopicParams) (string, error) {
			return topic(params.EventName), nil
		},
		Marshaler: marshaler,
	})
	require.NoError(t, err)
	return bus
}

// events is an EventProcessorConfig for queues that are named after handlers. Tests
// change what they are about.
func (p *process) events(topic func(handler string) string) cqrs.EventProcessorConfig {
	return cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(params cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) {
			return topic(params.EventHandler.HandlerName()), nil
		},
		SubscriberConstructor: func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return p.subscriber(watermillsqs.SubscriberConfig{}), nil
		},
		Marshaler: marshaler,
	}
}

func (p *process) handleEvents(config cqrs.EventProcessorConfig, handlers ...cqrs.EventHandler) {
	p.t.Helper()
	processor, err := cqrs.NewEventProcessorWithConfig(p.router, config)
	require.NoError(p.t, err)
	require.NoError(p.t, processor.AddHandlers(handlers...))
}

// What a handler on a shared queue does with the event of another: with every receive
// that it takes, the event comes closer to the dead-letter queue; or it is deleted.
func TestUnknownEvents(t *testing.T) {
	refund := cqrs.NewEventHandler("refund", func(context.Context, *Refund) error { panic("this is a charge") })
	ackOnUnknown := func(ack bool) func(p *process) {
		return func(p *process) {
			config := p.events(shared)
			config.AckOnUnknownEvent = ack
			p.handleEvents(config, refund)
		}
	}
	retried := []watermillsqs.Outcome{watermillsqs.Retried, watermillsqs.Retried, watermillsqs.Retried}
	for _, test := range []struct {
		name     string
		handle   func(p *process)
		outcomes []watermillsqs.Outcome
		dead     int
	}{
		{"nacked", ackOnUnknown(false), retried, 1},
		{"AckOnUnknownEvent", ackOnUnknown(true), []watermillsqs.Outcome{watermillsqs.Acked}, 0},
		{"NewEventProcessor", func(p *process) {
			processor, err := cqrs.NewEventProcessor([]cqrs.EventHandler{refund}, shared,
				func(string) (message.Subscriber, error) { return p.subscriber(watermillsqs.SubscriberConfig{}), nil },
				marshaler, watermill.NopLogger{})
			require.NoError(p.t, err)
			require.NoError(p.t, processor.AddHandlersToRouter(p.router))
		}, []watermillsqs.Outcome{watermillsqs.Acked}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *sqstest.Service) {
				dead := queue(t, service, "dead")
				q := redrivenQueue(t, service, "shared", dead)
				p := newProcess(t, service)
				test.handle(p)
				p.run()
				require.NoError(t, eventBus(t, p.publisher, shared).Publish(t.Context(), &Charge{1}))
				pass(5 * time.Minute)
				assert.Equal(t, test.outcomes, p.outcomes())
				assert.Equal(t, 0, q.Len())
				assert.Equal(t, test.dead, dead.Len())
			})
		})
	}
}

// Two handlers of one event on one queue compete for its messages: each event reaches
// one of them, and not both.
func TestEventsOnASharedQueue(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		q := queue(t, service, "shared")
		var handled journal
		for _, name := range []string{"ledger", "mailer"} {
			p := newProcess(t, service)
			p.handleEvents(p.events(shared), cqrs.NewEventHandler(name, func(_ context.Context, c *Charge) error {
				handled.add(name, c.Amount)
				return nil
			}))
			p.run()
		}
		bus := eventBus(t, newProcess(t, service).publisher, shared)
		for i := range 20 {
			require.NoError(t, bus.Publish(t.Context(), &Charge{i + 1}))
		}
		pass(time.Minute)
		assert.ElementsMatch(t, oneTo(20), append(handled.of("ledger"), handled.of("mailer")...))
		assert.Equal(t, 0, q.Len())
	})
}

// Two handlers of different events on one queue: each nacks what it gets of the other's,
// and some events reach the wrong one until the redrive policy moves them.
func TestUnknownEventsUseUpReceives(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		dead := queue(t, service, "dead")
		q := redrivenQueue(t, service, "shared", dead)
		var handled journal
		p := newProcess(t, service)
		p.handleEvents(p.events(shared),
			cqrs.NewEventHandler("charge", func(_ context.Context, c *Charge) error { handled.add("charge", c.Amount); return nil }),
			cqrs.NewEventHandler("refund", func(_ context.Context, r *Refund) error { handled.add("refund", r.Amount); return nil }),
		)
		p.run()
		bus := eventBus(t, p.publisher, shared)
		for i := range 100 {
			require.NoError(t, bus.Publish(t.Context(), &Charge{i + 1}))
			require.NoError(t, bus.Publish(t.Context(), &Refund{i + 1}))
		}
		pass(time.Minute)
		assert.Equal(t, 0, q.Len())
		assert.NotZero(t, dead.Len(), "an eighth, by chance")
		assert.Equal(t, 200, len(handled.of("charge"))+len(handled.of("refund"))+dead.Len())
	})
}

// The alternative: an SNS topic, and behind it a queue for each handler. Each handler
// gets all of its events, and retries alone. The others' events come to its queue, too,
// and AckOnUnknownEvent is right there: it deletes nobody else's copy.
func TestEventQueuePerHandler(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		handlers := []string{"ledger", "mailer", "refunds"}
		topic := newFanOutTopic(t, service, "events", handlers...)
		var handled journal
		p := newProcess(t, service)
		failures := 0
		config := p.events(byName)
		config.AckOnUnknownEvent = true
		p.handleEvents(config,
			cqrs.NewEventHandler("ledger", func(_ context.Context, c *Charge) error { handled.add("ledger", c.Amount); return nil }),
			cqrs.NewEventHandler("mailer", func(_ context.Context, c *Charge) error {
				handled.add("mailer", c.Amount)
				if failures++; failures == 1 {
					return errFailed
				}
				return nil
			}),
			cqrs.NewEventHandler("refunds", func(_ context.Context, r *Refund) error { handled.add("refunds", r.Amount); return nil }),
		)
		p.run()
		bus := eventBus(t, topic, func(string) string { return "events" })
		require.NoError(t, bus.Publish(t.Context(), &Charge{1}))
		pass(time.Minute)
		assert.Equal(t, []int{1, 1}, handled.of("mailer"), "it failed once")
		require.NoError(t, bus.Publish(t.Context(), &Charge{2}))
		require.NoError(t, bus.Publish(t.Context(), &Refund{3}))
		pass(time.Minute)
		assert.Equal(t, []int{1, 2}, handled.of("ledger"))
		assert.Equal(t, []int{1, 1, 2}, handled.of("mailer"))
		assert.Equal(t, []int{3}, handled.of("refunds"))
		for _, name := range handlers {
			assert.Equal(t, 0, service.Queue(name).Len())
		}
	})
}
