package sqstest

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	recreateAfter = 60 * time.Second // deletion of a queue until its name is free again
	purgeEvery    = 60 * time.Second
	maxListed     = 1000
	maxTags       = 50
)

// registry holds the queues by name. Its mutex is taken last: nothing else is locked
// while it is held.
type registry struct {
	mu      sync.Mutex
	queues  map[string]*Queue
	deleted map[string]time.Time // when the last queue of that name was deleted
}

func (r *registry) lookup(name string) *Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queues[name]
}

// insert adds a queue unless there is one of that name already, which it returns then.
func (r *registry) insert(q *Queue, now time.Time) (existing *Queue, err *apiError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if existing := r.queues[q.name]; existing != nil {
		return existing, nil
	}
	if at, ok := r.deleted[q.name]; ok && now.Sub(at) < recreateAfter {
		return nil, newError(0, "QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	delete(r.deleted, q.name)
	r.queues[q.name] = q
	return nil, nil
}

func (r *registry) remove(q *Queue, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues[q.name] != q {
		return false
	}
	delete(r.queues, q.name)
	r.deleted[q.name] = now
	return true
}

// list returns the queues in the order of their names.
func (r *registry) list() []*Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	queues := make([]*Queue, 0, len(r.queues))
	for _, name := range slices.Sorted(maps.Keys(r.queues)) {
		queues = append(queues, r.queues[name])
	}
	return queues
}

// createQueue makes a queue, or finds the one of that name if the given attributes are
// those it has.
func (s *Service) createQueue(name string, attributes, tags map[string]string) (*Queue, *apiError) {
	now := time.Now()
	fifo, err := wantsFIFO(name, attributes)
	if err != nil {
		return nil, err
	}
	if err := checkName(name, fifo); err != nil {
		return nil, err
	}
	if existing := s.registry.lookup(name); existing != nil {
		return existing.sameAs(attributes)
	}
	set, err := defaultSettings(fifo).with(attributes)
	if err != nil {
		return nil, err
	}
	if set.redrive != nil {
		if err := s.checkRedriveTarget(set.redrive, attributes["RedrivePolicy"], name); err != nil {
			return nil, err
		}
	}
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	q := newQueue(s, name, set, now)
	q.tags = maps.Clone(tags)
	existing, err := s.registry.insert(q, now)
	if err != nil {
		return nil, err
	}
	if existing != nil {
		return existing.sameAs(attributes)
	}
	return q, nil
}

// wantsFIFO reads FifoQueue, which can be true, in any case, or absent (sqs-facts 2).
func wantsFIFO(name string, attributes map[string]string) (bool, *apiError) {
	value, given := attributes["FifoQueue"]
	yes := strings.EqualFold(value, "true")
	if given && !yes && !strings.HasSuffix(name, ".fifo") {
		return false, unknownAttribute("FifoQueue")
	}
	return yes, nil
}

func (q *Queue) sameAs(attributes map[string]string) (*Queue, *apiError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name, err := q.settings.differs(attributes)
	if err != nil {
		return nil, err
	}
	if name != "" {
		return nil, errorf("QueueNameExists", "A queue already exists with the same name and a different value for attribute %s", name)
	}
	return q, nil
}

func checkTags(tags map[string]string) *apiError {
	if len(tags) > maxTags {
		return errorf("InvalidParameterValue", "Too many tags added for queue. Maximum %d tags are allowed.", maxTags)
	}
	for key, value := range tags {
		if key == "" || len([]rune(key)) > 128 || len([]rune(value)) > 256 {
			return invalidValue("Tags", key, "Tag keys must be between 1 and 128 characters in length, tag values at most 256.")
		}
	}
	return nil
}

type createQueueRequest struct {
	QueueName  string
	Attributes map[string]string
	Tags       map[string]string // the wire name is "tags"; decoding ignores case
}

func (r *createQueueRequest) queueRef() string { return r.QueueName }
func (r *createQueueRequest) describe(*Call)   {}

func (r *createQueueRequest) run(c *call) ([]byte, *apiError) {
	if r.QueueName == "" {
		return nil, missingParameter("QueueName")
	}
	q, err := c.service.createQueue(r.QueueName, r.Attributes, r.Tags)
	if err != nil {
		return nil, err
	}
	return urlAnswer(c, q), nil
}

func urlAnswer(c *call, q *Queue) []byte {
	o := newObject(nil)
	o.text("QueueUrl", queueURL(c.base, q.name))
	return o.end()
}

type getQueueURLRequest struct {
	QueueName              string
	QueueOwnerAWSAccountID string `json:"QueueOwnerAWSAccountId"`
}

func (r *getQueueURLRequest) queueRef() string { return r.QueueName }
func (r *getQueueURLRequest) describe(*Call)   {}

func (r *getQueueURLRequest) run(c *call) ([]byte, *apiError) {
	if r.QueueName == "" {
		return nil, missingParameter("QueueName")
	}
	if r.QueueOwnerAWSAccountID != "" && r.QueueOwnerAWSAccountID != AccountID {
		return nil, queueDoesNotExist()
	}
	q := c.service.registry.lookup(r.QueueName)
	if q == nil {
		return nil, queueDoesNotExist()
	}
	return urlAnswer(c, q), nil
}

type deleteQueueRequest struct{ queueTarget }

func (r *deleteQueueRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	if !c.service.registry.remove(q, time.Now()) {
		return nil, queueDoesNotExist()
	}
	q.delete()
	return nil, nil
}

type purgeQueueRequest struct{ queueTarget }

func (r *purgeQueueRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil, queueDoesNotExist()
	}
	if !q.purged.IsZero() && now.Sub(q.purged) < purgeEvery {
		return nil, errorf("PurgeQueueInProgress", "Only one PurgeQueue operation on %s is allowed every 60 seconds.", q.name)
	}
	q.purged = now
	q.clear("the queue was purged", now)
	return nil, nil
}

