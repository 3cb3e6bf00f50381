package watermillsqs

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

const (
	// The deletes, and apart from them the visibility changes, that one subscription has
	// under way are bounded: by one for ten messages in flight, within these bounds. What
	// comes meanwhile leaves together. Those of a FIFO queue hold up their groups, so
	// they wait for each other even less.
	fewestSettleCalls      = 4
	fewestGroupSettleCalls = 16
	mostSettleCalls        = 64

	// A delete waits for others, as long as there is something in hand that may bring
	// them: for a quarter of the time that its message was in hand, within these bounds
	// and a quarter of its lease.
	shortestLinger = 10 * time.Millisecond
	longestLinger  = 100 * time.Millisecond

	// lostAttempt is what the one delete after a lost lease may take.
	lostAttempt = 5 * time.Second
)

// errReceivedAgain ends a settlement whose message has been received again: the
// newer delivery carries on.
var errReceivedAgain = errors.New("watermillsqs: the message has been received again")

// settler turns verdicts into calls, for one subscription.
type settler struct {
	queue   *boundQueue
	held    *inFlight
	permits *permits
	hooks   Hooks
	log     watermill.LoggerAdapter
	ctx     context.Context // of the calls

	// release gives back the permits of deliveries that settle has concluded.
	release func(n int)

	deletes *batcher[*settlement]
	changes *batcher[*settlement]
}

func newSettler(ctx context.Context, queue *boundQueue, held *inFlight, permits *permits, maxInFlight int, hooks Hooks, log watermill.LoggerAdapter) *settler {
	s := &settler{queue: queue, held: held, permits: permits, hooks: hooks, log: log, ctx: ctx}
	linger, fewest := lingerOf, fewestSettleCalls
	if queue.id.isFIFO() {
		linger, fewest = nil, fewestGroupSettleCalls
	}
	calls := min(max(maxInFlight/maxBatch, fewest), mostSettleCalls)
	s.deletes = &batcher[*settlement]{calls: calls, send: s.sendDeletes, linger: linger}
	s.changes = &batcher[*settlement]{calls: calls, send: s.sendChanges}
	return s
}

// lingerOf is how long a delete may wait for others.
func lingerOf(c *settlement) time.Duration {
	if c.urgent {
		return 0
	}
	return min(max(c.held()/4, shortestLinger), longestLinger, time.Until(c.receipt.leaseEnd)/4)
}

// wait returns when no call is under way. Everything has been settled.
func (s *settler) wait() {
	s.deletes.wait()
	s.changes.wait()
}

// errExtending keeps a settlement back while an extension stands in its way.
var errExtending = errors.New("watermillsqs: an extension is under way")

// settlement is a delivery whose outcome is fixed, and what is to be sent for it.
type settlement struct {
	d        *delivery
	plan     plan
	at       time.Time
	receipt  receipt    // the newest when it was decided or, later, sent
	err      error      // what became of it, if that is known when it is decided
	done     bool       // there is nothing to send
	urgent   bool       // it does not wait for others
	answered chan error // see expect; nil if whoever sends it concludes it
}

// expect makes the settlement one that somebody waits for: it is answered exactly once
// each time it is added to a batcher.
func (c *settlement) expect() { c.answered = make(chan error, 1) }

// held is the time from the receipt to the verdict.
func (c *settlement) held() time.Duration { return c.at.Sub(c.receipt.receivedAt) }

// decide fixes the outcome of a delivery. It is called exactly once per delivery, by
// the goroutine that serves it; what is decided has to be carried out, and concluded.
func (s *settler) decide(d *delivery, p plan) *settlement {
	c := &settlement{d: d, plan: p, at: time.Now()}
	var lost, again bool
	c.receipt, lost, again = s.held.decide(d, p.outcome, p.removes)
	d.endContext(ErrSettled)
	if lost {
		s.tellLoss(d)
	}
	switch {
	case p.outcome == Unfinished:
		c.done, c.err = true, p.err
	case lost && !p.removes:
		// Nothing to give back: it is visible already, or somebody else's.
		c.done, c.err = true, ErrLeaseLost
		c.plan.outcome = Unfinished
	case lost && again:
		c.done, c.err = true, errReceivedAgain
	case lost && s.queue.id.isFIFO():
		// An old receipt deletes nothing there; the ack is remembered.
		c.done, c.err = true, ErrLeaseLost
	case lost:
		c.err, c.urgent = ErrLeaseLost, true
	}
	return c
}

