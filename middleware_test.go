package watermillsqs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// What docs/compatibility.md says of Watermill's middleware. Where a test waits, no verdict
// falls into the instant of an extension (every 15 s): one could overtake the other.

// route does by hand what a router does with the messages of a handler: each runs in a
// goroutine of its own, through the chain, outermost first; then what it produced is
// published, and the message is acked or nacked. A panic nacks. The channel that it
// returns is closed when all handlers have returned, some time after messages is.
func route(messages <-chan *message.Message, publish func(...*message.Message) error, h message.HandlerFunc, chain ...message.HandlerMiddleware) <-chan struct{} {
	for _, m := range slices.Backward(chain) {
		h = m(h)
	}
	handle := func(msg *message.Message) {
		defer func() {
			if recover() != nil {
				msg.Nack()
			}
		}()
		produced, err := h(msg)
		if err == nil && len(produced) > 0 {
			err = publish(produced...)
		}
		if err != nil {
			msg.Nack()
			return
		}
		msg.Ack()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var running sync.WaitGroup
		defer running.Wait()
		for msg := range messages {
			running.Go(func() { handle(msg) })
		}
	}()
	return ended
}

// consumer is a handler that produces nothing.
func consumer(h func(msg *message.Message) error) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) { return nil, h(msg) }
}

// pass lets time pass in a bubble, and what is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// fixedBackoff is a Backoff whose delays a test can name.
func fixedBackoff(d time.Duration) watermillsqs.SubscriberConfig {
	return watermillsqs.SubscriberConfig{MaxInFlight: 1, Backoff: func(int) time.Duration { return d }}
}

// receiveCount is how often a message has been received.
func receiveCount(msg *message.Message) int {
	facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
	return facts.ReceiveCount
}

// Middleware that only passes on, or makes up, results: a failure is a native retry, a
// success deletes once.
func TestMiddlewareResults(t *testing.T) {
	fail := errors.New("failed")
	firstFails := func(run int) error {
		if run == 1 {
			return fail
		}
		return nil
	}
	firstPanics := func(run int) error {
		if run == 1 {
			panic("x")
		}
		return nil
	}
	succeeds := func(int) error { return nil }
	firstOnly := func(m message.HandlerMiddleware) message.HandlerMiddleware {
		used := false
		return func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				if used {
					return h(msg)
				}
				used = true
				return m(h)(msg)
			}
		}
	}
	use := func(m ...message.HandlerMiddleware) []message.HandlerMiddleware { return m }
	for _, test := range []struct {
		name           string
		chain          []message.HandlerMiddleware
		handler        func(run int) error
		retries        []int32
		runs, produced int
	}{
		{"Recoverer", use(middleware.Recoverer), firstPanics, []int32{7}, 2, 1},
		{"a panic without Recoverer", nil, firstPanics, []int32{7}, 2, 1},
		{"IgnoreErrors deletes", use(middleware.NewIgnoreErrors([]error{fail}).Middleware), firstFails, nil, 1, 0},
		{"IgnoreErrors, another error", use(middleware.NewIgnoreErrors([]error{errors.New("other")}).Middleware), firstFails, []int32{7}, 2, 1},
		{"RandomFail", use(firstOnly(middleware.RandomFail(1))), succeeds, []int32{7}, 1, 1},
		{"RandomPanic", use(firstOnly(middleware.RandomPanic(1))), succeeds, []int32{7}, 1, 1},
		{"Timeout", use(middleware.Timeout(time.Second)), firstFails, []int32{7}, 2, 1},
		{"Duplicator", use(middleware.Duplicator), succeeds, nil, 2, 2},
		{"Duplicator, the first run fails", use(middleware.Duplicator), firstFails, []int32{7}, 3, 2},
		{"CircuitBreaker, closed", use(breaker()), firstFails, []int32{7}, 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				in, out := h.queue("in", nil), h.queue("out", nil)
				h.publish("in", "a")
				_, messages := h.subscribe(fixedBackoff(7*time.Second), "in")
				pub := h.publisher(watermillsqs.PublisherConfig{})
				runs := 0
				route(messages, func(produced ...*message.Message) error { return pub.Publish("out", produced...) },
					func(*message.Message) ([]*message.Message, error) {
						runs++
						if err := test.handler(runs); err != nil {
							return nil, err
						}
						return []*message.Message{message.NewMessage(fmt.Sprint(runs), []byte("made"))}, nil
					}, test.chain...)
				pass(time.Minute)
				assert.Equal(t, test.runs, runs)
				assert.Equal(t, test.retries, h.changes())
				assert.Equal(t, 1, h.deletes())
				assert.Equal(t, 0, in.Len())
				assert.Equal(t, test.produced, out.Len())
			})
		})
	}
}

