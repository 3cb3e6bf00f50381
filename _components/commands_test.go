package components

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

var marshaler = cqrs.JSONMarshaler{GenerateName: cqrs.StructName}

func (p *process) commandBus(topic func(command string) string) *cqrs.CommandBus {
	p.t.Helper()
	bus, err := cqrs.NewCommandBusWithConfig(p.publisher, cqrs.CommandBusConfig{
		GeneratePublishTopic: func(params cqrs.CommandBusGeneratePublishTopicParams) (string, error) {
			return topic(params.CommandName), nil
		},
		Marshaler: marshaler,
	})
	require.NoError(p.t, err)
	return bus
}

// commands is a CommandProcessorConfig for queues that are named after commands. Tests
// change what they are about.
func (p *process) commands(topic func(command string) string) cqrs.CommandProcessorConfig {
	return cqrs.CommandProcessorConfig{
		GenerateSubscribeTopic: func(params cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) {
			return topic(params.CommandName), nil
		},
		SubscriberConstructor: func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return p.subscriber(watermillsqs.SubscriberConfig{}), nil
		},
		Marshaler: marshaler,
	}
}

func (p *process) handleCommands(config cqrs.CommandProcessorConfig, handlers ...cqrs.CommandHandler) {
	p.t.Helper()
	processor, err := cqrs.NewCommandProcessorWithConfig(p.router, config)
	require.NoError(p.t, err)
	require.NoError(p.t, processor.AddHandlers(handlers...))
}

// With a queue for each command, every handler gets its commands, whoever sent them.
func TestCommandQueues(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		charges, refunds := queue(t, service, "Charge"), queue(t, service, "Refund")
		var handled journal
		worker := newProcess(t, service)
		worker.handleCommands(worker.commands(byName),
			cqrs.NewCommandHandler("charge", func(_ context.Context, c *Charge) error { handled.add("charge", c.Amount); return nil }),
			cqrs.NewCommandHandler("refund", func(_ context.Context, r *Refund) error { handled.add("refund", r.Amount); return nil }),
		)
		worker.run()
		bus := newProcess(t, service).commandBus(byName)
		for i := range 20 {
			require.NoError(t, bus.Send(t.Context(), &Charge{i + 1}))
			require.NoError(t, bus.Send(t.Context(), &Refund{i + 1}))
		}
		pass(time.Second)
		assert.Equal(t, oneTo(20), handled.of("charge"))
		assert.Equal(t, oneTo(20), handled.of("refund"))
		assert.Equal(t, 0, charges.Len()+refunds.Len())
	})
}

// A handler's error is a verdict on its message: the message that comes again is the
// same one, received once more, and not a copy.
func TestCommandVerdicts(t *testing.T) {
	for _, test := range []struct {
		name     string
		err      error
		outcomes []watermillsqs.Outcome
		after    time.Duration
	}{
		{"error", errFailed, []watermillsqs.Outcome{watermillsqs.Retried, watermillsqs.Acked}, 0},
		{
			"RetryAfterError", watermillsqs.RetryAfterError(errFailed, time.Minute),
			[]watermillsqs.Outcome{watermillsqs.Retried, watermillsqs.Acked}, time.Minute,
		},
		{"DropError", watermillsqs.DropError(errFailed), []watermillsqs.Outcome{watermillsqs.Dropped}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *sqstest.Service) {
				charges := queue(t, service, "Charge")
				var uuids, ids []string
				var receives []int
				var at []time.Time
				p := newProcess(t, service)
				p.handleCommands(p.commands(byName), cqrs.NewCommandHandler("charge", func(ctx context.Context, _ *Charge) error {
					facts, ok := watermillsqs.DeliveryFromContext(ctx)
					assert.True(t, ok)
					uuids = append(uuids, cqrs.OriginalMessageFromCtx(ctx).UUID)
					ids = append(ids, facts.MessageID)
					receives = append(receives, facts.ReceiveCount)
					at = append(at, time.Now())
					if len(receives) == 1 {
						return test.err
					}
					return nil
				}))
				p.run()
				require.NoError(t, p.commandBus(byName).Send(t.Context(), &Charge{1}))
				pass(5 * time.Minute)
				assert.Equal(t, test.outcomes, p.outcomes())
				assert.Equal(t, oneTo(len(test.outcomes)), receives)
				for i := range receives {
					assert.Equal(t, ids[0], ids[i])
					assert.Equal(t, uuids[0], uuids[i])
				}
				assert.Equal(t, test.after, at[len(at)-1].Sub(at[0]))
				assert.Equal(t, test.after, p.delays()[0])
				assert.Equal(t, 1, service.Count("SendMessage"), "nothing is republished")
				assert.Equal(t, 0, charges.Len())
			})
		})
	}
}

// AckCommandHandlingErrors takes every error for a success, a verdict too.
func TestAckCommandHandlingErrors(t *testing.T) {
	for _, err := range []error{errFailed, watermillsqs.RetryAfterError(errFailed, time.Minute), watermillsqs.DropError(errFailed)} {
		bubble(t, func(t *testing.T, service *sqstest.Service) {
			charges := queue(t, service, "Charge")
			p := newProcess(t, service)
			config := p.commands(byName)
			config.AckCommandHandlingErrors = true
			p.handleCommands(config, cqrs.NewCommandHandler("charge", func(context.Context, *Charge) error { return err }))
			p.run()
			require.NoError(t, p.commandBus(byName).Send(t.Context(), &Charge{1}))
			pass(5 * time.Minute)
			assert.Equal(t, []watermillsqs.Outcome{watermillsqs.Acked}, p.outcomes())
			assert.Equal(t, 0, charges.Len())
		})
	}
}

// On a shared queue, a handler deletes the commands of the others. Here that of charges
// is busy with one for a while, and that of refunds takes the rest.
func TestCommandsOnASharedQueue(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		q := queue(t, service, "shared")
		var handled journal
		p := newProcess(t, service)
		config := p.commands(shared)
		config.SubscriberConstructor = func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return p.subscriber(watermillsqs.SubscriberConfig{MaxInFlight: 1}), nil
		}
		p.handleCommands(config,
			cqrs.NewCommandHandler("charge", func(_ context.Context, c *Charge) error {
				handled.add("charge", c.Amount)
				time.Sleep(50 * time.Second) // not into the instant of an extension, which it could overtake
				return nil
			}),
			cqrs.NewCommandHandler("refund", func(_ context.Context, r *Refund) error { handled.add("refund", r.Amount); return nil }),
		)
		p.run()
		bus := p.commandBus(shared)
		for i := range 20 {
			require.NoError(t, bus.Send(t.Context(), &Charge{i + 1}))
		}
		pass(5 * time.Minute)
		assert.LessOrEqual(t, len(handled.of("charge")), 1)
		assert.Empty(t, handled.of("refund"))
		assert.Len(t, p.outcomes(), 20)
		assert.NotContains(t, p.outcomes(), watermillsqs.Retried)
		assert.Equal(t, 0, q.Len(), "all 20 are deleted")
	})
}
