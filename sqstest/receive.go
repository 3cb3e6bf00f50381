package sqstest

import (
	"container/list"
	"slices"
	"strconv"
	"strings"
	"time"
)

// senderID is the SenderId of every message.
const senderID = "AIDAIT2UOQQY3AUEKVGXU"

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
func (r *receiveMessageRequest) check() *apiError {
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
	if r.ReceiveRequestAttemptID != nil {
		return invalidValue("ReceiveRequestAttemptId", *r.ReceiveRequestAttemptID, "The request include parameter that is not valid for this queue type.")
	}
	return nil
}

func (r *receiveMessageRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	received, err := q.receive(c, r)
	if err != nil || len(received) == 0 {
		return nil, err
	}
	return r.answer(received), nil
}

// delivery is a message as one receive returns it.
type delivery struct {
	message         *message
	receipt         string
	receiveCount    int
	firstReceivedAt time.Time
	sourceARN       string
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
	p.long, p.end = wait > 0, c.at.Add(wait)
	p.visibility = r.VisibilityTimeout

	for {
		received, until, err := p.try()
		if err != nil || len(received) > 0 || until.IsZero() {
			return received, err
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-p.self.woken:
		case <-timer.C:
		case <-c.ctx.Done():
		case <-c.service.done:
		}
		timer.Stop()
	}
}

// poll is a receive that may have to wait.
type poll struct {
	queue      *Queue
	call       *call
	most       int
	visibility *int // the request's, nil for the queue's
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
		q.mu.Lock()
		now := time.Now()
		if over, err := p.over(); over {
			p.leave()
			q.mu.Unlock()
			return nil, time.Time{}, err
		}
		q.advance(now)
		if p.place == nil && p.long && q.waiting.Len() > 0 {
			p.join() // behind those who came before
		}
		first := p.place == nil || p.place == q.waiting.Front()
		var took taken
		if first {
			took = q.take(p, now)
		}
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
			if hidden := q.hidden.root(); hidden != nil && p.place == q.waiting.Front() && hidden.visibleAt.Before(until) {
				until = hidden.visibleAt
			}
		}
		overLimit := !p.long && q.inFlight >= maxInFlight && q.visible.length > 0
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
	if q.visible.length == 0 {
		return taken{}
	}
	t := taken{deadLetter: q.deadLetterQueue()}
	visibility := q.settings.visibility
	if p.visibility != nil {
		visibility = seconds(*p.visibility)
	}
	for len(t.deliveries) < p.most && q.inFlight < maxInFlight && q.visible.length > 0 {
		m := q.visible.first
		if t.deadLetter != nil && m.receiveCount >= q.settings.redrive.maxReceive {
			q.remove(m)
			t.poison = append(t.poison, m)
			continue
		}
		if m.receiveCount == 0 {
			m.firstReceivedAt = now
		}
		m.receiveCount++
		m.serial++
		m.receivedAt = p.call.at
		q.hide(m, now.Add(visibility))
		if t.deliveries == nil {
			t.deliveries = make([]delivery, 0, min(p.most, q.visible.length+1))
		}
		t.deliveries = append(t.deliveries, delivery{
			message:         m,
			receipt:         q.latestReceipt(m),
			receiveCount:    m.receiveCount,
			firstReceivedAt: m.firstReceivedAt,
			sourceARN:       m.sourceARN,
		})
	}
	if visibility == 0 {
		// Visible at once, but only when this receive has what it wants: it returns no
		// message twice.
		for _, d := range t.deliveries {
			q.show(d.message)
		}
	}
	return t
}

// moveTo hands the poison to the dead-letter queue; if that is gone, the messages go
// back to where they were. No mutex is held, so two queues are never locked at once.
func (t taken) moveTo(source *Queue, now time.Time) {
	if t.deadLetter.accept(t.poison, source.ARN(), now) {
		return
	}
	source.mu.Lock()
	defer source.mu.Unlock()
	for _, m := range t.poison {
		source.add(m, 0, now)
	}
	source.wakeNext()
}

