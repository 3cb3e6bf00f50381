package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// stall is when a drain that makes no progress is given up.
const stall = 40 * time.Second

func (b *bench) drain() error {
	s := newSpan(b.Messages)
	var inHand, peak atomic.Int64
	decide := b.handlerFunc()
	handle := func(r received) verdict {
		raise(&peak, inHand.Add(1))
		return decide(r)
	}
	settled := func(removed bool) {
		inHand.Add(-1)
		if removed {
			s.add()
		}
	}
	started := time.Now()
	stop, err := b.transport.consume(b.queue, b.InFlight, handle, settled)
	if err != nil {
		return err
	}
	for last := int64(-1); ; {
		select {
		case <-s.done:
			b.took = time.Since(started)
			go stop() // the end of a subscription takes its time, and is not what is measured
			if n := b.disorder.Load(); n > 0 {
				return fmt.Errorf("the order within a group was broken %d times", n)
			}
			s.report(&b.result)
			b.result.Peak = peak.Load()
			return nil
		case <-time.After(stall):
			now := s.n.Load()
			if now == last {
				return errors.Join(fmt.Errorf("no progress after %d of %d messages", now, b.Messages), stop())
			}
			last = now
		}
	}
}

func raise(peak *atomic.Int64, n int64) {
	for {
		old := peak.Load()
		if n <= old || peak.CompareAndSwap(old, n) {
			return
		}
	}
}

// handlerFunc is what the handlers of the workload do.
func (b *bench) handlerFunc() func(received) verdict {
	switch {
	case b.handler > 0:
		return func(received) verdict {
			time.Sleep(b.handler)
			return ack
		}
	case b.name == "drain-held":
		return heldHandler(b.Messages, (b.InFlight-batchSize)/2)
	case b.name == "mixed":
		return mixedHandler
	case b.fifo > 0:
		return orderedHandler(b.fifo, b.disorder)
	default:
		return func(received) verdict { return ack }
	}
}

// heldHandler keeps each message until so many others have come after it, or all have
// come.
func heldHandler(messages, hold int) func(received) verdict {
	hold = min(hold, messages)
	if hold <= 0 {
		return func(received) verdict { return ack }
	}
	gates := make([]chan struct{}, messages)
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	var came atomic.Int64
	return func(received) verdict {
		i := int(came.Add(1)) - 1
		if i >= hold {
			close(gates[i-hold])
		}
		if i == messages-1 {
			for _, gate := range gates[messages-hold:] {
				close(gate)
			}
		}
		<-gates[i]
		return ack
	}
}

// orderedHandler counts the messages that come before an earlier one of their group.
func orderedHandler(groups int, disorder *atomic.Int64) func(received) verdict {
	latest := make([]atomic.Int64, groups) // number of the message + 1
	return func(r received) verdict {
		n := int64(r.index()) + 1
		if latest[int(n-1)%groups].Swap(n) > n {
			disorder.Add(1)
		}
		return ack
	}
}

// mixedHandler decides by the number of the message, so that both sides do the same.
func mixedHandler(r received) verdict {
	if r.attempt > 1 {
		return ack
	}
	switch r.index() % 20 {
	case 0, 10:
		return retry
	case 5:
		return retryAfter
	case 15:
		return drop
	default:
		return ack
	}
}
