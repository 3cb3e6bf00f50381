package sqstest

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// Fault is something that goes wrong, and which calls it hits. Faults are tried in the
// order they were injected; the first that answers a call, or fails an entry, is the
// only one to do so and to count it.
type Fault struct {
	// Action is the name of an action such as "DeleteMessage". Default: any.
	Action string
	// Queue is the name of a queue. Default: any.
	Queue string
	// Message narrows the fault to entries whose message it matches or, for effects on
	// whole calls, to calls with such a message: of a send those to be sent, of a delete
	// or change of visibility those of its receipts, of a receive those that are visible
	// when it arrives or, for effects after it, those that it returns. It must not call
	// the service. Default: every call and entry.
	Message func(m MessageView) bool
	// Skip lets so many matching calls or entries pass first. Default: 0.
	Skip int
	// Times is how many matching calls or entries the fault hits. Default: 0, every one.
	Times int
	// Effect is what goes wrong.
	Effect Effect
}

// Effect is what a [Fault] does to a call. Of its stages exactly one is set.
type Effect struct {
	// instead ends a call that is not carried out.
	instead func(*call) outcome
	// prepare changes what one entry of a call will find.
	prepare func(q *Queue, handle string)
	// entry fails one entry of a call; on a call without entries, the call.
	entry *apiError
	// after ends a call that was carried out, in place of its answer.
	after func(*call) outcome
}

// Error answers with an error instead of carrying the call out. The code is that of an
// error of SQS by its modelled name or its legacy code, or any other. A status of 0 is
// the one that goes with the code.
func Error(status int, code, message string) Effect {
	err := newError(status, code, message)
	return Effect{instead: func(*call) outcome { return outcome{err: err} }}
}

// Throttle answers RequestThrottled, which the SDK retries after a pause of up to a second
// and then more, so a test of it is best run in a synctest bubble.
func Throttle() Effect { return Error(0, "RequestThrottled", "The request was throttled.") }

// FailEntry reports an entry of a batch as failed without carrying it out. On an action
// for one message it is the error of the call, with status 400 if the sender is at
// fault and 500 otherwise; so it is on an action that is about no entries.
func FailEntry(code, message string, senderFault bool) Effect {
	status := http.StatusInternalServerError
	if senderFault {
		status = http.StatusBadRequest
	}
	return Effect{entry: newError(status, code, message)}
}

// LoseAnswer carries the call out and breaks the connection instead of answering, as
// the SDK sees it in io.ErrUnexpectedEOF or a closed connection. The SDK retries that.
func LoseAnswer() Effect {
	return Effect{after: func(*call) outcome { return outcome{fate: fateBroken} }}
}

// Hang does not carry the call out and never answers. It ends when the client goes away
// or the service is closed.
func Hang() Effect { return Effect{instead: (*call).hang} }

// HangAfter carries the call out and then hangs as [Hang] does.
func HangAfter() Effect { return Effect{after: (*call).hang} }

// InvalidateReceipt makes the receipts of a call unusable before it is carried out, as
// if somebody else had received the messages since: a deletion succeeds and deletes
// nothing, a change of visibility is refused with InvalidParameterValue. The receipt of
// the message changes; its visibility and its count do not.
func InvalidateReceipt() Effect { return Effect{prepare: (*Queue).revoke} }

// Injection is a fault in place.
type Injection struct {
	set   *faultSet
	fault Fault

	mu   sync.Mutex // guards what follows
	seen int        // matching calls or entries
	hits int
}

// Inject puts a fault in place until it is removed.
func (s *Service) Inject(f Fault) *Injection {
	i := &Injection{set: &s.faults, fault: f}
	s.faults.change(func(all []*Injection) []*Injection { return append(all, i) })
	return i
}

// Hits is how many calls or entries the fault has hit.
func (i *Injection) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// Remove takes the fault away. Calls that hang because of it go on hanging.
func (i *Injection) Remove() {
	i.set.change(func(all []*Injection) []*Injection {
		return slices.DeleteFunc(all, func(other *Injection) bool { return other == i })
	})
}

// claim counts a matching call or entry and tells whether the fault hits it.
func (i *Injection) claim() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen++
	if i.seen <= i.fault.Skip || i.fault.Times > 0 && i.hits >= i.fault.Times {
		return false
	}
	i.hits++
	return true
}

func (i *Injection) matches(m MessageView) bool {
	return i.fault.Message == nil || i.fault.Message(m.clone())
}

