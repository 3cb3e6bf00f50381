package watermillsqs_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A head that always fails goes to the dead-letter queue after its attempts, and none of
// the nine healthy messages behind it does, however it fails, whatever else is at work,
// and however many groups may be in hand.
func TestFIFOFailingHeadAlone(t *testing.T) {
	const retryDelay = 3 * time.Second
	ways := []struct {
		name string
		fail func(msg *message.Message)
	}{
		{"nack", func(*message.Message) {}},
		{"retry after", func(msg *message.Message) { watermillsqs.RetryAfter(msg, retryDelay) }},
		{"slow", func(*message.Message) { time.Sleep(3 * time.Second) }},
		{"slower than heads are suspected", func(*message.Message) { time.Sleep(7 * time.Second) }},
		{"slow, retry after", func(msg *message.Message) { time.Sleep(3 * time.Second); watermillsqs.RetryAfter(msg, retryDelay) }},
	}
	for _, attempts := range []int{2, 3, 5} {
		for _, way := range ways {
			for _, others := range []int{0, 2, 10} {
				for _, maxInFlight := range []int{1, 10, 100} {
					name := fmt.Sprintf("%d attempts, %s, %d other groups, MaxInFlight %d", attempts, way.name, others, maxInFlight)
					t.Run(name, func(t *testing.T) {
						bubble(t, func(t *testing.T, h *harness) { failingHead(h, attempts, way.fail, others, maxInFlight) })
					})
				}
			}
		}
	}
}

func failingHead(h *harness, attempts int, fail func(*message.Message), others, maxInFlight int) {
	t := h.t
	q, dead := h.redriven(attempts)
	h.send(q, countUp("a ", 0, 9)...)
	for i := range others {
		group := fmt.Sprint("other", i)
		h.send(q, countUp(group+" "+group+"-", 1, 12)...)
	}
	// Calls take a while, so that nothing depends on two things in the same instant.
	h.service.Inject(sqstest.Fault{Effect: sqstest.Latency(5*time.Millisecond, 15*time.Millisecond)})
	_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: maxInFlight}, "orders.fifo")
	crew := h.employ(messages, func(msg *message.Message) error {
		switch {
		case string(msg.Payload) == "0":
			fail(msg)
			return errHandler
		case groupOf(msg) == "a":
			time.Sleep(50 * time.Millisecond)
		default:
			time.Sleep(300 * time.Millisecond)
		}
		return nil
	})
	crew.until(9 + 12*others)
	time.Sleep(10 * time.Second)
	q.AssertEmpty(t)
	dead.AssertBodies(t, "0")
	h.service.AssertReceived(t, "0", attempts)
	assert.Equal(t, append(slices.Repeat([]string{"0"}, attempts), countUp("", 1, 9)...), crew.handedOf("a"))
	for i := range others {
		group := fmt.Sprint("other", i)
		require.Equal(t, countUp(group+"-", 1, 12), crew.handledOf(group))
	}
}

// From the moment at which a retried head may be visible until it is received, receives
// ask for one message, and before that for several only if they are answered in time.
// Afterwards it is several again.
func TestFIFONarrowReceives(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 20 * time.Second, 2 * time.Minute} {
		bubble(t, func(t *testing.T, h *harness) {
			q, _ := h.redriven(10)
			h.send(q, countUp("a ", 1, 10)...)
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			head := h.next(messages)
			assert.Equal(t, 10, h.service.Calls("ReceiveMessage")[0].MaxMessages)
			time.Sleep(10300 * time.Millisecond)
			before := h.service.Count("ReceiveMessage")
			watermillsqs.RetryAfter(head, after)
			head.Nack()
			failed := time.Now()
			head = h.within(messages, 3*time.Minute)
			require.Equal(t, after, time.Since(failed))
			require.Equal(t, "1", string(head.Payload))
			for _, body := range countUp("", 2, 10) {
				h.service.AssertReceived(t, body, 1)
			}
			for _, call := range h.service.Calls("ReceiveMessage")[before:] {
				if wait := waitOf(t, call); call.MaxMessages > 1 && !call.At.Equal(time.Now()) {
					assert.True(t, call.At.Add(wait).Before(failed.Add(after)), "asks for %d until %v", call.MaxMessages, call.At.Add(wait).Sub(failed))
				}
			}

			head.Ack()
			crew := h.employ(messages, func(*message.Message) error { return nil })
			crew.until(9)
			assert.Equal(t, countUp("", 2, 10), crew.handledOf("a"))
			for _, body := range countUp("", 2, 10) {
				h.service.AssertReceived(t, body, 2)
			}
			before = h.service.Count("ReceiveMessage")
			for group := range 10 {
				h.send(q, countUp(fmt.Sprintf("%d %d-", group, group), 1, 10)...)
			}
			crew.until(109)
			assert.Less(t, h.service.Count("ReceiveMessage")-before, 35)
		})
	}
}

