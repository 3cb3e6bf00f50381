package sqstest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"
)

const noDedupID = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"

func TestFIFOSendRules(t *testing.T) {
	t.Parallel()
	b := newFIFO(t, nil)
	id := aws.String("id")
	for name, c := range map[string]struct {
		group, dedup *string
		code, text   string
	}{
		"no group":   {nil, id, "MissingParameter", "The request must contain the parameter MessageGroupId."},
		"no dedup":   {id, nil, "InvalidParameterValue", noDedupID},
		"bad group":  {aws.String("a b"), id, "InvalidParameterValue", "Value a b for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length."},
		"no text":    {aws.String(""), id, "InvalidParameterValue", ""},
		"long":       {aws.String(strings.Repeat("x", 129)), id, "InvalidParameterValue", ""},
		"bad dedup":  {id, aws.String("ä"), "InvalidParameterValue", ""},
		"dedup long": {id, aws.String(strings.Repeat("x", 129)), "InvalidParameterValue", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: id, MessageGroupId: c.group, MessageDeduplicationId: c.dedup})
			requireCode(t, err, 400, c.code)
			if c.text != "" {
				requireText(t, err, c.text)
			}
			good := types.SendMessageBatchRequestEntry{Id: aws.String("good"), MessageBody: id, MessageGroupId: id, MessageDeduplicationId: aws.String("for" + strings.ReplaceAll(name, " ", "-"))}
			out, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: b.url, Entries: []types.SendMessageBatchRequestEntry{
				good, {Id: id, MessageBody: id, MessageGroupId: c.group, MessageDeduplicationId: c.dedup},
			}})
			if c.group == nil || c.dedup == nil { // fails the request
				requireCode(t, err, 400, "InvalidParameterValue")
				requireText(t, err, c.text)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "InvalidParameterValue", *out.Failed[0].Code)
			require.Len(t, *out.Successful[0].SequenceNumber, 20)
		})
	}
	_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: b.url, MessageBody: id, MessageGroupId: aws.String(strings.Repeat("~", 128)), MessageDeduplicationId: aws.String("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
	})
	require.NoError(t, err)
}

func TestDeduplication(t *testing.T) {
	inFIFOBubble(t, nil, func(t *testing.T, b *bench) {
		send := func(group, id, body string) *sqs.SendMessageOutput {
			t.Helper()
			out, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &id})
			require.NoError(t, err)
			return out
		}
		first := send("g", "id", "x")
		again := send("other", "id", "another body") // the SDK checks its checksum
		require.Equal(t, *first.MessageId, *again.MessageId)
		require.Equal(t, *first.SequenceNumber, *again.SequenceNumber)
		require.Equal(t, 1, b.queue.Len())
		require.Empty(t, b.svc.Calls("SendMessage")[1].MessageIDs)

		m := b.receiveOne()
		send("g", "id", "x")
		require.Equal(t, 1, b.queue.Len(), "after a receive")
		require.NoError(t, b.delete(m.ReceiptHandle))
		time.Sleep(5*time.Minute - time.Second)
		send("g", "id", "x")
		require.Zero(t, b.queue.Len(), "after a delete")
		time.Sleep(time.Second)
		require.NotEqual(t, *first.MessageId, *send("g", "id", "x").MessageId)
		require.Equal(t, 1, b.queue.Len(), "five minutes from the first send")

		_, err := b.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: b.url})
		require.NoError(t, err)
		send("g", "id", "x")
		require.Equal(t, 1, b.queue.Len(), "a purge forgets")
	})
}

func TestContentBasedDeduplication(t *testing.T) {
	t.Parallel()
	b := newFIFO(t, map[string]string{"FifoQueue": "True", "ContentBasedDeduplication": "True"})
	for i, attributes := range []map[string]types.MessageAttributeValue{nil, {"a": text("v")}} {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("Test"), MessageGroupId: aws.String("g"), MessageAttributes: attributes})
		require.NoError(t, err, i)
	}
	require.Equal(t, 1, b.queue.Len(), "attributes do not count")
	const sum = "532eaabd9574880dbf76b9b8cc00832c20a6ec113d682299550d7a6e0f345e25"
	require.Equal(t, sum, b.receiveOne().Attributes["MessageDeduplicationId"])
	_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("other"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String(sum)})
	require.NoError(t, err)
	require.Equal(t, 1, b.queue.Len(), "an explicit id equal to the hash collides")
	_, err = b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("Test"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("own")})
	require.NoError(t, err)
	require.Equal(t, 2, b.queue.Len(), "an explicit id overrides")
}

func TestDeduplicationScope(t *testing.T) {
	inFIFOBubble(t, nil, func(t *testing.T, b *bench) {
		sent := 0
		send := func(group string) int {
			before := b.queue.Len()
			_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x"), MessageGroupId: &group, MessageDeduplicationId: aws.String(fmt.Sprint(sent))})
			require.NoError(t, err)
			return b.queue.Len() - before
		}
		require.Equal(t, 1, send("a"))
		require.Equal(t, 0, send("b"))
		require.NoError(t, b.set("DeduplicationScope", "messageGroup"))
		require.Equal(t, 0, send("b"), "a changed scope is not in effect at once")
		time.Sleep(time.Minute)
		sent++
		require.Equal(t, 1, send("a"))
		require.Equal(t, 1, send("b"))
		require.Equal(t, 0, send("b"))

		grouped := fifoOn(t, b.svc, "grouped.fifo", map[string]string{"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"})
		for _, group := range []string{"a", "b", "a"} {
			grouped.sendTo(group, "x")
		}
		require.Equal(t, 2, grouped.queue.Len())
	})
}

func TestFIFOAttributes(t *testing.T) {
	t.Parallel()
	b := newFIFO(t, nil)
	get := func() map[string]string {
		out, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: b.url, AttributeNames: []types.QueueAttributeName{
			"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit",
		}})
		require.NoError(t, err)
		return out.Attributes
	}
	require.Equal(t, map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "false", "DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"}, get())
	requireText(t, b.set("FifoQueue", "false"), "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.")
	requireCode(t, b.set("FifoQueue", "false"), 400, "InvalidAttributeValue")
	requireCode(t, b.set("FifoThroughputLimit", "perMessageGroupId"), 400, "InvalidAttributeValue")
	for name, bad := range map[string]string{"ContentBasedDeduplication": "yes", "DeduplicationScope": "group", "FifoThroughputLimit": "none"} {
		requireCode(t, b.set(name, bad), 400, "InvalidAttributeValue")
	}
	require.NoError(t, b.set("DeduplicationScope", "messageGroup"))
	require.NoError(t, b.set("FifoThroughputLimit", "perMessageGroupId"))
	require.NoError(t, b.set("ContentBasedDeduplication", "true"))
	require.Equal(t, map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}, get())

	create := func(attributes map[string]string) error {
		attributes["FifoQueue"] = "true"
		_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders.fifo"), Attributes: attributes})
		return err
	}
	require.NoError(t, create(map[string]string{}))
	require.NoError(t, create(map[string]string{"FifoThroughputLimit": "perMessageGroupId"}))
	err := create(map[string]string{"ContentBasedDeduplication": "false"})
	requireCode(t, err, 400, "QueueAlreadyExists")
	requireText(t, err, "A queue already exists with the same name and a different value for attribute ContentBasedDeduplication")
}
