package sqstest_test

import (
	"context"
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

// reports collects what an assertion would fail a test with.
type reports []string

func (r *reports) Helper()                           {}
func (r *reports) Errorf(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// failures are what assertions say.
func failures(assert func(t sqstest.Reporter)) []string {
	var r reports
	assert(&r)
	return r
}

func TestHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, dead := withDeadLetters(t)
		id := source.send("x")
		time.Sleep(time.Second)
		first := source.receive(1, 5)[0]
		require.NoError(t, source.change(first.ReceiptHandle, 60))
		time.Sleep(time.Minute)
		require.Error(t, source.change(first.ReceiptHandle, 43200))
		second := source.receiveOne()
		require.NoError(t, source.delete(first.ReceiptHandle), "stale")
		require.NoError(t, source.change(second.ReceiptHandle, 0))
		require.NoError(t, source.change(second.ReceiptHandle, 0), "visible already")
		require.Empty(t, source.receive(1, 0))
		third := dead.receiveOne()
		require.NoError(t, dead.delete(third.ReceiptHandle))
		require.NoError(t, dead.delete(third.ReceiptHandle))
		require.Error(t, source.change(first.ReceiptHandle, 1), "gone")

		h := source.svc.History(id)
		require.Equal(t, "message "+id+` "x"
            0s  orders: sent
            1s  orders: received (1) for 30s
            1s  orders: visibility changed for 1m0s
          1m1s  orders: refused, beyond 12 hours from its receive
          1m1s  orders: received (2) for 30s
          1m1s  orders: ignored, it was received again since
          1m1s  orders: visibility changed for 0s
          1m1s  orders: ignored, it is visible already
          1m1s  orders: dead-lettered, to dead
          1m1s  dead: received (3) for 30s
          1m1s  dead: deleted
          1m1s  dead: ignored, it is gone
          1m1s  orders: refused, it is gone`, h.String())
		require.Equal(t, *first.ReceiptHandle, h.Events[1].Receipt)
		require.Equal(t, "ReceiveMessage", h.Events[1].Action)
		require.Len(t, h.Of(sqstest.EventReceived), 3)
		require.Equal(t, []sqstest.History{h}, source.svc.Histories("x"))
		require.Empty(t, source.svc.History("nobody").Events)
		source.svc.ResetCalls()
		require.Empty(t, source.svc.Histories("x"))

		source.send("y")
		require.Equal(t, 1, source.queue.Visible())
		time.Sleep(96 * time.Hour)
		require.Zero(t, source.queue.Len())
		source.send("z")
		_, err := source.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: source.url})
		require.NoError(t, err)
		source.kill("w")
		_, err = dead.startMove(nil, nil)
		require.NoError(t, err)
		require.Equal(t, "its retention has ended", source.svc.Histories("y")[0].Of(sqstest.EventRemoved)[0].Detail)
		require.Equal(t, "the queue was purged", source.svc.Histories("z")[0].Of(sqstest.EventRemoved)[0].Detail)
		moved := source.svc.Histories("w")
		require.Len(t, moved, 2)
		require.Equal(t, "to orders as "+moved[1].ID, moved[0].Of(sqstest.EventMoved)[0].Detail)
		require.Equal(t, "by a move task, was "+moved[0].ID, moved[1].Events[0].Detail)
	})
}

func TestFIFOHistory(t *testing.T) {
	inFIFOBubble(t, []string{"x"}, func(t *testing.T, b *bench) {
		dead := fifoOn(t, b.svc, "dead.fifo", nil)
		require.NoError(t, b.set("RedrivePolicy", policyTo(dead.queue, 1)))
		b.sendTo("g", "x")
		attempt := &sqs.ReceiveMessageInput{QueueUrl: b.url, ReceiveRequestAttemptId: aws.String("a")}
		for range 2 {
			_, err := b.client.ReceiveMessage(t.Context(), attempt)
			require.NoError(t, err)
		}
		time.Sleep(30 * time.Second)
		require.Empty(t, b.receive(1, 0))
		require.NoError(t, dead.delete(dead.receiveOne().ReceiptHandle))
		var kinds []sqstest.EventKind
		for _, e := range b.svc.Histories("x")[0].Events {
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []sqstest.EventKind{
			sqstest.EventSent, sqstest.EventDuplicate, sqstest.EventReceived, sqstest.EventRepeated, sqstest.EventDeadLettered, sqstest.EventReceived, sqstest.EventDeleted,
		}, kinds)
		require.Len(t, b.svc.Histories("x"), 1)
	})
}

func TestAssertions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		pass := func(assert func(t sqstest.Reporter)) {
			t.Helper()
			require.Empty(t, failures(assert))
		}
		fail := func(text string, assert func(t sqstest.Reporter)) {
			t.Helper()
			all := failures(assert)
			require.Len(t, all, 1)
			require.Contains(t, all[0], text)
		}
		fail("queue orders should be empty, it holds 1:\nmessage ", b.queue.AssertEmpty)
		pass(b.queue.AssertSettled)
		pass(func(t sqstest.Reporter) { b.queue.AssertBodies(t, "x") })
		fail(`queue orders should hold the messages ["x" "y"], it holds 1:`, func(t sqstest.Reporter) { b.queue.AssertBodies(t, "x", "y") })
		b.receiveOne()
		fail("queue orders should have nothing in flight, it has 1:", b.queue.AssertSettled)
		time.Sleep(40 * time.Second)
		require.NoError(t, b.change(b.receiveOne().ReceiptHandle, 60))
		time.Sleep(60 * time.Second)
		m := b.receiveOne()
		pass(func(t sqstest.Reporter) { b.svc.AssertReceived(t, "x", 3) })
		fail(`the message "x" should have been received 2 times, it was 3 times`, func(t sqstest.Reporter) { b.svc.AssertReceived(t, "x", 2) })
		pass(func(t sqstest.Reporter) { b.svc.AssertReceived(t, "never", 0) })
		pass(func(t sqstest.Reporter) { b.svc.AssertPauses(t, "x", 40*time.Second, time.Minute) })
		fail("with the pauses [1s], it was with [40s 1m0s]", func(t sqstest.Reporter) { b.svc.AssertPauses(t, "x", time.Second) })
		fail("with the pauses [], it was with []", func(t sqstest.Reporter) { b.svc.AssertPauses(t, "never") })
		require.NoError(t, b.delete(m.ReceiptHandle))
		pass(b.queue.AssertEmpty)
		for _, assert := range []func(t sqstest.Reporter){
			b.svc.Queue("none").AssertEmpty, b.svc.Queue("none").AssertSettled, func(t sqstest.Reporter) { b.svc.Queue("none").AssertBodies(t) },
		} {
			fail("there is no such queue", assert)
		}
		fail("it holds none", func(t sqstest.Reporter) { b.queue.AssertBodies(t, "x") })
	})
}

