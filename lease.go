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
	// maxHold is how long the service lets one receipt be held in all. It counts
	// from the receive as the service sees it, so a second is kept back from what
	// counts from the moment at which we sent it.
	maxHold       = 12 * time.Hour
	maxHoldMargin = time.Second

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

// attemptTime is how long one settlement or extension call may take: at most half
// of what is left of the lease, so that one that hangs leaves time for another.
func attemptTime(leaseEnd time.Time) time.Duration {
	return min(max(time.Until(leaseEnd)/2, minAttempt), maxAttempt)
}

// keeper extends the leases of all deliveries of a subscription, from one place and
// ten per call: from the receipt until the settlement is on the wire. It knows
// deadlines, not outcomes: a lease that it cannot keep it reports to the delivery.
type keeper struct {
	sub   *subscription
	wake  chan struct{} // capacity 1: there is something earlier to do
	end   chan struct{} // closed by the subscription when nothing is in flight any more
	ended chan struct{} // closed when run has returned
	slots chan struct{} // one per extension call under way
	calls sync.WaitGroup

	heap leaseHeap // guarded by the mutex of sub.held
}

func newKeeper(s *subscription) *keeper {
	return &keeper{
		sub:   s,
		wake:  make(chan struct{}, 1),
		end:   make(chan struct{}),
		ended: make(chan struct{}),
		slots: make(chan struct{}, extensionCalls),
	}
}

// release ends the extensions of a delivery because its settlement goes out now.
// It does not wait for one that is on the wire; see quiesce.
func (k *keeper) release(d *delivery) {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	k.releaseLocked(d)
}

func (k *keeper) releaseLocked(d *delivery) {
	d.onWire = true
	if d.heapIndex >= 0 {
		heap.Remove(&k.heap, d.heapIndex)
	}
}

// quiesce is release for a change of visibility: it returns when no extension of
// the delivery is on the wire, so that a late one cannot undo the change.
func (k *keeper) quiesce(ctx context.Context, d *delivery) {
	d.in.mu.Lock()
	k.releaseLocked(d)
	var answered chan struct{}
	if d.extension != nil && d.extension.sent {
		answered = d.extension.answered
	}
	d.in.mu.Unlock()
	if answered == nil {
		return
	}
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// poke makes the keeper look at its heap again.
func (k *keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run is the keeper's goroutine. It ends after end is closed and every extension
// has been answered.
func (k *keeper) run() {
	defer close(k.ended)
	defer k.calls.Wait()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		due, lost, next := k.collect()
		for _, d := range lost {
			k.lose(d, errors.New("the visibility timeout ran out"))
		}
		for len(due) > 0 {
			n := min(len(due), maxBatch)
			k.extend(due[:n])
			due = due[n:]
		}
		if next > 0 {
			timer.Reset(next)
		}
		select {
		case <-k.wake:
		case <-timer.C:
		case <-k.end:
			return
		}
		timer.Stop()
	}
}

// extension is one delivery in an extension call, with the receipt and the seconds
// that it was made for.
type extension struct {
	d        *delivery
	handle   string
	seconds  int32
	sent     bool          // it is on the wire; guarded like the delivery
	answered chan struct{} // closed when it was answered or not sent after all
}

// void reports that the delivery was settled, lost or received again since the
// extension was made: it is not to be sent, or its answer says nothing about the
// lease that counts now. The mutex is held.
func (e *extension) void() bool {
	return e.d.onWire || e.d.isLost || e.d.receipt.handle != e.handle
}

// collect takes what is due: leases to extend, together with those that will be
// due soon, so that calls are full; and leases that have run out. next is the time
// until there is something to do again, 0 for never.
func (k *keeper) collect() (due []*extension, lost []*delivery, next time.Duration) {
	mu := &k.sub.held.mu
	mu.Lock()
	var limited []*delivery
	defer func() {
		mu.Unlock()
		for _, d := range limited {
			k.sub.log.Info("A message has been held for as long as it can be; its lease will be lost unless it is settled", watermill.LogFields{
				"level": "warning", "message_id": d.id, "lease_end": d.facts().LeaseEnd,
			})
		}
	}()
	now := time.Now()
	soon := now.Add(k.sub.visibility / 8)
	for len(k.heap) > 0 {
		d := k.heap[0]
		if !now.Before(d.receipt.leaseEnd) {
			heap.Pop(&k.heap)
			d.isLost = true
			lost = append(lost, d)
			continue
		}
		if d.extendAt.IsZero() || d.extendAt.After(soon) || d.extendAt.After(now) && len(due)%maxBatch == 0 {
			return due, lost, max(d.nextLocked().Sub(now), time.Millisecond)
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
				d: d, handle: d.receipt.handle, seconds: int32(ask / time.Second), answered: make(chan struct{}),
			}
			due = append(due, d.extension)
		}
		heap.Fix(&k.heap, 0)
	}
	return due, lost, 0
}

