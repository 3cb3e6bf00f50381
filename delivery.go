package watermillsqs

import (
	"container/heap"
	"container/list"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
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
	id          string
	queue       string
	groupID     string
	sentAt      time.Time
	firstAt     time.Time
	msg         *message.Message // nil if it could not be decoded
	cell        *cell
	endContext  context.CancelCauseFunc
	visibility  time.Duration // what each extension asks for
	keeper      *keeper
	predecessor *delivery     // whose lost lease gave us this one; its verdict comes first
	lost        chan struct{} // closed by the keeper when the lease is lost
	ended       chan struct{} // closed by serve when the outcome is decided; outcome may then be read

	in *inFlight // guards what follows

	receipt    receipt
	outcome    Outcome
	removes    bool // the outcome is carried out by a delete
	isLost     bool
	superseded bool       // received again after it was decided: the newer delivery carries on
	onWire     bool       // its settlement is on the wire, or it needs no extension any more
	extension  *extension // under way, nil if there is none
	extendAt   time.Time  // when to extend next; zero while one is under way or none is possible
	warned     bool       // that the limit is reached
	heapIndex  int        // in the keeper's heap, -1 if not there
}

func (d *delivery) facts() Delivery {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	return Delivery{
		Queue:           d.queue,
		MessageID:       d.id,
		ReceiveCount:    d.receipt.count,
		GroupID:         d.groupID,
		SentAt:          d.sentAt,
		FirstReceivedAt: d.firstAt,
		ReceivedAt:      d.receipt.receivedAt,
		LeaseEnd:        d.receipt.leaseEnd,
	}
}

// newestReceipt is the receipt that counts now.
func (d *delivery) newestReceipt() receipt {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	return d.receipt
}

func (d *delivery) isSuperseded() bool {
	d.in.mu.Lock()
	defer d.in.mu.Unlock()
	return d.superseded
}

// systemTime reads a system attribute of milliseconds since 1970.
func systemTime(msg types.Message, name types.MessageSystemAttributeName) time.Time {
	ms, err := strconv.ParseInt(msg.Attributes[string(name)], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
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
	mu      sync.Mutex // never held during a call or a wait
	entries map[string]*delivery
	// acks are the ids whose delete was not confirmed, oldest first in ackOrder.
	acks     map[string]*list.Element
	ackOrder *list.List // of rememberedAck
}

type rememberedAck struct {
	id    string
	until time.Time
}

func newInFlight() *inFlight {
	return &inFlight{
		entries:  make(map[string]*delivery),
		acks:     make(map[string]*list.Element),
		ackOrder: list.New(),
	}
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
// registered, and its lease kept from now on, unless the answer is adopted; held
// is then the one that has its receipt now.
func (f *inFlight) arrive(d *delivery) (a arrival, held *delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.entries[d.id]
	switch {
	case current == nil:
		if f.recallAck(d.id) {
			a = alreadyAcked
		}
	case current.outcome == Undecided && !current.isLost:
		current.receipt = d.receipt
		current.extendAt = d.extendAt
		current.warned = false
		if current.heapIndex >= 0 {
			heap.Fix(&current.keeper.heap, current.heapIndex)
		}
		return adopted, current
	case current.outcome == Undecided:
		a = afterLoss
		d.predecessor = current
	default:
		current.superseded = true
		current.keeper.releaseLocked(current)
		if current.removes {
			a = alreadyAcked
		}
	}
	f.entries[d.id] = d
	heap.Push(&d.keeper.heap, d)
	return a, d
}

// decide fixes the outcome of a delivery. It reports whether the lease was lost
// before, and whether the message has been received again since.
func (f *inFlight) decide(d *delivery, outcome Outcome, removes bool) (lost, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.outcome, d.removes = outcome, removes
	return d.isLost, f.entries[d.id] != d
}

// leave ends the entry of a settled delivery, unless a newer one has taken its
// place. An ack that SQS did not confirm is remembered.
func (f *inFlight) leave(d *delivery, unconfirmedAck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries[d.id] != d {
		return
	}
	delete(f.entries, d.id)
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
