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
	runs := make(map[string][]follower, 1)
	for _, r := range list {
		d, a := l.enter(r.msg, r.receipt)
		group := r.msg.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
		l.receiver.heads.received(aws.ToString(r.msg.MessageId), group)
		if d == nil {
			continue
		}
		if runs[group] == nil {
			groups = append(groups, group)
		}
		sequence := r.msg.Attributes[string(types.MessageSystemAttributeNameSequenceNumber)]
		runs[group] = append(runs[group], follower{d: d, arrival: a, sequence: sequence})
	}
	for _, group := range groups {
		used += l.add(group, runs[group])
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
	if in == nil {
		in = &lane{all: l, group: group, waiting: run}
		l.byGroup[group] = in
		l.serving.Add(1)
		go in.serve()
	} else {
		in.waiting = append(in.waiting, run...)
		// SQS keeps the order, but an answer can be overtaken by a later one.
		slices.SortStableFunc(in.waiting, func(a, b follower) int { return compareSequence(a.sequence, b.sequence) })
	}
	// One for the group, and one for each message that SQS should have kept back.
	used = max(1+max(len(in.waiting)-maxBatch, 0)-in.permits, 0)
	in.permits += used
	for range used {
		l.permits.use()
	}
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
		passedOver := false
		p := l.handle(next.d, next.arrival, func() {
			passedOver = true
			in.passOver(next.d)
		})
		in.decided(l.settler.decide(next.d, p), passedOver)
	}
	l.mu.Lock()
	permits := in.permits // it gets no more: it is closed
	l.mu.Unlock()
	for range permits {
		l.settler.decided()
	}
	in.settling.Wait()
	for range permits {
		l.permits.settled()
	}
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
// with it, and comes again after it; but what has come since the head was passed over is
// in its place.
func (in *lane) decided(head *settlement, passedOver bool) {
	s := in.all.settler
	defer in.all.receiver.heads.decided(head.d.id) // after it was entered as retried
	switch {
	case head.done:
		s.conclude(head, head.err)
		in.flush()
		if !passedOver {
			in.giveBack(in.all.decideUnhandled(in.takeWaiting()), 0)
		}
	case head.plan.removes:
		in.ack(head)
	case head.plan.outcome == Dropped:
		// It stays where it is until the next receive moves it to the dead-letter queue.
		in.flush()
		quiet := in.quiet(0)
		in.settling.Go(func() { s.conclude(head, s.carryOut(head, quiet, nil)) })
	default:
		in.retried(head.d, head.plan.after)
		in.flush()
		in.giveBack(append(in.all.decideUnhandled(in.takeWaiting()), head), head.plan.after)
	}
}

// passOver is called when the lease of the head is lost, or the subscription ends,
// while its handler is at work: what waits behind it is given back now.
func (in *lane) passOver(head *delivery) {
	if in.all.stopped.Err() == nil {
		in.retried(head, 0)
	}
	in.flush()
	in.giveBack(in.all.decideUnhandled(in.takeWaiting()), 0)
}

// retried notes that the head is back in the queue, or will be after a time.
func (in *lane) retried(head *delivery, after time.Duration) {
	if l := in.all; l.receiver.queue.policy.Load() != nil {
		l.receiver.heads.retried(head.id, in.group, after)
	}
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
		if f.arrival == alreadyAcked {
			p = plan{outcome: Acked, removes: true}
		}
		list = append(list, l.settler.decide(f.d, p))
		l.receiver.heads.decided(f.d.id)
	}
	return list
}

// giveBack makes deliveries visible, in their order, in one call. after is when the
// last of them is.
func (in *lane) giveBack(list []*settlement, after time.Duration) {
	if len(list) > 0 {
		quiet := in.quiet(after)
		in.settling.Go(func() { in.all.settler.settleTogether(list, quiet) })
	}
}

// quiet is what a message waits for before it is made visible after a time, nil for
// nothing.
func (in *lane) quiet(after time.Duration) func() {
	l := in.all
	switch {
	case l.stopped.Err() != nil && after < pollGrace:
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
