package sqstest_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	ctx := t.Context()
	arn := s.subscribe(s.queue, map[string]string{"RawMessageDelivery": "True"})
	for _, same := range []map[string]string{nil, {}, {"RawMessageDelivery": "true"}, {"RawMessageDelivery": "TRUE", "FilterPolicyScope": "MessageAttributes"}} {
		require.Equal(t, arn, s.subscribe(s.queue, same))
	}
	_, err := s.trySubscribe(s.queue, map[string]string{"RawMessageDelivery": "false"})
	requireText(t, err, "Invalid parameter: Attributes Reason: Subscription already exists with different attributes")

	get := func(arn string) (map[string]string, error) {
		out, err := s.sns.GetSubscriptionAttributes(ctx, &sns.GetSubscriptionAttributesInput{SubscriptionArn: &arn})
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	}
	attributes, err := get(arn)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"ConfirmationWasAuthenticated": "true", "Endpoint": s.queue.ARN(), "Owner": "000000000000", "PendingConfirmation": "false",
		"Protocol": "sqs", "RawMessageDelivery": "true", "SubscriptionArn": arn, "SubscriptionPrincipal": "arn:aws:iam::000000000000:user/test", "TopicArn": *s.arn,
	}, attributes)

	set := func(name, value string) error {
		_, err := s.sns.SetSubscriptionAttributes(ctx, &sns.SetSubscriptionAttributesInput{SubscriptionArn: &arn, AttributeName: &name, AttributeValue: &value})
		return err
	}
	s.publish("raw", nil)
	require.NoError(t, set("RawMessageDelivery", "false"))
	s.publish("wrapped", nil)
	held := s.receive(10, 0)
	require.Equal(t, "raw", *held[0].Body)
	require.Contains(t, *held[1].Body, `"Message":"wrapped"`)
	for name, c := range map[string]struct{ value, text string }{
		"Fake":               {"x", "Invalid parameter: AttributeName"},
		"RawMessageDelivery": {"test-value", "Invalid parameter: RawMessageDelivery: Invalid value [test-value]. Must be true or false."},
		"FilterPolicyScope":  {"RandomValue", "Invalid parameter: FilterPolicyScope: Invalid value [RandomValue]. Please use either MessageBody or MessageAttributes"},
		"RedrivePolicy":      {`{"deadLetterTargetArn":"x"}`, "Invalid parameter: RedrivePolicy: deadLetterTargetArn is an invalid arn"},
		"ReplayPolicy":       {"{}", ""},
	} {
		err := set(name, c.value)
		requireCode(t, err, 400, "InvalidParameter")
		require.ErrorContains(t, err, c.text)
	}
	require.ErrorContains(t, set("RedrivePolicy", "{invalid}"), "RedrivePolicy: failed to parse JSON.")
	require.NoError(t, set("RedrivePolicy", `{"deadLetterTargetArn":"`+s.queue.ARN()+`"}`))
	require.NoError(t, set("RedrivePolicy", ""))

	for endpoint, text := range map[string]string{s.queue.URL(): "SQS endpoint ARN", "arn:aws:sqs:us-east-1": "SQS endpoint ARN", "arn:aws:lambda:us-east-1:000000000000:function:f": "SQS endpoint ARN"} {
		_, err := s.sns.Subscribe(ctx, &sns.SubscribeInput{TopicArn: s.arn, Protocol: aws.String("sqs"), Endpoint: &endpoint})
		requireText(t, err, "Invalid parameter: "+text)
	}
	_, err = s.sns.Subscribe(ctx, &sns.SubscribeInput{TopicArn: s.arn, Protocol: aws.String("test-protocol"), Endpoint: aws.String("x")})
	requireText(t, err, "Invalid parameter: Amazon SNS does not support this protocol string: test-protocol")
	_, err = s.sns.Subscribe(ctx, &sns.SubscribeInput{TopicArn: aws.String(*s.arn + "x"), Protocol: aws.String("sqs"), Endpoint: aws.String(s.queue.ARN())})
	requireType[*snstypes.NotFoundException](t, err)

	// An ARN of a queue that is not there is fine; that of another account waits.
	_, err = s.sns.Subscribe(ctx, &sns.SubscribeInput{TopicArn: s.arn, Protocol: aws.String("sqs"), Endpoint: aws.String("arn:aws:sqs:us-east-1:000000000000:none")})
	require.NoError(t, err)
	other := aws.String("arn:aws:sqs:us-east-1:111111111111:theirs")
	out, err := s.sns.Subscribe(ctx, &sns.SubscribeInput{TopicArn: s.arn, Protocol: aws.String("sqs"), Endpoint: other})
	require.NoError(t, err)
	require.Equal(t, "pending confirmation", *out.SubscriptionArn)
	out, err = s.sns.Subscribe(ctx, &sns.SubscribeInput{TopicArn: s.arn, Protocol: aws.String("sqs"), Endpoint: other, ReturnSubscriptionArn: true})
	require.NoError(t, err)
	attributes, err = get(*out.SubscriptionArn)
	require.NoError(t, err)
	require.Equal(t, "true", attributes["PendingConfirmation"])

	list, err := s.sns.ListSubscriptionsByTopic(ctx, &sns.ListSubscriptionsByTopicInput{TopicArn: s.arn})
	require.NoError(t, err)
	require.Len(t, list.Subscriptions, 3)
	for range 2 {
		_, err = s.sns.Unsubscribe(ctx, &sns.UnsubscribeInput{SubscriptionArn: &arn})
		require.NoError(t, err)
	}
	all, err := s.sns.ListSubscriptions(ctx, &sns.ListSubscriptionsInput{})
	require.NoError(t, err)
	require.Len(t, all.Subscriptions, 2)
	_, err = get(arn)
	requireType[*snstypes.NotFoundException](t, err)
	requireText(t, err, "Subscription does not exist")
	requireType[*snstypes.NotFoundException](t, set("RawMessageDelivery", "true"))
	for bad, text := range map[string]string{
		"x": "SubscriptionArn Reason: An ARN must have at least 6 elements, not 1", "a:b:c:d:e": "SubscriptionArn Reason: An ARN must have at least 6 elements, not 5",
		*s.arn + ":x": "SubscriptionId", "": "SubscriptionArn Reason: no value for required parameter",
	} {
		_, err := s.sns.Unsubscribe(ctx, &sns.UnsubscribeInput{SubscriptionArn: &bad})
		requireText(t, err, "Invalid parameter: "+text)
	}
	s.publish("nobody", nil)
	require.Equal(t, 2, s.queue.Len())
}

