package watermillsqs

import (
	"context"
	"time"
)

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

// DeliveryFromContext returns the facts of the delivery that ctx belongs to: the
// context of a message that a [Subscriber] delivered, or a child of it. The facts
// are those of now: if the message was received again while its handler was still
// running, they are those of the newest receipt.
func DeliveryFromContext(ctx context.Context) (Delivery, bool) {
	d := deliveryFrom(ctx)
	if d == nil {
		return Delivery{}, false
	}
	r := d.newestReceipt()
	return Delivery{
		Queue:           d.queue,
		MessageID:       d.id,
		ReceiveCount:    r.count,
		GroupID:         d.groupID,
		SentAt:          d.sentAt,
		FirstReceivedAt: d.firstAt,
		ReceivedAt:      r.receivedAt,
		LeaseEnd:        r.leaseEnd,
	}, true
}
