package sqstest_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// What a client that does not retry sees of each, and whether the call was carried out.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	html := sqstest.Raw(503, "text/html", "<html>busy</html>")
	for name, c := range map[string]struct {
		effect sqstest.Effect
		check  func(t *testing.T, err error)
		sent   int
	}{
		"reset":        {sqstest.Reset(), isReset, 0},
		"reset after":  {sqstest.After(sqstest.Reset()), isReset, 1},
		"raw":          {html, hasStatus(503), 0},
		"raw after":    {sqstest.After(html), hasStatus(503), 1},
		"raw 500":      {sqstest.Raw(500, "text/plain", ""), hasStatus(500), 0},
		"error after":  {sqstest.After(sqstest.Error(500, "InternalFailure", "x")), hasStatus(500), 1},
		"lost (after)": {sqstest.After(sqstest.LoseAnswer()), func(*testing.T, error) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				b.svc.Inject(sqstest.Fault{Action: "SendMessage", Times: 2, Effect: c.effect})
				_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x")}, noRetry)
				require.Error(t, err)
				c.check(t, err)
				require.Equal(t, c.sent, b.queue.Len())
				b.send("y") // the SDK's own retries get over one
				require.Equal(t, 2*c.sent+1, b.queue.Len())
			})
		})
	}
}

func isReset(t *testing.T, err error) { require.ErrorIs(t, err, syscall.ECONNRESET) }

func hasStatus(status int) func(t *testing.T, err error) {
	return func(t *testing.T, err error) {
		var response *smithyhttp.ResponseError
		require.ErrorAs(t, err, &response)
		require.Equal(t, status, response.HTTPStatusCode())
	}
}

func TestResetOnLoopback(t *testing.T) {
	t.Parallel()
	b := loopback(t)
	b.svc.Inject(sqstest.Fault{Action: "SendMessage", Times: 1, Effect: sqstest.After(sqstest.Reset())})
	_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x")}, noRetry)
	require.Error(t, err)
	require.Equal(t, 1, b.queue.Len())
}

func TestLatency(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		m := b.receiveOne()
		fault := b.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Effect: sqstest.Latency(15*time.Millisecond, 15*time.Millisecond)})
		after := b.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Effect: sqstest.After(sqstest.Latency(time.Second, time.Second))})
		began := time.Now()
		require.NoError(t, b.delete(m.ReceiptHandle))
		require.Equal(t, 1015*time.Millisecond, time.Since(began))
		require.Equal(t, 1, fault.Hits())
		require.Equal(t, 1, after.Hits())

		b.svc.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Latency(time.Second, time.Second)})
		began = time.Now()
		require.Empty(t, b.receive(1, 5))
		require.Equal(t, 6*time.Second, time.Since(began), "a long poll waits its full time")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: b.url})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestChanceIsRepeatable(t *testing.T) {
	t.Parallel()
	run := func(seed uint64, name string) (hits string) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, nil)
			b.svc.Seed(seed)
			fault := b.svc.Inject(sqstest.Fault{Action: "SendMessage", Share: 0.3, Effect: sqstest.Reset()})
			b.svc.Inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.Latency(0, time.Second)})
			began := time.Now()
			for range 100 {
				before := fault.Hits()
				_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x")}, noRetry)
				require.Equal(t, err != nil, fault.Hits() > before)
				hits += fmt.Sprint(fault.Hits()-before, " ")
			}
			require.InDelta(t, 30, fault.Hits(), 15, name)
			hits += time.Since(began).String()
		})
		return hits
	}
	require.Equal(t, run(7, "seven"), run(7, "seven again"))
	require.NotEqual(t, run(7, "seven"), run(8, "eight"))
}

func TestDuplicateDeliveries(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.send("y")
		fault := b.svc.Inject(sqstest.Fault{Times: 1, Effect: sqstest.Redeliver(), Message: func(m sqstest.MessageView) bool { return m.Body == "x" }})
		first := b.receive(10, 0)
		b.requireBodies(first, "x", "y")
		again := b.receive(10, 0)
		b.requireBodies(again, "x")
		require.Equal(t, 1, fault.Hits())
		require.Equal(t, first[0].MessageId, again[0].MessageId)
		require.Equal(t, "2", again[0].Attributes["ApproximateReceiveCount"])
		require.NoError(t, b.delete(first[0].ReceiptHandle), "stale by now")
		require.Equal(t, 2, b.queue.Len())
		require.NoError(t, b.delete(again[0].ReceiptHandle))
		require.Equal(t, 1, b.queue.Len())

		b.svc.Inject(sqstest.Fault{Effect: sqstest.RedeliverAtOnce(), Action: "ReceiveMessage"})
		b.send("z")
		b.requireBodies(b.receive(1, 0), "z") // no room for another
		b.send("a")
		b.send("b")
		twice := b.receive(3, 0)
		b.requireBodies(twice, "a", "a", "b")
		require.NotEqual(t, twice[0].ReceiptHandle, twice[1].ReceiptHandle)
		require.NoError(t, b.delete(twice[1].ReceiptHandle))
		require.Equal(t, 3, b.queue.Len())

		fifo := fifoOn(t, b.svc, "orders.fifo", nil)
		fifo.sendTo("g", "x")
		fifo.requireBodies(fifo.receive(10, 0), "x") // never on FIFO queues
	})
}

