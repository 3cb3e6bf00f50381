package sqstest_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func TestCallLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		require.Empty(t, b.svc.Calls(), "creating from the side is no call")
		began := time.Now()
		id := b.send("x")
		time.Sleep(time.Second)
		m := b.receive(5, 20)[0]
		stale := m.ReceiptHandle
		require.NoError(t, b.change(m.ReceiptHandle, 0))
		out, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url, VisibilityTimeout: 7})
		require.NoError(t, err)
		latest := out.Messages[0].ReceiptHandle
		_, err = b.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: b.url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: aws.String("1"), ReceiptHandle: latest, VisibilityTimeout: 8}, {Id: aws.String("2"), ReceiptHandle: aws.String("x"), VisibilityTimeout: 9},
		}})
		require.NoError(t, err)
		require.NoError(t, b.delete(stale))
		require.NoError(t, b.delete(latest))
		require.Error(t, b.delete(aws.String("x")))
		_, err = b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("nowhere")})
		require.Error(t, err)

		calls := b.svc.Calls()
		for i := range calls {
			require.True(t, json.Valid(calls[i].Request))
			calls[i].Request = nil
		}
		later, ids := began.Add(time.Second), []string{id}
		require.Equal(t, []sqstest.Call{
			{Action: "SendMessage", Queue: "orders", Entries: 1, MessageIDs: ids, At: began, Done: true},
			{Action: "ReceiveMessage", Queue: "orders", MaxMessages: 5, MessageIDs: ids, At: later, Done: true},
			{Action: "ChangeMessageVisibility", Queue: "orders", Entries: 1, VisibilityTimeouts: []int32{0}, MessageIDs: ids, At: later, Done: true},
			{Action: "ReceiveMessage", Queue: "orders", MaxMessages: 1, VisibilityTimeouts: []int32{7}, MessageIDs: ids, At: later, Done: true},
			{Action: "ChangeMessageVisibilityBatch", Queue: "orders", Entries: 2, VisibilityTimeouts: []int32{8, 9}, MessageIDs: ids, At: later, Done: true},
			{Action: "DeleteMessage", Queue: "orders", Entries: 1, At: later, Done: true},
			{Action: "DeleteMessage", Queue: "orders", Entries: 1, MessageIDs: ids, At: later, Done: true},
			{Action: "DeleteMessage", Queue: "orders", Entries: 1, At: later, Code: "ReceiptHandleIsInvalid", Done: true},
			{Action: "GetQueueUrl", Queue: "nowhere", At: later, Code: "AWS.SimpleQueueService.NonExistentQueue", Done: true},
		}, calls)
		require.Equal(t, 9, b.svc.Count())
		require.Equal(t, 5, b.svc.Count("DeleteMessage", "ReceiveMessage"))
		require.Len(t, b.svc.Calls("DeleteMessage", "ReceiveMessage"), 5)
		b.svc.ResetCalls()
		require.Zero(t, b.svc.Count())
	})
}

func TestCallsBeingServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20})
		synctest.Wait()
		require.Len(t, b.svc.Calls("ReceiveMessage"), 1)
		require.False(t, b.svc.Calls()[0].Done)
		cancel()
		synctest.Wait()
		require.True(t, b.svc.Calls()[0].Done)
	})
}