// answer writes the messages with the attributes that were asked for.
func (r *receiveMessageRequest) answer(received []delivery) []byte {
	size := 32
	for _, d := range received {
		size += len(d.message.body) + len(d.message.body)/8 + 512
	}
	o := newObject(make([]byte, 0, size))
	o.key("Messages")
	o.b = append(o.b, '[')
	for i, d := range received {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = r.appendMessage(o.b, d)
	}
	o.b = append(o.b, ']')
	return o.end()
}

func (r *receiveMessageRequest) appendMessage(b []byte, d delivery) []byte {
	m := d.message
	o := newObject(b)
	o.text("MessageId", m.id)
	o.text("ReceiptHandle", d.receipt)
	o.text("MD5OfBody", m.bodyMD5)
	o.text("Body", m.body)
	if r.wantsSystem() {
		o.key("Attributes")
		o.b = r.appendSystem(o.b, d)
	}
	// The checksum covers what is returned, not what was sent (sqs-facts 4.4).
	wanted, checksum := m.attributes, m.attrsMD5
	if !r.wantsEvery() {
		wanted = nil
		for _, a := range m.attributes {
			if r.wants(a.name) {
				wanted = append(wanted, a)
			}
		}
		if len(wanted) != len(m.attributes) {
			checksum = attributesMD5(wanted)
		}
	}
	if len(wanted) > 0 {
		o.text("MD5OfMessageAttributes", checksum)
		o.key("MessageAttributes")
		o.b = appendAttributes(o.b, wanted)
	}
	return o.end()
}

func appendAttributes(b []byte, attributes []attribute) []byte {
	b = append(b, '{')
	for i, a := range attributes {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, a.name)
		b = append(b, ':')
		o := newObject(b)
		if a.isBinary {
			o.blob("BinaryValue", a.binary)
		} else {
			o.text("StringValue", a.text)
		}
		o.text("DataType", a.dataType)
		b = o.end()
	}
	return append(b, '}')
}

func (r *receiveMessageRequest) wantsSystem() bool {
	return len(r.AttributeNames)+len(r.MessageSystemAttributeNames) > 0
}

// appendSystem appends the system attributes that were asked for and apply.
func (r *receiveMessageRequest) appendSystem(b []byte, d delivery) []byte {
	m, o := d.message, newObject(b)
	every := r.namesSystem("All")
	for _, a := range [...]struct{ name, value string }{
		{"SenderId", senderID},
		{"SentTimestamp", milliseconds(m.sentAt)},
		{"ApproximateReceiveCount", strconv.Itoa(d.receiveCount)},
		{"ApproximateFirstReceiveTimestamp", milliseconds(d.firstReceivedAt)},
		{"MessageGroupId", m.groupID},
		{"AWSTraceHeader", m.traceHeader},
		{"DeadLetterQueueSourceArn", d.sourceARN},
	} {
		if a.value != "" && (every || r.namesSystem(a.name)) {
			o.text(a.name, a.value)
		}
	}
	return o.end()
}

func milliseconds(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func (r *receiveMessageRequest) namesSystem(name string) bool {
	return slices.Contains(r.AttributeNames, name) || slices.Contains(r.MessageSystemAttributeNames, name)
}

func (r *receiveMessageRequest) wantsEvery() bool {
	return slices.ContainsFunc(r.MessageAttributeNames, func(name string) bool {
		return name == "All" || name == ".*" || name == "*"
	})
}

// wants tells whether an attribute was asked for by its name or by what its name begins
// with: "a.*" asks for "a.b" and for "ab".
func (r *receiveMessageRequest) wants(attribute string) bool {
	return slices.ContainsFunc(r.MessageAttributeNames, func(name string) bool {
		prefix, isPrefix := strings.CutSuffix(name, ".*")
		return name == attribute || isPrefix && strings.HasPrefix(attribute, prefix)
	})
}
