package sqstest

import (
	"strconv"
	"time"
)

// groupWindow is how many of the oldest messages of a FIFO queue are looked at to find
// groups with something to receive (sqs-facts 5).
const groupWindow = 120_000

// fifoState is what a FIFO queue has beyond a standard one. The mutex of the queue
// guards it.
type fifoState struct {
	groups  map[string]*group
	ready   groupList // groups whose first message is visible, in the order they became so
	visible int       // messages that are visible themselves, whatever their group

	// All messages in order, and the newest of those in the window.
	oldest, newest, edge *message
	inside, window       int

	sent     recently[dedupKey, original]
	attempts recently[string, []delivery]

	byGroup     bool // the deduplication scope that is in effect or was before the last change
	scopeChange time.Time
}

func newFIFOState() *fifoState {
	return &fifoState{groups: make(map[string]*group), window: groupWindow}
}

// group holds the messages of one MessageGroupId in their order, whatever their state.
// What a receive can take is the visible prefix: a message that is not visible blocks
// those behind it, and nothing else does (sqs-facts 5.2).
type group struct {
	messages   messageList
	ready      bool // in the list of ready groups
	prev, next *group
}

// groupList is a list of groups.
type groupList struct{ first, last *group }

func (l *groupList) pushBack(g *group) {
	g.ready = true
	g.prev, g.next = l.last, nil
	if l.last != nil {
		l.last.next = g
	} else {
		l.first = g
	}
	l.last = g
}

func (l *groupList) remove(g *group) {
	g.ready = false
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		l.first = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	} else {
		l.last = g.prev
	}
	g.prev, g.next = nil, nil
}

// review puts a group into the list of ready ones or takes it out, as its first message
// is now.
func (f *fifoState) review(g *group) {
	first := g.messages.first
	ready := first != nil && first.state == stateVisible && first.number <= f.edge.number
	switch {
	case ready && !g.ready:
		f.ready.pushBack(g)
	case !ready && g.ready:
		f.ready.remove(g)
	}
}

// insert gives a message its place in its group and in the queue: nearly always the
// last, but one that comes back from a failed move has its old one.
func (f *fifoState) insert(m *message) {
	g := f.groups[m.groupID]
	if g == nil {
		g = &group{}
		f.groups[m.groupID] = g
	}
	m.group = g
	behind := g.messages.last
	for behind != nil && behind.number > m.number {
		behind = behind.prev
	}
	g.messages.insertAfter(m, behind)

	older := f.newest
	for older != nil && older.number > m.number {
		older = older.older
	}
	f.link(m, older)
	switch {
	case f.edge == nil || f.edge == m.older && f.inside < f.window:
		f.edge = m
		f.inside++
	case m.number < f.edge.number:
		f.inside++
		if f.inside > f.window {
			left := f.edge
			f.edge = left.older
			f.inside--
			f.review(left.group)
		}
	}
}

func (f *fifoState) link(m, older *message) {
	m.older = older
	if older != nil {
		m.newer, older.newer = older.newer, m
	} else {
		m.newer, f.oldest = f.oldest, m
	}
	if m.newer != nil {
		m.newer.older = m
	} else {
		f.newest = m
	}
}

// drop takes a message out. Its group ends with its last message.
func (f *fifoState) drop(m *message) {
	g := m.group
	g.messages.remove(m)
	inWindow := m.number <= f.edge.number
	if f.edge == m {
		f.edge = m.older
	}
	if m.older != nil {
		m.older.newer = m.newer
	} else {
		f.oldest = m.newer
	}
	if m.newer != nil {
		m.newer.older = m.older
	} else {
		f.newest = m.older
	}
	m.older, m.newer, m.group = nil, nil, nil
	if inWindow {
		f.inside--
		entered := f.oldest
		if f.edge != nil {
			entered = f.edge.newer
		}
		if entered != nil {
			f.edge = entered
			f.inside++
			f.review(entered.group)
		}
	}
	if g.messages.first != nil {
		f.review(g)
		return
	}
	if g.ready {
		f.ready.remove(g)
	}
	delete(f.groups, m.groupID)
}

// following is the message to take next: of the group of the last one taken while its
// visible prefix goes on, then of the group that has been ready for longest. Nil if
// there is none.
func (f *fifoState) following(last *message) *message {
	if last != nil && last.next != nil && last.next.state == stateVisible {
		return last.next
	}
	if f.ready.first != nil {
		return f.ready.first.messages.first
	}
	return nil
}

// blocked tells whether a message of the group before this one is not visible.
func (m *message) blocked() bool {
	for before := m.prev; before != nil; before = before.prev {
		if before.state != stateVisible {
			return true
		}
	}
	return false
}

// clear forgets every message, and what duplicates would be of.
func (f *fifoState) clear() {
	*f = fifoState{groups: make(map[string]*group), window: f.window, byGroup: f.byGroup, scopeChange: f.scopeChange}
}

// redelay applies a changed delay to the messages that are in a FIFO queue already and
// were never received (sqs-facts 3). The mutex is held.
func (q *Queue) redelay(now time.Time) {
	for m := q.fifo.oldest; m != nil; m = m.newer {
		if m.receiveCount > 0 {
			continue
		}
		if m.state == stateDelayed {
			q.show(m)
		}
		if m.visibleAt = m.enqueuedAt.Add(q.settings.delay); m.visibleAt.After(now) {
			q.fifo.visible--
			m.state = stateDelayed
			q.delayed++
			q.hidden.push(m)
			q.fifo.review(m.group)
		}
	}
	q.wakeNext()
}

// sequence is a SequenceNumber: 20 digits, rising in the order of sends.
func sequence(number uint64) string {
	return "18" + strconv.FormatUint(800_000_000_000_000_000+number*256, 10)
}
