package watermillsqs_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// Ten deliveries of 20 s each in one group, with leases of 30 s: the leases of those that
// wait are extended, and none is lost or received again.
func TestFIFOLeasesOfFollowers(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		start := time.Now()
		crew := h.employ(messages, func(*message.Message) error { time.Sleep(20 * time.Second); return nil })
		crew.until(10)
		assert.InDelta(t, 200*time.Second, time.Since(start), float64(time.Second))
		time.Sleep(time.Second)
		q.AssertEmpty(t)
		assert.Equal(t, countUp("", 1, 10), crew.handledOf("a"))
		for _, body := range countUp("", 1, 10) {
			h.service.AssertReceived(t, body, 1)
			assert.Empty(t, h.service.Histories(body)[0].Of(sqstest.EventRefused, sqstest.EventIgnored))
		}
		assert.Empty(t, h.lost())
		for _, s := range h.settled() {
			assert.NoError(t, s.Err)
		}
	})
}

// The extensions of a group travel in one call.
func TestFIFOExtensionsAreBatched(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		msg := h.next(messages)
		h.none(messages, 149*time.Second)
		assert.Len(t, h.service.Calls("ChangeMessageVisibilityBatch"), 9, "at 15 s, 30 s, … 135 s")
		assert.Len(t, h.changes(), 90)
		assert.Equal(t, 10, q.InFlight())
		msg.Ack()
		for range 9 {
			h.next(messages).Ack()
		}
	})
}

// Held for longer than MaxExtension, followers are lost before it is their turn. They come
// again, in order, and each is handled once.
func TestFIFOFollowersOutliveMaxExtension(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 25)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxExtension: time.Minute}, "orders.fifo")
		start := time.Now()
		crew := h.employ(messages, func(*message.Message) error { time.Sleep(17 * time.Second); return nil })
		crew.until(25)
		assert.Equal(t, countUp("", 1, 25), crew.handedOf("a"), "and none of them twice")
		assert.Less(t, time.Since(start), 25*30*time.Second)
		time.Sleep(time.Second)
		q.AssertEmpty(t)
	})
}

// What a lost answer brought is not invisible for a visibility timeout: the receive is
// asked again with the same attempt id, which is no receive of its own.
func TestFIFOLostAnswer(t *testing.T) {
	for _, test := range []struct {
		name   string
		effect sqstest.Effect
		times  int
		within time.Duration
	}{
		{"answer lost", sqstest.LoseAnswer(), 1, time.Second},
		{"every answer of a call lost", sqstest.LoseAnswer(), 3, 3 * time.Second},
		{"every answer of three calls lost", sqstest.LoseAnswer(), 9, 7 * time.Second},
		{"reset", sqstest.After(sqstest.Reset()), 3, 3 * time.Second},
		{"server error", sqstest.After(sqstest.Error(500, "InternalFailure", "")), 3, 3 * time.Second},
		{"bad gateway", sqstest.After(sqstest.Raw(502, "text/html", "<html>")), 3, 3 * time.Second},
		{"no answer", sqstest.HangAfter(), 1, 26 * time.Second},
		{"no answer to a call", sqstest.HangAfter(), 3, 80 * time.Second},
		{"torn", sqstest.After(sqstest.Raw(200, "application/x-amz-json-1.0", `{"Messages":[{"Bo`)), 1, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.intercept(passThrough)
				q := h.fifo("orders.fifo", map[string]string{"VisibilityTimeout": "600"})
				h.send(q, countUp("a ", 1, 10)...)
				fault := h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: test.times, Effect: test.effect})
				start := time.Now()
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
				for _, body := range countUp("", 1, 10) {
					msg := h.within(messages, test.within)
					assert.Equal(t, body, string(msg.Payload))
					assert.Equal(t, 1, countOf(msg))
					msg.Ack()
				}
				assert.LessOrEqual(t, time.Since(start), test.within)
				assert.Equal(t, test.times, fault.Hits())
				calls := h.service.Calls("ReceiveMessage")
				ids := make(map[string]int)
				for i, call := range calls {
					ids[attemptID(t, call)]++
					if i <= test.times {
						assert.Equal(t, attemptID(t, calls[0]), attemptID(t, call))
					}
				}
				assert.NotContains(t, ids, "")
				assert.Len(t, ids, len(calls)-test.times, "every other receive has an id of its own")
				synctest.Wait()
				q.AssertEmpty(t)
				for _, body := range countUp("", 1, 10) {
					h.service.AssertReceived(t, body, 1)
				}
			})
		})
	}
}

// A receive that was refused brought nothing, so the next is a new one.
func TestFIFORefusedReceive(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, "a 1")
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.Error(403, "AccessDenied", "")})
		start := time.Now()
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		h.next(messages).Ack()
		assert.Equal(t, time.Second, time.Since(start))
		calls := h.service.Calls("ReceiveMessage")
		assert.NotEqual(t, attemptID(t, calls[0]), attemptID(t, calls[1]))
		require.Len(t, h.receiveFailures(), 1)
	})
}

