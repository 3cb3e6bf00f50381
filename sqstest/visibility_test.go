package sqstest_test

import (
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

// inBubble runs a test with a message of a queue with a visibility timeout of 30 s.
func inBubble(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.send("x")
		f(t, b)
	})
}

// requireHiddenFor checks that the queue's message comes back after exactly that time.
func (b *bench) requireHiddenFor(d time.Duration) {
	b.t.Helper()
	began := time.Now()
	for time.Since(began) < d {
		require.Zero(b.t, b.queue.Visible(), "after %v", time.Since(began))
		time.Sleep(min(d-time.Since(began), d/3+1))
	}
	require.Equal(b.t, 1, b.queue.Visible())
}

func TestVisibilityTimeouts(t *testing.T) {
	t.Run("of the queue", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			b.receiveOne()
			b.requireHiddenFor(30 * time.Second)
		})
	})
	t.Run("of the receive", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			_, err := b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url, VisibilityTimeout: 43200})
			require.NoError(t, err)
			b.requireHiddenFor(12 * time.Hour)
			b.receiveOne() // the next one has the queue's again
			b.requireHiddenFor(30 * time.Second)
		})
	})
	t.Run("zero", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, map[string]string{"VisibilityTimeout": "0"})
		b.send("x")
		require.Len(t, b.receive(10, 0), 1, "not twice in one answer")
		m := b.receiveOne()
		require.Equal(t, "2", m.Attributes["ApproximateReceiveCount"])
		require.NoError(t, b.delete(m.ReceiptHandle))
		require.Zero(t, b.queue.Len())
	})
	t.Run("a change replaces", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			time.Sleep(10 * time.Second)
			require.NoError(t, b.change(m.ReceiptHandle, 60))
			b.requireHiddenFor(60 * time.Second)
		})
	})
	t.Run("a change shortens", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			require.NoError(t, b.change(m.ReceiptHandle, 2))
			b.requireHiddenFor(2 * time.Second)
		})
	})
	t.Run("zero is now", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			require.NoError(t, b.change(m.ReceiptHandle, 0))
			require.Equal(t, "2", b.receiveOne().Attributes["ApproximateReceiveCount"])
		})
	})
	t.Run("heartbeat", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			for range 20 {
				time.Sleep(20 * time.Second)
				require.Empty(t, b.receive(1, 0))
				require.NoError(t, b.change(m.ReceiptHandle, 30))
			}
			b.requireHiddenFor(30 * time.Second)
		})
	})
}

func TestTwelveHours(t *testing.T) {
	const text = "Value %d for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
	t.Run("counted from the receive", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			time.Sleep(2 * time.Second)
			err := b.change(m.ReceiptHandle, 43199)
			requireCode(t, err, 400, "InvalidParameterValue")
			requireText(t, err, fmt.Sprintf(text, 43199))
			require.NoError(t, b.change(m.ReceiptHandle, 43198))
			b.requireHiddenFor(43198 * time.Second)
		})
	})
	t.Run("not reset by a change", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			for range 11 {
				require.NoError(t, b.change(m.ReceiptHandle, 3601))
				time.Sleep(time.Hour)
			}
			requireText(t, b.change(m.ReceiptHandle, 3601), fmt.Sprintf(text, 3601))
			require.NoError(t, b.change(m.ReceiptHandle, 3600))
			b.requireHiddenFor(time.Hour)
			again := b.receiveOne()
			require.NoError(t, b.change(again.ReceiptHandle, 43200), "a new receive has 12 hours again")
		})
	})
	t.Run("a receive counts from its request", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, nil)
			go func() { time.Sleep(5 * time.Second); b.send("x") }()
			m := b.receive(1, 20)[0]
			requireCode(t, b.change(m.ReceiptHandle, 43196), 400, "InvalidParameterValue")
			require.NoError(t, b.change(m.ReceiptHandle, 43195))
		})
	})
	t.Run("a receipt dies after it", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			time.Sleep(12*time.Hour + 1)
			err := b.delete(m.ReceiptHandle)
			requireCode(t, err, 400, "InvalidParameterValue")
			requireText(t, err, fmt.Sprintf("Value %s for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.", *m.ReceiptHandle))
			require.Equal(t, 1, b.queue.Visible())
		})
	})
}

