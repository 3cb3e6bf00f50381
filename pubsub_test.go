package watermillsqs_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// endpointVariable names a server to run the conformance suite against, instead
// of sqstest: http://127.0.0.1:9324, say.
const endpointVariable = "WATERMILLSQS_TEST_ENDPOINT"

func TestPubSub(t *testing.T) {
	t.Parallel() // beside the other one; the suite mostly waits
	testPubSub(t, serverConfig(t), 10*time.Second, false)
}

// serverConfig leads to the server that the environment names, or to one of sqstest.
func serverConfig(t *testing.T) watermillsqs.Config {
	t.Helper()
	config := watermillsqs.Config{Endpoint: os.Getenv(endpointVariable), TestCredentials: true}
	if config.Endpoint == "" {
		service := sqstest.Start()
		t.Cleanup(service.Close)
		endpoint, err := service.Listen()
		require.NoError(t, err)
		config.Endpoint = endpoint
	}
	t.Logf("running against %s", config.Endpoint)
	return config
}

// A short visibility timeout heals a message that was not given back before the
// suite's 15 s are over. This one does not.
func TestPubSubLongVisibility(t *testing.T) {
	t.Parallel()
	if os.Getenv(endpointVariable) != "" {
		t.Skip("runs on sqstest only")
	}
	service := sqstest.New(t)
	cfg := service.AWSConfig()
	testPubSub(t, watermillsqs.Config{AWS: &cfg}, 30*time.Second, false)
}

// The same on FIFO queues, with the order that they guarantee. The suite expects it among
// messages of the same payload, so that is their group.
func TestPubSubFIFO(t *testing.T) {
	t.Parallel()
	testPubSub(t, serverConfig(t), 10*time.Second, true)
}

func testPubSub(t *testing.T, config watermillsqs.Config, visibility time.Duration, fifo bool) {
	queueName := watermillsqs.DefaultQueueName
	var groupID func(string, *message.Message) string
	if fifo {
		queueName = func(topic string) string { return watermillsqs.DefaultQueueName(topic) + ".fifo" }
		groupID = func(_ string, msg *message.Message) string { return fmt.Sprintf("%x", sha256.Sum256(msg.Payload)) }
	}
	tests.TestPubSub(t,
		tests.Features{Persistent: true, GuaranteedOrder: fifo},
		func(t *testing.T) (message.Publisher, message.Subscriber) {
			conn, err := watermillsqs.Connect(context.Background(), config)
			require.NoError(t, err)
			// The suite closes publishers and subscribers only, and not all of them.
			t.Cleanup(func() { require.NoError(t, conn.Close()) })

			logger := watermill.NewStdLogger(false, false)
			pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{CreateIfMissing: true, QueueName: queueName, GroupID: groupID}, logger)
			require.NoError(t, err)
			sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{
				Queue: watermillsqs.Queue{
					Wait:            time.Second,
					Visibility:      visibility,
					CreateIfMissing: true,
				},
				QueueName:    queueName,
				CloseTimeout: time.Second,
			}, logger)
			require.NoError(t, err)
			return pub, sub
		},
		nil,
	)
}