func TestAbandonedPolls(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		require.NoError(t, b.delete(b.receiveOne().ReceiptHandle))
		fault := b.svc.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.TakeWhenGone()})
		abandon := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		abandon()
		require.Equal(t, 1, fault.Hits())
		time.Sleep(5 * time.Second)
		b.send("lost")
		synctest.Wait()
		require.Equal(t, 1, b.queue.InFlight(), "taken by nobody")
		time.Sleep(29 * time.Second)
		began := time.Now()
		require.Equal(t, "2", b.receive(1, 20)[0].Attributes["ApproximateReceiveCount"])
		require.Equal(t, time.Second, time.Since(began))

		abandon()
		b.send("kept")
		require.Len(t, b.receive(1, 0), 1, "the fault is used up")
	})
}

// An abandoned poll ends when its time is over, or with the service.
func TestAbandonedPollsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		held := b.receiveOne()
		b.svc.Inject(sqstest.Fault{Effect: sqstest.TakeWhenGone()})
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		require.NoError(t, b.change(held.ReceiptHandle, 25))
		time.Sleep(25 * time.Second)
		require.Equal(t, 1, b.queue.Visible())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.Len(t, b.receive(1, 0), 1)
		_, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		b.svc.Close() // the bubble would not end with a poll in it
	})
}

func TestInvalidatedFIFOReceipts(t *testing.T) {
	inFIFOBubble(t, []string{"x"}, func(t *testing.T, b *bench) {
		held := b.receiveOne()
		b.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Effect: sqstest.InvalidateReceipt()})
		requireCode(t, b.delete(held.ReceiptHandle), 400, "InvalidParameterValue")
		require.Equal(t, 1, b.queue.InFlight())
	})
}

// What a fault is shown of a message in a FIFO queue.
func TestFaultsSeeFIFOMessages(t *testing.T) {
	inFIFOBubble(t, []string{"1", "2"}, func(t *testing.T, b *bench) {
		held := b.receive(10, 0)
		var seen []sqstest.MessageView
		b.svc.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Effect: sqstest.LoseAnswer(), Message: func(m sqstest.MessageView) bool {
			seen = append(seen, m)
			return false
		}})
		require.NoError(t, b.change(held[1].ReceiptHandle, 0))
		require.NoError(t, b.change(held[0].ReceiptHandle, 0))
		require.Len(t, seen, 2)
		for i, m := range seen { // as they were when they were changed
			require.Equal(t, []any{fmt.Sprint(2 - i), fmt.Sprint(2 - i), "g", true, 1}, []any{m.Body, m.DeduplicationID, m.GroupID, m.InFlight, m.ReceiveCount})
		}
		b.svc.Inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.Error(400, "X", "x"), Message: func(m sqstest.MessageView) bool { return m.GroupID == "h" && m.DeduplicationID == "d" }})
		b.sendTo("g", "d")
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x"), MessageGroupId: aws.String("h"), MessageDeduplicationId: aws.String("d")})
		requireCode(t, err, 400, "X")

		attempt := b.svc.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Throttle(), Message: func(m sqstest.MessageView) bool { return m.Body == "2" }})
		_, err = b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url}, noRetry)
		requireCode(t, err, 403, "RequestThrottled")
		attempt.Remove()
		b.requireBodies(b.receive(1, 0), "1")
		b.svc.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Throttle(), Message: func(m sqstest.MessageView) bool { return m.Body == "2" }})
		require.Empty(t, b.receive(10, 0), "2 cannot be received, so the fault does not see it")
	})
}

func TestQueuesThatLag(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		look := func(name string) error {
			_, err := b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
			return err
		}
		b.svc.Inject(sqstest.Fault{Action: "GetQueueUrl", Queue: "late", Effect: sqstest.Lag(2 * time.Second)})
		requireType[*types.QueueDoesNotExist](t, look("late"))
		_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("late")})
		require.NoError(t, err)
		requireType[*types.QueueDoesNotExist](t, look("late"))
		require.NoError(t, look("orders"))
		time.Sleep(2 * time.Second)
		require.NoError(t, look("late"))

		fault := b.svc.Inject(sqstest.Fault{Action: "GetQueueUrl", Queue: "counted", Times: 2, Effect: sqstest.Lag(0)})
		require.Error(t, look("counted"))
		require.Zero(t, fault.Hits(), "there is none")
		_, err = b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("counted")})
		require.NoError(t, err)
		for range 2 {
			requireType[*types.QueueDoesNotExist](t, look("counted"))
		}
		require.NoError(t, look("counted"))
	})
}
