package watermillsqs

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
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

	attemptMemory = 4 * time.Minute // SQS knows an attempt id for five
	lastAttempt   = 2 * time.Second // of a receive that was abandoned when the subscription ended
	widePollLimit = 3 * time.Second // enough for a poll of a second that takes its time

	receivePause      = time.Second // after a receive that failed
	receivePauseLimit = 20 * time.Second
	goneChecks        = 2 // GetQueueUrl has to say so, too, this often
)

var (
	allAttributes       = []string{"All"}
	allSystemAttributes = []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}
)

// incoming is a message, and what its receive says of it.
type incoming struct {
	msg     types.Message
	receipt receipt
}

// receiver polls the queue of one subscription, never for more than can be handed
// out: permits are taken before the poll.
type receiver struct {
	queue   *boundQueue
	wait    time.Duration
	batch   int
	permits *permits
	heads   *retriedHeads // of a FIFO queue, nil for a standard one
	hooks   Hooks
	log     watermill.LoggerAdapter
	stopped context.Context // done when no further poll is to begin
	ctx     context.Context // of the polls; outlives stopped by pollGrace
	abandon context.CancelFunc

	// accept takes what one receive brought in hand and returns how many permits that
	// takes. gone is called when the queue is gone for good.
	accept func([]incoming) (used int)
	gone   func(error)

	done chan struct{} // closed when the last poller has ended

	pollerLimit int

	mu      sync.Mutex // guards what follows
	pollers int
	wide    []*poll // those under way that a retried head has to wait for
}

// poll is what one receive asks for.
type poll struct {
	permits   int // that it has
	ask       int
	wait      time.Duration
	attemptID string        // on a FIFO queue
	ended     chan struct{} // closed when it is answered and in hand

	began      time.Time // the first attempt
	unanswered bool      // an attempt may have taken messages
}

func newReceiver(ctx, stopped context.Context, bound *boundQueue, queue Queue, permits *permits, maxInFlight int, hooks Hooks, log watermill.LoggerAdapter) *receiver {
	r := &receiver{
		queue: bound, wait: queue.Wait, batch: min(queue.BatchSize, maxInFlight), permits: permits, hooks: hooks, log: log, stopped: stopped,
		pollerLimit: min((maxInFlight+queue.BatchSize-1)/queue.BatchSize, maxPollers),
		done:        make(chan struct{}),
	}
	if bound.id.isFIFO() {
		r.heads = newRetriedHeads(bound.visibility)
	}
	r.ctx, r.abandon = context.WithCancel(ctx)
	return r
}

func (r *receiver) start() {
	r.pollers = 1
	r.queue.clients.takePoll(true)
	go r.run()
}

// run is one poller. The subscription always has one; another is started when a
// receive comes back full, and ends when one comes back less than full or is
// throttled, so that an idle queue costs one long poll at a time and a backlog is
// fetched in parallel.
func (r *receiver) run() {
	throttled, hasty, backlog := 0, 0, false
	for {
		n := r.permits.take(r.stopped, r.batch)
		if n == 0 {
			break
		}
		if r.stopped.Err() != nil { // both were ready
			r.permits.put(n)
			break
		}
		p := r.plan(n, backlog)
		started := time.Now()
		got, err := r.ask(p)
		if r.stopped.Err() != nil {
			break
		}
		if err == nil {
			throttled = 0
			backlog = got >= p.ask
			if got >= r.batch || got >= p.ask && p.ask < p.permits {
				r.addPoller()
			} else if r.dropPoller() {
				return
			}
			if got > 0 || time.Since(started) >= hastyAnswer {
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
			if r.dropPoller() {
				return
			}
			throttled++
		} else {
			throttled = 0
		}
		if !r.sleep(exponential(receivePause, receivePauseLimit, throttled)) {
			break
		}
	}
	r.queue.clients.putPoll()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pollers--; r.pollers == 0 {
		close(r.done)
	}
}

func (r *receiver) addPoller() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pollers < r.pollerLimit && r.queue.clients.takePoll(false) {
		r.pollers++
		go r.run()
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
	r.queue.clients.putPoll()
	return true
}

// plan decides what to ask for with n permits. backlog says that this poller's last
// receive came back full.
func (r *receiver) plan(n int, backlog bool) *poll {
	p := &poll{permits: n, ask: n, wait: r.wait}
	if r.heads == nil {
		return p
	}
	p.attemptID = rand.Text()
	if r.queue.policy.Load() == nil {
		return p
	}
	inHand := r.permits.inHand()
	r.mu.Lock()
	defer r.mu.Unlock()
	p.ask, p.wait = r.heads.shape(p.ask, p.wait, inHand || r.pollers > 1, backlog)
	if p.ask > 1 {
		p.ended = make(chan struct{})
		r.wide = append(r.wide, p)
	}
	return p
}

// letPollsEnd waits until no poll is under way any more, after the end of the
// subscription: one that is would receive again what is made visible now, and use up one
// of its receives.
func (r *receiver) letPollsEnd() { <-r.done }

// letWidePollsEnd waits until every receive under way is answered that could bring a
// retried head together with what comes behind it.
func (r *receiver) letWidePollsEnd() {
	r.mu.Lock()
	wide := slices.Clone(r.wide)
	r.mu.Unlock()
	if len(wide) == 0 {
		return
	}
	limit := time.NewTimer(widePollLimit)
	defer limit.Stop()
	for _, p := range wide {
		select {
		case <-p.ended:
		case <-limit.C:
			return
		}
	}
}

// ask carries out a poll and gives back the permits that it did not use. On a FIFO
// queue the messages of a lost answer keep their groups from everybody until their
// leases end, unless the receive is repeated with its attempt id.
func (r *receiver) ask(p *poll) (got int, err error) {
	p.began = time.Now()
	var used int
	for throttled := 0; ; {
		got, used, err = r.receive(r.ctx, p)
		if err == nil || !p.unanswered || isQueueMissing(err) || time.Since(p.began) > attemptMemory {
			break
		}
		if isThrottled(err) {
			throttled++
		}
		if !r.sleep(exponential(receivePause, receivePauseLimit, throttled)) {
			again := *p
			again.wait = time.Second
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), lastAttempt)
			got, used, err = r.receive(ctx, &again)
			cancel()
			break
		}
	}
	if p.ended != nil {
		r.mu.Lock()
		r.wide = slices.DeleteFunc(r.wide, func(other *poll) bool { return other == p })
		r.mu.Unlock()
		close(p.ended)
	}
	r.permits.put(p.permits - used)
	return got, err
}