// While it is out, a head that was retried at once is never received with what is behind
// it, also by receives that were under way when it was retried.
func TestFIFOReceivesUnderWayAreWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q, _ := h.redriven(10)
		h.send(q, countUp("a ", 1, 10)...)
		for i := range 5 { // a backlog, so that several receives of several are under way
			h.send(q, countUp(fmt.Sprintf("%d %d-", i, i), 1, 10)...)
		}
		// The answers take time, and so several receives are on the way.
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Latency(20*time.Millisecond, 400*time.Millisecond)})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 100}, "orders.fifo")
		crew := h.employ(messages, func(msg *message.Message) error {
			if string(msg.Payload) == "1" && countOf(msg) < 9 {
				return errHandler
			}
			return nil
		})
		crew.until(60)
		assert.Equal(t, append(slices.Repeat([]string{"1"}, 8), countUp("", 1, 10)...), crew.handedOf("a"))
		h.service.AssertReceived(t, "1", 9)
		for _, body := range countUp("", 2, 10) {
			h.service.AssertReceived(t, body, 2)
		}
	})
}

// A head that came back is expected to fail again, so that no receive of several begins
// for which another retry would have to wait.
func TestFIFORetryDoesNotWaitTwice(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q, _ := h.redriven(10)
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 100}, "orders.fifo")
		var failed []time.Time
		crew := h.employ(messages, func(msg *message.Message) error {
			if string(msg.Payload) == "1" && countOf(msg) < 6 {
				time.Sleep(2 * time.Second)
				failed = append(failed, time.Now()) // one at a time
				return errHandler
			}
			if groupOf(msg) != "a" {
				time.Sleep(time.Second)
			}
			return nil
		})
		for i := range 60 { // so that there is always something to receive, and in hand
			h.send(q, fmt.Sprintf("%d %d-", i, i))
			time.Sleep(297 * time.Millisecond)
		}
		crew.until(70)
		require.Len(t, failed, 5)
		calls := h.changeCalls(-1)
		require.Len(t, calls, 5)
		assert.LessOrEqual(t, calls[0].At.Sub(failed[0]), time.Second)
		for i := 1; i < 5; i++ {
			assert.Equal(t, failed[i], calls[i].At)
		}
	})
}

// A head that another consumer took, and has deleted, keeps the receives narrow only until
// one comes back empty or, where none does, until its visibility timeout would be over.
func TestFIFOHeadTakenByAnother(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint("busy ", busy), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q, _ := h.redriven(10)
				h.send(q, "a 1")
				config := watermillsqs.SubscriberConfig{}
				if !busy {
					config.Queue.Visibility = time.Hour // it is the empty receive that says so
				}
				_, messages := h.subscribe(config, "orders.fifo")
				head := h.next(messages)
				watermillsqs.RetryAfter(head, 10*time.Second)
				head.Nack()
				time.Sleep(5 * time.Second)
				require.NoError(t, h.take(q, head))
				crew := h.employ(messages, func(*message.Message) error { time.Sleep(100 * time.Millisecond); return nil })
				sent := 0
				for range 60 {
					if busy {
						h.send(q, countUp("b b", sent+1, sent+10)...)
						sent += 10
					}
					time.Sleep(time.Second)
				}
				crew.until(sent)
				before := h.service.Count("ReceiveMessage")
				for group := range 10 {
					h.send(q, countUp(fmt.Sprintf("%d %d-", group, group), 1, 10)...)
				}
				crew.until(sent + 100)
				calls := h.service.Calls("ReceiveMessage")[before:]
				assert.GreaterOrEqual(t, slices.Max(asked(calls)), 5)
				assert.Less(t, len(calls), 60)
			})
		})
	}
}

