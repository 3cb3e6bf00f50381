package sqstest_test

import (
	"encoding/json"
	"fmt"
	"maps"
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

// newFIFO is a bench on a FIFO queue.
func newFIFO(t testing.TB, attributes map[string]string) *bench {
	t.Helper()
	svc := sqstest.New(t)
	return fifoOn(t, svc, "orders.fifo", attributes)
}

func fifoOn(t testing.TB, svc *sqstest.Service, name string, attributes map[string]string) *bench {
	t.Helper()
	all := map[string]string{"FifoQueue": "true"}
	maps.Copy(all, attributes)
	queue, err := svc.CreateQueue(name, all)
	require.NoError(t, err)
	return &bench{t: t, svc: svc, client: svc.Client(), queue: queue, url: aws.String(queue.URL())}
}

// inFIFOBubble runs a test in a bubble with a FIFO queue that holds messages of a group.
func inFIFOBubble(t *testing.T, bodies []string, f func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFIFO(t, nil)
		for _, body := range bodies {
			b.sendTo("g", body)
		}
		f(t, b)
	})
}

// sendTo sends to a group, with the body as deduplication id.
func (b *bench) sendTo(group, body string) *sqs.SendMessageOutput {
	b.t.Helper()
	out, err := b.client.SendMessage(b.t.Context(), &sqs.SendMessageInput{
		QueueUrl: b.url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &body,
	})
	require.NoError(b.t, err)
	return out
}

func (b *bench) requireBodies(messages []types.Message, bodies ...string) {
	b.t.Helper()
	got := make([]string, len(messages))
	for i, m := range messages {
		got[i] = *m.Body
	}
	require.Equal(b.t, bodies, got)
}

func TestFIFOOrderAndAttributes(t *testing.T) {
	inFIFOBubble(t, nil, func(t *testing.T, b *bench) {
		first := b.sendTo("g", "1")
		second := b.sendTo("g", "2")
		require.Len(t, *first.SequenceNumber, 20)
		require.Less(t, *first.SequenceNumber, *second.SequenceNumber)
		b.sendTo("h", "3")
		b.sendTo("g", "4")

		held := b.receive(10, 0)
		b.requireBodies(held, "1", "2", "4", "3") // as many of one group as possible, then others
		require.Equal(t, "g", held[0].Attributes["MessageGroupId"])
		require.Equal(t, "1", held[0].Attributes["MessageDeduplicationId"])
		require.Equal(t, *first.SequenceNumber, held[0].Attributes["SequenceNumber"])
		for i, m := range b.queue.Messages() {
			require.Equal(t, fmt.Sprint(i+1), m.DeduplicationID)
			require.False(t, m.Visible)
		}
	})
}

func TestFIFOGroupLock(t *testing.T) {
	inFIFOBubble(t, []string{"1", "2", "3"}, func(t *testing.T, b *bench) {
		held := b.receive(2, 0)
		b.requireBodies(held, "1", "2")
		b.sendTo("g", "4")
		require.Empty(t, b.receive(10, 0), "the group is locked")
		require.Equal(t, 2, b.queue.Visible(), "the blocked rest counts as visible")
		require.Equal(t, 2, b.queue.InFlight())
		require.False(t, b.queue.Messages()[2].Visible, "but cannot be received")
		b.sendTo("other", "x")
		b.requireBodies(b.receive(10, 0), "x")

		require.NoError(t, b.delete(held[0].ReceiptHandle))
		require.Empty(t, b.receive(10, 0), "one of two deleted")
		require.NoError(t, b.delete(held[1].ReceiptHandle))
		b.requireBodies(b.receive(10, 0), "3", "4")
	})
}

// Each case receives {1,2,3} together and says what comes after.
func TestFIFOVisiblePrefix(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change map[int]int32 // new visibility timeouts, by index
		after  time.Duration
		want   []string
	}{
		"first released":  {map[int]int32{0: 0}, 0, []string{"1"}},
		"second released": {map[int]int32{1: 0}, 0, []string{}},
		"all released":    {map[int]int32{2: 0, 1: 0, 0: 0}, 0, []string{"1", "2", "3"}},
		"two released":    {map[int]int32{0: 0, 1: 0}, 0, []string{"1", "2"}},
		"expired":         {nil, 30 * time.Second, []string{"1", "2", "3"}},
		"extended first":  {map[int]int32{0: 60}, 30 * time.Second, []string{}},
		"extended second": {map[int]int32{1: 60}, 30 * time.Second, []string{"1"}},
		"extended third":  {map[int]int32{2: 60}, 30 * time.Second, []string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			inFIFOBubble(t, []string{"1", "2", "3"}, func(t *testing.T, b *bench) {
				held := b.receive(10, 0)
				for i, timeout := range c.change {
					require.NoError(t, b.change(held[i].ReceiptHandle, timeout))
				}
				time.Sleep(c.after)
				b.requireBodies(b.receive(10, 0), c.want...)
			})
		})
	}
}