// extend sends one call, in a goroutine of its own so that a call that hangs does
// not hold up the others.
func (k *keeper) extend(batch []*extension) {
	k.calls.Add(1)
	go func() {
		defer k.calls.Done()
		k.slots <- struct{}{}
		defer func() { <-k.slots }()

		batch, changes, shortest := k.board(batch)
		if len(batch) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(k.sub.callContext, attemptTime(shortest))
		defer cancel()
		sent := time.Now()
		errs := changeVisibility(ctx, k.sub.clients, k.sub.queueURL(), changes)
		took := time.Since(sent)
		for i, e := range batch {
			k.extended(e, sent, took, errs[i])
		}
	}()
}

// board marks what is to be sent now and leaves out what needs no extension any
// more. shortest is the first end of a lease among them.
func (k *keeper) board(batch []*extension) (boarded []*extension, changes []visibilityChange, shortest time.Time) {
	k.sub.held.mu.Lock()
	defer k.sub.held.mu.Unlock()
	for _, e := range batch {
		if e.void() {
			k.answer(e)
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

// answer ends an extension. The mutex is held.
func (k *keeper) answer(e *extension) {
	close(e.answered)
	if e.d.extension == e {
		e.d.extension = nil
	}
}

// extended applies the answer to one extension.
func (k *keeper) extended(e *extension, sent time.Time, took time.Duration, err error) {
	d := e.d
	d.in.mu.Lock()
	k.answer(e)
	if e.void() {
		d.in.mu.Unlock()
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
		d.isLost = true
		k.releaseLocked(d)
	default:
		d.extendAt = now.Add(max(d.receipt.leaseEnd.Sub(now)/4, minAttempt))
	}
	if d.heapIndex >= 0 {
		heap.Fix(&k.heap, d.heapIndex)
	}
	count := d.receipt.count
	d.in.mu.Unlock()

	if hook := k.sub.config.Hooks.Extended; hook != nil {
		hook(Extension{
			Queue: d.queue, MessageID: d.id, ReceiveCount: count,
			Visibility: time.Duration(e.seconds) * time.Second, Duration: took, Err: err,
		})
	}
	switch {
	case gone:
		k.lose(d, err)
	case err != nil:
		k.sub.log.Error("Extending the visibility timeout failed; it is tried again while the lease runs", err,
			watermill.LogFields{"message_id": d.id})
		k.poke()
	default:
		k.poke()
	}
}

// lose tells a delivery, already marked, that its lease is lost.
func (k *keeper) lose(d *delivery, cause error) {
	d.endContext(ErrLeaseLost)
	close(d.lost)
	k.sub.log.Error("The lease of a message is lost: another consumer may receive it", errors.Join(ErrLeaseLost, cause),
		watermill.LogFields{"message_id": d.id, "receive_count": d.newestReceipt().count})
	if hook := k.sub.config.Hooks.LeaseLost; hook != nil {
		hook(LeaseLoss{
			Queue: d.queue, MessageID: d.id, ReceiveCount: d.newestReceipt().count,
			Held: time.Since(d.newestReceipt().receivedAt), Err: cause,
		})
	}
}

// nextLocked is when the keeper has to look at the delivery again.
func (d *delivery) nextLocked() time.Time {
	if d.extendAt.IsZero() || d.extendAt.After(d.receipt.leaseEnd) {
		return d.receipt.leaseEnd
	}
	return d.extendAt
}

// leaseHeap orders deliveries by when the keeper has to look at them.
type leaseHeap []*delivery

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].nextLocked().Before(h[j].nextLocked()) }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *leaseHeap) Push(x any) {
	d := x.(*delivery)
	d.heapIndex = len(*h)
	*h = append(*h, d)
}

func (h *leaseHeap) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	d.heapIndex = -1
	return d
}