// Retry waits in the process: its message is in flight all the while, and its lease is
// extended. When the subscription closes it gives up with the context of the message,
// and the message is visible again.
func TestRetryHoldsItsMessage(t *testing.T) {
	retry := middleware.Retry{MaxRetries: 3, InitialInterval: 50 * time.Second, MaxInterval: 50 * time.Second, Multiplier: 1}.Middleware
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		runs, failing := 0, false
		ended := route(messages, nil, consumer(func(msg *message.Message) error {
			runs++
			assert.Equal(t, 1, receiveCount(msg))
			if failing || runs < 3 {
				return errors.New("failed")
			}
			return nil
		}), retry)
		pass(2*time.Minute + time.Second)
		assert.Equal(t, 3, runs)
		assert.Equal(t, 1, h.deletes())
		assert.NotEmpty(t, h.changes(), "extensions, for 30 s each")
		assert.NotContains(t, h.changes(), int32(0))

		failing = true
		h.publish("in", "b")
		synctest.Wait()
		start := time.Now()
		require.NoError(t, sub.Close())
		assert.Equal(t, 10*time.Second, time.Since(start), "the CloseTimeout, not the 50 s of Retry")
		<-ended
		assert.Equal(t, 4, runs)
		assert.Equal(t, 1, q.Visible())
	})
}

// A Timeout inside of Retry leaves its own ended context on the message: without
// ResetContextOnRetry, every attempt after the first starts with it.
func TestRetryOfATimeout(t *testing.T) {
	for _, reset := range []bool{false, true} {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("in", nil)
			h.publish("in", "a")
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
			var alive []bool
			route(messages, nil, consumer(func(msg *message.Message) error {
				alive = append(alive, msg.Context().Err() == nil)
				if len(alive) == 3 {
					return nil
				}
				<-msg.Context().Done()
				return msg.Context().Err()
			}), middleware.Retry{MaxRetries: 2, ResetContextOnRetry: reset}.Middleware, middleware.Timeout(time.Second))
			pass(time.Minute)
			assert.Equal(t, []bool{true, reset, reset}, alive)
			assert.Equal(t, 1, h.deletes(), "the verdict counts either way")
		})
	}
}

// Timeout only ends a context. A handler that does not look at it keeps its message, up to
// MaxExtension, unless a poll of its own subscription receives it again in that instant.
func TestTimeoutThatIsIgnored(t *testing.T) {
	for _, limit := range []time.Duration{0, 75 * time.Second} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.queue("in", nil)
			h.publish("in", "a")
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1, MaxExtension: limit}, "in")
			runs := 0
			route(messages, nil, consumer(func(*message.Message) error {
				runs++
				time.Sleep(290 * time.Second)
				return nil
			}), middleware.Timeout(time.Second))
			pass(10 * time.Minute)
			assert.Equal(t, []int{1, 0}, []int{runs, q.Len()})
			assert.Equal(t, limit > 0, len(h.lost()) > 0)
		})
	}
}

// Throttle holds messages while they wait for their turn; their leases are extended.
func TestThrottleHoldsItsMessages(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a", "b", "c", "d", "e", "f")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 6}, "in")
		start := time.Now()
		at := make(chan time.Duration, 6)
		route(messages, nil, consumer(func(msg *message.Message) error {
			at <- time.Since(start)
			assert.Equal(t, 1, receiveCount(msg))
			return nil
		}), middleware.NewThrottle(3, 66*time.Second).Middleware)
		pass(3 * time.Minute)
		require.Len(t, at, 6)
		for i := range 6 {
			assert.Equal(t, time.Duration(i+1)*22*time.Second, <-at)
		}
		assert.Equal(t, 0, q.Len())
		assert.Empty(t, h.lost())
	})
}

