package watermillsqs_test

import (
	"context"
	"fmt"
	"slices"
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

// TestFIFOModel leads random lives as TestModel does, on a FIFO queue. However it goes:
//
//   - no message is lost: each is acked, dropped, or in the dead-letter queue in the end,
//     and none is deleted that no handler acked or dropped;
//   - the acks of a group are in the order in which its messages were sent, and nothing is
//     handed out after its ack;
//   - a subscription hands out one message of a group at a time, and has no more groups in
//     hand than MaxInFlight;
//   - no permit is lost, the channel is closed when Close returns, and no goroutine is left
//     (synctest).
//
// In a calm life no call fails and every lease is extended for as long as it has to be.
// Then the consumers may also be of two processes, each message is acked exactly once, and
// no two messages of a group are in hand anywhere. With faults two processes cannot keep
// the order: what one has acked and cannot delete, the other receives.
//
// A seed fixes what is tried, but not the order in which goroutines of one instant run.
func TestFIFOModel(t *testing.T) {
	for _, seed := range seeds(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) { newFIFOModel(t, h, seed).run() })
		})
	}
}

type fifoModel struct {
	*harness
	*dice

	in, dead  *sqstest.Queue
	calm      bool
	processes []*watermillsqs.Connection
	delay     time.Duration // of the queue
	policy    bool
	config    watermillsqs.SubscriberConfig
	handlers  sync.WaitGroup
	lock      sync.Mutex               // guards what follows
	sent      map[string]int           // how many, by group
	lives     map[string]*fifoLife     // by body
	acked     map[string][]int         // numbers, by group, in order
	inHand    map[string][]*fifoInHand // by group
	began     time.Time
	diary     map[string][]string // what handlers did, by group
}

type fifoInHand struct {
	msg *message.Message
	by  *fifoConsumer
}

// fifoConsumer is one subscription.
type fifoConsumer struct{ inHand int }

type fifoLife struct{ acked, done bool }

func newFIFOModel(t *testing.T, h *harness, seed uint64) *fifoModel {
	t.Helper()
	h.intercept(passThrough) // an attempt that hangs is given up
	m := &fifoModel{
		harness: h, calm: seed%3 == 0, dice: newDice(seed, 1), sent: make(map[string]int),
		lives: make(map[string]*fifoLife), acked: make(map[string][]int), inHand: make(map[string][]*fifoInHand),
		began: time.Now(), diary: make(map[string][]string),
	}
	h.lying = seed%3 == 2 // receipts become invalid
	m.processes = []*watermillsqs.Connection{h.conn}
	if m.calm && m.chance(50) {
		cfg := h.service.AWSConfig()
		other, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{AWS: &cfg})
		require.NoError(t, err)
		m.processes = append(m.processes, other)
	}
	attributes := map[string]string{"VisibilityTimeout": strconv.Itoa(2 + m.rand(28))}
	m.dead = m.fifo("dead.fifo", nil)
	if m.policy = m.chance(40); m.policy {
		attributes["RedrivePolicy"] = redrivePolicy(m.dead, 2+m.rand(8))
	}
	if m.chance(20) {
		m.delay = time.Duration(1+m.rand(5)) * time.Second
		attributes["DelaySeconds"] = strconv.Itoa(int(m.delay / time.Second))
	}
	m.in = m.fifo("in.fifo", attributes)
	m.config = watermillsqs.SubscriberConfig{
		Queue:        watermillsqs.Queue{Wait: time.Duration(1+m.rand(20)) * time.Second, BatchSize: 1 + m.rand(10)},
		MaxInFlight:  1 + m.rand(15),
		CloseTimeout: []time.Duration{0, -1, 3 * time.Second}[m.rand(3)],
	}
	if !m.calm {
		m.config.MaxExtension = []time.Duration{0, 0, -1, 15 * time.Second}[m.rand(4)]
	}
	if m.chance(30) {
		m.config.Backoff = watermillsqs.ExponentialBackoff(time.Second, 10*time.Second)
	}
	t.Logf("calm %v, %d processes, queue %v, subscriber %+v", m.calm, len(m.processes), attributes, m.config)
	return m
}

func (m *fifoModel) run() {
	chaos, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	groups, messages := 1+m.rand(8), 50+m.rand(251)
	m.sendSome(groups, messages/2)
	var actors sync.WaitGroup
	actors.Go(func() {
		for left := messages - messages/2; left > 0; {
			pause(chaos, m.upTo(20*time.Second))
			n := min(left, 1+m.rand(40))
			left -= n
			m.sendSome(groups, n)
		}
	})
	if !m.calm {
		for range 2 {
			actors.Go(func() { m.breakThings(chaos) })
		}
	}
	consumers := 1 + m.rand(3)
	for i := range consumers {
		actors.Go(func() {
			for chaos.Err() == nil {
				m.consume(chaos, m.processes[i%len(m.processes)])
			}
		})
	}
	actors.Wait()
	m.handlers.Wait()
	m.finish()
	m.judge()
}

