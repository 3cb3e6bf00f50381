package watermillsqs_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
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

// callers are goroutines that publish, each by a call of its own.
type callers struct {
	group sync.WaitGroup
	mu    sync.Mutex
	errs  map[string]error // by the UUID of the first message
}

// publishing starts a goroutine a call.
func publishing(pub *watermillsqs.Publisher, topic string, calls ...[]*message.Message) *callers {
	c := &callers{errs: map[string]error{}}
	for _, messages := range calls {
		c.group.Go(func() {
			err := pub.Publish(topic, messages...)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.errs[messages[0].UUID] = err
		})
	}
	return c
}

// wait returns the calls that failed.
func (c *callers) wait() map[string]error {
	c.group.Wait()
	failed := map[string]error{}
	for uuid, err := range c.errs {
		if err != nil {
			failed[uuid] = err
		}
	}
	return failed
}

// singles are calls with one numbered message each, those from i to j.
func singles(i, j int) (calls [][]*message.Message) {
	for _, msg := range numbered(j)[i:] {
		calls = append(calls, []*message.Message{msg})
	}
	return calls
}

func (h *harness) inject(fault sqstest.Fault) *sqstest.Injection {
	h.t.Helper()
	return h.service.Inject(fault)
}

// slowFirst makes the first send take a while.
func (h *harness) slowFirst(d time.Duration) {
	h.inject(sqstest.Fault{Action: "SendMessage", Times: 1, Effect: sqstest.Latency(d, d)})
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// While a send is under way, what comes piles up and leaves together, in full batches
// at once and the rest when the send is answered.
func TestPublishCoalesces(t *testing.T) {
	for count, want := range map[int][]int{1: {1, 1}, 5: {1, 5}, 9: {1, 9}, 10: {1, 10}, 11: {1, 10, 1}, 100: {1, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10}, 107: {1, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 7}} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.slowFirst(200 * time.Millisecond)
				start := time.Now()
				pub := h.publisher(watermillsqs.PublisherConfig{})
				first := publishing(pub, "orders", singles(0, 1)...)
				synctest.Wait()
				rest := publishing(pub, "orders", singles(1, count+1)...)
				assert.Empty(t, rest.wait())
				assert.Empty(t, first.wait())
				assert.Equal(t, want, entriesOf(h.service))
				assert.ElementsMatch(t, numbers(0, count+1), bodies(q))
				if count%10 == 0 {
					assert.Equal(t, 200*time.Millisecond, time.Since(start), "nothing waits for it")
				}
				for _, call := range h.service.Calls("SendMessageBatch") {
					at := time.Duration(0)
					if call.Entries < 10 {
						at = 200 * time.Millisecond
					}
					assert.Equal(t, at, call.At.Sub(start))
				}
			})
		})
	}
}

// Messages of one call, too, leave with those of others, and calls of any size.
func TestPublishCoalescesCallsOfAnySize(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.slowFirst(100 * time.Millisecond)
		pub, other := h.publisher(watermillsqs.PublisherConfig{}), h.publisher(watermillsqs.PublisherConfig{})
		all := numbered(41)
		first := publishing(pub, "orders", all[:1])
		synctest.Wait()
		// 1+6, 3 of 7 | 4 of 7, 6 of 10 | 4 of 10 and 6 of 16; the ten others of it follow.
		for _, call := range [][]*message.Message{all[1:2], all[2:8], all[8:15]} {
			defer publishing(pub, "orders", call).wait()
			synctest.Wait()
		}
		assert.Equal(t, []int{1, 10}, entriesOf(h.service))
		second := publishing(other, "orders", all[15:25])
		synctest.Wait()
		assert.Equal(t, []int{1, 10, 10}, entriesOf(h.service), "publishers of a connection share the pile")
		third := publishing(other, "orders", all[25:41])
		assert.Empty(t, first.wait())
		assert.Empty(t, second.wait())
		assert.Empty(t, third.wait())
		assert.Equal(t, sorted(numbers(0, 41)), sorted(bodies(q)))
	})
}

