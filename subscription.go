package watermillsqs

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	// verdictGrace is how long verdicts still count after the contexts of the
	// messages were cancelled.
	verdictGrace = time.Second
	// flushLimit is how long settlements may take when everything is decided.
	flushLimit = 5 * time.Second
)

// subscription is one open Subscribe: a queue, an output channel, and everything
// that runs for it.
//
// Its goroutines: the pollers of receiver, one a message in hand (serve), the keeper
// of leases with its calls, the workers of the settler's batchers, and drain, which
// waits for all of them and closes out.
type subscription struct {
	topic  string
	config *SubscriberConfig
	out    chan *message.Message
	done   chan struct{} // closed last, after out

	stop    context.CancelFunc // ends the subscription; idempotent
	stopped context.Context    // done when it is to end

	// The rest is set by start.
	log      watermill.LoggerAdapter
	queue    *boundQueue
	held     *inFlight
	permits  *permits
	receiver *receiver
	keeper   *keeper
	planner  *planner
	settler  *settler
	leave    func() // of the subscriber and the connection

	messages    context.Context // parent of the messages' contexts
	endMessages context.CancelCauseFunc
	endCalls    context.CancelFunc
	deliveries  sync.WaitGroup // one a message in hand; added to by pollers only
	abandon     chan struct{}  // closed when verdicts no longer count
	failed      sync.Once
}

var _ drainer = (*subscription)(nil)

