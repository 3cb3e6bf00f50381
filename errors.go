package watermillsqs

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotConnected is returned by every call that needs SQS before
	// [Connection.Connect] has succeeded and after [Connection.Close].
	ErrNotConnected = errors.New("watermillsqs: not connected")

	// ErrClosed is returned by Subscribe on a closed [Subscriber] and by Publish
	// on a closed [Publisher]. It is also the cause ([context.Cause]) with which
	// the context of a message ends whose subscription was closed before the
	// handler had given its verdict.
	ErrClosed = errors.New("watermillsqs: closed")

	// ErrSettled is the cause with which the context of a message ends once its
	// handler has acked or nacked it.
	ErrSettled = errors.New("watermillsqs: message settled")

	// ErrLeaseLost is the cause with which the context of a message ends when
	// this process no longer holds the message: SQS said that the receipt is no
	// longer valid, or the visibility timeout ran out before it could be
	// extended. Another consumer may have the message by now, so a handler that
	// sees it should stop.
	ErrLeaseLost = errors.New("watermillsqs: lease lost")

	// ErrInvalidConfig is wrapped by every error about a field of [Config],
	// [SubscriberConfig] or [PublisherConfig] that is out of range.
	ErrInvalidConfig = errors.New("watermillsqs: invalid configuration")

	// ErrInvalidQueue is wrapped by every error about a queue's name or about a
	// field of its [Queue] descriptor that SQS, or this library, would refuse.
	ErrInvalidQueue = errors.New("watermillsqs: invalid queue")

	// ErrIncompleteRedrive is wrapped by the error about a [Queue] that has one of
	// MaxAttempts and DeadLetter without the other.
	ErrIncompleteRedrive = errors.New("watermillsqs: incomplete redrive policy")

	// ErrRepublishRetry is wrapped by the errors about pieces that would retry a
	// message from SQS by publishing it again. A retry never leaves the queue.
	ErrRepublishRetry = errors.New("watermillsqs: retry by republishing")

	// ErrUnsafeMiddleware is wrapped by the error about middleware that loses
	// messages on SQS.
	ErrUnsafeMiddleware = errors.New("watermillsqs: unsafe middleware")

	// ErrNoRepublisher is wrapped by the error about a [Source] on a transport that
	// can retry only by republishing, and that has nothing to republish with.
	ErrNoRepublisher = errors.New("watermillsqs: no republisher")

	// ErrUndecodable means that a received message cannot be turned into a
	// Watermill message: its body does not match its checksum or its encoding, or
	// its packed metadata is damaged.
	ErrUndecodable = errors.New("watermillsqs: undecodable message")
)

// PublishError says which messages of one Publish call were not accepted. The
// messages that it does not name were accepted by SQS.
//
// Use errors.As to get at it. errors.Is and errors.As also see the error of each
// message.
type PublishError struct {
	// Topic is the topic as it was given to Publish.
	Topic string
	// Messages is the number of messages in the call.
	Messages int
	// Failed holds the messages that were not accepted, in the order of the call.
	Failed []MessageError
}

// MessageError is the failure of one message of a Publish call.
type MessageError struct {
	// Index is the position of the message in the call, from 0.
	Index int
	// UUID is the UUID of the Watermill message.
	UUID string
	// Err says why the message was not accepted.
	Err error
}

// maxListedFailures bounds the text of a PublishError; Failed always has all.
const maxListedFailures = 5

// Error names the topic, how many messages failed, and the first few of them.
func (e *PublishError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "watermillsqs: publish to %q: %d of %d messages not accepted", e.Topic, len(e.Failed), e.Messages)
	for i, failed := range e.Failed {
		if i == maxListedFailures {
			fmt.Fprintf(&b, "; and %d more", len(e.Failed)-i)
			break
		}
		fmt.Fprintf(&b, "; message %d (UUID %q): %v", failed.Index, failed.UUID, failed.Err)
	}
	return b.String()
}

// Unwrap returns the errors of the failed messages.
func (e *PublishError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, failed := range e.Failed {
		errs[i] = failed.Err
	}
	return errs
}
