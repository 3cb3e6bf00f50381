package watermillsqs_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A hot group whose handler is slow has one permit of ten, and the nine other groups have
// the other nine: they are as fast as without it.
func TestFIFOSlowGroup(t *testing.T) {
	const work = 100 * time.Millisecond
	for _, policy := range []bool{false, true} {
		t.Run(fmt.Sprint("policy ", policy), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				var q *sqstest.Queue
				if policy {
					q, _ = h.redriven(3)
				} else {
					q = h.fifo("orders.fifo", nil)
				}
				h.send(q, countUp("slow ", 1, 1000)...)
				for group := range 9 {
					h.send(q, countUp(fmt.Sprintf("%d %d-", group, group), 1, 100)...)
				}
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 10}, "orders.fifo")
				start := time.Now()
				crew := h.employ(messages, func(msg *message.Message) error {
					if groupOf(msg) == "slow" {
						time.Sleep(11 * time.Second)
						return nil
					}
					time.Sleep(work)
					return nil
				})
				crew.until(900)
				for group := range 9 {
					assert.Equal(t, 100*work, crew.endOf(fmt.Sprint(group)).Sub(start))
					assert.Equal(t, countUp(fmt.Sprintf("%d-", group), 1, 100), crew.handledOf(fmt.Sprint(group)))
				}
				assert.Equal(t, 10, crew.most)
				crew.until(900 + 20) // it goes on, one each eleven seconds
				assert.Equal(t, countUp("", 1, 20), crew.handledOf("slow"))
				assert.Equal(t, start.Add(220*time.Second), crew.endOf("slow"))
				for i := 1; i <= 20; i++ {
					h.service.AssertReceived(t, fmt.Sprint(i), 1)
				}
				for group := range 9 {
					for _, body := range countUp(fmt.Sprintf("%d-", group), 1, 100) {
						require.Equal(t, 1, h.receivesOf(body))
					}
				}
			})
		})
	}
}

// A thousand messages in twenty groups, of which one in twenty attempts fails: a retry
// costs ten receives at most, those of the head and of the nine that one receive can
// bring behind it.
func TestFIFORetriesAmongGroups(t *testing.T) {
	for _, policy := range []bool{false, true} {
		t.Run(fmt.Sprint("policy ", policy), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				var q, dead *sqstest.Queue
				if policy {
					q, dead = h.redriven(100)
				} else {
					q = h.fifo("orders.fifo", nil)
				}
				for i := 1; i <= 50; i += 10 {
					for group := range 20 {
						h.send(q, countUp(fmt.Sprintf("%d %d-", group, group), i, i+9)...)
					}
				}
				h.service.Inject(sqstest.Fault{Effect: sqstest.Latency(5*time.Millisecond, 15*time.Millisecond)})
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 20}, "orders.fifo")
				var mu sync.Mutex
				random, retries := rand.New(rand.NewPCG(1, 2)), 0
				start := time.Now()
				crew := h.employ(messages, func(msg *message.Message) error {
					mu.Lock()
					fails, work := random.IntN(20) == 0, time.Duration(random.IntN(40))*time.Millisecond
					if fails {
						retries++
					}
					mu.Unlock()
					time.Sleep(work)
					if fails {
						return errHandler
					}
					return nil
				})
				crew.until(1000)
				took := time.Since(start)
				time.Sleep(3 * time.Second)
				q.AssertEmpty(t)
				if policy {
					dead.AssertEmpty(t)
				}
				counts, total := make(map[int]int), 0
				for group := range 20 {
					bodies := countUp(fmt.Sprintf("%d-", group), 1, 50)
					require.Equal(t, bodies, crew.handledOf(fmt.Sprint(group)))
					for _, body := range bodies {
						n := h.receivesOf(body)
						counts[n]++
						total += n
					}
				}
				mu.Lock()
				defer mu.Unlock()
				var table strings.Builder
				for _, n := range slices.Sorted(maps.Keys(counts)) {
					fmt.Fprintf(&table, " %d×%d", counts[n], n)
				}
				t.Logf("%d retries, %d receives of messages in %d calls, in %v; messages×receives:%s",
					retries, total, h.service.Count("ReceiveMessage"), took, table.String())
				assert.LessOrEqual(t, total, 1000+10*retries)
				if policy {
					// The followers of a head come with it only once more, however often it
					// fails; and no retry is waited for for longer than the receives under way.
					assert.LessOrEqual(t, slices.Max(slices.Collect(maps.Keys(counts))), 8)
				}
				assert.Less(t, took, time.Duration(retries+50)*2*time.Second, "a retry waits for a second at most")
			})
		})
	}
}
