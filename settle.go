package watermillsqs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

const (
	// settleCalls bounds the deletes, and apart from them the visibility changes,
	// that one subscription has under way. What comes meanwhile leaves together.
	settleCalls = 4

	// lostAttempt is what the one delete after a lost lease may take.
	lostAttempt = 5 * time.Second

	// A message that cannot be decoded comes back under the subscriber's backoff,
	// or where there is none after 1 s, doubled up to 15 min: never in a hot loop,
	// and a redrive policy collects it.
	undecodableInitial = time.Second
	undecodableLimit   = 15 * time.Minute

	policyMemory = time.Minute // how long a redrive policy that was read again counts
)

// errReceivedAgain ends a settlement whose message has been received again: the
// newer delivery carries on.
var errReceivedAgain = errors.New("watermillsqs: the message has been received again")

// settler turns verdicts into calls, for one subscription.
type settler struct {
	queue   *boundQueue
	held    *inFlight
	backoff func(receiveCount int) time.Duration // nil for none
	hooks   Hooks
	log     watermill.LoggerAdapter
	ctx     context.Context // of the calls

	deletes *batcher[*settlement]
	changes *batcher[*settlement]

	policyMu     sync.Mutex // guards policyReadAt
	policyReadAt time.Time
}

func newSettler(ctx context.Context, queue *boundQueue, held *inFlight, backoff func(int) time.Duration, hooks Hooks, log watermill.LoggerAdapter) *settler {
	s := &settler{queue: queue, held: held, backoff: backoff, hooks: hooks, log: log, ctx: ctx}
	s.deletes = &batcher[*settlement]{calls: settleCalls, send: s.sendDeletes}
	s.changes = &batcher[*settlement]{calls: settleCalls, send: s.sendChanges}
	return s
}

// wait returns when no call is under way. Everything has been settled.
func (s *settler) wait() {
	s.deletes.wait()
	s.changes.wait()
}

// errExtending keeps a settlement back while an extension stands in its way.
var errExtending = errors.New("watermillsqs: an extension is under way")

// plan is what becomes of a delivery: the outcome and the call behind it.
type plan struct {
	outcome Outcome
	removes bool          // DeleteMessage; otherwise ChangeMessageVisibility
	after   time.Duration // the new visibility timeout
	err     error         // why it is Unfinished
}

// planFor turns the handler's Ack or Nack, and what it recorded before, into a
// plan. It may call SQS, to read the redrive policy again.
//
// cancelled says that the subscription has cancelled the handler.
func (s *settler) planFor(d *delivery, acked, cancelled bool) plan {
	v := d.cell.get()
	if acked {
		// Whatever else was recorded, somebody took the error for handled. The
		// metadata is not read: after InstantAck the handler may be writing it.
		if v.outcome == Dropped {
			return s.planDrop(d)
		}
		return plan{outcome: Acked, removes: true}
	}
	if v.outcome == Undecided {
		var err error
		if v, err = verdictInMetadata(d.msg.Metadata); err != nil {
			s.log.Error("The outcome in a message's metadata is not valid; the message is retried", err,
				watermill.LogFields{logMessageID: d.id})
		}
	}
	switch {
	case v.outcome == Dropped:
		return s.planDrop(d)
	case cancelled:
		// We cancelled the handler; its failure says nothing about the message.
		return plan{outcome: Retried}
	case v.outcome == Retried:
		return plan{outcome: Retried, after: v.after}
	}
	if after, set := delayInMetadata(d.msg.Metadata); set {
		return plan{outcome: Retried, after: after}
	}
	if s.backoff != nil {
		return plan{outcome: Retried, after: s.backoff(d.newestReceipt().count)}
	}
	return plan{outcome: Retried}
}

// planDrop deletes, unless the queue has a redrive policy and the message has used
// up its receives: then the next receive moves it to the dead-letter queue, which
// a delete would prevent.
func (s *settler) planDrop(d *delivery) plan {
	count := d.newestReceipt().count
	policy := s.queue.policy.Load()
	if policy != nil && count > policy.maxReceiveCount {
		// Received more often than allowed, so SQS did not move it: the policy was
		// changed, or its dead-letter queue is out of reach.
		policy = s.readPolicyAgain()
	}
	switch {
	case policy == nil || count < policy.maxReceiveCount:
		return plan{outcome: Dropped, removes: true}
	case count == policy.maxReceiveCount:
		return plan{outcome: Dropped}
	}
	after := time.Second
	if s.backoff != nil {
		after = max(after, s.backoff(count))
	}
	s.log.Error("A dropped message was received more often than the redrive policy allows and SQS has not moved it; it is given back",
		fmt.Errorf("received %d times, maxReceiveCount is %d, is dead-letter queue %s there?", count, policy.maxReceiveCount, policy.deadLetterARN),
		watermill.LogFields{logMessageID: d.id})
	return plan{outcome: Dropped, after: after}
}

