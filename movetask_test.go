package watermillsqs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// deadLetters makes a queue with n messages in its dead-letter queue.
func (h *harness) deadLetters(n int) (q, dead *sqstest.Queue) {
	h.t.Helper()
	dead = h.queue("dead", nil)
	q = h.queue("orders", map[string]string{"RedrivePolicy": redrivePolicy(dead, 1)})
	for range n {
		h.publish("orders", "x")
	}
	sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: n}, "orders")
	for range n {
		h.next(messages).Nack()
	}
	h.none(messages, time.Minute)
	require.NoError(h.t, sub.Close())
	require.Equal(h.t, n, dead.Len())
	return q, dead
}

// A redrive moves everything back, and says how far it is.
func TestRedrive(t *testing.T) {
	for _, topic := range []string{"dead", "arn:aws:sqs:us-east-1:000000000000:dead"} {
		bubble(t, func(t *testing.T, h *harness) {
			q, dead := h.deadLetters(20)
			redrive, err := h.conn.StartRedrive(t.Context(), topic, watermillsqs.RedriveConfig{MaxPerSecond: 5})
			require.NoError(t, err)
			var moved []int64
			for progress, err := range redrive.Watch(t.Context(), time.Second) {
				require.NoError(t, err)
				assert.Equal(t, int64(20), progress.Total)
				moved = append(moved, progress.Moved)
				if progress.Status.Ended() {
					assert.Equal(t, watermillsqs.RedriveCompleted, progress.Status)
				}
			}
			assert.GreaterOrEqual(t, len(moved), 4)
			assert.IsNonDecreasing(t, moved)
			assert.Equal(t, int64(20), moved[len(moved)-1])
			assert.Equal(t, 20, q.Len())
			assert.Equal(t, 0, dead.Len())
		})
	}
}

func TestRedriveToAnotherQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.deadLetters(3)
		other := h.queue("other", nil)
		redrive, err := h.conn.StartRedrive(t.Context(), "dead", watermillsqs.RedriveConfig{Destination: "other"})
		require.NoError(t, err)
		for _, err := range redrive.Watch(t.Context(), time.Second) {
			require.NoError(t, err)
		}
		assert.Equal(t, 3, other.Len())
	})
}

// What had been moved when a redrive is cancelled stays where it is.
func TestRedriveCancel(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q, dead := h.deadLetters(20)
		redrive, err := h.conn.StartRedrive(t.Context(), "dead", watermillsqs.RedriveConfig{MaxPerSecond: 1})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		moved, err := redrive.Cancel(t.Context())
		require.NoError(t, err)
		assert.Positive(t, moved)
		time.Sleep(time.Minute)
		assert.Equal(t, int(moved), q.Len())
		assert.Equal(t, 20, q.Len()+dead.Len())
		progress, err := redrive.Progress(t.Context())
		require.NoError(t, err)
		assert.Equal(t, watermillsqs.RedriveCancelled, progress.Status)
		_, err = redrive.Cancel(t.Context())
		assert.Error(t, err)
	})
}

// Watching ends with its context, or by breaking out of the loop; the redrive goes on.
func TestRedriveWatchEnds(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q, _ := h.deadLetters(20)
		redrive, err := h.conn.StartRedrive(t.Context(), "dead", watermillsqs.RedriveConfig{MaxPerSecond: 1})
		require.NoError(t, err)
		for range redrive.Watch(t.Context(), time.Second) {
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var last error
		for _, err := range redrive.Watch(ctx, time.Second) {
			last = err
		}
		assert.ErrorIs(t, last, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		assert.Equal(t, 20, q.Len())
	})
}

func TestRedriveIsRefusedOrFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		for _, rate := range []int{-1, 501} {
			_, err := h.conn.StartRedrive(t.Context(), "orders", watermillsqs.RedriveConfig{MaxPerSecond: rate})
			assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
		}
		_, err := h.conn.StartRedrive(t.Context(), "", watermillsqs.RedriveConfig{})
		assert.ErrorIs(t, err, watermillsqs.ErrInvalidQueue)
		_, err = h.conn.StartRedrive(t.Context(), "orders", watermillsqs.RedriveConfig{})
		assert.ErrorContains(t, err, `start the redrive of "orders"`)
		_, err = watermillsqs.NewConnection(watermillsqs.Config{}).StartRedrive(t.Context(), "orders", watermillsqs.RedriveConfig{})
		assert.ErrorIs(t, err, watermillsqs.ErrNotConnected)
	})
	bubble(t, func(t *testing.T, h *harness) {
		h.deadLetters(3)
		redrive, err := h.conn.StartRedrive(t.Context(), "dead", watermillsqs.RedriveConfig{MaxPerSecond: 1})
		require.NoError(t, err)
		h.deleteQueue("orders") // there is nowhere to go back to
		var last error
		for _, err := range redrive.Watch(t.Context(), time.Second) {
			last = err
		}
		assert.ErrorContains(t, last, "redrive failed")
	})
}
