package watermillsqs_test

import (
	"context"
	"errors"
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

// routerEnd is one of the ways in which a router ends a handler.
type routerEnd struct {
	name string
	end  func(router *message.Router, cancelRun context.CancelFunc, handler *message.Handler)
}

var routerEnds = []routerEnd{
	{"Router.Close", func(r *message.Router, _ context.CancelFunc, _ *message.Handler) { go func() { _ = r.Close() }() }},
	// Watermill never calls Close on the subscriber then.
	{"Run's context", func(_ *message.Router, cancel context.CancelFunc, _ *message.Handler) { cancel() }},
	{"Handler.Stop", func(_ *message.Router, _ context.CancelFunc, h *message.Handler) { h.Stop() }},
}

// A handler that is half-way when the router closes finishes: what it produced is
// published, its delivery deleted, and nothing is delivered again. The publisher is
// shared with a handler that is idle and therefore stops, and closes the publisher,
// at once.
func TestRouterCloseFinishesHandlers(t *testing.T) {
	for _, how := range routerEnds {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			realTime(t, func(t *testing.T, h *harness) {
				in, idle, out := h.queue("in", nil), h.queue("idle", nil), h.queue("out", nil)
				h.publish("in", "order")
				router, err := message.NewRouter(message.RouterConfig{}, h.log)
				require.NoError(t, err)
				pub := h.publisher(watermillsqs.PublisherConfig{})
				sub := h.subscriber(watermillsqs.SubscriberConfig{})

				started, proceed := make(chan struct{}), make(chan struct{})
				var ctxErr error
				busy := router.AddHandler("busy", "in", sub, "out", pub, func(msg *message.Message) ([]*message.Message, error) {
					close(started)
					<-proceed
					ctxErr = msg.Context().Err()
					return []*message.Message{message.NewMessage("produced", []byte("invoice"))}, nil
				})
				other := router.AddHandler("idle", "idle", sub, "out", pub, func(*message.Message) ([]*message.Message, error) {
					return nil, errors.New("nothing is sent here")
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ran := make(chan error, 1)
				go func() { ran <- router.Run(ctx) }()
				<-started
				<-router.Running()
				how.end(router, cancel, busy)
				if how.name == "Handler.Stop" {
					other.Stop()
				}
				// The idle handler's channel is closed, and with it the publisher.
				h.log.await("Subscription closed")
				h.log.await("Publisher closed")
				close(proceed)
				require.NoError(t, <-ran)

				assert.NoError(t, ctxErr, "the context of the message lives while the handler runs")
				assert.Equal(t, 1, out.Len(), "what the handler produced is published")
				assert.Equal(t, 0, in.Len(), "the delivery is deleted")
				assert.Equal(t, 1, h.deletes())
				assert.Empty(t, h.changes())
				assert.Equal(t, 0, in.InFlight()+idle.InFlight())
			})
		})
	}
}

// await returns when an entry has been written that contains text.
func (l *capturedLog) await(text string) {
	for {
		l.mu.Lock()
		more := l.more
		l.mu.Unlock()
		if len(l.matching(text)) > 0 {
			return
		}
		<-more
	}
}

// Whenever a verdict comes, it counts until a second after the contexts of the
// messages were cancelled.
func TestRouterVerdictDuringClose(t *testing.T) {
	within := func(h *harness, _ *message.Message) { h.log.await("Closing the subscription") }
	cancelled := func(_ *harness, msg *message.Message) { <-msg.Context().Done() }
	tooLate := func(h *harness, _ *message.Message) { h.log.await("Message left unfinished") }
	for _, how := range routerEnds {
		for _, test := range []struct {
			name    string
			wait    func(h *harness, msg *message.Message)
			cause   error // what the handler sees
			fail    bool
			deletes int
			changes []int32
		}{
			{"ack within the grace", within, nil, false, 1, nil},
			{"ack after the cancel", cancelled, watermillsqs.ErrClosed, false, 1, nil},
			{"nack within the grace", within, nil, true, 0, []int32{60}},
			{"nack after the cancel", cancelled, watermillsqs.ErrClosed, true, 0, []int32{0}},
			{"too late", tooLate, watermillsqs.ErrClosed, false, 0, nil},
		} {
			t.Run(how.name+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				realTime(t, func(t *testing.T, h *harness) {
					q := h.queue("in", nil)
					h.publish("in", "order")
					router, err := message.NewRouter(message.RouterConfig{}, h.log)
					require.NoError(t, err)
					closeTimeout := 5 * time.Second
					if test.cause != nil {
						closeTimeout = 100 * time.Millisecond
					}
					sub := h.subscriber(watermillsqs.SubscriberConfig{
						CloseTimeout: closeTimeout,
						Backoff:      func(int) time.Duration { return time.Minute },
					})
					started := make(chan struct{})
					var cause error
					handler := router.AddConsumerHandler("h", "in", sub, func(msg *message.Message) error {
						close(started)
						test.wait(h, msg)
						cause = context.Cause(msg.Context())
						if test.fail {
							return errors.New("failed")
						}
						return nil
					})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					ran := make(chan error, 1)
					go func() { ran <- router.Run(ctx) }()
					<-started
					<-router.Running()
					how.end(router, cancel, handler)
					require.NoError(t, <-ran)

					assert.Equal(t, test.deletes, h.deletes())
					assert.Equal(t, test.changes, h.changes())
					assert.ErrorIs(t, cause, test.cause)
					require.Len(t, h.settled(), 1)
					if test.name == "too late" {
						assert.Equal(t, 1, q.InFlight(), "unfinished: no call, back when the lease ends")
						assert.Equal(t, watermillsqs.Unfinished, h.settled()[0].Outcome)
						assert.ErrorIs(t, h.settled()[0].Err, watermillsqs.ErrClosed)
					} else if test.changes == nil || test.changes[0] == 0 {
						assert.Equal(t, 0, q.InFlight())
					}
				})
			})
		}
	}
}

