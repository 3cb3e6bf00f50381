package watermillsqs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	maxBatchBytes = 1 << 20 // of a whole SendMessageBatch, as SQS counts

	// sendRounds is how often an entry is sent that failed alone and not through a
	// fault of its own. A call that fails as a whole has been tried three times by
	// the SDK already.
	sendRounds = 3
)

// A Publisher sends to SQS queues. It implements [message.Publisher] and is safe for
// concurrent use.
type Publisher struct {
	conn   *Connection
	config PublisherConfig
	log    watermill.LoggerAdapter

	mu     sync.Mutex // guards closed
	closed *closeMark
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
// A call with a message that can never be sent sends nothing. One message travels
// as SendMessage, several as SendMessageBatch, up to ten and 1 MiB per call.
// Entries that fail alone are sent again alone, unless SQS says that they can
// never be accepted.
//
// A message whose context has ended is not sent, unless the context is that of a
// delivery of this library: a router publishes what a handler produced after the
// handler's context may have ended. Once a message is on the wire its answer is
// waited for, up to PublishTimeout. Watermill's delay metadata (components/delay)
// becomes DelaySeconds.
//
// Publish does not change the messages.
//
// Errors: [PublishError]; or, before anything else, ErrNotConnected, ErrClosed or
// ErrInvalidQueue (wrapped).
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	clients, err := p.conn.forPublish()
	if err != nil {
		return err
	}
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
	call := publishCall{p: p, clients: clients, id: id, failed: make([]error, len(messages))}
	if err := call.marshal(topic, messages); err != nil {
		return err
	}

	if call.entries = call.dropEnded(call.entries); len(call.entries) == 0 {
		return call.result(topic, messages)
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(messages[0].Context()), p.config.PublishTimeout)
	defer cancel()
	if call.url, err = call.lookUp(ctx); err != nil {
		for _, entry := range call.entries {
			call.failed[entry.index] = err
		}
		return call.result(topic, messages)
	}
	p.log.Debug("Publishing", watermill.LogFields{logTopic: topic, logQueue: id.name, "messages": len(messages)})
	call.send(ctx)
	return call.result(topic, messages)
}

// Close refuses further publishes, once no subscription of the connection is open
// or draining: a router closes the publisher of a handler that has stopped, while
// other handlers that share it may still be draining and publish what they
// produce. There is nothing to flush. It is idempotent.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == nil {
		mark := p.conn.markClose()
		p.closed = &mark
	}
	return nil
}

func (p *Publisher) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed != nil && p.conn.inEffect(*p.closed)
}

// publishCall is one call of Publish.
type publishCall struct {
	p       *Publisher
	clients *clients
	id      queueID
	url     string
	entries []publishEntry
	failed  []error // by position in the call
	moved   bool    // the queue has been looked up again once
}

// publishEntry is one message of the call.
type publishEntry struct {
	index int
	ctx   context.Context // ends the wish to send; nil if it never does
	out   Outgoing
	size  int
}

// marshal turns the messages into entries. It fails, with the faults of all of
// them, if one can never be sent.
func (c *publishCall) marshal(topic string, messages []*message.Message) error {
	c.entries = make([]publishEntry, len(messages))
	var faults []MessageError
	for i, msg := range messages {
		if msg == nil {
			faults = append(faults, MessageError{Index: i, Err: errors.New("the message is nil")})
			continue
		}
		err := checkRepublished(msg)
		var out Outgoing
		if err == nil {
			out, err = c.p.config.Marshaler.Marshal(topic, msg)
		}
		if err == nil {
			err = out.validate()
		}
		if err != nil {
			faults = append(faults, MessageError{Index: i, UUID: msg.UUID, Err: err})
			continue
		}
		ctx := msg.Context()
		if deliveryFrom(ctx) != nil {
			ctx = nil // its values count, its end does not
		}
		c.entries[i] = publishEntry{index: i, ctx: ctx, out: out, size: out.size()}
	}
	if faults != nil {
		return &PublishError{Topic: topic, Messages: len(messages), Failed: faults}
	}
	return nil
}

// lookUp finds the queue. Nothing is on the wire yet, so the end of the context of
// a lone message ends it.
func (c *publishCall) lookUp(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if len(c.entries) == 1 && c.entries[0].ctx != nil {
		defer context.AfterFunc(c.entries[0].ctx, cancel)()
	}
	queueURL, _, err := c.p.conn.queues.resolve(ctx, c.clients, c.id, c.p.config.creation())
	return queueURL, err
}

// send sends all entries and notes in failed what became of them.
func (c *publishCall) send(ctx context.Context) {
	rest := c.entries
	for len(rest) > 0 {
		n := batchLength(rest)
		batch := rest[:n]
		rest = rest[n:]
		if err := c.sendBatch(ctx, batch); err != nil {
			// The call as a whole failed although the SDK tried it again: the next
			// one would most likely fail, too.
			c.notSent(rest, err)
			return
		}
	}
}

// batchLength is how many of the entries fit one call: ten, and 1 MiB.
func batchLength(entries []publishEntry) int {
	n, bytes := 0, 0
	for n < len(entries) && n < maxBatch {
		bytes += entries[n].size
		if n > 0 && bytes > maxBatchBytes {
			break
		}
		n++
	}
	return n
}

