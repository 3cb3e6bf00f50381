package contract_test

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
)

const noTopicText = "Topic does not exist"

var topicRows = []behaviour{
	row("topic/lifecycle", "11.create 11.idempotent-delete", "is created, listed, deleted, and deleted again", func(e *env) {
		t := e.topic()
		e.equal("TopicArn", "arn:aws:sns:us-east-1:000000000000:"+t.name, *t.arn)
		out, err := e.sns.GetTopicAttributes(e.ctx, &sns.GetTopicAttributesInput{TopicArn: t.arn})
		e.ok("GetTopicAttributes", err)
		e.equal("TopicArn of GetTopicAttributes", *t.arn, out.Attributes["TopicArn"])
		found := false
		pages := sns.NewListTopicsPaginator(e.sns, &sns.ListTopicsInput{})
		for pages.HasMorePages() {
			page, err := pages.NextPage(e.ctx)
			e.ok("ListTopics", err)
			for _, listed := range page.Topics {
				found = found || *listed.TopicArn == *t.arn
			}
		}
		e.checkf(found, "ListTopics does not have the topic")
		for range 2 {
			_, err = e.sns.DeleteTopic(e.ctx, &sns.DeleteTopicInput{TopicArn: t.arn})
			e.ok("DeleteTopic", err)
		}
		_, err = e.sns.GetTopicAttributes(e.ctx, &sns.GetTopicAttributesInput{TopicArn: t.arn})
		e.refused("GetTopicAttributes after DeleteTopic", err, "NotFound", noTopicText)
	}),
	row("topic/again", "11.create", "is returned when created again with no attributes or equal ones", func(e *env) {
		t := e.topic("DisplayName", "x")
		for _, attributes := range [][]string{nil, {"DisplayName", "x"}} {
			again, err := e.createTopic(t.name, attributes...)
			e.ok("CreateTopic again with "+strings.Join(attributes, "="), err)
			e.equal("its ARN", *t.arn, *again.arn)
		}
	}),
	row("topic/again-differs", "11.create-differs", "is refused when created again with other attributes", func(e *env) {
		t := e.topic("DisplayName", "x")
		_, err := e.createTopic(t.name, "DisplayName", "y")
		e.refused("CreateTopic with another DisplayName", err, "InvalidParameter", "Invalid parameter: Attributes Reason: Topic already exists with different attributes")
		other := e.topic()
		_, err = e.createTopic(other.name, "DisplayName", "y")
		e.refused("CreateTopic with a DisplayName it has not", err, "InvalidParameter", "Topic already exists with different attributes")
	}),
	row("topic/tags-differ", "11.create-tags", "is refused when created again with other tags", func(e *env) {
		t := e.topic()
		_, err := e.sns.CreateTopic(e.ctx, &sns.CreateTopicInput{Name: &t.name, Tags: []snstypes.Tag{{Key: aws.String("k"), Value: aws.String("v")}}})
		e.refused("CreateTopic", err, "InvalidParameter", "Invalid parameter: Tags Reason: Topic already exists with different tags")
	}),
	row("topic/names", "11.names", "takes names of 1 to 256 letters, digits, hyphens and underscores, with .fifo on FIFO topics only", func(e *env) {
		longest := (e.name() + strings.Repeat("_Z", 130))[:256]
		_, err := e.createTopic(longest)
		e.ok("CreateTopic with a name of 256", err)
		for _, name := range []string{longest + "x", "a b", "a.b", "a:b", e.name() + ".fifo"} {
			_, err := e.createTopic(name)
			e.refused("CreateTopic with the name "+shorten(name), err, "InvalidParameter", "Invalid parameter: Topic Name")
		}
		_, err = e.createTopic(e.name(), "FifoTopic", "true")
		e.refused("CreateTopic of a FIFO topic without the suffix", err, "InvalidParameter", "Invalid parameter: Topic Name")
	}),
}

