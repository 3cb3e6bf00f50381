package watermillsqs_test

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// An idle subscription costs exactly three receives a minute, and nothing else.
func TestIdleSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 500}, "orders")
		synctest.Wait()
		h.service.ResetCalls()
		start := time.Now().Add(-time.Nanosecond)
		h.none(messages, time.Hour+10*time.Second)
		at := h.receives(start)
		assert.Len(t, at, 3*60)
		assert.Equal(t, 3*60, h.service.Count())
		for i := 1; i < len(at); i++ {
			assert.Equal(t, 20*time.Second, at[i]-at[i-1])
		}
	})
}

// After a burst the subscription is as cheap as before.
func TestIdleAfterABurst(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		for range 30 {
			h.publish("orders", strings.Split(strings.Repeat("x", 10), "")...)
		}
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{MaxInFlight: 200}, "orders")
		for range 300 {
			h.next(messages).Ack()
		}
		h.none(messages, time.Minute)
		h.service.ResetCalls()
		h.none(messages, 10*time.Minute)
		assert.LessOrEqual(t, h.service.Count(), 31)
	})
}

// A receive that fails is seen by hook and log, and made again a second later.
func TestReceiveFails(t *testing.T) {
	for name, test := range map[string]struct {
		effect sqstest.Effect
		code   string
	}{
		"denied":    {sqstest.Error(403, "AccessDenied", "not you"), "AccessDenied"},
		"KMS":       {sqstest.Error(0, "KmsAccessDenied", "no key"), "KMS.AccessDenied"},
		"malformed": {sqstest.Error(400, "InvalidParameterValue", "no"), "InvalidParameterValue"},
		"address":   {sqstest.Error(0, "InvalidAddress", "wrong region"), "InvalidAddress"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				const failures = 30
				h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: failures, Effect: test.effect})
				start := time.Now()
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				h.none(messages, 40*time.Second)
				at := h.receives(start)
				require.Greater(t, len(at), failures)
				for i := range failures + 1 {
					assert.Equal(t, time.Duration(i)*time.Second, at[i])
				}
				failed := h.receiveFailures()
				require.Len(t, failed, failures)
				for _, failure := range failed {
					assert.Equal(t, "orders", failure.Queue)
					assert.Empty(t, failure.MessageID)
					assert.ErrorContains(t, failure.Err, test.code)
				}
				logged := h.log.matching("Receiving failed")
				require.Len(t, logged, failures)
				assert.Contains(t, logged[0], "orders")
				assert.Contains(t, logged[0], test.code)
				h.publish("orders", "x")
				h.next(messages).Ack()
			})
		})
	}
}

// Server errors, and a network that breaks, are tried again by the SDK first; the
// pause comes on top.
func TestReceiveBreaks(t *testing.T) {
	for name, broken := range map[string]func(h *harness){
		"500": func(h *harness) {
			h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Error(500, "InternalFailure", "")})
		},
		"connection": func(h *harness) {
			h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.LoseAnswer()})
		},
		"unreachable": func(h *harness) {
			h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				if actionOf(r) == "ReceiveMessage" {
					return nil, errors.New("network is unreachable")
				}
				return next.RoundTrip(r)
			})
		},
		"answer that is none": func(h *harness) {
			h.rewriteAnswers(func(string) string { return "<html>" }, "ReceiveMessage")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				broken(h)
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Wait: time.Second}}, "orders")
				h.none(messages, time.Minute)
				failed := len(h.receiveFailures())
				assert.GreaterOrEqual(t, failed, 12)
				assert.LessOrEqual(t, failed, 61, "at most one a second")
				assert.LessOrEqual(t, h.service.Count("ReceiveMessage"), 3*61)
				assert.Len(t, h.log.matching("Receiving failed"), failed)
			})
		})
	}
}

