package sqstest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"
)

// batchOf makes the three batch calls with entries of these ids.
func batchOf(t *testing.T, b *bench, ids []string) map[string]error {
	sends := []types.SendMessageBatchRequestEntry{}
	deletes := []types.DeleteMessageBatchRequestEntry{}
	changes := []types.ChangeMessageVisibilityBatchRequestEntry{}
	for _, id := range ids {
		sends = append(sends, types.SendMessageBatchRequestEntry{Id: &id, MessageBody: aws.String("x")})
		deletes = append(deletes, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: aws.String("x")})
		changes = append(changes, types.ChangeMessageVisibilityBatchRequestEntry{Id: &id, ReceiptHandle: aws.String("x")})
	}
	errs := map[string]error{}
	_, errs["SendMessageBatch"] = b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: b.url, Entries: sends})
	_, errs["DeleteMessageBatch"] = b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: b.url, Entries: deletes})
	_, errs["ChangeMessageVisibilityBatch"] = b.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: b.url, Entries: changes})
	return errs
}

func TestRefusedBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var eleven []string
	for i := range 11 {
		eleven = append(eleven, fmt.Sprint(i))
	}
	const prefix = "AWS.SimpleQueueService."
	for action, err := range batchOf(t, b, eleven) {
		requireType[*types.TooManyEntriesInBatchRequest](t, err)
		requireCode(t, err, 400, prefix+"TooManyEntriesInBatchRequest")
		requireText(t, err, "Maximum number of entries per request are 10. You have sent 11.")
		_ = action
	}
	for action, err := range batchOf(t, b, nil) {
		requireType[*types.EmptyBatchRequest](t, err)
		requireCode(t, err, 400, prefix+"EmptyBatchRequest")
		requireText(t, err, "There should be at least one "+action+"RequestEntry in the request.")
	}
	for _, err := range batchOf(t, b, []string{"a", "b", "a"}) {
		requireType[*types.BatchEntryIdsNotDistinct](t, err)
		requireCode(t, err, 400, prefix+"BatchEntryIdsNotDistinct")
		requireText(t, err, "Id a repeated.")
	}
	for _, bad := range []string{"a b", "", "ä", "a.b", strings.Repeat("i", 81)} {
		for _, err := range batchOf(t, b, []string{"fine", bad}) {
			requireType[*types.InvalidBatchEntryId](t, err)
			requireCode(t, err, 400, prefix+"InvalidBatchEntryId")
		}
	}
	for _, err := range batchOf(t, b, []string{strings.Repeat("i", 80), "A-b_9"}) {
		require.NoError(t, err)
	}
	require.Equal(t, 2, b.queue.Len(), "a refused batch sends nothing")
}

func TestSendBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var entries []types.SendMessageBatchRequestEntry
	for i := range 10 {
		entries = append(entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint("id-", i)), MessageBody: aws.String(fmt.Sprint(i)),
			MessageAttributes: map[string]types.MessageAttributeValue{"n": typed("Number", fmt.Sprint(i))},
		})
	}
	out, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: b.url, Entries: entries})
	require.NoError(t, err)
	require.Empty(t, out.Failed)
	require.Len(t, out.Successful, 10)
	received := map[string]types.Message{}
	for _, m := range b.receive(10, 0) {
		received[*m.MessageId] = m
	}
	for _, s := range out.Successful {
		m := received[*s.MessageId]
		require.Equal(t, *s.Id, "id-"+*m.Body)
		require.Equal(t, *s.MD5OfMessageAttributes, *m.MD5OfMessageAttributes)
		require.Equal(t, *m.Body, *m.MessageAttributes["n"].StringValue)
	}
}

func TestPartlyFailedSends(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"MaximumMessageSize": "1024"})
	long := strings.Repeat("x", 1025)
	entries := map[string]types.SendMessageBatchRequestEntry{
		"good":      {MessageBody: aws.String("x")},
		"control":   {MessageBody: aws.String("a\x01")},
		"long":      {MessageBody: &long},
		"empty":     {MessageBody: aws.String("")},
		"delay":     {MessageBody: aws.String("x"), DelaySeconds: 901},
		"attribute": {MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{"a": text("")}},
		"emoji":     {MessageBody: aws.String("😀")},
	}
	in := &sqs.SendMessageBatchInput{QueueUrl: b.url}
	for id, e := range entries {
		e.Id = aws.String(id)
		in.Entries = append(in.Entries, e)
	}
	out, err := b.client.SendMessageBatch(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, out.Successful, 2)
	failed := map[string]string{}
	for _, f := range out.Failed {
		require.True(t, f.SenderFault)
		failed[*f.Id] = *f.Code
		if *f.Id == "long" {
			require.Equal(t, "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.", *f.Message)
		}
	}
	require.Equal(t, map[string]string{
		"control": "InvalidMessageContents", "long": "InvalidParameterValue", "empty": "MissingParameter",
		"delay": "InvalidParameterValue", "attribute": "InvalidParameterValue",
	}, failed)
	require.Equal(t, 2, b.queue.Len())
}

func TestBatchSize(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	send := func(size int) error {
		_, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: b.url, Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("1"), MessageBody: aws.String(strings.Repeat("x", 1<<19))},
			{Id: aws.String("2"), MessageBody: aws.String(strings.Repeat("x", size-1<<19-len("aStringv"))), MessageAttributes: map[string]types.MessageAttributeValue{"a": text("v")}},
		}})
		return err
	}
	require.NoError(t, send(1<<20))
	err := send(1<<20 + 1)
	requireType[*types.BatchRequestTooLong](t, err)
	requireCode(t, err, 400, "AWS.SimpleQueueService.BatchRequestTooLong")
	requireText(t, err, "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.")
	require.Equal(t, 2, b.queue.Len())
}

func TestPartlyFailedReceiptBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.send("1")
	b.send("2")
	held := b.receive(10, 0)

	changed, err := b.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: b.url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
		{Id: aws.String("good"), ReceiptHandle: held[0].ReceiptHandle, VisibilityTimeout: 0},
		{Id: aws.String("range"), ReceiptHandle: held[1].ReceiptHandle, VisibilityTimeout: 43201},
		{Id: aws.String("garbage"), ReceiptHandle: aws.String("x"), VisibilityTimeout: 1},
	}})
	require.NoError(t, err)
	require.Len(t, changed.Successful, 1)
	require.Equal(t, "good", *changed.Successful[0].Id)
	codes := map[string]string{}
	for _, f := range changed.Failed {
		require.True(t, f.SenderFault)
		codes[*f.Id] = *f.Code
	}
	require.Equal(t, map[string]string{"range": "InvalidParameterValue", "garbage": "ReceiptHandleIsInvalid"}, codes)
	require.Equal(t, 1, b.queue.Visible())

	deleted, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: b.url, Entries: []types.DeleteMessageBatchRequestEntry{
		{Id: aws.String("garbage"), ReceiptHandle: aws.String("x")},
		{Id: aws.String("good"), ReceiptHandle: held[0].ReceiptHandle},
		{Id: aws.String("again"), ReceiptHandle: held[0].ReceiptHandle},
	}})
	require.NoError(t, err)
	require.Len(t, deleted.Successful, 2)
	require.Len(t, deleted.Failed, 1)
	require.Equal(t, "garbage", *deleted.Failed[0].Id)
	require.Equal(t, "ReceiptHandleIsInvalid", *deleted.Failed[0].Code)
	require.Equal(t, 1, b.queue.Len())
}
