package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// spec is one measurement: a workload, a side, and the conditions.
type spec struct {
	Workload string
	Side     string // "ours" or "bare"
	Delay    time.Duration
	InFlight int // messages in flight, concurrent publishers, or messages in one call
	Messages int
	Seconds  float64 // of a measurement at a fixed rate
	Profile  string  // where to write profiles, "" for none
}

// result is what came of it.
type result struct {
	spec
	Round  int
	Took   float64 // seconds, as a whole
	Rate   float64 // messages/s
	CPU    float64 // of the client, in µs a message
	Allocs float64 // of the client, a message
	Bytes  float64
	Calls  map[string]int
	P50    float64 `json:",omitempty"` // ms from publish to handler
	P99    float64 `json:",omitempty"`
	Peak   int64   // messages that were in hand at a time
	RSS    int64   // KiB, the most that the client had
	Cores  float64 // that the client was busy on
	Server float64 // cores that the server was busy on
	Failed string  `json:",omitempty"` // why it is no measurement
}

// workload is one kind of work.
type workload struct {
	name     string
	what     string
	levels   []int // 0 for those of the command line
	handler  time.Duration
	expected float64 // messages/s that a processor can do, to size a run
	fifo     int     // message groups, 0 for a standard queue
	seeded   bool    // a drain
	run      func(*bench) error
}

const handlerTime = 20 * time.Millisecond

var allLevels = []int{10, 100, 1000, 10000}

var workloads = []workload{
	{name: "publish-call", what: "one Publish of as many messages, one after another", levels: allLevels, expected: 30000, run: (*bench).publishCall},
	{name: "publish-each", what: "as many goroutines that each Publish one message after another", levels: allLevels, expected: 30000, run: (*bench).publishEach},
	{name: "drain-noop", what: "a backlog, a handler that does nothing", levels: allLevels, expected: 30000, seeded: true, run: (*bench).drain},
	{name: "drain-20ms", what: "a backlog, a handler that takes 20 ms", levels: allLevels, expected: 20000, handler: handlerTime, seeded: true, run: (*bench).drain},
	{name: "drain-held", what: "a backlog, a handler that waits until half of what may be in flight is", levels: allLevels, expected: 20000, seeded: true, run: (*bench).drain},
	{name: "mixed", what: "80 % acks, 10 % retries, 5 % retries after 1 s, 5 % drops", levels: []int{100, 1000}, expected: 6000, seeded: true, run: (*bench).drain},
	{name: "fifo-1", what: "a FIFO backlog of one group, a handler that does nothing", levels: []int{100}, expected: 30000, fifo: 1, seeded: true, run: (*bench).drain},
	{name: "fifo-100", what: "a FIFO backlog of 100 groups, likewise", levels: []int{100}, expected: 8000, fifo: 100, seeded: true, run: (*bench).drain},
	{name: "roundtrip", what: "200 messages/s, each published alone, from publish to handler", levels: []int{100}, run: (*bench).roundtrip},
}

func workloadOf(name string) (workload, error) {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
	if i < 0 {
		return workload{}, fmt.Errorf("unknown workload %q", name)
	}
	return workloads[i], nil
}

const roundtripRate = 200

// messages is how many a measurement needs to last about so many seconds.
func (w workload) messages(inFlight int, delay time.Duration, seconds float64) int {
	if w.name == "roundtrip" {
		return int(roundtripRate * seconds)
	}
	rate := w.expected
	call := (delay + time.Millisecond).Seconds()
	calls := float64(callsFor(inFlight))
	if w.fifo == 1 {
		calls = 1 // one batch of a group at a time
	}
	rate = min(rate, calls*batchSize/call)
	if w.seeded {
		inHand := float64(inFlight)
		if w.fifo == 1 {
			inHand = batchSize
		}
		rate = min(rate, inHand/(2*call+w.handler.Seconds()))
	}
	n := max(rate*seconds, 200, float64(2*inFlight))
	if w.name == "publish-call" { // whole calls
		n = max(1, math.Round(rate*seconds/float64(inFlight))) * float64(inFlight)
	}
	return int(math.Ceil(n/100)) * 100
}

// bench is one measurement under way, in a process of its own.
type bench struct {
	spec
	workload
	control   control
	transport transport
	queue     string
	took      time.Duration // until the last message was done, where the end takes longer
	disorder  *atomic.Int64 // messages of a FIFO group that came before an earlier one
	result    result
}

// measure carries a measurement out.
func measure(endpoint string, s spec) (result, error) {
	w, err := workloadOf(s.Workload)
	if err != nil {
		return result{}, err
	}
	b := &bench{spec: s, workload: w, control: control{endpoint}, result: result{spec: s}, disorder: new(atomic.Int64)}
	switch s.Side {
	case "ours":
		if b.transport, err = newOurs(endpoint); err != nil {
			return result{}, err
		}
	case "bare":
		b.transport = newBare(endpoint, w.name != "roundtrip")
	default:
		return result{}, fmt.Errorf("unknown side %q", s.Side)
	}
	defer b.transport.close()

	// Once in small, so that connections are open and everything is loaded.
	warm := *b
	warm.Messages, warm.Profile, warm.Seconds = min(400, b.Messages), "", 0.1
	if w.name == "roundtrip" {
		warm.Messages = 20
	}
	if err := warm.once("warm-up"); err != nil {
		return result{}, err
	}
	if err := b.once("queue"); err != nil {
		return result{}, err
	}
	return b.result, nil
}

