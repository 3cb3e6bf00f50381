package sqstest

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxDiscards is how many of the latest discarded messages a topic remembers.
const maxDiscards = 1000

// Topic is an SNS topic of a [Service], seen from the side.
type Topic struct {
	service *Service
	name    string
	fifo    bool

	// mu guards what follows. It is held while a message is delivered, so that a FIFO
	// topic keeps the order of its sequence numbers; the mutexes of queues are taken
	// while it is held, never the other way round.
	mu            sync.Mutex
	deleted       bool
	settings      topicSettings
	tags          map[string]string
	subscriptions []*subscription // in the order they were made
	unsubscribed  int
	published     uint64
	sent          recently[dedupKey, original]
	discards      []Discard
}

// Discard is a message that SNS could not deliver to a subscription. SNS tells nobody.
type Discard struct {
	At time.Time
	// Subscription is the ARN of the subscription, Endpoint that of its queue.
	Subscription, Endpoint string
	// MessageID is the id that Publish returned.
	MessageID string
	// Reason says why the queue did not take the message.
	Reason string
	// DeadLettered tells that the dead-letter queue of the subscription has it.
	DeadLettered bool
}

// topicRegistry holds the topics by name. Its mutex is taken last.
type topicRegistry struct {
	mu     sync.Mutex
	topics map[string]*Topic
}

func (r *topicRegistry) lookup(name string) *Topic {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topics[name]
}

// insert adds a topic unless there is one of that name already, which it returns then.
func (r *topicRegistry) insert(t *Topic) (existing *Topic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if existing := r.topics[t.name]; existing != nil {
		return existing
	}
	r.topics[t.name] = t
	return nil
}

func (r *topicRegistry) remove(t *Topic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.topics[t.name] == t {
		delete(r.topics, t.name)
	}
}

// list returns the topics in the order of their names.
func (r *topicRegistry) list() []*Topic {
	r.mu.Lock()
	defer r.mu.Unlock()
	topics := make([]*Topic, 0, len(r.topics))
	for _, name := range sortedKeys(r.topics) {
		topics = append(topics, r.topics[name])
	}
	return topics
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// CreateTopic makes a topic as the action of that name does, with the same refusals, but
// counts as no call. A topic of that name with these attributes is returned as it is.
func (s *Service) CreateTopic(name string, attributes map[string]string) (*Topic, error) {
	t, err := s.createTopic(name, attributes, nil)
	if err != nil {
		return nil, err.asError()
	}
	return t, nil
}

// Topic returns the topic of a name, nil if there is none.
func (s *Service) Topic(name string) *Topic { return s.topics.lookup(name) }

// Name is the name of the topic.
func (t *Topic) Name() string { return t.name }

// ARN is the Amazon Resource Name of the topic.
func (t *Topic) ARN() string { return topicARN(t.name) }

func topicARN(name string) string { return "arn:aws:sns:" + Region + ":" + AccountID + ":" + name }

// Discards are the messages that could not be delivered, oldest first, of the latest 1000:
// where a message of a topic does not arrive, they say why. Messages that a filter policy
// keeps away are not among them.
func (t *Topic) Discards() []Discard {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.discards)
}

func (t *Topic) discard(d Discard) {
	if len(t.discards) == maxDiscards {
		t.discards = append(t.discards[:0], t.discards[1:]...)
	}
	t.discards = append(t.discards, d)
}

// checkARN refuses what is no ARN.
func checkARN(parameter, arn string) *apiError {
	if n := strings.Count(arn, ":") + 1; n < 6 {
		return invalidParameter("%s Reason: An ARN must have at least 6 elements, not %d", parameter, n)
	}
	return nil
}

// topicName is the name in the ARN of a topic. A topic of another region is refused, one
// of another account does not exist.
func topicName(parameter, arn string) (string, *apiError) {
	if err := checkARN(parameter, arn); err != nil {
		return "", err
	}
	if name, ok := strings.CutPrefix(arn, topicARN("")); ok {
		return name, nil
	}
	if parts := strings.SplitN(arn, ":", 6); parts[2] != "sns" || parts[3] != Region {
		return "", invalidParameter("%s", parameter)
	}
	return "", topicDoesNotExist()
}

// topicTarget is the member of requests that name their topic.
type topicTarget struct{ topicARN string }

func (t *topicTarget) queueRef() string { return "" }

func (t *topicTarget) describe(record *Call) {
	if name, err := topicName("", t.topicARN); err == nil {
		record.Topic = name
	}
}

// topic finds the topic of a request.
func (t *topicTarget) topic(c *call) (*Topic, *apiError) {
	name, err := topicName("TopicArn", t.topicARN)
	if err != nil {
		return nil, err
	}
	topic := c.service.topics.lookup(name)
	if topic == nil {
		return nil, topicDoesNotExist()
	}
	return topic, nil
}

// noTarget is embedded in requests that name neither queue nor topic.
type noTarget struct{}

func (noTarget) queueRef() string { return "" }
func (noTarget) describe(*Call)   {}

// snsActions read the request of every action of SNS that is modelled.
var snsActions = map[string]func(*form) (request, *apiError){
	"CreateTopic":               readCreateTopic,
	"DeleteTopic":               func(f *form) (request, *apiError) { return &deleteTopicRequest{onTopic(f)}, nil },
	"GetSubscriptionAttributes": readGetSubscription,
	"GetTopicAttributes":        func(f *form) (request, *apiError) { return &getTopicRequest{onTopic(f)}, nil },
	"ListSubscriptions":         readListSubscriptions,
	"ListSubscriptionsByTopic":  readListSubscriptionsByTopic,
	"ListTagsForResource":       readListTags,
	"ListTopics":                func(f *form) (request, *apiError) { return &listTopicsRequest{token: f.text("NextToken")}, nil },
	"Publish":                   readPublish,
	"PublishBatch":              readPublishBatch,
	"SetSubscriptionAttributes": readSetSubscription,
	"SetTopicAttributes":        readSetTopic,
	"Subscribe":                 readSubscribe,
	"TagResource":               readTag,
	"Unsubscribe":               readUnsubscribe,
	"UntagResource":             readUntag,
}

func onTopic(f *form) topicTarget { return topicTarget{f.text("TopicArn")} }
