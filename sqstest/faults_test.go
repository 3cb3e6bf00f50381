package sqstest_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func TestErrorFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	send := func() error {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x")}, noRetry)
		return err
	}
	fault := b.svc.Inject(sqstest.Fault{Action: "SendMessage", Queue: "orders", Skip: 1, Times: 2, Effect: sqstest.Error(400, "AccessDeniedException", "no")})
	require.NoError(t, send(), "skipped")
	for range 2 {
		err := send()
		requireCode(t, err, 400, "AccessDeniedException")
		requireText(t, err, "no")
	}
	require.NoError(t, send(), "used up")
	require.Equal(t, 2, fault.Hits())
	require.Equal(t, 2, b.queue.Len(), "a failed call is not carried out")
	fault.Remove()

	for _, other := range []sqstest.Fault{
		{Action: "DeleteMessage", Effect: sqstest.Throttle()},
		{Queue: "other", Effect: sqstest.Throttle()},
		{Message: func(m sqstest.MessageView) bool { return m.Body == "y" }, Effect: sqstest.Throttle()},
	} {
		b.svc.Inject(other)
	}
	require.NoError(t, send(), "of another action, queue or message")

	for _, code := range []string{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"} {
		fault = b.svc.Inject(sqstest.Fault{Effect: sqstest.Error(0, code, "gone")})
		err := send()
		requireType[*types.QueueDoesNotExist](t, err)
		requireCode(t, err, 400, "AWS.SimpleQueueService.NonExistentQueue")
		fault.Remove()
		fault.Remove() // a second time does nothing
	}
	fault = b.svc.Inject(sqstest.Fault{Message: func(m sqstest.MessageView) bool { return m.Body == "x" }, Effect: sqstest.Throttle()})
	err := send()
	requireType[*types.RequestThrottled](t, err)
	requireCode(t, err, 403, "RequestThrottled")
	fault.Remove()
	require.NoError(t, send())
}

func TestSDKRetriesFaults(t *testing.T) {
	t.Parallel()
	for name, effect := range map[string]sqstest.Effect{
		"throttle":       sqstest.Throttle(),
		"internal error": sqstest.Error(500, "InternalFailure", "x"),
		"lost answer":    sqstest.LoseAnswer(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				fault := b.svc.Inject(sqstest.Fault{Action: "SendMessage", Times: 2, Effect: effect})
				b.send("x")
				require.Equal(t, 3, b.svc.Count("SendMessage"))
				require.Equal(t, 2, fault.Hits())
				want := 1
				if name == "lost answer" {
					want = 3
				}
				require.Equal(t, want, b.queue.Len())
			})
		})
	}
}

func TestLostAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.svc.Inject(sqstest.Fault{
			Action: "ReceiveMessage", Times: 1, Effect: sqstest.LoseAnswer(),
			Message: func(m sqstest.MessageView) bool { return m.Body == "y" },
		})
		receive := func() ([]types.Message, error) {
			out, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url}, noRetry)
			if err != nil {
				return nil, err
			}
			return out.Messages, nil
		}
		messages, err := receive()
		require.NoError(t, err)
		require.Len(t, messages, 1, "it returned another message")
		b.send("y")
		_, err = receive()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 2, b.queue.InFlight(), "carried out")
		time.Sleep(30 * time.Second)
		require.Equal(t, 2, b.queue.Visible())

		b.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Effect: sqstest.LoseAnswer()})
		_, err = b.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: b.url, ReceiptHandle: messages[0].ReceiptHandle}, noRetry)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 1, b.queue.Len())
	})
}

func TestHangingCalls(t *testing.T) {
	for name, c := range map[string]struct {
		effect sqstest.Effect
		left   int
	}{
		"before": {sqstest.Hang(), 1},
		"after":  {sqstest.HangAfter(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				m := b.receiveOne()
				b.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Effect: c.effect})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				_, err := b.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: b.url, ReceiptHandle: m.ReceiptHandle})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Hour, time.Since(began))
				require.Equal(t, c.left, b.queue.Len())

				errs := make(chan error)
				go func() {
					_, err := b.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: b.url, ReceiptHandle: m.ReceiptHandle}, noRetry)
					errs <- err
				}()
				synctest.Wait()
				b.svc.Close()
				require.ErrorIs(t, <-errs, io.ErrUnexpectedEOF)
			})
		})
	}
}

