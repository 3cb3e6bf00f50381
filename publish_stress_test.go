package watermillsqs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// Under every kind of fault, contexts that end and timeouts, each message has one result, which
// is true: what is said to be accepted is in the queue, what is said not to be sent is
// not; groups keep the order of a caller's calls; nothing is left behind. Callers change
// their messages as soon as Publish has returned.
func TestPublishEveryMessageHasOneTrueResult(t *testing.T) {
	for _, seed := range seeds(30) {
		for _, topic := range []string{"orders", "orders.fifo"} {
			t.Run(fmt.Sprint(topic, seed), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					var q *sqstest.Queue
					if topic == "orders" {
						q = h.queue(topic, nil)
					} else {
						q = h.fifo(topic, nil)
					}
					h.service.Seed(seed)
					every := func(sqstest.MessageView) bool { return true }
					for _, f := range []sqstest.Fault{
						{Share: 0.5, Message: every, Effect: sqstest.Latency(0, 400*time.Millisecond)},
						{Share: 0.03, Message: every, Effect: sqstest.FailEntry("InternalError", "", false)},
						{Share: 0.01, Message: every, Effect: sqstest.FailEntry("InvalidParameterValue", "", true)},
						{Share: 0.03, Action: "SendMessageBatch", Effect: sqstest.Error(400, "InvalidParameterValue", "")},
						{Share: 0.03, Message: every, Effect: sqstest.Error(400, "KmsThrottled", "")},
						{Share: 0.03, Message: every, Effect: sqstest.Error(0, "QueueDoesNotExist", "")},
						{Share: 0.02, Message: every, Effect: sqstest.Error(403, "AccessDenied", "")},
						{Share: 0.05, Message: every, Effect: sqstest.Throttle()},
						{Share: 0.01, Message: every, Effect: sqstest.Hang()},
					} {
						h.inject(f)
					}
					pub := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: 3 * time.Second})
					var mu sync.Mutex
					accepted, notSent := map[string]bool{}, map[string]string{}
					var callers sync.WaitGroup
					for caller := range 12 {
						rng := rand.New(rand.NewPCG(seed, uint64(caller)))
						callers.Go(func() {
							for call := range 8 {
								n := []int{1, 1, 2, 7, 10, 23, 60}[rng.IntN(7)]
								messages := make([]*message.Message, n)
								names := make([]string, n)
								for i := range messages {
									names[i] = fmt.Sprintf("%d %02d %03d", caller, call, i)
									messages[i] = message.NewMessage(fmt.Sprintf("%d-%02d-%03d", caller, call, i), []byte(names[i]))
									messages[i].Metadata.Set(watermillsqs.GroupIDKey, []string{"shared", fmt.Sprint(caller)}[i%2])
									if rng.IntN(10) == 0 {
										ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(500))*time.Millisecond)
										defer cancel()
										messages[i].SetContext(ctx)
									}
								}
								start := time.Now()
								failed := failures(t, pub.Publish(topic, messages...))
								assert.LessOrEqual(t, time.Since(start), 3*time.Second)
								for i, m := range messages {
									mu.Lock()
									err := failed[m.UUID]
									if err == nil {
										accepted[names[i]] = true
									} else if len(err.Error()) > 8 && err.Error()[:8] == "not sent" && !strings.Contains(err.Error(), "not sent again") {
										notSent[names[i]] = err.Error()
									}
									mu.Unlock()
									m.UUID, m.Payload = "changed", append(m.Payload[:0], 'x')
									clear(m.Metadata)
									m.SetContext(context.Background())
								}
								time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
							}
						})
					}
					callers.Wait()
					time.Sleep(10 * time.Second)
					synctest.Wait()
					assert.Zero(t, watermillsqs.Leftovers(h.conn))
					seen := map[string]int{}
					last := map[string]string{}
					for _, m := range q.Messages() {
						seen[m.Body]++
						assert.NotEqual(t, "x", m.Body)
						if topic == "orders.fifo" {
							key := m.GroupID + "/" + m.Body[:2]
							if m.Body[1] != ' ' {
								key = m.GroupID + "/" + m.Body[:3]
							}
							require.Less(t, last[key], m.Body, "out of order")
							last[key] = m.Body
						}
					}
					for name := range accepted {
						assert.Equal(t, 1, min(seen[name], 1), "lost: %s", name)
					}
					for name, err := range notSent {
						assert.Zero(t, seen[name], "%s: %s", name, err)
					}
				})
			})
		}
	}
}