// A lone publish leaves at once, and one at a time is a call each.
func TestPublishAloneIsNotDelayed(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		start := time.Now()
		for _, call := range singles(0, 20) {
			require.NoError(t, pub.Publish("orders", call...))
		}
		assert.Zero(t, time.Since(start))
		assert.Equal(t, slices.Repeat([]int{1}, 20), entriesOf(h.service))
	})
}

// Callers that publish one message after the other settle into full batches, however
// they begin: those that were answered are given the time to come with their next.
func TestPublishInLoopsSettlesIntoBatches(t *testing.T) {
	const each, rtt = 50, 5 * time.Millisecond
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a yield runs everybody else, however busy the machine is
	for _, split := range []int{1, 4, 9} {
		t.Run(fmt.Sprint(split), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				h.inject(sqstest.Fault{Message: func(sqstest.MessageView) bool { return true }, Effect: sqstest.Latency(rtt, rtt)})
				pub := h.publisher(watermillsqs.PublisherConfig{})
				var group sync.WaitGroup
				loops := func(n int) {
					for range n {
						group.Go(func() {
							for _, call := range singles(0, each) {
								assert.NoError(t, pub.Publish("orders", call...))
							}
						})
					}
				}
				first := publishing(pub, "orders", singles(0, 1)...)
				time.Sleep(time.Millisecond)
				loops(split) // which leave together when the first is answered
				time.Sleep(rtt)
				loops(10 - split) // which come while they are under way
				group.Wait()
				assert.Empty(t, first.wait())
				assert.LessOrEqual(t, len(entriesOf(h.service)), each+4, "an alternation takes twice as many")
			})
		})
	}
}

// Callers that are about to publish at the same moment leave together.
func TestPublishAtTheSameMoment(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		require.NoError(t, pub.Publish("orders", numbered(1)...)) // the lookup
		assert.Empty(t, publishing(pub, "orders", singles(1, 9)...).wait())
		assert.Equal(t, []int{1, 8}, entriesOf(h.service))
	})
}

// No more than the limit of batches is under way, and that many are.
func TestPublishInParallelUpToALimit(t *testing.T) {
	const limit = 64
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		var mu sync.Mutex
		underWay, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			underWay += by
			most = max(most, underWay)
		}
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(actionOf(r), "SendMessage") {
				count(1)
				defer count(-1)
				time.Sleep(100 * time.Millisecond)
			}
			return next.RoundTrip(r)
		})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		first := publishing(pub, "orders", singles(0, 1)...)
		synctest.Wait()
		start := time.Now()
		rest := publishing(pub, "orders", singles(1, 1001)...)
		assert.Empty(t, rest.wait())
		assert.Empty(t, first.wait())
		assert.Equal(t, limit, most)
		assert.Equal(t, 1001, q.Len())
		assert.Len(t, entriesOf(h.service), 101)
		assert.Equal(t, 200*time.Millisecond, time.Since(start), "101 calls, 64 at a time")
	})
}

// The messages of several callers together keep the limit of a batch in bytes, exactly.
func TestPublishCoalescesUpTo1MiB(t *testing.T) {
	const limit = 1 << 20
	own := len(watermillsqs.UUIDAttribute) + len("String") + len("0")
	for _, test := range []struct {
		name  string
		sizes []int
		calls []int
	}{
		{"exactly", []int{limit / 2, limit / 2}, []int{1, 2}},
		{"one byte more", []int{limit / 2, limit/2 + 1}, []int{1, 1, 1}},
		{"the largest", []int{limit, limit}, []int{1, 1, 1}},
		{"the fourth does not fit", []int{limit / 4, limit / 4, limit / 2, limit / 4}, []int{1, 3, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.slowFirst(200 * time.Millisecond)
				pub := h.publisher(watermillsqs.PublisherConfig{})
				first := publishing(pub, "orders", singles(0, 1)...)
				synctest.Wait()
				for i, size := range test.sizes {
					msg := message.NewMessage(fmt.Sprint(i+1), bytes.Repeat([]byte{'a'}, size-own))
					defer publishing(pub, "orders", []*message.Message{msg}).wait()
					synctest.Wait()
				}
				assert.Empty(t, first.wait())
				time.Sleep(time.Second)
				assert.Equal(t, test.calls, entriesOf(h.service))
				assert.Equal(t, len(test.sizes)+1, q.Len())
			})
		})
	}
}

