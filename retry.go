package watermillsqs

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// AttemptKey is the metadata key under which a republishing fallback, see
// [Republish], counts the attempts at a message. It is not used on SQS, which counts
// receives itself.
const AttemptKey = "watermillsqs_attempt"

// Source bundles a subscriber with how its messages are retried, so that a program
// can be moved between transports by swapping this one value. On SQS there is
// nothing to say but the subscriber:
//
//	source := watermillsqs.Source{Subscriber: sub}
type Source struct {
	// Subscriber is where the messages come from.
	Subscriber message.Subscriber

	// Republish is for a transport that has no delayed redelivery. It must be nil for
	// a [Subscriber] of this library, also a decorated one: a retry never leaves the
	// queue.
	Republish *Republish
}

// Republish retries by waiting and publishing a copy. Unlike a native retry it loses
// the message if the process dies between the copy and the ack of the original, or
// rather doubles it, and it holds the original while it waits.
type Republish struct {
	// Publisher and Topic are where the copy goes: normally the topic that the
	// handler subscribes to.
	Publisher message.Publisher
	Topic     string

	// MaxAttempts is how often a message is handled in all, 2 or more; the error of
	// the last attempt goes on to the router. Default: 3.
	MaxAttempts int

	// Backoff maps the number of a failed attempt, from 1, to the wait after a plain
	// error. Default: none.
	Backoff func(attempt int) time.Duration
}

const defaultRepublishAttempts = 3

// NewRetry returns a middleware that retries what a handler fails at, on every
// transport: an error is a retry, [RetryAfterError] and [RetryAfter] one after a
// delay, [DropError] and [Drop] none. On SQS it is [Outcomes]: the message is settled
// with SQS's own calls, and how often it is retried is the queue's redrive policy. On
// other transports it does what source.Republish says.
//
// It returns [ErrRepublishRetry] (wrapped) for an SQS subscriber with a republishing
// fallback, and [ErrNoRepublisher] for another one without.
func NewRetry(source Source) (message.HandlerMiddleware, error) {
	if source.Subscriber == nil {
		return nil, fmt.Errorf("%w: Source.Subscriber is nil", ErrInvalidConfig)
	}
	native := isSQS(source.Subscriber)
	switch {
	case native && source.Republish != nil:
		return nil, fmt.Errorf("%w: Source.Republish is set for a subscriber on SQS, where a retry is a change of visibility; leave it nil, and set Queue.MaxAttempts for a limit",
			ErrRepublishRetry)
	case native:
		return Outcomes, nil
	case source.Republish == nil:
		return nil, fmt.Errorf("%w: %T has no delayed redelivery that this library knows; set Source.Republish", ErrNoRepublisher, source.Subscriber)
	}
	republish := *source.Republish
	if republish.MaxAttempts == 0 {
		republish.MaxAttempts = defaultRepublishAttempts
	}
	switch {
	case republish.Publisher == nil:
		return nil, fmt.Errorf("%w: Republish.Publisher is nil", ErrInvalidConfig)
	case republish.Topic == "":
		return nil, fmt.Errorf("%w: Republish.Topic is empty", ErrInvalidConfig)
	case republish.MaxAttempts < 2:
		return nil, fmt.Errorf("%w: Republish.MaxAttempts is %d, must be at least 2 (0 is the default, %d)",
			ErrInvalidConfig, republish.MaxAttempts, defaultRepublishAttempts)
	}
	return republish.middleware, nil
}

func (r Republish) middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		forgetVerdict(msg)
		produced, err := h(msg)
		v, _ := verdictInMetadata(msg.Metadata)
		var carrier *verdictError
		if errors.As(err, &carrier) {
			v = carrier.verdict
		}
		forgetVerdict(msg)
		switch {
		case v.outcome == Dropped:
			return produced, nil
		case err == nil:
			return produced, nil
		}
		attempt, _ := strconv.Atoi(msg.Metadata.Get(AttemptKey)) // absent is 0
		attempt++
		if attempt >= r.MaxAttempts {
			return produced, err
		}
		wait := v.after
		if v.outcome == Undecided && r.Backoff != nil {
			wait = r.Backoff(attempt)
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-msg.Context().Done():
			return nil, err // the transport has it still
		}
		again := msg.Copy()
		again.Metadata.Set(AttemptKey, strconv.Itoa(attempt))
		if publishErr := r.Publisher.Publish(r.Topic, again); publishErr != nil {
			return nil, errors.Join(err, fmt.Errorf("watermillsqs: republish for another attempt: %w", publishErr))
		}
		return nil, nil
	}
}

// isSQS reports whether a subscriber is one of ours, also inside of decorators: those
// that have a method Unwrap, and Watermill's own, which keep what they decorate in a
// field.
func isSQS(sub message.Subscriber) bool {
	for range maxDecorators {
		switch s := sub.(type) {
		case nil:
			return false
		case *Subscriber:
			return true
		case interface{ Unwrap() message.Subscriber }:
			sub = s.Unwrap()
		default:
			return holdsSQS(reflect.ValueOf(sub), maxDecorators)
		}
	}
	return false
}

// maxDecorators bounds the search for a subscriber inside of decorators.
const maxDecorators = 16

var subscriberType = reflect.TypeFor[message.Subscriber]()

// holdsSQS looks for our subscriber in the fields of a decorator that are subscribers.
// It only looks at types: unexported fields cannot be used.
func holdsSQS(v reflect.Value, depth int) bool {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return false
		}
		if v.Type() == reflect.TypeFor[*Subscriber]() {
			return true
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || depth == 0 {
		return false
	}
	for i := range v.NumField() {
		if field := v.Field(i); field.Type().Implements(subscriberType) && holdsSQS(field, depth-1) {
			return true
		}
	}
	return false
}
