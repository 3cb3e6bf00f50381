package contract_test

import (
	"encoding/json"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// topic is a topic that is deleted with the row.
type topic struct {
	e    *env
	name string
	arn  *string
}

func (e *env) createTopic(name string, attributes ...string) (*topic, error) {
	out, err := e.sns.CreateTopic(e.ctx, &sns.CreateTopicInput{Name: &name, Attributes: pairs(attributes)})
	if err != nil {
		return nil, err
	}
	e.later(func() { e.sns.DeleteTopic(e.ctx, &sns.DeleteTopicInput{TopicArn: out.TopicArn}) })
	return &topic{e: e, name: name, arn: out.TopicArn}, nil
}

func (e *env) topic(attributes ...string) *topic {
	t, err := e.createTopic(e.name(), attributes...)
	e.ok("CreateTopic", err)
	return t
}

func (e *env) fifoTopic(attributes ...string) *topic {
	t, err := e.createTopic(e.name()+".fifo", append([]string{"FifoTopic", "true"}, attributes...)...)
	e.ok("CreateTopic of a FIFO topic", err)
	return t
}

// noTopic is a topic that does not exist.
func (e *env) noTopic() *topic {
	name := e.name()
	return &topic{e: e, name: name, arn: aws.String("arn:aws:sns:" + sqstest.Region + ":" + sqstest.AccountID + ":" + name)}
}

func (t *topic) trySubscribe(endpoint string, attributes ...string) (*string, error) {
	out, err := t.e.sns.Subscribe(t.e.ctx, &sns.SubscribeInput{
		TopicArn: t.arn, Protocol: aws.String("sqs"), Endpoint: &endpoint, Attributes: pairs(attributes), ReturnSubscriptionArn: true,
	})
	if err != nil {
		return nil, err
	}
	return out.SubscriptionArn, nil
}

// feeds subscribes a queue, which it lets the topic send to.
func (t *topic) feeds(q *queue, attributes ...string) *string {
	t.e.ok("SetQueueAttributes with a Policy", q.set("Policy", t.policy(q)))
	arn, err := t.trySubscribe(q.arn(), attributes...)
	t.e.ok("Subscribe", err)
	return arn
}

func (t *topic) policy(q *queue) string {
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage",` +
		`"Resource":"` + q.arn() + `","Condition":{"ArnEquals":{"aws:SourceArn":"` + *t.arn + `"}}}]}`
}

// raw subscribes a new queue with raw delivery.
func (t *topic) raw(attributes ...string) *queue {
	q := t.e.queue()
	t.feeds(q, append([]string{"RawMessageDelivery", "true"}, attributes...)...)
	return q
}

type publishOption func(*sns.PublishInput)

func snsGroup(id string) publishOption {
	return func(in *sns.PublishInput) { in.MessageGroupId = &id }
}

func snsDedup(id string) publishOption {
	return func(in *sns.PublishInput) { in.MessageDeduplicationId = &id }
}

func subject(s string) publishOption {
	return func(in *sns.PublishInput) { in.Subject = &s }
}

func snsText(name, kind, value string) publishOption {
	return snsAttribute(name, snstypes.MessageAttributeValue{DataType: &kind, StringValue: &value})
}

func snsBinary(name string, value []byte) publishOption {
	return snsAttribute(name, snstypes.MessageAttributeValue{DataType: aws.String("Binary"), BinaryValue: value})
}

func snsAttribute(name string, value snstypes.MessageAttributeValue) publishOption {
	return func(in *sns.PublishInput) {
		if in.MessageAttributes == nil {
			in.MessageAttributes = map[string]snstypes.MessageAttributeValue{}
		}
		in.MessageAttributes[name] = value
	}
}

func (t *topic) tryPublish(message string, options ...publishOption) (*sns.PublishOutput, error) {
	in := &sns.PublishInput{TopicArn: t.arn, Message: &message}
	for _, o := range options {
		o(in)
	}
	return t.e.sns.Publish(t.e.ctx, in)
}

func (t *topic) publish(message string, options ...publishOption) *sns.PublishOutput {
	out, err := t.tryPublish(message, options...)
	t.e.ok("Publish", err)
	return out
}

type publishEntry = snstypes.PublishBatchRequestEntry

func snsEntry(id, message string) publishEntry { return publishEntry{Id: &id, Message: &message} }

func snsFIFOEntry(id, message, group, dedup string) publishEntry {
	return publishEntry{Id: &id, Message: &message, MessageGroupId: &group, MessageDeduplicationId: &dedup}
}

func (t *topic) publishBatch(entries ...publishEntry) (*sns.PublishBatchOutput, error) {
	if entries == nil {
		entries = []publishEntry{}
	}
	return t.e.sns.PublishBatch(t.e.ctx, &sns.PublishBatchInput{TopicArn: t.arn, PublishBatchRequestEntries: entries})
}

func published(out *sns.PublishBatchOutput) string {
	var ok []string
	for _, s := range out.Successful {
		ok = append(ok, aws.ToString(s.Id))
	}
	var failed []types.BatchResultErrorEntry
	for _, f := range out.Failed {
		failed = append(failed, types.BatchResultErrorEntry{Id: f.Id, Code: f.Code, SenderFault: f.SenderFault})
	}
	return results(ok, failed)
}

// subscription reads an attribute of a subscription.
func (e *env) subscription(arn *string, name string) string {
	out, err := e.sns.GetSubscriptionAttributes(e.ctx, &sns.GetSubscriptionAttributesInput{SubscriptionArn: arn})
	e.ok("GetSubscriptionAttributes", err)
	return out.Attributes[name]
}

func (e *env) setSubscription(arn *string, name, value string) error {
	_, err := e.sns.SetSubscriptionAttributes(e.ctx, &sns.SetSubscriptionAttributesInput{SubscriptionArn: arn, AttributeName: &name, AttributeValue: &value})
	return err
}

// envelope reads the JSON that SNS wraps a message in.
func (e *env) envelope(body string) map[string]any {
	var members map[string]any
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		e.failf("the body is no JSON map")
	}
	return members
}

func keys(m map[string]any) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