// Throttle does not look at the context: a message that waits for its turn when the
// subscription closes is left unfinished, and its handler runs all the same, later. It
// sees an ended context, and what it says no longer counts.
func TestThrottleDuringClose(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		var cause error
		ended := route(messages, nil, consumer(func(msg *message.Message) error {
			cause = context.Cause(msg.Context())
			return nil
		}), middleware.NewThrottle(1, time.Hour).Middleware)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, sub.Close())
		assert.Equal(t, 11*time.Second, time.Since(start), "CloseTimeout, and a second for verdicts")
		<-ended
		assert.Equal(t, time.Hour, time.Since(start))
		assert.ErrorIs(t, cause, watermillsqs.ErrClosed)
		assert.Equal(t, watermillsqs.Unfinished, h.settled()[0].Outcome)
		assert.Equal(t, 1, q.Visible())
	})
}

// breaker is a CircuitBreaker as its settings are by default: it opens at the sixth
// failure in a row, for a minute.
func breaker() message.HandlerMiddleware {
	return withDefaults(middleware.NewCircuitBreaker).Middleware
}

// withDefaults infers the type of the settings, whose package is no dependency of ours.
func withDefaults[Settings, M any](constructor func(Settings) M) M {
	var settings Settings
	return constructor(settings)
}

// An open breaker fails at once. Without a backoff its messages are received again in
// the same instant, until the redrive policy moves what was never tried; with one, the
// receives outlast the breaker.
func TestCircuitBreaker(t *testing.T) {
	for _, backoff := range []time.Duration{0, 20 * time.Second} {
		t.Run(backoff.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				dead := h.queue("dead", nil)
				q := h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dead, 20)})
				h.publish("in", "a")
				start := time.Now()
				_, messages := h.subscribe(fixedBackoff(backoff), "in")
				runs := 0
				route(messages, nil, consumer(func(*message.Message) error {
					runs++
					if time.Since(start) < 2*time.Minute {
						return errors.New("down")
					}
					return nil
				}), breaker())
				pass(time.Second)
				if backoff == 0 {
					assert.Equal(t, 6, runs)
					assert.Equal(t, 1, dead.Len(), "14 of 20 receives in an instant, without a try")
					return
				}
				pass(5 * time.Minute)
				assert.Equal(t, 7, runs, "until 100 s, and once when the breaker is half open")
				assert.Equal(t, 0, q.Len()+dead.Len())
				assert.Len(t, h.settled(), 10)
			})
		})
	}
}

// A message that SQS delivers again is the one that was published, so DelayOnError
// starts anew each time. Inside of Retry it grows; and what it wrote then also delays
// the message where a handler passes it on.
func TestDelayOnErrorDoesNotGrow(t *testing.T) {
	delayed := (&middleware.DelayOnError{InitialInterval: 10 * time.Second, MaxInterval: time.Hour, Multiplier: 2}).Middleware
	retry := middleware.Retry{MaxRetries: 2}.Middleware
	for _, test := range []struct {
		name     string
		chain    []message.HandlerMiddleware
		failures int
		want     []int32
		delay    time.Duration
	}{
		{"by deliveries", []message.HandlerMiddleware{delayed}, 3, []int32{10, 10, 10}, 0},
		{"in the process", []message.HandlerMiddleware{retry, delayed}, 3, []int32{40}, 0},
		{"passed on", []message.HandlerMiddleware{retry, delayed}, 1, nil, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("in", nil)
				out := h.queue("out", nil)
				h.publish("in", "a")
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
				pub := h.publisher(watermillsqs.PublisherConfig{})
				runs := 0
				route(messages, func(m ...*message.Message) error { return pub.Publish("out", m...) },
					func(msg *message.Message) ([]*message.Message, error) {
						if runs++; runs <= test.failures {
							return nil, errors.New("failed")
						}
						return []*message.Message{msg}, nil
					}, test.chain...)
				pass(time.Minute)
				assert.Equal(t, test.want, h.changes())
				require.Equal(t, 1, out.Len())
				sent := out.Messages()[0]
				assert.Equal(t, test.delay, sent.VisibleAt.Sub(sent.SentAt))
			})
		})
	}
}