// A send that hangs holds up others for a quarter of a second, once.
func TestPublishBehindASendThatHangs(t *testing.T) {
	const patience = 250 * time.Millisecond
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.inject(sqstest.Fault{Action: "SendMessage", Times: 1, Effect: sqstest.Hang()})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		first := publishing(pub, "orders", singles(0, 1)...)
		synctest.Wait()
		start := time.Now()
		assert.Empty(t, publishing(pub, "orders", singles(1, 4)...).wait())
		assert.Equal(t, patience, time.Since(start))
		assert.Equal(t, []int{1, 3}, entriesOf(h.service))
		assert.Empty(t, publishing(pub, "orders", singles(4, 5)...).wait())
		assert.Equal(t, patience, time.Since(start), "it is known to hang by now")
		failed := first.wait()
		require.Len(t, failed, 1)
		assert.ErrorContains(t, failed["0"], "may have accepted")
	})
}

// When it hangs and nothing is answered, as many calls hang as may be under way, and
// no more.
func TestPublishWhenEverySendHangs(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.inject(sqstest.Fault{Effect: sqstest.Hang(), Message: func(sqstest.MessageView) bool { return true }})
		pub := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: 23 * time.Second})
		var all []*callers
		for i := range 72 {
			all = append(all, publishing(pub, "orders", singles(i, i+1)...))
			time.Sleep(300 * time.Millisecond)
		}
		assert.Equal(t, slices.Repeat([]int{1}, 64), entriesOf(h.service))
		for i, c := range all {
			assert.ErrorContains(t, c.wait()[fmt.Sprint(i)], "may have accepted")
		}
		assert.Equal(t, append(slices.Repeat([]int{1}, 64), 8), entriesOf(h.service), "the rest leaves when the first ends")
	})
}

// Close refuses what comes, and waits for what is under way.
func TestConnectionCloseWaitsForPublishes(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.slowFirst(3 * time.Second)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		first := publishing(pub, "orders", singles(0, 1)...)
		synctest.Wait()
		second := publishing(pub, "orders", singles(1, 2)...)
		synctest.Wait()
		start := time.Now()
		closed := make(chan time.Duration)
		go func() {
			assert.NoError(t, h.conn.Close())
			closed <- time.Since(start)
		}()
		synctest.Wait()
		require.ErrorIs(t, pub.Publish("orders", numbered(1)...), watermillsqs.ErrNotConnected)
		assert.Equal(t, 3*time.Second, <-closed)
		assert.Empty(t, first.wait())
		assert.Empty(t, second.wait())
		assert.Equal(t, 2, q.Len())
	})
}

// A send that is not answered ends with PublishTimeout, and so does Close.
func TestConnectionCloseWithASendThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.Hang()})
		pub := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: 7 * time.Second})
		first := publishing(pub, "orders", singles(0, 1)...)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, h.conn.Close())
		assert.Equal(t, 7*time.Second, time.Since(start))
		assert.Len(t, first.wait(), 1)
	})
}

// Publishing to many queues is not remembered for ever, and a queue that comes back is
// like any other.
func TestPublishToManyQueues(t *testing.T) {
	const queues = 300
	bubble(t, func(t *testing.T, h *harness) {
		h.intercept(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			answer := `{"MessageId":"m"}`
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer)), Request: r}, nil
		})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		for range 2 {
			for i := range queues {
				require.NoError(t, pub.Publish(fmt.Sprintf("https://sqs.test/1/q%d", i), numbered(1)...))
			}
		}
		assert.LessOrEqual(t, watermillsqs.Outboxes(h.conn), 64)
	})
}