// sendSome sends messages to random groups. The number of a message in its group is in
// its body.
func (m *fifoModel) sendSome(groups, n int) {
	list := make([]string, n)
	broken := -1
	if m.policy && m.chance(10) {
		broken = m.rand(n)
	}
	for i := range list {
		group := fmt.Sprintf("g%d", m.rand(groups))
		m.lock.Lock()
		body := fmt.Sprintf("%s#%d", group, m.sent[group])
		m.sent[group]++
		m.lives[body] = &fifoLife{}
		m.lock.Unlock()
		list[i] = group + " " + body
		if i == broken {
			m.send(m.in, list[:i]...)
			m.sendBroken(m.in, group, body)
			m.lock.Lock()
			m.lives[body].done = true // it is nothing that a handler sees
			m.lock.Unlock()
		}
	}
	m.send(m.in, list[broken+1:]...)
}

// breakThings injects one fault after the other.
func (m *fifoModel) breakThings(chaos context.Context) {
	actions := strings.Split("ReceiveMessage ReceiveMessage DeleteMessage DeleteMessageBatch ChangeMessageVisibility "+
		"ChangeMessageVisibilityBatch GetQueueUrl", " ")
	effects := []sqstest.Effect{
		sqstest.Error(500, "InternalFailure", ""), sqstest.Error(403, "AccessDenied", ""), sqstest.Throttle(),
		sqstest.FailEntry("InternalError", "", false), sqstest.LoseAnswer(), sqstest.Hang(), sqstest.HangAfter(), sqstest.Reset(),
		sqstest.Latency(0, 3*time.Second), sqstest.After(sqstest.Latency(0, time.Second)), sqstest.TakeWhenGone(),
	}
	for chaos.Err() == nil {
		pause(chaos, m.upTo(20*time.Second))
		effect, action := effects[m.rand(len(effects))], actions[m.rand(len(actions))]
		if m.lying && m.chance(40) {
			effect = sqstest.InvalidateReceipt()
		}
		fault := m.service.Inject(sqstest.Fault{Queue: "in.fifo", Action: action, Skip: m.rand(3), Times: m.rand(10), Effect: effect})
		pause(chaos, m.upTo(30*time.Second))
		fault.Remove()
	}
}

// consume opens a subscription, reads from it for a while, and ends it in some way.
func (m *fifoModel) consume(chaos context.Context, conn *watermillsqs.Connection) {
	config := m.config
	config.Hooks = m.hooks()
	sub, err := watermillsqs.NewSubscriber(conn, config, m.log)
	require.NoError(m.t, err)
	me := &fifoConsumer{}
	m.subscribeForAWhile(chaos, m.t, sub, "in.fifo", 2*time.Minute, 2,
		func(msg *message.Message) { m.hand(msg, me, m.behave) }, m.handlers.Go)
}

// hand gives a message to a handler in a goroutine of its own, as a router does.
func (m *fifoModel) hand(msg *message.Message, me *fifoConsumer, handler func(*message.Message) (ack, drop bool)) {
	body, group := string(msg.Payload), groupOf(msg)
	number, err := strconv.Atoi(strings.TrimPrefix(body, group+"#"))
	require.NoError(m.t, err)
	m.lock.Lock()
	defer m.lock.Unlock()
	life := m.lives[body]
	if life.acked {
		m.tell(group, number)
		assert.Fail(m.t, "handed out after its ack", "%v %s", time.Since(m.began), body)
	}
	m.inHand[group] = slices.DeleteFunc(m.inHand[group], func(other *fifoInHand) bool {
		select {
		case <-other.msg.Acked():
		case <-other.msg.Nacked(): // perhaps by the library
		default:
			return false
		}
		return true
	})
	for _, other := range m.inHand[group] {
		assert.False(m.t, m.calm || other.by == me, "message %s is handed out while %s is in hand", body, other.msg.Payload)
	}
	note := func(what string) {
		m.diary[group] = append(m.diary[group], fmt.Sprintf("%v %p %s (%d) %s", time.Since(m.began), me, body, countOf(msg), what))
	}
	note("in hand")
	m.inHand[group] = append(m.inHand[group], &fifoInHand{msg: msg, by: me})
	me.inHand++
	assert.LessOrEqual(m.t, me.inHand, m.config.MaxInFlight)
	m.handlers.Go(func() {
		ack, drop := handler(msg)
		m.lock.Lock() // the verdict and what is written about it go together
		defer m.lock.Unlock()
		me.inHand--
		if said := ack && msg.Ack() || !ack && msg.Nack(); !said {
			note("given up")
			return // the library gave it up
		}
		note(fmt.Sprintf("ack %v drop %v, context %v", ack, drop, context.Cause(msg.Context())))
		life.done = life.done || ack || drop
		if ack && !drop {
			life.acked = true
			m.acked[group] = append(m.acked[group], number)
		}
	})
}

