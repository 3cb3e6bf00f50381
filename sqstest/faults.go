package sqstest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is something that goes wrong, and which calls it hits. Faults are tried in the
// order they were injected; the first that answers a call, or fails an entry, is the
// only one to do so and to count it. Those that only hold a call up add up.
type Fault struct {
	// Action is the name of an action such as "DeleteMessage". Default: any.
	Action string
	// Queue is the name of a queue. Default: any, or none.
	Queue string
	// Topic is the name of an SNS topic. Default: any, or none.
	Topic string
	// Message narrows the fault to entries whose message it matches or, for effects on
	// whole calls, to calls with such a message: of a send or publication those to be sent, of a delete
	// or change of visibility those of its receipts, of a receive those that are visible
	// when it arrives or, for effects after it, those that it returns. It must not call
	// the service. Default: every call and entry.
	Message func(m MessageView) bool
	// Skip lets so many matching calls or entries pass first. Default: 0.
	Skip int
	// Share is which part of the matching calls or entries the fault hits, from 0 to 1,
	// picked at random but, for the same sequence of them, always the same: see
	// [Service.Seed]. Default: 0, every one.
	Share float64
	// Times is how many matching calls or entries the fault hits. Default: 0, every one.
	Times int
	// Effect is what goes wrong.
	Effect Effect
}

// Injection is a fault in place.
type Injection struct {
	set   *faultSet
	fault Fault

	mu   sync.Mutex // guards what follows
	seen int        // matching calls or entries
	hits int
	dice *rand.Rand
}

// Seed changes what faults that are injected from now on leave to chance. Services begin
// with the seed 0, and every fault has a chance of its own, so that a test that makes its
// calls in the same order meets the same faults each time.
func (s *Service) Seed(n uint64) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.seed, s.faults.injected = n, 0
}

// Inject puts a fault in place until it is removed.
func (s *Service) Inject(f Fault) *Injection {
	i := &Injection{set: &s.faults, fault: f}
	s.faults.change(func(all []*Injection) []*Injection {
		s.faults.injected++
		i.dice = rand.New(rand.NewPCG(s.faults.seed, s.faults.injected))
		return append(all, i)
	})
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
	if share := i.fault.Share; share > 0 && i.dice.Float64() >= share {
		return false
	}
	i.hits++
	return true
}

// between picks a duration.
func (i *Injection) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return least + time.Duration(i.dice.Int64N(int64(most-least)+1))
}

func (i *Injection) matches(m MessageView) bool {
	return i.fault.Message == nil || i.fault.Message(m.clone())
}

// faultSet holds the faults in place. The list is never changed but replaced, so that
// calls, nearly all of which meet no fault, read it without a lock.
type faultSet struct {
	mu       sync.Mutex // guards replacing the list, and what follows
	seed     uint64
	injected uint64 // faults since the seed was set

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
	duplicates   bool // an effect delivers messages more often than once

	shown bool // messages is filled
	views []MessageView
}

// find picks the faults for the action and queue of a call.
func (f *callFaults) find(all []*Injection, record *Call) {
	for _, i := range all {
		if (i.fault.Action == "" || i.fault.Action == record.Action) &&
			(i.fault.Queue == "" || i.fault.Queue == record.Queue) && (i.fault.Topic == "" || i.fault.Topic == record.Topic) {
			f.faults = append(f.faults, i)
			if i.fault.Effect.after != nil && i.fault.Message != nil {
				f.wantAffected = true
			}
			if i.fault.Effect.deliver != once {
				f.duplicates = true
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
			if (effect.applies == nil || effect.applies(c)) && f.concerns(c, i) && i.claim() {
				if result, ended := effect.instead(c, i); ended {
					return result, true
				}
			}
		case effect.entry != nil && record.Entries == 0:
			if f.concerns(c, i) && i.claim() {
				return outcome{err: effect.entry(c)}, true
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
			return failure(c)
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
			if result, ended := i.fault.Effect.after(c, i); ended {
				return result, true
			}
		}
	}
	return outcome{}, false
}

// duplicate tells how a message that is being delivered is to be delivered again. The
// mutex of its queue is held.
func (f *callFaults) duplicate(q *Queue, m *message) duplication {
	if !f.duplicates || q.fifo != nil {
		return once
	}
	for _, i := range f.faults {
		how := i.fault.Effect.deliver
		if how != once && (i.fault.Message == nil || i.fault.Message(q.view(m))) && i.claim() {
			return how
		}
	}
	return once
}

// haunted tells whether a poll whose client has gone goes on.
func (f *callFaults) haunted(c *call) bool {
	return slices.ContainsFunc(f.faults, func(i *Injection) bool {
		return i.fault.Effect.haunt && f.concerns(c, i) && i.claim()
	})
}
