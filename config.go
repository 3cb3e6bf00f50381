package watermillsqs

import (
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	defaultMaxInFlight    = 10
	defaultCloseTimeout   = 10 * time.Second
	defaultPublishTimeout = 30 * time.Second
)

// SubscriberConfig says how a [Subscriber] receives and settles. The zero value
// works. [NewSubscriber] refuses what is out of range, with an error that wraps
// [ErrInvalidConfig] or [ErrInvalidQueue].
type SubscriberConfig struct {
	// Queue describes every queue that Queues does not.
	Queue Queue

	// Queues describes the queues of single topics, by the topic as it is given to
	// Subscribe. An entry replaces Queue as a whole for its topic: a field that it
	// leaves unset has that field's default, not the value that Queue has.
	Queues map[string]Queue

	// QueueName maps a topic that is neither a URL nor an ARN onto the name of its
	// queue. Publishers of the same topics need the same function. Default:
	// [DefaultQueueName], together with the check that no two topics of a
	// connection end up on one queue.
	QueueName func(topic string) string

	// MaxInFlight is the largest number of messages per subscription that have
	// been received and not settled. It is the only brake: a Watermill router
	// starts a goroutine for every message it is given. No more is received than
	// can be handed out at once. On a FIFO queue it is the number of message groups:
	// of each, one message is handed out, and up to nine wait behind it. 1 or more.
	// Default: 10.
	MaxInFlight int

	// MaxExtension is how long one delivery may be held in all, from its receipt:
	// its visibility timeout is extended (ChangeMessageVisibility) until then, and
	// past it the lease is lost. Default: the 12 hours that SQS allows, which is
	// also the most. Negative: never extend.
	MaxExtension time.Duration

	// Backoff maps the receive count of a message (1 for the first delivery) to
	// the delay after a plain Nack (ChangeMessageVisibility). It needs no state, so
	// it survives crashes and is shared by all consumers. See
	// [ExponentialBackoff]. Default: nil, visible again at once.
	Backoff func(receiveCount int) time.Duration

	// CloseTimeout is how long handlers may go on when a subscription ends, before
	// the contexts of their messages are cancelled. Keep it below the CloseTimeout
	// of the router (30 s by default). Default: 10 s. Negative: cancel at once.
	CloseTimeout time.Duration

	// Marshaler turns what SQS delivers into Watermill messages. Default:
	// [DefaultMarshaler].
	Marshaler Marshaler

	// Hooks are called when something happened.
	Hooks Hooks
}

func (c SubscriberConfig) withDefaults() SubscriberConfig {
	c.Queue = c.Queue.withDefaults()
	queues := make(map[string]Queue, len(c.Queues))
	for topic, queue := range c.Queues {
		queues[topic] = queue.withDefaults()
	}
	c.Queues = queues
	if c.MaxInFlight == 0 {
		c.MaxInFlight = defaultMaxInFlight
	}
	if c.MaxExtension == 0 {
		c.MaxExtension = maxVisibility
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = defaultCloseTimeout
	}
	if c.Marshaler == nil {
		c.Marshaler = DefaultMarshaler{}
	}
	return c
}

func (c SubscriberConfig) validate() error {
	if err := c.Queue.validate("SubscriberConfig.Queue"); err != nil {
		return err
	}
	for topic, queue := range c.Queues {
		if err := queue.validate(fmt.Sprintf("SubscriberConfig.Queues[%q]", topic)); err != nil {
			return err
		}
	}
	if c.MaxInFlight < 1 {
		return fmt.Errorf("%w: SubscriberConfig.MaxInFlight is %d, must be at least 1 (0 is the default, %d)",
			ErrInvalidConfig, c.MaxInFlight, defaultMaxInFlight)
	}
	if c.MaxExtension > maxVisibility {
		return fmt.Errorf("%w: SubscriberConfig.MaxExtension is %v, must be at most 12h, which is what SQS allows",
			ErrInvalidConfig, c.MaxExtension)
	}
	return nil
}

func (c SubscriberConfig) queue(topic string) Queue {
	if queue, ok := c.Queues[topic]; ok {
		return queue
	}
	return c.Queue
}

// PublisherConfig says how a [Publisher] sends. The zero value works.
// [NewPublisher] refuses what is out of range, with an error that wraps
// [ErrInvalidConfig].
type PublisherConfig struct {
	// QueueName maps a topic onto the name of its queue, as in [SubscriberConfig].
	// Default: [DefaultQueueName].
	QueueName func(topic string) string

	// CreateIfMissing creates a queue that is published to and does not exist
	// (CreateQueue). Default: false, publishing to a missing queue is an error.
	CreateIfMissing bool

	// Attributes and Tags are those with which a queue is created.
	Attributes map[string]string
	Tags       map[string]string

	// PublishTimeout bounds one Publish call. When it has passed, what is not on the
	// wire is not sent any more, and of what is, the answer is not known: SQS may
	// have accepted it. Default: 30 s. Negative is refused.
	PublishTimeout time.Duration

	// GroupID returns the message group of a message (MessageGroupId), in place of
	// the metadata key [GroupIDKey], which says what it may be and what it is for. ""
	// is none, which is an error for a FIFO queue. It must not change the message.
	// Default: nil, the metadata key.
	GroupID func(topic string, msg *message.Message) string

	// DeduplicationID returns the deduplication id of a message to a FIFO queue
	// (MessageDeduplicationId), in place of the metadata key [DeduplicationIDKey] and
	// of the UUID. "" sends none: then the queue must have content-based
	// deduplication, which compares bodies, and nothing else. Within five minutes SQS
	// drops, without a word, every message but the first of an id: see
	// [DeduplicationIDKey]. It must not change the message, and is not called for
	// standard queues. Default: nil, the metadata key, else the UUID.
	DeduplicationID func(topic string, msg *message.Message) string

	// Marshaler turns Watermill messages into what SQS carries. Default:
	// [DefaultMarshaler].
	Marshaler Marshaler
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	if c.PublishTimeout == 0 {
		c.PublishTimeout = defaultPublishTimeout
	}
	if c.Marshaler == nil {
		c.Marshaler = DefaultMarshaler{}
	}
	return c
}

func (c PublisherConfig) validate() error {
	if c.PublishTimeout < 0 {
		return fmt.Errorf("%w: PublisherConfig.PublishTimeout is %v, must not be negative (0 is the default, %v)",
			ErrInvalidConfig, c.PublishTimeout, defaultPublishTimeout)
	}
	if m, ok := c.Marshaler.(DefaultMarshaler); ok {
		return m.validate()
	}
	return nil
}

// creation is what CreateQueue is called with, nil where queues are not created.
func (c PublisherConfig) creation() *creation {
	if !c.CreateIfMissing {
		return nil
	}
	return &creation{attributes: c.Attributes, tags: c.Tags}
}
