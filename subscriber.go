package watermillsqs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// initializeTimeout bounds SubscribeInitialize, which has no context of its caller.
const initializeTimeout = 2 * time.Minute

// A Subscriber receives from SQS queues. It implements [message.Subscriber] and
// [message.SubscribeInitializer], is safe for concurrent use, and can have any
// number of subscriptions, each to one queue.
type Subscriber struct {
	conn   *Connection
	config SubscriberConfig
	log    watermill.LoggerAdapter

	mu     sync.Mutex // guards what follows
	closed bool
	open   map[*subscription]struct{}
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber returns a subscriber on a connection, which need not be connected
// yet. It does no I/O. A nil logger logs nothing.
//
// It returns an error that wraps [ErrInvalidConfig] or [ErrInvalidQueue] where the
// configuration is out of range.
func NewSubscriber(conn *Connection, config SubscriberConfig, logger watermill.LoggerAdapter) (*Subscriber, error) {
	if conn == nil {
		return nil, fmt.Errorf("%w: NewSubscriber needs a Connection, got nil", ErrInvalidConfig)
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	return &Subscriber{conn: conn, config: config, log: logger, open: make(map[*subscription]struct{})}, nil
}

// Subscribe opens a subscription to the queue that topic names (by name, URL or
// ARN) and returns the channel of its messages. It looks the queue up
// (GetQueueUrl), creates it where it is missing and the descriptor says so
// (CreateQueue), and reads its visibility timeout and redrive policy
// (GetQueueAttributes). Wrong credentials show here first.
//
// Each message is to be acked or nacked; until then its visibility timeout is
// extended. The context of a message has the values of ctx but not its
// cancellation, ends at the Ack or Nack, and leads to [DeliveryFromContext].
//
// When ctx ends, the subscription is closed as by Close, without waiting for it:
// the channel is closed when that is done.
//
// Errors: ErrNotConnected, ErrClosed, ErrInvalidConfig and ErrInvalidQueue
// (wrapped), or what SQS answered.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	sub := newSubscription(ctx, topic, &s.config)
	queue, err := s.setUp(ctx, sub)
	if err != nil {
		return nil, err
	}
	log := s.log.With(watermill.LogFields{logTopic: topic, logQueue: queue.id.name})
	held := s.conn.hold(queue)
	sub.start(ctx, queue, held, log, func() {
		s.conn.unhold(held)
		s.unregister(sub)
	})
	return sub.out, nil
}

// SubscribeInitialize does what Subscribe does, but for receiving: afterwards the
// queue exists, and messages published to it are kept.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), initializeTimeout)
	defer cancel()
	sub := newSubscription(ctx, topic, &s.config)
	if _, err := s.setUp(ctx, sub); err != nil {
		return err
	}
	s.discard(sub)
	return nil
}

// setUp registers a subscription and finds its queue. From the registration on,
// Close ends it and waits for it. When it fails the subscription is discarded.
func (s *Subscriber) setUp(ctx context.Context, sub *subscription) (*boundQueue, error) {
	if err := s.register(sub); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(sub.stopped, cancel)()

	queue, err := s.find(ctx, sub.topic)
	if sub.stopped.Err() != nil { // closed meanwhile
		cause := fmt.Errorf("watermillsqs: subscribe to %q: %w", sub.topic, ErrClosed)
		if _, closed := s.conn.forSubscribe(); closed != nil {
			cause = closed
		}
		err = errors.Join(cause, err)
	}
	if err != nil {
		s.discard(sub)
		return nil, err
	}
	return queue, nil
}

// discard ends a subscription that is not started.
func (s *Subscriber) discard(sub *subscription) {
	s.unregister(sub)
	sub.stop()
	close(sub.done)
}

// Close ends all subscriptions of the subscriber and returns when their channels
// are closed and nothing of them runs any more. It stops receiving, gives back
// what was never handed out, lets handlers go on for up to CloseTimeout while
// their messages stay invisible to others, settles what they decide, then cancels
// the contexts of the rest, settles what they decide for one second more, and
// leaves what is still undecided alone: it returns to the queue when its lease
// ends.
//
// It is idempotent; every call returns when the subscriber is closed. It does not
// depend on anybody reading the channels.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	open := make([]*subscription, 0, len(s.open))
	for sub := range s.open {
		open = append(open, sub)
	}
	s.mu.Unlock()
	for _, sub := range open {
		sub.stop()
	}
	for _, sub := range open {
		<-sub.done
	}
	return nil
}

func (s *Subscriber) register(sub *subscription) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("watermillsqs: subscribe to %q: %w", sub.topic, ErrClosed)
	}
	if err := s.conn.add(sub); err != nil {
		return err
	}
	s.open[sub] = struct{}{}
	return nil
}

