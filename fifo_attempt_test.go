package watermillsqs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A receive whose answer was lost may have taken messages, whatever is answered to its
// repetitions, those of the SDK or our own: it is asked again with its attempt id.
func TestFIFOLostAnswerThenRefusedIsAskedAgain(t *testing.T) {
	for _, test := range []struct {
		lost, refused int
		refusal       sqstest.Effect
	}{
		{1, 2, sqstest.Throttle()},
		{3, 1, sqstest.Error(403, "AccessDenied", "")},
	} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", nil)
			h.send(q, "a 1")
			h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: test.lost, Effect: sqstest.LoseAnswer()})
			h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Skip: test.lost, Times: test.refused, Effect: test.refusal})
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: 10 * time.Minute}}, "orders.fifo")
			h.next(messages).Ack()
			time.Sleep(time.Second)
			q.AssertEmpty(t)
		})
	}
}

// The 12 hours of a message that came with a repetition count from the receive that took
// it: asking for more is refused.
func TestFIFORepeatedReceiveCountsTheTwelveHoursFromTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		h.send(q, "a 1")
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 9, Effect: sqstest.LoseAnswer()})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: 10 * time.Minute}}, "orders.fifo")
		msg := h.next(messages)
		watermillsqs.RetryAfter(msg, 12*time.Hour)
		msg.Nack()
		time.Sleep(30 * time.Second)
		for _, s := range h.settled() {
			assert.NoError(t, s.Err)
		}
		assert.Len(t, h.settled(), 1)
	})
}

// A retry-after that is said while a FIFO subscription closes does not come back into the
// poll that is asked once more.
func TestFIFOCloseDoesNotReceiveItsRetriesAgain(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 2 * time.Second} {
		bubble(t, func(t *testing.T, h *harness) {
			q := h.fifo("orders.fifo", nil)
			h.send(q, "a 1")
			sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders.fifo")
			msg := h.next(messages)
			time.Sleep(3 * time.Second)
			closed := make(chan error)
			go func() { closed <- sub.Close() }()
			time.Sleep(10 * time.Millisecond)
			watermillsqs.RetryAfter(msg, after)
			msg.Nack()
			assert.NoError(t, <-closed)
			time.Sleep(10 * time.Second)
			h.service.AssertReceived(t, "1", 1)
			assert.Equal(t, 1, q.Visible())
		})
	}
}
