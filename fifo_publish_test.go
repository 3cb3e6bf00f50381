package watermillsqs_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// grouped are messages by their names, such as A1, which is of group A.
func grouped(names ...string) []*message.Message {
	messages := make([]*message.Message, len(names))
	for i, name := range names {
		messages[i] = message.NewMessage(name, []byte(name))
		messages[i].Metadata.Set(watermillsqs.GroupIDKey, name[:1])
	}
	return messages
}

// ofGroup are the bodies of a queue that belong to a group.
func ofGroup(q *sqstest.Queue, group string) (found []string) {
	for _, m := range q.Messages() {
		if m.GroupID == group {
			found = append(found, m.Body)
		}
	}
	return found
}

// failures are the errors of a call by UUID.
func failures(t *testing.T, err error) map[string]error {
	t.Helper()
	failed := map[string]error{}
	if err == nil {
		return failed
	}
	var publish *watermillsqs.PublishError
	require.ErrorAs(t, err, &publish)
	for _, m := range publish.Failed {
		failed[m.UUID] = m.Err
	}
	return failed
}

func keys(failed map[string]error) []string { return slices.Sorted(maps.Keys(failed)) }

var (
	onOurSide = sqstest.FailEntry("InternalError", "on our side", false)
	atFault   = sqstest.FailEntry("InvalidParameterValue", "at fault", true)
)

