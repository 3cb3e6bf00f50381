package sqstest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reporter is the part of [testing.TB] that assertions need.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// AssertEmpty fails the test if the queue holds a message, visible or not.
func (q *Queue) AssertEmpty(t Reporter) {
	t.Helper()
	if q.isMissing(t) {
		return
	}
	if messages := q.Messages(); len(messages) > 0 {
		t.Errorf("queue %s should be empty, it holds %s", q.name, q.tell(messages))
	}
}

// AssertSettled fails the test if a message of the queue is in flight: whoever received
// it has neither deleted it nor given it back.
func (q *Queue) AssertSettled(t Reporter) {
	t.Helper()
	if q.isMissing(t) {
		return
	}
	var held []MessageView
	for _, m := range q.Messages() {
		if m.InFlight {
			held = append(held, m)
		}
	}
	if len(held) > 0 {
		t.Errorf("queue %s should have nothing in flight, it has %s", q.name, q.tell(held))
	}
}

// AssertBodies fails the test unless the queue holds messages with these bodies and no
// others, in the order they were sent. It is how a test looks into a dead-letter queue.
func (q *Queue) AssertBodies(t Reporter, bodies ...string) {
	t.Helper()
	if q.isMissing(t) {
		return
	}
	messages := q.Messages()
	got := make([]string, len(messages))
	for i, m := range messages {
		got[i] = m.Body
	}
	if !slices.Equal(got, bodies) {
		t.Errorf("queue %s should hold the messages %q, it holds %s", q.name, bodies, q.tell(messages))
	}
}

// isMissing fails the test where [Service.Queue] has found no queue.
func (q *Queue) isMissing(t Reporter) bool {
	t.Helper()
	if q == nil {
		t.Errorf("there is no such queue")
	}
	return q == nil
}

// tell shows messages with what has happened to them.
func (q *Queue) tell(messages []MessageView) string {
	if len(messages) == 0 {
		return "none"
	}
	const most = 10
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", len(messages))
	for _, m := range messages[:min(most, len(messages))] {
		b.WriteByte('\n')
		b.WriteString(q.service.History(m.ID).String())
	}
	if len(messages) > most {
		b.WriteString("\n…")
	}
	return b.String()
}

// AssertReceived fails the test unless the messages with a body were received so many
// times in all, wherever they were. The moves to dead-letter queues do not count.
func (s *Service) AssertReceived(t Reporter, body string, times int) {
	t.Helper()
	got := 0
	histories := s.Histories(body)
	for _, h := range histories {
		got += len(h.Of(EventReceived))
	}
	if got != times {
		t.Errorf("the message %q should have been received %d times, it was %d times%s", body, times, got, tellAll(histories))
	}
}

// AssertPauses fails the test unless the message with a body was received once more often
// than there are pauses, with just these pauses between the receives. In a synctest
// bubble, for which it is meant, they are exact; each may be up to a second longer.
func (s *Service) AssertPauses(t Reporter, body string, pauses ...time.Duration) {
	t.Helper()
	histories := s.Histories(body)
	var receives []Event
	for _, h := range histories {
		receives = append(receives, h.Of(EventReceived)...)
	}
	got := []time.Duration{}
	for i := 1; i < len(receives); i++ {
		got = append(got, receives[i].At.Sub(receives[i-1].At))
	}
	same := len(receives) > 0 && slices.EqualFunc(got, pauses, func(g, want time.Duration) bool { return g >= want && g < want+time.Second })
	if !same {
		t.Errorf("the message %q should have been received with the pauses %v, it was with %v%s", body, pauses, got, tellAll(histories))
	}
}

func tellAll(histories []History) string {
	var b strings.Builder
	for _, h := range histories {
		b.WriteByte('\n')
		b.WriteString(h.String())
	}
	return b.String()
}
