package sqstest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A FIFO queue agrees with the plain statement of its rules, whatever happens in
// whatever order: what a receive takes is the visible prefix of each group whose first
// message is among the oldest of the queue.
func TestFIFOAgreesWithItsRules(t *testing.T) {
	t.Parallel()
	s := New(t)
	q, err := s.CreateQueue("orders.fifo", map[string]string{"FifoQueue": "true"})
	require.NoError(t, err)
	const window = 12
	q.fifo.window = window
	random, now := rand.New(rand.NewPCG(3, 4)), time.Now()
	c := &call{at: now}
	var removed []*message // taken out as if to be moved, and not moved
	for range 2_000 {
		now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
		c.at = now
		q.mu.Lock()
		q.advance(now)
		switch all := messagesOf(q); random.IntN(6) {
		case 0, 1:
			id := newUUID()
			m := &message{id: id, dedupID: id, groupID: strconv.Itoa(random.IntN(6))}
			q.enqueue(c, m, time.Duration(max(0, random.IntN(5)-3))*time.Second, now)
		case 2:
			visibility := random.IntN(20)
			want := takeable(all, window)
			took := q.take(&poll{queue: q, call: c, most: 5, visibility: &visibility}, now).deliveries
			require.Len(t, took, min(5, want))
			for i, d := range took {
				if i > 0 && took[i-1].message.groupID == d.message.groupID {
					require.Less(t, took[i-1].message.number, d.message.number)
				}
			}
		case 3:
			if len(all) > 0 {
				m := all[random.IntN(len(all))]
				q.remove(m)
				removed = append(removed, m)
			}
		case 4:
			if len(removed) > 0 && len(all) < 40 {
				m := removed[len(removed)-1]
				removed = removed[:len(removed)-1]
				q.add(m, 0, now)
			}
		default:
			for _, m := range all {
				if m.state == stateInFlight && random.IntN(3) == 0 {
					q.show(m)
				}
			}
		}

		all := messagesOf(q)
		for i, m := range all {
			if (i < window) != (m.number <= q.fifo.edge.number) {
				t.Fatal("the window ends at the wrong message")
			}
		}
		require.Equal(t, min(window, len(all)), q.fifo.inside)
		visible := 0
		for _, m := range all {
			if m.state == stateVisible {
				visible++
			}
		}
		require.Equal(t, visible, q.fifo.visible)
		ready := 0
		for g := q.fifo.ready.first; g != nil; g = g.next {
			ready++
			if !g.ready {
				t.Fatal("a group in the list does not know")
			}
		}
		heads := 0
		for id, g := range q.fifo.groups {
			first := slices.IndexFunc(all, func(m *message) bool { return m.groupID == id })
			if all[first] != g.messages.first {
				t.Fatal("a group has the wrong first message")
			}
			if all[first].state == stateVisible && first < window {
				heads++
			}
		}
		require.Equal(t, heads, ready)
		q.mu.Unlock()
	}
}

func messagesOf(q *Queue) []*message {
	var all []*message
	for m := q.fifo.oldest; m != nil; m = m.newer {
		all = append(all, m)
	}
	return all
}

// takeable counts what a receive could take, by the words of the rule.
func takeable(all []*message, window int) int {
	blocked, begun, count := map[string]bool{}, map[string]bool{}, 0
	for i, m := range all {
		if m.state != stateVisible || !begun[m.groupID] && i >= window {
			blocked[m.groupID] = true
		}
		begun[m.groupID] = true
		if !blocked[m.groupID] {
			count++
		}
	}
	return count
}

func TestRecently(t *testing.T) {
	t.Parallel()
	var r recently[int, int]
	now := time.Now()
	for i := range 10_000 {
		now = now.Add(time.Second)
		r.put(i%500, i, now)
		require.LessOrEqual(t, len(r.order)-r.head, 300)
		got, ok := r.get(i%500, now)
		require.True(t, ok)
		require.Equal(t, i, got)
		if i >= 300 {
			_, ok := r.get((i-300)%500, now)
			require.False(t, ok)
			_, ok = r.get((i-299)%500, now)
			require.True(t, ok)
		}
	}
	require.LessOrEqual(t, len(r.values), 300)
	require.LessOrEqual(t, len(r.order), 1200)
}

// A FIFO queue with too many messages in flight is empty, and never an error.
func TestFIFOInFlightLimit(t *testing.T) {
	t.Parallel()
	s := New(t)
	q, err := s.CreateQueue("orders.fifo", map[string]string{"FifoQueue": "true"})
	require.NoError(t, err)
	c := &call{service: s, ctx: t.Context(), at: time.Now()}
	q.mu.Lock()
	q.enqueue(c, &message{id: "m", dedupID: "m", groupID: "g"}, 0, c.at)
	q.inFlight = maxInFlight
	q.mu.Unlock()
	got, failure := q.receive(c, &receiveMessageRequest{})
	require.Nil(t, failure)
	require.Empty(t, got)
	q.inFlight--
	got, failure = q.receive(c, &receiveMessageRequest{})
	require.Nil(t, failure)
	require.Len(t, got, 1)
}
