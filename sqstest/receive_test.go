package sqstest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func TestReceiveRanges(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, c := range map[string]struct {
		in   sqs.ReceiveMessageInput
		text string
	}{
		"too many":        {sqs.ReceiveMessageInput{MaxNumberOfMessages: 11}, "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."},
		"negative":        {sqs.ReceiveMessageInput{MaxNumberOfMessages: -1}, "Value -1 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."},
		"long wait":       {sqs.ReceiveMessageInput{WaitTimeSeconds: 21}, "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided."},
		"long visibility": {sqs.ReceiveMessageInput{VisibilityTimeout: 43201}, "Value 43201 for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and 43200, if provided."},
		"FIFO only":       {sqs.ReceiveMessageInput{ReceiveRequestAttemptId: aws.String("a")}, "Value a for parameter ReceiveRequestAttemptId is invalid. Reason: The request include parameter that is not valid for this queue type."},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.QueueUrl = b.url
			_, err := b.client.ReceiveMessage(t.Context(), &c.in)
			requireCode(t, err, 400, "InvalidParameterValue")
			requireText(t, err, c.text)
		})
	}
}

func TestReceiveCountsAndOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var ids []string
	for i := range 15 {
		ids = append(ids, b.send(fmt.Sprint(i)))
	}
	first := b.receive(10, 0)
	require.Len(t, first, 10)
	rest := b.receive(10, 0)
	require.Len(t, rest, 5)
	for i, m := range append(first, rest...) {
		require.Equal(t, ids[i], *m.MessageId)
		require.Equal(t, fmt.Sprint(i), *m.Body)
	}
	require.Empty(t, b.receive(10, 0))
	require.Equal(t, 15, b.queue.InFlight())
}

func TestSystemAttributes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, map[string]string{"VisibilityTimeout": "1"})
		sent := time.Now()
		b.send("x")
		time.Sleep(1500 * time.Millisecond)
		received, receipts := time.Now(), map[string]bool{}
		for count := 1; count <= 3; count++ {
			m := b.receiveOne()
			require.Equal(t, map[string]string{
				"SenderId":                         m.Attributes["SenderId"],
				"SentTimestamp":                    fmt.Sprint(sent.UnixMilli()),
				"ApproximateFirstReceiveTimestamp": fmt.Sprint(received.UnixMilli()),
				"ApproximateReceiveCount":          fmt.Sprint(count),
			}, m.Attributes)
			require.NotEmpty(t, m.Attributes["SenderId"])
			receipts[*m.ReceiptHandle] = true
			time.Sleep(time.Second)
		}
		require.Len(t, receipts, 3, "a new receipt handle each time")
	})
}

func TestAttributeFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"VisibilityTimeout": "0"})
	all := map[string]types.MessageAttributeValue{"a.one": text("1"), "a.two": text("2"), "b": typed("Number", "3")}
	sum := func(names ...string) *string { // from a message that has only these
		attributes := map[string]types.MessageAttributeValue{}
		for _, name := range names {
			attributes[name] = all[name]
		}
		other := newBench(t, nil)
		out, err := other.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: other.url, MessageBody: aws.String("x"), MessageAttributes: attributes})
		require.NoError(t, err)
		return out.MD5OfMessageAttributes
	}
	_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x"), MessageAttributes: all})
	require.NoError(t, err)
	for _, c := range []struct{ ask, want []string }{
		{nil, nil},
		{[]string{"none"}, nil},
		{[]string{"All"}, []string{"a.one", "a.two", "b"}},
		{[]string{".*"}, []string{"a.one", "a.two", "b"}},
		{[]string{"*"}, []string{"a.one", "a.two", "b"}},
		{[]string{"a.t.*"}, []string{"a.two"}},
		{[]string{"a.*"}, []string{"a.one", "a.two"}},
		{[]string{"b", "a.two", "none"}, []string{"a.two", "b"}},
	} {
		out, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url, MessageAttributeNames: c.ask})
		require.NoError(t, err)
		require.Len(t, out.Messages, 1)
		m := out.Messages[0]
		require.Empty(t, m.Attributes, "no system attributes unless asked for")
		require.Len(t, m.MessageAttributes, len(c.want))
		for _, name := range c.want {
			require.Equal(t, all[name], m.MessageAttributes[name])
		}
		require.Equal(t, sum(c.want...), m.MD5OfMessageAttributes, "%v", c.ask)
	}

	out, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl:                    b.url,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"SenderId"},
		AttributeNames:              []types.QueueAttributeName{"SentTimestamp", "Unknown"}, //nolint:staticcheck // older clients send it
	})
	require.NoError(t, err)
	require.Len(t, out.Messages[0].Attributes, 2, "the union of the old and the new member")
}

func TestShortPollReturnsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		began := time.Now()
		require.Empty(t, b.receive(10, 0))
		require.Zero(t, time.Since(began))
	})
}

// TestLongPoll starts a long poll of 20 s on an empty queue, or what setup makes of it,
// and says when it has to end and with how many messages.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attributes map[string]string
		wait       int32
		setup      func(b *bench)
		meanwhile  func(b *bench)
		after      time.Duration
		messages   int
	}{
		"nothing comes":     {wait: 20, after: 20 * time.Second},
		"the queue's wait":  {attributes: map[string]string{"ReceiveMessageWaitTimeSeconds": "3"}, after: 3 * time.Second},
		"the request's":     {attributes: map[string]string{"ReceiveMessageWaitTimeSeconds": "3"}, wait: 1, after: time.Second},
		"messages there":    {wait: 20, setup: func(b *bench) { b.send("x") }, messages: 1},
		"send":              {wait: 20, meanwhile: func(b *bench) { time.Sleep(7 * time.Second); b.send("x") }, after: 7 * time.Second, messages: 1},
		"send at the end":   {wait: 20, meanwhile: func(b *bench) { time.Sleep(20*time.Second - 1); b.send("x") }, after: 20*time.Second - 1, messages: 1},
		"delay passes":      {wait: 20, attributes: map[string]string{"DelaySeconds": "4"}, setup: func(b *bench) { b.send("x") }, after: 4 * time.Second, messages: 1},
		"delayed meanwhile": {wait: 20, attributes: map[string]string{"DelaySeconds": "4"}, meanwhile: func(b *bench) { time.Sleep(time.Second); b.send("x") }, after: 5 * time.Second, messages: 1},
		"visibility ends": {wait: 20, attributes: map[string]string{"VisibilityTimeout": "6"}, setup: func(b *bench) {
			b.send("x")
			b.send("y")
			b.receive(10, 0)
		}, after: 6 * time.Second, messages: 2},
		"visibility ends at the end": {wait: 6, attributes: map[string]string{"VisibilityTimeout": "6"}, setup: func(b *bench) { b.send("x"); b.receiveOne() }, after: 6 * time.Second, messages: 1},
		"visibility set to 0": {wait: 20, setup: func(b *bench) { b.send("x") }, meanwhile: func(b *bench) {
			m := b.queue.Messages()[0]
			time.Sleep(9 * time.Second)
			require.NoError(b.t, b.change(&m.Receipt, 0))
		}, after: 9 * time.Second, messages: 1},
		"visibility shortened": {wait: 20, setup: func(b *bench) { b.send("x") }, meanwhile: func(b *bench) {
			m := b.queue.Messages()[0]
			time.Sleep(time.Second)
			require.NoError(b.t, b.change(&m.Receipt, 2))
		}, after: 3 * time.Second, messages: 1},
		"visibility extended": {wait: 20, attributes: map[string]string{"VisibilityTimeout": "5"}, setup: func(b *bench) { b.send("x") }, meanwhile: func(b *bench) {
			m := b.queue.Messages()[0]
			time.Sleep(time.Second)
			require.NoError(b.t, b.change(&m.Receipt, 60))
		}, after: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, c.attributes)
				if c.setup != nil {
					c.setup(b)
				}
				if c.setup != nil && c.meanwhile != nil { // what is changed has to be in flight
					b.receiveOne()
				}
				if c.meanwhile != nil {
					go c.meanwhile(b)
				}
				began := time.Now()
				require.Len(t, b.receive(10, c.wait), c.messages)
				require.Equal(t, c.after, time.Since(began))
			})
		})
	}
}

func TestLongPollEndsWithItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		began := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			_, err := b.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: b.url})
			require.NoError(t, err)
		}()
		_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20})
		requireType[*types.QueueDoesNotExist](t, err)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestAbandonedLongPollTakesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(b.svc.Calls()[0].At))
		b.send("x")
		require.Equal(t, 1, b.queue.Visible())
		require.Equal(t, "1", b.receiveOne().Attributes["ApproximateReceiveCount"])
	})
}

// TestLongPollsAreServedInTurn has several polls wait for one message each.
func TestLongPollsAreServedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const polls = 5
		b := newBench(t, nil)
		var mu sync.Mutex
		got := map[int]string{}
		cancelled, cancel := context.WithCancel(t.Context())
		for i := range polls {
			ctx := t.Context()
			if i == 1 {
				ctx = cancelled
			}
			go func() {
				out, err := b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20})
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				got[i] = *out.Messages[0].Body
			}()
			synctest.Wait() // so that they stand in line in this order
		}
		cancel()
		synctest.Wait()
		for i := range polls - 1 {
			b.send(fmt.Sprint(i))
			synctest.Wait()
		}
		require.Equal(t, map[int]string{0: "0", 2: "1", 3: "2", 4: "3"}, got)
	})
}

// TestOneBatchServesSeveralPolls sends what several polls wait for in one call.
func TestOneBatchServesSeveralPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { require.Len(t, b.receive(1, 20), 1) })
		}
		synctest.Wait()
		began := time.Now()
		var entries []types.SendMessageBatchRequestEntry
		for i := range 4 {
			entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String("x")})
		}
		_, err := b.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: b.url, Entries: entries})
		require.NoError(t, err)
		wg.Wait()
		require.Zero(t, time.Since(began))
	})
}

func TestCloseEndsLongPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		errs := make(chan error)
		go func() {
			_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20}, noRetry)
			errs <- err
		}()
		synctest.Wait()
		began := time.Now()
		b.svc.Close()
		requireCode(t, <-errs, 503, "ServiceUnavailable")
		require.Zero(t, time.Since(began))
		b.svc.Close()
		_, err := b.client.ListQueues(t.Context(), &sqs.ListQueuesInput{}, noRetry)
		requireCode(t, err, 503, "ServiceUnavailable")
	})
}

// TestEachMessageOnce drains a queue by several consumers at once.
func TestEachMessageOnce(t *testing.T) {
	t.Parallel()
	const messages, consumers = 1000, 8
	b := newBench(t, nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range consumers {
		wg.Go(func() {
			for range messages / consumers {
				b.send("x")
			}
		})
		wg.Go(func() {
			for {
				got := b.receive(10, 1)
				if len(got) == 0 {
					return
				}
				mu.Lock()
				for _, m := range got {
					seen[*m.MessageId]++
				}
				done := len(seen) == messages
				mu.Unlock()
				for _, m := range got {
					require.NoError(t, b.delete(m.ReceiptHandle))
				}
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, messages)
	for id, times := range seen {
		require.Equal(t, 1, times, id)
	}
	require.Zero(t, b.queue.Len())
}

func TestInFlightLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, map[string]string{"VisibilityTimeout": "100"})
		sqstest.Fill(b.queue, 120_001)
		got := sqstest.TakeAll(b.queue)
		require.Len(t, got, 120_000)
		_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url})
		requireType[*types.OverLimit](t, err)
		requireCode(t, err, 403, "OverLimit")

		began := time.Now()
		require.Empty(t, b.receive(1, 5), "a long poll is empty, not refused")
		require.Equal(t, 5*time.Second, time.Since(began))

		go func() {
			time.Sleep(time.Second)
			require.NoError(t, b.delete(&got[0]))
		}()
		require.Len(t, b.receive(10, 20), 1, "a deletion makes room")
		require.Equal(t, 6*time.Second, time.Since(began))
	})
}
