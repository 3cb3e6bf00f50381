package sqstest

import (
	"encoding/base64"
	"maps"
	"strconv"
	"strings"
	"time"
)

const (
	topicsPerPage  = 100
	maxPublishSize = 256 << 10 // unless the topic says otherwise (sqs-facts 11)
	maxTopicName   = 256
)

// topicSettings are the attributes of a topic that can be set, as text and, where the
// service acts on them, parsed.
type topicSettings struct {
	text         map[string]string
	maxSize      int
	contentDedup bool
	scopeByGroup bool
}

// topicAttributes are stored and shown, and nothing more.
var topicAttributes = map[string]bool{
	"ArchivePolicy": true, "DataProtectionPolicy": true, "DeliveryPolicy": true, "DisplayName": true,
	"KmsMasterKeyId": true, "Policy": true, "SignatureVersion": true, "TracingConfig": true,
}

// deliveryPolicy is the EffectiveDeliveryPolicy of every topic.
const deliveryPolicy = `{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,"numMaxDelayRetries":0,"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"disableSubscriptionOverrides":false,"defaultRequestPolicy":{"headerContentType":"text/plain; charset=UTF-8"}}}`

// set sets one attribute, and reports false for a name or value that is refused.
func (s *topicSettings) set(name, value string, fifo bool) bool {
	known := topicAttributes[name] || strings.HasSuffix(name, "FeedbackRoleArn") || strings.HasSuffix(name, "FeedbackSampleRate")
	switch name {
	case "MaximumMessageSize":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1024 || n > maxBatchSize {
			return false
		}
		s.maxSize, known = n, true
	case "ContentBasedDeduplication":
		known = fifo && (value == "true" || value == "false")
		s.contentDedup = value == "true"
	case "FifoThroughputScope":
		known = fifo && (value == "Topic" || value == "MessageGroup")
		s.scopeByGroup = value == "MessageGroup"
	case "SignatureVersion":
		known = value == "1" || value == "2"
	case "TracingConfig":
		known = value == "PassThrough" || value == "Active"
	}
	if known {
		s.text[name] = value
	}
	return known
}

// createTopic makes a topic, or finds the one of that name if the given attributes and
// tags are those it has.
func (s *Service) createTopic(name string, attributes, tags map[string]string) (*Topic, *apiError) {
	fifo := attributes["FifoTopic"] == "true"
	if !legalTopicName(name, fifo) {
		return nil, invalidParameter("Topic Name")
	}
	t := &Topic{service: s, name: name, fifo: fifo, tags: maps.Clone(tags), settings: topicSettings{text: map[string]string{}, maxSize: maxPublishSize}}
	if fifo {
		t.settings.text["ContentBasedDeduplication"] = "false"
	}
	for _, key := range sortedKeys(attributes) {
		if key == "FifoTopic" {
			if value := attributes[key]; value != "true" && value != "false" {
				return nil, invalidParameter("Attributes Reason: FifoTopic: Invalid value [%s]. Must be true or false.", value)
			}
			continue
		}
		if !t.settings.set(key, attributes[key], fifo) {
			return nil, invalidParameter("Attributes Reason: Unknown attribute or illegal value: %s", key)
		}
	}
	existing := s.topics.insert(t)
	if existing == nil {
		return t, nil
	}
	existing.mu.Lock()
	defer existing.mu.Unlock()
	for key, value := range attributes {
		if key != "FifoTopic" && existing.settings.text[key] != value {
			return nil, invalidParameter("Attributes Reason: Topic already exists with different attributes")
		}
	}
	for key, value := range tags {
		if had, ok := existing.tags[key]; !ok || had != value {
			return nil, invalidParameter("Tags Reason: Topic already exists with different tags")
		}
	}
	return existing, nil
}

func legalTopicName(name string, fifo bool) bool {
	base, suffixed := strings.CutSuffix(name, ".fifo")
	if base == "" || len(name) > maxTopicName || suffixed != fifo {
		return false
	}
	for i := range len(base) {
		c := base[i]
		legal := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
		if !legal {
			return false
		}
	}
	return true
}

type createTopicRequest struct {
	noTarget
	name             string
	attributes, tags map[string]string
}

func readCreateTopic(f *form) (request, *apiError) {
	tags, err := f.tags()
	return &createTopicRequest{name: f.text("Name"), attributes: f.texts("Attributes", "key", "value"), tags: tags}, err
}

