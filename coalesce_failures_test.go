package watermillsqs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// together publishes ten messages of ten callers, which travel in one batch.
func (h *harness) together(pub *watermillsqs.Publisher, topic string, calls ...[]*message.Message) *callers {
	h.t.Helper()
	h.slowFirst(100 * time.Millisecond)
	first := message.NewMessage("first", []byte("first"))
	first.Metadata.Set(watermillsqs.GroupIDKey, "first")
	leading := publishing(pub, topic, []*message.Message{first})
	synctest.Wait()
	rest := publishing(pub, topic, calls...)
	synctest.Wait()
	assert.Empty(h.t, leading.wait())
	return rest
}

// Each caller gets the result of its own message.
func TestPublishCoalescedEachItsOwnResult(t *testing.T) {
	for name, test := range map[string]struct {
		fault  sqstest.Effect
		failed []string
		calls  []int
	}{
		"at fault":    {sqstest.FailEntry("InvalidParameterValue", "not this one", true), []string{"3", "7"}, []int{1, 10}},
		"on our side": {sqstest.FailEntry("InternalError", "not now", false), nil, []int{1, 10, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.inject(sqstest.Fault{Action: "SendMessageBatch", Message: bodyIs("3", "7"), Effect: test.fault})
				errs := h.together(h.publisher(watermillsqs.PublisherConfig{}), "orders", singles(0, 10)...).wait()
				assert.Len(t, errs, len(test.failed))
				for _, uuid := range test.failed {
					var failed *watermillsqs.PublishError
					require.ErrorAs(t, errs[uuid], &failed)
					assert.Equal(t, 1, failed.Messages)
					assert.Len(t, failed.Failed, 1)
					assert.Equal(t, uuid, failed.Failed[0].UUID)
				}
				assert.Equal(t, test.calls, entriesOf(h.service))
				assert.Equal(t, 11-len(test.failed), q.Len())
			})
		})
	}
}

// A call of several messages, whose letters travel in several batches with others.
func TestPublishCoalescedCallsOfSeveral(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Message: bodyIs("5", "14"), Effect: sqstest.FailEntry("InvalidParameterValue", "not this one", true)})
		all := numbered(18)
		errs := h.together(h.publisher(watermillsqs.PublisherConfig{}), "orders", all[:6], all[6:12], all[12:18]).wait()
		assert.Len(t, errs, 2)
		assert.ErrorContains(t, errs["0"], `1 of 6 messages not accepted; message 5 (UUID "5")`)
		assert.ErrorContains(t, errs["12"], `1 of 6 messages not accepted; message 2 (UUID "14")`)
		assert.Equal(t, []int{1, 10, 8}, entriesOf(h.service))
		assert.Equal(t, 17, q.Len())
	})
}

// Nobody suffers for a stranger's message: a batch that is refused for one is sent
// message by message, and one that is too large for this queue fails alone.
func TestPublishBesideAStranger(t *testing.T) {
	for name, poison := range map[string]func(h *harness, msg *message.Message){
		"refuses the whole batch": func(h *harness, _ *message.Message) {
			h.inject(sqstest.Fault{Message: bodyIs("4"), Effect: sqstest.Error(400, "InvalidParameterValue", "poison")})
		},
		"too large for the queue": func(_ *harness, msg *message.Message) { msg.Payload = bytes.Repeat([]byte("x"), 2000) },
		"a 500 when it is alone": func(h *harness, _ *message.Message) {
			h.inject(sqstest.Fault{Action: "SendMessage", Message: bodyIs("4"), Effect: sqstest.Error(500, "InternalFailure", "")})
			h.inject(sqstest.Fault{Message: bodyIs("4"), Effect: sqstest.Error(400, "InvalidParameterValue", "poison")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", map[string]string{"MaximumMessageSize": "1024"})
				calls := singles(0, 10)
				poison(h, calls[4][0])
				errs := h.together(h.publisher(watermillsqs.PublisherConfig{}), "orders", calls...).wait()
				assert.Len(t, errs, 1)
				assert.Error(t, errs["4"])
				assert.Equal(t, 10, q.Len(), "each once")
			})
		})
	}
}

// What can never be sent is refused before it meets others.
func TestPublishValidatesBeforeThePile(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		calls := singles(0, 5)
		calls[2][0].Payload = make([]byte, 1<<20)
		errs := h.together(h.publisher(watermillsqs.PublisherConfig{}), "orders", calls...).wait()
		assert.Len(t, errs, 1)
		assert.ErrorIs(t, errs["2"], watermillsqs.ErrMessageTooLarge)
		assert.Equal(t, []int{1, 4}, entriesOf(h.service))
	})
}

