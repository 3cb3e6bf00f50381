package sqstest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// snsBench is a bench with a topic that may send to its queue.
type snsBench struct {
	*bench
	sns   *sns.Client
	topic *sqstest.Topic
	arn   *string
}

func newSNS(t testing.TB) *snsBench {
	t.Helper()
	b := newBench(t, nil)
	return withTopic(b, "events", nil)
}

func newFIFOSNS(t testing.TB, attributes map[string]string) *snsBench {
	t.Helper()
	return withTopic(newFIFO(t, nil), "events.fifo", attributes)
}

func withTopic(b *bench, name string, attributes map[string]string) *snsBench {
	b.t.Helper()
	all := map[string]string{}
	if strings.HasSuffix(name, ".fifo") {
		all["FifoTopic"] = "true"
	}
	maps.Copy(all, attributes)
	topic, err := b.svc.CreateTopic(name, all)
	require.NoError(b.t, err)
	s := &snsBench{bench: b, sns: b.svc.SNSClient(), topic: topic, arn: aws.String(topic.ARN())}
	s.allow(b.queue)
	return s
}

// allow lets the topic send to a queue.
func (s *snsBench) allow(q *sqstest.Queue) {
	s.t.Helper()
	require.NoError(s.t, s.on(q).set("Policy", sendPolicy(q, `"Condition":{"ArnEquals":{"aws:SourceArn":"`+*s.arn+`"}}`)))
}

func sendPolicy(q *sqstest.Queue, more string) string {
	return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage","Resource":%q,%s}]}`, q.ARN(), more)
}

func (s *snsBench) trySubscribe(q *sqstest.Queue, attributes map[string]string) (string, error) {
	out, err := s.sns.Subscribe(s.t.Context(), &sns.SubscribeInput{TopicArn: s.arn, Protocol: aws.String("sqs"), Endpoint: aws.String(q.ARN()), Attributes: attributes})
	if err != nil {
		return "", err
	}
	return *out.SubscriptionArn, nil
}

func (s *snsBench) subscribe(q *sqstest.Queue, attributes map[string]string) string {
	s.t.Helper()
	arn, err := s.trySubscribe(q, attributes)
	require.NoError(s.t, err)
	return arn
}

func (s *snsBench) publish(message string, attributes map[string]snstypes.MessageAttributeValue) *sns.PublishOutput {
	s.t.Helper()
	out, err := s.sns.Publish(s.t.Context(), &sns.PublishInput{TopicArn: s.arn, Message: &message, MessageAttributes: attributes})
	require.NoError(s.t, err)
	return out
}

func (s *snsBench) publication(message string) *sns.PublishInput {
	return &sns.PublishInput{TopicArn: s.arn, Message: &message}
}

func snsText(kind, value string) snstypes.MessageAttributeValue {
	return snstypes.MessageAttributeValue{DataType: &kind, StringValue: &value}
}

var raw1 = map[string]string{"RawMessageDelivery": "true"}