func (s *Subscriber) unregister(sub *subscription) {
	s.mu.Lock()
	delete(s.open, sub)
	s.mu.Unlock()
	s.conn.remove(sub)
}

// locate finds a queue and reads its attributes.
func (s *Subscriber) locate(ctx context.Context, clients *clients, id queueID, create *creation) (queueURL string, facts queueFacts, created bool, err error) {
	for again := false; ; again = true {
		queueURL, created, err = s.conn.queues.resolve(ctx, clients, id, create)
		if err != nil {
			return "", facts, false, err
		}
		facts, err = describe(ctx, clients, queueURL)
		switch {
		case created && isQueueMissing(err): // not known everywhere yet
			facts, err = assumedFacts(*create)
			return queueURL, facts, created, err
		case !isQueueMissing(err) || id.url != "" || again:
			return queueURL, facts, created, err
		}
		// The cached URL is of a queue that has been deleted since.
		s.conn.queues.forget(id, queueURL)
	}
}

// find is all that is done for a topic before receiving.
func (s *Subscriber) find(ctx context.Context, topic string) (*boundQueue, error) {
	clients, err := s.conn.forSubscribe()
	if err != nil {
		return nil, err
	}
	id, err := parseTopic(topic, clients.region, s.config.QueueName)
	if err != nil {
		return nil, err
	}
	queue := s.config.queue(topic)
	if clients.pollTimeout > 0 && clients.pollTimeout <= queue.Wait {
		return nil, fmt.Errorf("%w: queue %q: the HTTP client gives up an attempt after %v, which must be longer than Wait, %v: every long poll would fail",
			ErrInvalidConfig, id.name, clients.pollTimeout, queue.Wait)
	}
	var deadLetter queueID
	if queue.DeadLetter != "" {
		deadLetter, err = parseTopic(queue.DeadLetter, clients.region, s.config.QueueName)
		if err != nil {
			return nil, fmt.Errorf("watermillsqs: queue %q: DeadLetter: %w", id.name, err)
		}
		if deadLetter.name == id.name { // it has to be of the same account and region
			return nil, fmt.Errorf("%w: queue %q is its own dead-letter queue", ErrInvalidQueue, id.name)
		}
		if deadLetter.isFIFO() != id.isFIFO() {
			return nil, fmt.Errorf("%w: queue %q: DeadLetter %q is another kind of queue: SQS needs a FIFO queue (.fifo) for a FIFO queue and a standard queue for a standard one",
				ErrInvalidQueue, id.name, queue.DeadLetter)
		}
	}
	var create *creation
	if queue.CreateIfMissing {
		create = &creation{attributes: queue.creationAttributes(), tags: queue.Tags}
	}
	queueURL, facts, created, err := s.locate(ctx, clients, id, create)
	if err != nil {
		return nil, err
	}

	log := s.log.With(watermill.LogFields{logTopic: topic, logQueue: id.name})
	if created {
		log.Info("Queue created", nil)
	}
	switch {
	case facts.denied != nil && queue.Visibility == 0:
		return nil, fmt.Errorf("watermillsqs: queue %q: its visibility timeout cannot be read; allow sqs:GetQueueAttributes or set Queue.Visibility: %w",
			id.name, facts.denied)
	case facts.denied != nil && queue.MaxAttempts == 0:
		log.Error("The redrive policy cannot be read: a dropped message is deleted, it never goes to a dead-letter queue", facts.denied, nil)
	}
	if queue.Visibility > 0 {
		facts.visibility = queue.Visibility
	}
	if facts.visibility < minVisibility {
		return nil, fmt.Errorf("%w: queue %q has a visibility timeout of 0, so every received message would be received again at once; set Queue.Visibility or the queue's VisibilityTimeout",
			ErrInvalidQueue, id.name)
	}
	if queue.MaxAttempts > 0 {
		facts.redrive, err = s.conn.queues.declareRedrive(ctx, clients, id, queueURL, facts.redrive, deadLetter, queue.MaxAttempts, queue.CreateIfMissing)
		if err != nil {
			return nil, err
		}
		if queue.MaxAttempts == 1 {
			warn(log, "MaxAttempts is 1: a message whose first receive is not answered goes to the dead-letter queue without having been handled", nil)
		}
	}
	if facts.redrive != nil && s.config.Backoff == nil {
		warn(log, "The queue has a redrive policy and the subscriber has no Backoff: a short outage can empty the queue into its dead-letter queue",
			watermill.LogFields{"max_receive_count": facts.redrive.maxReceiveCount})
	}
	return newBoundQueue(clients, id, queueURL, facts), nil
}
