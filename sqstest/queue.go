package sqstest

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxInFlight is how many messages of a queue can be in flight (sqs-facts 5).
const maxInFlight = 120_000

// Queue is a queue of a [Service], seen from the side: its methods count as no API call.
type Queue struct {
	service *Service
	number  uint32
	name    string
	created time.Time

	// allow is the RedriveAllowPolicy. It is read by receives of other queues, which
	// hold their own mutex, hence not guarded by mu.
	allow atomic.Pointer[redriveAllowPolicy]

	mu       sync.Mutex // guards what follows; never held while waiting or calling out
	deleted  bool
	settings settings
	tags     map[string]string
	modified time.Time
	purged   time.Time // of the last PurgeQueue
	byNumber map[uint64]*message
	visible  messageList
	fifo     *fifoState  // nil for a standard queue; that it is one never changes
	hidden   messageHeap // in flight or delayed, by the time they become visible
	byAge    messageHeap // all of them
	inFlight int
	delayed  int
	waiting  list.List // of *waiter, the long polls in the order they came
}

func newQueue(s *Service, name string, set settings, now time.Time) *Queue {
	q := &Queue{
		service:  s,
		number:   s.queueNumber.Add(1),
		name:     name,
		created:  now,
		modified: now,
		settings: set,
		byNumber: make(map[uint64]*message),
		hidden:   newHiddenHeap(),
		byAge:    newAgeHeap(),
	}
	if set.fifo {
		q.fifo = newFIFOState()
		q.fifo.byGroup = set.scopeByGroup
	}
	q.allow.Store(set.allow)
	return q
}

// Name is the name of the queue.
func (q *Queue) Name() string { return q.name }

// URL is the queue URL that the in-process client is given.
func (q *Queue) URL() string { return queueURL("https://sqs."+Region+".amazonaws.com", q.name) }

// ARN is the Amazon Resource Name of the queue.
func (q *Queue) ARN() string { return queueARN(q.name) }

func queueURL(base, name string) string { return base + "/" + AccountID + "/" + name }

func queueARN(name string) string { return "arn:aws:sqs:" + Region + ":" + AccountID + ":" + name }

// Visible is how many messages receives could return now. As for the attribute
// ApproximateNumberOfMessages, on a FIFO queue those count too that are behind an invisible
// one of their group.
func (q *Queue) Visible() int {
	visible, _, _ := q.counts(time.Now())
	return visible
}

// InFlight is how many messages were received and are neither deleted nor visible again.
func (q *Queue) InFlight() int {
	_, inFlight, _ := q.counts(time.Now())
	return inFlight
}

// Delayed is how many messages were sent with a delay that has not passed.
func (q *Queue) Delayed() int {
	_, _, delayed := q.counts(time.Now())
	return delayed
}

// Len is how many messages the queue holds in all.
func (q *Queue) Len() int {
	visible, inFlight, delayed := q.counts(time.Now())
	return visible + inFlight + delayed
}

func (q *Queue) counts(now time.Time) (visible, inFlight, delayed int) {
	q.service.progress(now)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(now)
	return q.visibleCount(), q.inFlight, q.delayed
}

func (q *Queue) visibleCount() int {
	if q.fifo != nil {
		return q.fifo.visible
	}
	return q.visible.length
}