type getQueueAttributesRequest struct {
	queueTarget
	AttributeNames []string
}

func (r *getQueueAttributesRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	attributes, err := q.attributes(r.AttributeNames, time.Now())
	if err != nil || len(attributes) == 0 {
		return nil, err
	}
	return marshal(map[string]any{"Attributes": attributes}), nil
}

type setQueueAttributesRequest struct {
	queueTarget
	Attributes map[string]string
}

func (r *setQueueAttributesRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	// Checked apart first: the target of a redrive policy is looked up unlocked.
	q.mu.Lock()
	set, err := q.settings.with(r.Attributes)
	q.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if set.redrive != nil && r.Attributes["RedrivePolicy"] != "" {
		if err := c.service.checkRedriveTarget(set.redrive, r.Attributes["RedrivePolicy"], q.name); err != nil {
			return nil, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil, queueDoesNotExist()
	}
	set, err = q.settings.with(r.Attributes)
	if err != nil {
		return nil, err
	}
	q.change(set, time.Now())
	return nil, nil
}

// change gives the queue other settings; the mutex is held.
func (q *Queue) change(set settings, now time.Time) {
	before := q.settings
	q.settings, q.modified = set, now
	q.allow.Store(set.allow)
	if q.fifo == nil {
		return
	}
	if set.scopeByGroup != before.scopeByGroup {
		q.fifo.scopeChange = now
	}
	if set.delay != before.delay {
		q.advance(now)
		q.redelay(now)
	}
}

type listQueuesRequest struct {
	QueueNamePrefix string
	NextToken       string
	MaxResults      *int
}

func (r *listQueuesRequest) queueRef() string { return "" }
func (r *listQueuesRequest) describe(*Call)   {}

func (r *listQueuesRequest) run(c *call) ([]byte, *apiError) {
	return listAnswer(c, "QueueUrls", r.MaxResults, r.NextToken, func(q *Queue) bool {
		return strings.HasPrefix(q.name, r.QueueNamePrefix)
	})
}

type listDeadLetterSourceQueuesRequest struct {
	queueTarget
	NextToken  string
	MaxResults *int
}

func (r *listDeadLetterSourceQueuesRequest) run(c *call) ([]byte, *apiError) {
	target, err := c.queue()
	if err != nil {
		return nil, err
	}
	// The name of the member does begin with a small letter.
	return listAnswer(c, "queueUrls", r.MaxResults, r.NextToken, func(q *Queue) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.settings.redrive != nil && q.settings.redrive.targetARN == target.ARN()
	})
}

// listAnswer lists the URLs of the queues that are wanted, in pages. There is a token
// for the next page only if the size of pages was given (sqs-facts 2).
func listAnswer(c *call, member string, size *int, token string, wanted func(*Queue) bool) ([]byte, *apiError) {
	most := maxListed
	if size != nil {
		if *size < 1 || *size > maxListed {
			return nil, invalidValue("MaxResults", *size, "MaxResults must be an integer between 1 and 1000.")
		}
		most = *size
	}
	after, tokenErr := base64.StdEncoding.DecodeString(token)
	if tokenErr != nil {
		return nil, newError(0, "InvalidParameterValue", "Invalid or expired next token.")
	}
	var urls []string
	last, more := "", false
	for _, q := range c.service.registry.list() {
		if q.name <= string(after) || !wanted(q) {
			continue
		}
		if len(urls) == most {
			more = true
			break
		}
		urls, last = append(urls, queueURL(c.base, q.name)), q.name
	}
	answer := map[string]any{}
	if len(urls) > 0 {
		answer[member] = urls
	}
	if more && size != nil {
		answer["NextToken"] = base64.StdEncoding.EncodeToString([]byte(last))
	}
	return marshal(answer), nil
}

type tagQueueRequest struct {
	queueTarget
	Tags map[string]string
}

func (r *tagQueueRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	if len(r.Tags) == 0 {
		return nil, missingParameter("Tags")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	tags := maps.Clone(q.tags)
	if tags == nil {
		tags = make(map[string]string, len(r.Tags))
	}
	maps.Copy(tags, r.Tags)
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	q.tags = tags
	return nil, nil
}

type untagQueueRequest struct {
	queueTarget
	TagKeys []string
}

func (r *untagQueueRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	if len(r.TagKeys) == 0 {
		return nil, missingParameter("TagKeys")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range r.TagKeys {
		delete(q.tags, key)
	}
	return nil, nil
}

type listQueueTagsRequest struct{ queueTarget }

func (r *listQueueTagsRequest) run(c *call) ([]byte, *apiError) {
	q, err := c.queue()
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tags) == 0 {
		return nil, nil
	}
	return marshal(map[string]any{"Tags": q.tags}), nil
}

// marshal encodes what cannot fail to encode: maps and strings.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("sqstest: " + err.Error()) //nolint:forbidigo // cannot happen, see above
	}
	return b
}