func (r *createTopicRequest) describe(record *Call) { record.Topic = r.name }

func (r *createTopicRequest) run(c *call) ([]byte, *apiError) {
	t, err := c.service.createTopic(r.name, r.attributes, r.tags)
	if err != nil {
		return nil, err
	}
	var x element
	x.text("TopicArn", t.ARN())
	return x.bytes(), nil
}

type deleteTopicRequest struct{ topicTarget }

// run succeeds for a topic that is gone already.
func (r *deleteTopicRequest) run(c *call) ([]byte, *apiError) {
	name, err := topicName("TopicArn", r.topicARN)
	if err != nil && err.code != "NotFound" {
		return nil, err
	}
	if t := c.service.topics.lookup(name); t != nil {
		c.service.topics.remove(t)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.deleted, t.subscriptions = true, nil
	}
	return nil, nil
}

type getTopicRequest struct{ topicTarget }

func (r *getTopicRequest) run(c *call) ([]byte, *apiError) {
	t, err := r.topic(c)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]string{
		"DisplayName":             "",
		"EffectiveDeliveryPolicy": deliveryPolicy,
		"Owner":                   AccountID,
		"Policy": `{"Version":"2008-10-17","Id":"__default_policy_ID","Statement":[{"Sid":"__default_statement_ID","Effect":"Allow","Principal":{"AWS":"*"},"Action":["SNS:GetTopicAttributes","SNS:SetTopicAttributes","SNS:AddPermission","SNS:RemovePermission","SNS:DeleteTopic","SNS:Subscribe","SNS:ListSubscriptionsByTopic","SNS:Publish"],"Resource":"` +
			t.ARN() + `","Condition":{"StringEquals":{"AWS:SourceOwner":"` + AccountID + `"}}}]}`,
		"SubscriptionsConfirmed": strconv.Itoa(len(t.subscriptions)),
		"SubscriptionsDeleted":   strconv.Itoa(t.unsubscribed),
		"SubscriptionsPending":   "0",
		"TopicArn":               t.ARN(),
	}
	if t.fifo {
		all["FifoTopic"] = "true"
	}
	maps.Copy(all, t.settings.text)
	var x element
	x.entries("Attributes", all)
	return x.bytes(), nil
}

type setTopicRequest struct {
	topicTarget
	name, value string
}

func readSetTopic(f *form) (request, *apiError) {
	return &setTopicRequest{onTopic(f), f.text("AttributeName"), f.text("AttributeValue")}, nil
}

func (r *setTopicRequest) run(c *call) ([]byte, *apiError) {
	t, err := r.topic(c)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.settings
	next.text = maps.Clone(next.text)
	if !next.set(r.name, r.value, t.fifo) || next.maxSize > maxPublishSize && len(t.subscriptions) > maxSubscriptions {
		return nil, invalidParameter("AttributeName")
	}
	t.settings = next
	return nil, nil
}

type listTopicsRequest struct {
	noTarget
	token string
}

func (r *listTopicsRequest) run(c *call) ([]byte, *apiError) {
	topics := c.service.topics.list()
	return page("Topics", r.token, topics, func(t *Topic) string { return t.name }, func(x *element, t *Topic) {
		x.text("TopicArn", t.ARN())
	})
}

// page lists what comes after the one that the token names.
func page[T any](member, token string, all []T, key func(T) string, show func(*element, T)) ([]byte, *apiError) {
	after, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return nil, invalidParameter("NextToken")
	}
	var x element
	x.open(member)
	shown, last, more := 0, "", false
	for _, t := range all {
		if key(t) <= string(after) {
			continue
		}
		if shown == topicsPerPage {
			more = true
			break
		}
		x.open("member")
		show(&x, t)
		x.close("member")
		shown, last = shown+1, key(t)
	}
	x.close(member)
	if more {
		x.text("NextToken", base64.StdEncoding.EncodeToString([]byte(last)))
	}
	return x.bytes(), nil
}

// dedupKey is what makes two published messages duplicates.
func (t *Topic) dedupKey(m *publication) dedupKey {
	key := dedupKey{id: m.dedupID}
	if t.settings.scopeByGroup {
		key.group = m.groupID
	}
	return key
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