// What becomes of a group when an entry of it fails.
func TestFIFOPublishKeepsOrderOverFailures(t *testing.T) {
	type fault struct {
		bodies []string
		times  int
		effect sqstest.Effect
	}
	for _, test := range []struct {
		name   string
		send   []string
		faults []fault
		failed []string
		says   map[string]string
		a, b   []string // what the groups are in the end
		calls  []int
	}{
		{name: "the last of a group is sent again alone", send: []string{"A1", "B1", "A2"},
			faults: []fault{{[]string{"A2"}, 1, onOurSide}},
			a:      []string{"A1", "A2"}, b: []string{"B1"}, calls: []int{3, 1}},
		{name: "a later one was accepted", send: []string{"A1", "B1", "A2"},
			faults: []fault{{[]string{"A1"}, 1, onOurSide}}, failed: []string{"A1"},
			says: map[string]string{"A1": "a later message of its group was accepted"},
			a:    []string{"A2"}, b: []string{"B1"}, calls: []int{3}},
		{name: "and what comes after it is not sent", send: []string{"A1", "A2", "B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "A3", "B9"},
			faults: []fault{{[]string{"A1"}, 1, onOurSide}}, failed: []string{"A1", "A3"},
			says: map[string]string{"A3": "an earlier message of its group was not accepted"},
			a:    []string{"A2"}, b: []string{"B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9"}, calls: []int{10, 1}},
		{name: "several are sent again together", send: []string{"A1", "A2", "A3", "B1"},
			faults: []fault{{[]string{"A2", "A3"}, 2, onOurSide}},
			a:      []string{"A1", "A2", "A3"}, b: []string{"B1"}, calls: []int{4, 2}},
		{name: "several, and of the second round the first", send: []string{"A1", "A2", "B1"},
			faults: []fault{{[]string{"A1", "A2"}, 3, onOurSide}}, failed: []string{"A1"},
			a: []string{"A2"}, b: []string{"B1"}, calls: []int{3, 2}},
		{name: "for ever", send: []string{"A1", "B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "A2"},
			faults: []fault{{[]string{"A1"}, 0, onOurSide}}, failed: []string{"A1", "A2"},
			a: nil, b: []string{"B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9"}, calls: []int{10, 1, 1, 1}},
		{name: "two for ever", send: []string{"A1", "B1"},
			faults: []fault{{[]string{"A1", "B1"}, 0, onOurSide}}, failed: []string{"A1", "B1"}, calls: []int{2, 2, 2}},
		{name: "one at fault, one to be sent again behind it", send: []string{"A1", "A2", "B1"},
			faults: []fault{{[]string{"A1"}, 0, atFault}, {[]string{"A2"}, 1, onOurSide}}, failed: []string{"A1", "A2"},
			says: map[string]string{"A2": "an earlier message of its group was not accepted"},
			a:    nil, b: []string{"B1"}, calls: []int{3}},
		{name: "one to be sent again, one at fault behind it", send: []string{"A1", "A2", "A3", "B1"},
			faults: []fault{{[]string{"A1", "A3"}, 2, onOurSide}, {[]string{"A2"}, 0, atFault}}, failed: []string{"A2", "A3"},
			a: []string{"A1"}, b: []string{"B1"}, calls: []int{4, 1}},
		{name: "refused as a whole, one is poison", send: []string{"A1", "A2", "A3", "B1", "B2"},
			faults: []fault{{[]string{"A2"}, 0, sqstest.Error(400, "InvalidParameterValue", "poison")}}, failed: []string{"A2", "A3"},
			says: map[string]string{"A2": "poison", "A3": "an earlier message of its group was not accepted"},
			a:    []string{"A1"}, b: []string{"B1", "B2"}, calls: []int{5, 1, 1, 1, 1}},
		{name: "the key is throttled once", send: []string{"A1", "A2", "B1"},
			faults: []fault{{[]string{"A1"}, 1, sqstest.Error(400, "KmsThrottled", "slowly")}},
			a:      []string{"A1", "A2"}, b: []string{"B1"}, calls: []int{3, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.fifo("orders.fifo", nil)
				for _, f := range test.faults {
					h.inject(sqstest.Fault{Message: bodyIs(f.bodies...), Times: f.times, Effect: f.effect})
				}
				pub := h.publisher(watermillsqs.PublisherConfig{})
				start := time.Now()
				failed := failures(t, pub.Publish("orders.fifo", grouped(test.send...)...))
				assert.ElementsMatch(t, test.failed, keys(failed))
				for uuid, says := range test.says {
					assert.ErrorContains(t, failed[uuid], says)
				}
				assert.Equal(t, test.a, ofGroup(q, "A"))
				assert.Equal(t, test.b, ofGroup(q, "B"))
				assert.Equal(t, test.calls, entriesOf(h.service))

				if len(test.calls) == 1 {
					assert.Zero(t, time.Since(start), "there is nothing to pause for")
				}
				// Nothing is left behind that holds the groups up.
				synctest.Wait()
				assert.Zero(t, watermillsqs.Leftovers(h.conn))
				start = time.Now()
				require.NoError(t, pub.Publish("orders.fifo", grouped("A9", "BX")...))
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

// A message whose context has ended breaks its group for the rest of the call.
func TestFIFOPublishEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		messages := grouped("A1", "B1", "A2", "B2", "A3")
		messages[2].SetContext(ended)
		failed := failures(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders.fifo", messages...))
		assert.Equal(t, []string{"A2", "A3"}, keys(failed))
		assert.Equal(t, []string{"A1", "B1", "B2"}, bodies(q))
	})
}

// One that ends in the pile does so, too, and the group goes on for others.
func TestFIFOPublishContextEndsInThePile(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.slowFirst(200 * time.Millisecond)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		first := publishing(pub, "orders.fifo", grouped("A0"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		messages := grouped("A1", "A2", "A3", "B1", "D1")
		messages[1].SetContext(ctx)
		messages[4].SetContext(ctx)
		second := publishing(pub, "orders.fifo", messages)
		synctest.Wait()
		third := publishing(pub, "orders.fifo", grouped("A4"))
		assert.Equal(t, []string{"A2", "A3", "D1"}, keys(failures(t, second.wait()["A1"])))
		assert.Empty(t, first.wait())
		assert.Empty(t, third.wait())
		assert.Equal(t, []string{"A0", "A1", "A4"}, ofGroup(q, "A"))
		assert.Equal(t, []string{"B1"}, ofGroup(q, "B"))
		synctest.Wait()
		assert.Zero(t, watermillsqs.Leftovers(h.conn))
	})
}

// endedContext is a context whose end is seen by those who look, and told to nobody.
type endedContext struct {
	context.Context

	ended atomic.Bool
}

func (c *endedContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// One whose context has ended when its turn comes stays here, and its group goes on.
func TestFIFOPublishContextHasEndedAtTheTurn(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.slowFirst(100 * time.Millisecond)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		first := publishing(pub, "orders.fifo", grouped("C1"))
		synctest.Wait()
		ctx := &endedContext{Context: t.Context()}
		messages := grouped("A1", "A2", "B1")
		messages[0].SetContext(ctx)
		second := publishing(pub, "orders.fifo", messages)
		synctest.Wait()
		ctx.ended.Store(true)
		assert.Equal(t, []string{"A1", "A2"}, keys(failures(t, second.wait()["A1"])))
		assert.Empty(t, first.wait())
		require.NoError(t, pub.Publish("orders.fifo", grouped("A3")...))
		assert.Equal(t, []string{"C1", "B1", "A3"}, bodies(q))
		synctest.Wait()
		assert.Zero(t, watermillsqs.Leftovers(h.conn))
	})
}

// Of one group never two batches are under way; other groups are not held up by it.
func TestFIFOPublishSkipsAGroupUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.inject(sqstest.Fault{Message: bodyIs("A1"), Times: 1, Effect: sqstest.Latency(10*time.Second, 10*time.Second)})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		start := time.Now()
		first := publishing(pub, "orders.fifo", grouped("A1"))
		synctest.Wait()
		second := publishing(pub, "orders.fifo", grouped("A2"), grouped("A3"))
		synctest.Wait()
		others := publishing(pub, "orders.fifo", grouped("B1"), grouped("C1"))
		assert.Empty(t, others.wait())
		assert.Equal(t, 250*time.Millisecond, time.Since(start))
		assert.Empty(t, publishing(pub, "orders.fifo", grouped("B2")).wait())
		assert.Equal(t, 250*time.Millisecond, time.Since(start))
		assert.Equal(t, []int{1, 2, 1}, entriesOf(h.service))
		assert.Empty(t, second.wait())
		assert.Empty(t, first.wait())
		assert.Equal(t, 10*time.Second, time.Since(start))
		assert.Equal(t, []int{1, 2, 1, 2}, entriesOf(h.service))
		assert.Equal(t, "A1", ofGroup(q, "A")[0])
	})
}