func TestVisibilityRange(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.send("x")
	m := b.receiveOne()
	for _, bad := range []int32{-1, 43201} {
		err := b.change(m.ReceiptHandle, bad)
		requireCode(t, err, 400, "InvalidParameterValue")
		requireText(t, err, fmt.Sprintf("Value %d for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and 43200, if provided.", bad))
	}
}

func TestReceipts(t *testing.T) {
	t.Run("deleted", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			require.NoError(t, b.delete(m.ReceiptHandle))
			require.Zero(t, b.queue.Len())
			require.NoError(t, b.delete(m.ReceiptHandle), "twice is fine")
			err := b.change(m.ReceiptHandle, 5)
			requireCode(t, err, 400, "InvalidParameterValue")
			requireText(t, err, fmt.Sprintf("Value %s for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.", *m.ReceiptHandle))
		})
	})
	t.Run("expired, not received again", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			time.Sleep(31 * time.Second)
			require.NoError(t, b.change(m.ReceiptHandle, 60))
			require.Equal(t, 1, b.queue.Visible(), "the change does nothing")
			require.NoError(t, b.delete(m.ReceiptHandle))
			require.Zero(t, b.queue.Len(), "the deletion deletes")
		})
	})
	t.Run("received again", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			stale := b.receiveOne()
			time.Sleep(30 * time.Second)
			latest := b.receiveOne()
			require.NoError(t, b.delete(stale.ReceiptHandle))
			require.Equal(t, 1, b.queue.InFlight(), "a stale receipt deletes nothing")
			require.NoError(t, b.change(stale.ReceiptHandle, 0))
			require.Equal(t, 1, b.queue.Visible(), "but changes the visibility")
			require.NoError(t, b.delete(latest.ReceiptHandle))
			require.Zero(t, b.queue.Len())
		})
	})
	t.Run("malformed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			good := *b.receiveOne().ReceiptHandle
			for _, bad := range []string{"garbage", good[1:], good[:47] + "=", good + good, "AQEB" + good[8:] + "AAAA"} {
				for _, err := range []error{b.delete(&bad), b.change(&bad, 1)} {
					requireType[*types.ReceiptHandleIsInvalid](t, err)
					requireCode(t, err, 404, "ReceiptHandleIsInvalid")
					requireText(t, err, fmt.Sprintf("The input receipt handle %q is not a valid receipt handle.", bad))
				}
			}
			requireCode(t, b.delete(aws.String("")), 400, "MissingParameter")
		})
	})
	t.Run("of another queue", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			other, err := b.svc.CreateQueue("other", nil)
			require.NoError(t, err)
			for _, err := range []error{b.on(other).delete(m.ReceiptHandle), b.on(other).change(m.ReceiptHandle, 1)} {
				requireType[*types.ReceiptHandleIsInvalid](t, err)
				require.ErrorContains(t, err, "is not valid for this queue.")
			}
		})
	})
	t.Run("of another service", func(t *testing.T) {
		inBubble(t, func(t *testing.T, b *bench) {
			m := b.receiveOne()
			requireType[*types.ReceiptHandleIsInvalid](t, newBench(t, nil).delete(m.ReceiptHandle))
		})
	})
}

func TestMessageViews(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		sent := time.Now()
		require.Equal(t, []sqstest.MessageView{{
			ID: b.queue.Messages()[0].ID, Body: "x", Attributes: map[string]types.MessageAttributeValue{},
			Visible: true, VisibleAt: sent, SentAt: sent,
		}}, b.queue.Messages())
		time.Sleep(time.Second)
		m := b.receiveOne()
		view := b.queue.Messages()[0]
		require.Equal(t, *m.MessageId, view.ID)
		require.Equal(t, *m.ReceiptHandle, view.Receipt)
		require.Equal(t, 1, view.ReceiveCount)
		require.False(t, view.Visible)
		require.Equal(t, 30*time.Second, time.Until(view.VisibleAt))
	})
}