// conclude is the end of a delivery.
func (s *settler) conclude(c *settlement, err error) {
	s.held.leave(c.d, c.plan.removes && err != nil)
	s.settled(c, err)
}

// settle decides a delivery of a standard queue and carries the decision out. quiet, if not
// nil, is called before the message is made visible, and waits until that does no harm.
// When the delivery is concluded, which may be later, release is called.
func (s *settler) settle(d *delivery, p plan, quiet func()) {
	c := s.decide(d, p)
	if !c.done && c.err == nil && p.removes {
		s.deletes.add(c)
		s.decided() // after it was added, so that the last of them takes it along
		return
	}
	s.decided()
	s.conclude(c, s.carryOut(c, quiet))
	s.release(1)
}

// decided notes that the delivery of a permit is decided. With the last of those in
// hand there is nothing left that deletes could wait for.
func (s *settler) decided() {
	if s.permits.decided() {
		s.deletes.flush()
	}
}

// carryOut sends what was decided and returns what became of it.
func (s *settler) carryOut(c *settlement, quiet func()) error {
	if c.done {
		return c.err
	}
	via := s.changes
	if c.plan.removes {
		via = s.deletes
	} else if quiet != nil {
		quiet()
	}
	c.expect()
	via.add(c)
	if c.err != nil {
		// On a standard queue an old receipt still deletes, as long as nobody has
		// received the message since. A 200 does not say that the message is gone.
		return cmp.Or(<-c.answered, c.err)
	}
	return s.finish(via, c, <-c.answered)
}

// settleTogether carries out and concludes what was decided in one group: deletes in one batch,
// changes of visibility in one call and in their order. What fails is tried again alone.
func (s *settler) settleTogether(list []*settlement, quiet func()) {
	var deletes, changes []*settlement
	for _, c := range list {
		switch {
		case c.done:
		case c.plan.removes:
			c.expect()
			deletes = append(deletes, c)
		default:
			c.expect()
			changes = append(changes, c)
		}
	}
	s.deletes.add(deletes...)
	if len(changes) > 0 {
		if quiet != nil {
			quiet()
		}
		s.changeTogether(changes)
	}
	var failed sync.WaitGroup
	for _, c := range list {
		if c.done {
			s.conclude(c, c.err)
			continue
		}
		via, err := s.changes, <-c.answered
		if c.plan.removes {
			via = s.deletes
		}
		if err == nil {
			s.conclude(c, nil)
			continue
		}
		failed.Go(func() { s.conclude(c, s.finish(via, c, err)) })
	}
	failed.Wait()
}