// Messages shows the messages of the queue in the order they were sent.
func (q *Queue) Messages() []MessageView {
	q.service.progress(time.Now())
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(time.Now())
	numbers := make([]uint64, 0, len(q.byNumber))
	for n := range q.byNumber {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	views := make([]MessageView, len(numbers))
	blocked := make(map[*group]bool) // by a message that is not visible
	for i, n := range numbers {
		m := q.byNumber[n]
		blocked[m.group] = q.fifo != nil && (blocked[m.group] || m.state != stateVisible)
		views[i] = q.viewAs(m, m.state == stateVisible && !blocked[m.group])
	}
	return views
}

// view shows a message; the mutex is held.
func (q *Queue) view(m *message) MessageView {
	return q.viewAs(m, m.state == stateVisible && (q.fifo == nil || !m.blocked()))
}

func (q *Queue) viewAs(m *message, visible bool) MessageView {
	v := MessageView{
		ID:           m.id,
		Body:         m.body,
		Attributes:   attributeValues(m.attributes),
		GroupID:      m.groupID,
		ReceiveCount: m.receiveCount,
		Visible:      visible,
		InFlight:     m.state == stateInFlight,
		VisibleAt:    m.visibleAt,
		SentAt:       m.sentAt,
	}
	if q.fifo != nil {
		v.DeduplicationID, v.SequenceNumber = m.dedupID, sequence(m.number)
	}
	if m.serial > 0 {
		v.Receipt = q.latestReceipt(m)
	}
	return v
}

func (q *Queue) latestReceipt(m *message) string {
	return q.service.receipts.encode(receipt{queue: q.number, message: m.number, serial: m.serial, receivedAt: m.receivedAt})
}

// advance brings the queue to the given time: what has outlived the retention period is
// gone, what was hidden until now is visible. Everything that looks at messages does
// this first; nothing runs in the background.
func (q *Queue) advance(now time.Time) {
	// Retention also takes messages in flight (sqs-facts 5).
	for m := q.byAge.root(); m != nil && now.Sub(m.enqueuedAt) >= q.settings.retention; m = q.byAge.root() {
		m.history.add(event{at: m.enqueuedAt.Add(q.settings.retention), kind: removed, queue: q, detail: "its retention has ended"})
		q.remove(m)
	}
	for m := q.hidden.root(); m != nil && !m.visibleAt.After(now); m = q.hidden.root() {
		q.show(m)
	}
}

// add puts a message into the queue, hidden for a delay if there is one.
func (q *Queue) add(m *message, delay time.Duration, now time.Time) {
	q.byNumber[m.number] = m
	q.byAge.push(m)
	m.visibleAt = now.Add(delay)
	m.state = stateVisible
	if delay > 0 {
		m.state = stateDelayed
	}
	if q.fifo != nil {
		q.fifo.insert(m)
	}
	if delay > 0 {
		q.delayed++
		q.hidden.push(m)
		return
	}
	q.offer(m)
}

// offer makes a message whose state has become visible one that can be taken.
func (q *Queue) offer(m *message) {
	if q.fifo == nil {
		q.visible.pushBack(m)
		return
	}
	q.fifo.visible++
	q.fifo.review(m.group)
}

// hide puts a visible message in flight.
func (q *Queue) hide(m *message, until time.Time) {
	m.state, m.visibleAt = stateInFlight, until
	if q.fifo == nil {
		q.visible.remove(m)
	} else {
		q.fifo.visible--
		q.fifo.review(m.group)
	}
	q.inFlight++
	q.hidden.push(m)
}

// show makes a hidden message visible.
func (q *Queue) show(m *message) {
	q.unhide(m)
	m.state = stateVisible
	q.offer(m)
}

// remove takes a message out of the queue, whatever its state.
func (q *Queue) remove(m *message) {
	switch {
	case m.state != stateVisible:
		q.unhide(m)
	case q.fifo != nil:
		q.fifo.visible--
	default:
		q.visible.remove(m)
	}
	if q.fifo != nil {
		q.fifo.drop(m)
	}
	q.byAge.remove(m)
	delete(q.byNumber, m.number)
}

func (q *Queue) unhide(m *message) {
	q.hidden.remove(m)
	if m.state == stateInFlight {
		q.inFlight--
	} else {
		q.delayed--
	}
}

// clear removes every message.
func (q *Queue) clear(why string, now time.Time) {
	for _, m := range q.byNumber {
		m.history.add(event{at: now, kind: removed, queue: q, detail: why})
	}
	clear(q.byNumber)
	q.visible = messageList{}
	if q.fifo != nil {
		q.fifo.clear()
	}
	q.hidden.items, q.byAge.items = nil, nil
	q.inFlight, q.delayed = 0, 0
}

// delete ends the queue and every long poll on it.
func (q *Queue) delete() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deleted = true
	q.clear("the queue was deleted", time.Now())
	for e := q.waiting.Front(); e != nil; e = e.Next() {
		e.Value.(*waiter).wake()
	}
}

// waiter is a long poll that waits for messages.
type waiter struct {
	// woken is written by whoever changes the queue, under its mutex, and read by the
	// poll. It holds one mark, so writers never block and none is lost.
	woken chan struct{}
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// wakeNext tells the long poll that waits longest to look again: there are messages, or
// the time at which there will be has changed. Only the first in line looks; when it
// leaves it wakes the next, so polls are served in the order they came.
func (q *Queue) wakeNext() {
	if front := q.waiting.Front(); front != nil {
		front.Value.(*waiter).wake()
	}
}

// find looks a message up by a receipt of this queue; nil if it is gone.
func (q *Queue) find(r receipt) *message { return q.byNumber[r.message] }
