package watermillsqs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	// pollGrace is how long a poll under way may go on when the subscription ends:
	// an answer that is already on its way still arrives, and what it brings is
	// given back instead of being invisible for a whole visibility timeout.
	pollGrace = time.Second
	// verdictGrace is how long verdicts still count after the contexts of the
	// messages were cancelled.
	verdictGrace = time.Second
	// flushLimit is how long settlements may take when everything is decided.
	flushLimit = 5 * time.Second
)

// subscription is one open Subscribe: a queue, an output channel, and everything
// that runs for it.
//
// Its goroutines: pollers, one goroutine a message in hand (serve), the keeper of
// leases, the workers of the two batchers, and drain, which waits for all of them
// and closes out.
type subscription struct {
	subscriber *Subscriber
	config     *SubscriberConfig
	topic      string
	out        chan *message.Message
	done       chan struct{} // closed last, after out

	stop    context.CancelFunc // ends the subscription; idempotent
	stopped context.Context    // done when it is to end

	// The rest is set by start.
	log        watermill.LoggerAdapter
	clients    *clients
	id         queueID
	url        atomic.Pointer[string]
	queue      Queue
	visibility time.Duration
	held       *inFlight
	keeper     *keeper
	deletes    *batcher[*settlement]
	changes    *batcher[*settlement]

	policy       atomic.Pointer[redrivePolicy]
	policyMu     sync.Mutex // guards policyReadAt
	policyReadAt time.Time

	pollContext context.Context // of the polls; outlives the stop by pollGrace
	endPolls    context.CancelFunc
	permits     chan struct{}
	pollersMu   sync.Mutex // guards pollers
	pollers     int
	pollsDone   chan struct{} // closed when the last poller has ended

	messageContext context.Context // parent of the messages' contexts
	endMessages    context.CancelCauseFunc
	callContext    context.Context // of settlements and extensions: the stop does not cancel it
	endCalls       context.CancelFunc
	deliveries     sync.WaitGroup // one a message in hand; added to by pollers only
	abandon        chan struct{}  // closed when verdicts no longer count
}

func newSubscription(ctx context.Context, s *Subscriber, topic string) *subscription {
	sub := &subscription{
		subscriber: s,
		config:     &s.config,
		topic:      topic,
		out:        make(chan *message.Message),
		done:       make(chan struct{}),
	}
	sub.stopped, sub.stop = context.WithCancel(context.WithoutCancel(ctx))
	return sub
}

// discard ends a subscription that was never started.
func (s *subscription) discard() {
	s.stop()
	s.subscriber.unregister(s)
	close(s.done)
}

func (s *subscription) start(ctx context.Context, found found) {
	s.log = s.subscriber.log.With(watermill.LogFields{"topic": s.topic, "queue": found.id.name})
	s.clients, s.id = found.clients, found.id
	s.url.Store(&found.url)
	s.queue, s.visibility = s.config.queue(s.topic), found.facts.visibility
	s.policy.Store(found.facts.redrive)
	s.held = s.subscriber.conn.holdings(found.url)
	s.keeper = newKeeper(s)
	s.deletes = &batcher[*settlement]{calls: settleCalls, send: s.sendDeletes}
	s.changes = &batcher[*settlement]{calls: settleCalls, send: s.sendChanges}
	s.permits = make(chan struct{}, s.config.MaxInFlight)
	for range s.config.MaxInFlight {
		s.permits <- struct{}{}
	}
	s.pollsDone, s.abandon = make(chan struct{}), make(chan struct{})

	// A router cancels ctx at once when it closes and then waits for its handlers,
	// so nothing but the wish to stop comes from it.
	values := context.WithoutCancel(ctx)
	s.pollContext, s.endPolls = context.WithCancel(values)
	s.messageContext, s.endMessages = context.WithCancelCause(values)
	s.callContext, s.endCalls = context.WithCancel(values)

	s.log.Info("Subscribed", watermill.LogFields{"visibility": s.visibility.String(), "max_in_flight": s.config.MaxInFlight})
	s.pollers = 1
	go s.poll()
	go s.keeper.run()
	go s.drain(context.AfterFunc(ctx, s.stop))
}