// Each case starts with a message that has just been received.
func TestManners(t *testing.T) {
	t.Parallel()
	batch := func(b *bench, receipt *string) error {
		_, err := b.client.DeleteMessageBatch(b.t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: b.url, Entries: []types.DeleteMessageBatchRequestEntry{{Id: aws.String("1"), ReceiptHandle: receipt}}})
		return err
	}
	poll := func(b *bench, times int, pause time.Duration) {
		for range times {
			b.receive(10, 0)
			time.Sleep(pause)
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, b *bench, receipt *string)
		want string // "" if it is all right
	}{
		"deleted":           {func(t *testing.T, b *bench, r *string) { require.NoError(t, b.delete(r)) }, ""},
		"released":          {func(t *testing.T, b *bench, r *string) { require.NoError(t, b.change(r, 0)) }, ""},
		"extended, deleted": {func(t *testing.T, b *bench, r *string) { b.change(r, 60); b.change(r, 60); b.delete(r) }, ""},
		"deleted twice":     {func(t *testing.T, b *bench, r *string) { b.delete(r); batch(b, r) }, "settled twice, by DeleteMessage at 0s and DeleteMessageBatch at 0s"},
		"released twice":    {func(t *testing.T, b *bench, r *string) { b.change(r, 0); b.change(r, 0) }, "settled twice"},
		"released, deleted": {func(t *testing.T, b *bench, r *string) { b.change(r, 0); b.delete(r) }, "settled twice"},
		"extended after":    {func(t *testing.T, b *bench, r *string) { b.delete(r); b.change(r, 60) }, "was extended at 0s after DeleteMessage at 0s"},
		"too long":          {func(t *testing.T, b *bench, r *string) { b.change(r, 43201) }, "a visibility timeout of 43201 seconds"},
		"beyond 12 hours":   {func(t *testing.T, b *bench, r *string) { time.Sleep(time.Second); b.change(r, 43200) }, "43200 seconds was asked for 1s after the receive"},
		"a next receipt":    {func(t *testing.T, b *bench, r *string) { b.change(r, 0); b.delete(b.receiveOne().ReceiptHandle) }, ""},
		"expired, deleted":  {func(t *testing.T, b *bench, r *string) { time.Sleep(time.Minute); b.delete(r) }, ""},
		"retried after a loss": {func(t *testing.T, b *bench, r *string) {
			b.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Times: 1, Effect: sqstest.LoseAnswer()})
			require.NoError(t, b.delete(r))
		}, ""},
		"retried after an error": {func(t *testing.T, b *bench, r *string) {
			b.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Times: 1, Effect: sqstest.After(sqstest.Raw(500, "", ""))})
			require.NoError(t, b.delete(r))
		}, ""},
		"retried a failed entry": {func(t *testing.T, b *bench, r *string) {
			b.svc.Inject(sqstest.Fault{Times: 1, Effect: sqstest.FailEntry("InternalError", "", false)})
			batch(b, r)
			batch(b, r)
		}, ""},
		"gave up, tried again": {func(t *testing.T, b *bench, r *string) {
			fault := b.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Times: 1, Effect: sqstest.HangAfter()})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := b.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: b.url, ReceiptHandle: r})
			require.Error(t, err)
			require.Equal(t, 1, fault.Hits())
			require.NoError(t, b.delete(r))
		}, ""},
		"an extension under way": {func(t *testing.T, b *bench, r *string) {
			b.svc.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Effect: sqstest.Latency(time.Second, time.Second)})
			go b.change(r, 60)
			synctest.Wait()
			require.NoError(t, b.delete(r))
			time.Sleep(time.Second)
		}, ""},
		"short polls":        {func(t *testing.T, b *bench, _ *string) { poll(b, 5, 100*time.Millisecond) }, "queue orders was short-polled in a loop: 5 empty receives in a row"},
		"few short polls":    {func(t *testing.T, b *bench, _ *string) { poll(b, 4, 0) }, ""},
		"seldom short polls": {func(t *testing.T, b *bench, _ *string) { poll(b, 20, time.Second) }, ""},
		"draining": {func(t *testing.T, b *bench, _ *string) {
			for range 9 {
				b.send("y")
				poll(b, 3, 0)
			}
		}, ""},
		"long polls": {func(t *testing.T, b *bench, _ *string) {
			for range 9 {
				b.receive(1, 1)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				m := b.receiveOne()
				c.do(t, b, m.ReceiptHandle)
				said := failures(b.svc.CheckManners)
				if c.want == "" {
					require.Empty(t, said)
					return
				}
				require.Len(t, said, 1)
				require.Contains(t, said[0], c.want)
			})
		})
	}
}
