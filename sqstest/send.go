package sqstest

import "time"

// sendEntry is a message to send, alone or in a batch.
type sendEntry struct {
	ID                      string `json:"Id"`
	MessageBody             *string
	DelaySeconds            *int
	MessageAttributes       map[string]wireAttribute
	MessageSystemAttributes map[string]wireAttribute
	MessageGroupID          *string `json:"MessageGroupId"`
	MessageDeduplicationID  *string `json:"MessageDeduplicationId"`
}

func (e sendEntry) entryID() string { return e.ID }

// view shows the message as far as it is known before it is sent.
func (e *sendEntry) view(at time.Time) MessageView {
	v := MessageView{SentAt: at}
	if e.MessageBody != nil {
		v.Body = *e.MessageBody
	}
	if e.MessageGroupID != nil {
		v.GroupID = *e.MessageGroupID
	}
	if e.MessageDeduplicationID != nil {
		v.DeduplicationID = *e.MessageDeduplicationID
	}
	attributes, _ := parseAttributes(e.MessageAttributes) // illegal ones are not shown
	v.Attributes = attributeValues(attributes)
	return v
}

// size is what the entry counts towards the limit of a batch, legal or not.
func (e *sendEntry) size() int {
	size := 0
	if e.MessageBody != nil {
		size = len(*e.MessageBody)
	}
	for name, a := range e.MessageAttributes {
		size += len(name) + len(a.DataType) + len(a.BinaryValue)
		if a.StringValue != nil {
			size += len(*a.StringValue)
		}
	}
	return size
}

// sendRules is what a queue asks of messages that are sent to it.
type sendRules struct {
	fifo         bool
	contentDedup bool
	maxSize      int
}

func (q *Queue) sendRules() sendRules {
	q.mu.Lock()
	defer q.mu.Unlock()
	return sendRules{fifo: q.fifo != nil, contentDedup: q.settings.contentDedup, maxSize: q.settings.maxSize}
}

