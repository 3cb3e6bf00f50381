package watermillsqs

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// A Publisher sends to SQS queues. It implements [message.Publisher] and is safe for
// concurrent use.
type Publisher struct {
	conn   *Connection
	config PublisherConfig
	log    watermill.LoggerAdapter

	closing sync.Mutex // held by Close
	closed  atomic.Pointer[closeMark]
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher on a connection, which need not be connected
// yet. It does no I/O. A nil logger logs nothing.
//
// It returns an error that wraps [ErrInvalidConfig] where the configuration is out
// of range.
func NewPublisher(conn *Connection, config PublisherConfig, logger watermill.LoggerAdapter) (*Publisher, error) {
	if conn == nil {
		return nil, fmt.Errorf("%w: NewPublisher needs a Connection, got nil", ErrInvalidConfig)
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	return &Publisher{conn: conn, config: config, log: logger}, nil
}

// Publish sends messages to the queue that topic names (by name, URL or ARN) and
// returns when SQS has accepted all of them, or with an error that says which were
// not: see [PublishError].
//
// A call with a message that can never be sent sends nothing. A lone message leaves
// at once, as SendMessage, and several as SendMessageBatch, up to ten and 1 MiB per
// call. While a send to the queue is under way, what other calls of Publish on this
// connection bring meanwhile piles up, and leaves together: full batches at once, the
// rest when the send is answered, or has taken 250 ms. No timer delays a message
// otherwise. Each call of Publish gets the result of its own messages. Its
// batches leave up to 64 at a time, to a FIFO queue one after the other.
//
// Messages that fail alone are sent again alone, up to three times in all, unless SQS
// says that they can never be accepted. A batch that is refused as a whole for what
// one message contains is sent message by message. When a call fails as a whole
// although the SDK has tried it again, what of this Publish is not under way yet is not
// sent.
//
// A message whose context has ended before it is on the wire is not sent, unless the
// context is that of a delivery of this library: a router publishes what a handler
// produced after the handler's context may have ended. Once a message is on the wire
// its answer is waited for, up to PublishTimeout. Watermill's delay metadata
// (components/delay) becomes DelaySeconds.
//
// To a FIFO queue (its name ends in .fifo) each message needs a group: see
// [GroupIDKey] and [DeduplicationIDKey]. Within a group, the messages of one call, and
// those of calls that follow each other, are in the queue in that order. So after one
// that was not accepted none of its group's later ones of the same call is sent, and it
// is sent again only if none of them was accepted in the same batch.
//
// Publish does not change the messages.
//
// Errors: [PublishError]; or, before anything else, ErrNotConnected, ErrClosed or
// ErrInvalidQueue (wrapped). Those of the single messages wrap ErrInvalidMessage,
// ErrMessageTooLarge, ErrInvalidDelay, ErrRepublishRetry, context.DeadlineExceeded
// after PublishTimeout, the cause with which a context has ended, or the SDK's error.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	clients, err := p.conn.beginPublish()
	if err != nil {
		return err
	}
	defer p.conn.endPublish()
	if p.isClosed() {
		return fmt.Errorf("watermillsqs: publish to %q: the publisher is closed: %w", topic, ErrClosed)
	}
	id, err := parseTopic(topic, clients.region, p.config.QueueName)
	if err != nil {
		return err
	}
	if len(messages) == 0 {
		return nil
	}
	call := &publishCall{config: &p.config, conn: p.conn, log: p.log, clients: clients, id: id}
	return call.publish(topic, messages)
}

// Close refuses further publishes, once no subscription of the connection is open
// or draining: a router closes the publisher of a handler that has stopped, while
// other handlers that share it may still be draining and publish what they
// produce. There is nothing to flush. It is idempotent.
func (p *Publisher) Close() error {
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.closed.Load() == nil {
		mark := p.conn.markClose()
		p.closed.Store(&mark)
	}
	return nil
}

func (p *Publisher) isClosed() bool {
	mark := p.closed.Load()
	return mark != nil && p.conn.inEffect(*mark)
}