// readPolicyAgain reads the redrive policy, at most once a minute.
func (s *settler) readPolicyAgain() *redrivePolicy {
	s.policyMu.Lock()
	fresh := s.policyReadAt.IsZero() || time.Since(s.policyReadAt) >= policyMemory
	if fresh {
		s.policyReadAt = time.Now()
	}
	s.policyMu.Unlock()
	if fresh {
		ctx, cancel := context.WithTimeout(s.ctx, maxAttempt)
		defer cancel()
		facts, err := describe(ctx, s.queue.clients, s.queue.url())
		switch {
		case err == nil:
			err = facts.denied
		case isQueueMissing(err):
			err = nil // no queue, no policy
		}
		if err != nil {
			s.log.Error("Reading the redrive policy again failed; the one that is known counts", err, nil)
		} else {
			s.queue.policy.Store(facts.redrive)
		}
	}
	return s.queue.policy.Load()
}

// settle decides a delivery and carries the decision out. It is called exactly
// once per delivery, by the goroutine that serves it. quiet, if not nil, is waited
// for before the message is made visible.
func (s *settler) settle(d *delivery, p plan, quiet <-chan struct{}) {
	decided := time.Now()
	held := decided.Sub(d.newestReceipt().receivedAt)
	lost, again := s.held.decide(d, p.outcome, p.removes)
	close(d.ended)
	d.endContext(ErrSettled)
	if lost {
		s.tellLoss(d)
	}

	var err error
	switch {
	case p.outcome == Unfinished:
		err = p.err
	case lost && !p.removes:
		// Nothing to give back: it is visible already, or somebody else's.
		p.outcome, err = Unfinished, ErrLeaseLost
	case lost && again:
		err = errReceivedAgain
	case lost:
		// On a standard queue an old receipt still deletes, as long as nobody has
		// received the message since.
		if err = s.send(s.deletes, d, 0); err == nil {
			err = ErrLeaseLost // a 200 does not say that the message is gone
		}
	case p.removes:
		err = s.carryOut(s.deletes, d, 0)
	default:
		if quiet != nil {
			<-quiet
		}
		err = s.carryOut(s.changes, d, p.after)
		if errors.Is(err, errReceivedAgain) {
			err = nil // visible it was
		}
	}
	s.held.leave(d, p.removes && err != nil)
	s.settled(d, p, held, time.Since(decided), err)
}

// tellLoss reports, once, that the lease of a delivery was lost. It is called by the
// goroutine that serves it, so a slow hook holds up nobody else.
func (s *settler) tellLoss(d *delivery) {
	if d.lossTold {
		return
	}
	d.lossTold = true
	s.held.mu.Lock()
	cause, r := d.lossCause, d.receipt
	s.held.mu.Unlock()
	s.log.Error("The lease of a message is lost: another consumer may receive it", errors.Join(ErrLeaseLost, cause),
		watermill.LogFields{logMessageID: d.id, logReceiveCount: r.count})
	if hook := s.hooks.LeaseLost; hook != nil {
		hook(LeaseLoss{Queue: d.queue, MessageID: d.id, ReceiveCount: r.count, Held: time.Since(r.receivedAt), Err: cause})
	}
}

func (s *settler) settled(d *delivery, p plan, held, took time.Duration, err error) {
	fields := watermill.LogFields{logMessageID: d.id, logReceiveCount: d.newestReceipt().count, "outcome": p.outcome.String()}
	switch {
	case err == nil:
		s.log.Trace("Message settled", fields)
	case p.outcome == Unfinished:
		s.log.Info("Message left unfinished: it returns when its lease ends", fields)
	case errors.Is(err, errReceivedAgain):
		s.log.Debug("Message received again while it was being settled", fields)
	default:
		s.log.Error("Settling a message failed: it returns when its lease ends", err, fields)
	}
	if hook := s.hooks.Settled; hook != nil {
		hook(Settlement{
			Queue: d.queue, MessageID: d.id, ReceiveCount: d.newestReceipt().count,
			Outcome: p.outcome, Delay: p.after, Held: held, Duration: took, Err: err,
		})
	}
}

// settlement is one attempt to settle one delivery.
type settlement struct {
	d        *delivery
	after    time.Duration
	answered chan error // capacity 1, answered exactly once
}

