package watermillsqs

import (
	"sync"
	"time"
)

const (
	// wideWait is how long a receive of several messages may wait while deliveries are
	// in hand, so that a retry never waits longer for it.
	wideWait = time.Second

	// wideMargin is how much earlier than a head may be visible it is over: it takes its
	// time, and the SDK may repeat it.
	wideMargin = time.Second

	// suspectTime is for how long a head that came back is taken to fail again.
	suspectTime = 5 * time.Second
)

// retriedHeads are the messages of a FIFO queue that have been given back. The messages
// behind such a head come back with it in one receive, and for all of them it counts: a
// head that keeps failing would take its healthy followers to the dead-letter queue. So,
// where there is a redrive policy,
//
//   - from the moment at which a retried head may be visible until it is received
//     again, receives ask for one message;
//   - a receive of several messages is answered before a head becomes visible: while
//     anything is in hand that may be retried, it waits for a second at most, and a
//     retry waits for those under way;
//   - for the first seconds after a head came back, while it is in hand, no receive of
//     several messages begins, so that another retry finds none to wait for;
//   - the first message after it is asked for alone, too: if it fails as well, nothing has
//     been received with it.
type retriedHeads struct {
	visibility time.Duration

	mu    sync.Mutex              // guards what follows
	out   map[string]*retriedHead // by group
	back  map[*delivery]time.Time // when those came back that are in hand again
	alone bool                    // nothing has been received since the last of out was over
}

type retriedHead struct {
	id        string
	visibleAt time.Time
	// forgetAt is when another consumer is taken to have it.
	forgetAt time.Time
	changed  bool // the change that makes it visible has been answered
}

func newRetriedHeads(visibility time.Duration) *retriedHeads {
	return &retriedHeads{visibility: visibility, out: make(map[string]*retriedHead), back: make(map[*delivery]time.Time)}
}

// retried enters a head that may be visible after d. changed is to be called when the
// change of its visibility has been answered.
func (h *retriedHeads) retried(id, group string, d time.Duration) (changed func()) {
	visibleAt := time.Now().Add(d)
	head := &retriedHead{id: id, visibleAt: visibleAt, forgetAt: visibleAt.Add(h.visibility)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out[group] = head
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		head.changed, head.visibleAt = true, time.Now().Add(d)
	}
}

// received is told of every message that has come, with the delivery that is its, nil if
// there is none: it is the head of its group, or the head is not in its way any more.
func (h *retriedHeads) received(d *delivery, id, group string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if head := h.out[group]; head != nil {
		h.over(group)
		if head.id == id && d != nil {
			h.back[d] = time.Now()
		}
	}
}

// decided is told of every delivery that was in hand; its message may be again by then.
func (h *retriedHeads) decided(d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.back, d)
}

// nothingThere is told of a receive that began at a time and came back empty: heads
// that were visible then have gone elsewhere.
func (h *retriedHeads) nothingThere(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for group, head := range h.out {
		if head.changed && head.visibleAt.Before(began) {
			h.over(group)
		}
	}
}

// over is for a head that is not out any more. The mutex is held.
func (h *retriedHeads) over(group string) {
	delete(h.out, group)
	h.alone = true
}

// answered is told of every receive that brought something, before received is told what.
func (h *retriedHeads) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alone = false
}

// shape fits a receive to the heads that are out: how many messages it may ask for, and
// how long it may wait. busy says that something is in hand, or may be before it is
// answered; backlog that there were enough messages last time.
func (h *retriedHeads) shape(ask int, wait time.Duration, busy, backlog bool) (int, time.Duration) {
	atMost := wait
	if busy {
		atMost = min(wait, wideWait)
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for group, head := range h.out {
		if now.After(head.forgetAt) {
			h.over(group)
			continue
		}
		atMost = min(atMost, wideWait, head.visibleAt.Sub(now)-wideMargin)
	}
	for _, came := range h.back {
		if now.Sub(came) < suspectTime {
			return 1, wait
		}
	}
	if ask == 1 || h.alone || atMost < wideWait || busy && !backlog {
		// (Without a backlog it has to wait for a message anyway, so it may as well wait for one.)
		return 1, wait
	}
	return ask, atMost
}
