package watermillsqs

import (
	"container/heap"
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// receipt is what one receive of a message gave us.
type receipt struct {
	handle     string
	count      int
	receivedAt time.Time
	// leaseEnd is when the message becomes visible again.
	leaseEnd time.Time
	// limit is when the 12 hours are over for which the service lets a message be
	// invisible; extendUntil is that, or earlier by MaxExtension.
	limit, extendUntil time.Time
}

// delivery is one message in the hands of this process, from its receipt until
// its settlement has been answered.
//
// The goroutine that serves it (subscription.serve) is the only one that decides
// its outcome. The lease keeper may find the lease lost before that.
type delivery struct {
	id         string
	queue      string
	groupID    string
	uuid       string    // of the Watermill message, as it was delivered
	holdUntil  time.Time // when MaxExtension is over, whatever receipts follow; zero if only the 12 hours count
	sentAt     time.Time
	firstAt    time.Time
	msg        *message.Message  // nil if it could not be decoded
	cell       cell              // what the handler asked for
	marks      map[string]string // of pieces that republish, as they were at the delivery
	endContext context.CancelCauseFunc
	visibility time.Duration   // what each extension asks for
	leases     *leases         // of the subscription that serves it
	lossTold   bool            // serve has reported that the lease is lost
	lost       chan struct{}   // closed when the lease is lost
	values     deliveryContext // the parent of its message's context

	held *inFlight // guards what follows

	receipt   receipt
	outcome   Outcome
	removes   bool // the outcome is carried out by a delete
	isLost    bool
	lossCause error
	// predecessor is an older delivery of the message whose lease was lost and whose
	// handler has not finished: its verdict comes first. Nil once it has.
	predecessor *delivery
	ended       chan struct{} // closed when the outcome is decided; nil unless this is a predecessor
	superseded  bool          // received again after it was decided: the newer delivery carries on
	onWire      bool          // its settlement is on the wire, or its lease is lost: no extension any more
	extension   *extension    // under way, nil if there is none
	extendAt    time.Time     // when to extend next; zero while one is under way or none is possible
	warned      bool          // that it is held for as long as it can be
	heapIndex   int           // in leases, -1 if not there
}

// extension is one delivery in an extension call, with the receipt and the seconds
// that it was made for.
type extension struct {
	d        *delivery
	handle   string
	seconds  int32
	sent     bool          // it will be sent, or has been
	written  chan struct{} // closed when it is on the wire, or answered, or not sent after all
	wired    bool          // written is closed
	answered chan struct{} // closed when it was answered or not sent after all
}

// write marks an extension as on the wire. The mutex is held.
func (e *extension) write() {
	if !e.wired {
		e.wired = true
		close(e.written)
	}
}

// void reports that the delivery was settled, lost or received again since the
// extension was made: it is not to be sent, or its answer says nothing about the
// lease that counts now. The mutex is held.
func (e *extension) void() bool {
	return e.d.onWire || e.d.isLost || e.d.receipt.handle != e.handle
}

// end marks an extension as answered. The mutex is held.
func (e *extension) end() {
	e.write()
	close(e.answered)
	if e.d.extension == e {
		e.d.extension = nil
	}
}

// newestReceipt is the receipt that counts now.
func (d *delivery) newestReceipt() receipt {
	d.held.mu.Lock()
	defer d.held.mu.Unlock()
	return d.receipt
}

// unlease ends the extensions of a delivery, because its settlement goes out now or
// its lease is lost. The mutex is held.
func (d *delivery) unlease() {
	d.onWire = true
	if d.heapIndex >= 0 {
		heap.Remove(d.leases, d.heapIndex)
	}
}

// lose marks the lease as lost and tells whoever serves the delivery, and its
// handler. The mutex is held.
func (d *delivery) lose(cause error) {
	d.isLost, d.lossCause = true, cause
	d.unlease()
	d.endContext(ErrLeaseLost)
	close(d.lost)
}

// inItsWay reports whether an extension that is about to be sent, or is on the wire,
// stands in the way of a settlement. A change of visibility waits for its answer, so
// that a late one cannot undo it. A delete only lets it be written, so that it does not go
// out after the delete. The mutex is held.
func (d *delivery) inItsWay(deletes bool) bool {
	e := d.extension
	return e != nil && e.sent && (!deletes || !e.wired)
}

// letExtensionPass waits for what stands in the way of a settlement.
func (d *delivery) letExtensionPass(ctx context.Context, deletes bool) {
	d.held.mu.Lock()
	var passed chan struct{}
	if d.inItsWay(deletes) {
		passed = d.extension.answered
		if deletes {
			passed = d.extension.written
		}
	}
	d.held.mu.Unlock()
	if passed == nil {
		return
	}
	select {
	case <-passed:
	case <-ctx.Done():
	}
}

// errHeldTooLong is why a lease is lost that MaxExtension did not let be extended.
var errHeldTooLong = errors.New("it has been held for as long as MaxExtension allows")

// isOverheld reports whether MaxExtension is over. The mutex is held.
func (d *delivery) isOverheld(now time.Time) bool {
	return !d.holdUntil.IsZero() && !now.Before(d.holdUntil)
}

// attention is when the keeper has to look at the delivery again. The mutex is held.
func (d *delivery) attention() time.Time {
	if d.extendAt.IsZero() || d.extendAt.After(d.receipt.leaseEnd) {
		return d.receipt.leaseEnd
	}
	return d.extendAt
}

// leases are the deliveries of one subscription that still need their lease, as a
// heap (container/heap) by when they need attention. It is guarded by the mutex of
// the register that its deliveries are in.
type leases struct {
	byAttention []*delivery
	wake        chan struct{} // capacity 1: something needs attention earlier than it did
}

func newLeases() *leases { return &leases{wake: make(chan struct{}, 1)} }

// poke makes the keeper look again.
func (l *leases) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *leases) Len() int { return len(l.byAttention) }

