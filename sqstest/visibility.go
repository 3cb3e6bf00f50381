package sqstest

import "time"

// maxHold is how long a receipt can keep a message invisible in all, counted from the
// receive that gave it out (sqs-facts 6).
const maxHold = 12 * time.Hour

func checkVisibility(timeout int) *apiError {
	if timeout < 0 || timeout > 43200 {
		return invalidValue("VisibilityTimeout", timeout, "Must be between 0 and 43200, if provided.")
	}
	return nil
}

// readReceipt reads a receipt handle of the queue.
func (q *Queue) readReceipt(handle string) (receipt, *apiError) {
	if handle == "" {
		return receipt{}, missingParameter("ReceiptHandle")
	}
	r, ok := q.service.receipts.decode(handle)
	if !ok {
		return receipt{}, errorf("ReceiptHandleIsInvalid", "The input receipt handle \"%s\" is not a valid receipt handle.", handle)
	}
	if r.queue != q.number {
		return receipt{}, errorf("ReceiptHandleIsInvalid", "The input receipt handle \"%s\" is not valid for this queue.", handle)
	}
	return r, nil
}

// viewOf shows the message of a receipt handle, the zero view if there is none.
func (q *Queue) viewOf(handle string) MessageView {
	r, err := q.readReceipt(handle)
	if err != nil {
		return MessageView{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(time.Now())
	if m := q.find(r); m != nil {
		return q.view(m)
	}
	return MessageView{}
}

func viewsOf(c *call, handles []string) []MessageView {
	views := make([]MessageView, len(handles))
	if q, err := c.queue(); err == nil {
		for i, handle := range handles {
			views[i] = q.viewOf(handle)
		}
	}
	return views
}

// revoke gives the message of a receipt a new receipt that nobody has.
func (q *Queue) revoke(handle string) {
	r, err := q.readReceipt(handle)
	if err != nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.find(r); m != nil {
		m.revoked = m.serial
		m.serial++
	}
}

// expiredReceipt is the refusal of a receipt that was good once. The code depends on
// whether it is in a batch (sqs-facts 7).
func expiredReceipt(handle string, batch bool) *apiError {
	if batch {
		return newError(0, "ReceiptHandleIsInvalid", "The receipt handle has expired")
	}
	return invalidValue("ReceiptHandle", handle, "The receipt handle has expired.")
}

// expired tells whether a receipt of a FIFO queue has become useless, which it has with
// the visibility timeout; on a standard queue it does not (sqs-facts 6, 7).
func (q *Queue) expired(r receipt, m *message) bool {
	return q.fifo != nil && (m.serial != r.serial || m.state != stateInFlight)
}

// deleteMessage deletes the message of a receipt; the mutex is held. It succeeds for one
// that is gone and, on a standard queue, without deleting for one that was received again
// since. There the end of the visibility timeout alone does not invalidate a receipt
// (sqs-facts 7).
func (q *Queue) deleteMessage(c *call, handle string, batch bool, now time.Time) *apiError {
	r, err := q.readReceipt(handle)
	if err != nil {
		return err
	}
	m := q.find(r)
	e := c.event(ignored, q, now)
	e.receipt = handle
	if m == nil {
		e.detail = "it is gone"
		q.service.history.lookup(r.message).add(e)
		return nil
	}
	e.count = int32(m.receiveCount)
	switch {
	case q.expired(r, m):
		e.kind, e.detail = refused, "the receipt has expired"
		err = expiredReceipt(handle, batch)
	case m.serial != r.serial:
		e.detail = "it was received again since"
	case now.Sub(r.receivedAt) > maxHold:
		e.kind, e.detail = refused, "the receipt is older than 12 hours"
		err = expiredReceipt(handle, false)
	default:
		e.kind = deleted
		c.affect(q, m)
		full := q.inFlight >= maxInFlight
		q.remove(m)
		if full || q.fifo != nil { // a group may be free now
			q.wakeNext()
		}
	}
	m.history.add(e)
	return err
}

// changeVisibility changes when the message of a receipt is visible again; the mutex is
// held. On a standard queue it does nothing and succeeds for a message that is visible
// already, and an older receipt than the latest works too (sqs-facts 6).
func (q *Queue) changeVisibility(c *call, handle string, timeout *int, batch bool, now time.Time) *apiError {
	if timeout == nil {
		return missingParameter("VisibilityTimeout")
	}
	if err := checkVisibility(*timeout); err != nil {
		q.service.manners.overAsked(q, *timeout, 0)
		return err
	}
	r, err := q.readReceipt(handle)
	if err != nil {
		return err
	}
	m, visibility := q.find(r), seconds(*timeout)
	e := c.event(refused, q, now)
	e.receipt, e.timeout = handle, visibility
	if m == nil || r.serial <= m.revoked {
		e.detail = "it is gone"
		q.service.history.lookup(r.message).add(e)
		return invalidValue("ReceiptHandle", handle, "Message does not exist or is not available for visibility timeout change.")
	}
	e.count = int32(m.receiveCount)
	held := now.Sub(r.receivedAt)
	switch {
	case q.expired(r, m):
		e.detail = "the receipt has expired"
		err = expiredReceipt(handle, batch)
	case held+visibility > maxHold:
		e.detail = "beyond 12 hours from its receive"
		q.service.manners.overAsked(q, *timeout, held)
		err = invalidValue("VisibilityTimeout", *timeout, "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]")
	case m.state != stateInFlight:
		e.kind, e.detail = ignored, "it is visible already"
	default:
		e.kind = changed
		q.extend(c, m, visibility, now)
	}
	m.history.add(e)
	return err
}

// extend makes a message in flight visible after another time.
func (q *Queue) extend(c *call, m *message, visibility time.Duration, now time.Time) {
	c.affect(q, m)
	m.changed = true
	if visibility == 0 {
		q.show(m)
		m.visibleAt = now
	} else {
		q.hidden.remove(m)
		m.visibleAt = now.Add(visibility)
		q.hidden.push(m)
	}
	q.wakeNext()
}

// each runs f for each entry under the mutex of the queue, on its state now, unless a
// fault fails the entry.
func (q *Queue) each(c *call, entries int, f func(entry int, now time.Time) *apiError, result func(entry int, err *apiError)) *apiError {
	faults := c.faults.entries(c, entries)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return queueDoesNotExist()
	}
	now := time.Now()
	q.advance(now)
	for i := range entries {
		if faults != nil && faults[i] != nil {
			result(i, faults[i])
			continue
		}
		result(i, f(i, now))
	}
	return nil
}

type deleteMessageRequest struct {
	queueTarget
	ReceiptHandle string
}

func (r *deleteMessageRequest) describe(record *Call)          { record.Entries = 1 }
func (r *deleteMessageRequest) handles() []string              { return []string{r.ReceiptHandle} }
func (r *deleteMessageRequest) messages(c *call) []MessageView { return viewsOf(c, r.handles()) }

func (r *deleteMessageRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	var failure *apiError
	err = q.each(c, 1,
		func(_ int, now time.Time) *apiError { return q.deleteMessage(c, r.ReceiptHandle, false, now) },
		func(_ int, err *apiError) { failure = err })
	if err != nil {
		return nil, err
	}
	return nil, failure
}

type changeVisibilityRequest struct {
	queueTarget
	ReceiptHandle     string
	VisibilityTimeout *int
}

func (r *changeVisibilityRequest) describe(record *Call) {
	record.Entries = 1
	record.VisibilityTimeouts = appendTimeout(nil, r.VisibilityTimeout)
}
func (r *changeVisibilityRequest) handles() []string              { return []string{r.ReceiptHandle} }
func (r *changeVisibilityRequest) messages(c *call) []MessageView { return viewsOf(c, r.handles()) }

func (r *changeVisibilityRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	var failure *apiError
	err = q.each(c, 1,
		func(_ int, now time.Time) *apiError {
			return q.changeVisibility(c, r.ReceiptHandle, r.VisibilityTimeout, false, now)
		},
		func(_ int, err *apiError) { failure = err })
	if err != nil {
		return nil, err
	}
	return nil, failure
}

func appendTimeout(timeouts []int32, timeout *int) []int32 {
	if timeout == nil {
		return timeouts
	}
	return append(timeouts, int32(*timeout))
}

// receiptEntry is an entry of a batch that names a message by receipt.
type receiptEntry struct {
	ID                string `json:"Id"`
	ReceiptHandle     string
	VisibilityTimeout *int // in changes of visibility only
}

func (e receiptEntry) entryID() string { return e.ID }

// receiptBatch is the form of the two batches of receipts.
type receiptBatch struct {
	queueTarget
	Entries []receiptEntry
}

func (r *receiptBatch) handles() []string {
	handles := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		handles[i] = e.ReceiptHandle
	}
	return handles
}

