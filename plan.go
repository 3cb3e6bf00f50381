package watermillsqs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

const (
	// A message that cannot be decoded comes back under the subscriber's backoff,
	// or where there is none after 1 s, doubled up to 15 min: never in a hot loop,
	// and a redrive policy collects it.
	undecodableInitial = time.Second
	undecodableLimit   = 15 * time.Minute

	policyMemory = time.Minute // how long a redrive policy that was read again counts
)

// plan is what becomes of a delivery: the outcome and the call behind it.
type plan struct {
	outcome Outcome
	removes bool          // DeleteMessage; otherwise ChangeMessageVisibility
	after   time.Duration // the new visibility timeout
	err     error         // why it is Unfinished
}

// planner turns verdicts into plans, for one subscription.
type planner struct {
	queue   *boundQueue
	backoff func(receiveCount int) time.Duration // nil for none
	log     watermill.LoggerAdapter
	ctx     context.Context // of the calls

	policyMu     sync.Mutex // guards policyReadAt
	policyReadAt time.Time
}

// plan turns the handler's Ack or Nack, and what it recorded before, into a
// plan. It may call SQS, to read the redrive policy again.
//
// cancelled says that the subscription has cancelled the handler.
func (p *planner) plan(d *delivery, acked, cancelled bool) plan {
	v := d.cell.get()
	if acked {
		// Whatever else was recorded, somebody took the error for handled. The
		// metadata is not read: after InstantAck the handler may be writing it.
		if v.outcome == Dropped {
			return p.drop(d)
		}
		return plan{outcome: Acked, removes: true}
	}
	if v.outcome == Undecided {
		var err error
		if v, err = verdictInMetadata(d.msg.Metadata); err != nil {
			p.log.Error("The outcome in a message's metadata is not valid; the message is retried", err,
				watermill.LogFields{logMessageID: d.id})
		}
	}
	switch {
	case v.outcome == Dropped:
		return p.drop(d)
	case cancelled:
		// We cancelled the handler; its failure says nothing about the message.
		return plan{outcome: Retried}
	case v.outcome == Retried:
		return plan{outcome: Retried, after: v.after}
	}
	if after, set := delayInMetadata(d.msg.Metadata); set {
		return plan{outcome: Retried, after: after}
	}
	if p.backoff != nil {
		return plan{outcome: Retried, after: p.backoff(d.newestReceipt().count)}
	}
	return plan{outcome: Retried}
}

// drop deletes, unless the queue has a redrive policy and the message has used
// up its receives: then the next receive moves it to the dead-letter queue, which
// a delete would prevent.
func (p *planner) drop(d *delivery) plan {
	count := d.newestReceipt().count
	policy := p.queue.policy.Load()
	if policy != nil && count > policy.maxReceiveCount {
		// Received more often than allowed, so SQS did not move it: the policy was
		// changed, or its dead-letter queue is out of reach.
		policy = p.readPolicyAgain()
	}
	switch {
	case policy == nil || count < policy.maxReceiveCount:
		return plan{outcome: Dropped, removes: true}
	case count == policy.maxReceiveCount:
		return plan{outcome: Dropped}
	}
	after := time.Second
	if p.backoff != nil {
		after = max(after, p.backoff(count))
	}
	p.log.Error("A dropped message was received more often than the redrive policy allows and SQS has not moved it; it is given back",
		fmt.Errorf("received %d times, maxReceiveCount is %d, is dead-letter queue %s there?", count, policy.maxReceiveCount, policy.deadLetterARN),
		watermill.LogFields{logMessageID: d.id})
	return plan{outcome: Dropped, after: after}
}

// readPolicyAgain reads the redrive policy, at most once a minute.
func (p *planner) readPolicyAgain() *redrivePolicy {
	p.policyMu.Lock()
	fresh := p.policyReadAt.IsZero() || time.Since(p.policyReadAt) >= policyMemory
	if fresh {
		p.policyReadAt = time.Now()
	}
	p.policyMu.Unlock()
	if fresh {
		ctx, cancel := context.WithTimeout(p.ctx, maxAttempt)
		defer cancel()
		facts, err := describe(ctx, p.queue.clients, p.queue.url())
		switch {
		case err == nil:
			err = facts.denied
		case isQueueMissing(err):
			err = nil // no queue, no policy
		}
		if err != nil {
			p.log.Error("Reading the redrive policy again failed; the one that is known counts", err, nil)
		} else {
			p.queue.policy.Store(facts.redrive)
		}
	}
	return p.queue.policy.Load()
}

// undecodableDelay is after how long a message that cannot be decoded comes back.
func (p *planner) undecodableDelay(receiveCount int) time.Duration {
	if p.backoff != nil {
		if after := p.backoff(receiveCount); after > 0 {
			return after
		}
	}
	return exponential(undecodableInitial, undecodableLimit, receiveCount-1)
}