// take is what another consumer does with a message that is not in hand: it receives it,
// and deletes it.
func (h *harness) take(q *sqstest.Queue, msg *message.Message) error {
	facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
	for _, m := range q.Messages() {
		if m.ID == facts.MessageID {
			_, err := h.service.Client().DeleteMessage(h.t.Context(), &sqs.DeleteMessageInput{
				QueueUrl: aws.String(q.URL()), ReceiptHandle: aws.String(m.Receipt),
			})
			return err
		}
	}
	return errHandler
}

// Without a redrive policy no receive is narrowed or shortened: receives of those behind
// a failing head cost nothing.
func TestFIFONothingIsNarrowedWithoutAPolicy(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		crew := h.employ(messages, func(msg *message.Message) error {
			if string(msg.Payload) == "1" && countOf(msg) < 5 {
				return errHandler
			}
			return nil
		})
		start := time.Now()
		crew.until(10)
		assert.Less(t, time.Since(start), 100*time.Millisecond, "a retry waits for nothing")
		for _, call := range h.service.Calls("ReceiveMessage") {
			assert.GreaterOrEqual(t, call.MaxMessages, 9)
			assert.Contains(t, string(call.Request), `"WaitTimeSeconds":20`)
		}
		time.Sleep(time.Second)
		q.AssertEmpty(t)
	})
}

// A retry of the head costs each follower in hand one receive, the one that it was in hand
// by, and not more: with a policy they come again when the head no longer fails; without
// one they come, and are given back, with it each time.
func TestFIFOWhatFollowersPay(t *testing.T) {
	for _, policy := range []bool{true, false} {
		for _, after := range []time.Duration{0, 500 * time.Millisecond, 2 * time.Second, time.Minute} {
			for _, work := range []time.Duration{0, 4 * time.Second, 40 * time.Second} {
				t.Run(fmt.Sprintf("policy %v, retry after %v, work %v", policy, after, work), func(t *testing.T) {
					bubble(t, func(t *testing.T, h *harness) { whatFollowersPay(h, policy, after, work) })
				})
			}
		}
	}
}

func whatFollowersPay(h *harness, policy bool, after, work time.Duration) {
	t := h.t
	var q *sqstest.Queue
	pay := 4
	if policy {
		q, _ = h.redriven(10)
		pay = 2
	} else {
		q = h.fifo("orders.fifo", nil)
	}
	h.send(q, countUp("a ", 1, 20)...)
	h.send(q, countUp("b b", 1, 20)...)
	h.service.Inject(sqstest.Fault{Effect: sqstest.Latency(5*time.Millisecond, 15*time.Millisecond)})
	_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
	crew := h.employ(messages, func(msg *message.Message) error {
		if groupOf(msg) == "a" {
			time.Sleep(work)
		}
		if string(msg.Payload) == "4" && countOf(msg) < 4 {
			watermillsqs.RetryAfter(msg, after)
			return errHandler
		}
		return nil
	})
	crew.until(40)
	time.Sleep(time.Second)
	q.AssertEmpty(t)
	assert.Equal(t, countUp("", 1, 20), crew.handledOf("a"))
	h.service.AssertReceived(t, "4", 4)
	for i := 1; i <= 20; i++ {
		want := 1
		if i > 4 && i <= 10 {
			want = pay
		}
		if receives := h.receivesOf(fmt.Sprint(i)); i != 4 && (i <= 10 || policy) {
			assert.Equal(t, want, receives, "message %d", i)
		}
		h.service.AssertReceived(t, fmt.Sprint("b", i), 1)
	}
}