// A message that was acked and whose delete did not succeed comes back when its lease is
// over. It is deleted then and not handled again, and what comes with it is handled after
// those before it.
func TestFIFOAckedMessageComesBack(t *testing.T) {
	for _, effect := range []sqstest.Effect{
		sqstest.FailEntry("InternalError", "", false), sqstest.Hang(), sqstest.Reset(), sqstest.Error(403, "AccessDenied", ""),
	} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", map[string]string{"VisibilityTimeout": "4"})
			h.send(q, countUp("a ", 1, 10)...)
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			one := h.service.Inject(sqstest.Fault{Action: "DeleteMessage", Message: bodyIs("2"), Effect: effect})
			batch := h.service.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Message: bodyIs("2"), Effect: effect})
			crew := h.employ(messages, func(*message.Message) error { return nil })
			crew.until(10)
			h.send(q, countUp("a ", 11, 15)...)
			time.Sleep(4500 * time.Millisecond)
			assert.NotZero(t, one.Hits()+batch.Hits())
			one.Remove()
			batch.Remove()
			crew.until(15)
			assert.Equal(t, countUp("", 1, 15), crew.handedOf("a"))
			time.Sleep(5 * time.Second)
			q.AssertEmpty(t)
			h.service.AssertReceived(t, "2", 2)
		})
	}
}

// Likewise while another of its group is at work: it goes before those that wait, and is
// deleted as soon as that one is decided, whatever the verdict.
func TestFIFOAckedMessageComesBackBehindItsFollower(t *testing.T) {
	for _, ack := range []bool{true, false} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", map[string]string{"VisibilityTimeout": "4"})
			h.send(q, countUp("a ", 1, 5)...)
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			fault := h.service.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Message: bodyIs("1"), Effect: sqstest.FailEntry("InternalError", "", false)})
			one := h.service.Inject(sqstest.Fault{Action: "DeleteMessage", Message: bodyIs("1"), Effect: sqstest.FailEntry("InternalError", "", false)})
			h.next(messages).Ack()
			second := h.next(messages)
			time.Sleep(4500 * time.Millisecond)
			h.service.AssertReceived(t, "1", 2)
			fault.Remove()
			one.Remove()
			next := "3"
			if ack {
				second.Ack()
			} else {
				second.Nack()
				next = "2"
			}
			msg := h.next(messages)
			assert.Equal(t, next, string(msg.Payload))
			time.Sleep(time.Second)
			assert.Equal(t, countUp("", 3, 5), bodies(q)[len(bodies(q))-3:])
			assert.NotContains(t, bodies(q), "1", "deleted while the next is at work")
			msg.Ack()
			crew := h.employ(messages, func(*message.Message) error { return nil })
			crew.until(len(bodies(q)) - 1)
			assert.NotContains(t, crew.handedOf("a"), "1")
			time.Sleep(time.Second)
			q.AssertEmpty(t)
			h.service.AssertReceived(t, "1", 2)
		})
	}
}

// An ack whose delete is lost does not hold back the group for longer than it has to: as
// soon as the delete succeeds, the next of the group comes.
func TestFIFODeleteIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, countUp("a ", 1, 20)...)
		h.service.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Message: bodyIs("3"), Times: 2, Effect: sqstest.FailEntry("InternalError", "", false)})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		start := time.Now()
		crew := h.employ(messages, func(*message.Message) error { return nil })
		crew.until(20)
		assert.Less(t, time.Since(start), time.Second)
		assert.Equal(t, countUp("", 1, 20), crew.handedOf("a"))
		synctest.Wait()
		q.AssertEmpty(t)
		h.service.AssertReceived(t, "3", 1)
	})
}

// The next of a group is not received before the delete of the last is through, so a slow
// delete is followed by no duplicate and no message out of order.
func TestFIFOSlowDeletes(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", map[string]string{"VisibilityTimeout": "20"})
		for group := range 3 {
			h.send(q, countUp(fmt.Sprintf("%d %d-", group, group), 1, 30)...)
		}
		h.service.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Effect: sqstest.After(sqstest.Latency(0, 5*time.Second))})
		h.service.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Effect: sqstest.Latency(0, 3*time.Second)})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
		crew := h.employ(messages, func(*message.Message) error { time.Sleep(50 * time.Millisecond); return nil })
		crew.until(90)
		for group := range 3 {
			assert.Equal(t, countUp(fmt.Sprintf("%d-", group), 1, 30), crew.handedOf(fmt.Sprint(group)))
		}
		time.Sleep(10 * time.Second)
		q.AssertEmpty(t)
	})
}