// CorrelationID gives what a handler produces the value of the message that came in,
// and an empty one where that has none. Both arrive.
func TestCorrelationID(t *testing.T) {
	for _, id := range []string{"", "c-1"} {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("in", nil)
			h.queue("out", nil)
			pub := h.publisher(watermillsqs.PublisherConfig{})
			in := message.NewMessage("1", []byte("a"))
			if id != "" {
				middleware.SetCorrelationID(id, in)
			}
			require.NoError(t, pub.Publish("in", in))
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
			route(messages, func(m ...*message.Message) error { return pub.Publish("out", m...) },
				func(*message.Message) ([]*message.Message, error) {
					return []*message.Message{message.NewMessage("2", []byte("b"))}, nil
				}, middleware.CorrelationID)
			_, produced := h.subscribe(watermillsqs.SubscriberConfig{}, "out")
			msg := h.next(produced)
			assert.Equal(t, message.Metadata{middleware.CorrelationIDMetadataKey: id}, msg.Metadata)
			msg.Ack()
		})
	}
}

// seen is an ExpiringKeyRepository. Watermill's own runs a goroutine that never ends,
// which no test here may leave behind.
type seen map[string]bool

func (s seen) IsDuplicate(_ context.Context, key string) (bool, error) {
	before := s[key]
	s[key] = true
	return before, nil
}

// This is how Deduplicator loses messages: it marks a message before its handler runs,
// so that after a failure the retry is taken for a duplicate, and deleted.
func TestDeduplicatorLosesMessages(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		runs := 0
		route(messages, nil, consumer(func(*message.Message) error {
			runs++
			return errors.New("failed")
		}), (&middleware.Deduplicator{Repository: seen{}}).Middleware)
		pass(time.Minute)
		assert.Equal(t, 1, runs, "it failed, and was not tried again")
		assert.Equal(t, []int32{0}, h.changes())
		assert.Equal(t, 1, h.deletes())
		assert.Equal(t, 0, q.Len(), "deleted without a success")
	})
}

// Its decorator of publishers marks before it publishes: what failed and is published
// again is reported as published, and never sent.
func TestDeduplicatingPublisherLosesMessages(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		pub, err := (&middleware.Deduplicator{Repository: seen{}}).PublisherDecorator()(h.publisher(watermillsqs.PublisherConfig{}))
		require.NoError(t, err)
		refused := h.service.Inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.Error(403, "AccessDenied", "not now")})
		require.Error(t, pub.Publish("in", message.NewMessage("1", []byte("a"))))
		refused.Remove()
		require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("a"))))
		assert.Equal(t, 0, q.Len())
	})
}

// What to use instead: mark by UUID, and after the success.
func TestMarkAfterSuccess(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("a"))))
		_, messages := h.subscribe(fixedBackoff(time.Second), "in")
		done := map[string]bool{}
		runs := 0
		route(messages, nil, consumer(func(msg *message.Message) error {
			if done[msg.UUID] {
				return nil
			}
			if runs++; runs == 1 {
				return errors.New("failed")
			}
			done[msg.UUID] = true // in one transaction with the effect, where there is one
			return nil
		}))
		pass(10 * time.Second)
		require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("a"))))
		pass(10 * time.Second)
		assert.Equal(t, 2, runs, "a failure and a success; the duplicate is none")
		assert.Equal(t, 0, q.Len())
	})
}

// InstantAck deletes the message when it arrives. Its permit is free then, its context
// ended, and an error of its handler brings nothing back.
func TestInstantAckLosesMessages(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a", "b", "c", "d", "e")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 1}, "in")
		causes := make(chan error, 10)
		proceed := make(chan struct{})
		route(messages, nil, consumer(func(msg *message.Message) error {
			<-msg.Context().Done()
			causes <- context.Cause(msg.Context())
			<-proceed
			return errors.New("failed")
		}), middleware.InstantAck)
		pass(time.Second)
		require.Len(t, causes, 5, "all of them run, with MaxInFlight 1")
		for range 5 {
			assert.ErrorIs(t, <-causes, watermillsqs.ErrSettled)
		}
		assert.Equal(t, 0, q.Len())
		close(proceed)
		pass(time.Minute)
		assert.Empty(t, causes)
		assert.Empty(t, h.changes())
	})
}
