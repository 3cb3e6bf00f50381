package main

import (
	"fmt"
	"strings"
)

const (
	batchSize = 10
	bodyBytes = 200

	// maxCalls is how many calls of one kind either side may have under way: one for
	// each ten messages in flight, up to this.
	maxCalls = 64
	// idleConnections are those that the HTTP clients keep, apart for long polls and
	// for everything else, as the library's own clients do.
	idlePolls, idleCalls = 64, 256
)

// callsFor is how many calls of one kind so many messages in flight keep busy.
func callsFor(inFlight int) int { return max(1, min(inFlight/batchSize, maxCalls)) }

// payload is one message as the application sees it.
type payload struct {
	uuid     string
	body     string
	metadata map[string]string
}

var padding = strings.Repeat("x", bodyBytes-indexDigits-1)

const indexDigits = 7

// newPayload is the message of a number, which its body begins with.
func newPayload(i int) payload {
	return payload{
		uuid:     fmt.Sprintf("5d0c2f6e-7f0b-4f5e-9a55-%012d", i),
		body:     fmt.Sprintf("%0*d %s", indexDigits, i, padding),
		metadata: map[string]string{"name": "order.placed", "correlation_id": "0b7e3f0a-8d9c-4a53-b6c1-4a1f3d1f9a11"},
	}
}

// received is what a handler is given.
type received struct {
	body     []byte
	metadata map[string]string
	attempt  int
}

// index is the number of the message.
func (r received) index() int {
	i := 0
	for _, digit := range r.body[:indexDigits] {
		i = 10*i + int(digit-'0')
	}
	return i
}

// verdict is what a handler decides.
type verdict int

const (
	ack        verdict = iota
	retry              // visible at once
	retryAfter         // visible after retryDelay
	drop
)

// transport is one of the two sides of the comparison.
type transport interface {
	// prepare makes messages ready, as the application holds them before it publishes.
	prepare(queue string, messages []payload) publication
	// consume runs handle for each message, each in a goroutine of its own and no more
	// than inFlight unsettled at a time, and tells settled when SQS has confirmed it.
	consume(queue string, inFlight int, handle func(received) verdict, settled func(removed bool)) (stop func() error, err error)
	close()
}

// publication is a number of prepared messages. publish sends those from i up to j as
// one call of the application; it is safe for concurrent use.
type publication interface {
	publish(i, j int) error
}