func TestFailedEntries(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	fault := b.svc.Inject(sqstest.Fault{
		Action: "SendMessageBatch", Skip: 1, Times: 2, Effect: sqstest.FailEntry("InternalError", "try again", false),
		Message: func(m sqstest.MessageView) bool { return m.Body != "0" },
	})
	var in sqs.SendMessageBatchInput
	in.QueueUrl = b.url
	for i := range 5 {
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint("id", i)), MessageBody: aws.String(fmt.Sprint(i))})
	}
	out, err := b.client.SendMessageBatch(t.Context(), &in)
	require.NoError(t, err)
	require.Equal(t, 2, fault.Hits())
	require.Len(t, out.Successful, 3)
	for i, f := range out.Failed {
		require.Equal(t, fmt.Sprint("id", i+2), *f.Id)
		require.Equal(t, "InternalError", *f.Code)
		require.Equal(t, "try again", *f.Message)
		require.False(t, f.SenderFault)
	}
	require.Equal(t, 3, b.queue.Len())

	held := b.receive(10, 0)
	b.svc.Inject(sqstest.Fault{Effect: sqstest.FailEntry("X", "x", true), Message: func(m sqstest.MessageView) bool { return m.Body == "4" }})
	gone, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: b.url, Entries: []types.DeleteMessageBatchRequestEntry{
		{Id: aws.String("a"), ReceiptHandle: held[2].ReceiptHandle}, {Id: aws.String("b"), ReceiptHandle: held[1].ReceiptHandle},
	}})
	require.NoError(t, err)
	require.Equal(t, "a", *gone.Failed[0].Id)
	require.True(t, gone.Failed[0].SenderFault)
	require.Equal(t, "b", *gone.Successful[0].Id)
	require.Equal(t, 2, b.queue.Len())

	requireCode(t, b.delete(held[2].ReceiptHandle), 400, "X")
	requireCode(t, b.change(held[2].ReceiptHandle, 1), 400, "X")
	_, err = b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("4")})
	requireCode(t, err, 400, "X")
	require.NoError(t, b.delete(held[0].ReceiptHandle))
	b.svc.Inject(sqstest.Fault{Action: "GetQueueUrl", Effect: sqstest.FailEntry("Y", "x", false)})
	_, err = b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("orders")}, noRetry)
	requireCode(t, err, 500, "Y")
}

func TestReceiveFaultsByMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.svc.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Throttle(), Message: func(m sqstest.MessageView) bool { return m.Body == "x" }})
	require.Empty(t, b.receive(1, 0), "no such message")
	b.send("x")
	_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url}, noRetry)
	requireCode(t, err, 403, "RequestThrottled")
}

func TestInvalidatedReceipts(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.send("y")
		held := b.receive(10, 0)
		fault := b.svc.Inject(sqstest.Fault{
			Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.InvalidateReceipt(),
			Message: func(m sqstest.MessageView) bool { return m.Body == "x" },
		})
		require.NoError(t, b.change(held[1].ReceiptHandle, 60))
		requireCode(t, b.change(held[0].ReceiptHandle, 60), 400, "InvalidParameterValue")
		requireCode(t, b.change(held[0].ReceiptHandle, 60), 400, "InvalidParameterValue")
		require.Equal(t, 1, fault.Hits())
		require.NoError(t, b.delete(held[0].ReceiptHandle))
		require.Equal(t, 2, b.queue.Len(), "deletes nothing")
		require.NotEqual(t, *held[0].ReceiptHandle, b.queue.Messages()[0].Receipt)
		time.Sleep(30 * time.Second)
		again := b.receiveOne()
		require.Equal(t, "2", again.Attributes["ApproximateReceiveCount"])
		require.NoError(t, b.change(again.ReceiptHandle, 60))
		require.NoError(t, b.delete(again.ReceiptHandle))

		b.svc.Inject(sqstest.Fault{Effect: sqstest.InvalidateReceipt()})
		out, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: b.url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("y"), ReceiptHandle: held[1].ReceiptHandle},
		}})
		require.NoError(t, err)
		require.Len(t, out.Successful, 1)
		require.Equal(t, 1, b.queue.Len())
	})
}