func (s *subscription) queueURL() string { return *s.url.Load() }

// drain waits for the subscription to be stopped and ends it in order.
func (s *subscription) drain(forgetContext func() bool) {
	<-s.stopped.Done()
	forgetContext()
	s.log.Debug("Closing the subscription", nil)

	pollLimit := time.NewTimer(pollGrace)
	defer pollLimit.Stop()
	grace := time.NewTimer(max(s.config.CloseTimeout, 0))
	defer grace.Stop()
	var verdictLimit, flush <-chan time.Time
	polls, settled := s.pollsDone, (chan struct{})(nil)
	for waiting := true; waiting; {
		select {
		case <-pollLimit.C:
			s.endPolls()
		case <-polls:
			// Nothing is received any more, so what is in hand only gets less.
			polls, settled = nil, make(chan struct{})
			go func() {
				s.deliveries.Wait()
				close(settled)
			}()
		case <-grace.C:
			s.endMessages(ErrClosed)
			verdictLimit = time.After(verdictGrace)
		case <-verdictLimit:
			close(s.abandon)
			flush = time.After(flushLimit)
		case <-flush:
			s.endCalls()
		case <-settled:
			waiting = false
		}
	}

	// Everything is settled. An extension that is still under way is of no use.
	s.endCalls()
	close(s.keeper.end)
	<-s.keeper.ended
	s.deletes.wait()
	s.changes.wait()
	s.endPolls()
	s.endMessages(ErrClosed)
	close(s.out)
	s.subscriber.unregister(s)
	s.log.Info("Subscription closed", nil)
	close(s.done)
}

// serve carries one delivery from its receipt to its settlement. It is the only
// goroutine that decides the delivery.
func (s *subscription) serve(d *delivery, a arrival) {
	defer s.deliveries.Done()
	defer s.putPermit()
	s.settle(d, s.handle(d, a))
}

// handle finds out what becomes of a delivery.
func (s *subscription) handle(d *delivery, a arrival) plan {
	if a == afterLoss {
		// Its handler may still be at work on the delivery whose lease was lost.
		select {
		case <-d.predecessor.ended:
			if d.predecessor.removes {
				a = alreadyAcked
			}
			d.predecessor = nil
		case <-d.lost:
			return plan{outcome: Unfinished, err: ErrLeaseLost}
		case <-s.stopped.Done():
			return plan{outcome: Released}
		}
	}
	if a == alreadyAcked {
		return plan{outcome: Acked, removes: true}
	}
	if d.msg == nil {
		return plan{outcome: Retried, after: s.undecodableDelay(d.newestReceipt().count)}
	}

	if s.stopped.Err() != nil {
		return plan{outcome: Released}
	}
	select {
	case s.out <- d.msg:
	case <-d.lost:
		return plan{outcome: Unfinished, err: ErrLeaseLost}
	case <-s.stopped.Done():
		return plan{outcome: Released}
	}

	select {
	case <-d.msg.Acked():
		return s.planFor(d, true)
	case <-d.msg.Nacked():
		return s.planFor(d, false)
	case <-s.abandon:
		return s.abandoned(d)
	}
}

// abandoned ends the wait for a verdict. One that has been said already counts, and
// Nack tells whether an Ack came first in this very instant; otherwise the Nack
// makes wrappers stop waiting, and no call is made.
func (s *subscription) abandoned(d *delivery) plan {
	select {
	case <-d.msg.Acked():
		return s.planFor(d, true)
	case <-d.msg.Nacked():
		return s.planFor(d, false)
	default:
	}
	if !d.msg.Nack() {
		return s.planFor(d, true)
	}
	return plan{outcome: Unfinished, err: ErrClosed}
}

// fail ends the subscription because its queue is gone.
func (s *subscription) fail(err error) {
	s.log.Error("The queue is gone: the subscription ends and its channel is closed", fmt.Errorf("queue %q: %w", s.id.name, err), nil)
	s.stop()
}
