package watermillsqs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// maxKnownQueues bounds what a connection remembers.
const maxKnownQueues = 10_000

// queueCache maps queue names to URLs, with one lookup a queue even under
// concurrent first use. Failures are not cached. The zero value is ready.
type queueCache struct {
	mu      sync.RWMutex
	lookups map[string]*queueLookup
	claims  map[string]string // queue name → the topic that the default mapping made it from
}

// queueLookup is one lookup, under way or successful. url and err are written
// before done is closed.
type queueLookup struct {
	done    chan struct{}
	creates bool // creates the queue where it is missing
	url     string
	err     error
	own     bool // err is of the caller's context, and says nothing to others
}

// creation is what CreateQueue is called with where a queue is missing.
type creation struct {
	attributes map[string]string
	tags       map[string]string
}

// attributesFor are the attributes of a queue, whose name says whether it is FIFO.
func (c creation) attributesFor(id queueID) (map[string]string, error) {
	const name = string(types.QueueAttributeNameFifoQueue)
	value, set := c.attributes[name]
	switch {
	case set && value != strconv.FormatBool(id.isFIFO()):
		return nil, fmt.Errorf("%w: queue %q: Attributes[%q] is %q, but a queue is FIFO if its name ends in .fifo, and only then", ErrInvalidQueue, id.name, name, value)
	case set && !id.isFIFO():
		attributes := maps.Clone(c.attributes)
		delete(attributes, name) // SQS takes no false
		return attributes, nil
	case !set && id.isFIFO():
		attributes := make(map[string]string, len(c.attributes)+1)
		maps.Copy(attributes, c.attributes)
		attributes[name] = "true"
		return attributes, nil
	}
	return c.attributes, nil
}