// To the instant: verdicts count until a second after the grace is over.
func TestVerdictInstants(t *testing.T) {
	const grace = 4 * time.Second
	for _, test := range []struct {
		after   time.Duration
		deletes int
	}{
		{0, 1},
		{grace - 1, 1},
		{grace, 1},
		{grace + 1, 1},
		{grace + time.Second - 1, 1},
		{grace + time.Second + 1, 0},
	} {
		t.Run(test.after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("in", nil)
				h.publish("in", "order")
				sub, messages := h.subscribe(watermillsqs.SubscriberConfig{CloseTimeout: grace}, "in")
				msg := h.next(messages)
				go func() {
					time.Sleep(test.after)
					msg.Ack()
				}()
				require.NoError(t, sub.Close())
				assert.Equal(t, test.deletes, h.deletes())
				assert.Equal(t, 1-test.deletes, q.InFlight())
				// Wrappers that wait for a verdict end either way.
				if test.deletes == 0 {
					<-msg.Nacked()
					// It returns when its lease ends, and not before.
					_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
					h.none(messages, 20*time.Second)
					h.next(messages).Ack()
				}
			})
		})
	}
}

// A message that nobody took from the channel is visible again when Close returns,
// and has not been received once more by ourselves.
func TestCloseGivesBackWhatNobodyRead(t *testing.T) {
	for _, count := range []int{1, 10, 25} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("in", nil)
				for range count {
					h.publish("in", "order")
				}
				sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 30}, "in")
				synctest.Wait()
				require.Equal(t, count, q.InFlight())
				start := time.Now()
				require.NoError(t, sub.Close())
				assert.LessOrEqual(t, time.Since(start), time.Second)
				_, open := <-messages
				assert.False(t, open)
				assert.Equal(t, count, q.Visible())
				for _, msg := range q.Messages() {
					assert.Equal(t, 1, msg.ReceiveCount)
				}
				for _, settled := range h.settled() {
					assert.Equal(t, watermillsqs.Released, settled.Outcome)
				}
			})
		})
	}
}

// The end of Subscribe's context does what Close does; the channel is closed last.
func TestContextEndDrains(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a", "b", "c")
		ctx, cancel := context.WithCancel(t.Context())
		messages, err := h.subscriber(watermillsqs.SubscriberConfig{}).Subscribe(ctx, "in")
		require.NoError(t, err)
		first := h.next(messages)
		cancel()
		time.Sleep(3 * time.Second)
		assert.NoError(t, first.Context().Err(), "the end of Subscribe's context is not the end of the message's")
		assert.Equal(t, 1, q.InFlight(), "the others are given back")
		first.Ack()
		_, open := <-messages
		assert.False(t, open)
		assert.Equal(t, 1, h.deletes(), "the channel is closed when everything is settled")
		assert.Equal(t, 2, q.Visible())
	})
}