// once makes the queue, works, and reads the counters.
func (b *bench) once(name string) error {
	b.queue = fmt.Sprintf("%s-%d", name, time.Now().UnixNano())
	ask := resetRequest{Queue: b.queue, Delay: b.Delay, Groups: b.fifo}
	if b.fifo > 0 {
		b.queue += ".fifo"
		ask.Queue = b.queue
	}
	if b.seeded {
		ask.Messages = b.Messages
	}
	if err := b.control.reset(ask); err != nil {
		return err
	}
	runtime.GC()
	stopProfile := func() {}
	if b.Profile != "" {
		var err error
		if stopProfile, err = startProfile(b.Profile); err != nil {
			return err
		}
	}
	started := time.Now()
	err := b.workload.run(b)
	took := cmp.Or(b.took, time.Since(started))
	stopProfile()
	if err != nil {
		return err
	}
	stats, err := b.control.stats(b.queue)
	if err != nil {
		return err
	}
	if b.seeded && stats.Left > 0 {
		return fmt.Errorf("%d of %d messages are still in the queue", stats.Left, b.Messages)
	}
	if !b.seeded && b.name != "roundtrip" && stats.Left != b.Messages {
		return fmt.Errorf("%d of %d messages are in the queue", stats.Left, b.Messages)
	}
	b.result.Took, b.result.Calls = took.Seconds(), stats.Calls
	b.result.Server = stats.CPU.Seconds() / took.Seconds()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	b.result.RSS = usage.Maxrss
	return nil
}

func (b *bench) payloads() []payload {
	messages := make([]payload, b.Messages)
	for i := range messages {
		messages[i] = newPayload(i)
	}
	return messages
}

// patience is how many times as long as planned calls of publishCall may begin.
const patience = 4

func (b *bench) publishCall() error {
	n := min(b.InFlight, b.Messages)
	p := b.transport.prepare(b.queue, b.payloads())
	start, sent := takeSample(), 0
	for sent < b.Messages && time.Since(start.at).Seconds() < patience*b.Seconds {
		end := min(sent+n, b.Messages)
		if err := p.publish(sent, end); err != nil {
			return err
		}
		sent = end
	}
	b.Messages, b.result.Messages = sent, sent
	b.result.between(start, takeSample(), float64(sent))
	b.result.Peak = int64(n)
	return nil
}

func (b *bench) publishEach() error {
	p := b.transport.prepare(b.queue, b.payloads())
	s := newSpan(b.Messages)
	var next atomic.Int64
	var publishers sync.WaitGroup
	failed := make(chan error, 1)
	for range min(b.InFlight, b.Messages) {
		publishers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.Messages {
					return
				}
				if err := p.publish(i, i+1); err != nil {
					select {
					case failed <- err:
					default:
					}
					return
				}
				s.add()
			}
		})
	}
	publishers.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	s.report(&b.result)
	b.result.Peak = int64(min(b.InFlight, b.Messages))
	return nil
}

// roundtrip publishes at a fixed rate, whether or not earlier messages have arrived,
// and measures the time from each Publish to its handler.
func (b *bench) roundtrip() error {
	published := make([]time.Time, b.Messages)
	took := make([]float64, b.Messages)
	var seen sync.WaitGroup
	seen.Add(b.Messages)
	s := newSpan(b.Messages)
	stop, err := b.transport.consume(b.queue, b.InFlight, func(r received) verdict {
		i := r.index()
		took[i] = time.Since(published[i]).Seconds() * 1000
		seen.Done()
		return ack
	}, func(bool) { s.add() })
	if err != nil {
		return err
	}
	p := b.transport.prepare(b.queue, b.payloads())
	tick := time.NewTicker(time.Second / roundtripRate)
	defer tick.Stop()
	var publishers sync.WaitGroup
	var failures atomic.Int64
	for i := range b.Messages {
		<-tick.C
		published[i] = time.Now()
		publishers.Go(func() {
			if p.publish(i, i+1) != nil {
				failures.Add(1)
			}
		})
	}
	publishers.Wait()
	if n := failures.Load(); n > 0 {
		return errors.Join(fmt.Errorf("%d messages could not be published", n), stop())
	}
	seen.Wait()
	<-s.done
	go stop()
	s.report(&b.result)
	b.result.P50, b.result.P99 = percentile(took, 50), percentile(took, 99)
	return nil
}

// idle counts the receives of a subscription that has nothing to do.
func idle(endpoint, side string, wait time.Duration) (receives int, err error) {
	c := control{endpoint}
	queue := "idle-" + side
	if err := c.reset(resetRequest{Queue: queue}); err != nil {
		return 0, err
	}
	t := newBare(endpoint, true)
	if side == "ours" {
		if t, err = newOurs(endpoint); err != nil {
			return 0, err
		}
	}
	defer t.close()
	stop, err := t.consume(queue, 100, func(received) verdict { return ack }, func(bool) {})
	if err != nil {
		return 0, err
	}
	time.Sleep(wait)
	stats, err := c.stats(queue)
	return stats.Calls["ReceiveMessage"], errors.Join(err, stop())
}

// together are the calls that carry messages, in the order of a message's life.
var together = []string{"SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch"}

// callsPerMessage is how many of those calls were made for each message.
func (r result) callsPerMessage() float64 {
	n := 0
	for _, action := range together {
		n += r.Calls[action]
	}
	return float64(n) / float64(r.Messages)
}

// perMessage is the same of actions whose names begin so.
func (r result) perMessage(prefix string) float64 {
	n := 0
	for action, calls := range r.Calls {
		if strings.HasPrefix(action, prefix) {
			n += calls
		}
	}
	return float64(n) / float64(r.Messages)
}
