package watermillsqs

import (
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
