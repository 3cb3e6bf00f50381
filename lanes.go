package watermillsqs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	// longestGroupLinger is how long deletes wait for those of their followers.
	longestGroupLinger = time.Second

	// holdTime is how soon a retried head may be back for its retry to wait for
	// receives under way, see retriedHeads.
	holdTime = 2 * wideWait
)

// lanes keep the order of the message groups of a FIFO queue: one delivery at a time a
// group, and groups in parallel.
type lanes struct {
	permits  *permits
	receiver *receiver
	settler  *settler
	stopped  context.Context // done when the subscription is to end
	serving  *sync.WaitGroup // counts the lanes

	// enter registers a received message, and handle finds out what becomes of one; see
	// subscription.
	enter  func(types.Message, receipt) (*delivery, arrival)
	handle func(d *delivery, a arrival, passOver func()) plan

	mu      sync.Mutex // guards byGroup and the lanes in it
	byGroup map[string]*lane
}

// lane is a message group in hand, from the receipt of its first message until none of
// them is left. It has one permit, and one goroutine (serve), which decides its
// deliveries one after another.
type lane struct {
	all   *lanes
	group string

	// settling are its settlements under way. Added to under all.mu while the lane is in
	// byGroup, or by its goroutine.
	settling sync.WaitGroup
	passed   *delivery // the head, if what waited behind it has been given back; of serve

	// What follows is guarded by all.mu.

	waiting []follower // in order
	permits int
	acked   []*settlement // their deletes wait for those of their followers
	timer   *time.Timer   // of acked, nil if that is empty
}

// follower is a delivery that waits for those before it.
type follower struct {
	d        *delivery
	arrival  arrival
	sequence string
}

// accept takes what one receive brought in hand. A permit goes with a group that was not
// in hand.
func (l *lanes) accept(list []incoming) (used int) {
	var groups []string
	elsewhere := make(map[string]bool) // their heads are in hand of another subscription
	runs := make(map[string][]follower, 1)
	for _, r := range list {
		d, a := l.enter(r.msg, r.receipt)
		group := r.msg.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
		l.receiver.heads.received(d, aws.ToString(r.msg.MessageId), group)
		if d == nil {
			l.mu.Lock()
			elsewhere[group] = elsewhere[group] || l.byGroup[group] == nil && len(runs[group]) == 0
			l.mu.Unlock()
			continue
		}
		if runs[group] == nil {
			groups = append(groups, group)
		}
		sequence := r.msg.Attributes[string(types.MessageSystemAttributeNameSequenceNumber)]
		runs[group] = append(runs[group], follower{d: d, arrival: a, sequence: sequence})
	}
	for _, group := range groups {
		if run := runs[group]; elsewhere[group] {
			l.serving.Go(func() { l.settler.settleTogether(l.decideUnhandled(run), nil) })
		} else {
			used += l.add(group, run)
		}
	}
	return used
}

// add puts messages of one group into its lane, and returns how many permits they take.
func (l *lanes) add(group string, run []follower) (used int) {
	l.mu.Lock()
	in := l.byGroup[group]
	if in != nil && l.stopped.Err() != nil {
		// They will not be handled, and need not wait for the one that still is.
		in.settling.Add(1)
		l.mu.Unlock()
		go func() {
			defer in.settling.Done()
			l.settler.settleTogether(l.decideUnhandled(run), l.receiver.letPollsEnd)
		}()
		return 0
	}
	defer l.mu.Unlock()
	inLane := maxBatch // messages that SQS lets it have
	if in == nil {
		in = &lane{all: l, group: group, waiting: run}
		l.byGroup[group] = in
		l.serving.Add(1)
		go in.serve()
	} else {
		inLane-- // the head does not wait
		if lost := in.takeLost(); len(lost) > 0 {
			// The group has come again; those of the earlier receive are of no use.
			in.settling.Go(func() { l.settler.settleTogether(l.decideUnhandled(lost), nil) })
		}
		in.waiting = append(in.waiting, run...)
		// SQS keeps the order, but an answer can be overtaken by a later one.
		slices.SortStableFunc(in.waiting, func(a, b follower) int { return compareSequence(a.sequence, b.sequence) })
	}
	// One for the group, and one for each message that SQS should have kept back.
	used = max(1+max(len(in.waiting)-inLane, 0)-in.permits, 0)
	in.permits += used
	l.permits.use(used)
	return used
}