var subscriptionRows = []behaviour{
	row("subscription/confirmed", "11.1.confirmed", "of a queue in the same account is confirmed at once", func(e *env) {
		t, q := e.topic(), e.queue()
		arn := t.feeds(q)
		e.checkf(strings.HasPrefix(*arn, *t.arn+":"), "the subscription's ARN does not begin with the topic's")
		e.equal("PendingConfirmation", "false", e.subscription(arn, "PendingConfirmation"))
		e.equal("Endpoint", q.arn(), e.subscription(arn, "Endpoint"))
		e.equal("Protocol", "sqs", e.subscription(arn, "Protocol"))
		e.equal("RawMessageDelivery", "false", e.subscription(arn, "RawMessageDelivery"))
		listed, err := e.sns.ListSubscriptionsByTopic(e.ctx, &sns.ListSubscriptionsByTopicInput{TopicArn: t.arn})
		e.ok("ListSubscriptionsByTopic", err)
		e.equal("subscriptions of the topic", 1, len(listed.Subscriptions))
		e.equal("its ARN", *arn, aws.ToString(listed.Subscriptions[0].SubscriptionArn))
	}),
	row("subscription/again", "11.1.idempotent", "is the same when made again with equal, other-cased or no attributes", func(e *env) {
		t, q := e.topic(), e.queue()
		arn := t.feeds(q, "RawMessageDelivery", "true")
		for _, attributes := range [][]string{{"RawMessageDelivery", "true"}, {"RawMessageDelivery", "True"}, nil} {
			again, err := t.trySubscribe(q.arn(), attributes...)
			e.ok("Subscribe again with "+strings.Join(attributes, "="), err)
			e.checkf(*again == *arn, "Subscribe again with %s: the ARN is another", strings.Join(attributes, "="))
		}
	}),
	row("subscription/again-differs", "11.1.idempotent", "is refused when made again with another value", func(e *env) {
		t, q := e.topic(), e.queue()
		t.feeds(q, "RawMessageDelivery", "true")
		_, err := t.trySubscribe(q.arn(), "RawMessageDelivery", "false")
		e.refused("Subscribe", err, "InvalidParameter", "Invalid parameter: Attributes Reason: Subscription already exists with different attributes")
	}),
	row("subscription/url", "11.1.endpoint", "of a queue URL is refused", func(e *env) {
		t, q := e.topic(), e.queue()
		_, err := t.trySubscribe(*q.url)
		e.refused("Subscribe", err, "InvalidParameter", "Invalid parameter: SQS endpoint ARN")
	}),
	row("subscription/no-queue", "11.1.no-queue", "of a queue that does not exist is accepted", func(e *env) {
		_, err := e.topic().trySubscribe((&queue{name: e.name()}).arn())
		e.ok("Subscribe", err)
	}),
	row("subscription/no-topic", "11.missing", "to a topic that does not exist is refused", func(e *env) {
		_, err := e.noTopic().trySubscribe(e.queue().arn())
		e.refused("Subscribe", err, "NotFound", noTopicText)
	}),
	row("subscription/fifo-queue", "11.1.fifo", "of a FIFO queue to a standard topic is refused", func(e *env) {
		_, err := e.topic().trySubscribe(e.fifo().arn())
		e.refused("Subscribe", err, "InvalidParameter", "FIFO SQS Queues can not be subscribed to standard SNS topics")
	}),
	row("subscription/unsubscribe", "11.idempotent-delete", "ends with Unsubscribe, which succeeds again", func(e *env) {
		t, q := e.topic(), e.queue()
		arn := t.feeds(q)
		for range 2 {
			_, err := e.sns.Unsubscribe(e.ctx, &sns.UnsubscribeInput{SubscriptionArn: arn})
			e.ok("Unsubscribe", err)
		}
		_, err := e.sns.GetSubscriptionAttributes(e.ctx, &sns.GetSubscriptionAttributesInput{SubscriptionArn: arn})
		e.refused("GetSubscriptionAttributes", err, "NotFound", "Subscription does not exist")
		t.publish("a")
		q.none("after Unsubscribe")
	}),
	row("subscription/attributes", "11.1.attributes", "takes RawMessageDelivery later, and refuses values and names it does not have", func(e *env) {
		t, q := e.topic(), e.queue()
		arn := t.feeds(q)
		e.ok("SetSubscriptionAttributes", e.setSubscription(arn, "RawMessageDelivery", "true"))
		t.publish("a")
		e.equal("the message", "[a]", bodies(q.receive(10, 2)))
		e.refused("RawMessageDelivery=maybe", e.setSubscription(arn, "RawMessageDelivery", "maybe"), "InvalidParameter", "RawMessageDelivery: Invalid value [maybe]. Must be true or false.")
		e.refused("Nonsense=1", e.setSubscription(arn, "Nonsense", "1"), "InvalidParameter", "AttributeName")
	}),
	row("subscription/redrive", "11.1.redrive", "takes a RedrivePolicy that names a queue, and reads it back", func(e *env) {
		t, q, dead := e.topic(), e.queue(), e.queue()
		policy := `{"deadLetterTargetArn":"` + dead.arn() + `"}`
		arn := t.feeds(q, "RedrivePolicy", policy)
		e.equal("RedrivePolicy", policy, e.subscription(arn, "RedrivePolicy"))
		e.refused("a RedrivePolicy with no ARN", e.setSubscription(arn, "RedrivePolicy", `{"deadLetterTargetArn":"nonsense"}`), "InvalidParameter", "RedrivePolicy: deadLetterTargetArn is an invalid arn")
	}),
	row("subscription/redrive-type", "11.1.redrive", "to a FIFO topic refuses a standard dead-letter queue", func(e *env) {
		t, q, dead := e.fifoTopic(), e.fifo(), e.queue()
		arn := t.feeds(q)
		e.refused("SetSubscriptionAttributes", e.setSubscription(arn, "RedrivePolicy", `{"deadLetterTargetArn":"`+dead.arn()+`"}`), "InvalidParameter",
			"RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic.")
	}),
}