func (r *receiptBatch) messages(c *call) []MessageView { return viewsOf(c, r.handles()) }

// runEach checks the batch and carries its entries out one by one.
func (r *receiptBatch) runEach(c *call, kind string, f func(*Queue, receiptEntry, time.Time) *apiError) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	if err := checkBatch(kind, r.Entries); err != nil {
		return nil, err
	}
	var answer batchAnswer
	err = q.each(c, len(r.Entries),
		func(i int, now time.Time) *apiError { return f(q, r.Entries[i], now) },
		func(i int, err *apiError) {
			if err != nil {
				answer.fail(r.Entries[i].ID, err)
			} else {
				answer.succeed(r.Entries[i].ID)
			}
		})
	if err != nil {
		return nil, err
	}
	return answer.body(), nil
}

type deleteMessageBatchRequest struct{ receiptBatch }

func (r *deleteMessageBatchRequest) describe(record *Call) { record.Entries = len(r.Entries) }

func (r *deleteMessageBatchRequest) run(c *call) ([]byte, *apiError) {
	return r.runEach(c, "DeleteMessageBatchRequestEntry", func(q *Queue, e receiptEntry, now time.Time) *apiError {
		return q.deleteMessage(c, e.ReceiptHandle, true, now)
	})
}

type changeVisibilityBatchRequest struct{ receiptBatch }

func (r *changeVisibilityBatchRequest) describe(record *Call) {
	record.Entries = len(r.Entries)
	for _, e := range r.Entries {
		record.VisibilityTimeouts = appendTimeout(record.VisibilityTimeouts, e.VisibilityTimeout)
	}
}

func (r *changeVisibilityBatchRequest) run(c *call) ([]byte, *apiError) {
	return r.runEach(c, "ChangeMessageVisibilityBatchRequestEntry", func(q *Queue, e receiptEntry, now time.Time) *apiError {
		return q.changeVisibility(c, e.ReceiptHandle, e.VisibilityTimeout, true, now)
	})
}
