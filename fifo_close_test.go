package watermillsqs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// Close gives back at once what was not handed out, last first in one call a group. The
// handler at work has the grace to finish, and its ack counts. What was given back is
// there for others before that, but for the group that is still at work.
func TestFIFOCloseGivesBack(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		h.send(q, countUp("b b", 1, 4)...)
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		first := h.next(messages) // and nobody takes the other group's
		group, other := "a", "b"
		last, otherLast := countUp("", 2, 10), countUp("b", 1, 4)
		if groupOf(first) == "b" {
			group, other = "b", "a"
			last, otherLast = countUp("b", 2, 4), countUp("", 1, 10)
		}
		time.Sleep(time.Second)
		closed := make(chan time.Time, 1)
		start := time.Now()
		go func() {
			assert.NoError(t, sub.Close())
			closed <- time.Now()
		}()
		time.Sleep(2500 * time.Millisecond)
		given := make(map[string][]string)
		for _, call := range h.changeCalls(-1) {
			assert.LessOrEqual(t, call.At.Sub(start), 2*time.Second, "when the polls under way have ended")
			bodies := h.calledBodies(call)
			given[h.service.History(call.MessageIDs[0]).GroupID] = bodies
			for _, seconds := range call.VisibilityTimeouts {
				assert.Zero(t, seconds)
			}
		}
		assert.Equal(t, map[string][]string{group: backward(last), other: backward(otherLast)}, given)
		assert.Equal(t, 1, q.InFlight())
		assert.NoError(t, first.Context().Err())
		time.Sleep(5 * time.Second)
		first.Ack()
		assert.Equal(t, time.Now(), <-closed)
		assert.Equal(t, 13, q.Len())
		q.AssertSettled(t)
		_, open := <-messages
		assert.False(t, open)

		// All of it comes again in order.
		_, messages = h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		crew := h.employ(messages, func(*message.Message) error { return nil })
		crew.until(13)
		assert.Equal(t, last, crew.handedOf(group))
		assert.Equal(t, otherLast, crew.handedOf(other))
		assert.Len(t, crew.handed, 2)
	})
}

func backward(list []string) (backward []string) {
	for _, s := range list {
		backward = append([]string{s}, backward...)
	}
	return backward
}

// A handler that needs longer than the grace is cancelled; what it says within a second
// counts, and otherwise its message is left as it is. No other message of the group is
// handed out meanwhile.
func TestFIFOCloseOverTheGrace(t *testing.T) {
	for _, test := range []struct {
		after  time.Duration // after its context has ended
		ack    bool
		settle int // changes and deletes of the head
		left   int
	}{
		{500 * time.Millisecond, true, 1, 9},
		{500 * time.Millisecond, false, 1, 10},
		{2 * time.Second, true, 0, 10},
	} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", nil)
			h.send(q, countUp("a ", 1, 10)...)
			sub, messages := h.subscribe(watermillsqs.SubscriberConfig{CloseTimeout: 3 * time.Second}, "orders.fifo")
			h.employ(messages, func(msg *message.Message) error {
				assert.Equal(t, "1", string(msg.Payload))
				<-msg.Context().Done()
				assert.ErrorIs(t, context.Cause(msg.Context()), watermillsqs.ErrClosed)
				time.Sleep(test.after)
				if !test.ack {
					return errHandler
				}
				return nil
			})
			synctest.Wait()
			start := time.Now()
			require.NoError(t, sub.Close())
			assert.Equal(t, 3*time.Second+min(test.after, time.Second), time.Since(start))
			assert.Equal(t, test.left, q.Len())
			assert.Equal(t, 1-test.settle, q.InFlight())
			assert.Equal(t, countUp("", 1, 10)[10-test.left:], bodies(q))
			time.Sleep(2 * time.Second) // the handler ends
		})
	}
}

// A poll that is abandoned when the subscription ends is asked once more with the same
// attempt id: the messages whose answer was lost are given back, last first, instead of
// being invisible for a visibility timeout.
func TestFIFOCloseAbandonsAPoll(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", map[string]string{"VisibilityTimeout": "600"})
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.HangAfter()})
		sub, _ := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		time.Sleep(time.Second)
		h.send(q, countUp("a ", 1, 10)...)
		time.Sleep(time.Second)
		require.Equal(t, 10, q.InFlight())
		start := time.Now()
		require.NoError(t, sub.Close())
		assert.Equal(t, time.Second, time.Since(start))
		calls := h.service.Calls("ReceiveMessage")
		require.Len(t, calls, 2)
		assert.Equal(t, attemptID(t, calls[0]), attemptID(t, calls[1]))
		assert.Equal(t, 10, q.Visible())
		require.Len(t, h.changeCalls(-1), 1)
		assert.Equal(t, backward(countUp("", 1, 10)), h.calledBodies(h.changeCalls(-1)[0]))
		for _, body := range countUp("", 1, 10) {
			h.service.AssertReceived(t, body, 1)
		}
	})
}

