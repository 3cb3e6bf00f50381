package sqstest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// EventKind is what happened to a message.
type EventKind string

// What can happen to a message.
const (
	// EventSent is how every message begins.
	EventSent EventKind = "sent"
	// EventDuplicate is a send on a FIFO queue that was dropped as a duplicate of it.
	EventDuplicate EventKind = "duplicate dropped"
	// EventReceived is a receive that returned the message.
	EventReceived EventKind = "received"
	// EventRepeated is a receive that returned it again under the same receipt, for a
	// ReceiveRequestAttemptId.
	EventRepeated EventKind = "receive repeated"
	// EventChanged is a change of its visibility timeout.
	EventChanged EventKind = "visibility changed"
	// EventDeleted is its deletion by a receipt.
	EventDeleted EventKind = "deleted"
	// EventIgnored is a deletion or change that was answered as a success and did
	// nothing: of a message that is gone, or was received again since, or is visible.
	EventIgnored EventKind = "ignored"
	// EventRefused is a deletion or change that was refused.
	EventRefused EventKind = "refused"
	// EventDeadLettered is its move to the dead-letter queue by a receive.
	EventDeadLettered EventKind = "dead-lettered"
	// EventMoved is its move by a move task, as a new message.
	EventMoved EventKind = "moved"
	// EventRemoved is its end by retention, a purge or the deletion of its queue.
	EventRemoved EventKind = "removed"
)

// Event is one thing that happened to a message.
type Event struct {
	At   time.Time
	Kind EventKind
	// Queue is the name of the queue it happened in.
	Queue string
	// Action is that of the call that did it, "" for what no call did.
	Action string
	// Receipt is the receipt handle that a receive gave out or another call used.
	Receipt string
	// ReceiveCount is the count of the message then.
	ReceiveCount int
	// Timeout is the visibility timeout of a receive or change.
	Timeout time.Duration
	// Detail says more, such as where the message went or why a call was refused.
	Detail string

	by *callRecord // nil for what no call did
}

// History is what happened to one message, over all queues it has been in.
type History struct {
	// ID, Body and GroupID are those of the message.
	ID, Body, GroupID string
	Events            []Event
}

// Of are the events of these kinds.
func (h History) Of(kinds ...EventKind) []Event {
	return slices.DeleteFunc(slices.Clone(h.Events), func(e Event) bool { return !slices.Contains(kinds, e.Kind) })
}

// String tells the history in lines, with times from the first event on.
func (h History) String() string {
	var b strings.Builder
	body := h.Body
	if len(body) > 80 {
		body = body[:80] + "…"
	}
	fmt.Fprintf(&b, "message %s %q", h.ID, body)
	for _, e := range h.Events {
		fmt.Fprintf(&b, "\n  %+12v  %s: %s", e.At.Sub(h.Events[0].At), e.Queue, e.Kind)
		if e.Kind == EventReceived {
			fmt.Fprintf(&b, " (%d)", e.ReceiveCount)
		}
		if e.Kind == EventReceived || e.Kind == EventChanged {
			fmt.Fprintf(&b, " for %v", e.Timeout)
		}
		if e.Detail != "" {
			fmt.Fprintf(&b, ", %s", e.Detail)
		}
	}
	return b.String()
}

// event is an [Event] as it is kept: there are several for each message.
type event struct {
	at      time.Time
	queue   *Queue
	by      *callRecord // nil for what no call did
	receipt string
	detail  string
	timeout time.Duration
	count   int32
	kind    eventKind
}

type eventKind uint8

const (
	sent eventKind = iota
	duplicate
	received
	repeated
	changed
	deleted
	ignored
	refused
	deadLettered
	moved
	removed
)

var eventKinds = [...]EventKind{
	EventSent, EventDuplicate, EventReceived, EventRepeated, EventChanged, EventDeleted, EventIgnored, EventRefused, EventDeadLettered, EventMoved, EventRemoved,
}

func (e *event) view() Event {
	v := Event{
		At: e.at, Kind: eventKinds[e.kind], Queue: e.queue.name, Receipt: e.receipt,
		ReceiveCount: int(e.count), Timeout: e.timeout, Detail: e.detail, by: e.by,
	}
	if e.by != nil {
		v.Action = e.by.Action
	}
	return v
}

// history is the growing history of a message. It outlives the message.
type history struct {
	number uint64 // of the message at first
	id     string
	body   string
	group  string

	mu    sync.Mutex // guards what follows; nothing is locked while it is held
	gone  bool
	few   [3]event // the first events: most messages have no more
	count int
	more  []event
}

// add adds an event. A message that was not sent, in tests, has no history.
func (h *history) add(e event) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.kind == deleted || e.kind == moved || e.kind == removed {
		h.gone = true
	}
	if h.count < len(h.few) {
		h.few[h.count] = e
	} else {
		h.more = append(h.more, e)
	}
	h.count++
}

func (h *history) view() History {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := History{ID: h.id, Body: h.body, GroupID: h.group, Events: make([]Event, 0, h.count)}
	for i := range min(h.count, len(h.few)) {
		v.Events = append(v.Events, h.few[i].view())
	}
	for i := range h.more {
		v.Events = append(v.Events, h.more[i].view())
	}
	return v
}

// historyLog finds histories by the numbers of messages, which rise by one from message
// to message.
type historyLog struct {
	mu    sync.Mutex // guards what follows
	first uint64     // the number of the first element
	list  []*history // nil where it was forgotten
}

func (l *historyLog) begin(m *message) {
	m.history = &history{number: m.number, id: m.id, body: m.body, group: m.groupID}
	l.alias(m)
}

// alias makes a history known by the present number of its message.
func (l *historyLog) alias(m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.number < l.first {
		return // the others of its time are forgotten
	}
	for uint64(len(l.list)) <= m.number-l.first {
		l.list = append(l.list, nil)
	}
	l.list[m.number-l.first] = m.history
}

func (l *historyLog) lookup(number uint64) *history {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < l.first || number-l.first >= uint64(len(l.list)) {
		return nil
	}
	return l.list[number-l.first]
}

// all are the histories in the order the messages were sent.
func (l *historyLog) all() []*history {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*history, 0, len(l.list))
	for i, h := range l.list {
		if h != nil && h.number == l.first+uint64(i) { // else it is another name of one
			all = append(all, h)
		}
	}
	return all
}

// forget drops the histories of messages that are gone.
func (l *historyLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	keep := len(l.list)
	for i, h := range l.list {
		if h == nil {
			continue
		}
		h.mu.Lock()
		if h.gone {
			l.list[i] = nil
		} else {
			keep = min(keep, i)
		}
		h.mu.Unlock()
	}
	l.list = slices.Clone(l.list[keep:])
	l.first += uint64(keep)
}

// event begins an event of a call on the queue.
func (c *call) event(kind eventKind, q *Queue, at time.Time) event {
	return event{at: at, kind: kind, queue: q, detail: c.note, by: c.record}
}

// History is what has happened to the message of an id so far; without events if there
// is no such message. Histories are kept until [Service.ResetCalls], which forgets those
// of messages that are gone.
func (s *Service) History(id string) History {
	for _, h := range s.history.all() {
		if h.id == id {
			return h.view()
		}
	}
	return History{}
}

// Histories are those of the messages with a body, in the order they were sent. A
// message that a move task has moved is another one afterwards.
func (s *Service) Histories(body string) []History {
	var found []History
	for _, h := range s.history.all() {
		if h.body == body {
			found = append(found, h.view())
		}
	}
	return found
}
