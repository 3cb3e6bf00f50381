package watermillsqs

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	receivePause      = time.Second // after a receive that failed
	receivePauseLimit = 20 * time.Second
	goneChecks        = 2 // GetQueueUrl has to say so, too, this often
)

// poll is one poller. The subscription always has one; another is started when a
// receive comes back full, and ends when one comes back less than full, so that an
// idle queue costs one long poll at a time and a backlog is fetched in parallel.
func (s *subscription) poll() {
	throttled := 0
	for {
		n := s.takePermits()
		if n == 0 {
			break
		}
		received, err := s.receive(n)
		for range n - received {
			s.putPermit()
		}
		if s.stopped.Err() != nil {
			break
		}
		if err == nil {
			throttled = 0
			if received == s.queue.BatchSize {
				s.addPoller()
			} else if s.dropPoller() {
				return
			}
			continue
		}
		if isQueueMissing(err) && s.queueIsGone() {
			s.fail(err)
			break
		}
		if isThrottled(err) {
			throttled++
		} else {
			throttled = 0
		}
		if !s.sleep(exponential(receivePause, receivePauseLimit, throttled)) {
			break
		}
	}
	s.pollersMu.Lock()
	defer s.pollersMu.Unlock()
	if s.pollers--; s.pollers == 0 {
		close(s.pollsDone)
	}
}

// takePermits waits for a permit and takes what else is free, up to a batch; never
// is more received than can be handed out. It returns 0 when the subscription ends.
func (s *subscription) takePermits() int {
	if s.stopped.Err() != nil {
		return 0
	}
	select {
	case <-s.permits:
	case <-s.stopped.Done():
		return 0
	}
	n := 1
	for n < s.queue.BatchSize {
		select {
		case <-s.permits:
			n++
		default:
			return n
		}
	}
	return n
}

// putPermit gives a permit back. It never blocks: a service that delivers more than
// was asked for has messages in hand without one.
func (s *subscription) putPermit() {
	select {
	case s.permits <- struct{}{}:
	default:
	}
}

func (s *subscription) addPoller() {
	limit := min((s.config.MaxInFlight+s.queue.BatchSize-1)/s.queue.BatchSize, maxPollers)
	s.pollersMu.Lock()
	defer s.pollersMu.Unlock()
	if s.pollers < limit {
		s.pollers++
		go s.poll()
	}
}

// dropPoller reports whether this poller is one too many, and then no longer counts
// it.
func (s *subscription) dropPoller() bool {
	s.pollersMu.Lock()
	defer s.pollersMu.Unlock()
	if s.pollers == 1 {
		return false
	}
	s.pollers--
	return true
}

// receive makes one ReceiveMessage call for n messages and returns how many of the
// permits are in use now.
func (s *subscription) receive(n int) (used int, err error) {
	ctx, sent := withAttemptClock(s.pollContext)
	started := time.Now()
	out, err := s.clients.polls.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    aws.String(s.queueURL()),
		MaxNumberOfMessages:         int32(n),
		WaitTimeSeconds:             int32(s.queue.Wait / time.Second),
		VisibilityTimeout:           int32(s.visibility / time.Second),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	answered := time.Now()
	if err != nil {
		if s.stopped.Err() == nil {
			s.receiveFailed(ReceiveFailure{Queue: s.id.name, Duration: answered.Sub(started), Err: err})
		}
		return 0, err
	}
	r := s.newReceipt(*sent, answered)
	for _, msg := range out.Messages {
		if s.accept(msg, r) {
			used++
		}
	}
	return min(used, n), nil // should there be more than we asked for, they are served all the same
}

func (s *subscription) receiveFailed(failure ReceiveFailure) {
	fields := watermill.LogFields{}
	if failure.MessageID != "" {
		fields["message_id"], fields["receive_count"] = failure.MessageID, failure.ReceiveCount
	}
	s.log.Error("Receiving failed", failure.Err, fields)
	if hook := s.config.Hooks.ReceiveFailed; hook != nil {
		hook(failure)
	}
}

