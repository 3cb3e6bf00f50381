package sqstest

import (
	"encoding/base64"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxMoveRate   = 500 // messages a second, also where a task gives no rate
	maxMovesShown = 10
)

// Statuses of move tasks.
const (
	taskRunning   = "RUNNING"
	taskCompleted = "COMPLETED"
	taskCancelled = "CANCELLED"
	taskFailed    = "FAILED"
)

// Why a task fails.
const (
	noDestination   = "AWS.SimpleQueueService.NonExistentQueue"
	noMessageSource = "CouldNotDetermineMessageSource"
)

// moveTask moves the messages of a dead-letter queue, one after the other at its rate.
// Nothing runs in the background: whoever looks at queues first moves what is due by then.
type moveTask struct {
	id          string
	source      *Queue
	destination string // ARN, "" for where each message came from
	rate        *int   // nil if none was given
	started     time.Time
	toMove      int

	moved   int
	status  string
	failure string
}

// next is when the task has its next message to move.
func (m *moveTask) next() time.Time {
	rate := maxMoveRate
	if m.rate != nil {
		rate = *m.rate
	}
	return m.started.Add(time.Duration(m.moved) * time.Second / time.Duration(rate))
}

func (m *moveTask) handle() string {
	text := marshal(map[string]string{"taskId": m.id, "sourceArn": m.source.ARN()})
	return base64.StdEncoding.EncodeToString(text)
}

// moveTasks are the tasks of a service, oldest first.
type moveTasks struct {
	running atomic.Int32 // lets those who look at queues pass when there is nothing to move

	mu  sync.Mutex // guards what follows; the mutexes of queues are taken while it is held
	all []*moveTask
}

// progress moves what is due by now.
func (s *Service) progress(now time.Time) {
	if s.moves.running.Load() == 0 {
		return
	}
	s.moves.mu.Lock()
	defer s.moves.mu.Unlock()
	for {
		var first *moveTask // with the earliest message to move
		for _, m := range s.moves.all {
			if m.status == taskRunning && !m.next().After(now) && (first == nil || m.next().Before(first.next())) {
				first = m
			}
		}
		if first == nil {
			return
		}
		s.step(first)
	}
}

// nextMove is when a task has its next message to move; the zero time if none does.
func (s *Service) nextMove() (next time.Time) {
	if s.moves.running.Load() == 0 {
		return next
	}
	s.moves.mu.Lock()
	defer s.moves.mu.Unlock()
	for _, m := range s.moves.all {
		if m.status == taskRunning && (next.IsZero() || m.next().Before(next)) {
			next = m.next()
		}
	}
	return next
}

// step moves one message of a task, or ends it when its queue has none that is visible.
func (s *Service) step(m *moveTask) {
	now := m.next()
	moving, ok := m.source.takeForMove(now)
	if !ok {
		s.end(m, taskFailed, noDestination)
		return
	}
	if moving == nil {
		s.end(m, taskCompleted, "")
		return
	}
	arn := m.destination
	if arn == "" {
		arn = moving.sourceARN
	}
	if arn == "" {
		m.source.putBack(moving, now)
		s.end(m, taskFailed, noMessageSource)
		return
	}
	if target := s.queueByARN(arn); target == nil || !target.acceptMoved(moving, m.source, now) {
		m.source.putBack(moving, now)
		s.end(m, taskFailed, noDestination)
		return
	}
	m.moved++
	if m.moved >= m.toMove && m.source.visibleBy(now) == 0 {
		s.end(m, taskCompleted, "")
	}
}

func (s *Service) end(m *moveTask, status, failure string) {
	m.status, m.failure = status, failure
	s.moves.running.Add(-1)
}

// takeForMove takes the message out that a receive would have returned first. It reports
// false when the queue is gone.
func (q *Queue) takeForMove(now time.Time) (*message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil, false
	}
	q.advance(now)
	m := q.following(nil)
	if m != nil {
		q.remove(m)
	}
	return m, true
}

// visibleBy is how many messages are visible at a time.
func (q *Queue) visibleBy(now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(now)
	return q.visibleCount()
}

// putBack returns a message that could not be moved.
func (q *Queue) putBack(m *message, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.deleted {
		q.add(m, 0, now)
		q.wakeNext()
	}
}

// acceptMoved takes over a message that another queue has given up. It is a new message
// with the content of the old one (sqs-facts 8). It reports false when the queue is gone,
// or of the other kind.
func (q *Queue) acceptMoved(old *message, source *Queue, now time.Time) bool {
	if (q.fifo != nil) != (old.dedupID != "") {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return false
	}
	q.advance(now)
	m := &message{
		number:      q.service.messageNumber.Add(1),
		id:          newUUID(),
		body:        old.body,
		bodyMD5:     old.bodyMD5,
		attributes:  old.attributes,
		attrsMD5:    old.attrsMD5,
		traceHeader: old.traceHeader,
		groupID:     old.groupID,
		dedupID:     old.dedupID,
		sentAt:      now,
		enqueuedAt:  now,
	}
	q.service.history.begin(m)
	m.history.add(event{at: now, kind: sent, queue: q, detail: "by a move task, was " + old.id})
	old.history.add(event{at: now, kind: moved, queue: source, detail: "to " + q.name + " as " + m.id})
	q.add(m, 0, now)
	q.wakeNext()
	return true
}
