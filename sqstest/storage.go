package sqstest

// messageList is a list of messages: the visible ones of a standard queue in the order
// they became so, or those of a FIFO group in the order they were sent. Taking from the
// front, adding at the end and removing anywhere take constant time.
type messageList struct {
	first, last *message
	length      int
}

func (l *messageList) pushBack(m *message) {
	m.prev, m.next = l.last, nil
	if l.last != nil {
		l.last.next = m
	} else {
		l.first = m
	}
	l.last = m
	l.length++
}

// insertAfter adds a message behind another, nil for the front.
func (l *messageList) insertAfter(m, behind *message) {
	if behind == l.last {
		l.pushBack(m)
		return
	}
	m.prev = behind
	if behind != nil {
		m.next, behind.next = behind.next, m
	} else {
		m.next, l.first = l.first, m
	}
	m.next.prev = m
	l.length++
}

func (l *messageList) remove(m *message) {
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		l.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		l.last = m.prev
	}
	m.prev, m.next = nil, nil
	l.length--
}

// messageHeap keeps the least message at its root and knows the place of each, so that
// any can be removed in logarithmic time.
type messageHeap struct {
	items []*message
	less  func(a, b *message) bool
	slot  func(*message) *int
}

func (h *messageHeap) root() *message {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

func (h *messageHeap) push(m *message) {
	h.items = append(h.items, m)
	*h.slot(m) = len(h.items) - 1
	h.up(len(h.items) - 1)
}

func (h *messageHeap) remove(m *message) {
	at, end := *h.slot(m), len(h.items)-1
	h.swap(at, end)
	h.items[end] = nil
	h.items = h.items[:end]
	if at < end {
		h.up(at)
		h.down(at)
	}
}

func (h *messageHeap) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !h.less(h.items[at], h.items[parent]) {
			return
		}
		h.swap(at, parent)
		at = parent
	}
}

func (h *messageHeap) down(at int) {
	for {
		least := 2*at + 1
		if least >= len(h.items) {
			return
		}
		if right := least + 1; right < len(h.items) && h.less(h.items[right], h.items[least]) {
			least = right
		}
		if !h.less(h.items[least], h.items[at]) {
			return
		}
		h.swap(at, least)
		at = least
	}
}

func (h *messageHeap) swap(a, b int) {
	h.items[a], h.items[b] = h.items[b], h.items[a]
	*h.slot(h.items[a]), *h.slot(h.items[b]) = a, b
}

// newHiddenHeap orders messages by the time they become visible.
func newHiddenHeap() messageHeap {
	return messageHeap{
		less: func(a, b *message) bool {
			if a.visibleAt.Equal(b.visibleAt) {
				return a.number < b.number
			}
			return a.visibleAt.Before(b.visibleAt)
		},
		slot: func(m *message) *int { return &m.hiddenSlot },
	}
}

// newAgeHeap orders messages by the time their retention counts from. A list would not do: a
// message that comes from another queue is older than those already there.
func newAgeHeap() messageHeap {
	return messageHeap{
		less: func(a, b *message) bool { return a.enqueuedAt.Before(b.enqueuedAt) },
		slot: func(m *message) *int { return &m.ageSlot },
	}
}