// A call that fails as a whole fails those in it. The same callers' messages that wait
// are not sent; those of others are.
func TestPublishCoalescedCallFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Times: 3, Effect: sqstest.Error(500, "InternalFailure", "on our side")})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		h.slowFirst(200 * time.Millisecond)
		first := publishing(pub, "orders", singles(100, 101)...)
		synctest.Wait()
		all := numbered(14)
		one := publishing(pub, "orders", all[:6])
		synctest.Wait()
		two := publishing(pub, "orders", all[6:12]) // fills the batch, and two stay
		synctest.Wait()
		three := publishing(pub, "orders", all[12:14])
		synctest.Wait()
		assert.Equal(t, []int{1, 10}, entriesOf(h.service))
		assert.Empty(t, first.wait())
		failed := one.wait()["0"]
		for _, m := range failedOf(t, failed, 6, span(0, 6)...).Failed {
			assert.NotContains(t, m.Err.Error(), "not sent")
		}
		refused := failures(t, two.wait()["6"])
		assert.Len(t, refused, 6)
		for _, uuid := range numbers(10, 12) {
			assert.ErrorContains(t, refused[uuid], "not sent, since an earlier call failed")
		}
		assert.Empty(t, three.wait())
		for _, body := range numbers(12, 14) {
			assert.Contains(t, bodies(q), body)
		}
	})
}

// A message whose context ends in the pile is not sent, and its caller need not wait;
// one on the wire is waited for.
func TestPublishContextEndsInThePile(t *testing.T) {
	cause := errors.New("no longer wanted")
	for _, several := range []bool{false, true} {
		t.Run(fmt.Sprint("several contexts ", several), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				q := h.queue("orders", nil)
				h.slowFirst(200 * time.Millisecond)
				pub := h.publisher(watermillsqs.PublisherConfig{})
				wire, cancelWire := context.WithCancelCause(t.Context())
				leading := message.NewMessage("first", []byte("first"))
				leading.SetContext(wire)
				first := publishing(pub, "orders", []*message.Message{leading})
				synctest.Wait()
				ctx, cancel := context.WithCancelCause(t.Context())
				messages := numbered(3)
				messages[0].SetContext(ctx)
				messages[1].SetContext(ctx)
				if !several {
					messages[2].SetContext(ctx)
				}
				start := time.Now()
				call := publishing(pub, "orders", messages)
				other := publishing(pub, "orders", singles(7, 8)...)
				time.Sleep(50 * time.Millisecond)
				cancel(cause)
				cancelWire(cause)
				err := call.wait()["0"]
				if several {
					assert.Equal(t, 200*time.Millisecond, time.Since(start))
					failedOf(t, err, 3, 0, 1)
				} else {
					assert.Equal(t, 50*time.Millisecond, time.Since(start))
					failedOf(t, err, 3, 0, 1, 2)
				}
				require.ErrorIs(t, err, cause)
				assert.ErrorContains(t, err, "not sent")
				assert.Empty(t, first.wait(), "it is on the wire")
				assert.Empty(t, other.wait())
				assert.Contains(t, bodies(q), "7")
				assert.NotContains(t, bodies(q), "0")
			})
		})
	}
}

// After PublishTimeout nothing is sent any more; of what is on the wire one does not
// know.
func TestPublishTimeoutInThePileAndOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.inject(sqstest.Fault{Action: "SendMessage", Message: bodyIs("0"), Effect: sqstest.After(sqstest.Latency(10*time.Second, 10*time.Second))})
		quick := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: 100 * time.Millisecond})
		patient := h.publisher(watermillsqs.PublisherConfig{})
		start := time.Now()
		wire := publishing(quick, "orders", singles(0, 1)...)
		synctest.Wait()
		piled := publishing(quick, "orders", singles(1, 2)...)
		synctest.Wait()
		late := publishing(patient, "orders", singles(2, 3)...)
		errs := wire.wait()
		require.ErrorIs(t, errs["0"], context.DeadlineExceeded)
		assert.ErrorContains(t, errs["0"], "may have accepted")
		errs = piled.wait()
		require.ErrorIs(t, errs["1"], context.DeadlineExceeded)
		assert.ErrorContains(t, errs["1"], "not sent")
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		assert.Empty(t, late.wait())
		assert.Equal(t, 100*time.Millisecond, time.Since(start), "a send ends with the last of those who wait for it")
		assert.Equal(t, []string{"0", "2"}, bodies(q))
	})
}

// A shared call goes on for as long as the most patient of its callers waits.
func TestPublishSharedCallOutlivesOneOfItsCallers(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.slowly("SendMessageBatch", 3*time.Second)
		h.slowFirst(100 * time.Millisecond)
		quick := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: time.Second})
		patient := h.publisher(watermillsqs.PublisherConfig{})
		first := publishing(patient, "orders", singles(9, 10)...)
		synctest.Wait()
		one := publishing(quick, "orders", singles(0, 1)...)
		synctest.Wait()
		two := publishing(patient, "orders", singles(1, 2)...)
		start := time.Now()
		require.ErrorContains(t, one.wait()["0"], "may have accepted")
		assert.Equal(t, time.Second, time.Since(start))
		assert.Empty(t, two.wait())
		assert.Equal(t, 3100*time.Millisecond, time.Since(start))
		assert.Empty(t, first.wait())
		assert.ElementsMatch(t, []string{"9", "0", "1"}, bodies(q))
	})
}

// What pauses before it is sent again keeps no place: others go on.
func TestPublishPausesKeepNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		h.inject(sqstest.Fault{Action: "SendMessageBatch", Message: bodyIs("0"), Effect: sqstest.FailEntry("InternalError", "", false)})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		call := h.together(pub, "orders", singles(0, 2)...)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, pub.Publish("orders", numbered(1)...))
		assert.Zero(t, time.Since(start))
		assert.Empty(t, call.wait())
		assert.Positive(t, time.Since(start))
		assert.Equal(t, 4, q.Len())
	})
}
