package sqstest

import (
	"container/list"
	"slices"
	"time"
)

type receiveMessageRequest struct {
	queueTarget
	AttributeNames              []string // the older name of the next
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
	ReceiveRequestAttemptID     *string `json:"ReceiveRequestAttemptId"`
}

func (r *receiveMessageRequest) describe(record *Call) {
	record.MaxMessages = 1
	if r.MaxNumberOfMessages != nil {
		record.MaxMessages = *r.MaxNumberOfMessages
	}
	if r.VisibilityTimeout != nil {
		record.VisibilityTimeouts = []int32{int32(*r.VisibilityTimeout)}
	}
}

// messages shows what a receive could return.
func (r *receiveMessageRequest) messages(c *call) []MessageView {
	q, err := c.queue()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(q.Messages(), func(m MessageView) bool { return !m.Visible })
}

// check refuses values out of range (sqs-facts 5).
func (r *receiveMessageRequest) check(fifo bool) *apiError {
	if n := r.MaxNumberOfMessages; n != nil && (*n < 1 || *n > maxEntries) {
		return invalidValue("MaxNumberOfMessages", *n, "Must be between 1 and 10, if provided.")
	}
	if n := r.WaitTimeSeconds; n != nil && (*n < 0 || *n > 20) {
		return invalidValue("WaitTimeSeconds", *n, "Must be >= 0 and <= 20, if provided.")
	}
	if n := r.VisibilityTimeout; n != nil {
		if err := checkVisibility(*n); err != nil {
			return err
		}
	}
	if r.ReceiveRequestAttemptID != nil && fifo && !legalID(*r.ReceiveRequestAttemptID) {
		return illegalID("ReceiveRequestAttemptId", *r.ReceiveRequestAttemptID)
	}
	if r.ReceiveRequestAttemptID != nil && !fifo {
		return invalidValue("ReceiveRequestAttemptId", *r.ReceiveRequestAttemptID, "The request include parameter that is not valid for this queue type.")
	}
	return nil
}

func (r *receiveMessageRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	if err := r.check(q.fifo != nil); err != nil {
		return nil, err
	}
	received, err := q.receive(c, r)
	if err != nil || len(received) == 0 {
		return nil, err
	}
	return r.answer(received), nil
}

// receive takes messages, waiting for some if it is a long poll. A poll whose client has
// gone takes nothing.
func (q *Queue) receive(c *call, r *receiveMessageRequest) ([]delivery, *apiError) {
	p := poll{queue: q, call: c, most: 1}
	if r.MaxNumberOfMessages != nil {
		p.most = *r.MaxNumberOfMessages
	}
	q.mu.Lock()
	wait := q.settings.wait
	q.mu.Unlock()
	if r.WaitTimeSeconds != nil {
		wait = seconds(*r.WaitTimeSeconds)
	}
	p.long, p.end = wait > 0, time.Now().Add(wait)
	c.shortPoll = !p.long
	p.visibility = r.VisibilityTimeout
	if r.ReceiveRequestAttemptID != nil {
		p.attempt = *r.ReceiveRequestAttemptID
	}

	return p.wait()
}

// wait takes messages when there are some.
func (p *poll) wait() ([]delivery, *apiError) {
	for {
		received, until, err := p.try()
		if err != nil || len(received) > 0 || until.IsZero() {
			return received, err
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-p.self.woken:
		case <-timer.C:
		case <-p.call.ctx.Done():
		case <-p.call.service.done:
		}
		timer.Stop()
		if p.call.ctx.Err() != nil && p.haunt() {
			return nil, nil
		}
	}
}

// poll is a receive that may have to wait.
type poll struct {
	queue      *Queue
	call       *call
	most       int
	visibility *int   // the request's, nil for the queue's
	attempt    string // the ReceiveRequestAttemptId, "" for none
	long       bool
	end        time.Time

	self  *waiter       // nil until it waits
	place *list.Element // in the queue's line, nil unless it waits
}

// try takes what there is. If it takes nothing, a time says until when to wait for a
// change; the zero time that the poll is over.
func (p *poll) try() (received []delivery, until time.Time, err *apiError) {
	q := p.queue
	for {
		p.call.service.progress(time.Now())
		move := p.call.service.nextMove()
		q.mu.Lock()
		now := time.Now()
		if over, err := p.over(); over {
			p.leave()
			q.mu.Unlock()
			return nil, time.Time{}, err
		}
		q.advance(now)
		if again := q.repeat(p, now); again != nil {
			p.leave()
			q.mu.Unlock()
			return again, time.Time{}, nil
		}
		if p.place == nil && p.long && q.waiting.Len() > 0 {
			p.join() // behind those who came before
		}
		first := p.place == nil || p.place == q.waiting.Front()
		var took taken
		if first {
			took = q.take(p, now)
		}
		q.remember(p, took.deliveries, now)
		for _, d := range took.deliveries {
			p.call.affect(q, d.message)
		}
		switch {
		case len(took.poison) > 0 && len(took.deliveries) == 0:
			// Not over: look again when they have been moved.
		case len(took.deliveries) > 0 || !now.Before(p.end):
			p.leave()
		default:
			p.join()
			until = p.end
			if p.place == q.waiting.Front() {
				until = q.nextChange(until)
			}
			if !move.IsZero() && move.Before(until) {
				until = move // to this queue, perhaps
			}
		}
		overLimit := !p.long && q.fifo == nil && q.inFlight >= maxInFlight && q.visible.length > 0
		q.mu.Unlock()

		if len(took.poison) > 0 {
			took.moveTo(q, now)
			if len(took.deliveries) == 0 {
				continue
			}
		}
		if overLimit && len(took.deliveries) == 0 {
			return nil, time.Time{}, newError(0, "OverLimit", "Too many messages are in flight.")
		}
		return took.deliveries, until, nil
	}
}