// checkIDs refuses a message for a FIFO queue without a group or a deduplication id. In
// a batch that is a refusal of the whole request (sqs-facts 4.6).
func (e *sendEntry) checkIDs(rules sendRules) *apiError {
	switch {
	case rules.fifo && e.MessageGroupID == nil:
		return missingParameter("MessageGroupId")
	case rules.fifo && e.MessageDeduplicationID == nil && !rules.contentDedup:
		return newError(0, "InvalidParameterValue", "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	}
	return nil
}

// message checks an entry and makes a message of it. The delay is negative if the entry
// gives none. How the text of an error begins depends on whether it is in a batch.
func (e *sendEntry) message(rules sendRules, batch bool) (m *message, delay time.Duration, err *apiError) {
	if e.MessageBody == nil || *e.MessageBody == "" {
		return nil, 0, missingParameter("MessageBody")
	}
	if !legalText(*e.MessageBody) {
		return nil, 0, newError(0, "InvalidMessageContents", illegalCharacters)
	}
	delay = -1
	if e.DelaySeconds != nil {
		if *e.DelaySeconds < 0 || *e.DelaySeconds > 900 {
			return nil, 0, invalidValue("DelaySeconds", *e.DelaySeconds, "DelaySeconds must be >= 0 and <= 900.")
		}
		delay = seconds(*e.DelaySeconds)
		if rules.fifo {
			if delay > 0 {
				return nil, 0, invalidValue("DelaySeconds", *e.DelaySeconds, "The request include parameter that is not valid for this queue type.")
			}
			delay = -1 // the queue's applies (sqs-facts 4.5)
		}
	}
	m = &message{body: *e.MessageBody}
	if err := e.identify(m, rules); err != nil {
		return nil, 0, err
	}
	if m.attributes, err = parseAttributes(e.MessageAttributes); err != nil {
		return nil, 0, err
	}
	if m.traceHeader, err = parseSystemAttributes(e.MessageSystemAttributes); err != nil {
		return nil, 0, err
	}
	if contentSize(m.body, m.attributes) > rules.maxSize {
		begin := "One or more parameters are invalid."
		if batch {
			begin = "One or more parameters cannot be validated."
		}
		return nil, 0, errorf("InvalidParameterValue", "%s Reason: Message must be shorter than %d bytes.", begin, rules.maxSize)
	}
	m.bodyMD5 = bodyMD5(m.body)
	m.attrsMD5 = attributesMD5(m.attributes)
	m.id = newUUID()
	return m, delay, nil
}

// identify gives a message its group and deduplication id.
func (e *sendEntry) identify(m *message, rules sendRules) *apiError {
	if e.MessageGroupID != nil {
		if !legalID(*e.MessageGroupID) {
			return illegalID("MessageGroupId", *e.MessageGroupID)
		}
		m.groupID = *e.MessageGroupID
	}
	switch id := e.MessageDeduplicationID; {
	case id != nil && !rules.fifo:
		return invalidValue("MessageDeduplicationId", *id, "The request include parameter that is not valid for this queue type.")
	case id != nil && !legalID(*id):
		return illegalID("MessageDeduplicationId", *id)
	case id != nil:
		m.dedupID = *id
	case rules.fifo:
		m.dedupID = contentID(m.body)
	}
	return nil
}

// enqueue adds a new message; the mutex is held. A negative delay is the queue's. A
// duplicate on a FIFO queue is not added and gets the identity of its original, however
// that has fared since.
func (q *Queue) enqueue(c *call, m *message, delay time.Duration, now time.Time) {
	q.advance(now) // so that what has become visible before is before it
	var key dedupKey
	if q.fifo != nil {
		key = q.fifo.dedupKey(m, q.settings.scopeByGroup, now)
		if first, ok := q.fifo.sent.get(key, now); ok {
			m.id, m.number = first.id, first.number
			q.service.history.lookup(first.number).add(c.event(duplicate, q, now))
			return
		}
	}
	if delay < 0 {
		delay = q.settings.delay
	}
	if m.traceHeader == "" {
		m.traceHeader = c.traceHeader
	}
	m.number = q.service.messageNumber.Add(1)
	m.sentAt, m.enqueuedAt = now, now
	if q.fifo != nil {
		q.fifo.sent.put(key, original{m.id, m.number}, now)
	}
	q.service.history.begin(m)
	m.history.add(c.event(sent, q, now))
	q.add(m, delay, now)
	c.affect(q, m)
}

// sent appends what a send answers about a message.
func (q *Queue) sent(m *message, o *object) {
	o.text("MessageId", m.id)
	o.text("MD5OfMessageBody", m.bodyMD5)
	o.textIf("MD5OfMessageAttributes", m.attrsMD5)
	if m.traceHeader != "" {
		o.text("MD5OfMessageSystemAttributes", attributesMD5([]attribute{{name: "AWSTraceHeader", dataType: "String", text: m.traceHeader}}))
	}
	if q.fifo != nil {
		o.text("SequenceNumber", sequence(m.number))
	}
}

type sendMessageRequest struct {
	queueTarget
	sendEntry
}

func (r *sendMessageRequest) describe(record *Call) { record.Entries = 1 }

func (r *sendMessageRequest) messages(c *call) []MessageView {
	return []MessageView{r.view(c.at)}
}

func (r *sendMessageRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	rules := q.sendRules()
	if err := r.checkIDs(rules); err != nil {
		return nil, err
	}
	m, delay, err := r.message(rules, false)
	if err != nil {
		return nil, err
	}
	if err := c.faults.entry(c, 0); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil, queueDoesNotExist()
	}
	q.enqueue(c, m, delay, time.Now())
	q.wakeNext()
	o := newObject(nil)
	q.sent(m, &o)
	return o.end(), nil
}

type sendMessageBatchRequest struct {
	queueTarget
	Entries []sendEntry
}

func (r *sendMessageBatchRequest) describe(record *Call) { record.Entries = len(r.Entries) }

func (r *sendMessageBatchRequest) messages(c *call) []MessageView {
	views := make([]MessageView, len(r.Entries))
	for i := range r.Entries {
		views[i] = r.Entries[i].view(c.at)
	}
	return views
}

func (r *sendMessageBatchRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	if err := checkBatch("SendMessageBatchRequestEntry", r.Entries); err != nil {
		return nil, err
	}
	rules, size := q.sendRules(), 0
	for i := range r.Entries {
		if err := r.Entries[i].checkIDs(rules); err != nil {
			return nil, newError(0, "InvalidParameterValue", err.message)
		}
		size += r.Entries[i].size()
	}
	if size > maxBatchSize {
		return nil, errorf("BatchRequestTooLong", "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxBatchSize, size)
	}

	type checked struct {
		message *message
		delay   time.Duration
		failure *apiError
	}
	faults := c.faults.entries(c, len(r.Entries))
	entries := make([]checked, len(r.Entries))
	for i := range r.Entries {
		entries[i].message, entries[i].delay, entries[i].failure = r.Entries[i].message(rules, true)
		if entries[i].failure == nil && faults != nil {
			entries[i].failure = faults[i]
		}
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil, queueDoesNotExist()
	}
	now := time.Now()
	var result batchAnswer
	for i, e := range entries {
		if e.failure != nil {
			result.fail(r.Entries[i].ID, e.failure)
			continue
		}
		q.enqueue(c, e.message, e.delay, now)
		o := result.success(r.Entries[i].ID)
		q.sent(e.message, &o)
		result.successful = o.end()
	}
	q.wakeNext()
	return result.body(), nil
}
