package watermillsqs_test

import (
	"context"
	"fmt"
	"strconv"
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

// TestModel leads random lives: consumers that come and go on one connection, handlers
// that say any verdict at any time or none, and a service on which everything fails now
// and then. However it goes:
//
//   - no message is lost: each is acked, dropped, or in the dead-letter queue in the end;
//   - none is deleted that no handler acked or dropped;
//   - none is handed out while a handler has it, unless the library gave that one up;
//   - none is handed out after its ack, where the service tells the truth: with odd
//     seeds receipts also stop working in silence and messages are delivered twice;
//   - no subscription has more than MaxInFlight in hand, and no permit is lost;
//   - the channel is closed when Close returns, and no goroutine is left (synctest).
//
// A seed fixes what is tried, but not the order in which goroutines of one instant run,
// so a rare failure may need several runs of its seed to come again.
func TestModel(t *testing.T) {
	for _, seed := range seeds(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) { newModel(t, h, seed).run() })
		})
	}
}

type model struct {
	*harness
	*dice

	in, dead *sqstest.Queue
	honest   bool
	config   watermillsqs.SubscriberConfig
	handlers sync.WaitGroup
	lock     sync.Mutex       // guards what follows
	lives    map[string]*life // by message id
}

// life is what became of one message; done is acked or dropped.
type life struct {
	handed      []*message.Message
	acked, done bool
}

func newModel(t *testing.T, h *harness, seed uint64) *model {
	t.Helper()
	h.intercept(passThrough) // an attempt that hangs is given up
	h.lying = seed%2 == 1
	m := &model{harness: h, honest: !h.lying, lives: make(map[string]*life), dice: newDice(seed, 0)}
	attributes := map[string]string{"VisibilityTimeout": strconv.Itoa(2 + m.rand(20))}
	m.dead = m.queue("dead", nil)
	if m.chance(30) {
		attributes["RedrivePolicy"] = redrivePolicy(m.dead, 2+m.rand(6))
	}
	m.in = m.queue("in", attributes)
	m.config = watermillsqs.SubscriberConfig{
		Queue:        watermillsqs.Queue{Wait: time.Duration(1+m.rand(20)) * time.Second, BatchSize: 1 + m.rand(10)},
		MaxInFlight:  1 + m.rand(25),
		MaxExtension: []time.Duration{0, 0, -1, 15 * time.Second}[m.rand(4)],
		CloseTimeout: []time.Duration{0, -1, 3 * time.Second}[m.rand(3)],
	}
	t.Logf("queue %v, subscriber %+v", attributes, m.config)
	return m
}

func (m *model) run() {
	for i := range 40 {
		m.publish("in", strconv.Itoa(i))
	}
	chaos, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	var actors sync.WaitGroup
	for range 3 {
		actors.Go(func() { m.breakThings(chaos) })
		actors.Go(func() {
			for chaos.Err() == nil {
				m.consume(chaos)
			}
		})
	}
	actors.Wait()
	m.handlers.Wait()
	m.finish()
	m.judge()
}

// breakThings injects one fault after the other.
func (m *model) breakThings(chaos context.Context) {
	actions := strings.Split("ReceiveMessage DeleteMessage DeleteMessageBatch ChangeMessageVisibility "+
		"ChangeMessageVisibilityBatch GetQueueUrl GetQueueAttributes ", " ") // the last is any
	effects := []sqstest.Effect{
		sqstest.Error(500, "InternalFailure", ""), sqstest.Error(403, "AccessDenied", ""), sqstest.Throttle(),
		sqstest.FailEntry("InternalError", "", false), sqstest.LoseAnswer(), sqstest.Hang(), sqstest.HangAfter(),
	}
	for chaos.Err() == nil {
		pause(chaos, m.upTo(20*time.Second))
		effect := effects[m.rand(len(effects))]
		if !m.honest && m.chance(30) {
			effect = sqstest.InvalidateReceipt()
		}
		if messages := m.in.Messages(); !m.honest && len(messages) > 0 && m.chance(50) {
			// Deliver a message that somebody may hold once more.
			receipt := messages[m.rand(len(messages))].Receipt
			_, _ = m.service.Client().ChangeMessageVisibility(chaos, changeVisibilityInput(m.in.URL(), receipt, 0))
		}
		fault := m.service.Inject(sqstest.Fault{Action: actions[m.rand(len(actions))], Skip: m.rand(3), Times: m.rand(10), Effect: effect})
		pause(chaos, m.upTo(30*time.Second))
		fault.Remove()
	}
}