// newReceipt is what the messages of one answer have in common.
func (s *subscription) newReceipt(sent, answered time.Time) receipt {
	start := answered
	if latest := sent.Add(s.queue.Wait + time.Second); latest.Before(start) {
		// The answer took longer than the service ever waits, so it was under way
		// for a while, and the leases have been running.
		start = latest
	}
	r := receipt{
		receivedAt: answered,
		leaseEnd:   start.Add(s.visibility),
		limit:      sent.Add(maxHold - maxHoldMargin),
	}
	r.extendUntil = r.limit
	if held := answered.Add(s.config.MaxExtension); held.Before(r.limit) {
		r.extendUntil = held
	}
	return r
}

// accept takes a received message in hand. It reports whether the message uses a
// permit, which it does unless we hold it already.
func (s *subscription) accept(msg types.Message, r receipt) bool {
	r.handle = aws.ToString(msg.ReceiptHandle)
	r.count, _ = strconv.Atoi(msg.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	r.count = max(r.count, 1)
	d := &delivery{
		id:         aws.ToString(msg.MessageId),
		queue:      s.id.name,
		groupID:    msg.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
		sentAt:     systemTime(msg, types.MessageSystemAttributeNameSentTimestamp),
		firstAt:    systemTime(msg, types.MessageSystemAttributeNameApproximateFirstReceiveTimestamp),
		cell:       &cell{},
		visibility: s.visibility,
		keeper:     s.keeper,
		lost:       make(chan struct{}),
		ended:      make(chan struct{}),
		in:         s.held,
		receipt:    r,
		heapIndex:  -1,
	}
	if s.config.MaxExtension > 0 {
		d.extendAt = r.leaseEnd.Add(-s.visibility / 2)
	}
	ctx, end := context.WithCancelCause(context.WithValue(s.messageContext, deliveryKey{}, d))
	d.endContext = end

	decoded, err := s.unmarshal(msg)
	if err == nil {
		decoded.SetContext(ctx)
		d.msg = decoded
	}

	a, held := s.held.arrive(d)
	held.keeper.poke()
	switch {
	case a == adopted:
		end(ErrSettled)
		s.log.Debug("A message came back that is still in hand; its newest receipt counts now",
			watermill.LogFields{"message_id": d.id, "receive_count": r.count})
		return false
	case err != nil && a != alreadyAcked:
		s.receiveFailed(ReceiveFailure{Queue: s.id.name, MessageID: d.id, ReceiveCount: r.count, Err: err})
	default:
		s.log.Trace("Message received", watermill.LogFields{"message_id": d.id, "receive_count": r.count})
	}
	s.deliveries.Add(1)
	go s.serve(d, a)
	return true
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
	if err == nil && decoded == nil {
		err = fmt.Errorf("%w: the marshaler returned no message", ErrUndecodable)
	}
	if err != nil {
		return nil, err
	}
	// These belong to the delivery or publish that they were set in.
	for _, key := range []string{OutcomeKey, RetryAfterKey, delay.DelayedForKey, delay.DelayedUntilKey} {
		delete(decoded.Metadata, key)
	}
	return decoded, nil
}

// sleep reports whether the subscription goes on.
func (s *subscription) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.stopped.Done():
		return false
	}
}

// queueIsGone asks whether the queue exists, twice a second apart, since a queue
// that has just been created is not known everywhere at once. Where it exists
// (again), the subscription goes on with it.
func (s *subscription) queueIsGone() bool {
	for check := range goneChecks {
		if check > 0 && !s.sleep(time.Second) {
			return false
		}
		queueURL, err := getQueueURL(s.pollContext, s.clients, s.id)
		if err == nil {
			s.subscriber.conn.queues.forget(s.id, s.queueURL())
			s.url.Store(&queueURL)
			if facts, err := describe(s.pollContext, s.clients, queueURL); err == nil && facts.denied == nil {
				s.policy.Store(facts.redrive) // it may be another queue of that name
			}
			return false
		}
		if !isQueueMissing(err) {
			return false
		}
	}
	return true
}