// send makes one attempt.
func (s *settler) send(via *batcher[*settlement], d *delivery, after time.Duration) error {
	attempt := &settlement{d: d, after: after, answered: make(chan error, 1)}
	via.add(attempt)
	return <-attempt.answered
}

// carryOut tries until SQS has confirmed the settlement, refuses it for good, or
// the lease is over.
func (s *settler) carryOut(via *batcher[*settlement], d *delivery, after time.Duration) error {
	const firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second
	for attempt := 0; ; attempt++ {
		err := s.send(via, d, after)
		if errors.Is(err, errExtending) && s.ctx.Err() == nil {
			d.letExtensionPass(s.ctx, d.removes)
			continue
		}
		if err == nil || errors.Is(err, errReceivedAgain) || errors.Is(err, ErrLeaseLost) || isReceiptGone(err) {
			return err
		}
		pause := exponential(firstPause, longestPause, attempt)
		pause = pause/2 + rand.N(pause/2)
		if time.Now().Add(pause).After(d.newestReceipt().leaseEnd) {
			return err
		}
		s.log.Debug("A settlement failed and is tried again", watermill.LogFields{logMessageID: d.id, "error": err.Error()})
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return err
		}
	}
}

// board takes what is to be sent now: from here on the deliveries are not extended
// any more. Those that have been received again since are left out; so are changes of
// visibility (not deletes) whose lease is over, since somebody else may have the
// message, and what an extension stands in the way of.
func (s *settler) board(batch []*settlement, deletes bool) (boarded []*settlement, receipts []receipt, timeout time.Duration) {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	now := time.Now()
	timeout = maxAttempt
	for _, attempt := range batch {
		d := attempt.d
		over := !now.Before(d.receipt.leaseEnd)
		switch {
		case d.superseded:
			attempt.answered <- errReceivedAgain
			continue
		case !deletes && (over || d.isLost):
			attempt.answered <- ErrLeaseLost
			continue
		case !over && !d.isLost && d.inItsWay(deletes):
			attempt.answered <- errExtending
			continue
		case over:
			timeout = min(timeout, lostAttempt)
		default:
			timeout = min(timeout, attemptTime(d.receipt.leaseEnd))
		}
		d.unlease()
		boarded = append(boarded, attempt)
		receipts = append(receipts, d.receipt)
	}
	return boarded, receipts, timeout
}

func (s *settler) sendDeletes(batch []*settlement) {
	batch, receipts, timeout := s.board(batch, true)
	if len(batch) == 0 {
		return
	}
	handles := make([]string, len(batch))
	for i, r := range receipts {
		handles[i] = r.handle
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	for i, err := range deleteMessages(ctx, s.queue.clients, s.queue.url(), handles) {
		batch[i].answered <- err
	}
}

func (s *settler) sendChanges(batch []*settlement) {
	batch, receipts, timeout := s.board(batch, false)
	if len(batch) == 0 {
		return
	}
	changes := make([]visibilityChange, len(batch))
	for i, attempt := range batch {
		seconds, cut := visibilitySeconds(attempt.after, time.Until(receipts[i].limit))
		if cut {
			warn(s.log, "A retry delay is shortened: SQS keeps a message invisible for at most 12 hours after its receipt", watermill.LogFields{
				logMessageID: attempt.d.id, "delay": attempt.after.String(),
				"shortened_to": (time.Duration(seconds) * time.Second).String(),
			})
		}
		changes[i] = visibilityChange{handle: receipts[i].handle, seconds: seconds}
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	for i, err := range changeVisibility(ctx, s.queue.clients, s.queue.url(), changes) {
		batch[i].answered <- err
	}
}

// visibilitySeconds rounds a delay up to whole seconds, so that a message never
// returns before it, and cuts it to what is left of the 12 hours, since SQS refuses
// a longer one.
func visibilitySeconds(after, left time.Duration) (seconds int32, cut bool) {
	if after <= 0 {
		return 0, false
	}
	left = max(left.Truncate(time.Second), 0)
	after = min(after, 2*maxVisibility) // far enough from where rounding up overflows
	if rounded := after.Truncate(time.Second); rounded < after {
		after = rounded + time.Second
	}
	if after > left {
		return int32(left / time.Second), true
	}
	return int32(after / time.Second), false
}

// undecodableDelay is after how long a message that cannot be decoded comes back.
func (s *settler) undecodableDelay(receiveCount int) time.Duration {
	if s.backoff != nil {
		if after := s.backoff(receiveCount); after > 0 {
			return after
		}
	}
	return exponential(undecodableInitial, undecodableLimit, receiveCount-1)
}