func TestFIFOUnlockWakesPolls(t *testing.T) {
	t.Parallel()
	for name, unlock := range map[string]func(b *bench, receipt *string) error{
		"deleted":  func(b *bench, receipt *string) error { return b.delete(receipt) },
		"released": func(b *bench, receipt *string) error { return b.change(receipt, 0) },
		"expired":  func(b *bench, receipt *string) error { return b.change(receipt, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			inFIFOBubble(t, []string{"1", "2"}, func(t *testing.T, b *bench) {
				held, began := b.receive(1, 0), time.Now()
				go func() {
					time.Sleep(2 * time.Second)
					require.NoError(t, unlock(b, held[0].ReceiptHandle))
				}()
				require.NotEmpty(t, b.receive(10, 20))
				want := 2 * time.Second
				if name == "expired" {
					want = 5 * time.Second
				}
				require.Equal(t, want, time.Since(began))
			})
		})
	}
}

// The order between groups is nobody's business, but AWS was seen to give this one.
func TestFIFOOrderOfGroups(t *testing.T) {
	inFIFOBubble(t, nil, func(t *testing.T, b *bench) {
		for _, m := range []string{"g1-m1", "g2-m1", "g2-m2", "g3-m1", "g1-m2"} {
			b.sendTo(m[:2], m)
		}
		receive := func(most int) (bodies []string) {
			w := raw(t, b.svc, "POST", "AmazonSQS.ReceiveMessage", fmt.Sprintf(`{"QueueUrl":"orders.fifo","MaxNumberOfMessages":%d,"VisibilityTimeout":0}`, most))
			var out struct{ Messages []struct{ Body string } }
			require.NoError(t, json.NewDecoder(w.Body).Decode(&out))
			for _, m := range out.Messages {
				bodies = append(bodies, m.Body)
			}
			return bodies
		}
		require.Equal(t, []string{"g1-m1", "g1-m2", "g2-m1"}, receive(3))
		require.Equal(t, []string{"g3-m1", "g1-m1", "g1-m2", "g2-m1", "g2-m2"}, receive(10))
	})
}

// A message that its retention takes away frees its group too.
func TestFIFORetention(t *testing.T) {
	inFIFOBubble(t, nil, func(t *testing.T, b *bench) {
		require.NoError(t, b.set("MessageRetentionPeriod", "60"))
		b.sendTo("g", "1")
		time.Sleep(15 * time.Second)
		b.sendTo("g", "2")
		held := b.receive(1, 0)
		require.NoError(t, b.change(held[0].ReceiptHandle, 600))
		time.Sleep(40 * time.Second)
		began := time.Now()
		b.requireBodies(b.receive(1, 20), "2")
		require.Equal(t, 5*time.Second, time.Since(began))
		require.NoError(t, b.delete(held[0].ReceiptHandle), "it is gone")
	})
}

func TestFIFOReceipts(t *testing.T) {
	inFIFOBubble(t, []string{"1", "2"}, func(t *testing.T, b *bench) {
		held := b.receive(10, 0)
		require.NoError(t, b.change(held[1].ReceiptHandle, 60))
		time.Sleep(30 * time.Second)
		expired := fmt.Sprintf("Value %s for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.", *held[0].ReceiptHandle)
		for range 2 { // expired, then received again
			err := b.delete(held[0].ReceiptHandle)
			requireCode(t, err, 400, "InvalidParameterValue")
			requireText(t, err, expired)
			requireText(t, b.change(held[0].ReceiptHandle, 1), expired)
			out, err := b.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: b.url, Entries: []types.DeleteMessageBatchRequestEntry{
				{Id: aws.String("a"), ReceiptHandle: held[0].ReceiptHandle},
			}})
			require.NoError(t, err)
			require.Equal(t, "ReceiptHandleIsInvalid", *out.Failed[0].Code)
			require.Equal(t, "The receipt handle has expired", *out.Failed[0].Message)
			require.True(t, out.Failed[0].SenderFault)
			b.receive(1, 0)
		}
		require.NoError(t, b.delete(held[1].ReceiptHandle), "extended, so still good")
		require.NoError(t, b.delete(held[1].ReceiptHandle), "deleted already")
		require.Equal(t, 1, b.queue.Len())
	})
}

func TestFIFODelays(t *testing.T) {
	inFIFOBubble(t, []string{"1"}, func(t *testing.T, b *bench) {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("x"), DelaySeconds: 2})
		requireCode(t, err, 400, "InvalidParameterValue")
		requireText(t, err, "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.")

		require.NoError(t, b.set("DelaySeconds", "60"))
		require.Equal(t, 1, b.queue.Delayed(), "the delay of the queue counts for what is there already")
		time.Sleep(40 * time.Second)
		b.sendTo("g", "2")
		time.Sleep(20 * time.Second)
		b.requireBodies(b.receive(10, 0), "1")
		require.NoError(t, b.set("DelaySeconds", "30"))
		require.Empty(t, b.receive(10, 9))
		require.NoError(t, b.set("DelaySeconds", "0"))
		require.Zero(t, b.queue.Delayed())
	})
}

