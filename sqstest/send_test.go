package sqstest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"
)

func text(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

func typed(dataType, value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: &dataType, StringValue: &value}
}

func TestMessageBody(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	send := func(body string) error {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: &body})
		return err
	}
	for _, body := range []string{"\t", "\r\n", "a\\\"b", "\u007f", "\ud7ff", "\ue000", "\ufffd", "😀", "\U0010ffff", `{"a":1}`, "1", "<&>"} {
		require.NoError(t, send(body), "%q", body)
		m := b.receiveOne()
		require.Equal(t, body, *m.Body)
		require.NoError(t, b.delete(m.ReceiptHandle))
	}
	for _, body := range []string{"\x00", "a\x01", "\x1f", "\ufffe", "\uffff"} {
		err := send(body)
		requireType[*types.InvalidMessageContents](t, err)
		requireCode(t, err, 400, "InvalidMessageContents")
	}
	err := send("")
	requireCode(t, err, 400, "MissingParameter")
	requireText(t, err, "The request must contain the parameter MessageBody.")
	require.Zero(t, b.queue.Len())
}

func TestMessageSize(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	b := newBench(t, nil)
	send := func(size int, attributes map[string]types.MessageAttributeValue) error {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: b.url, MessageBody: aws.String(strings.Repeat("x", size)), MessageAttributes: attributes,
			MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1-5759e988-bd862e3fe1be46a994272793")}},
		})
		return err
	}
	require.NoError(t, send(most, nil), "system attributes do not count")
	err := send(most+1, nil)
	requireCode(t, err, 400, "InvalidParameterValue")
	requireText(t, err, "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.")
	attributes := map[string]types.MessageAttributeValue{"name": text("value"), "blob": {DataType: aws.String("Binary"), BinaryValue: []byte{1, 2, 3}}}
	counted := len("name"+"String"+"value") + len("blob"+"Binary") + 3
	require.NoError(t, send(most-counted, attributes))
	requireCode(t, send(most-counted+1, attributes), 400, "InvalidParameterValue")

	_, err = b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: b.url, Attributes: map[string]string{"MaximumMessageSize": "1024"}})
	require.NoError(t, err)
	require.NoError(t, send(1024, nil))
	requireText(t, send(1025, nil), "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.")
	// Bytes count, not characters, however long their escapes are.
	_, err = b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String(strings.Repeat("<", 1024))})
	require.NoError(t, err)
	_, err = b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String(strings.Repeat("ä", 513))})
	requireCode(t, err, 400, "InvalidParameterValue")
}

func TestMessageAttributes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	sent := map[string]types.MessageAttributeValue{
		"string":      text("höh \"quoted\"\n"),
		"number":      typed("Number", "-12.50e3"),
		"binary":      {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 255}},
		"custom.type": typed("String.uuid", "x"),
		"png":         {DataType: aws.String("Binary.png"), BinaryValue: []byte("p")},
		"attr.1øßä":   text("letters of any script"),
		"a-b_c.D9":    text("x"),
		"Awsome":      text("no reserved prefix"),
	}
	out, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x"), MessageAttributes: sent})
	require.NoError(t, err)
	m := b.receiveOne()
	require.Equal(t, sent, m.MessageAttributes)
	require.Equal(t, *out.MD5OfMessageAttributes, *m.MD5OfMessageAttributes)
	require.Equal(t, sent, b.queue.Messages()[0].Attributes)
}

// The expected checksums come from outside: the tests of moto and LocalStack have them.
func TestAttributeChecksum(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	out, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("derp"), MessageAttributes: map[string]types.MessageAttributeValue{
		"timestamp": typed("Number", "1493147359900"),
	}})
	require.NoError(t, err)
	require.Equal(t, "235c5c510d26fb653d073faed50ae77c", *out.MD5OfMessageAttributes)
	require.Equal(t, "58fd9edd83341c29f1aebba81c31e257", *out.MD5OfMessageBody)
	require.Nil(t, out.MD5OfMessageSystemAttributes)

	out, err = b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x")})
	require.NoError(t, err)
	require.Nil(t, out.MD5OfMessageAttributes)
}

