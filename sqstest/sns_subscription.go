package sqstest

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

const (
	// maxSubscriptions is for topics that take messages over 256 KiB, maxFilters for the
	// filter policies of a topic (sqs-facts 11, 11.3).
	maxSubscriptions = 100
	maxFilters       = 200
)

// subscription brings the messages of a topic to a queue.
type subscription struct {
	id       string
	topic    *Topic
	endpoint string // ARN of the queue
	settings subscriptionSettings
}

func (s *subscription) arn() string { return s.topic.ARN() + ":" + s.id }

// pending tells that the subscription was never confirmed: its queue is of another
// account, which cannot be asked.
func (s *subscription) pending() bool {
	return strings.Split(s.endpoint, ":")[4] != AccountID
}

// shownARN is the ARN as lists show it.
func (s *subscription) shownARN() string {
	if s.pending() {
		return "PendingConfirmation"
	}
	return s.arn()
}

// subscriptionSettings are the attributes of a subscription, as text and parsed.
type subscriptionSettings struct {
	text       map[string]string
	raw        bool
	filter     *filterPolicy // nil: every message
	deadLetter string        // ARN of a queue, "" for none
}

// with returns the settings changed as asked, or why that is refused. The text of a
// refusal depends on the action: the prefix is what Subscribe puts before it.
func (s subscriptionSettings) with(changes map[string]string, t *Topic, endpoint, prefix string) (subscriptionSettings, *apiError) {
	next := s
	next.text = make(map[string]string, len(s.text)+len(changes))
	maps.Copy(next.text, s.text)
	for _, name := range sortedKeys(changes) {
		if err := next.set(name, changes[name], t, endpoint, prefix); err != nil {
			return s, err
		}
	}
	policy := next.text["FilterPolicy"]
	if policy == "" {
		next.filter = nil
		return next, nil
	}
	filter, err := parseFilter(policy, next.text["FilterPolicyScope"] == "MessageBody", prefix)
	if err != nil {
		return s, err
	}
	next.filter = filter
	return next, nil
}

func (s *subscriptionSettings) set(name, value string, t *Topic, endpoint, prefix string) *apiError {
	switch name {
	case "RawMessageDelivery":
		value = strings.ToLower(value)
		if value != "true" && value != "false" {
			return invalidParameter("%sRawMessageDelivery: Invalid value [%s]. Must be true or false.", prefix, value)
		}
		s.raw = value == "true"
	case "FilterPolicyScope":
		if value != "MessageAttributes" && value != "MessageBody" {
			return invalidParameter("%sFilterPolicyScope: Invalid value [%s]. Please use either MessageBody or MessageAttributes", prefix, value)
		}
	case "FilterPolicy": // looked at when the scope is known
	case "RedrivePolicy":
		arn, err := parseSubscriptionRedrive(value, t, endpoint, prefix)
		if err != nil {
			return err
		}
		s.deadLetter = arn
	case "DeliveryPolicy", "SubscriptionRoleArn":
	case "ReplayPolicy":
		if !t.fifo {
			return invalidParameter("%sReplayPolicy is supported on FIFO topics only", prefix)
		}
	default:
		if prefix == "" {
			return invalidParameter("AttributeName")
		}
		return invalidParameter("%sUnknown attribute: %s", prefix, name)
	}
	if value == "" {
		delete(s.text, name)
	} else {
		s.text[name] = value
	}
	return nil
}

// parseSubscriptionRedrive reads the dead-letter queue of a subscription (sqs-facts
// 11.1); "" and {} stand for none.
func parseSubscriptionRedrive(value string, t *Topic, endpoint, prefix string) (string, *apiError) {
	if value == "" {
		return "", nil
	}
	var policy struct {
		DeadLetterTargetARN *string `json:"deadLetterTargetArn"`
	}
	if err := json.Unmarshal([]byte(value), &policy); err != nil {
		return "", invalidParameter("%sRedrivePolicy: failed to parse JSON. %v", prefix, err)
	}
	if policy.DeadLetterTargetARN == nil {
		return "", nil
	}
	arn := *policy.DeadLetterTargetARN
	if !isQueueARN(arn) {
		return "", invalidParameter("%sRedrivePolicy: deadLetterTargetArn is an invalid arn", prefix)
	}
	if t.fifo && strings.HasSuffix(endpoint, ".fifo") && !strings.HasSuffix(arn, ".fifo") {
		return "", invalidParameter("%sRedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic.", prefix)
	}
	return arn, nil
}

// isQueueARN takes the ARN of any queue, there or not.
func isQueueARN(arn string) bool {
	parts := strings.Split(arn, ":")
	return len(parts) == 6 && parts[0] == "arn" && parts[1] != "" && parts[2] == "sqs" && parts[3] != "" && parts[4] != "" && parts[5] != ""
}

// sameAs tells whether the given attributes are those the subscription has, as Subscribe
// compares them: none given is the same as any (sqs-facts 11.1).
func (s subscriptionSettings) sameAs(given subscriptionSettings) bool {
	standard := map[string]string{"RawMessageDelivery": "false", "FilterPolicyScope": "MessageAttributes"}
	for name, value := range given.text {
		have, ok := s.text[name]
		if !ok {
			have = standard[name]
		}
		if have != value && !sameJSON(have, value) {
			return false
		}
	}
	return true
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// subscribe adds a subscription, or finds the one of that endpoint.
func (t *Topic) subscribe(endpoint string, settings subscriptionSettings) (*subscription, *apiError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted {
		return nil, topicDoesNotExist()
	}
	filters := 0
	for _, sub := range t.subscriptions {
		if sub.endpoint == endpoint {
			if !sub.settings.sameAs(settings) {
				return nil, invalidParameter("Attributes Reason: Subscription already exists with different attributes")
			}
			return sub, nil
		}
		if sub.settings.filter != nil {
			filters++
		}
	}
	if t.settings.maxSize > maxPublishSize && len(t.subscriptions) >= maxSubscriptions {
		return nil, newSNSError(0, "SubscriptionLimitExceeded", "A topic with a MaximumMessageSize above 256 KiB can have 100 subscriptions.")
	}
	if settings.filter != nil && filters >= maxFilters {
		return nil, newSNSError(0, "FilterPolicyLimitExceeded", "The topic has 200 filter policies already.")
	}
	sub := &subscription{id: newUUID(), topic: t, endpoint: endpoint, settings: settings}
	t.subscriptions = append(t.subscriptions, sub)
	return sub, nil
}