func TestTopics(t *testing.T) {
	t.Parallel()
	svc := sqstest.New(t)
	client, ctx := svc.SNSClient(), t.Context()
	create := func(name string, attributes map[string]string, tags ...snstypes.Tag) (*sns.CreateTopicOutput, error) {
		return client.CreateTopic(ctx, &sns.CreateTopicInput{Name: &name, Attributes: attributes, Tags: tags})
	}
	first, err := create("events", map[string]string{"DisplayName": "Value1"}, snstypes.Tag{Key: aws.String("a"), Value: aws.String("1")})
	require.NoError(t, err)
	require.Equal(t, "arn:aws:sns:us-east-1:000000000000:events", *first.TopicArn)
	for _, same := range []map[string]string{nil, {"DisplayName": "Value1"}, {"FifoTopic": "false"}} {
		again, err := create("events", same)
		require.NoError(t, err)
		require.Equal(t, first.TopicArn, again.TopicArn)
	}
	_, err = create("events", map[string]string{"DisplayName": "Value2"})
	requireText(t, err, "Invalid parameter: Attributes Reason: Topic already exists with different attributes")
	_, err = create("events", nil, snstypes.Tag{Key: aws.String("b"), Value: aws.String("1")})
	requireText(t, err, "Invalid parameter: Tags Reason: Topic already exists with different tags")
	for name, attributes := range map[string]map[string]string{
		"": nil, strings.Repeat("a", 257): nil, "a.fifo": nil, "plain": {"FifoTopic": "true"}, "a b": nil, "ä": nil, ".fifo": {"FifoTopic": "true"},
	} {
		_, err := create(name, attributes)
		requireCode(t, err, 400, "InvalidParameter")
		requireText(t, err, "Invalid parameter: Topic Name")
	}
	for _, bad := range []map[string]string{{"Nonsense": "1"}, {"MaximumMessageSize": "1"}, {"SignatureVersion": "3"}, {"ContentBasedDeduplication": "true"}} {
		_, err := create("other", bad)
		requireType[*snstypes.InvalidParameterException](t, err)
	}

	got, err := client.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: first.TopicArn})
	require.NoError(t, err)
	require.Equal(t, "Value1", got.Attributes["DisplayName"])
	require.Equal(t, "0", got.Attributes["SubscriptionsConfirmed"])
	require.True(t, json.Valid([]byte(got.Attributes["EffectiveDeliveryPolicy"])))
	require.True(t, json.Valid([]byte(got.Attributes["Policy"])))
	require.NotContains(t, got.Attributes, "FifoTopic")
	set := func(name, value string) error {
		_, err := client.SetTopicAttributes(ctx, &sns.SetTopicAttributesInput{TopicArn: first.TopicArn, AttributeName: &name, AttributeValue: &value})
		return err
	}
	require.NoError(t, set("DisplayName", `a <b> & "c"`))
	got, err = client.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: first.TopicArn})
	require.NoError(t, err)
	require.Equal(t, `a <b> & "c"`, got.Attributes["DisplayName"])
	requireText(t, set("FifoTopic", "false"), "Invalid parameter: AttributeName")

	for i := range 120 {
		_, err := create(fmt.Sprint("t", i), nil)
		require.NoError(t, err)
	}
	var names []string
	for p := sns.NewListTopicsPaginator(client, &sns.ListTopicsInput{}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		require.NoError(t, err)
		for _, topic := range page.Topics {
			names = append(names, *topic.TopicArn)
		}
	}
	require.Len(t, names, 121)

	for range 2 {
		_, err = client.DeleteTopic(ctx, &sns.DeleteTopicInput{TopicArn: first.TopicArn})
		require.NoError(t, err)
	}
	_, err = client.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: first.TopicArn})
	requireType[*snstypes.NotFoundException](t, err)
	requireCode(t, err, 404, "NotFound")
	requireText(t, err, "Topic does not exist")
	for arn, text := range map[string]string{
		"x":   "Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements, not 1",
		"a:b": "Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements, not 2",
		"arn:aws:sns:eu-west-1:000000000000:events": "Invalid parameter: TopicArn",
	} {
		_, err := client.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: &arn})
		requireText(t, err, text)
	}
}

func TestTopicTags(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	tag := func(k, v string) snstypes.Tag { return snstypes.Tag{Key: &k, Value: &v} }
	_, err := s.sns.TagResource(t.Context(), &sns.TagResourceInput{ResourceArn: s.arn, Tags: []snstypes.Tag{tag("b", "2"), tag("a", "1")}})
	require.NoError(t, err)
	_, err = s.sns.UntagResource(t.Context(), &sns.UntagResourceInput{ResourceArn: s.arn, TagKeys: []string{"b"}})
	require.NoError(t, err)
	out, err := s.sns.ListTagsForResource(t.Context(), &sns.ListTagsForResourceInput{ResourceArn: s.arn})
	require.NoError(t, err)
	require.Len(t, out.Tags, 1)
	require.Equal(t, "a", *out.Tags[0].Key)
	_, err = s.sns.TagResource(t.Context(), &sns.TagResourceInput{ResourceArn: s.arn, Tags: []snstypes.Tag{tag("b", "2"), tag("b", "1")}})
	requireText(t, err, "Invalid parameter: Duplicated keys are not allowed.")
	_, err = s.sns.ListTagsForResource(t.Context(), &sns.ListTagsForResourceInput{ResourceArn: aws.String(*s.arn + "x")})
	requireType[*snstypes.ResourceNotFoundException](t, err)
}