// changeTogether sends changes of visibility in their order, one call for ten.
func (s *settler) changeTogether(changes []*settlement) {
	if len(changes) == 1 {
		s.changes.add(changes...)
		return
	}
	// No extension is made any more, and none may be answered in between.
	s.held.mu.Lock()
	for _, change := range changes {
		change.d.unlease()
	}
	s.held.mu.Unlock()
	for _, change := range changes {
		change.d.letExtensionPass(s.ctx, false)
	}
	for batch := range slices.Chunk(changes, maxBatch) {
		s.sendChanges(batch)
	}
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

func (s *settler) settled(c *settlement, err error) {
	fields := func() watermill.LogFields {
		return watermill.LogFields{logMessageID: c.d.id, logReceiveCount: c.receipt.count, "outcome": c.plan.outcome.String()}
	}
	switch {
	case err == nil:
		if traces(s.log) {
			s.log.Trace("Message settled", fields())
		}
	case c.plan.outcome == Unfinished:
		s.log.Info("Message left unfinished: it returns when its lease ends", fields())
	case errors.Is(err, errReceivedAgain):
		s.log.Debug("Message received again while it was being settled", fields())
	default:
		s.log.Error("Settling a message failed: it returns when its lease ends", err, fields())
	}
	if hook := s.hooks.Settled; hook != nil {
		hook(Settlement{
			Queue: c.d.queue, MessageID: c.d.id, ReceiveCount: c.receipt.count,
			Outcome: c.plan.outcome, Delay: c.plan.after, Held: c.held(), Duration: time.Since(c.at), Err: err,
		})
	}
}

// finish is given the answer to a settlement. It adds the settlement to the batcher again,
// alone, until SQS has confirmed it, refuses it for good, or the lease is over.
func (s *settler) finish(via *batcher[*settlement], c *settlement, err error) error {
	const firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second
	d := c.d
	c.urgent = true
	for round := 0; ; round++ {
		for errors.Is(err, errExtending) && s.ctx.Err() == nil {
			d.letExtensionPass(s.ctx, d.removes)
			via.add(c)
			err = <-c.answered
		}
		if errors.Is(err, errReceivedAgain) && !c.plan.removes {
			return nil // visible it was
		}
		if err == nil || errors.Is(err, errReceivedAgain) || errors.Is(err, ErrLeaseLost) || isReceiptGone(err) {
			return err
		}
		pause := exponential(firstPause, longestPause, round)
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
		via.add(c)
		err = <-c.answered
	}
}

// board takes what is to be sent now: from here on the deliveries are not extended
// any more. Those that have been received again since are left out; so are changes of
// visibility (not deletes) whose lease is over, since somebody else may have the
// message, and what an extension stands in the way of.
func (s *settler) board(batch []*settlement, deletes bool) (boarded []*settlement, timeout time.Duration) {
	var left []*settlement
	var why []error
	leave := func(c *settlement, err error) { left, why = append(left, c), append(why, err) }
	defer func() { s.answer(left, why) }()
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	now := time.Now()
	timeout = maxAttempt
	boarded = batch[:0:len(batch)]
	for _, c := range batch {
		d := c.d
		over := !now.Before(d.receipt.leaseEnd)
		switch {
		case d.superseded:
			leave(c, errReceivedAgain)
			continue
		case !deletes && (over || d.isLost):
			leave(c, ErrLeaseLost)
			continue
		case !over && !d.isLost && d.inItsWay(deletes):
			leave(c, errExtending)
			continue
		case over:
			timeout = min(timeout, lostAttempt)
		default:
			timeout = min(timeout, attemptTime(d.receipt.leaseEnd))
		}
		d.unlease()
		c.receipt = d.receipt
		boarded = append(boarded, c)
	}
	return boarded, timeout
}

func (s *settler) sendDeletes(batch []*settlement) {
	batch, timeout := s.board(batch, true)
	if len(batch) == 0 {
		return
	}
	handles := make([]string, len(batch))
	for i, c := range batch {
		handles[i] = c.receipt.handle
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	s.answer(batch, deleteMessages(ctx, s.queue.clients, s.queue.url(), handles))
}

// answer tells those who wait what became of settlements, and concludes those that nobody
// waits for.
func (s *settler) answer(batch []*settlement, errs []error) {
	concluded := 0
	for i, c := range batch {
		switch err := errs[i]; {
		case c.answered != nil:
			c.answered <- err
		case err == nil:
			s.conclude(c, nil)
			concluded++
		default:
			c.expect()
			go func() { // release is who waits for it
				s.conclude(c, s.finish(s.deletes, c, err))
				s.release(1)
			}()
		}
	}
	if concluded > 0 {
		s.release(concluded)
	}
}

func (s *settler) sendChanges(batch []*settlement) {
	batch, timeout := s.board(batch, false)
	if len(batch) == 0 {
		return
	}
	changes := make([]visibilityChange, len(batch))
	for i, c := range batch {
		seconds, cut := visibilitySeconds(c.plan.after, time.Until(c.receipt.limit))
		if cut {
			warn(s.log, "A retry delay is shortened: SQS keeps a message invisible for at most 12 hours after its receipt", watermill.LogFields{
				logMessageID: c.d.id, "delay": c.plan.after.String(),
				"shortened_to": (time.Duration(seconds) * time.Second).String(),
			})
		}
		changes[i] = visibilityChange{handle: c.receipt.handle, seconds: seconds}
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	s.answer(batch, changeVisibility(ctx, s.queue.clients, s.queue.url(), changes))
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
