package components

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/metrics"
	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// counts are those of a metric by one of its labels: a counter's values, a histogram's
// observations.
func counts(t *testing.T, registry *prometheus.Registry, metric, label string) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	counts := map[string]int{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				if pair.GetName() == label {
					counts[pair.GetValue()] += int(m.GetCounter().GetValue()) + int(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return counts
}

const (
	published = "publish_time_seconds"
	received  = "subscriber_messages_received_total"
	handled   = "handler_execution_time_seconds"
)

// What handlers say goes through the metrics as it is: verbs, errors that carry a
// verdict, plain ones, and what they publish. The metrics know acks and nacks, and
// whether there was an error: a dropped message is either, and a panic is none.
func TestMetricsPassVerdictsOn(t *testing.T) {
	type outcomes = []watermillsqs.Outcome
	type count = map[string]int
	for _, test := range []struct {
		name           string
		handle         func(msg *message.Message) error // the first time
		outcomes       outcomes                         // within a second
		delay          time.Duration
		acked, success count
		publishes      count
	}{
		{
			"success", func(*message.Message) error { return nil },
			outcomes{watermillsqs.Acked}, 0,
			count{"acked": 1}, count{"true": 1}, count{"watermillsqs.Publisher": 1},
		},
		{
			"error", func(*message.Message) error { return errFailed },
			outcomes{watermillsqs.Retried}, 7 * time.Second,
			count{"nacked": 1}, count{"false": 1}, count{},
		},
		{
			"Retry", func(msg *message.Message) error { watermillsqs.Retry(msg); return errFailed },
			outcomes{watermillsqs.Retried, watermillsqs.Acked}, 0,
			count{"nacked": 1, "acked": 1}, count{"false": 1, "true": 1}, count{},
		},
		{
			"RetryAfter", func(msg *message.Message) error { watermillsqs.RetryAfter(msg, time.Minute); return errFailed },
			outcomes{watermillsqs.Retried}, time.Minute,
			count{"nacked": 1}, count{"false": 1}, count{},
		},
		{
			"RetryAfterError", func(*message.Message) error { return watermillsqs.RetryAfterError(errFailed, time.Minute) },
			outcomes{watermillsqs.Retried}, time.Minute,
			count{"nacked": 1}, count{"false": 1}, count{},
		},
		{
			"Drop", func(msg *message.Message) error { watermillsqs.Drop(msg); return nil },
			outcomes{watermillsqs.Dropped}, 0,
			count{"acked": 1}, count{"true": 1}, count{"watermillsqs.Publisher": 1},
		},
		{
			"DropError", func(*message.Message) error { return watermillsqs.DropError(errFailed) },
			outcomes{watermillsqs.Dropped}, 0,
			count{"nacked": 1}, count{"false": 1}, count{},
		},
		{
			"panic", func(*message.Message) error { panic("x") },
			outcomes{watermillsqs.Retried}, 7 * time.Second,
			count{"nacked": 1}, count{"true": 1}, count{},
		},
		{
			"panic inside of Recoverer", func(msg *message.Message) error {
				_, err := middleware.Recoverer(func(*message.Message) ([]*message.Message, error) { panic("x") })(msg)
				return err
			},
			outcomes{watermillsqs.Retried}, 7 * time.Second,
			count{"nacked": 1}, count{"false": 1}, count{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *sqstest.Service) {
				queue(t, service, "in")
				out := queue(t, service, "out")
				registry := prometheus.NewRegistry()
				p := newProcess(t, service)
				metrics.NewPrometheusMetricsBuilder(registry, "", "").AddPrometheusRouterMetrics(p.router)
				sub := p.subscriber(watermillsqs.SubscriberConfig{Backoff: func(int) time.Duration { return 7 * time.Second }})
				runs := 0
				p.router.AddHandler("handler", "in", sub, "out", p.publisher, func(msg *message.Message) ([]*message.Message, error) {
					if runs++; runs > 1 {
						return nil, nil
					}
					return []*message.Message{message.NewMessage("made", []byte("x"))}, test.handle(msg)
				})
				p.run()
				require.NoError(t, p.publisher.Publish("in", message.NewMessage("1", []byte("x"))))
				pass(time.Second)
				require.Equal(t, test.outcomes, p.outcomes())
				assert.Equal(t, test.delay, p.delays()[0])
				assert.Equal(t, test.acked, counts(t, registry, received, "acked"))
				assert.Equal(t, count{"watermillsqs.Subscriber": len(test.outcomes)}, counts(t, registry, received, "subscriber_name"))
				assert.Equal(t, test.success, counts(t, registry, handled, "success"))
				assert.Equal(t, test.publishes, counts(t, registry, published, "publisher_name"))
				assert.Equal(t, len(test.publishes), out.Len())
			})
		})
	}
}