// Under throttling the pause is longer, and grows, up to a limit.
func TestReceiveIsThrottled(t *testing.T) {
	for _, code := range []string{"OverLimit", "KmsThrottled", "RequestThrottled", "ThrottlingException"} {
		t.Run(code, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("orders", nil)
				cfg := h.service.AWSConfig()
				cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // the SDK's pauses would blur it
				h.connectWith(watermillsqs.Config{AWS: &cfg})
				fault := h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Error(0, code, "")})
				start := time.Now()
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
				h.none(messages, 5*time.Minute)
				at := h.receives(start)
				require.Greater(t, len(at), 8)
				for i := 1; i < len(at); i++ {
					pause := at[i] - at[i-1]
					assert.Greater(t, pause, time.Second)
					assert.LessOrEqual(t, pause, 20*time.Second)
					if i > 1 {
						assert.GreaterOrEqual(t, pause, at[i-1]-at[i-2])
					}
				}
				fault.Remove()
				h.none(messages, 21*time.Second)
				h.publish("orders", "x")
				h.next(messages).Ack()
				synctest.Wait() // the next poll is under way; the one after it fails
				// It starts from the beginning after a success.
				first := at[1] - at[0]
				h.service.ResetCalls()
				h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.Error(0, code, "")})
				h.none(messages, 45*time.Second)
				at = h.receives(start)
				require.GreaterOrEqual(t, len(at), 2)
				assert.Equal(t, first, at[1]-at[0])
			})
		})
	}
}

// Close does not wait for the pause after a failure.
func TestCloseDuringThePause(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Effect: sqstest.Error(0, "OverLimit", "")})
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		time.Sleep(time.Minute)
		start := time.Now()
		require.NoError(t, sub.Close())
		assert.Zero(t, time.Since(start))
		_, open := <-messages
		assert.False(t, open)
	})
}

// A server that answers at once that there is nothing, whatever the wait, is not
// asked in a hot loop.
func TestEmptyAnswersAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		var mu sync.Mutex
		receives := 0
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if actionOf(r) != "ReceiveMessage" {
				return next.RoundTrip(r)
			}
			mu.Lock()
			receives++
			hot := receives > 1000
			mu.Unlock()
			if hot { // or else time would stand still for ever
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			r.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues") // an answer without messages
			rewriteRequest(r, func(string) string { return `{"QueueNamePrefix":"none"}` })
			return next.RoundTrip(r)
		})
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		h.none(messages, 10*time.Second)
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, receives, 100)
	})
}

// A service that delivers more than it was asked for does not make permits.
func TestMoreThanAskedFor(t *testing.T) {
	most := regexp.MustCompile(`"MaxNumberOfMessages":\d+`)
	bubble(t, func(t *testing.T, h *harness) {
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if actionOf(r) == "ReceiveMessage" {
				rewriteRequest(r, func(body string) string { return most.ReplaceAllString(body, `"MaxNumberOfMessages":10`) })
			}
			return next.RoundTrip(r)
		})
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

// Messages without an id are not taken for each other.
func TestMessagesWithoutID(t *testing.T) {
	id := regexp.MustCompile(`"MessageId":"[^"]*",`)
	bubble(t, func(t *testing.T, h *harness) {
		h.rewriteAnswers(func(body string) string { return id.ReplaceAllString(body, "") }, "ReceiveMessage")
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
		require.Equal(t, 0, q.Len())
		assert.Equal(t, map[string]bool{"a": true, "b": true}, handled, "a message was deleted that nobody has handled")
	})
}

// A message without a receipt handle can never be settled, so it is not handed out.
func TestMessageWithoutReceipt(t *testing.T) {
	handle := regexp.MustCompile(`"ReceiptHandle":"[^"]*",`)
	bubble(t, func(t *testing.T, h *harness) {
		h.rewriteAnswers(func(body string) string { return handle.ReplaceAllString(body, "") }, "ReceiveMessage")
		h.queue("in", nil)
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		h.none(messages, time.Minute)
	})
}