// A group with a message that waits to be sent again is skipped, too.
func TestFIFOPublishSkipsAGroupToBeSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.inject(sqstest.Fault{Message: bodyIs("A1"), Action: "SendMessageBatch", Times: 1, Effect: onOurSide})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		start := time.Now()
		first := publishing(pub, "orders.fifo", grouped("B1", "A1"))
		synctest.Wait()
		second := publishing(pub, "orders.fifo", grouped("A2"))
		synctest.Wait()
		require.NoError(t, pub.Publish("orders.fifo", grouped("B2")...))
		assert.Zero(t, time.Since(start))
		assert.Empty(t, second.wait())
		assert.Empty(t, first.wait())
		assert.Equal(t, []string{"A1", "A2"}, ofGroup(q, "A"))
	})
}

// The order of a group in the pile is kept, also when one of it comes back into it.
func TestFIFOPublishKeepsThePilesOrder(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.inject(sqstest.Fault{Message: bodyIs("A1"), Times: 1, Effect: sqstest.Error(400, "KmsThrottled", "")})
		h.inject(sqstest.Fault{Message: bodyIs("B1"), Times: 1, Effect: sqstest.Latency(200*time.Millisecond, 200*time.Millisecond)})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		for _, step := range []struct {
			name string
			then time.Duration
		}{{"A1", 10 * time.Millisecond}, {"A2", 30 * time.Millisecond}, {"B1", 80 * time.Millisecond}, {"A3", 0}} {
			defer publishing(pub, "orders.fifo", grouped(step.name)).wait()
			time.Sleep(step.then)
		}
		time.Sleep(time.Second)
		assert.Equal(t, []string{"B1", "A1", "A2", "A3"}, bodies(q))
	})
}

// What is sent alone because its batch was refused is not overtaken by what waits behind
// it to be sent again, too.
func TestFIFOPublishRefusedBatchIsNotOvertaken(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.slowFirst(200 * time.Millisecond) // behind which the others pile up
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Times: 1, Effect: sqstest.Error(400, "KmsThrottled", "")})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		first := publishing(pub, "orders.fifo", grouped("C1"))
		synctest.Wait()
		a, b := countUp("A", 1, 7), countUp("B", 1, 7)
		rest := publishing(pub, "orders.fifo", grouped(append([]string{"D1"}, a...)...), grouped(append([]string{"E1"}, b...)...))
		time.Sleep(10 * time.Millisecond)
		// All of them are to be sent again. They leave when they fill a batch: all of one
		// caller, and of the other the first two, which are of different groups. The second
		// of them waits for the first.
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Times: 1, Effect: sqstest.Error(400, "InvalidParameterValue", "")})
		h.inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.Latency(400*time.Millisecond, 400*time.Millisecond)})
		assert.Empty(t, rest.wait())
		assert.Empty(t, first.wait())
		assert.Equal(t, a, ofGroup(q, "A"))
		assert.Equal(t, b, ofGroup(q, "B"))
		sent := entriesOf(h.service)
		slices.Sort(sent)
		assert.Equal(t, append(slices.Repeat([]int{1}, 11), 6, 10, 10), sent, "the second batch was refused and its messages sent alone")
	})
}