// compareSequence compares two sequence numbers: decimal, and too long for an integer.
func compareSequence(a, b string) int {
	if a == "" || b == "" {
		return 0
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// serve is the lane's goroutine.
func (in *lane) serve() {
	l := in.all
	defer l.serving.Done()
	for {
		next, ok := in.next()
		if !ok {
			break
		}
		in.decided(l.settler.decide(next.d, l.handle(next.d, next.arrival, func() { in.passOver(next.d) })))
	}
	l.mu.Lock()
	permits := in.permits // it gets no more: it is closed
	l.mu.Unlock()
	for range permits {
		l.settler.decided()
	}
	in.settling.Wait()
	l.permits.settled(permits)
}

// next takes the first of those that wait. Without one, the lane is closed.
func (in *lane) next() (next follower, ok bool) {
	in.all.mu.Lock()
	defer in.all.mu.Unlock()
	if len(in.waiting) == 0 {
		delete(in.all.byGroup, in.group)
		return follower{}, false
	}
	next = in.waiting[0]
	in.waiting[0] = follower{}
	in.waiting = in.waiting[1:]
	return next, true
}

// decided carries out what was decided about the head of the lane. After an ack or a
// drop the next one goes. Otherwise what was received behind the head is given back
// with it, and comes again after it.
func (in *lane) decided(head *settlement) {
	s := in.all.settler
	defer in.all.receiver.heads.decided(head.d) // after it was entered as retried
	switch {
	case head.done:
		s.conclude(head, head.err)
		in.flush()
		if in.passed != head.d { // what waits has come since if it was, and goes on
			in.giveBack(in.all.decideUnhandled(in.takeBehind(head.d)), 0, nil)
		}
	case head.plan.removes:
		in.ack(head)
	case head.plan.outcome == Dropped:
		// It stays where it is until the next receive moves it to the dead-letter queue.
		in.flush()
		quiet := in.quiet(0)
		in.settling.Go(func() { s.conclude(head, s.carryOut(head, quiet)) })
	default:
		changed := in.retried(head, head.plan.after)
		in.flush()
		in.giveBack(append(in.all.decideUnhandled(in.takeWaiting()), head), head.plan.after, changed)
	}
}

// passOver is called when the lease of the head is lost, or the subscription ends,
// while its handler is at work: what waits behind it is given back now.
func (in *lane) passOver(head *delivery) {
	behind := in.takeWaiting
	if in.all.stopped.Err() == nil {
		in.passed = head
		in.all.lost(head)
		behind = func() []follower { return in.takeBehind(head) }
	}
	in.flush()
	in.giveBack(in.all.decideUnhandled(behind()), 0, nil)
}

// retried notes that the head will be back in the queue. changed is to be called when the
// change that brings it there has been answered.
func (in *lane) retried(head *settlement, after time.Duration) (changed func()) {
	policy := in.all.receiver.queue.policy.Load()
	if policy == nil || head.receipt.count == policy.maxReceiveCount {
		return nil // it never comes back: the next receive moves it to the dead-letter queue
	}
	return in.all.receiver.heads.retried(head.d.id, in.group, after)
}

// lost notes that a head may be back in the queue.
func (l *lanes) lost(head *delivery) {
	policy := l.receiver.queue.policy.Load()
	if policy != nil && head.newestReceipt().count != policy.maxReceiveCount {
		l.receiver.heads.retried(head.id, head.groupID, 0)()
	}
}

// takeLost takes those whose lease was lost. all.mu is held.
func (in *lane) takeLost() (lost []follower) {
	in.waiting = slices.DeleteFunc(in.waiting, func(f follower) bool {
		select {
		case <-f.d.lost:
			lost = append(lost, f)
			return true
		default:
			return false
		}
	})
	return lost
}

// takeBehind takes what was received behind a head whose lease is lost. If it has come
// again already, that is only what was lost with it: the rest goes on, in order.
func (in *lane) takeBehind(head *delivery) []follower {
	in.all.mu.Lock()
	defer in.all.mu.Unlock()
	if slices.ContainsFunc(in.waiting, func(f follower) bool { return f.d.id == head.id }) {
		return in.takeLost()
	}
	waiting := in.waiting
	in.waiting = nil
	return waiting
}

func (in *lane) takeWaiting() []follower {
	in.all.mu.Lock()
	defer in.all.mu.Unlock()
	waiting := in.waiting
	in.waiting = nil
	return waiting
}

// decideUnhandled decides that deliveries are given back, last first, so that each is
// kept back by those before it until they are given back, too. One that was acked
// before is deleted.
func (l *lanes) decideUnhandled(run []follower) []*settlement {
	list := make([]*settlement, 0, len(run)+1)
	for _, f := range slices.Backward(run) {
		p := plan{outcome: Released}
		if f.arrival == alreadyAcked || l.settler.held.predecessorAcked(f.d) {
			p = plan{outcome: Acked, removes: true}
		}
		list = append(list, l.settler.decide(f.d, p))
		l.receiver.heads.decided(f.d)
	}
	return list
}

// giveBack makes deliveries visible, in their order, in one call. after is when the
// last of them is. changed, if not nil, is called when that has been answered.
func (in *lane) giveBack(list []*settlement, after time.Duration, changed func()) {
	if len(list) == 0 {
		return
	}
	quiet := in.quiet(after)
	in.settling.Go(func() {
		in.all.settler.settleTogether(list, quiet)
		if changed != nil {
			changed()
		}
	})
}

// quiet is what a message waits for before it is made visible after a time, nil for
// nothing.
func (in *lane) quiet(after time.Duration) func() {
	l := in.all
	switch {
	case l.stopped.Err() != nil && after < pollGrace+lastAttempt:
		return l.receiver.letPollsEnd
	case l.receiver.queue.policy.Load() != nil && after < holdTime:
		return l.receiver.letWidePollsEnd
	}
	return nil
}

// ack lets the delete of the head wait for those of its followers, if it has some.
func (in *lane) ack(head *settlement) {
	in.all.mu.Lock()
	in.acked = append(in.acked, head)
	alone := len(in.waiting) == 0
	if !alone && in.timer == nil {
		in.timer = time.AfterFunc(in.linger(), in.flush)
	}
	in.all.mu.Unlock()
	if alone {
		in.flush()
	}
}

// linger is how long deletes may wait: a second, and a quarter of the shortest lease.
// all.mu is held.
func (in *lane) linger() time.Duration {
	first := in.acked[0].d.newestReceipt().leaseEnd
	for _, f := range in.waiting {
		if end := f.d.newestReceipt().leaseEnd; end.Before(first) {
			first = end
		}
	}
	return min(longestGroupLinger, time.Until(first)/4)
}

// flush sends the deletes of the lane, together.
func (in *lane) flush() {
	in.all.mu.Lock()
	acked := in.acked
	in.acked = nil
	if in.timer != nil {
		in.timer.Stop()
		in.timer = nil
	}
	if len(acked) > 0 {
		in.settling.Add(1) // the lane is not closed, since this was in it
	}
	in.all.mu.Unlock()
	if len(acked) > 0 {
		go func() {
			defer in.settling.Done()
			in.all.settler.settleTogether(acked, nil)
		}()
	}
}
