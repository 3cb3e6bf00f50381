package sqstest_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// kill sends a message and receives it until it is in the dead-letter queue.
func (b *bench) kill(body string) {
	b.t.Helper()
	_, err := b.client.SendMessage(b.t.Context(), &sqs.SendMessageInput{
		QueueUrl: b.url, MessageBody: &body, MessageAttributes: map[string]types.MessageAttributeValue{"a": text("v")},
	})
	require.NoError(b.t, err)
	for range 2 {
		require.NoError(b.t, b.change(b.receiveOne().ReceiptHandle, 0))
	}
	require.Empty(b.t, b.receive(1, 0))
}

func (b *bench) startMove(destination *string, rate *int32) (*string, error) {
	out, err := b.client.StartMessageMoveTask(b.t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: aws.String(b.queue.ARN()), DestinationArn: destination, MaxNumberOfMessagesPerSecond: rate})
	if err != nil {
		return nil, err
	}
	return out.TaskHandle, nil
}

func (b *bench) moves(most int32) []types.ListMessageMoveTasksResultEntry {
	b.t.Helper()
	in := &sqs.ListMessageMoveTasksInput{SourceArn: aws.String(b.queue.ARN())}
	if most > 0 {
		in.MaxResults = &most
	}
	out, err := b.client.ListMessageMoveTasks(b.t.Context(), in)
	require.NoError(b.t, err)
	return out.Results
}

func TestMoveTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, dead := withDeadLetters(t)
		for i := range 5 {
			source.kill(fmt.Sprint(i))
		}
		before := dead.queue.Messages()
		time.Sleep(time.Hour)
		began := time.Now()
		handle, err := dead.startMove(nil, aws.Int32(2))
		require.NoError(t, err)
		_, err = base64.StdEncoding.DecodeString(*handle)
		require.NoError(t, err)
		require.Equal(t, 1, source.queue.Visible(), "the first goes at once")
		_, err = dead.startMove(nil, nil)
		requireCode(t, err, 400, "InvalidParameterValue")
		requireText(t, err, "There is already a task running. Only one active task is allowed for a source queue arn at a given time.")

		time.Sleep(time.Second)
		require.Equal(t, 3, source.queue.Visible())
		running := dead.moves(0)[0]
		require.Equal(t, "RUNNING", *running.Status)
		require.EqualValues(t, 3, running.ApproximateNumberOfMessagesMoved)
		require.EqualValues(t, 5, *running.ApproximateNumberOfMessagesToMove)
		require.EqualValues(t, 2, *running.MaxNumberOfMessagesPerSecond)
		require.Equal(t, began.UnixMilli(), running.StartedTimestamp)
		require.Equal(t, *handle, *running.TaskHandle)
		require.Nil(t, running.DestinationArn)

		time.Sleep(time.Second)
		done := dead.moves(10)
		require.Len(t, done, 1)
		require.Equal(t, "COMPLETED", *done[0].Status)
		require.Nil(t, done[0].TaskHandle)
		require.Zero(t, dead.queue.Len())
		require.Equal(t, 5, source.queue.Visible())
		m := source.receiveOne()
		require.Equal(t, "0", *m.Body)
		require.NotEqual(t, before[0].ID, *m.MessageId, "a new message")
		require.Equal(t, "1", m.Attributes["ApproximateReceiveCount"])
		require.Equal(t, fmt.Sprint(began.UnixMilli()), m.Attributes["SentTimestamp"])
		require.NotContains(t, m.Attributes, "DeadLetterQueueSourceArn")
		require.Equal(t, "v", *m.MessageAttributes["a"].StringValue)
		_, err = dead.client.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: handle})
		requireText(t, err, "Task does not exist.")
	})
}

func TestMoveTaskWakesPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, dead := withDeadLetters(t)
		source.kill("a")
		source.kill("b")
		began := time.Now()
		got := make(chan string, 2)
		for range 2 {
			go func() {
				for _, m := range source.receive(1, 20) {
					got <- fmt.Sprint(*m.Body, " after ", time.Since(began))
				}
			}()
		}
		time.Sleep(3 * time.Second)
		_, err := dead.startMove(aws.String(source.queue.ARN()), aws.Int32(1))
		require.NoError(t, err)
		require.Equal(t, "a after 3s", <-got)
		require.Equal(t, "b after 4s", <-got)
	})
}

func TestMoveTaskEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end                 func(t *testing.T, source, dead, other *bench, handle *string)
		status, reason      string
		moved, back, target int
	}{
		"cancelled": {func(t *testing.T, _, dead, _ *bench, handle *string) {
			out, err := dead.client.CancelMessageMoveTask(t.Context(), &sqs.CancelMessageMoveTaskInput{TaskHandle: handle})
			require.NoError(t, err)
			require.EqualValues(t, 2, out.ApproximateNumberOfMessagesMoved)
		}, "CANCELLED", "", 2, 2, 2},
		"destination deleted": {func(t *testing.T, _, _, other *bench, _ *string) {
			_, err := other.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: other.url})
			require.NoError(t, err)
		}, "FAILED", "AWS.SimpleQueueService.NonExistentQueue", 2, 2, 0},
		"in flight": {func(t *testing.T, _, dead, _ *bench, _ *string) {
			require.Len(t, dead.receive(10, 0), 2) // stays behind
		}, "COMPLETED", "", 2, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source, dead := withDeadLetters(t)
				q, err := source.svc.CreateQueue("other", nil)
				require.NoError(t, err)
				other := source.on(q)
				for i := range 4 {
					source.kill(fmt.Sprint(i))
				}
				handle, err := dead.startMove(aws.String(q.ARN()), aws.Int32(1))
				require.NoError(t, err)
				time.Sleep(1500 * time.Millisecond)
				c.end(t, source, dead, other, handle)
				time.Sleep(10 * time.Second)
				task := dead.moves(0)[0]
				require.Equal(t, c.status, *task.Status)
				require.Equal(t, c.reason, aws.ToString(task.FailureReason))
				require.EqualValues(t, c.moved, task.ApproximateNumberOfMessagesMoved)
				require.Equal(t, q.ARN(), *task.DestinationArn)
				require.Equal(t, c.back, dead.queue.Len())
				require.Equal(t, c.target, q.Len())
			})
		})
	}
}

func TestMoveTaskRefusals(t *testing.T) {
	t.Parallel()
	source, dead := withDeadLetters(t)
	ctx, client := t.Context(), source.client
	_, err := source.startMove(nil, nil)
	requireCode(t, err, 400, "InvalidParameterValue")
	requireText(t, err, "Source queue must be configured as a Dead Letter Queue.")
	_, err = dead.startMove(aws.String(dead.queue.ARN()+"x"), nil)
	requireType[*types.ResourceNotFoundException](t, err)
	requireCode(t, err, 404, "ResourceNotFoundException")
	requireText(t, err, "The resource that you specified for the DestinationArn parameter doesn't exist.")
	_, err = client.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: aws.String("x")})
	requireText(t, err, "The resource that you specified for the SourceArn parameter doesn't exist.")
	for _, rate := range []int32{0, -1, 501} {
		_, err = dead.startMove(nil, &rate)
		requireCode(t, err, 400, "InvalidParameterValue")
	}
	fifo := fifoOn(t, source.svc, "orders.fifo", nil)
	_, err = dead.startMove(aws.String(fifo.queue.ARN()), nil)
	requireCode(t, err, 400, "InvalidParameterValue")
	require.Empty(t, dead.moves(10))
	_, err = client.ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{SourceArn: aws.String(dead.queue.ARN()), MaxResults: aws.Int32(11)})
	requireCode(t, err, 400, "InvalidParameterValue")
	for handle, text := range map[string]string{
		"!": "Value for parameter TaskHandle is invalid.", "e30=": "Value for parameter TaskHandle is invalid.",
		base64.StdEncoding.EncodeToString([]byte(`{"taskId":"x","sourceArn":"y"}`)):                        "The resource that you specified for the SourceArn parameter doesn't exist.",
		base64.StdEncoding.EncodeToString([]byte(`{"taskId":"x","sourceArn":"` + dead.queue.ARN() + `"}`)): "Task does not exist.",
	} {
		_, err := client.CancelMessageMoveTask(ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: &handle})
		requireText(t, err, text)
	}

	// A message that was sent to the dead-letter queue has nowhere to go back to.
	dead.send("stray")
	_, err = dead.startMove(nil, nil)
	require.NoError(t, err)
	require.Equal(t, "CouldNotDetermineMessageSource", *dead.moves(0)[0].FailureReason)
	require.Equal(t, 1, dead.queue.Visible())
}

// Each message goes back to the queue it came from, in order on FIFO queues.
func TestMoveTaskToOrigins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := sqstest.New(t)
		dead := fifoOn(t, svc, "dead.fifo", nil)
		var sources []*bench
		for _, name := range []string{"a.fifo", "b.fifo"} {
			b := fifoOn(t, svc, name, map[string]string{"RedrivePolicy": policyTo(dead.queue, 1), "VisibilityTimeout": "0"})
			for i := range 3 {
				b.sendTo("g", fmt.Sprint(name, i))
			}
			require.Len(t, b.receive(10, 0), 3)
			require.Empty(t, b.receive(10, 0))
			sources = append(sources, b)
		}
		require.Equal(t, 6, dead.queue.Visible())
		_, err := dead.startMove(nil, nil)
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, "COMPLETED", *dead.moves(0)[0].Status)
		for _, b := range sources {
			b.requireBodies(b.receive(10, 0), b.queue.Name()+"0", b.queue.Name()+"1", b.queue.Name()+"2")
		}
	})
}