func (l *leases) Less(i, j int) bool {
	return l.byAttention[i].attention().Before(l.byAttention[j].attention())
}

func (l *leases) Swap(i, j int) {
	l.byAttention[i], l.byAttention[j] = l.byAttention[j], l.byAttention[i]
	l.byAttention[i].heapIndex, l.byAttention[j].heapIndex = i, j
}

// Push is heap.Interface's.
func (l *leases) Push(x any) {
	d := x.(*delivery)
	d.heapIndex = len(l.byAttention)
	l.byAttention = append(l.byAttention, d)
}

// Pop is heap.Interface's.
func (l *leases) Pop() any {
	last := len(l.byAttention) - 1
	d := l.byAttention[last]
	l.byAttention[last] = nil
	l.byAttention = l.byAttention[:last]
	d.heapIndex = -1
	return d
}

const (
	// What is remembered of acks that SQS did not confirm is bounded in number and
	// time. A forgotten one costs a second handling, never a loss.
	maxRememberedAcks = 10_000
	ackMemory         = time.Hour // past the end of the lease
)

// inFlight is the register of what one connection holds of one queue: one entry a
// message id, whichever of its subscriptions received it.
type inFlight struct {
	queuePath     string
	subscriptions int // that use it; guarded by the connection

	mu      sync.Mutex // guards what follows; never held during a call or a wait
	entries map[string]*delivery
	// acks are the ids whose delete was not confirmed, oldest first in ackOrder.
	acks     map[string]*list.Element
	ackOrder *list.List // of rememberedAck
}

type rememberedAck struct {
	id    string
	until time.Time
}

func newInFlight(queuePath string) *inFlight {
	return &inFlight{
		queuePath: queuePath,
		entries:   make(map[string]*delivery),
		acks:      make(map[string]*list.Element),
		ackOrder:  list.New(),
	}
}

// isEmpty reports whether nothing is in flight and no ack is remembered.
func (f *inFlight) isEmpty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) == 0 && len(f.acks) == 0
}

// arrival is what to do with a message that was received.
type arrival int

const (
	// fresh: handle it.
	fresh arrival = iota
	// adopted: we hold it already and undecided; the newer receipt counts now.
	adopted
	// alreadyAcked: it was handled, but its delete is under way or unconfirmed:
	// delete it again, under the new receipt.
	alreadyAcked
	// afterLoss: an older delivery of it lost its lease and its handler has not
	// finished; that verdict comes first.
	afterLoss
)