func TestRawDelivery(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	s.subscribe(s.queue, map[string]string{"RawMessageDelivery": "True"})
	for _, body := range []string{"hello", "1", "true", `{"a":1}`, "😀 <&>\t"} {
		out := s.publish(body, map[string]snstypes.MessageAttributeValue{
			"s": snsText("String", "v"), "n": snsText("Number", "99.12"), "b": {DataType: aws.String("Binary"), BinaryValue: []byte{2, 3, 4}},
		})
		m := s.receiveOne()
		require.Equal(t, body, *m.Body)
		require.NotEqual(t, *out.MessageId, *m.MessageId)
		require.Equal(t, "99.12", *m.MessageAttributes["n"].StringValue)
		require.Equal(t, "Number", *m.MessageAttributes["n"].DataType)
		require.Equal(t, []byte{2, 3, 4}, m.MessageAttributes["b"].BinaryValue)
		require.Len(t, m.MessageAttributes, 3)
	}
	_, err := s.sns.Publish(t.Context(), &sns.PublishInput{TargetArn: s.arn, Message: aws.String("to the target"), Subject: aws.String("not delivered"), MessageGroupId: aws.String("fair")})
	require.NoError(t, err)
	m := s.receiveOne()
	require.Equal(t, "to the target", *m.Body)
	require.Equal(t, "fair", m.Attributes["MessageGroupId"])
}

func TestEnvelopes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSNS(t)
		sub := s.subscribe(s.queue, nil)
		message, subject := "say \"hi\" <&>\n", "the subject"
		out, err := s.sns.Publish(t.Context(), &sns.PublishInput{TopicArn: s.arn, Message: &message, Subject: &subject, MessageAttributes: map[string]snstypes.MessageAttributeValue{
			"a": snsText("String.x", "v"), "b": {DataType: aws.String("Binary"), BinaryValue: []byte{2, 3, 4}},
		}})
		require.NoError(t, err)
		m := s.receiveOne()
		require.Empty(t, m.MessageAttributes)
		var envelope map[string]any
		require.NoError(t, json.Unmarshal([]byte(*m.Body), &envelope))
		for _, set := range []string{"SignatureVersion", "Signature", "SigningCertURL"} {
			require.NotEmpty(t, envelope[set])
			delete(envelope, set)
		}
		require.Equal(t, map[string]any{
			"Type": "Notification", "MessageId": *out.MessageId, "TopicArn": *s.arn, "Subject": subject, "Message": message,
			"Timestamp":      time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
			"UnsubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=" + sub,
			"MessageAttributes": map[string]any{
				"a": map[string]any{"Type": "String.x", "Value": "v"}, "b": map[string]any{"Type": "Binary", "Value": "AgME"},
			},
		}, envelope)
	})
}

func TestMessageStructure(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	s.subscribe(s.queue, raw1)
	publish := func(message string) error {
		_, err := s.sns.Publish(t.Context(), &sns.PublishInput{
			TopicArn: s.arn, Message: &message, MessageStructure: aws.String("json"), MessageAttributes: map[string]snstypes.MessageAttributeValue{"a": snsText("String", "v")},
		})
		return err
	}
	require.NoError(t, publish(`{"default":"d","sqs":"{\"for\":\"queues\"}","http":"h"}`))
	require.NoError(t, publish(`{"default":"d","http":"h","sqs":7}`))
	held := s.receive(10, 0)
	s.requireBodies(held, `{"for":"queues"}`, "d")
	require.Empty(t, held[0].MessageAttributes)
	for message, text := range map[string]string{
		`{"sqs":"x"}`: "No default entry in JSON message body", `{"default":7}`: "No default entry in JSON message body",
		`{"default":null}`: "No default entry in JSON message body", `nonsense`: "JSON message body failed to parse", `[]`: "JSON message body failed to parse",
	} {
		requireText(t, publish(message), "Invalid parameter: Message Structure - "+text)
	}
}

