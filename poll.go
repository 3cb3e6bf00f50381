package watermillsqs

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	// pollGrace is how long a poll under way may go on when the subscription ends:
	// an answer that is already on its way still arrives, and what it brings is
	// given back instead of being invisible for a whole visibility timeout.
	pollGrace = time.Second

	// holdMargin is kept back from the 12 hours for which the service lets a message
	// be held: they count from the receive as the service sees it.
	holdMargin = time.Second

	// pollWatchdog ends a poll whose HTTP client has no timeout of its own. It leaves
	// time for the SDK's three attempts of 25 s.
	pollWatchdog = 90 * time.Second

	hastyAnswer = 500 * time.Millisecond // an empty answer that comes earlier did not wait
	hastyPause  = 50 * time.Millisecond  // after the first of them; doubled up to receivePause

	receivePause      = time.Second // after a receive that failed
	receivePauseLimit = 20 * time.Second
	goneChecks        = 2 // GetQueueUrl has to say so, too, this often
)

// receiver polls the queue of one subscription, never for more than can be handed
// out: permits are taken before the poll.
type receiver struct {
	queue   *boundQueue
	wait    time.Duration
	batch   int
	hooks   Hooks
	log     watermill.LoggerAdapter
	stopped context.Context // done when no further poll is to begin
	ctx     context.Context // of the polls; outlives stopped by pollGrace
	abandon context.CancelFunc

	// accept takes a message in hand and reports whether it did; its permit is then
	// given back by putPermit. gone is called when the queue is gone for good.
	accept func(types.Message, receipt) bool
	gone   func(error)

	permits chan struct{}
	done    chan struct{} // closed when the last poller has ended

	mu      sync.Mutex // guards what follows
	pollers int
	owed    int // permits that are in use and were never there
}

func newReceiver(ctx, stopped context.Context, bound *boundQueue, queue Queue, maxInFlight int, hooks Hooks, log watermill.LoggerAdapter) *receiver {
	r := &receiver{
		queue: bound, wait: queue.Wait, batch: queue.BatchSize, hooks: hooks, log: log, stopped: stopped,
		permits: make(chan struct{}, maxInFlight),
		done:    make(chan struct{}),
	}
	r.ctx, r.abandon = context.WithCancel(ctx)
	for range maxInFlight {
		r.permits <- struct{}{}
	}
	return r
}

func (r *receiver) start() {
	r.pollers = 1
	go r.poll()
}

// poll is one poller. The subscription always has one; another is started when a
// receive comes back full, and ends when one comes back less than full, so that an
// idle queue costs one long poll at a time and a backlog is fetched in parallel.
func (r *receiver) poll() {
	throttled, hasty := 0, 0
	for {
		n := r.takePermits()
		if n == 0 {
			break
		}
		started := time.Now()
		received, used, err := r.receive(n)
		for range n - used {
			r.putPermit()
		}
		if r.stopped.Err() != nil {
			break
		}
		if err == nil {
			throttled = 0
			if received == r.batch {
				r.addPoller()
			} else if r.dropPoller() {
				return
			}
			if received > 0 || time.Since(started) >= hastyAnswer {
				hasty = 0
				continue
			}
			// Empty, and without the wait: SQS may do that now and then, some servers
			// do it whenever another poll was faster.
			if hasty++; !r.sleep(exponential(hastyPause, receivePause, hasty-1)) {
				break
			}
			continue
		}
		if isQueueMissing(err) && r.queueIsGone() {
			r.gone(err)
			break
		}
		if isThrottled(err) {
			throttled++
		} else {
			throttled = 0
		}
		if !r.sleep(exponential(receivePause, receivePauseLimit, throttled)) {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pollers--; r.pollers == 0 {
		close(r.done)
	}
}

// takePermits waits for a permit and takes what else is free, up to a batch; never
// is more received than can be handed out. It returns 0 when the subscription ends.
func (r *receiver) takePermits() int {
	if r.stopped.Err() != nil {
		return 0
	}
	select {
	case <-r.permits:
	case <-r.stopped.Done():
		return 0
	}
	if r.stopped.Err() != nil { // both were ready
		r.putPermit()
		return 0
	}
	n := 1
	for n < r.batch {
		select {
		case <-r.permits:
			n++
		default:
			return n
		}
	}
	return n
}

// putPermit gives a permit back.
func (r *receiver) putPermit() {
	r.mu.Lock()
	owed := r.owed > 0
	if owed {
		r.owed--
	}
	r.mu.Unlock()
	if !owed {
		r.permits <- struct{}{}
	}
}

// owePermit is for a service that delivers more than it was asked for: the message is
// served all the same, with a permit that has become free meanwhile, or else one permit
// does not come back.
func (r *receiver) owePermit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.permits:
	default:
		r.owed++
	}
}