// Other callers' messages of a group go on after one of it has failed for good.
func TestFIFOPublishOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.inject(sqstest.Fault{Message: bodyIs("A1"), Effect: atFault})
		errs := h.together(h.publisher(watermillsqs.PublisherConfig{}), "orders.fifo", grouped("A1", "A2"), grouped("A3")).wait()
		assert.Len(t, errs, 1)
		assert.Contains(t, keys(failures(t, errs["A1"])), "A1")
		assert.Contains(t, ofGroup(q, "A"), "A3")
	})
}

// A failed call ends the rest of its Publish, on a FIFO queue as on any.
func TestFIFOPublishCallFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Skip: 1, Times: 3, Effect: sqstest.Error(500, "InternalFailure", "")})
		var names []string
		for i := range 25 {
			names = append(names, fmt.Sprintf("A%02d", i))
		}
		pub := h.publisher(watermillsqs.PublisherConfig{})
		failed := failures(t, pub.Publish("orders.fifo", grouped(names...)...))
		assert.Equal(t, names[10:], keys(failed))
		assert.Equal(t, names[:10], ofGroup(q, "A"))
		require.NoError(t, pub.Publish("orders.fifo", grouped(names[10:]...)...))
		assert.Equal(t, names, ofGroup(q, "A"))
	})
}

// Whatever fails and whatever else is published, the messages of a goroutine are in
// their group in the order in which it published them; and of no group are two sends
// under way at a time.
//
// A batch of which an entry failed and whose answer was lost is the one thing that can
// turn two messages round: it is sent again as it was. So these faults do not meet here.
func TestFIFOPublishKeepsOrderUnderLoad(t *testing.T) {
	t.Run("entries fail", func(t *testing.T) {
		fifoUnderLoad(t, sqstest.Fault{Action: "SendMessageBatch", Share: 0.05, Message: func(sqstest.MessageView) bool { return true }, Effect: onOurSide})
	})
	t.Run("answers are lost", func(t *testing.T) {
		fifoUnderLoad(t, sqstest.Fault{Share: 0.1, Effect: sqstest.LoseAnswer()})
	})
}

func fifoUnderLoad(t *testing.T, fault sqstest.Fault) {
	const goroutines, calls = 40, 25
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		var mu sync.Mutex
		underWay := map[string]bool{}
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(actionOf(r), "SendMessage") {
				return next.RoundTrip(r)
			}
			groups := map[string]bool{}
			rewriteRequest(r, func(body string) string {
				for _, part := range strings.Split(body, `"MessageGroupId":"`)[1:] {
					groups[part[:1]] = true
				}
				return body
			})
			mu.Lock()
			for group := range groups {
				assert.False(t, underWay[group], "two sends of group %s", group)
				underWay[group] = true
			}
			mu.Unlock()
			time.Sleep(time.Duration(1+rand.IntN(20)) * time.Millisecond)
			response, err := next.RoundTrip(r)
			mu.Lock()
			for group := range groups {
				underWay[group] = false
			}
			mu.Unlock()
			return response, err
		})
		h.inject(fault)
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Share: 0.03, Effect: sqstest.Error(400, "InvalidParameterValue", "poison")})
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Share: 0.03, Effect: sqstest.Error(400, "KmsThrottled", "")})
		h.inject(sqstest.Fault{Share: 0.03, Effect: sqstest.Error(500, "InternalFailure", "")})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				number := 0
				for range calls {
					messages := make([]*message.Message, 1+rand.IntN(15))
					for i := range messages {
						number++
						messages[i] = message.NewMessage(fmt.Sprintf("%d-%d", g, number), []byte(fmt.Sprintf("%d-%d", g, number)))
						messages[i].Metadata.Set(watermillsqs.GroupIDKey, string('A'+rune(rand.IntN(5))))
					}
					_ = pub.Publish("orders.fifo", messages...) // what failed leaves a gap
				}
			})
		}
		group.Wait()
		synctest.Wait()
		assert.Zero(t, watermillsqs.Leftovers(h.conn))
		last := map[string]int{}
		for _, m := range q.Messages() {
			g, n, _ := strings.Cut(m.Body, "-")
			number, err := strconv.Atoi(n)
			require.NoError(t, err)
			assert.Greater(t, number, last[g+m.GroupID], "%s in group %s", m.Body, m.GroupID)
			last[g+m.GroupID] = number
		}
		assert.Greater(t, q.Len(), goroutines*calls*3)
	})
}