func TestPublishRules(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	s.subscribe(s.queue, raw1)
	long := strings.Repeat("x", 256<<10)
	for name, c := range map[string]struct {
		in         sns.PublishInput
		code, text string
	}{
		"empty":         {sns.PublishInput{Message: aws.String("")}, "InvalidParameter", "Invalid parameter: Empty message"},
		"subject":       {sns.PublishInput{Subject: aws.String("")}, "InvalidParameter", "Invalid parameter: Subject"},
		"long subject":  {sns.PublishInput{Subject: aws.String(strings.Repeat("s", 100))}, "InvalidParameter", "Invalid parameter: Subject"},
		"two lines":     {sns.PublishInput{Subject: aws.String("a\nb")}, "InvalidParameter", "Invalid parameter: Subject"},
		"too long":      {sns.PublishInput{Message: aws.String(long + "x")}, "InvalidParameter", "Invalid parameter: Message too long"},
		"with attrs":    {sns.PublishInput{Message: &long, MessageAttributes: map[string]snstypes.MessageAttributeValue{"a": snsText("String", "v")}}, "InvalidParameter", "Invalid parameter: Message too long"},
		"dedup id":      {sns.PublishInput{MessageDeduplicationId: aws.String("a")}, "InvalidParameter", "Invalid parameter: MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid for this topic type"},
		"group":         {sns.PublishInput{MessageGroupId: aws.String("a b")}, "InvalidParameter", ""},
		"structure":     {sns.PublishInput{MessageStructure: aws.String("xml")}, "InvalidParameter", ""},
		"phone":         {sns.PublishInput{PhoneNumber: aws.String("+15551234567")}, "InvalidParameter", ""},
		"other target":  {sns.PublishInput{TargetArn: aws.String("arn:aws:sns:us-east-1:000000000000:endpoint/GCM/a:b")}, "InvalidParameter", "Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified"},
		"unknown topic": {sns.PublishInput{TopicArn: aws.String(*s.arn + "x")}, "NotFound", "Topic does not exist"},
		"other region":  {sns.PublishInput{TopicArn: aws.String("arn:aws:sns:eu-west-1:000000000000:events")}, "InvalidParameter", "Invalid parameter: TopicArn"},
		"no topic":      {sns.PublishInput{TopicArn: aws.String("")}, "InvalidParameter", "Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements, not 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.in.Message == nil {
				c.in.Message = aws.String("x")
			}
			if c.in.TopicArn == nil && c.in.TargetArn == nil {
				c.in.TopicArn = s.arn
			}
			_, err := s.sns.Publish(t.Context(), &c.in)
			require.Error(t, err)
			status := 400
			if c.code == "NotFound" {
				status = 404
			}
			requireCode(t, err, status, c.code)
			if c.text != "" {
				requireText(t, err, c.text)
			}
		})
	}
	require.Zero(t, s.queue.Len())
	s.publish(long, nil)
	require.Equal(t, 1, s.queue.Len())

	big := withTopic(s.bench, "big", map[string]string{"MaximumMessageSize": "1048576"})
	big.subscribe(s.queue, nil)
	big.publish(strings.Repeat("x", 1<<20), nil)
	require.Contains(t, big.topic.Discards()[0].Reason, "larger than the 1048576 bytes of the queue")
}