func TestRefusedMessageAttributes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	send := func(attributes map[string]types.MessageAttributeValue) error {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x"), MessageAttributes: attributes})
		return err
	}
	for _, name := range []string{"AWS.x", "aws.x", "Amazon.x", "AMAZON.x", ".x", "x.", "a..b", "a b", "a/b", "", strings.Repeat("n", 257)} {
		requireCode(t, send(map[string]types.MessageAttributeValue{name: text("v")}), 400, "InvalidParameterValue")
	}
	require.NoError(t, send(map[string]types.MessageAttributeValue{strings.Repeat("n", 256): text("v")}))

	for name, value := range map[string]types.MessageAttributeValue{
		"unknown type":   typed("Foo", "v"),
		"wrong case":     typed("string", "v"),
		"no type":        typed("", "v"),
		"no label":       typed("String.", "v"),
		"long type":      typed("String."+strings.Repeat("x", 250), "v"),
		"empty string":   text(""),
		"no value":       {DataType: aws.String("String")},
		"empty binary":   {DataType: aws.String("Binary"), BinaryValue: []byte{}},
		"text as binary": typed("Binary", "v"),
		"binary as text": {DataType: aws.String("String"), BinaryValue: []byte("v")},
		"control":        text("a\x01"),
		"noncharacter":   text("\uffff"),
		"not a number":   typed("Number", "abc"),
		"hexadecimal":    typed("Number", "0x10"),
		"infinity":       typed("Number", "Inf"),
		"39 digits":      typed("Number", strings.Repeat("1", 39)),
		"too big":        typed("Number", "1e127"),
		"too small":      typed("Number.int", "1e-129"),
		"only a sign":    typed("Number", "-"),
	} {
		t.Run(name, func(t *testing.T) {
			requireCode(t, send(map[string]types.MessageAttributeValue{"a": value}), 400, "InvalidParameterValue")
		})
	}
	requireText(t, send(map[string]types.MessageAttributeValue{"a": text("")}), "Message (user) attribute 'a' must contain a non-empty value of type 'String'.")
	requireText(t, send(map[string]types.MessageAttributeValue{"a": typed("Number", "abc")}), "Can't cast the value of message (user) attribute 'a' to a number.")
	requireType[*types.UnsupportedOperation](t, send(map[string]types.MessageAttributeValue{"a": {DataType: aws.String("String"), StringValue: aws.String("v"), StringListValues: []string{"v"}}}))
	for _, number := range []string{"0", "-0", "+1.5", strings.Repeat("9", 38), "1e126", "1E-128"} {
		require.NoError(t, send(map[string]types.MessageAttributeValue{"a": typed("Number", number)}), number)
	}

	many := map[string]types.MessageAttributeValue{}
	for i := range 10 {
		many[fmt.Sprint("a", i)] = text("v")
	}
	require.NoError(t, send(many))
	many["one-more"] = text("v")
	err := send(many)
	requireCode(t, err, 400, "InvalidParameterValue")
	requireText(t, err, "Number of message attributes [11] exceeds the allowed maximum [10].")
}

func TestSystemAttributesOfSends(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
	send := func(name string, value types.MessageSystemAttributeValue) (*sqs.SendMessageOutput, error) {
		return b.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: b.url, MessageBody: aws.String("x"),
			MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{name: value},
		})
	}
	out, err := send("AWSTraceHeader", types.MessageSystemAttributeValue{DataType: aws.String("String"), StringValue: aws.String(header)})
	require.NoError(t, err)
	require.NotNil(t, out.MD5OfMessageSystemAttributes)
	require.Nil(t, out.MD5OfMessageAttributes)
	require.Equal(t, header, b.receiveOne().Attributes["AWSTraceHeader"])

	_, err = send("Other", types.MessageSystemAttributeValue{DataType: aws.String("String"), StringValue: aws.String("x")})
	requireCode(t, err, 400, "InvalidParameterValue")
	_, err = send("AWSTraceHeader", types.MessageSystemAttributeValue{DataType: aws.String("Number"), StringValue: aws.String("1")})
	requireCode(t, err, 400, "InvalidParameterValue")
}

func TestGroupsOnStandardQueues(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	send := func(group string) error {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x"), MessageGroupId: &group})
		return err
	}
	require.NoError(t, send("tenant-1"))
	m := b.receiveOne()
	require.Equal(t, "tenant-1", m.Attributes["MessageGroupId"])
	require.NotContains(t, m.Attributes, "SequenceNumber")
	require.Equal(t, "tenant-1", b.queue.Messages()[0].GroupID)
	for _, group := range []string{"", "a b", "ä", strings.Repeat("g", 129)} {
		requireCode(t, send(group), 400, "InvalidParameterValue")
	}
	_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x"), MessageDeduplicationId: aws.String("d")})
	requireCode(t, err, 400, "InvalidParameterValue")
	requireText(t, err, "Value d for parameter MessageDeduplicationId is invalid. Reason: The request include parameter that is not valid for this queue type.")
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, map[string]string{"DelaySeconds": "5"})
		send := func(delay int32) error {
			_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String(fmt.Sprint(delay)), DelaySeconds: delay})
			return err
		}
		require.NoError(t, send(0)) // the SDK leaves 0 out, so this is the queue's
		require.NoError(t, send(2))
		require.NoError(t, send(900))
		for _, bad := range []int32{901, -1} {
			requireCode(t, send(bad), 400, "InvalidParameterValue")
		}
		time.Sleep(2*time.Second - 1)
		require.Empty(t, b.receive(10, 0))
		time.Sleep(time.Nanosecond)
		require.Equal(t, "2", *b.receiveOne().Body)
		time.Sleep(3 * time.Second)
		require.Equal(t, "0", *b.receiveOne().Body)

		// The queue's delay is that at the time of the send.
		require.NoError(t, send(0))
		_, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: b.url, Attributes: map[string]string{"DelaySeconds": "0"}})
		require.NoError(t, err)
		require.NoError(t, send(0))
		require.Len(t, b.receive(10, 0), 1)
		time.Sleep(5 * time.Second)
		require.Len(t, b.receive(10, 0), 1)
	})
}
