package watermillsqs_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// dice are what the models of random lives choose by: a seed fixes their throws.
type dice struct {
	mu     sync.Mutex // guards random
	random *rand.Rand
}

func newDice(seed, stream uint64) *dice { return &dice{random: rand.New(rand.NewPCG(seed, stream))} }

// seeds are those of the tests of random lives: so many from 0 on, or as many as
// WATERMILLSQS_SEEDS says, from WATERMILLSQS_FIRST_SEED on.
func seeds(n uint64) (all []uint64) {
	var first uint64
	if more, err := strconv.ParseUint(os.Getenv("WATERMILLSQS_SEEDS"), 10, 32); err == nil {
		n = more
	}
	if from, err := strconv.ParseUint(os.Getenv("WATERMILLSQS_FIRST_SEED"), 10, 32); err == nil {
		first = from
	}
	for seed := first; seed < first+n; seed++ {
		all = append(all, seed)
	}
	return all
}

func (d *dice) rand(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(n)
}

func (d *dice) chance(percent int) bool { return d.rand(100) < percent }

// upTo is a random time, more often a short one.
func (d *dice) upTo(limit time.Duration) time.Duration {
	return time.Duration(d.rand(1+d.rand(int(limit/time.Millisecond)))) * time.Millisecond
}

// subscribeForAWhile opens a subscription, reads from it for a while, now and then not,
// and ends it in some way. later runs a function in a goroutine that is waited for.
func (d *dice) subscribeForAWhile(chaos context.Context, t *testing.T, sub *watermillsqs.Subscriber, topic string, atMost time.Duration, lazy int, hand func(*message.Message), later func(func())) {
	t.Helper()
	defer context.AfterFunc(chaos, func() { _ = sub.Close() })() // if it hangs in Subscribe
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	messages, err := sub.Subscribe(ctx, topic)
	if err != nil {
		pause(chaos, time.Second)
		return
	}
	reading, stop := context.WithTimeout(chaos, d.upTo(atMost))
	defer stop()
	for reading.Err() == nil {
		select {
		case msg, open := <-messages:
			if !open {
				assert.Error(t, chaos.Err(), "closed although nobody closed it")
				return
			}
			hand(msg)
			if d.chance(lazy) {
				pause(reading, d.upTo(10*time.Second))
			}
		case <-reading.Done():
		}
	}
	switch d.rand(3) {
	case 0:
		cancel() // and no Close, as when a router's context ends
		for msg := range messages {
			hand(msg)
		}
		return
	case 1:
		later(func() { _ = sub.Close() }) // beside the other one
	}
	assert.NoError(t, sub.Close())
	_, open := <-messages
	assert.False(t, open)
}
