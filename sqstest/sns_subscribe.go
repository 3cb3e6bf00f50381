package sqstest

import (
	"maps"
	"slices"
	"strings"
)

// protocols are those of SNS; only the first is modelled.
var protocols = []string{"sqs", "http", "https", "email", "email-json", "sms", "application", "lambda", "firehose"}

type subscribeRequest struct {
	topicTarget
	protocol, endpoint string
	attributes         map[string]string
	returnARN          bool
}

func readSubscribe(f *form) (request, *apiError) {
	return &subscribeRequest{
		topicTarget: onTopic(f),
		protocol:    f.text("Protocol"),
		endpoint:    f.text("Endpoint"),
		attributes:  f.texts("Attributes", "key", "value"),
		returnARN:   f.text("ReturnSubscriptionArn") == "true",
	}, nil
}

func (r *subscribeRequest) run(c *call) ([]byte, *apiError) {
	t, err := r.topic(c)
	if err != nil {
		return nil, err
	}
	switch {
	case !slices.Contains(protocols, r.protocol):
		return nil, invalidParameter("Amazon SNS does not support this protocol string: %s", r.protocol)
	case r.protocol != "sqs":
		return nil, invalidParameter("sqstest models subscriptions of the protocol sqs only, not %s", r.protocol)
	case !isQueueARN(r.endpoint):
		return nil, invalidParameter("SQS endpoint ARN")
	case strings.HasSuffix(r.endpoint, ".fifo") && !t.fifo:
		return nil, invalidParameter("Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics")
	}
	settings, err := subscriptionSettings{}.with(r.attributes, t, r.endpoint, "Attributes Reason: ")
	if err != nil {
		return nil, err
	}
	sub, err := t.subscribe(r.endpoint, settings)
	if err != nil {
		return nil, err
	}
	arn := sub.arn()
	if sub.pending() && !r.returnARN {
		arn = "pending confirmation"
	}
	var x element
	x.text("SubscriptionArn", arn)
	return x.bytes(), nil
}

// subscriptionTarget is the member of requests that name a subscription.
type subscriptionTarget struct{ arn string }

func (t *subscriptionTarget) queueRef() string { return "" }

func (t *subscriptionTarget) describe(record *Call) {
	if at := strings.LastIndexByte(t.arn, ':'); at > 0 {
		(&topicTarget{t.arn[:at]}).describe(record)
	}
}

// find looks the subscription up. Its topic is locked afterwards, unless there is an
// error or no subscription.
func (t *subscriptionTarget) find(c *call) (*subscription, *apiError) {
	if t.arn == "" {
		return nil, invalidParameter("SubscriptionArn Reason: no value for required parameter")
	}
	if err := checkARN("SubscriptionArn", t.arn); err != nil {
		return nil, err
	}
	at := strings.LastIndexByte(t.arn, ':')
	name, ok := strings.CutPrefix(t.arn[:at], topicARN(""))
	id := t.arn[at+1:]
	if !ok || len(id) != 36 || strings.Count(id, "-") != 4 {
		return nil, invalidParameter("SubscriptionId")
	}
	topic := c.service.topics.lookup(name)
	if topic == nil {
		return nil, nil
	}
	topic.mu.Lock()
	for _, sub := range topic.subscriptions {
		if sub.id == id {
			return sub, nil
		}
	}
	topic.mu.Unlock()
	return nil, nil
}

type unsubscribeRequest struct{ subscriptionTarget }

func readUnsubscribe(f *form) (request, *apiError) {
	return &unsubscribeRequest{subscriptionTarget{f.text("SubscriptionArn")}}, nil
}

// run succeeds for a subscription that is gone already.
func (r *unsubscribeRequest) run(c *call) ([]byte, *apiError) {
	sub, err := r.find(c)
	if err != nil || sub == nil {
		return nil, err
	}
	t := sub.topic
	defer t.mu.Unlock()
	t.subscriptions = slices.DeleteFunc(t.subscriptions, func(other *subscription) bool { return other == sub })
	t.unsubscribed++
	return nil, nil
}

