package watermillsqs_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// handleAll hands the messages of a subscription to handlers of their own, as a router
// does, until n have been acked.
func handleAll(messages <-chan *message.Message, n int, handle func(*message.Message)) {
	done := make(chan struct{})
	for range n {
		msg := <-messages
		go func() {
			handle(msg)
			msg.Ack()
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
}

// At saturation a message costs a tenth of a receive and a tenth of a delete, and little
// more, whatever is in flight, however long a call takes and however long handlers take.
func TestCallsAtSaturation(t *testing.T) {
	handlers := map[string]func(*message.Message){
		"no-op": func(*message.Message) {},
		"20 ms": func(*message.Message) { time.Sleep(20 * time.Millisecond) },
		"5-200 ms": func(msg *message.Message) { // the same each time, so that the count is
			n, err := strconv.ParseUint(string(msg.Payload), 10, 64)
			assert.NoError(t, err)
			time.Sleep(5*time.Millisecond + time.Duration(rand.New(rand.NewPCG(n, 0)).Int64N(int64(195*time.Millisecond))))
		},
	}
	for _, inFlight := range []int{10, 100, 1000} {
		for _, latency := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond} {
			for name, handle := range handlers {
				if inFlight == 10 && name == "5-200 ms" {
					continue // settling early is worth more there: permits are short
				}
				t.Run(fmt.Sprintf("%d in flight, %v a call, handler %s", inFlight, latency, name), func(t *testing.T) {
					bubble(t, func(t *testing.T, h *harness) {
						const n = 3000
						h.queue("orders", nil)
						require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders", numbered(n)...))
						if latency > 0 {
							h.service.Inject(sqstest.Fault{Effect: sqstest.Latency(latency, latency)})
						}
						start := time.Now()
						sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: inFlight}, "orders")
						handleAll(messages, n, handle)
						took := time.Since(start)
						require.NoError(t, sub.Close())
						h.service.Queue("orders").AssertEmpty(t)

						receives, deletes := h.service.Count("ReceiveMessage"), h.deletes()
						t.Logf("%d receives, %d deletes for %d messages in %v", receives, deletes, n, took)
						// Each poller may find the queue empty once.
						assert.LessOrEqual(t, receives+deletes-min(inFlight/10, 64), n*22/100)
					})
				})
			}
		}
	}
}

// slowMarshaler takes a while for each message that it decodes.
type slowMarshaler struct{ watermillsqs.DefaultMarshaler }

func (m slowMarshaler) Unmarshal(topic string, msg types.Message) (*message.Message, error) {
	time.Sleep(time.Millisecond)
	return m.DefaultMarshaler.Unmarshal(topic, msg)
}

// What a receive brings is in hand together: the first message, acked at once, does not
// take itself for the last, and is deleted with the others.
func TestAckWaitsForTheRestOfItsReceive(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.publish("orders", countUp("", 1, 10)...)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Marshaler: slowMarshaler{}}, "orders")
		handleAll(messages, 10, func(*message.Message) {})
		time.Sleep(time.Second)
		q.AssertEmpty(t)
		assert.Equal(t, 1, h.deletes())
	})
}

// A delete waits for others while there is something in hand that may bring them, but
// not for long; without that it leaves at once, and a retry always does.
func TestLinger(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.publish("orders", "1", "2", "3", "4")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		var all []*message.Message
		for range 4 {
			all = append(all, h.next(messages))
		}
		start := time.Now()
		sentAfter := func(actions ...string) time.Duration {
			time.Sleep(time.Second)
			calls := h.service.Calls(actions...)
			return calls[len(calls)-1].At.Sub(start)
		}
		all[0].Ack() // after no time at all
		assert.Equal(t, 10*time.Millisecond, sentAfter("DeleteMessage"))

		time.Sleep(10 * time.Second)
		start = time.Now()
		all[1].Ack() // after long
		assert.Equal(t, 100*time.Millisecond, sentAfter("DeleteMessage"))

		start = time.Now()
		all[2].Nack()
		assert.Zero(t, sentAfter("ChangeMessageVisibility"))

		again := h.next(messages)
		time.Sleep(time.Second)
		start = time.Now()
		again.Ack()
		all[3].Ack() // nothing is left to wait for
		assert.Zero(t, sentAfter("DeleteMessageBatch"))
		assert.Equal(t, 3, h.deletes())
	})
}

// A poller that has some permits waits for those of settlements under way, but not for
// long, so that a receive asks for as many as it can.
func TestPollerWaitsForPermits(t *testing.T) {
	for _, test := range []struct {
		latency time.Duration // of a delete
		asked   []int         // by the receives
	}{
		{50 * time.Millisecond, []int{10, 10, 5}},
		{time.Second, []int{10, 5, 5}},
	} {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("orders", nil)
			h.publish("orders", countUp("", 1, 10)...)
			h.service.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Effect: sqstest.Latency(test.latency, test.latency)})
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
			var all []*message.Message
			for range 10 {
				all = append(all, h.next(messages))
			}
			for _, msg := range all[:5] {
				msg.Ack()
			}
			time.Sleep(10 * time.Millisecond) // they leave
			for _, msg := range all[5:] {
				msg.Nack() // answered at once: five permits are free
			}
			time.Sleep(5 * time.Second)
			var asked []int
			for _, call := range h.service.Calls("ReceiveMessage") {
				asked = append(asked, call.MaxMessages)
			}
			assert.Equal(t, test.asked, asked)
		})
	}
}

// From publish to delete a message costs no more than 0.33 calls at saturation, although
// each is published by a call of its own; and about the same whatever is in flight.
func TestCallsPerMessage(t *testing.T) {
	perMessage := map[int]float64{}
	for _, inFlight := range []int{10, 100, 1000, 10_000} {
		t.Run(fmt.Sprint(inFlight), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				const publishers, each = 200, 50
				h.queue("orders", nil)
				latency := 5 * time.Millisecond
				h.service.Inject(sqstest.Fault{Effect: sqstest.Latency(latency, latency)})
				var calls watermillsqs.CallCounter
				cfg := h.service.AWSConfig()
				h.connectWith(watermillsqs.Config{AWS: &cfg, Called: calls.Count})

				pub := h.publisher(watermillsqs.PublisherConfig{})
				var all sync.WaitGroup
				for range publishers {
					all.Go(func() {
						for _, msg := range numbered(each) {
							assert.NoError(t, pub.Publish("orders", msg))
						}
					})
				}
				all.Wait()
				sub, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: inFlight}, "orders")
				handleAll(messages, publishers*each, func(*message.Message) {})
				require.NoError(t, sub.Close())
				h.service.Queue("orders").AssertEmpty(t)
				t.Logf("%.4f calls a message: %v", calls.PerMessage(), calls.Counts())
				assert.LessOrEqual(t, calls.PerMessage(), 0.33)
				perMessage[inFlight] = calls.PerMessage()
			})
		})
	}
	for inFlight, found := range perMessage {
		assert.InEpsilon(t, perMessage[10], found, 0.1, "%d in flight", inFlight)
	}
}
