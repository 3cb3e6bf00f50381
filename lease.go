package watermillsqs

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

const (
	// extensionCalls bounds the extensions under way per subscription: enough that
	// one that hangs does not hold up the others.
	extensionCalls = 8

	// minAttempt is the least time that a settlement or an extension gets, however
	// little is left of the lease.
	minAttempt = 250 * time.Millisecond
	// maxAttempt bounds them where the lease is long, for clients without a
	// timeout of their own.
	maxAttempt = 30 * time.Second
)

// errLeaseOver is why a lease is lost that nobody refused to extend.
var errLeaseOver = errors.New("the visibility timeout ran out")

// attemptTime is how long one settlement or extension call may take: at most half
// of what is left of the lease, so that one that hangs leaves time for another.
func attemptTime(leaseEnd time.Time) time.Duration {
	return min(max(time.Until(leaseEnd)/2, minAttempt), maxAttempt)
}

// keeper extends the leases of all deliveries of a subscription, from one place and
// ten per call: from the receipt until the settlement is on the wire. It knows
// deadlines, not outcomes: a lease that it cannot keep it reports to the delivery.
type keeper struct {
	queue  *boundQueue
	held   *inFlight // its mutex guards leases
	leases *leases
	hooks  Hooks
	log    watermill.LoggerAdapter
	ctx    context.Context // of the calls

	end   chan struct{} // closed when nothing is in flight any more
	ended chan struct{} // closed when run has returned
	slots chan struct{} // one per extension call under way
	calls sync.WaitGroup
}

func newKeeper(ctx context.Context, queue *boundQueue, held *inFlight, hooks Hooks, log watermill.LoggerAdapter) *keeper {
	return &keeper{
		queue: queue, held: held, leases: newLeases(), hooks: hooks, log: log, ctx: ctx,
		end:   make(chan struct{}),
		ended: make(chan struct{}),
		slots: make(chan struct{}, extensionCalls),
	}
}

// close ends the keeper. Nothing may be in flight any more.
func (k *keeper) close() {
	close(k.end)
	<-k.ended
}

// run is the keeper's goroutine. It ends after end is closed and every extension
// has been answered.
func (k *keeper) run() {
	defer close(k.ended)
	defer k.calls.Wait()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		due, next := k.collect()
		for len(due) > 0 {
			n := min(len(due), maxBatch)
			k.extend(due[:n])
			due = due[n:]
		}
		if next > 0 {
			timer.Reset(next)
		}
		select {
		case <-k.leases.wake:
		case <-timer.C:
		case <-k.end:
			return
		}
		timer.Stop()
	}
}

// collect takes what is due: leases to extend, together with those that will be
// due soon, so that calls are full. Leases that have run out are lost. next is the
// time until there is something to do again, 0 for never.
func (k *keeper) collect() (due []*extension, next time.Duration) {
	k.held.mu.Lock()
	var limited []*delivery
	defer func() {
		k.held.mu.Unlock()
		for _, d := range limited {
			warn(k.log, "A message has been held for as long as it can be; its lease will be lost unless it is settled", watermill.LogFields{
				logMessageID: d.id, "lease_end": d.newestReceipt().leaseEnd,
			})
		}
	}()
	now := time.Now()
	soon := now.Add(k.queue.visibility / 8)
	for k.leases.Len() > 0 {
		d := k.leases.byAttention[0]
		if !now.Before(d.receipt.leaseEnd) {
			d.lose(errLeaseOver)
			continue
		}
		if d.extendAt.IsZero() || d.extendAt.After(soon) || d.extendAt.After(now) && len(due)%maxBatch == 0 {
			return due, max(d.attention().Sub(now), time.Millisecond)
		}
		// The newest lease may not end after the limit, and asking for more than
		// is left of the 12 hours is refused, which looks like a lost receipt.
		left := d.receipt.extendUntil.Sub(now).Truncate(time.Second)
		ask := min(d.visibility, left)
		d.extendAt = time.Time{}
		if ask < time.Second || !now.Add(ask).After(d.receipt.leaseEnd) {
			if !d.warned {
				d.warned = true
				limited = append(limited, d)
			}
		} else {
			d.extension = &extension{
				d: d, handle: d.receipt.handle, seconds: int32(ask / time.Second), written: make(chan struct{}), answered: make(chan struct{}),
			}
			due = append(due, d.extension)
		}
		heap.Fix(k.leases, 0)
	}
	return due, 0
}

// extend sends one call, in a goroutine of its own so that a call that hangs does
// not hold up the others.
func (k *keeper) extend(batch []*extension) {
	k.calls.Go(func() {
		k.slots <- struct{}{}
		defer func() { <-k.slots }()

		batch, changes, shortest := k.board(batch)
		if len(batch) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(k.ctx, attemptTime(shortest))
		defer cancel()
		ctx = withAttempt(ctx, &attempt{written: func() {
			k.held.mu.Lock()
			defer k.held.mu.Unlock()
			for _, e := range batch {
				e.write()
			}
		}})
		sent := time.Now()
		errs := changeVisibility(ctx, k.queue.clients, k.queue.url(), changes)
		took := time.Since(sent)
		for i, e := range batch {
			k.extended(e, sent, took, errs[i])
		}
	})
}

// board marks what is to be sent now and leaves out what needs no extension any
// more. shortest is the first end of a lease among them.
func (k *keeper) board(batch []*extension) (boarded []*extension, changes []visibilityChange, shortest time.Time) {
	k.held.mu.Lock()
	defer k.held.mu.Unlock()
	now := time.Now()
	for _, e := range batch {
		if !e.void() && !now.Before(e.d.receipt.leaseEnd) {
			// A standard queue would answer 200 and do nothing.
			e.d.lose(errLeaseOver)
		}
		if e.void() {
			e.end()
			continue
		}
		e.sent = true
		boarded = append(boarded, e)
		changes = append(changes, visibilityChange{handle: e.handle, seconds: e.seconds})
		if end := e.d.receipt.leaseEnd; shortest.IsZero() || end.Before(shortest) {
			shortest = end
		}
	}
	return boarded, changes, shortest
}

// extended applies the answer to one extension.
func (k *keeper) extended(e *extension, sent time.Time, took time.Duration, err error) {
	d := e.d
	d.held.mu.Lock()
	e.end()
	if e.void() {
		d.held.mu.Unlock()
		return
	}
	now := time.Now()
	gone := err != nil && isReceiptGone(err)
	switch {
	case err == nil:
		lease := time.Duration(e.seconds) * time.Second
		d.receipt.leaseEnd = sent.Add(lease)
		d.extendAt = sent.Add(lease / 2)
	case gone:
		d.lose(err)
	default:
		d.extendAt = now.Add(max(d.receipt.leaseEnd.Sub(now)/4, minAttempt))
	}
	if d.heapIndex >= 0 {
		heap.Fix(k.leases, d.heapIndex)
	}
	count := d.receipt.count
	d.held.mu.Unlock()

	if hook := k.hooks.Extended; hook != nil {
		hook(Extension{
			Queue: d.queue, MessageID: d.id, ReceiveCount: count,
			Visibility: time.Duration(e.seconds) * time.Second, Duration: took, Err: err,
		})
	}
	if err != nil && !gone {
		k.log.Error("Extending the visibility timeout failed; it is tried again while the lease runs", err,
			watermill.LogFields{logMessageID: d.id})
	}
	k.leases.poke()
}