// faultSet holds the faults in place. The list is never changed but replaced, so that
// calls, nearly all of which meet no fault, read it without a lock.
type faultSet struct {
	mu  sync.Mutex // guards replacing the list
	all atomic.Pointer[[]*Injection]
}

func (s *faultSet) active() []*Injection {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (s *faultSet) change(to func([]*Injection) []*Injection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := to(slices.Clone(s.active()))
	s.all.Store(&next)
}

// messageRequest is a request with entries that are about one message each.
type messageRequest interface {
	request
	// messages shows the message of each entry, before the call; one that is not found
	// is the zero view.
	messages(*call) []MessageView
}

// receiptRequest is a request whose entries name messages by receipt handle.
type receiptRequest interface {
	request
	handles() []string
}

// callFaults are the faults that concern one call.
type callFaults struct {
	faults []*Injection

	wantAffected bool // an effect after the call looks at the messages
	affected     []MessageView

	shown bool // messages is filled
	views []MessageView
}

// find picks the faults for the action and queue of a call.
func (f *callFaults) find(all []*Injection, record *Call) {
	for _, i := range all {
		if (i.fault.Action == "" || i.fault.Action == record.Action) && (i.fault.Queue == "" || i.fault.Queue == record.Queue) {
			f.faults = append(f.faults, i)
			if i.fault.Effect.after != nil && i.fault.Message != nil {
				f.wantAffected = true
			}
		}
	}
}

// before applies the faults that come before the call is carried out.
func (f *callFaults) before(c *call, record *Call) (outcome, bool) {
	for _, i := range f.faults {
		effect := i.fault.Effect
		switch {
		case effect.prepare != nil:
			f.prepare(c, i)
		case effect.instead != nil:
			if f.concerns(c, i) && i.claim() {
				return effect.instead(c), true
			}
		case effect.entry != nil && record.Entries == 0:
			if f.concerns(c, i) && i.claim() {
				return outcome{err: effect.entry}, true
			}
		}
	}
	return outcome{}, false
}

// prepare applies an effect to the entries whose message the fault matches.
func (f *callFaults) prepare(c *call, i *Injection) {
	r, ok := c.request.(receiptRequest)
	if !ok {
		return
	}
	q, err := c.queue()
	if err != nil {
		return
	}
	for n, handle := range r.handles() {
		if i.matches(f.messages(c)[n]) && i.claim() {
			i.fault.Effect.prepare(q, handle)
		}
	}
}

// concerns tells whether a call has a message that the fault matches.
func (f *callFaults) concerns(c *call, i *Injection) bool {
	return i.fault.Message == nil || slices.ContainsFunc(f.messages(c), i.matches)
}

// messages shows the messages a call is about, as they are before it.
func (f *callFaults) messages(c *call) []MessageView {
	if !f.shown {
		f.shown = true
		if r, ok := c.request.(messageRequest); ok {
			f.views = r.messages(c)
		}
	}
	return f.views
}

// entry returns the error that a fault gives an entry, nil if none does. It shows
// messages, so no mutex may be held.
func (f *callFaults) entry(c *call, n int) *apiError {
	for _, i := range f.faults {
		if failure := i.fault.Effect.entry; failure != nil && i.matchesEntry(f, c, n) && i.claim() {
			return failure
		}
	}
	return nil
}

func (i *Injection) matchesEntry(f *callFaults, c *call, n int) bool {
	return i.fault.Message == nil || i.matches(f.messages(c)[n])
}

// entries returns the errors that faults give to the entries of a batch; nil if none.
func (f *callFaults) entries(c *call, n int) []*apiError {
	if len(f.faults) == 0 {
		return nil
	}
	failures := make([]*apiError, n)
	for i := range failures {
		failures[i] = f.entry(c, i)
	}
	return failures
}

// after applies the faults that come after the call was carried out.
func (f *callFaults) after(c *call) (outcome, bool) {
	for _, i := range f.faults {
		if i.fault.Effect.after == nil {
			continue
		}
		if (i.fault.Message == nil || slices.ContainsFunc(f.affected, i.matches)) && i.claim() {
			return i.fault.Effect.after(c), true
		}
	}
	return outcome{}, false
}

func (c *call) hang() outcome {
	select {
	case <-c.ctx.Done():
		return outcome{fate: fateGone}
	case <-c.service.done:
		return outcome{fate: fateBroken}
	}
}
