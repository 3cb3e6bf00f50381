package components

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// eventGroups is an EventGroupProcessorConfig for the shared queue. Tests change what
// they are about.
func (p *process) eventGroups() cqrs.EventGroupProcessorConfig {
	return cqrs.EventGroupProcessorConfig{
		GenerateSubscribeTopic: func(cqrs.EventGroupProcessorGenerateSubscribeTopicParams) (string, error) {
			return "shared", nil
		},
		SubscriberConstructor: func(cqrs.EventGroupProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return p.subscriber(watermillsqs.SubscriberConfig{}), nil
		},
		Marshaler: marshaler,
	}
}

func (p *process) handleEventGroup(config cqrs.EventGroupProcessorConfig, handlers ...cqrs.GroupEventHandler) {
	p.t.Helper()
	processor, err := cqrs.NewEventGroupProcessorWithConfig(p.router, config)
	require.NoError(p.t, err)
	require.NoError(p.t, processor.AddHandlersGroup("group", handlers...))
}

// A group that knows the events of its queue shares it well. An event that it does not
// know is retried until the redrive policy moves it, or deleted by AckOnUnknownEvent.
func TestEventGroup(t *testing.T) {
	type event struct{}
	for _, ackUnknown := range []bool{false, true} {
		bubble(t, func(t *testing.T, service *sqstest.Service) {
			dead := queue(t, service, "dead")
			q := redrivenQueue(t, service, "shared", dead)
			var handled journal
			p := newProcess(t, service)
			config := p.eventGroups()
			config.AckOnUnknownEvent = ackUnknown
			p.handleEventGroup(config,
				cqrs.NewGroupEventHandler(func(_ context.Context, c *Charge) error { handled.add("charge", c.Amount); return nil }),
				cqrs.NewGroupEventHandler(func(_ context.Context, r *Refund) error { handled.add("refund", r.Amount); return nil }),
			)
			p.run()
			bus := eventBus(t, p.publisher, shared)
			for i := range 20 {
				require.NoError(t, bus.Publish(t.Context(), &Charge{i + 1}))
				require.NoError(t, bus.Publish(t.Context(), &Refund{i + 1}))
			}
			pass(time.Minute)
			assert.Equal(t, oneTo(20), handled.of("charge"))
			assert.Equal(t, oneTo(20), handled.of("refund"))
			assert.NotContains(t, p.outcomes(), watermillsqs.Retried)

			require.NoError(t, bus.Publish(t.Context(), &event{}))
			pass(time.Minute)
			assert.Equal(t, 0, q.Len())
			assert.Equal(t, !ackUnknown, dead.Len() == 1)
		})
	}
}

// The handlers of one event in a group share one delivery: when the second one fails,
// the retry runs the first one again.
func TestEventGroupRunsAgainAsAWhole(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		q := queue(t, service, "shared")
		var handled journal
		failures := 0
		p := newProcess(t, service)
		p.handleEventGroup(p.eventGroups(),
			cqrs.NewGroupEventHandler(func(_ context.Context, c *Charge) error { handled.add("first", c.Amount); return nil }),
			cqrs.NewGroupEventHandler(func(_ context.Context, c *Charge) error {
				handled.add("second", c.Amount)
				if failures++; failures == 1 {
					return watermillsqs.RetryAfterError(errFailed, time.Minute)
				}
				return nil
			}),
		)
		p.run()
		require.NoError(t, eventBus(t, p.publisher, shared).Publish(t.Context(), &Charge{1}))
		pass(5 * time.Minute)
		assert.Equal(t, []int{1, 1}, handled.of("first"))
		assert.Equal(t, []int{1, 1}, handled.of("second"))
		assert.Equal(t, []time.Duration{time.Minute, 0}, p.delays())
		assert.Equal(t, 0, q.Len())
	})
}

// Events of both marshalers for protobuf arrive: those whose bytes are not text travel
// as base64, the others as they are.
func TestProtobufEvents(t *testing.T) {
	for name, marshaler := range map[string]cqrs.CommandEventMarshaler{
		"ProtoMarshaler":    cqrs.ProtoMarshaler{},
		"ProtobufMarshaler": cqrs.ProtobufMarshaler{},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *sqstest.Service) {
				q := queue(t, service, "shared")
				p := newProcess(t, service)
				bus, err := cqrs.NewEventBusWithConfig(p.publisher, cqrs.EventBusConfig{
					GeneratePublishTopic: func(cqrs.GenerateEventPublishTopicParams) (string, error) { return "shared", nil },
					Marshaler:            marshaler,
				})
				require.NoError(t, err)
				sent := wrapperspb.Bytes([]byte{0, 7, 0xff, 0xfe})
				require.NoError(t, bus.Publish(t.Context(), sent))
				require.NoError(t, bus.Publish(t.Context(), durationpb.New(0))) // no bytes at all
				require.Equal(t, 2, q.Len())
				on := q.Messages()[0]
				assert.Equal(t, "CgQAB//+", on.Body)
				assert.Len(t, on.Attributes, 3, "name, UUID, and how the body is encoded")

				var got []byte
				var zero *time.Duration
				config := p.eventGroups()
				config.Marshaler = marshaler
				p.handleEventGroup(config,
					cqrs.NewGroupEventHandler(func(_ context.Context, b *wrapperspb.BytesValue) error { got = b.GetValue(); return nil }),
					cqrs.NewGroupEventHandler(func(_ context.Context, d *durationpb.Duration) error {
						duration := d.AsDuration()
						zero = &duration
						return nil
					}),
				)
				p.run()
				pass(time.Minute)
				assert.Equal(t, sent.GetValue(), got)
				require.NotNil(t, zero)
				assert.Zero(t, *zero)
				assert.Equal(t, 0, q.Len())
			})
		})
	}
}