// arrive enters a received message and says what to do with it. The delivery is
// registered, and its lease kept from now on, unless the answer is adopted: then
// an older one has its receipt.
func (f *inFlight) arrive(d *delivery) arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := fresh
	current := f.entries[d.id]
	if current != nil && current.outcome == Undecided && !current.isLost && current.isOverheld(d.receipt.receivedAt) {
		// Its lease ended because it is not to be held any longer, in this very
		// instant; a newer receipt does not change that.
		current.lose(errHeldTooLong)
	}
	switch {
	case current != nil && d.receipt.count < current.receipt.count:
		// An answer that was under way for long brings a receipt that is older than
		// the one we have, and worth nothing.
		return adopted
	case current == nil:
		if f.recallAck(d.id) {
			a = alreadyAcked
		}
	case current.outcome == Undecided && !current.isLost:
		current.receipt = d.receipt
		if !current.holdUntil.IsZero() && current.holdUntil.Before(current.receipt.extendUntil) {
			current.receipt.extendUntil = current.holdUntil
		}
		current.extendAt = d.extendAt
		current.warned = false
		if current.heapIndex >= 0 {
			heap.Fix(current.leases, current.heapIndex)
		}
		current.leases.poke()
		return adopted
	case current.predecessor != nil:
		// It was never handed out, for the same reason.
		a = afterLoss
		d.predecessor = current.predecessor
		current.superseded = true
		current.unlease()
	case current.outcome == Undecided:
		a = afterLoss
		d.predecessor = current
		if current.ended == nil {
			current.ended = make(chan struct{})
		}
	default:
		current.superseded = true
		current.unlease()
		if current.removes {
			a = alreadyAcked
		}
	}
	f.entries[d.id] = d
	heap.Push(d.leases, d)
	if d.heapIndex == 0 {
		d.leases.poke() // it is the first to need attention
	}
	return a
}

// decide fixes the outcome of a delivery. It returns its receipt, and reports whether
// the lease was lost before, and whether the message has been received again since.
func (f *inFlight) decide(d *delivery, outcome Outcome, removes bool) (r receipt, lost, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.outcome, d.removes = outcome, removes
	if d.ended != nil {
		close(d.ended)
	}
	return d.receipt, d.isLost, f.entries[d.id] != d
}

// predecessorEnded is called when the verdict of the predecessor is known.
func (f *inFlight) predecessorEnded(d *delivery) (removes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	removes = d.predecessor.removes
	d.predecessor = nil
	return removes
}

// predecessorAcked reports whether the older delivery of d has ended with an ack.
func (f *inFlight) predecessorAcked(d *delivery) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return d.predecessor != nil && d.predecessor.outcome != Undecided && d.predecessor.removes
}

// leave ends the entry of a settled delivery, unless a newer one has taken its
// place. An ack that SQS did not confirm is remembered. Where the delivery was never
// handed out because an older one had not finished, that one has the entry again,
// or its ack is remembered.
func (f *inFlight) leave(d *delivery, unconfirmedAck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.unlease()
	if f.entries[d.id] != d {
		return
	}
	delete(f.entries, d.id)
	if p := d.predecessor; p != nil {
		if p.outcome == Undecided {
			f.entries[d.id] = p
		}
		unconfirmedAck = p.removes
	}
	if unconfirmedAck {
		f.rememberAck(d.id, d.receipt.leaseEnd.Add(ackMemory))
	}
}

func (f *inFlight) rememberAck(id string, until time.Time) {
	if known := f.acks[id]; known != nil {
		f.ackOrder.Remove(known)
	}
	f.acks[id] = f.ackOrder.PushBack(rememberedAck{id: id, until: until})
	now := time.Now()
	for oldest := f.ackOrder.Front(); oldest != nil; oldest = f.ackOrder.Front() {
		ack := oldest.Value.(rememberedAck)
		if f.ackOrder.Len() <= maxRememberedAcks && now.Before(ack.until) {
			break
		}
		f.ackOrder.Remove(oldest)
		delete(f.acks, ack.id)
	}
}

// recallAck reports whether the message was acked and its delete not confirmed.
// The memory is used up by that: the delete that follows renews it if it fails.
func (f *inFlight) recallAck(id string) bool {
	known := f.acks[id]
	if known == nil {
		return false
	}
	delete(f.acks, id)
	return time.Now().Before(f.ackOrder.Remove(known).(rememberedAck).until)
}

type deliveryKey struct{}

// deliveryContext leads from a context to a delivery. It is part of the delivery, so
// that it costs nothing of its own.
type deliveryContext struct {
	context.Context
	d *delivery
}

// Value is context.Context's.
func (c *deliveryContext) Value(key any) any {
	if key == (deliveryKey{}) {
		return c.d
	}
	return c.Context.Value(key)
}

// newContext makes the context of the delivery's message, whose end is endContext.
func (d *delivery) newContext(parent context.Context) (ctx context.Context) {
	d.values = deliveryContext{Context: parent, d: d}
	ctx, d.endContext = context.WithCancelCause(&d.values)
	return ctx
}

func deliveryFrom(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}