func newSubscription(ctx context.Context, topic string, config *SubscriberConfig) *subscription {
	s := &subscription{
		topic:  topic,
		config: config,
		out:    make(chan *message.Message),
		done:   make(chan struct{}),
	}
	s.stopped, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

func (s *subscription) end() { s.stop() }

func (s *subscription) drained() <-chan struct{} { return s.done }

func (s *subscription) start(ctx context.Context, queue *boundQueue, held *inFlight, log watermill.LoggerAdapter, leave func()) {
	s.queue, s.held, s.log, s.leave = queue, held, log, leave
	s.abandon = make(chan struct{})

	// A router cancels ctx at once when it closes and then waits for its handlers,
	// so nothing but the wish to stop comes from it.
	values := context.WithoutCancel(ctx)
	var calls context.Context
	calls, s.endCalls = context.WithCancel(values)
	s.messages, s.endMessages = context.WithCancelCause(values)
	s.keeper = newKeeper(calls, queue, held, s.config.Hooks, log)
	s.planner = &planner{queue: queue, backoff: s.config.Backoff, log: log, ctx: calls}
	s.permits = newPermits(s.config.MaxInFlight)
	s.settler = newSettler(calls, queue, held, s.permits, s.config.MaxInFlight, s.config.Hooks, log)
	s.receiver = newReceiver(values, s.stopped, queue, s.config.queue(s.topic), s.permits, s.config.MaxInFlight, s.config.Hooks, log)
	s.receiver.accept = s.accept
	s.settler.release = func(n int) {
		s.permits.settled(n)
		s.deliveries.Add(-n)
	}
	if queue.id.isFIFO() {
		lanes := &lanes{
			permits: s.permits, receiver: s.receiver, settler: s.settler, stopped: s.stopped, serving: &s.deliveries,
			enter: s.enter, handle: s.handle,
			byGroup: make(map[string]*lane),
		}
		s.receiver.accept = lanes.accept
	}
	s.receiver.gone = s.fail

	log.Info("Subscribed", watermill.LogFields{"visibility": queue.visibility.String(), "max_in_flight": s.config.MaxInFlight})
	s.receiver.start()
	go s.keeper.run()
	go s.drain(context.AfterFunc(ctx, s.stop))
}

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
	polls, settled := s.receiver.done, (chan struct{})(nil)
	for waiting := true; waiting; {
		select {
		case <-pollLimit.C:
			s.receiver.abandon()
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
	s.keeper.close()
	s.settler.wait()
	s.receiver.abandon()
	s.endMessages(ErrClosed)
	close(s.out)
	s.leave()
	s.log.Info("Subscription closed", nil)
	close(s.done)
}

// fail ends the subscription because its queue is gone.
func (s *subscription) fail(err error) {
	s.failed.Do(func() {
		s.log.Error("The queue is gone: the subscription ends and its channel is closed", fmt.Errorf("queue %q: %w", s.queue.id.name, err), nil)
		s.stop()
	})
}

// accept takes what one receive of a standard queue brought in hand, each message with a
// permit of its own.
func (s *subscription) accept(list []incoming) (used int) {
	type entered struct {
		d *delivery
		a arrival
	}
	all := make([]entered, 0, len(list))
	for _, r := range list {
		if d, a := s.enter(r.msg, r.receipt); d != nil {
			all = append(all, entered{d, a})
		}
	}
	// All of them before the first is served: a delete that comes at once waits for theirs.
	s.permits.use(len(all))
	s.deliveries.Add(len(all))
	for _, e := range all {
		go s.serve(e.d, e.a)
	}
	return len(all)
}

// enter registers a received message. It returns nil if we hold the message already.
func (s *subscription) enter(msg types.Message, r receipt) (*delivery, arrival) {
	d := &delivery{
		id:         cmp.Or(aws.ToString(msg.MessageId), r.handle), // a message is never taken for another
		queue:      s.queue.id.name,
		groupID:    msg.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
		sentAt:     systemTime(msg, types.MessageSystemAttributeNameSentTimestamp),
		firstAt:    systemTime(msg, types.MessageSystemAttributeNameApproximateFirstReceiveTimestamp),
		visibility: s.queue.visibility,
		leases:     s.keeper.leases,
		lost:       make(chan struct{}),
		held:       s.held,
		receipt:    r,
		heapIndex:  -1,
	}
	d.receipt.extendUntil = r.limit
	if s.config.MaxExtension > 0 {
		d.extendAt = r.leaseEnd.Add(-s.queue.visibility / 2)
	}
	if until := r.receivedAt.Add(s.config.MaxExtension); until.Before(r.limit) {
		d.receipt.extendUntil = until
		d.holdUntil = until
		if until.Before(r.leaseEnd) { // the first lease is given in any case
			d.holdUntil = r.leaseEnd
		}
	}
	ctx := d.newContext(s.messages)
	decoded, err := s.unmarshal(msg)
	if err == nil {
		decoded.SetContext(ctx)
		d.msg, d.uuid, d.marks = decoded, decoded.UUID, marksOf(decoded)
	}

	a := s.held.arrive(d)
	if a == adopted {
		d.endContext(ErrSettled)
		s.log.Debug("A message came back that is still in hand; the newest receipt counts", s.fields(d, r))
		return nil, a
	}
	if err != nil && a != alreadyAcked {
		s.log.Error("A message cannot be decoded; it is retried later", err, s.fields(d, r))
		if hook := s.config.Hooks.ReceiveFailed; hook != nil {
			hook(ReceiveFailure{Queue: d.queue, MessageID: d.id, ReceiveCount: r.count, Err: err})
		}
	} else if traces(s.log) {
		s.log.Trace("Message received", s.fields(d, r))
	}
	return d, a
}

func (*subscription) fields(d *delivery, r receipt) watermill.LogFields {
	return watermill.LogFields{logMessageID: d.id, logReceiveCount: r.count}
}

// systemTime reads a system attribute of milliseconds since 1970.
func systemTime(msg types.Message, name types.MessageSystemAttributeName) time.Time {
	ms, err := strconv.ParseInt(msg.Attributes[string(name)], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// unmarshal verifies and decodes a message. Whatever the marshaler does with
// foreign bytes, an error is all that comes of it.
func (s *subscription) unmarshal(msg types.Message) (decoded *message.Message, err error) {
	defer func() {
		if r := recover(); r != nil {
			decoded, err = nil, fmt.Errorf("%w: the marshaler panicked: %v", ErrUndecodable, r)
		}
	}()
	if err := checkBody(msg); err != nil {
		return nil, err
	}
	decoded, err = s.config.Marshaler.Unmarshal(s.topic, msg)
	if err != nil {
		return nil, err
	}
	if decoded == nil {
		return nil, fmt.Errorf("%w: the marshaler returned no message", ErrUndecodable)
	}
	if decoded.Acked() == nil {
		// Not made by NewMessage, so an Ack would close no channel.
		made := message.NewMessage(decoded.UUID, decoded.Payload)
		made.Metadata = decoded.Metadata
		decoded = made
	}
	// These belong to the delivery or publish that they were set in.
	for _, key := range []string{OutcomeKey, RetryAfterKey, delay.DelayedForKey, delay.DelayedUntilKey, DeduplicationIDKey} {
		delete(decoded.Metadata, key)
	}
	return decoded, nil
}

// serve carries one delivery of a standard queue from its receipt to its settlement, which
// it need not wait for. It is the only goroutine that decides the delivery.
func (s *subscription) serve(d *delivery, a arrival) {
	p := s.handle(d, a, nil)
	var quiet func()
	if p.after < pollGrace && s.stopped.Err() != nil {
		quiet = s.receiver.letPollsEnd
	}
	s.settler.settle(d, p, quiet)
}

// handle finds out what becomes of a delivery. behind, if not nil, is called when what
// was received behind it in its group is not to be handled: when the lease is lost, and
// when the subscription ends.
func (s *subscription) handle(d *delivery, a arrival, behind func()) plan {
	lost := plan{outcome: Unfinished, err: ErrLeaseLost}
	if a == afterLoss {
		// Its handler may still be at work on the delivery whose lease was lost.
		select {
		case <-d.predecessor.ended:
			if s.held.predecessorEnded(d) {
				a = alreadyAcked
			}
		case <-d.lost:
			return lost
		case <-s.stopped.Done():
			return plan{outcome: Released}
		}
	}
	if a == alreadyAcked {
		return plan{outcome: Acked, removes: true}
	}
	if d.msg == nil {
		return plan{outcome: Retried, after: s.planner.undecodableDelay(d.newestReceipt().count)}
	}

	// Before the offer, where the choice would be random.
	if s.stopped.Err() != nil {
		return plan{outcome: Released}
	}
	select {
	case <-d.lost:
		return lost
	default:
	}
	select {
	case s.out <- d.msg:
	case <-d.lost:
		return lost
	case <-s.stopped.Done():
		return plan{outcome: Released}
	}

	loss, stopped := d.lost, (<-chan struct{})(nil)
	if behind != nil {
		stopped = s.stopped.Done()
	}
	for {
		select {
		case <-d.msg.Acked():
		case <-d.msg.Nacked():
		case <-loss:
			s.settler.tellLoss(d)
			if behind != nil {
				behind()
			}
			loss = nil
			continue
		case <-stopped:
			behind()
			stopped = nil
			continue
		case <-s.abandon:
			return s.abandoned(d)
		}
		return s.verdict(d)
	}
}

// verdict is the plan for a message that has been acked or nacked.
func (s *subscription) verdict(d *delivery) plan {
	d.endContext(ErrSettled)
	select {
	case <-d.msg.Acked():
		return s.planner.plan(d, true, s.messages.Err() != nil)
	default:
		return s.planner.plan(d, false, s.messages.Err() != nil)
	}
}

// abandoned ends the wait for a verdict. One that has been said already counts, and
// Nack tells whether an Ack came first in this very instant; otherwise the Nack
// makes wrappers stop waiting, and no call is made.
func (s *subscription) abandoned(d *delivery) plan {
	select {
	case <-d.msg.Nacked():
		return s.verdict(d)
	default:
	}
	if !d.msg.Nack() {
		return s.verdict(d)
	}
	return plan{outcome: Unfinished, err: ErrClosed}
}
