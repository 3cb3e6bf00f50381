package components

import (
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/sony/gobreaker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A breaker counts every error, so a run of hopeless messages opens it for those behind
// them. IsSuccessful tells it that a verdict is no sign of an outage.
func TestCircuitBreakerAndVerdicts(t *testing.T) {
	errHopeless := errors.New("hopeless")
	for _, test := range []struct {
		name         string
		isSuccessful func(error) bool
		runs         int
		outcome      watermillsqs.Outcome // of the last message
	}{
		{"default", nil, 6, watermillsqs.Retried},
		{"IsSuccessful", func(err error) bool { return err == nil || errors.Is(err, errHopeless) }, 10, watermillsqs.Acked},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *sqstest.Service) {
				queue(t, service, "in")
				p := newProcess(t, service)
				runs := 0
				sub := p.subscriber(watermillsqs.SubscriberConfig{
					MaxInFlight: 1, Backoff: func(int) time.Duration { return time.Hour },
				})
				p.router.AddConsumerHandler("handler", "in", sub, func(msg *message.Message) error {
					runs++
					if string(msg.Payload) == "hopeless" {
						return watermillsqs.DropError(errHopeless)
					}
					return nil
				}).AddMiddleware(middleware.NewCircuitBreaker(gobreaker.Settings{IsSuccessful: test.isSuccessful}).Middleware)
				for range 9 {
					require.NoError(t, p.publisher.Publish("in", message.NewMessage("1", []byte("hopeless"))))
				}
				require.NoError(t, p.publisher.Publish("in", message.NewMessage("2", []byte("good"))))
				p.run()
				pass(time.Second)
				assert.Equal(t, test.runs, runs)
				require.Len(t, p.outcomes(), 10)
				assert.Equal(t, test.outcome, p.outcomes()[9])
			})
		})
	}
}