func TestSNSAttributeRules(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	s.subscribe(s.queue, raw1)
	blob := func(kind string, b []byte) snstypes.MessageAttributeValue {
		return snstypes.MessageAttributeValue{DataType: &kind, BinaryValue: b}
	}
	const kinds = "The message attribute 'attr1' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String."
	for name, c := range map[string]struct {
		name  string
		value snstypes.MessageAttributeValue
		code  string
		text  string
	}{
		"no text":      {"attr1", snsText("String", ""), "ParameterValueInvalid", "The message attribute 'attr1' must contain non-empty message attribute value for message attribute type 'String'."},
		"nothing":      {"attr1", snstypes.MessageAttributeValue{DataType: aws.String("String")}, "ParameterValueInvalid", "The message attribute 'attr1' must contain non-empty message attribute value for message attribute type 'String'."},
		"no type":      {"attr1", snsText("", "v"), "ValidationError", "messageAttributes.attr1.member.dataType"},
		"no binary":    {"attr1", blob("Binary", []byte{}), "ParameterValueInvalid", "The message attribute 'attr1' must contain non-empty message attribute value for message attribute type 'Binary'."},
		"wrong field":  {"attr1", blob("String", []byte("x")), "ParameterValueInvalid", "The message attribute 'attr1' with type 'String' must use field 'String'."},
		"wrong field2": {"attr1", blob("Number", []byte("x")), "ParameterValueInvalid", "The message attribute 'attr1' with type 'Number' must use field 'String'."},
		"wrong field3": {"attr1", snsText("Binary", "x"), "ParameterValueInvalid", "The message attribute 'attr1' with type 'Binary' must use field 'Binary'."},
		"type":         {"attr1", snsText("Foo", "x"), "ParameterValueInvalid", kinds},
		"no label":     {"attr1", snsText("String.", "x"), "ParameterValueInvalid", kinds},
		"number":       {"attr1", snsText("Number", "abc"), "ParameterValueInvalid", ""},
		"large number": {"attr1", snsText("Number", "1000000001"), "ParameterValueInvalid", ""},
		"long name":    {strings.Repeat("a", 257), snsText("String", "x"), "ParameterValueInvalid", "Length of message attribute name must be less than 256 bytes."},
		"char":         {"a^b", snsText("String", "x"), "ParameterValueInvalid", "Invalid non-alphanumeric character '#x5E' was found in the message attribute name. Can only include alphanumeric characters, hyphens, underscores, or dots."},
		"dot":          {".a", snsText("String", "x"), "ParameterValueInvalid", "Invalid message attribute name starting with character '.' was found."},
		"dot at end":   {"a.", snsText("String", "x"), "ParameterValueInvalid", "Invalid message attribute name ending with character '.' was found."},
		"two dots":     {"a..b", snsText("String", "x"), "ParameterValueInvalid", "Message attribute name can not have successive '.' character."},
		"reserved":     {"AWS.x", snsText("String", "x"), "ParameterValueInvalid", ""},
	} {
		t.Run(name, func(t *testing.T) {
			attributes := map[string]snstypes.MessageAttributeValue{c.name: c.value}
			_, err := s.sns.Publish(t.Context(), &sns.PublishInput{TopicArn: s.arn, Message: aws.String("x"), MessageAttributes: attributes})
			requireCode(t, err, 400, c.code)
			require.ErrorContains(t, err, c.text)
			_, err = s.sns.PublishBatch(t.Context(), &sns.PublishBatchInput{TopicArn: s.arn, PublishBatchRequestEntries: []snstypes.PublishBatchRequestEntry{
				{Id: aws.String("good"), Message: aws.String("x")}, {Id: aws.String("bad"), Message: aws.String("x"), MessageAttributes: attributes},
			}})
			requireCode(t, err, 400, c.code)
		})
	}
	require.Zero(t, s.queue.Len(), "one bad entry fails the whole batch")
}

