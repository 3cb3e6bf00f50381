package components

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// bubble runs a test in a synctest bubble, with a service in it. Time is fake: waiting
// costs nothing, every wait is exact, and a goroutine that is left behind fails the test.
func bubble(t *testing.T, test func(t *testing.T, service *sqstest.Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { realTime(t, test) })
}

// realTime runs a test outside a bubble, for what needs Router.Close: that waits for
// handlers under a mutex that they also want, and fake time stands still while a
// goroutine waits for a mutex.
func realTime(t *testing.T, test func(t *testing.T, service *sqstest.Service)) {
	t.Helper()
	service := sqstest.New(t)
	t.Cleanup(func() { service.CheckManners(t) }) // whatever else the test did
	test(t, service)
}

// pass lets time pass in a bubble, and what is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func queue(t *testing.T, service *sqstest.Service, name string) *sqstest.Queue {
	t.Helper()
	q, err := service.CreateQueue(name, nil)
	require.NoError(t, err)
	return q
}

// redrivenQueue is a queue that moves what was received three times.
func redrivenQueue(t *testing.T, service *sqstest.Service, name string, dead *sqstest.Queue) *sqstest.Queue {
	t.Helper()
	q, err := service.CreateQueue(name, map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":3}`, dead.ARN()),
	})
	require.NoError(t, err)
	return q
}

// process is what one process of an application has: a connection, a publisher, and a
// router.
type process struct {
	t         *testing.T
	conn      *watermillsqs.Connection
	publisher *watermillsqs.Publisher
	router    *message.Router

	mu      sync.Mutex // guards settled
	settled []watermillsqs.Settlement
}

func newProcess(t *testing.T, service *sqstest.Service) *process {
	t.Helper()
	cfg := service.AWSConfig()
	conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{AWS: &cfg})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	publisher, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{}, nil)
	require.NoError(t, err)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	require.NoError(t, watermillsqs.AddMiddleware(router, watermillsqs.Outcomes))
	return &process{t: t, conn: conn, publisher: publisher, router: router}
}

func (p *process) subscriber(config watermillsqs.SubscriberConfig) *watermillsqs.Subscriber {
	p.t.Helper()
	config.Hooks.Settled = func(s watermillsqs.Settlement) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.settled = append(p.settled, s)
	}
	sub, err := watermillsqs.NewSubscriber(p.conn, config, nil)
	require.NoError(p.t, err)
	return sub
}

// run runs the router to the end of the test. It is ended by its context and not by its
// Close, which a bubble cannot wait for.
func (p *process) run() {
	p.t.Helper()
	runUntilCleanup(p.t, p.router.Run, p.router.Running())
}

func runUntilCleanup(t *testing.T, run func(context.Context) error, running chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- run(ctx) }()
	<-running
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
	})
}

// settlements are those of the deliveries so far, by the number of the delivery: the hook
// of one may be overtaken by that of the next.
func (p *process) settlements() []watermillsqs.Settlement {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(p.settled), func(a, b watermillsqs.Settlement) int {
		return cmp.Compare(a.ReceiveCount, b.ReceiveCount)
	})
}

func (p *process) outcomes() (outcomes []watermillsqs.Outcome) {
	for _, s := range p.settlements() {
		outcomes = append(outcomes, s.Outcome)
	}
	return outcomes
}

// delays are those after which the deliveries come again.
func (p *process) delays() (delays []time.Duration) {
	for _, s := range p.settlements() {
		delays = append(delays, s.Delay)
	}
	return delays
}

// Charge and Refund are commands and events.
type (
	Charge struct{ Amount int }
	Refund struct{ Amount int }
)

// journal notes what was handled, by whom.
type journal struct {
	mu      sync.Mutex
	amounts map[string][]int
}

func (j *journal) add(handler string, amount int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.amounts == nil {
		j.amounts = map[string][]int{}
	}
	j.amounts[handler] = append(j.amounts[handler], amount)
}

// of are the amounts that a handler was given, sorted.
func (j *journal) of(handler string) []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(slices.Values(j.amounts[handler]))
}

// oneTo are the numbers from 1 to n.
func oneTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i+1)
	}
	return numbers
}

// byName gives each command, or each handler, a queue of its own.
func byName(name string) string { return name }

// shared gives all of them the same one.
func shared(string) string { return "shared" }

var errFailed = errors.New("failed")
