package watermillsqs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
)

// Outcome is what becomes of a delivery.
type Outcome int

const (
	// Undecided is the zero Outcome: no verdict yet.
	Undecided Outcome = iota

	// Acked deletes the message (DeleteMessage).
	Acked

	// Retried makes the message visible again, at once or after a delay
	// (ChangeMessageVisibility).
	Retried

	// Dropped deletes the message although it was not handled; where the queue
	// has a redrive policy and the message has used up its receives, it is given
	// back instead (ChangeMessageVisibility with 0), so that the next receive
	// moves it to the dead-letter queue.
	Dropped

	// Released gives a message back that was received but never handed out
	// (ChangeMessageVisibility with 0).
	Released

	// Unfinished is a delivery that nobody settled: its subscription ended, or
	// its lease was lost, before there was a verdict. No call is made; the
	// message returns when its lease ends.
	Unfinished
)

// String returns the outcome in lower case, as it stands in logs.
func (o Outcome) String() string {
	switch o {
	case Undecided:
		return "undecided"
	case Acked:
		return "acked"
	case Retried:
		return "retried"
	case Dropped:
		return "dropped"
	case Released:
		return "released"
	case Unfinished:
		return "unfinished"
	default:
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
}

const (
	// OutcomeKey is the metadata key under which the verbs record the outcome of
	// a delivery: "retry" or "drop". Metadata set by hand counts when the message
	// is nacked and no verb was used. It is never published.
	OutcomeKey = "watermillsqs_outcome"

	// RetryAfterKey is the metadata key under which [RetryAfter] records its
	// delay, as a Go duration ("1m30s"). It is never published.
	RetryAfterKey = "watermillsqs_retry_after"

	outcomeRetry = "retry"
	outcomeDrop  = "drop"
)

// isReservedKey reports whether a metadata key belongs to the outcome of one
// delivery and therefore never travels.
func isReservedKey(key string) bool {
	return key == OutcomeKey || key == RetryAfterKey
}

// verdict is what a handler asked for.
type verdict struct {
	outcome Outcome // Retried, Dropped or Undecided
	after   time.Duration
}

// cell holds the verdict of a delivery apart from its metadata, which the handler
// may still be writing when the message is acked.
type cell struct {
	mu      sync.Mutex
	verdict verdict
}

func (c *cell) set(v verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verdict = v
}

func (c *cell) get() verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdict
}

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

// forget makes a delivery start clean: what an earlier run of the handler said no
// longer counts.
func forgetVerdict(msg *message.Message) {
	if d := deliveryFrom(msg.Context()); d != nil {
		d.cell.set(verdict{})
	}
	delete(msg.Metadata, OutcomeKey)
	delete(msg.Metadata, RetryAfterKey)
}

// verdictInMetadata reads a verdict that was set by hand. It is called only after
// a Nack, when nobody writes the metadata any more.
func verdictInMetadata(metadata message.Metadata) (verdict, error) {
	switch value := metadata.Get(OutcomeKey); value {
	case "":
	case outcomeDrop:
		return verdict{outcome: Dropped}, nil
	case outcomeRetry:
		v := verdict{outcome: Retried}
		if text := metadata.Get(RetryAfterKey); text != "" {
			d, err := time.ParseDuration(text)
			if err != nil {
				return v, fmt.Errorf("metadata %s is %q, must be a duration such as 1m30s", RetryAfterKey, text)
			}
			v.after = max(d, 0)
		}
		return v, nil
	default:
		return verdict{}, fmt.Errorf("metadata %s is %q, must be %q or %q", OutcomeKey, value, outcomeRetry, outcomeDrop)
	}
	if text := metadata.Get(RetryAfterKey); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return verdict{}, fmt.Errorf("metadata %s is %q, must be a duration such as 1m30s", RetryAfterKey, text)
		}
		return verdict{outcome: Retried, after: max(d, 0)}, nil
	}
	return verdict{}, nil
}

// delayInMetadata reads Watermill's own delay, which middleware.DelayOnError sets.
// What a message was published with is gone when it is delivered, so it was set
// during this delivery.
func delayInMetadata(metadata message.Metadata) (d time.Duration, set bool) {
	if text := metadata.Get(delay.DelayedForKey); text != "" {
		if d, err := time.ParseDuration(text); err == nil {
			return max(d, 0), true
		}
	}
	if text := metadata.Get(delay.DelayedUntilKey); text != "" {
		if until, err := time.Parse(time.RFC3339, text); err == nil {
			return max(time.Until(until), 0), true
		}
	}
	return 0, false
}

// Delivery holds the facts of one receipt of a message.
type Delivery struct {
	// Queue is the name of the queue.
	Queue string
	// MessageID is the id that SQS gave the message.
	MessageID string
	// ReceiveCount is the number of this delivery, 1 for the first
	// (ApproximateReceiveCount). Every receive counts, expired leases included,
	// not only the retries that a handler asked for.
	ReceiveCount int
	// GroupID is the message group id, "" if there is none (MessageGroupId).
	GroupID string
	// SentAt is when the message was sent (SentTimestamp).
	SentAt time.Time
	// FirstReceivedAt is when the message was first received by anybody
	// (ApproximateFirstReceiveTimestamp).
	FirstReceivedAt time.Time
	// ReceivedAt is when this process received it, by its own clock.
	ReceivedAt time.Time
	// LeaseEnd is when the message becomes visible to others unless it is
	// extended before, by this process's clock. It is optimistic by the time that
	// the answer of SQS took. It moves while the handler runs.
	LeaseEnd time.Time
}

type deliveryKey struct{}

func deliveryFrom(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}

// DeliveryFromContext returns the facts of the delivery that ctx belongs to: the
// context of a message that a [Subscriber] delivered, or a child of it. The facts
// are those of now: if the message was received again while its handler was still
// running, they are those of the newest receipt.
func DeliveryFromContext(ctx context.Context) (Delivery, bool) {
	d := deliveryFrom(ctx)
	if d == nil {
		return Delivery{}, false
	}
	return d.facts(), true
}
