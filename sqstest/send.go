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

// message checks an entry and makes a message of it. The delay is negative if the entry
// gives none. How the text of an error begins depends on whether it is in a batch.
func (e *sendEntry) message(maxSize int, batch bool) (m *message, delay time.Duration, err *apiError) {
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
	}
	if e.MessageDeduplicationID != nil {
		return nil, 0, invalidValue("MessageDeduplicationId", *e.MessageDeduplicationID, "The request include parameter that is not valid for this queue type.")
	}
	m = &message{body: *e.MessageBody}
	if e.MessageGroupID != nil {
		if !legalGroupID(*e.MessageGroupID) {
			return nil, 0, invalidValue("MessageGroupId", *e.MessageGroupID, "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
		}
		m.groupID = *e.MessageGroupID
	}
	if m.attributes, err = parseAttributes(e.MessageAttributes); err != nil {
		return nil, 0, err
	}
	if m.traceHeader, err = parseSystemAttributes(e.MessageSystemAttributes); err != nil {
		return nil, 0, err
	}
	if contentSize(m.body, m.attributes) > maxSize {
		begin := "One or more parameters are invalid."
		if batch {
			begin = "One or more parameters cannot be validated."
		}
		return nil, 0, errorf("InvalidParameterValue", "%s Reason: Message must be shorter than %d bytes.", begin, maxSize)
	}
	m.bodyMD5 = bodyMD5(m.body)
	m.attrsMD5 = attributesMD5(m.attributes)
	m.id = newUUID()
	return m, delay, nil
}

// legalGroupID takes what MessageGroupId may be: 1 to 128 printable ASCII characters
// without spaces (sqs-facts 4.6).
func legalGroupID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

// maxMessageSize is the queue's MaximumMessageSize.
func (q *Queue) maxMessageSize() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings.maxSize
}

// enqueue adds a new message; the mutex is held. A negative delay is the queue's.
func (q *Queue) enqueue(c *call, m *message, delay time.Duration, now time.Time) {
	if delay < 0 {
		delay = q.settings.delay
	}
	if m.traceHeader == "" {
		m.traceHeader = c.traceHeader
	}
	m.number = q.service.messageNumber.Add(1)
	m.sentAt = now
	q.add(m, delay, now)
	c.affect(q, m)
}

// sent appends what a send answers about a message.
func (m *message) sent(o *object) {
	o.text("MessageId", m.id)
	o.text("MD5OfMessageBody", m.bodyMD5)
	o.textIf("MD5OfMessageAttributes", m.attrsMD5)
	if m.traceHeader != "" {
		o.text("MD5OfMessageSystemAttributes", attributesMD5([]attribute{{name: "AWSTraceHeader", dataType: "String", text: m.traceHeader}}))
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
	m, delay, err := r.message(q.maxMessageSize(), false)
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
	m.sent(&o)
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
	size := 0
	for i := range r.Entries {
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
	maxSize, faults := q.maxMessageSize(), c.faults.entries(c, len(r.Entries))
	entries := make([]checked, len(r.Entries))
	for i := range r.Entries {
		entries[i].message, entries[i].delay, entries[i].failure = r.Entries[i].message(maxSize, true)
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
		e.message.sent(&o)
		result.successful = o.end()
	}
	q.wakeNext()
	return result.body(), nil
}
