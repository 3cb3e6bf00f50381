package sqstest

import (
	"strconv"
	"strings"
	"time"
)

// publication is a message that is being published. How it looks in a queue depends on
// the subscription.
type publication struct {
	id          string
	text        string // what queues are told of it
	subject     string
	attributes  []attribute // sorted by name
	structured  bool        // its attributes go no further (sqs-facts 11)
	groupID     string
	dedupID     string
	traceHeader string
	sequence    string // on FIFO topics
	at          time.Time
}

// publishEntry is a message to publish, alone or in a batch.
type publishEntry struct {
	id, message              string
	subject, structure       *string
	groupID, deduplicationID *string
	attributes               map[string]wireAttribute
	place                    string // of the entry in its request, for an error
}

func readEntry(f *form, place string) (publishEntry, *apiError) {
	attributes, err := f.attributes("MessageAttributes")
	return publishEntry{
		id:              f.text("Id"),
		message:         f.text("Message"),
		subject:         f.optional("Subject"),
		structure:       f.optional("MessageStructure"),
		groupID:         f.optional("MessageGroupId"),
		deduplicationID: f.optional("MessageDeduplicationId"),
		attributes:      attributes,
		place:           place,
	}, err
}

// view shows the message as far as it is known before it is published.
func (e *publishEntry) view(at time.Time) MessageView {
	v := MessageView{Body: e.message, SentAt: at}
	if e.groupID != nil {
		v.GroupID = *e.groupID
	}
	if e.deduplicationID != nil {
		v.DeduplicationID = *e.deduplicationID
	}
	attributes, _ := parseSNSAttributes(e.attributes, "") // illegal ones are not shown
	v.Attributes = attributeValues(attributes)
	return v
}

// size is what counts towards the limit of the topic.
func (e *publishEntry) size() int {
	size := len(e.message)
	for name, a := range e.attributes {
		size += len(name) + len(a.DataType) + len(a.BinaryValue)
		if a.StringValue != nil {
			size += len(*a.StringValue)
		}
	}
	return size
}

// publication checks a message (sqs-facts 11).
func (e *publishEntry) publication(c *call, t *Topic) (*publication, *apiError) {
	if e.message == "" {
		return nil, invalidParameter("Empty message")
	}
	if err := checkSubject(e.subject); err != nil {
		return nil, err
	}
	p := &publication{id: newUUID(), text: e.message, traceHeader: c.traceHeader, at: c.at}
	if e.subject != nil {
		p.subject = *e.subject
	}
	if e.structure != nil {
		if *e.structure != "json" {
			return nil, invalidParameter("MessageStructure")
		}
		text, err := structured(e.message)
		if err != nil {
			return nil, err
		}
		p.text, p.structured = text, true
	}
	var err *apiError
	if p.attributes, err = parseSNSAttributes(e.attributes, e.place); err != nil {
		return nil, err
	}
	t.mu.Lock()
	maxSize, contentDedup := t.settings.maxSize, t.settings.contentDedup
	t.mu.Unlock()
	if e.size() > maxSize {
		return nil, invalidParameter("Message too long")
	}
	return p, e.identify(p, t, contentDedup)
}