func TestFanOut(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	second, err := s.svc.CreateQueue("second", nil)
	require.NoError(t, err)
	s.allow(second)
	s.subscribe(s.queue, raw1)
	s.subscribe(second, raw1)
	got := make(chan string)
	go func() { got <- *s.on(second).receive(1, 20)[0].Body }()
	s.publish("x", nil)
	require.Equal(t, "x", <-got)
	require.Equal(t, "x", *s.receiveOne().Body)
}

func TestQueuePolicies(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	s.subscribe(s.queue, raw1)
	arn, q := *s.arn, s.queue.ARN()
	statement := func(text string) string { return `{"Version":"2012-10-17","Statement":[` + text + `]}` }
	allow := fmt.Sprintf(`{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage","Resource":%q}`, q)
	for name, c := range map[string]struct {
		policy string
		want   bool
	}{
		"none":              {"", false},
		"no statement":      {`{"Version":"2012-10-17"}`, false},
		"plain":             {statement(allow), true},
		"one statement":     {`{"Statement":` + allow + `}`, true},
		"ArnEquals":         {sendPolicy(s.queue, `"Condition":{"ArnEquals":{"aws:SourceArn":"`+arn+`"}}`), true},
		"another topic":     {sendPolicy(s.queue, `"Condition":{"ArnEquals":{"aws:SourceArn":"`+arn+`x"}}`), false},
		"several topics":    {sendPolicy(s.queue, `"Condition":{"ArnEquals":{"aws:SourceArn":["`+arn+`x","`+arn+`"]}}`), true},
		"ArnLike":           {sendPolicy(s.queue, `"Condition":{"ArnLike":{"AWS:SourceArn":"arn:aws:sns:*:000000000000:ev*"}}`), true},
		"ArnLike colon":     {sendPolicy(s.queue, `"Condition":{"ArnLike":{"aws:SourceArn":"arn:*"}}`), false},
		"StringEquals":      {sendPolicy(s.queue, `"Condition":{"StringEquals":{"aws:SourceArn":"`+arn+`"}}`), true},
		"StringEquals star": {sendPolicy(s.queue, `"Condition":{"StringEquals":{"aws:SourceArn":"arn:aws:sns:*"}}`), false},
		"StringLike":        {sendPolicy(s.queue, `"Condition":{"StringLike":{"aws:SourceArn":"arn:aws:sns:*:event?"}}`), true},
		"account":           {sendPolicy(s.queue, `"Condition":{"StringEquals":{"aws:SourceAccount":"000000000000"}}`), true},
		"other account":     {sendPolicy(s.queue, `"Condition":{"StringEquals":{"aws:SourceAccount":["111111111111"]}}`), false},
		"two conditions":    {sendPolicy(s.queue, `"Condition":{"StringEquals":{"aws:SourceAccount":"000000000000"},"ArnEquals":{"aws:SourceArn":"x"}}`), false},
		"unknown key":       {sendPolicy(s.queue, `"Condition":{"StringEquals":{"aws:username":"me"}}`), false},
		"if exists":         {sendPolicy(s.queue, `"Condition":{"StringEqualsIfExists":{"aws:username":"me"}}`), true},
		"not equals":        {sendPolicy(s.queue, `"Condition":{"ArnNotEquals":{"aws:SourceArn":"`+arn+`"}}`), false},
		"not another":       {sendPolicy(s.queue, `"Condition":{"StringNotEquals":{"aws:SourceArn":"x"}}`), true},
		"secure":            {sendPolicy(s.queue, `"Condition":{"Bool":{"aws:SecureTransport":true},"Null":{"aws:username":"true"}}`), true},
		"for any value":     {sendPolicy(s.queue, `"Condition":{"ForAnyValue:StringEquals":{"aws:SourceArn":"`+arn+`"}}`), true},
		"unknown operator":  {sendPolicy(s.queue, `"Condition":{"NumericEquals":{"aws:SourceArn":1}}`), false},
		"everyone":          {statement(fmt.Sprintf(`{"Effect":"Allow","Principal":"*","Action":["SQS:*"],"Resource":%q}`, q)), true},
		"every account":     {statement(`{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"sqs:Send*","Resource":"arn:aws:sqs:*:*:ord*"}`), true},
		"other service":     {statement(fmt.Sprintf(`{"Effect":"Allow","Principal":{"Service":["s3.amazonaws.com"]},"Action":"*","Resource":%q}`, q)), false},
		"other action":      {statement(fmt.Sprintf(`{"Effect":"Allow","Principal":"*","Action":"sqs:ReceiveMessage","Resource":%q}`, q)), false},
		"other queue":       {statement(`{"Effect":"Allow","Principal":"*","Action":"*","Resource":"arn:aws:sqs:us-east-1:000000000000:x"}`), false},
		"not action":        {statement(`{"Effect":"Allow","Principal":"*","NotAction":"sqs:DeleteMessage","Resource":"*"}`), true},
		"not resource":      {statement(`{"Effect":"Allow","Principal":"*","Action":"*","NotResource":"arn:aws:sqs:*"}`), false},
		"not principal":     {statement(`{"Effect":"Allow","NotPrincipal":{"Service":"sns.amazonaws.com"},"Action":"*","Resource":"*"}`), false},
		"denied":            {statement(allow + `,{"Effect":"Deny","Principal":"*","Action":"sqs:SendMessage","Resource":"*"}`), false},
		"others denied":     {statement(allow + `,{"Effect":"Deny","Principal":"*","Action":"sqs:SendMessage","Resource":"*","Condition":{"ArnNotLike":{"aws:SourceArn":"` + arn + `"}}}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, s.set("Policy", c.policy))
			before, discards := s.queue.Len(), len(s.topic.Discards())
			s.publish("x", nil)
			require.Equal(t, c.want, s.queue.Len() > before)
			if !c.want {
				require.Equal(t, "the policy of the queue does not let the topic send", s.topic.Discards()[discards].Reason)
			}
		})
	}
	for _, bad := range []string{"x", "[]", "null", `{"Statement":7}`, `{"Statement":[{"Effect":"Maybe","Action":"*"}]}`, `{"Statement":[{"Effect":"Allow"}]}`} {
		requireCode(t, s.set("Policy", bad), 400, "InvalidAttributeValue")
	}
}

func TestDiscardsAndSubscriptionDeadLetters(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"true", "false"} {
		t.Run("raw "+raw, func(t *testing.T) {
			t.Parallel()
			s := newSNS(t)
			dead, err := s.svc.CreateQueue("dead", nil)
			require.NoError(t, err)
			sub := s.subscribe(s.queue, map[string]string{"RawMessageDelivery": raw, "RedrivePolicy": `{"deadLetterTargetArn":"` + dead.ARN() + `"}`})
			many := map[string]snstypes.MessageAttributeValue{}
			for i := range 11 {
				many["a"+strconv.Itoa(i)] = snsText("String", "v")
			}
			s.publish("many", many)
			if raw == "true" {
				require.Zero(t, s.queue.Len(), "discarded in silence")
				require.Contains(t, s.topic.Discards()[0].Reason, "raw delivery of 11 message attributes, 10 are allowed")
			} else {
				require.Equal(t, 1, s.queue.Len())
				require.Empty(t, s.topic.Discards())
			}
			_, err = s.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: s.url})
			require.NoError(t, err)
			attributes := map[string]snstypes.MessageAttributeValue{"a": snsText("Number", "111")}
			s.publish("lost", attributes)
			require.Zero(t, dead.Len(), "it needs a policy too")
			s.allow(dead)
			out := s.publish("dead", attributes)
			m := s.on(dead).receiveOne()
			if raw == "true" {
				require.Equal(t, "dead", *m.Body)
				require.Equal(t, "111", *m.MessageAttributes["a"].StringValue)
			} else {
				require.Contains(t, *m.Body, `"Message":"dead"`)
				require.Empty(t, m.MessageAttributes)
			}
			discards := s.topic.Discards()
			require.False(t, discards[len(discards)-2].DeadLettered)
			last := discards[len(discards)-1]
			require.Equal(t, sqstest.Discard{At: last.At, Subscription: sub, Endpoint: s.queue.ARN(), MessageID: *out.MessageId, Reason: "the queue does not exist", DeadLettered: true}, last)
		})
	}
}

func TestFIFOTopics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFIFOSNS(t, nil)
		sub := s.subscribe(s.queue, nil)
		publish := func(group, dedup *string) (*sns.PublishOutput, error) {
			return s.sns.Publish(t.Context(), &sns.PublishInput{TopicArn: s.arn, Message: aws.String("Test"), MessageGroupId: group, MessageDeduplicationId: dedup})
		}
		_, err := publish(nil, aws.String("d"))
		requireText(t, err, "Invalid parameter: The MessageGroupId parameter is required for FIFO topics")
		_, err = publish(aws.String("g"), nil)
		requireText(t, err, "Invalid parameter: The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
		_, err = publish(aws.String("g"), aws.String("a b"))
		requireCode(t, err, 400, "InvalidParameter")

		first, err := publish(aws.String("g"), aws.String("d"))
		require.NoError(t, err)
		again, err := publish(aws.String("h"), aws.String("d"))
		require.NoError(t, err)
		require.Equal(t, *first.MessageId, *again.MessageId)
		require.Equal(t, *first.SequenceNumber, *again.SequenceNumber)
		require.Len(t, *first.SequenceNumber, 20)
		m := s.receiveOne()
		require.Equal(t, "g", m.Attributes["MessageGroupId"])
		require.Equal(t, "d", m.Attributes["MessageDeduplicationId"])
		require.NotEqual(t, *first.SequenceNumber, m.Attributes["SequenceNumber"])
		var envelope map[string]string
		require.NoError(t, json.Unmarshal([]byte(*m.Body), &envelope))
		require.Equal(t, map[string]string{
			"Type": "Notification", "MessageId": *first.MessageId, "SequenceNumber": *first.SequenceNumber, "TopicArn": *s.arn, "Message": "Test",
			"Timestamp": envelope["Timestamp"], "UnsubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=" + sub,
		}, envelope)
		time.Sleep(5 * time.Minute)
		later, err := publish(aws.String("g"), aws.String("d"))
		require.NoError(t, err)
		require.NotEqual(t, *first.MessageId, *later.MessageId)
		require.Less(t, *first.SequenceNumber, *later.SequenceNumber)

		_, err = s.sns.SetTopicAttributes(t.Context(), &sns.SetTopicAttributesInput{TopicArn: s.arn, AttributeName: aws.String("ContentBasedDeduplication"), AttributeValue: aws.String("true")})
		require.NoError(t, err)
		_, err = s.sns.SetSubscriptionAttributes(t.Context(), &sns.SetSubscriptionAttributesInput{SubscriptionArn: &sub, AttributeName: aws.String("RawMessageDelivery"), AttributeValue: aws.String("true")})
		require.NoError(t, err)
		var batch []snstypes.PublishBatchRequestEntry
		for i := range 5 {
			batch = append(batch, snstypes.PublishBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), Message: aws.String(fmt.Sprint("batch", i)), MessageGroupId: aws.String("b")})
		}
		out, err := s.sns.PublishBatch(t.Context(), &sns.PublishBatchInput{TopicArn: s.arn, PublishBatchRequestEntries: batch})
		require.NoError(t, err)
		require.Len(t, *out.Successful[0].SequenceNumber, 20)
		held := s.receive(2, 0)
		require.Len(t, held, 2, "those of before")
		s.requireBodies(s.receive(10, 0), "batch0", "batch1", "batch2", "batch3", "batch4")
		batch[0].MessageGroupId = nil
		_, err = s.sns.PublishBatch(t.Context(), &sns.PublishBatchInput{TopicArn: s.arn, PublishBatchRequestEntries: batch})
		requireText(t, err, "Invalid parameter: The MessageGroupId parameter is required for FIFO topics")
	})
}

func TestFIFOTopicKinds(t *testing.T) {
	t.Parallel()
	s := newFIFOSNS(t, map[string]string{"ContentBasedDeduplication": "true", "FifoThroughputScope": "MessageGroup"})
	standard, err := s.svc.CreateQueue("standard", nil)
	require.NoError(t, err)
	s.allow(standard)
	s.subscribe(standard, raw1)
	_, err = s.trySubscribe(s.queue, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"` + standard.ARN() + `"}`})
	requireText(t, err, "Invalid parameter: Attributes Reason: RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic.")
	for _, group := range []string{"a", "b", "a"} {
		_, err := s.sns.Publish(t.Context(), &sns.PublishInput{TopicArn: s.arn, Message: aws.String("x"), MessageGroupId: &group})
		require.NoError(t, err)
	}
	held := s.on(standard).receive(10, 0)
	require.Len(t, held, 2, "duplicates are of a group")
	require.NotContains(t, held[0].Attributes, "MessageGroupId")
	require.NotContains(t, held[0].Attributes, "MessageDeduplicationId")

	plain := withTopic(s.bench, "events", nil)
	_, err = plain.trySubscribe(s.queue, nil)
	requireText(t, err, "Invalid parameter: Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics")
}