func TestReceiveAttempts(t *testing.T) {
	inFIFOBubble(t, []string{"1", "2"}, func(t *testing.T, b *bench) {
		attempt := func(id string) []types.Message {
			t.Helper()
			out, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
				QueueUrl: b.url, MaxNumberOfMessages: 10, ReceiveRequestAttemptId: &id, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
			})
			require.NoError(t, err)
			return out.Messages
		}
		first := attempt("a")
		require.Len(t, first, 2)
		require.Empty(t, attempt("b"))
		time.Sleep(20 * time.Second)
		again := attempt("a")
		require.Equal(t, first[0].ReceiptHandle, again[0].ReceiptHandle)
		require.Equal(t, first[1].ReceiptHandle, again[1].ReceiptHandle)
		require.Equal(t, "1", again[0].Attributes["ApproximateReceiveCount"])
		time.Sleep(20 * time.Second)
		require.Equal(t, 2, b.queue.InFlight(), "the visibility timeout began anew")
		require.NoError(t, b.change(first[1].ReceiptHandle, 100))
		require.Empty(t, attempt("a"), "changed meanwhile")
		time.Sleep(10 * time.Second)
		expired := attempt("a")
		b.requireBodies(expired, "1")
		require.NotEqual(t, first[0].ReceiptHandle, expired[0].ReceiptHandle, "an ordinary receive")
		require.NoError(t, b.change(expired[0].ReceiptHandle, 600))
		time.Sleep(301 * time.Second)
		require.Empty(t, attempt("a"), "forgotten")

		for _, bad := range []string{"", "a b", string(make([]byte, 129))} {
			_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url, ReceiveRequestAttemptId: &bad})
			requireCode(t, err, 400, "InvalidParameterValue")
		}
	})
}

func TestFIFODeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFIFO(t, nil)
		dead := fifoOn(t, b.svc, "dead.fifo", nil)
		standard, err := b.svc.CreateQueue("dead", nil)
		require.NoError(t, err)
		err = b.set("RedrivePolicy", policyTo(standard, 2))
		requireCode(t, err, 400, "InvalidParameterValue")
		requireText(t, err, "Value "+policyTo(standard, 2)+" for parameter RedrivePolicy is invalid. Reason: Dead-letter queue must be same type of queue as the source..")
		require.NoError(t, b.set("RedrivePolicy", policyTo(dead.queue, 2)))

		sent := b.sendTo("g", "1")
		b.sendTo("g", "2")
		began := time.Now()
		for range 2 {
			require.Len(t, b.receive(1, 0), 1)
			time.Sleep(30 * time.Second)
		}
		b.requireBodies(b.receive(10, 0), "2") // 1 is moved, the group goes on
		m := dead.receiveOne()
		require.Equal(t, *sent.MessageId, *m.MessageId)
		require.Equal(t, *sent.MessageId, m.Attributes["MessageDeduplicationId"])
		require.Equal(t, "g", m.Attributes["MessageGroupId"])
		require.Equal(t, "3", m.Attributes["ApproximateReceiveCount"])
		require.Equal(t, fmt.Sprint(began.UnixMilli()), m.Attributes["SentTimestamp"])

		time.Sleep(96*time.Hour - time.Second)
		require.Equal(t, 1, dead.queue.Len(), "retention began with the move")
		time.Sleep(time.Second)
		require.Zero(t, dead.queue.Len())
	})
}

// Many consumers at once see each group in order and each message once.
func TestFIFOConcurrently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFIFO(t, nil)
		const groups, each = 20, 20
		for i := range each {
			for g := range groups {
				b.sendTo(fmt.Sprint("g", g), fmt.Sprintf("%d.%d", g, i))
			}
		}
		var mu sync.Mutex
		got := map[string][]string{}
		var consumers sync.WaitGroup
		for range 8 {
			consumers.Go(func() {
				for {
					held := b.receive(10, 1)
					if len(held) == 0 {
						return
					}
					for _, m := range held {
						mu.Lock()
						g := m.Attributes["MessageGroupId"]
						got[g] = append(got[g], *m.Body)
						mu.Unlock()
						require.NoError(t, b.delete(m.ReceiptHandle))
					}
				}
			})
		}
		consumers.Wait()
		for g := range groups {
			for i := range each {
				require.Equal(t, fmt.Sprintf("%d.%d", g, i), got[fmt.Sprint("g", g)][i])
			}
		}
		require.Zero(t, b.queue.Len())
	})
}
