package watermillsqs_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// between stands between the SDK and the service: it sees the action and the body of
// each attempt, and next carries it out.
type between func(action string, r *http.Request, next http.RoundTripper) (*http.Response, error)

type proxy struct {
	next http.RoundTripper
	do   between
}

func (p proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return p.do(action, r, p.next)
}

// proxied is bubble with a proxy and, as the library's own clients have it, a timeout
// of 25 s per attempt.
func proxied(t *testing.T, do between, test func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{t: t, service: sqstest.New(t), log: newCapturedLog()}
		cfg := h.service.AWSConfig()
		cfg.HTTPClient = &http.Client{Transport: proxy{h.service.RoundTripper(), do}, Timeout: 25 * time.Second}
		h.conn = watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg})
		require.NoError(t, h.conn.Connect(t.Context()))
		defer func() { require.NoError(t, h.conn.Close()) }()
		test(t, h)
	})
}

func passThrough(_ string, r *http.Request, next http.RoundTripper) (*http.Response, error) {
	return next.RoundTrip(r)
}

// rewriteBody replaces the body of an answer.
func rewriteBody(response *http.Response, to func(string) string) *http.Response {
	b, _ := io.ReadAll(response.Body)
	b = []byte(to(string(b)))
	response.Body = io.NopCloser(bytes.NewReader(b))
	response.ContentLength = int64(len(b))
	return response
}

// rewriteRequest replaces the body of a request.
func rewriteRequest(r *http.Request, to func(string) string) *http.Request {
	b, _ := io.ReadAll(r.Body)
	b = []byte(to(string(b)))
	clone := r.Clone(r.Context())
	clone.Body = io.NopCloser(bytes.NewReader(b))
	clone.ContentLength = int64(len(b))
	return clone
}

// An extension that hung is not repeated with seconds that are too many by then: the
// refusal would look like a lost receipt.
func TestExtensionThatHung(t *testing.T) {
	proxied(t, passThrough, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Visibility: 8 * time.Hour}}, "in")
		msg := h.next(messages)
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.Hang()})
		time.Sleep(5 * time.Hour)
		assert.NoError(t, context.Cause(msg.Context()), "the lease runs for three more hours")
		msg.Ack()
		synctest.Wait()
	})
}

// Nor is a retry delay that was cut to what is left of the 12 hours.
func TestRetryAfterThatHung(t *testing.T) {
	proxied(t, passThrough, func(t *testing.T, h *harness) {
		h.queue("in", map[string]string{"VisibilityTimeout": "300"})
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages)
		h.service.Inject(sqstest.Fault{Action: "ChangeMessageVisibility", Times: 1, Effect: sqstest.Hang()})
		watermillsqs.RetryAfter(msg, 24*time.Hour)
		msg.Nack()
		start := time.Now()
		again := h.within(messages, 13*time.Hour)
		assert.Greater(t, time.Since(start), 11*time.Hour, "it returns before its delay")
		again.Ack()
	})
}

// An answer that was under way for long brings a receipt that is older than the one in
// hand, and worth nothing.
func TestOlderReceipt(t *testing.T) {
	var slow atomic.Bool
	slow.Store(true)
	proxied(t, func(action string, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if action == "ReceiveMessage" && slow.CompareAndSwap(true, false) {
			time.Sleep(5 * time.Second)
		}
		return response, err
	}, func(t *testing.T, h *harness) {
		q := h.queue("in", map[string]string{"VisibilityTimeout": "3"})
		h.publish("in", "a")
		_, one := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		synctest.Wait()
		_, two := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(two) // at 3 s, count 2; at 5 s comes the answer with count 1
		time.Sleep(2500 * time.Millisecond)
		facts, _ := watermillsqs.DeliveryFromContext(msg.Context())
		assert.Equal(t, 2, facts.ReceiveCount, "the newest receipt counts")
		assert.NoError(t, context.Cause(msg.Context()))
		msg.Ack()
		select {
		case again := <-one:
			t.Error("handled again although it was acked in time")
			again.Ack()
		case again := <-two:
			t.Error("handled again although it was acked in time")
			again.Ack()
		case <-time.After(time.Minute):
		}
		assert.Equal(t, 0, q.Len())
	})
}

// Messages without an id are not taken for each other.
func TestMessagesWithoutID(t *testing.T) {
	id := regexp.MustCompile(`"MessageId":"[^"]*",`)
	proxied(t, func(action string, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if action == "ReceiveMessage" && err == nil {
			response = rewriteBody(response, func(s string) string { return id.ReplaceAllString(s, "") })
		}
		return response, err
	}, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a", "b")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		handled := map[string]bool{}
		for end := time.After(10 * time.Minute); q.Len() > 0; {
			select {
			case msg := <-messages:
				handled[string(msg.Payload)] = true
				msg.Ack()
				synctest.Wait()
				continue
			case <-end:
			}
			break
		}
		if q.Len() == 0 {
			assert.Equal(t, map[string]bool{"a": true, "b": true}, handled, "a message was deleted that nobody has handled")
		}
	})
}

// A service that delivers more than it was asked for does not make permits.
func TestMoreThanAskedFor(t *testing.T) {
	most := regexp.MustCompile(`"MaxNumberOfMessages":\d+`)
	proxied(t, func(action string, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if action == "ReceiveMessage" {
			r = rewriteRequest(r, func(s string) string { return most.ReplaceAllString(s, `"MaxNumberOfMessages":10`) })
		}
		return next.RoundTrip(r)
	}, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		for range 10 {
			h.publish("in", strings.Split(strings.Repeat("x", 30), "")...)
		}
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 5}, "in")
		for range 5 {
			h.next(messages).Ack()
			synctest.Wait()
		}
		// 10 were received with 5 permits, and 5 of them are settled: all 5 permits
		// are in use.
		assert.LessOrEqual(t, q.InFlight(), 5+9)
		for range 10 {
			h.next(messages).Ack()
			synctest.Wait()
		}
		assert.LessOrEqual(t, q.InFlight(), 5+9, "in hand with MaxInFlight 5")
	})
}

// A message without a receipt handle can never be settled, so it is not handed out.
func TestMessageWithoutReceipt(t *testing.T) {
	handle := regexp.MustCompile(`"ReceiptHandle":"[^"]*",`)
	proxied(t, func(action string, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if action == "ReceiveMessage" && err == nil {
			response = rewriteBody(response, func(s string) string { return handle.ReplaceAllString(s, "") })
		}
		return response, err
	}, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		h.none(messages, time.Minute)
	})
}
