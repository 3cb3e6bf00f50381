package watermillsqs

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// Retry records that the message is to be received again at once
// (ChangeMessageVisibility with 0), whatever backoff the subscriber has. It takes
// effect when the message is nacked, that is when the handler returns an error;
// a message that is acked is deleted all the same.
//
// The last verdict before the Ack or Nack wins. On a message that did not come
// from this library it only sets metadata.
func Retry(msg *message.Message) { record(msg, verdict{outcome: Retried}) }

// RetryAfter records that the message is to be received again after d: the delay
// is rounded up to whole seconds and sent as ChangeMessageVisibility, so the
// message never leaves the queue and nobody waits for it. What would end later
// than 12 hours after the message was received is shortened to that, with a
// warning. d ≤ 0 is a plain [Retry].
//
// Like Retry it takes effect when the message is nacked.
func RetryAfter(msg *message.Message, d time.Duration) {
	record(msg, verdict{outcome: Retried, after: max(d, 0)})
}

// Drop records that the message is not to be received again. It takes effect
// whether the message is acked or nacked: the message is deleted, or, where the
// queue has a redrive policy and the message has been received maxReceiveCount
// times, given back so that SQS moves it to the dead-letter queue.
func Drop(msg *message.Message) { record(msg, verdict{outcome: Dropped}) }

func record(msg *message.Message, v verdict) {
	if d := deliveryFrom(msg.Context()); d != nil {
		d.cell.set(v)
	}
	if msg.Metadata == nil {
		msg.Metadata = make(message.Metadata, 2)
	}
	delete(msg.Metadata, RetryAfterKey)
	if v.outcome == Dropped {
		msg.Metadata.Set(OutcomeKey, outcomeDrop)
		return
	}
	msg.Metadata.Set(OutcomeKey, outcomeRetry)
	if v.after > 0 {
		msg.Metadata.Set(RetryAfterKey, v.after.String())
	}
}

// forgetVerdict makes a delivery start clean: what an earlier run of the handler said no
// longer counts.
func forgetVerdict(msg *message.Message) {
	if d := deliveryFrom(msg.Context()); d != nil {
		d.cell.set(verdict{})
	}
	delete(msg.Metadata, OutcomeKey)
	delete(msg.Metadata, RetryAfterKey)
}

// verdictError is an error that carries a verdict.
type verdictError struct {
	err     error
	verdict verdict
}

func (e *verdictError) Error() string { return e.err.Error() }

// Unwrap makes errors.Is and errors.As see through it.
func (e *verdictError) Unwrap() error { return e.err }

// Cause makes Cause of github.com/pkg/errors, which Watermill uses, see through it.
func (e *verdictError) Cause() error { return e.err }

// RetryAfterError wraps an error so that the handler that returns it, under
// [Outcomes], asks for the message to come back after d, as [RetryAfter] does.
// Code that has no message at hand can say it that way. A nil err is replaced: the
// result is never nil, since that would ack the message.
func RetryAfterError(err error, d time.Duration) error {
	d = max(d, 0)
	if err == nil {
		err = fmt.Errorf("watermillsqs: retry after %v", d)
	}
	return &verdictError{err: err, verdict: verdict{outcome: Retried, after: d}}
}

// DropError wraps an error so that the handler that returns it, under [Outcomes],
// drops the message, as [Drop] does. A nil err is replaced, see [RetryAfterError].
func DropError(err error) error {
	if err == nil {
		err = errors.New("watermillsqs: drop")
	}
	return &verdictError{err: err, verdict: verdict{outcome: Dropped}}
}

// Outcomes is a router middleware that lets a handler return its verdict as an
// error: see [RetryAfterError] and [DropError]. Any other error leaves it at what
// the verbs said. The verdict of the outermost such error counts.
//
// Each run of the handler under it starts clean, so that a handler which
// middleware.Retry runs again, and which succeeds then, is acked whatever it said
// before. Put it inside of Retry for that, that is, add it after.
func Outcomes(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		forgetVerdict(msg)
		produced, err := h(msg)
		var carrier *verdictError
		if errors.As(err, &carrier) {
			record(msg, carrier.verdict)
		}
		return produced, err
	}
}

// ShouldRetry is for the field of the same name of Watermill's middleware.Retry: it
// ends the retries in the process where an error carries a verdict, so that the
// message is dropped, or goes back to the queue for its delay, at once.
func ShouldRetry(params middleware.RetryParams) bool {
	var carrier *verdictError
	return !errors.As(params.Err, &carrier)
}