// claim refuses a topic whose mapped name another topic has already: their
// messages would mix. It reports whether the claim is a new one.
func (c *queueCache) claim(id queueID) (made bool, err error) {
	if !id.mapped {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	other, taken := c.claims[id.name]
	if taken && other != id.topic {
		return false, fmt.Errorf("%w: topics %q and %q both map to queue name %q; rename one or set QueueName",
			ErrInvalidQueue, other, id.topic, id.name)
	}
	if c.claims == nil {
		c.claims = make(map[string]string)
	}
	c.claims[id.name] = id.topic
	return !taken, nil
}

// known returns the URL of a queue that the cache has for this topic.
func (c *queueCache) known(id queueID) (queueURL string, ok bool) {
	if id.url != "" {
		return "", false // there is nothing to look up, but to claim
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	lookup := c.lookups[id.key()]
	if lookup == nil || id.mapped && c.claims[id.name] != id.topic {
		return "", false
	}
	select {
	case <-lookup.done:
		return lookup.url, lookup.err == nil
	default:
		return "", false
	}
}

// shrink forgets a queue if too many are known, as where each request has a queue of its
// own for the reply: it is looked up again when it is used again. The mutex is held.
func (c *queueCache) shrink() {
	if len(c.lookups) < maxKnownQueues {
		return
	}
	for key, lookup := range c.lookups {
		select {
		case <-lookup.done:
			delete(c.lookups, key)
			delete(c.claims, key) // of the same name, where a topic was mapped
			return
		default:
		}
	}
}

// resolve returns the URL of a queue, from the cache or by GetQueueUrl, and
// whether this very call created the queue.
func (c *queueCache) resolve(ctx context.Context, clients *clients, id queueID, create *creation) (queueURL string, created bool, err error) {
	claimed, err := c.claim(id)
	if err != nil {
		return "", false, err
	}
	if claimed {
		defer func() {
			if err != nil { // a topic that leads nowhere stands in nobody's way
				c.mu.Lock()
				delete(c.claims, id.name)
				c.mu.Unlock()
			}
		}()
	}
	if id.url != "" {
		return id.url, false, nil
	}
	key := id.key()
	for {
		c.mu.Lock()
		lookup := c.lookups[key]
		if lookup == nil {
			lookup = &queueLookup{done: make(chan struct{}), creates: create != nil}
			if c.lookups == nil {
				c.lookups = make(map[string]*queueLookup)
			}
			c.shrink()
			c.lookups[key] = lookup
			c.mu.Unlock()

			lookup.url, created, lookup.err = lookUp(ctx, clients, id, create)
			lookup.own = lookup.err != nil && ctx.Err() != nil
			if lookup.err != nil {
				c.mu.Lock()
				delete(c.lookups, key)
				c.mu.Unlock()
			}
			close(lookup.done)
			return lookup.url, created, lookup.err
		}
		c.mu.Unlock()

		select {
		case <-lookup.done:
		case <-ctx.Done():
			return "", false, fmt.Errorf("watermillsqs: look up queue %q: %w", id.name, context.Cause(ctx))
		}
		if lookup.err == nil {
			return lookup.url, false, nil
		}
		if lookup.own || create != nil && !lookup.creates {
			continue // its failure need not be ours
		}
		return "", false, lookup.err
	}
}

// forget drops a queue from the cache whose URL turned out to be of no use, unless
// somebody has looked it up again since.
func (c *queueCache) forget(id queueID, queueURL string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lookup := c.lookups[id.key()]
	if lookup == nil {
		return
	}
	select {
	case <-lookup.done:
		if lookup.url == queueURL {
			delete(c.lookups, id.key())
		}
	default:
	}
}

func lookUp(ctx context.Context, clients *clients, id queueID, create *creation) (queueURL string, created bool, err error) {
	queueURL, err = getQueueURL(ctx, clients, id)
	if err == nil {
		return queueURL, false, nil
	}
	if !isQueueMissing(err) {
		return "", false, fmt.Errorf("watermillsqs: look up queue %q: %w", id.name, err)
	}
	if create == nil {
		return "", false, fmt.Errorf("watermillsqs: queue %q does not exist, or this caller may not see it (CreateIfMissing is off): %w", id.name, err)
	}
	if id.account != "" {
		// The account may not be ours, and CreateQueue knows no other.
		return "", false, fmt.Errorf("watermillsqs: queue %q of account %s does not exist; only a queue that is given by its name can be created: %w",
			id.name, id.account, err)
	}
	attributes, err := create.attributesFor(id)
	if err != nil {
		return "", false, err
	}
	out, err := clients.calls.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName:  aws.String(id.name),
		Attributes: attributes,
		Tags:       create.tags,
	})
	switch {
	case err == nil && aws.ToString(out.QueueUrl) != "":
		// GetQueueUrl may not know the queue yet, so this URL is the one to use.
		return rebase(*out.QueueUrl, clients.endpoint), true, nil
	case err == nil:
		return "", false, fmt.Errorf("watermillsqs: create queue %q: the answer has no queue URL", id.name)
	case isQueueExists(err):
		// Somebody else made it since, with other attributes: it is there.
		queueURL, getErr := getQueueURL(ctx, clients, id)
		if getErr == nil {
			return queueURL, false, nil
		}
		return "", false, errors.Join(fmt.Errorf("watermillsqs: create queue %q: %w", id.name, err), getErr)
	default:
		return "", false, fmt.Errorf("watermillsqs: create queue %q: %w", id.name, err)
	}
}

// getQueueURL asks the service, past the cache.
func getQueueURL(ctx context.Context, clients *clients, id queueID) (string, error) {
	in := &sqs.GetQueueUrlInput{QueueName: aws.String(id.name)}
	if id.account != "" {
		in.QueueOwnerAWSAccountId = aws.String(id.account)
	}
	out, err := clients.calls.GetQueueUrl(ctx, in)
	if err != nil {
		return "", err
	}
	if aws.ToString(out.QueueUrl) == "" {
		return "", errors.New("the answer of GetQueueUrl has no queue URL")
	}
	if id.url != "" {
		return id.url, nil
	}
	return rebase(*out.QueueUrl, clients.endpoint), nil
}

// boundQueue is the queue of a subscription, as it was found.
type boundQueue struct {
	clients    *clients
	id         queueID
	visibility time.Duration // of each receive and extension

	// Both may change while the subscription is open.
	currentURL atomic.Pointer[string]
	policy     atomic.Pointer[redrivePolicy] // nil for none
}

func newBoundQueue(clients *clients, id queueID, queueURL string, facts queueFacts) *boundQueue {
	q := &boundQueue{clients: clients, id: id, visibility: facts.visibility}
	q.currentURL.Store(&queueURL)
	q.policy.Store(facts.redrive)
	return q
}

func (q *boundQueue) url() string { return *q.currentURL.Load() }

