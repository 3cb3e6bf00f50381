package watermillsqs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// FIFO queues, past the library.

// fifo makes a FIFO queue.
func (h *harness) fifo(name string, attributes map[string]string) *sqstest.Queue {
	h.t.Helper()
	all := map[string]string{"FifoQueue": "true"}
	maps.Copy(all, attributes)
	return h.queue(name, all)
}

// redriven makes the FIFO queue orders.fifo with a dead-letter queue.
func (h *harness) redriven(attempts int) (orders, dead *sqstest.Queue) {
	h.t.Helper()
	dead = h.fifo("dead.fifo", nil)
	return h.fifo("orders.fifo", map[string]string{"RedrivePolicy": redrivePolicy(dead, attempts)}), dead
}

// send sends messages past the library, each given as "group body". On a FIFO queue each
// has a deduplication id of its own.
func (h *harness) send(q *sqstest.Queue, messages ...string) {
	h.t.Helper()
	for batch := range slices.Chunk(messages, 10) {
		in := &sqs.SendMessageBatchInput{QueueUrl: aws.String(q.URL())}
		for i, m := range batch {
			group, body, _ := strings.Cut(m, " ")
			entry := types.SendMessageBatchRequestEntry{
				Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String(body), MessageGroupId: aws.String(group),
			}
			if strings.HasSuffix(q.Name(), ".fifo") {
				entry.MessageDeduplicationId = aws.String(watermill.NewUUID())
			}
			in.Entries = append(in.Entries, entry)
		}
		_, err := h.service.Client().SendMessageBatch(h.t.Context(), in)
		require.NoError(h.t, err)
	}
}

// sendBroken sends a message that cannot be decoded.
func (h *harness) sendBroken(q *sqstest.Queue, group, body string) {
	h.t.Helper()
	in := sendInput(q.URL(), body, watermillsqs.BodyEncodingAttribute, "base64")
	in.MessageGroupId, in.MessageDeduplicationId = aws.String(group), aws.String(watermill.NewUUID())
	_, err := h.service.Client().SendMessage(h.t.Context(), in)
	require.NoError(h.t, err)
}

// countUp are messages, or bodies: "a " gives "a 1", "a 2" and so on.
func countUp(prefix string, from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return all
}

// What the service has seen.

// calledBodies are the bodies of the messages that a call was about, in its order.
func (h *harness) calledBodies(call sqstest.Call) (bodies []string) {
	for _, id := range call.MessageIDs {
		bodies = append(bodies, h.service.History(id).Body)
	}
	return bodies
}

func (h *harness) deleteCalls() []sqstest.Call {
	return h.service.Calls("DeleteMessage", "DeleteMessageBatch")
}

// changeCalls are the changes of visibility that say when a message is to be back: all
// but the extensions, which ask for the visibility timeout of the queue.
func (h *harness) changeCalls(extension int32) []sqstest.Call {
	return slices.DeleteFunc(h.service.Calls("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"), func(call sqstest.Call) bool {
		return call.VisibilityTimeouts[0] == extension
	})
}

// receivesOf are how often the only message with a body was received.
func (h *harness) receivesOf(body string) int {
	h.t.Helper()
	histories := h.service.Histories(body)
	require.Len(h.t, histories, 1)
	return len(histories[0].Of(sqstest.EventReceived))
}

// attemptID is the ReceiveRequestAttemptId of a receive.
func attemptID(t *testing.T, call sqstest.Call) string {
	t.Helper()
	var request struct{ ReceiveRequestAttemptId string }
	require.NoError(t, json.Unmarshal(call.Request, &request))
	return request.ReceiveRequestAttemptId
}

// waitOf is how long a receive waits.
func waitOf(t *testing.T, call sqstest.Call) time.Duration {
	t.Helper()
	var request struct{ WaitTimeSeconds int }
	require.NoError(t, json.Unmarshal(call.Request, &request))
	return time.Duration(request.WaitTimeSeconds) * time.Second
}

// asked are how many messages receives asked for.
func asked(calls []sqstest.Call) (most []int) {
	for _, call := range calls {
		most = append(most, call.MaxMessages)
	}
	return most
}

// Handlers.

var errHandler = errors.New("the handler fails")

// nextOf are the next messages of a subscription, which are one of each of these groups in
// any order.
func (h *harness) nextOf(messages <-chan *message.Message, groups ...string) map[string]*message.Message {
	h.t.Helper()
	next := make(map[string]*message.Message)
	for range groups {
		msg := h.next(messages)
		next[groupOf(msg)] = msg
	}
	for _, group := range groups {
		require.Contains(h.t, next, group)
	}
	return next
}

// crew handles every message of a subscription in a goroutine of its own, as a router
// does, and asserts what holds for message groups whatever happens: one delivery of a
// group at a time.
type crew struct {
	t *testing.T

	mu      sync.Mutex // guards what follows
	busy    map[string]string
	most    int                 // groups at work at a time
	handed  map[string][]string // bodies by group, in order, each time
	handled map[string][]string // those that were acked
	ended   map[string]time.Time
	last    time.Time // when one was acked
	acked   int
}

func groupOf(msg *message.Message) string {
	facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
	return facts.GroupID
}

func countOf(msg *message.Message) int {
	facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
	return facts.ReceiveCount
}

// employ lets a handler work: nil acks, an error nacks. Without messages, it begins with
// serve.
func (h *harness) employ(messages <-chan *message.Message, handler func(msg *message.Message) error) *crew {
	c := &crew{
		t: h.t, busy: make(map[string]string), handed: make(map[string][]string), handled: make(map[string][]string),
		ended: make(map[string]time.Time),
	}
	if messages != nil {
		go c.serve(messages, handler)
	}
	return c
}

// serve works on the messages of one subscription, until its channel is closed and all of
// them are settled.
func (c *crew) serve(messages <-chan *message.Message, handler func(msg *message.Message) error) {
	var handlers sync.WaitGroup
	for msg := range messages {
		c.begin(msg)
		handlers.Go(func() { c.end(msg, handler(msg)) })
	}
	handlers.Wait()
}

func (c *crew) begin(msg *message.Message) {
	group, body := groupOf(msg), string(msg.Payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, busy := c.busy[group]; busy {
		assert.Failf(c.t, "two deliveries of a group at a time", "%s while %s is at work", body, other)
	}
	c.busy[group] = body
	c.most = max(c.most, len(c.busy))
	c.handed[group] = append(c.handed[group], body)
}

func (c *crew) end(msg *message.Message, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	group := groupOf(msg)
	delete(c.busy, group)
	if err != nil {
		msg.Nack()
		return
	}
	if msg.Ack() {
		c.handled[group] = append(c.handled[group], string(msg.Payload))
		c.ended[group], c.last = time.Now(), time.Now()
		c.acked++
	}
}

// until returns when so many messages were acked, and fails after a time without one.
func (c *crew) until(acked int) {
	c.t.Helper()
	const patience = 10 * time.Minute
	for idle := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		n := c.acked
		if c.last.After(idle) {
			idle = c.last
		}
		c.mu.Unlock()
		if n >= acked {
			return
		}
		if time.Since(idle) > patience {
			require.FailNow(c.t, "nothing is handled any more", "%d of %d messages were", n, acked)
		}
	}
}

func (c *crew) handedOf(group string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.handed[group])
}

func (c *crew) handledOf(group string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.handled[group])
}

// endOf is when the last message of a group was acked.
func (c *crew) endOf(group string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[group]
}