// behave is a random handler.
func (m *fifoModel) behave(msg *message.Message) (ack, drop bool) {
	switch n := m.rand(100); {
	case n < 60: // at once
	case n < 80:
		time.Sleep(m.upTo(time.Second))
	case n < 82: // when told to stop
		<-msg.Context().Done()
	case n < 86: // whatever it is told
		time.Sleep(m.upTo(time.Minute))
	default:
		pause(msg.Context(), m.upTo(20*time.Second))
	}
	switch n := m.rand(100); {
	case n < 80:
		return true, false
	case n < 86:
		watermillsqs.RetryAfter(msg, m.upTo(20*time.Second))
		return m.chance(10), false // an ack all the same
	case n < 90:
		watermillsqs.Drop(msg)
		return m.chance(50), true
	default:
		return false, false
	}
}

// finish acks what is left, on a service that works again.
func (m *fifoModel) finish() {
	for _, conn := range m.processes[1:] {
		require.NoError(m.t, conn.Close())
	}
	_, messages := m.subscribe(m.config, "in.fifo")
	me := &fifoConsumer{}
	ackNow := func(*message.Message) (bool, bool) { return true, false }
	for start := time.Now(); m.in.Len() > 0; {
		select {
		case msg := <-messages:
			m.hand(msg, me, ackNow)
			m.handlers.Wait()
		case <-time.After(time.Second):
			require.Less(m.t, time.Since(start), 2*time.Hour, "the queue is never empty: %+v", m.in.Messages())
		}
	}
	time.Sleep(time.Minute)               // calls that hang end
	for i := range m.config.MaxInFlight { // every permit is there
		group := fmt.Sprintf("last%d", i)
		m.lives[group+"#0"] = &fifoLife{}
		m.sent[group] = 1
		m.send(m.in, group+" "+group+"#0")
	}
	together := make(chan struct{})
	for range m.config.MaxInFlight {
		m.hand(m.next(messages), me, func(*message.Message) (bool, bool) { <-together; return true, false })
	}
	close(together)
	m.handlers.Wait()
	require.NoError(m.t, m.conn.Close()) // closes the subscriber, too
	for _, msg := range m.in.Messages() {
		assert.Fail(m.t, "not deleted", "%s", m.service.History(msg.ID))
	}
}

// judge compares what the service has and was asked for with what the handlers said.
func (m *fifoModel) judge() {
	dead := make(map[string]bool)
	for _, msg := range m.dead.Messages() {
		dead[msg.Body] = true
	}
	for group, sent := range m.sent {
		for i := range sent {
			body := fmt.Sprintf("%s#%d", group, i)
			assert.True(m.t, m.lives[body].done || dead[body], "message %s is lost", body)
			assert.False(m.t, m.calm && m.lives[body].acked && dead[body], "message %s was acked and is dead", body)
		}
		// One that is dead was gone when an ack came that was too late for it.
		acked := slices.DeleteFunc(m.acked[group], func(number int) bool { return dead[fmt.Sprintf("%s#%d", group, number)] })
		for i, number := range acked {
			if i > 0 && acked[i-1] > number {
				m.tell(group, acked[i-1], number)
				assert.Failf(m.t, "not in order", "the acks of %s are in the order %v", group, acked)
			}
		}
	}
	for _, call := range m.deleteCalls() {
		for _, body := range m.calledBodies(call) {
			assert.True(m.t, m.lives[body].done, "message %s is deleted and nobody acked or dropped it", body)
		}
	}
}

// tell logs what happened to some messages of a group.
func (m *fifoModel) tell(group string, numbers ...int) {
	for _, number := range numbers {
		body := fmt.Sprintf("%s#%d", group, number)
		m.t.Log(m.service.Histories(body)[0])
		for _, line := range m.diary[group] {
			if strings.Contains(line, body+" ") {
				m.t.Log(line)
			}
		}
	}
}
