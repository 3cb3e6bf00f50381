package sqstest

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// shortPollLoop is how many empty short polls in a row, each within loopPause of the one
// before, are a loop.
const (
	shortPollLoop = 5
	loopPause     = time.Second
)

// manners notes what cannot be told from calls and histories afterwards.
type manners struct {
	mu   sync.Mutex // guards what follows
	over []string
}

func (n *manners) overAsked(q *Queue, timeout int, held time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = append(n.over, fmt.Sprintf("queue %s: a visibility timeout of %d seconds was asked for %v after the receive: a receipt holds for 12 hours in all", q.name, timeout, held))
}

// CheckManners fails the test for each thing that the clients of the service did and a
// well-behaved client never does:
//
//   - It settled a receipt twice: it deleted the message or made it visible at once
//     (ChangeMessageVisibility to 0) after it had been told that an earlier call with that
//     receipt did either. A call whose answer was lost, or that failed, may be repeated.
//   - It extended after settling: it sent another change of visibility with a receipt
//     after it had been told that the receipt was settled. A change that was under way
//     when the receipt was settled is none.
//   - It asked for more than a receipt can give: a change of visibility to more than 12
//     hours, or to beyond 12 hours from the receive.
//   - It short-polled in a loop: five receives in a row that do not wait, on one queue,
//     found it empty, each within a second of the one before. Long polls cost less.
//
// It sees the calls and histories since [Service.ResetCalls], and of the third kind all
// since the service was made, so a test calls it at its end. That a client was told means
// that its call was answered with a success, no fault was in the way, and the client had
// not gone by then.
func (s *Service) CheckManners(t Reporter) {
	t.Helper()
	for _, misstep := range s.Missteps() {
		t.Errorf("bad manners: %s", misstep)
	}
}

// Missteps says what [Service.CheckManners] would report.
func (s *Service) Missteps() []string {
	var missteps []string
	for _, h := range s.history.all() {
		missteps = append(missteps, s.calls.unsettled(h.view())...)
	}
	s.manners.mu.Lock()
	missteps = append(missteps, s.manners.over...)
	s.manners.mu.Unlock()
	return append(missteps, s.calls.shortPolls()...)
}

// settles tells whether an event is a call that settles its receipt.
func (e *Event) settles() bool {
	switch e.Action {
	case "DeleteMessage", "DeleteMessageBatch":
		return true
	case "ChangeMessageVisibility", "ChangeMessageVisibilityBatch":
		return e.Timeout == 0
	}
	return false
}

// unsettled finds calls with receipts that had been settled.
func (l *callLog) unsettled(h History) (missteps []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	settled := map[string]Event{} // by receipt: the first that the client was told of
	for _, e := range h.Events {
		if e.by == nil || e.Receipt == "" || e.Kind == EventReceived || e.Kind == EventRepeated {
			continue
		}
		first, again := settled[e.Receipt]
		switch {
		case again && e.settles():
			missteps = append(missteps, fmt.Sprintf("a receipt was settled twice, by %s at %v and %s at %v: %v", first.Action, h.since(first), e.Action, h.since(e), h))
		case again && e.by.began > first.by.ended:
			missteps = append(missteps, fmt.Sprintf("a message was extended at %v after %s at %v had settled its receipt: %v", h.since(e), first.Action, h.since(first), h))
		case !again && e.settles() && e.Kind != EventRefused && e.by.succeeded:
			settled[e.Receipt] = e
		}
	}
	return missteps
}

func (h History) since(e Event) time.Duration { return e.At.Sub(h.Events[0].At) }

// shortPolls finds loops of short polls.
func (l *callLog) shortPolls() (missteps []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	type streak struct {
		length int
		last   time.Time
	}
	streaks := map[string]*streak{}
	var looped []string
	for _, c := range l.calls {
		if c.Action != "ReceiveMessage" || !c.Done {
			continue
		}
		s := streaks[c.Queue]
		if s == nil {
			s = &streak{}
			streaks[c.Queue] = s
		}
		if !c.shortPoll || !c.succeeded || len(c.MessageIDs) > 0 || c.At.Sub(s.last) >= loopPause {
			s.length = 0
		}
		s.last = c.endedAt
		if !c.shortPoll || !c.succeeded || len(c.MessageIDs) > 0 {
			continue
		}
		s.length++
		if s.length == shortPollLoop && !slices.Contains(looped, c.Queue) {
			looped = append(looped, c.Queue)
			missteps = append(missteps, fmt.Sprintf("queue %s was short-polled in a loop: %d empty receives in a row without a wait", c.Queue, shortPollLoop))
		}
	}
	return missteps
}