// sendBatch sends entries that fit one call until each is accepted, refused for
// good, or has been tried often enough. It returns the error of a call that failed
// as a whole.
func (c *publishCall) sendBatch(ctx context.Context, batch []publishEntry) error {
	for round := 1; ; round++ {
		batch = c.dropEnded(batch)
		if len(batch) == 0 {
			return nil
		}
		errs, err := c.call(ctx, batch)
		switch {
		case err != nil && isQueueMissing(err) && c.lookUpAgain(ctx):
			round--
			continue
		case err != nil && isKeyThrottled(err) && round < sendRounds && pauseBefore(ctx, round):
			continue
		case err != nil && isContentFault(err) && len(batch) == 1:
			c.failed[batch[0].index] = err
			return nil
		case err != nil && isContentFault(err):
			// One of them is at fault; the others are not to suffer for it.
			for i := range batch {
				if err := c.sendBatch(ctx, batch[i:i+1]); err != nil {
					c.notSent(batch[i+1:], err)
					return err
				}
			}
			return nil
		case err != nil:
			for _, entry := range batch {
				c.failed[entry.index] = err
			}
			if round > 1 {
				return nil // what fails when it is sent again is the misfortune of these
			}
			return err
		}

		var again []publishEntry
		for i, entry := range batch {
			c.failed[entry.index] = errs[i]
			var failure *entryError
			if errors.As(errs[i], &failure) && !failure.senderFault && round < sendRounds {
				again = append(again, entry)
			}
		}
		if batch = again; len(batch) == 0 || !pauseBefore(ctx, round) {
			return nil // failed says what is left
		}
	}
}

// pauseBefore waits before another round, and reports whether there is time for it.
func pauseBefore(ctx context.Context, round int) bool {
	const firstPause, longestPause = 100 * time.Millisecond, time.Second
	pause := exponential(firstPause, longestPause, round-1)
	select {
	case <-time.After(pause/2 + rand.N(pause/2)):
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *publishCall) notSent(entries []publishEntry, cause error) {
	for _, entry := range entries {
		c.failed[entry.index] = fmt.Errorf("not sent, since an earlier call failed: %w", cause)
	}
}

// dropEnded leaves out messages whose context has ended before they were sent.
func (c *publishCall) dropEnded(batch []publishEntry) []publishEntry {
	kept := make([]publishEntry, 0, len(batch))
	for _, entry := range batch {
		if entry.ctx != nil && entry.ctx.Err() != nil {
			c.failed[entry.index] = fmt.Errorf("not sent, the context of the message has ended: %w", context.Cause(entry.ctx))
			continue
		}
		kept = append(kept, entry)
	}
	return kept
}

// lookUpAgain is tried once a call when the queue is not where it was: it may have
// been deleted and made anew.
func (c *publishCall) lookUpAgain(ctx context.Context) bool {
	if c.moved || c.id.url != "" {
		return false
	}
	c.moved = true
	c.p.conn.queues.forget(c.id, c.url)
	queueURL, err := c.lookUp(ctx)
	if err != nil {
		return false
	}
	c.url = queueURL
	return true
}

// call makes one SQS call and returns one error per entry, or the error of the
// whole call.
func (c *publishCall) call(ctx context.Context, batch []publishEntry) ([]error, error) {
	if len(batch) == 1 {
		out := batch[0].out
		answer, err := c.clients.calls.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl:                aws.String(c.url),
			MessageBody:             aws.String(out.Body),
			MessageAttributes:       out.Attributes,
			MessageSystemAttributes: systemAttributes(out),
			DelaySeconds:            out.DelaySeconds,
		})
		if err != nil {
			return nil, err
		}
		return []error{checkSent(out.Body, answer.MD5OfMessageBody)}, nil
	}
	in := &sqs.SendMessageBatchInput{
		QueueUrl: aws.String(c.url),
		Entries:  make([]types.SendMessageBatchRequestEntry, len(batch)),
	}
	for i, entry := range batch {
		in.Entries[i] = types.SendMessageBatchRequestEntry{
			Id:                      aws.String(entryIDs[i]),
			MessageBody:             aws.String(entry.out.Body),
			MessageAttributes:       entry.out.Attributes,
			MessageSystemAttributes: systemAttributes(entry.out),
			DelaySeconds:            entry.out.DelaySeconds,
		}
	}
	answer, err := c.clients.calls.SendMessageBatch(ctx, in)
	if err != nil {
		return nil, err
	}
	succeeded := make([]string, len(answer.Successful))
	for i, entry := range answer.Successful {
		succeeded[i] = aws.ToString(entry.Id)
	}
	errs := entryErrors(len(batch), succeeded, answer.Failed)
	for _, entry := range answer.Successful {
		if i := entryIndex(aws.ToString(entry.Id)); i >= 0 && i < len(batch) && errs[i] == nil {
			errs[i] = checkSent(batch[i].out.Body, entry.MD5OfMessageBody)
		}
	}
	return errs, nil
}

// result is the outcome of the whole call.
func (c *publishCall) result(topic string, messages []*message.Message) error {
	var failed []MessageError
	for i, err := range c.failed {
		if err != nil {
			failed = append(failed, MessageError{Index: i, UUID: messages[i].UUID, Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return &PublishError{Topic: topic, Messages: len(messages), Failed: failed}
}

// checkSent compares the checksum of what SQS has stored. A message that differs
// was accepted, damaged: it is reported and not sent again.
func checkSent(body string, stored *string) error {
	if !matchesMD5(body, stored) {
		return fmt.Errorf("SQS accepted the message but stored another body: its MD5 is %.64q", *stored)
	}
	return nil
}

func systemAttributes(out Outgoing) map[string]types.MessageSystemAttributeValue {
	if out.TraceHeader == "" {
		return nil
	}
	return map[string]types.MessageSystemAttributeValue{
		string(types.MessageSystemAttributeNameForSendsAWSTraceHeader): {DataType: aws.String("String"), StringValue: aws.String(out.TraceHeader)},
	}
}
