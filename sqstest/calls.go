package sqstest

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Call is an API call the service was asked for.
type Call struct {
	// Action is the name of the action, such as "DeleteMessageBatch".
	Action string
	// Queue is the name of the queue, whether or not it exists; "" if the action has none.
	Queue string
	// Topic is the name of the SNS topic, likewise.
	Topic string
	// Entries is how many messages, receipts or visibilities the request is about: 1 for
	// the single actions, the length of the batch for the others, 0 where that means nothing.
	Entries int
	// MaxMessages is the MaxNumberOfMessages of a receive, 1 if it gives none.
	MaxMessages int
	// VisibilityTimeouts are the values of the entries of a ChangeMessageVisibility or its
	// batch, or the one value of a receive that gives one.
	VisibilityTimeouts []int32
	// MessageIDs are the messages that were sent, published, received, deleted or changed; not those
	// of entries that failed, nor one that a stale receipt did not delete.
	MessageIDs []string
	// At is when the call arrived.
	At time.Time
	// Code is the code of the error that was answered, as the SDK's ErrorCode returns it;
	// or the status of an answer that a [Raw] fault gave; "" for a success, a failure of
	// single entries, and a call without an answer.
	Code string
	// Done tells that the call has ended; MessageIDs and Code are known then.
	Done bool
	// Request is the body of the request, which must not be changed. It is a form and no
	// JSON for the actions of SNS.
	Request json.RawMessage
}

// callRecord is a call with what is known of it beyond what a [Call] shows.
type callRecord struct {
	Call
	began, ended uint64 // in the order of all beginnings and ends; 0 while it lasts
	endedAt      time.Time
	succeeded    bool // the client was told so
	shortPoll    bool // a receive that does not wait
}

// callLog keeps the calls in the order they arrived.
type callLog struct {
	mu    sync.Mutex // guards the list and the calls in it
	calls []*callRecord
	clock uint64
}

func (l *callLog) begin(c *callRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	c.began = l.clock
	l.calls = append(l.calls, c)
}

// finish notes how a call ended.
func (l *callLog) finish(c *call, result outcome) {
	told := result.fate == fateAnswered && result.err == nil && result.raw == nil && c.ctx.Err() == nil
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	r := c.record
	r.MessageIDs, r.Code, r.Done = c.messageIDs, result.code(), true
	r.ended, r.endedAt, r.succeeded, r.shortPoll = l.clock, now, told, c.shortPoll
}

// Calls returns the calls since the service was made or [Service.ResetCalls], in the
// order they arrived, of all actions or of these. A call that is being served, such as a
// long poll, is there already. The log holds every request, so a program that runs for
// long resets it now and then.
func (s *Service) Calls(actions ...string) []Call {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	var calls []Call
	for _, c := range s.calls.calls {
		if len(actions) == 0 || slices.Contains(actions, c.Action) {
			copied := c.Call
			copied.VisibilityTimeouts = slices.Clone(c.VisibilityTimeouts)
			copied.MessageIDs = slices.Clone(c.MessageIDs)
			calls = append(calls, copied)
		}
	}
	return calls
}

// Count is the length of what [Service.Calls] returns.
func (s *Service) Count(actions ...string) int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	if len(actions) == 0 {
		return len(s.calls.calls)
	}
	n := 0
	for _, c := range s.calls.calls {
		if slices.Contains(actions, c.Action) {
			n++
		}
	}
	return n
}

// ResetCalls forgets the calls made so far, and the histories of messages that are gone.
func (s *Service) ResetCalls() {
	s.history.forget()
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.calls.calls = nil
}