// identify gives a message its group and deduplication id.
func (e *publishEntry) identify(p *publication, t *Topic, contentDedup bool) *apiError {
	switch {
	case e.groupID == nil && t.fifo:
		return invalidParameter("The MessageGroupId parameter is required for FIFO topics")
	case e.groupID != nil && !legalID(*e.groupID):
		return invalidParameter("MessageGroupId Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	case e.deduplicationID != nil && !t.fifo:
		return invalidParameter("MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this topic type")
	case e.deduplicationID != nil && !legalID(*e.deduplicationID):
		return invalidParameter("MessageDeduplicationId Reason: MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	case e.deduplicationID == nil && t.fifo && !contentDedup:
		return invalidParameter("The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	}
	if e.groupID != nil {
		p.groupID = *e.groupID
	}
	switch {
	case e.deduplicationID != nil:
		p.dedupID = *e.deduplicationID
	case t.fifo:
		p.dedupID = contentID(e.message)
	}
	return nil
}

type publishRequest struct {
	topicTarget
	entry       publishEntry
	target      bool // it was given as TargetArn
	phoneNumber bool
}

func readPublish(f *form) (request, *apiError) {
	entry, err := readEntry(f, "")
	r := &publishRequest{topicTarget: onTopic(f), entry: entry, phoneNumber: f.optional("PhoneNumber") != nil}
	if arn := f.optional("TargetArn"); arn != nil && f.optional("TopicArn") == nil {
		r.topicARN, r.target = *arn, true
	}
	return r, err
}

func (r *publishRequest) describe(record *Call) {
	r.topicTarget.describe(record)
	record.Entries = 1
}

func (r *publishRequest) messages(c *call) []MessageView { return []MessageView{r.entry.view(c.at)} }

func (r *publishRequest) run(c *call) ([]byte, *apiError) {
	if r.phoneNumber {
		return nil, invalidParameter("PhoneNumber Reason: sqstest models topics only")
	}
	if r.target && strings.Count(r.topicARN, ":") > 5 {
		return nil, invalidParameter("TargetArn Reason: No endpoint found for the target arn specified")
	}
	t, err := r.topic(c)
	if err != nil {
		return nil, err
	}
	p, err := r.entry.publication(c, t)
	if err != nil {
		return nil, err
	}
	if err := c.faults.entry(c, 0); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted {
		return nil, topicDoesNotExist()
	}
	t.publish(c, p)
	var x element
	p.result(&x)
	return x.bytes(), nil
}

func (p *publication) result(x *element) {
	x.text("MessageId", p.id)
	if p.sequence != "" {
		x.text("SequenceNumber", p.sequence)
	}
}

type publishBatchRequest struct {
	topicTarget
	entries []publishEntry
}

func readPublishBatch(f *form) (request, *apiError) {
	r := &publishBatchRequest{topicTarget: onTopic(f)}
	for i, e := range f.list("PublishBatchRequestEntries", "member") {
		entry, err := readEntry(e, "publishBatchRequestEntries."+strconv.Itoa(i+1)+".member.")
		if err != nil {
			return nil, err
		}
		r.entries = append(r.entries, entry)
	}
	return r, nil
}

func (r *publishBatchRequest) describe(record *Call) {
	r.topicTarget.describe(record)
	record.Entries = len(r.entries)
}

func (r *publishBatchRequest) messages(c *call) []MessageView {
	views := make([]MessageView, len(r.entries))
	for i := range r.entries {
		views[i] = r.entries[i].view(c.at)
	}
	return views
}

// check refuses a batch as a whole.
func (r *publishBatchRequest) check() *apiError {
	if len(r.entries) == 0 {
		return newSNSError(0, "EmptyBatchRequest", "The batch request doesn't contain any entries.")
	}
	if len(r.entries) > maxEntries {
		return newSNSError(0, "TooManyEntriesInBatchRequest", "The batch request contains more entries than permissible.")
	}
	seen := make(map[string]bool, len(r.entries))
	for _, e := range r.entries {
		switch {
		case len(e.id) > maxEntryID:
			return snsErrorf("InvalidBatchEntryId", "The Id of a batch entry in the batch request is too long: %s", e.id)
		case !validEntryID(e.id):
			return snsErrorf("InvalidBatchEntryId", "The Id of a batch entry in the batch request contains an impermissible character: %s", e.id)
		case seen[e.id]:
			return newSNSError(0, "BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
		}
		seen[e.id] = true
	}
	return nil
}

// run fails the request for one bad entry, unlike SQS (sqs-facts 11).
func (r *publishBatchRequest) run(c *call) ([]byte, *apiError) {
	t, err := r.topic(c)
	if err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	maxSize, size := t.settings.maxSize, 0
	t.mu.Unlock()
	for i := range r.entries {
		size += r.entries[i].size()
	}
	if size > maxSize {
		return nil, newSNSError(0, "BatchRequestTooLong", "The length of all the messages put together is more than the limit.")
	}
	publications := make([]*publication, len(r.entries))
	for i := range r.entries {
		if publications[i], err = r.entries[i].publication(c, t); err != nil {
			return nil, err
		}
	}
	faults := c.faults.entries(c, len(r.entries))

	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted {
		return nil, topicDoesNotExist()
	}
	var successful, failed element
	for i, p := range publications {
		if faults != nil && faults[i] != nil {
			failed.open("member")
			failed.text("Id", r.entries[i].id)
			failed.text("Code", faults[i].code)
			failed.text("Message", faults[i].message)
			failed.text("SenderFault", strconv.FormatBool(!faults[i].receiver))
			failed.close("member")
			continue
		}
		t.publish(c, p)
		successful.open("member")
		successful.text("Id", r.entries[i].id)
		p.result(&successful)
		successful.close("member")
	}
	var x element
	x.open("Successful")
	x.b.WriteString(successful.b.String())
	x.close("Successful")
	x.open("Failed")
	x.b.WriteString(failed.b.String())
	x.close("Failed")
	return x.bytes(), nil
}