func TestPublishBatch(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	s.subscribe(s.queue, raw1)
	entries := func(n, size int) (all []snstypes.PublishBatchRequestEntry) {
		for i := range n {
			all = append(all, snstypes.PublishBatchRequestEntry{Id: aws.String(fmt.Sprint("id", i)), Message: aws.String(strings.Repeat("x", size))})
		}
		return all
	}
	publish := func(all []snstypes.PublishBatchRequestEntry) (*sns.PublishBatchOutput, error) {
		return s.sns.PublishBatch(t.Context(), &sns.PublishBatchInput{TopicArn: s.arn, PublishBatchRequestEntries: all})
	}
	out, err := publish(entries(10, 100))
	require.NoError(t, err)
	require.Len(t, out.Successful, 10)
	require.Empty(t, out.Failed)
	require.Equal(t, "id9", *out.Successful[9].Id)
	require.Equal(t, 10, s.queue.Visible())
	require.Equal(t, 10, len(s.svc.Calls("PublishBatch")[0].MessageIDs))

	_, err = publish(entries(11, 1))
	requireType[*snstypes.TooManyEntriesInBatchRequestException](t, err)
	requireText(t, err, "The batch request contains more entries than permissible.")
	_, err = publish([]snstypes.PublishBatchRequestEntry{})
	requireType[*snstypes.EmptyBatchRequestException](t, err)
	_, err = publish(append(entries(1, 1), entries(1, 1)...))
	requireType[*snstypes.BatchEntryIdsNotDistinctException](t, err)
	requireText(t, err, "Two or more batch entries in the request have the same Id.")
	for id, text := range map[string]string{
		"message.id":            "The Id of a batch entry in the batch request contains an impermissible character: message.id",
		strings.Repeat("a", 81): "The Id of a batch entry in the batch request is too long: " + strings.Repeat("a", 81),
	} {
		_, err = publish([]snstypes.PublishBatchRequestEntry{{Id: &id, Message: aws.String("x")}})
		requireType[*snstypes.InvalidBatchEntryIdException](t, err)
		requireText(t, err, text)
	}
	_, err = publish(entries(2, 128<<10+1))
	requireType[*snstypes.BatchRequestTooLongException](t, err)
	requireText(t, err, "The length of all the messages put together is more than the limit.")
	_, err = publish(append(entries(1, 1), snstypes.PublishBatchRequestEntry{Id: aws.String("json"), Message: aws.String("{}"), MessageStructure: aws.String("json")}))
	requireText(t, err, "Invalid parameter: Message Structure - No default entry in JSON message body")
	require.Equal(t, 10, s.queue.Visible())

	s.svc.Inject(sqstest.Fault{Action: "PublishBatch", Topic: "events", Times: 1, Effect: sqstest.FailEntry("InternalError", "again", false),
		Message: func(m sqstest.MessageView) bool { return m.Body == "x" }})
	out, err = publish(append(entries(1, 1), snstypes.PublishBatchRequestEntry{Id: aws.String("other"), Message: aws.String("y")}))
	require.NoError(t, err)
	require.Equal(t, "id0", *out.Failed[0].Id)
	require.Equal(t, "InternalError", *out.Failed[0].Code)
	require.False(t, out.Failed[0].SenderFault)
	require.Equal(t, "other", *out.Successful[0].Id)
}

func TestSNSFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSNS(t)
		s.subscribe(s.queue, raw1)
		s.svc.Inject(sqstest.Fault{Topic: "other", Effect: sqstest.Throttle()})
		s.svc.Inject(sqstest.Fault{Queue: "orders", Effect: sqstest.Error(500, "X", "only for the queue")})
		for _, effect := range []sqstest.Effect{
			sqstest.Throttle(), sqstest.LoseAnswer(), sqstest.Reset(), sqstest.Raw(503, "text/html", "<html>"), sqstest.Error(0, "InternalError", "x"),
		} {
			fault := s.svc.Inject(sqstest.Fault{Action: "Publish", Topic: "events", Times: 1, Effect: effect})
			s.publish("x", nil)
			require.Equal(t, 1, fault.Hits())
		}
		require.Equal(t, 6, s.queue.Visible(), "the lost answer was carried out")
		require.Equal(t, "events", s.svc.Calls("Publish")[0].Topic)
		require.Equal(t, "Throttling", s.svc.Calls("Publish")[0].Code)
		for code, status := range map[string]int{"NotFound": 404, "AuthorizationError": 403, "Throttled": 429, "KMSThrottling": 400} {
			fault := s.svc.Inject(sqstest.Fault{Action: "Publish", Effect: sqstest.Error(0, code, "x")})
			_, err := s.sns.Publish(t.Context(), &sns.PublishInput{TopicArn: s.arn, Message: aws.String("x")}, func(o *sns.Options) { o.Retryer = aws.NopRetryer{} })
			requireCode(t, err, status, code)
			fault.Remove()
		}
	})
}

func TestTraceHeaderThroughSNS(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	s.subscribe(s.queue, nil)
	w := form(t, s.svc, map[string]string{"Action": "Publish", "Version": "2010-03-31", "TopicArn": *s.arn, "Message": "x"}, "Root=1-a")
	require.Equal(t, 200, w.StatusCode)
	require.Equal(t, "Root=1-a", s.receiveOne().Attributes["AWSTraceHeader"])
}