// path identifies the queue within a connection, whichever way a topic named it: it
// is /ACCOUNT/NAME of its URL.
func (q *boundQueue) path() string {
	u, err := url.Parse(q.url())
	if err != nil {
		return q.url()
	}
	return u.Path
}

// queueFacts is what a subscription needs to know of its queue.
type queueFacts struct {
	visibility time.Duration
	redrive    *redrivePolicy
	// denied is the error where GetQueueAttributes is not allowed: nothing else
	// is known then.
	denied error
}

func describe(ctx context.Context, clients *clients, queueURL string) (queueFacts, error) {
	out, err := clients.calls.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(queueURL),
		AttributeNames: []types.QueueAttributeName{
			types.QueueAttributeNameVisibilityTimeout,
			types.QueueAttributeNameRedrivePolicy,
		},
	})
	if isAccessDenied(err) {
		return queueFacts{denied: err}, nil
	}
	if err != nil {
		return queueFacts{}, fmt.Errorf("watermillsqs: read the attributes of queue %s: %w", queueURL, err)
	}
	return newQueueFacts(out.Attributes)
}

func newQueueFacts(attributes map[string]string) (facts queueFacts, err error) {
	if text, ok := attributes["VisibilityTimeout"]; ok {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			return queueFacts{}, fmt.Errorf("watermillsqs: VisibilityTimeout %q is not a number", text)
		}
		facts.visibility = time.Duration(seconds) * time.Second
	}
	facts.redrive, err = parseRedrivePolicy(attributes["RedrivePolicy"])
	if err != nil {
		return queueFacts{}, fmt.Errorf("watermillsqs: %w", err)
	}
	return facts, nil
}

// deadLetterRetention is for how long a dead-letter queue that we create keeps its
// messages, in seconds: the 14 days that are the most SQS allows.
const deadLetterRetention = "1209600"

// queueARN reads the ARN of a queue.
func queueARN(ctx context.Context, clients *clients, queueURL string) (string, error) {
	out, err := clients.calls.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl:       aws.String(queueURL),
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", err
	}
	queueARN := out.Attributes[string(types.QueueAttributeNameQueueArn)]
	if queueARN == "" {
		return "", errors.New("the answer of GetQueueAttributes has no QueueArn")
	}
	return queueARN, nil
}

// declareRedrive writes the redrive policy of a queue, unless an equal one is there.
// It returns the policy.
func (c *queueCache) declareRedrive(ctx context.Context, clients *clients, id queueID, queueURL string, current *redrivePolicy, deadLetter queueID, maxReceiveCount int, create bool) (*redrivePolicy, error) {
	fail := func(what string, err error) (*redrivePolicy, error) {
		return nil, fmt.Errorf("watermillsqs: queue %q: %s: %w", id.name, what, err)
	}
	var creates *creation
	if create {
		creates = &creation{attributes: map[string]string{"MessageRetentionPeriod": deadLetterRetention}}
	}
	policy := &redrivePolicy{maxReceiveCount: maxReceiveCount}
	if arn.IsARN(deadLetter.topic) {
		policy.deadLetterARN = deadLetter.topic
	} else {
		deadLetterURL, _, err := c.resolve(ctx, clients, deadLetter, creates)
		if err != nil {
			return fail(fmt.Sprintf("dead-letter queue %q", deadLetter.topic), err)
		}
		if policy.deadLetterARN, err = queueARN(ctx, clients, deadLetterURL); err != nil {
			return fail(fmt.Sprintf("read the ARN of dead-letter queue %q", deadLetter.topic), err)
		}
	}
	if current != nil && *current == *policy {
		return policy, nil
	}
	_, err := clients.calls.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{
		QueueUrl:   aws.String(queueURL),
		Attributes: map[string]string{string(types.QueueAttributeNameRedrivePolicy): policy.attribute()},
	})
	if err != nil {
		return fail("write its redrive policy, "+policy.attribute(), err)
	}
	return policy, nil
}

// assumedFacts stands in for the attributes of a queue that was created a moment
// ago and that GetQueueAttributes does not know yet.
func assumedFacts(created creation) (queueFacts, error) {
	attributes := maps.Clone(created.attributes)
	if attributes == nil {
		attributes = make(map[string]string, 1)
	}
	if _, set := attributes["VisibilityTimeout"]; !set {
		attributes["VisibilityTimeout"] = "30" // the service's default
	}
	return newQueueFacts(attributes)
}