// A decorated publisher hands the library's errors through, and counts them.
func TestMetricsOfAPublisher(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		q := queue(t, service, "in")
		registry := prometheus.NewRegistry()
		pub, err := metrics.NewPrometheusMetricsBuilder(registry, "", "").DecoratePublisher(newProcess(t, service).publisher)
		require.NoError(t, err)
		require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("x"))))
		refused := service.Inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.Error(403, "AccessDenied", "not now")})
		msg := message.NewMessage("2", []byte("x"))
		var failed *watermillsqs.PublishError
		require.ErrorAs(t, pub.Publish("in", msg), &failed)
		assert.Equal(t, "2", failed.Failed[0].UUID)
		assert.Equal(t, map[string]int{"true": 1, "false": 1}, counts(t, registry, published, "success"))
		// The decorator has marked the message; this is how it avoids to count one twice.
		refused.Remove()
		require.NoError(t, pub.Publish("in", msg))
		assert.Equal(t, map[string]int{"true": 1, "false": 1}, counts(t, registry, published, "success"))
		assert.Equal(t, 2, q.Len())
		require.NoError(t, pub.Close())
		require.ErrorIs(t, pub.Publish("in", message.NewMessage("3", nil)), watermillsqs.ErrClosed)
	})
}

// A message that its reader leaves unfinished is nacked for the metrics, without a call,
// so that nothing of theirs waits for ever.
func TestMetricsOfUnfinishedMessages(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		q := queue(t, service, "in")
		registry := prometheus.NewRegistry()
		p := newProcess(t, service)
		sub, err := metrics.NewPrometheusMetricsBuilder(registry, "", "").DecorateSubscriber(p.subscriber(watermillsqs.SubscriberConfig{}))
		require.NoError(t, err)
		messages, err := sub.Subscribe(t.Context(), "in")
		require.NoError(t, err)
		require.NoError(t, p.publisher.Publish("in", message.NewMessage("1", []byte("x"))))
		<-messages
		require.NoError(t, sub.Close())
		synctest.Wait()
		assert.Equal(t, []watermillsqs.Outcome{watermillsqs.Unfinished}, p.outcomes())
		assert.Equal(t, map[string]int{"nacked": 1}, counts(t, registry, received, "acked"))
		assert.Equal(t, 1, q.Len())
		assert.Equal(t, 0, service.Count("DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"))
	})
}

// Router.Close waits for a handler whose messages pass the metrics; its late ack is
// carried out, and counted.
func TestMetricsOfAClosingRouter(t *testing.T) {
	t.Parallel()
	realTime(t, func(t *testing.T, service *sqstest.Service) {
		q := queue(t, service, "in")
		registry := prometheus.NewRegistry()
		p := newProcess(t, service)
		metrics.NewPrometheusMetricsBuilder(registry, "", "").AddPrometheusRouterMetrics(p.router)
		started := make(chan struct{})
		sub := p.subscriber(watermillsqs.SubscriberConfig{CloseTimeout: -1}) // cancels the handler at once
		p.router.AddConsumerHandler("handler", "in", sub, func(msg *message.Message) error {
			close(started)
			<-msg.Context().Done()
			return nil
		})
		p.run()
		require.NoError(t, p.publisher.Publish("in", message.NewMessage("1", []byte("x"))))
		<-started
		require.NoError(t, p.router.Close())
		assert.Equal(t, []watermillsqs.Outcome{watermillsqs.Acked}, p.outcomes())
		assert.Equal(t, 0, q.Len())
		require.EventuallyWithT(t, func(c *assert.CollectT) { // it counts in a goroutine of its own
			assert.Equal(c, map[string]int{"acked": 1}, counts(t, registry, received, "acked"))
		}, 10*time.Second, time.Millisecond)
	})
}

// A decorated subscriber is still one of SQS for what looks at it.
func TestMetricsDoNotHideTheSubscriber(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		p := newProcess(t, service)
		var sub message.Subscriber = p.subscriber(watermillsqs.SubscriberConfig{})
		for range 2 { // a decorator of a decorator, too
			var err error
			sub, err = metrics.NewPrometheusMetricsBuilder(prometheus.NewRegistry(), "", "").DecorateSubscriber(sub)
			require.NoError(t, err)

			retry, err := watermillsqs.NewRetry(watermillsqs.Source{Subscriber: sub})
			require.NoError(t, err)
			assert.NotNil(t, retry)
			_, err = watermillsqs.NewRetry(watermillsqs.Source{
				Subscriber: sub, Republish: &watermillsqs.Republish{Publisher: p.publisher, Topic: "in"},
			})
			require.ErrorIs(t, err, watermillsqs.ErrRepublishRetry)
			require.ErrorIs(t, watermillsqs.CheckRequeuer(requeuer.Config{Subscriber: sub}), watermillsqs.ErrRepublishRetry)
		}
	})
}
