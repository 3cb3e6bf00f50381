package sqstest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Messages on their way to a dead-letter queue that is deleted meanwhile go back.
func TestDeadLetterQueueDeletedOnTheWay(t *testing.T) {
	t.Parallel()
	s := New(t)
	dead, err := s.CreateQueue("dead", nil)
	require.NoError(t, err)
	q, err := s.CreateQueue("orders", map[string]string{
		"VisibilityTimeout": "0", "RedrivePolicy": `{"deadLetterTargetArn":"` + dead.ARN() + `","maxReceiveCount":1}`,
	})
	require.NoError(t, err)
	Fill(q, 3)
	require.Len(t, TakeAll(q), 3)

	now := time.Now()
	q.mu.Lock()
	took := q.take(&poll{queue: q, call: &call{at: now, ctx: context.Background()}, most: 10}, now)
	q.mu.Unlock()
	require.Len(t, took.poison, 3)
	require.Zero(t, q.Len())
	require.True(t, s.registry.remove(dead, now))
	dead.delete()
	took.moveTo(q, now)
	require.Equal(t, 3, q.Visible())
	require.Len(t, TakeAll(q), 3)
}

// The structures of a queue agree with each other whatever happens in whatever order.
func TestStorageStaysConsistent(t *testing.T) {
	t.Parallel()
	s := New(t)
	q, err := s.CreateQueue("orders", nil)
	require.NoError(t, err)
	random, now, c := rand.New(rand.NewPCG(1, 2)), time.Now(), &call{}
	var sent []*message
	for range 2_000 {
		now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
		q.mu.Lock()
		q.advance(now)
		switch random.IntN(4) {
		case 0:
			m := &message{id: "m", body: "x"}
			q.enqueue(c, m, time.Duration(random.IntN(5))*time.Second, now)
			sent = append(sent, m)
		case 1:
			if m := q.visible.first; m != nil {
				q.hide(m, now.Add(time.Duration(random.IntN(20))*time.Second))
			}
		default:
			if len(sent) == 0 {
				break
			}
			i := random.IntN(len(sent))
			m := sent[i]
			switch {
			case q.byNumber[m.number] == nil:
				sent[i] = sent[len(sent)-1]
				sent = sent[:len(sent)-1]
			case random.IntN(2) == 0 && m.state == stateInFlight:
				q.show(m)
			default:
				q.remove(m)
			}
		}

		inFlight, delayed, listed := 0, 0, 0
		for at, m := range q.hidden.items {
			if at != m.hiddenSlot || at > 0 && q.hidden.less(m, q.hidden.items[(at-1)/2]) {
				t.Fatal("the heap of hidden messages is broken at", at)
			}
			if m.state == stateInFlight {
				inFlight++
			} else {
				delayed++
			}
		}
		for m := q.visible.first; m != nil; m = m.next {
			listed++
			if m.state != stateVisible || m.next == nil && q.visible.last != m {
				t.Fatal("the list of visible messages is broken after", listed)
			}
		}
		for at, m := range q.byAge.items {
			if at != m.ageSlot || at > 0 && q.byAge.less(m, q.byAge.items[(at-1)/2]) {
				t.Fatal("the heap by age is broken at", at)
			}
		}
		require.Equal(t, []int{q.inFlight, q.delayed, q.visible.length}, []int{inFlight, delayed, listed})
		require.Len(t, q.byNumber, inFlight+delayed+listed)
		require.Len(t, q.byAge.items, len(q.byNumber))
		q.mu.Unlock()
	}
}

func TestReceiptsRoundTrip(t *testing.T) {
	t.Parallel()
	c := New(t).receipts
	r := receipt{queue: 7, message: 1 << 40, serial: 3, receivedAt: time.Unix(0, 12345)}
	handle := c.encode(r)
	got, ok := c.decode(handle)
	require.True(t, ok)
	require.Equal(t, r, got)
	for at := range len(handle) {
		changed := []byte(handle)
		changed[at] ^= 1
		_, ok := c.decode(string(changed))
		require.False(t, ok, "%s", changed)
	}
}