func (r *receiver) addPoller() {
	limit := min((cap(r.permits)+r.batch-1)/r.batch, maxPollers)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pollers < limit {
		r.pollers++
		go r.poll()
	}
}

// dropPoller reports whether this poller is one too many, and then no longer counts
// it.
func (r *receiver) dropPoller() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pollers == 1 {
		return false
	}
	r.pollers--
	return true
}

// receive makes one ReceiveMessage call for n messages. It returns how many came,
// and how many of the permits are in use now.
func (r *receiver) receive(n int) (received, used int, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, pollWatchdog)
	defer cancel()
	var latest attempt
	ctx = withAttempt(ctx, &latest)
	started := time.Now()
	out, err := r.queue.clients.polls.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    aws.String(r.queue.url()),
		MaxNumberOfMessages:         int32(n),
		WaitTimeSeconds:             int32(r.wait / time.Second),
		VisibilityTimeout:           int32(r.queue.visibility / time.Second),
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	answered := time.Now()
	if err != nil {
		if r.stopped.Err() == nil {
			r.receiveFailed(ReceiveFailure{Queue: r.queue.id.name, Duration: answered.Sub(started), Err: err})
		}
		return 0, 0, err
	}
	common := r.newReceipt(latest.sent, answered)
	for _, msg := range out.Messages {
		got := common
		got.handle = aws.ToString(msg.ReceiptHandle)
		got.count, _ = strconv.Atoi(msg.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		got.count = max(got.count, 1)
		if got.handle == "" {
			r.receiveFailed(ReceiveFailure{
				Queue: r.queue.id.name, MessageID: aws.ToString(msg.MessageId), ReceiveCount: got.count,
				Err: fmt.Errorf("%w: it has no receipt handle, so it can never be settled", ErrUndecodable),
			})
			continue
		}
		if used >= n {
			r.owePermit() // before it can be given back
		}
		switch {
		case r.accept(msg, got):
			used++
		case used >= n:
			r.putPermit()
		}
	}
	return len(out.Messages), min(used, n), nil
}

func (r *receiver) receiveFailed(failure ReceiveFailure) {
	r.log.Error("Receiving failed", failure.Err, nil)
	if hook := r.hooks.ReceiveFailed; hook != nil {
		hook(failure)
	}
}

// newReceipt is what the messages of one answer have in common.
func (r *receiver) newReceipt(sent, answered time.Time) receipt {
	start := answered
	if latest := sent.Add(r.wait + time.Second); latest.Before(start) {
		// The answer took longer than the service ever waits, so it was under way
		// for a while, and the leases have been running.
		start = latest
	}
	return receipt{
		receivedAt: answered,
		leaseEnd:   start.Add(r.queue.visibility),
		limit:      sent.Add(maxVisibility - holdMargin),
	}
}

// sleep reports whether the subscription goes on.
func (r *receiver) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.stopped.Done():
		return false
	}
}

// queueIsGone asks whether the queue exists, twice a second apart, since a queue
// that has just been created is not known everywhere at once. Where it exists
// (again), the subscription goes on with it.
func (r *receiver) queueIsGone() bool {
	for check := range goneChecks {
		if check > 0 && !r.sleep(time.Second) {
			return false
		}
		queueURL, err := getQueueURL(r.ctx, r.queue.clients, r.queue.id)
		if err == nil {
			r.queue.currentURL.Store(&queueURL)
			if facts, err := describe(r.ctx, r.queue.clients, queueURL); err == nil && facts.denied == nil {
				r.queue.policy.Store(facts.redrive) // it may be another queue of that name
			}
			return false
		}
		if !isQueueMissing(err) {
			return false
		}
	}
	return true
}