// consume opens a subscription, reads from it for a while, and ends it in some way.
func (m *model) consume(chaos context.Context) {
	inHand := new(int)
	m.subscribeForAWhile(chaos, m.t, m.subscriber(m.config), "in", time.Minute, 5,
		func(msg *message.Message) { m.hand(msg, inHand, m.behave) }, m.handlers.Go)
}

// hand gives a message to a handler in a goroutine of its own, as a router does.
func (m *model) hand(msg *message.Message, inHand *int, handler func(*message.Message) (ack, drop bool)) {
	facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
	m.lock.Lock()
	defer m.lock.Unlock()
	l := m.lives[facts.MessageID]
	if l == nil {
		l = &life{}
		m.lives[facts.MessageID] = l
	}
	for _, other := range l.handed {
		select {
		case <-other.Acked():
		case <-other.Nacked():
		default:
			assert.Failf(m.t, "handed out while a handler has it", "message %s", msg.Payload)
		}
	}
	assert.False(m.t, m.honest && l.acked, "message %s is handed out after its ack", msg.Payload)
	l.handed = append(l.handed, msg)
	*inHand++
	assert.LessOrEqual(m.t, *inHand, m.config.MaxInFlight)
	m.handlers.Go(func() {
		ack, drop := handler(msg)
		m.lock.Lock() // the verdict and what is written about it go together
		defer m.lock.Unlock()
		*inHand--
		if ack && msg.Ack() || !ack && msg.Nack() {
			l.acked, l.done = l.acked || ack && !drop, l.done || ack || drop
		}
	})
}

// behave is a random handler.
func (m *model) behave(msg *message.Message) (ack, drop bool) {
	switch n := m.rand(100); {
	case n < 20: // at once
	case n < 30: // when told to stop
		<-msg.Context().Done()
	case n < 55: // whatever it is told
		time.Sleep(m.upTo(time.Minute))
	default:
		pause(msg.Context(), m.upTo(time.Minute))
	}
	switch n := m.rand(100); {
	case n < 50:
		return true, false
	case n < 60:
		watermillsqs.RetryAfter(msg, m.upTo(30*time.Second))
		return m.chance(10), false // an ack all the same
	case n < 70:
		watermillsqs.Drop(msg)
		return m.chance(50), true
	default:
		return false, false
	}
}

// finish acks what is left, on a service that works again.
func (m *model) finish() {
	_, messages := m.subscribe(m.config, "in")
	inHand := new(int)
	for start := time.Now(); m.in.Len() > 0; {
		select {
		case msg := <-messages:
			m.hand(msg, inHand, func(*message.Message) (bool, bool) { return true, false })
			m.handlers.Wait()
		case <-time.After(time.Second):
			require.Less(m.t, time.Since(start), 2*time.Hour, "the queue is never empty: %+v", m.in.Messages())
		}
	}
	for range m.config.MaxInFlight { // every permit is there
		m.publish("in", "last")
	}
	together := make(chan struct{})
	for range m.config.MaxInFlight {
		m.hand(m.next(messages), inHand, func(*message.Message) (bool, bool) { <-together; return true, false })
	}
	close(together)
	m.handlers.Wait()
	require.NoError(m.t, m.conn.Close()) // closes sub, too
	assert.Equal(m.t, 0, m.in.Len())
}

// judge compares what the service has and was asked for with what the handlers said.
func (m *model) judge() {
	dead := make(map[string]bool)
	for _, msg := range m.dead.Messages() {
		dead[msg.ID] = true
	}
	for _, call := range m.service.Calls("SendMessage", "SendMessageBatch", "DeleteMessage", "DeleteMessageBatch") {
		for _, id := range call.MessageIDs {
			l := m.lives[id]
			done := l != nil && l.done
			if strings.HasPrefix(call.Action, "Send") {
				assert.True(m.t, done || dead[id], "message %s is lost", id)
			} else {
				assert.True(m.t, done, "message %s is deleted and nobody acked or dropped it", id)
			}
		}
	}
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