// A poll under way at the close gets a second: what it brings is given back.
func TestCloseWaitsForThePollUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		time.Sleep(3 * time.Second)
		closed := make(chan time.Duration)
		go func() {
			start := time.Now()
			assert.NoError(t, sub.Close())
			closed <- time.Since(start)
		}()
		time.Sleep(500 * time.Millisecond)
		h.publish("in", "late")
		assert.Equal(t, 500*time.Millisecond, <-closed)
		_, open := <-messages
		assert.False(t, open)
		assert.Equal(t, 1, q.Visible())
	})
}

func TestCloseOfAnIdleSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		synctest.Wait()
		start := time.Now()
		require.NoError(t, sub.Close())
		assert.Equal(t, time.Second, time.Since(start))
		_, open := <-messages
		assert.False(t, open)
		_, err := sub.Subscribe(t.Context(), "in")
		assert.ErrorIs(t, err, watermillsqs.ErrClosed)
		assert.NoError(t, sub.Close())
	})
}

// A settlement that hangs does not keep Close for ever.
func TestCloseIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", map[string]string{"VisibilityTimeout": "3600"})
		h.publish("in", "a")
		h.service.Inject(sqstest.Fault{Action: "DeleteMessage", Effect: sqstest.Hang()})
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		h.next(messages).Ack()
		start := time.Now()
		require.NoError(t, sub.Close())
		assert.LessOrEqual(t, time.Since(start), 16*time.Second) // grace, verdicts, flush
		require.Len(t, h.settled(), 1)
		assert.Error(t, h.settled()[0].Err)
	})
}

// After Close the channel is closed and no goroutine is left, whatever was going on.
// synctest fails the test if one is.
func TestManyCloses(t *testing.T) {
	for i := range 300 {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.queue("in", nil)
			for range i % 23 {
				h.publish("in", "x")
			}
			sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1 + i%12, CloseTimeout: -1}, "in")
			var handlers sync.WaitGroup
			for range i % 5 {
				select {
				case msg := <-messages:
					handlers.Go(func() {
						if i%2 == 0 {
							msg.Ack()
						} else {
							msg.Nack()
						}
					})
				default:
				}
			}
			if i%3 == 0 {
				synctest.Wait()
			}
			handlers.Go(func() { assert.NoError(t, sub.Close()) })
			require.NoError(t, sub.Close())
			select {
			case _, open := <-messages:
				require.False(t, open)
			default:
				t.Fatal("Close returned before the channel was closed")
			}
			handlers.Wait()
			assert.Equal(t, 0, q.InFlight())
		})
	}
}

// A publisher's Close takes effect when the last subscription has ended, and then
// for good.
func TestPublisherCloseWaitsForSubscriptions(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		send := func() error { return pub.Publish("in", message.NewMessage("", []byte("x"))) }
		sub, _ := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		require.NoError(t, pub.Close())
		assert.NoError(t, send())
		require.NoError(t, sub.Close())
		assert.ErrorIs(t, send(), watermillsqs.ErrClosed)
		h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		assert.ErrorIs(t, send(), watermillsqs.ErrClosed)

		other := h.publisher(watermillsqs.PublisherConfig{})
		require.NoError(t, other.Close())
		require.NoError(t, other.Close())
	})
}

// The connection's Close drains its subscribers, and publishes until then.
func TestConnectionClose(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		in, out := h.queue("in", nil), h.queue("out", nil)
		h.publish("in", "order")
		pub := h.publisher(watermillsqs.PublisherConfig{})
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			assert.NoError(t, h.conn.Close())
		}()
		time.Sleep(2 * time.Second)
		_, err := sub.Subscribe(t.Context(), "in")
		assert.ErrorIs(t, err, watermillsqs.ErrNotConnected)
		assert.NoError(t, pub.Publish("out", message.NewMessage("", []byte("x"))))
		msg.Ack()
		<-closed
		assert.ErrorIs(t, pub.Publish("out", message.NewMessage("", []byte("x"))), watermillsqs.ErrNotConnected)
		assert.ErrorIs(t, sub.SubscribeInitialize("in"), watermillsqs.ErrNotConnected)
		_, err = sub.Subscribe(t.Context(), "in")
		assert.ErrorIs(t, err, watermillsqs.ErrNotConnected)
		assert.ErrorIs(t, h.conn.Connect(t.Context()), watermillsqs.ErrNotConnected)
		assert.NoError(t, h.conn.Close())
		assert.Equal(t, 0, in.Len())
		assert.Equal(t, 1, out.Len())
	})
}
