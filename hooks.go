package watermillsqs

import "time"

// Hooks are called when something happened to a delivery or a receive: enough to
// build metrics without wrapping anything. They are called from the goroutines
// that do the work, several at a time and in no particular order, so they must be
// quick and safe for concurrent use. A nil hook is not called.
type Hooks struct {
	// Settled is called once per delivery, when its settlement has ended.
	Settled func(Settlement)
	// Extended is called for each delivery in each answered extension of
	// visibility timeouts (ChangeMessageVisibility).
	Extended func(Extension)
	// LeaseLost is called when the lease of a message is lost while it is in hand.
	LeaseLost func(LeaseLoss)
	// ReceiveFailed is called when a receive failed (ReceiveMessage), and for a
	// received message that cannot be decoded.
	ReceiveFailed func(ReceiveFailure)
}

// Settlement is the end of one delivery.
type Settlement struct {
	// Queue is the name of the queue.
	Queue string
	// MessageID is the id that SQS gave the message.
	MessageID string
	// ReceiveCount is the number of the delivery, 1 for the first.
	ReceiveCount int
	// Outcome is what became of the delivery.
	Outcome Outcome
	// Delay is the delay of a Retried delivery, 0 for at once.
	Delay time.Duration
	// Held is the time from the receipt to the verdict.
	Held time.Duration
	// Duration is the time from the verdict to the answer of SQS, retries of the
	// call included.
	Duration time.Duration
	// Err is nil when SQS confirmed the settlement. Otherwise the message comes
	// back when its lease ends; one that was acked is then deleted without being
	// handled again, as long as this connection lives. An Unfinished delivery
	// has [ErrClosed] or [ErrLeaseLost].
	Err error
}

// Extension is one delivery in one answered extension.
type Extension struct {
	// Queue, MessageID and ReceiveCount are as in [Settlement].
	Queue        string
	MessageID    string
	ReceiveCount int
	// Visibility is the visibility timeout that was asked for.
	Visibility time.Duration
	// Duration is the time that the call took.
	Duration time.Duration
	// Err is nil when SQS extended it.
	Err error
}

// LeaseLoss is a lease that was lost while the message was in hand.
type LeaseLoss struct {
	// Queue, MessageID and ReceiveCount are as in [Settlement].
	Queue        string
	MessageID    string
	ReceiveCount int
	// Held is the time since the receipt.
	Held time.Duration
	// Err is why.
	Err error
}

// ReceiveFailure is a receive, or a received message, that came to nothing.
type ReceiveFailure struct {
	// Queue is the name of the queue.
	Queue string
	// MessageID is the id of the message that could not be decoded, "" where the
	// receive itself failed.
	MessageID string
	// ReceiveCount is the number of the delivery of that message.
	ReceiveCount int
	// Duration is the time that the call took; 0 for a message.
	Duration time.Duration
	// Err is why. errors.Is(Err, ErrUndecodable) tells the two kinds apart.
	Err error
}