// nextChange is when time alone will give receives something, if that is before the given
// time.
func (q *Queue) nextChange(until time.Time) time.Time {
	if hidden := q.hidden.root(); hidden != nil && hidden.visibleAt.Before(until) {
		until = hidden.visibleAt
	}
	if q.fifo != nil { // the end of a message may free its group
		if oldest := q.byAge.root(); oldest != nil && oldest.enqueuedAt.Add(q.settings.retention).Before(until) {
			until = oldest.enqueuedAt.Add(q.settings.retention)
		}
	}
	return until
}

// over tells whether a poll has ended whatever messages there are; the mutex is held.
func (p *poll) over() (bool, *apiError) {
	select {
	case <-p.call.service.done:
		return true, serviceClosed()
	default:
	}
	if p.call.ctx.Err() != nil {
		p.call.abandoned = true
		return true, nil
	}
	if p.queue.deleted {
		return true, queueDoesNotExist()
	}
	return false, nil
}

// join puts the poll at the end of the line unless it stands in it.
func (p *poll) join() {
	if p.place == nil {
		p.self = &waiter{woken: make(chan struct{}, 1)}
		p.place = p.queue.waiting.PushBack(p.self)
	}
}

// leave takes the poll out of the line and lets the next one look.
func (p *poll) leave() {
	if p.place != nil {
		p.queue.waiting.Remove(p.place)
		p.place = nil
		p.queue.wakeNext()
	}
}

// taken is what a receive took out of the visible messages.
type taken struct {
	deliveries []delivery
	poison     []*message // received too often, no longer in the queue
	deadLetter *Queue     // where poison goes
}

// take puts up to the wanted number of messages in flight. Those that this receive would
// make exceed maxReceiveCount are taken out instead: never by a timer, and without
// counting this receive (sqs-facts 8).
func (q *Queue) take(p *poll, now time.Time) taken {
	m := q.following(nil)
	if m == nil {
		return taken{}
	}
	t := taken{deadLetter: q.deadLetterQueue()}
	visibility := q.visibilityFor(p)
	var last *message    // that was taken
	var again []*message // to be visible again at once
	for ; m != nil && len(t.deliveries) < p.most && q.inFlight < maxInFlight; m = q.following(last) {
		if t.deadLetter != nil && m.receiveCount >= q.settings.redrive.maxReceive {
			q.remove(m)
			t.poison = append(t.poison, m)
			continue
		}
		last = m
		q.hide(m, now.Add(visibility))
		if t.deliveries == nil {
			t.deliveries = make([]delivery, 0, min(p.most, q.visibleCount()+1))
		}
		t.deliveries = append(t.deliveries, q.deliver(m, p, now))
		switch p.call.faults.duplicate(q, m) {
		case againInAnother:
			again = append(again, m)
		case againInTheSame:
			if len(t.deliveries) < p.most {
				t.deliveries = append(t.deliveries, q.deliver(m, p, now))
			}
		}
	}
	if visibility == 0 {
		for _, d := range t.deliveries {
			again = append(again, d.message)
		}
	}
	// Visible at once, but only when this receive has what it wants: it returns no message
	// twice.
	for _, m := range again {
		if m.state == stateInFlight {
			q.show(m)
		}
	}
	return t
}

// deliver gives a message to a receive.
func (q *Queue) deliver(m *message, p *poll, now time.Time) delivery {
	if m.receiveCount == 0 {
		m.firstReceivedAt = now
	}
	m.receiveCount++
	m.serial++
	m.receivedAt, m.changed = p.call.at, false
	d := delivery{
		message:         m,
		receipt:         q.latestReceipt(m),
		serial:          m.serial,
		receiveCount:    m.receiveCount,
		firstReceivedAt: m.firstReceivedAt,
		sourceARN:       m.sourceARN,
		dedupID:         m.dedupID,
	}
	if q.fifo != nil {
		d.sequence = sequence(m.number)
	}
	e := p.call.event(received, q, now)
	e.receipt, e.count, e.timeout = d.receipt, int32(d.receiveCount), q.visibilityFor(p)
	m.history.add(e)
	return d
}

// following is the message to take after the one taken last in the same receive; nil if
// there is none.
func (q *Queue) following(last *message) *message {
	if q.fifo != nil {
		return q.fifo.following(last)
	}
	return q.visible.first
}

// visibilityFor is the visibility timeout of what a receive takes.
func (q *Queue) visibilityFor(p *poll) time.Duration {
	if p.visibility != nil {
		return seconds(*p.visibility)
	}
	return q.settings.visibility
}

// moveTo hands the poison to the dead-letter queue; if that is gone, the messages go
// back to where they were. No mutex is held, so two queues are never locked at once.
func (t taken) moveTo(source *Queue, now time.Time) {
	if t.deadLetter.accept(t.poison, source, now) {
		return
	}
	source.mu.Lock()
	defer source.mu.Unlock()
	for _, m := range t.poison {
		source.add(m, 0, now)
	}
	source.wakeNext()
}