// receive makes one ReceiveMessage call. It returns how many messages came, and how
// many permits are in use now.
func (r *receiver) receive(ctx context.Context, p *poll) (got, used int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollWatchdog)
	defer cancel()
	var latest attempt
	ctx = withAttempt(ctx, &latest)
	started := time.Now()
	in := &sqs.ReceiveMessageInput{
		QueueUrl:                    aws.String(r.queue.url()),
		MaxNumberOfMessages:         int32(p.ask),
		WaitTimeSeconds:             int32(p.wait / time.Second),
		VisibilityTimeout:           int32(r.queue.visibility / time.Second),
		MessageAttributeNames:       allAttributes,
		MessageSystemAttributeNames: allSystemAttributes,
	}
	if p.attemptID != "" {
		in.ReceiveRequestAttemptId = aws.String(p.attemptID)
	}
	out, err := r.queue.clients.polls.ReceiveMessage(ctx, in)
	answered := time.Now()
	if err != nil {
		// An attempt before the last one may have been carried out.
		p.unanswered = p.attemptID != "" && (p.unanswered || !isRefused(err) || latest.count > 1)
		if r.stopped.Err() == nil {
			r.receiveFailed(ReceiveFailure{Queue: r.queue.id.name, Duration: answered.Sub(started), Err: err})
		}
		return 0, 0, err
	}
	switch {
	case r.heads == nil:
	case len(out.Messages) == 0:
		r.heads.nothingThere(started)
	default:
		r.heads.answered()
	}
	common := r.newReceipt(latest.sent, p.wait, answered)
	if p.attemptID != "" {
		common.limit = p.began.Add(maxVisibility - holdMargin) // a repeated receive does not count anew
	}
	list := make([]incoming, 0, len(out.Messages))
	for _, msg := range out.Messages {
		got := incoming{msg: msg, receipt: common}
		got.receipt.handle = aws.ToString(msg.ReceiptHandle)
		got.receipt.count, _ = strconv.Atoi(msg.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		got.receipt.count = max(got.receipt.count, 1)
		if got.receipt.handle == "" {
			r.receiveFailed(ReceiveFailure{
				Queue: r.queue.id.name, MessageID: aws.ToString(msg.MessageId), ReceiveCount: got.receipt.count,
				Err: fmt.Errorf("%w: it has no receipt handle, so it can never be settled", ErrUndecodable),
			})
			continue
		}
		list = append(list, got)
	}
	surplus := max(len(list)-p.permits, 0)
	r.permits.owe(surplus) // before one of them can be given back
	if len(list) > 0 {
		used = r.accept(list)
	}
	return len(out.Messages), used - surplus, nil
}

func (r *receiver) receiveFailed(failure ReceiveFailure) {
	r.log.Error("Receiving failed", failure.Err, nil)
	if hook := r.hooks.ReceiveFailed; hook != nil {
		hook(failure)
	}
}

// newReceipt is what the messages of one answer have in common.
func (r *receiver) newReceipt(sent time.Time, wait time.Duration, answered time.Time) receipt {
	start := answered
	if latest := sent.Add(wait + time.Second); latest.Before(start) {
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