type getSubscriptionRequest struct{ subscriptionTarget }

func readGetSubscription(f *form) (request, *apiError) {
	return &getSubscriptionRequest{subscriptionTarget{f.text("SubscriptionArn")}}, nil
}

func (r *getSubscriptionRequest) run(c *call) ([]byte, *apiError) {
	sub, err := r.find(c)
	if err != nil {
		return nil, err
	}
	if sub == nil {
		return nil, subscriptionDoesNotExist()
	}
	defer sub.topic.mu.Unlock()
	all := map[string]string{
		"ConfirmationWasAuthenticated": "true",
		"Endpoint":                     sub.endpoint,
		"Owner":                        AccountID,
		"PendingConfirmation":          "false",
		"Protocol":                     "sqs",
		"RawMessageDelivery":           "false",
		"SubscriptionArn":              sub.arn(),
		"SubscriptionPrincipal":        "arn:aws:iam::" + AccountID + ":user/test",
		"TopicArn":                     sub.topic.ARN(),
	}
	if sub.pending() {
		all["ConfirmationWasAuthenticated"], all["PendingConfirmation"] = "false", "true"
	}
	if sub.settings.filter != nil {
		all["FilterPolicyScope"] = "MessageAttributes"
	}
	maps.Copy(all, sub.settings.text)
	var x element
	x.entries("Attributes", all)
	return x.bytes(), nil
}

type setSubscriptionRequest struct {
	subscriptionTarget
	name, value string
}

func readSetSubscription(f *form) (request, *apiError) {
	return &setSubscriptionRequest{subscriptionTarget{f.text("SubscriptionArn")}, f.text("AttributeName"), f.text("AttributeValue")}, nil
}

func (r *setSubscriptionRequest) run(c *call) ([]byte, *apiError) {
	sub, err := r.find(c)
	if err != nil {
		return nil, err
	}
	if sub == nil {
		return nil, subscriptionDoesNotExist()
	}
	defer sub.topic.mu.Unlock()
	next, err := sub.settings.with(map[string]string{r.name: r.value}, sub.topic, sub.endpoint, "")
	if err != nil {
		return nil, err
	}
	sub.settings = next
	return nil, nil
}

type listSubscriptionsRequest struct {
	noTarget
	token string
}

func readListSubscriptions(f *form) (request, *apiError) {
	return &listSubscriptionsRequest{token: f.text("NextToken")}, nil
}

func (r *listSubscriptionsRequest) run(c *call) ([]byte, *apiError) {
	var all []*subscription
	for _, t := range c.service.topics.list() {
		all = append(all, t.subscribed()...)
	}
	return pageOfSubscriptions(r.token, all)
}

type listSubscriptionsByTopicRequest struct {
	topicTarget
	token string
}

func readListSubscriptionsByTopic(f *form) (request, *apiError) {
	return &listSubscriptionsByTopicRequest{onTopic(f), f.text("NextToken")}, nil
}

func (r *listSubscriptionsByTopicRequest) run(c *call) ([]byte, *apiError) {
	t, err := r.topic(c)
	if err != nil {
		return nil, err
	}
	return pageOfSubscriptions(r.token, t.subscribed())
}

func (t *Topic) subscribed() []*subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.subscriptions)
}

func pageOfSubscriptions(token string, all []*subscription) ([]byte, *apiError) {
	slices.SortFunc(all, func(a, b *subscription) int { return strings.Compare(a.arn(), b.arn()) })
	return page("Subscriptions", token, all, (*subscription).arn, func(x *element, sub *subscription) {
		x.text("Endpoint", sub.endpoint)
		x.text("Owner", AccountID)
		x.text("Protocol", "sqs")
		x.text("SubscriptionArn", sub.shownARN())
		x.text("TopicArn", sub.topic.ARN())
	})
}