// An idle poll is abandoned after a second, and what is sent then is left alone: the
// repeated receive does not wait for it.
func TestFIFOCloseWhileIdle(t *testing.T) {
	for _, gone := range []bool{false, true} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", map[string]string{"VisibilityTimeout": "600"})
			if gone { // the service goes on with the poll that its client has left
				h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.TakeWhenGone()})
			}
			sub, _ := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			time.Sleep(time.Second)
			start := time.Now()
			time.AfterFunc(1500*time.Millisecond, func() { h.send(q, countUp("a ", 1, 10)...) })
			require.NoError(t, sub.Close())
			assert.LessOrEqual(t, time.Since(start), 3*time.Second)
			time.Sleep(2 * time.Second)
			assert.Equal(t, 10, q.Len())
			assert.Equal(t, 10, q.Visible(), "nothing is invisible that nobody has")
		})
	}
}

// Deletes that wait for those of their followers leave when the subscription ends, also
// where one of the group is at work.
func TestFIFOCloseFlushesDeletes(t *testing.T) {
	for _, working := range []bool{false, true} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", nil)
			h.send(q, countUp("a ", 1, 10)...)
			sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			for range 4 {
				h.next(messages).Ack()
			}
			given := 5
			if working {
				fifth := h.next(messages)
				time.AfterFunc(5*time.Second, func() { fifth.Ack() })
				given = 6
			}
			synctest.Wait()
			require.Empty(t, h.deleteCalls())
			start := time.Now()
			require.NoError(t, sub.Close())
			assert.Equal(t, countUp("", 1, 4), h.calledBodies(h.deleteCalls()[0]))
			assert.Equal(t, start, h.deleteCalls()[0].At)
			assert.Equal(t, countUp("", given, 10), bodies(q))
			q.AssertSettled(t)
			assert.Equal(t, backward(countUp("", given, 10)), h.calledBodies(h.changeCalls(-1)[0]))
		})
	}
}

// What a poll under way still brings of a group that is at work does not wait for it: an
// acked message is deleted at once.
func TestFIFOCloseReceivesAnAckedMessage(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", map[string]string{"VisibilityTimeout": "4"})
		h.send(q, countUp("a ", 1, 2)...)
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		fault := h.service.Inject(sqstest.Fault{Message: bodyIs("1"), Action: "DeleteMessageBatch", Effect: sqstest.Error(403, "AccessDenied", "")})
		one := h.service.Inject(sqstest.Fault{Message: bodyIs("1"), Action: "DeleteMessage", Effect: sqstest.Error(403, "AccessDenied", "")})
		start := time.Now()
		h.next(messages).Ack()
		second := h.next(messages)
		time.Sleep(3500 * time.Millisecond)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			assert.NoError(t, sub.Close())
		}()
		time.Sleep(490 * time.Millisecond)
		fault.Remove()
		one.Remove()
		time.Sleep(3 * time.Second)
		h.service.AssertReceived(t, "1", 2)
		assert.Equal(t, []string{"2"}, bodies(q))
		assert.Equal(t, start.Add(4*time.Second), h.service.Histories("1")[0].Of(sqstest.EventDeleted)[0].At)
		second.Ack()
		<-closed
		q.AssertEmpty(t)
	})
}

// Close, the end of Subscribe's context and the close of the connection end a subscription
// that nobody reads from.
func TestFIFOCloseWithNobodyReading(t *testing.T) {
	for i := range 3 {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", nil)
			for group := range 20 {
				h.send(q, countUp(fmt.Sprintf("%d %d-", group, group), 1, 3)...)
			}
			sub := h.subscriber(watermillsqs.SubscriberConfig{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			messages, err := sub.Subscribe(ctx, "orders.fifo")
			require.NoError(t, err)
			time.Sleep(time.Minute)
			start := time.Now()
			switch i {
			case 0:
				require.NoError(t, sub.Close())
			case 1:
				cancel()
			case 2:
				require.NoError(t, h.conn.Close())
			}
			h.log.await("Subscription closed")
			assert.LessOrEqual(t, time.Since(start), time.Second)
			_, open := <-messages
			assert.False(t, open)
			assert.Equal(t, 60, q.Visible())
			q.AssertSettled(t)
		})
	}
}

// Subscriptions that open and close all the time, several of them at a time, leave no
// goroutine (synctest) and lose nothing, and each message is handled once and in order.
func TestFIFOManyCloses(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		for group := range 5 {
			h.send(q, countUp(fmt.Sprintf("%d %d-", group, group), 1, 40)...)
		}
		crew := h.employ(nil, nil)
		var consumers sync.WaitGroup
		for n := range 3 {
			consumers.Go(func() {
				for round := 0; q.Len() > 0; round++ {
					sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1 + (n+round)%4}, "orders.fifo")
					time.AfterFunc(time.Duration(150+70*n)*time.Millisecond, func() { assert.NoError(t, sub.Close()) })
					crew.serve(messages, func(*message.Message) error { time.Sleep(20 * time.Millisecond); return nil })
					require.Less(t, round, 1000)
				}
			})
		}
		consumers.Wait()
		for group := range 5 {
			assert.Equal(t, countUp(fmt.Sprintf("%d-", group), 1, 40), crew.handedOf(fmt.Sprint(group)))
		}
		q.AssertEmpty(t)
	})
}
