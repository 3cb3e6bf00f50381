package watermillsqs_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func assertNotConnected(t *testing.T, errs map[string]error) {
	t.Helper()
	for name, err := range errs {
		assert.ErrorIs(t, err, watermillsqs.ErrNotConnected, name)
	}
}

// A whole router can be assembled before anything is connected, and neither that
// nor Connect makes a call or resolves credentials.
func TestNothingIsCalledBeforeItIsNeeded(t *testing.T) {
	t.Parallel()
	service := sqstest.New(t)
	for _, name := range []string{"in", "out"} {
		_, err := service.CreateQueue(name, nil)
		require.NoError(t, err)
	}
	cfg := service.AWSConfig()
	var resolved, requests atomic.Int32
	credentials, next := cfg.Credentials, cfg.HTTPClient
	cfg.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		resolved.Add(1)
		return credentials.Retrieve(ctx)
	})
	cfg.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		requests.Add(1)
		return next.Do(r)
	})}

	conn := watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg})
	pub, sub := handles(t, conn)
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	require.NoError(t, err)
	router.AddHandler("h", "in", sub, "out", pub, func(msg *message.Message) ([]*message.Message, error) {
		return []*message.Message{msg}, nil
	})
	assertNotConnected(t, everyHandle(t, pub, sub, "in"))
	assert.ErrorIs(t, router.Run(t.Context()), watermillsqs.ErrNotConnected)

	require.NoError(t, conn.Connect(t.Context()))
	assert.Zero(t, requests.Load(), "no call")
	assert.Zero(t, resolved.Load(), "no credentials")
	assert.Zero(t, service.Count())

	require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("x"))))
	assert.Equal(t, 2, service.Count(), "GetQueueUrl and SendMessage")
	assert.EqualValues(t, 2, requests.Load())

	// The router that was assembled before is of use now. (It has to be run: Watermill
	// leaves a goroutine of a Run that failed until its handlers have run and stopped.)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, router.RunHandlers(ctx))
	_, out := handles(t, conn)
	messages, err := out.Subscribe(t.Context(), "out")
	require.NoError(t, err)
	msg := <-messages
	assert.Equal(t, "1", msg.UUID)
	msg.Ack()
	cancel()
	require.NoError(t, conn.Close())
	assert.Eventually(t, router.IsClosed, 10*time.Second, 5*time.Millisecond)
}

// NewConnection looks at nothing at all: not even at files or at its own fields.
func TestNewConnectionIsPureData(t *testing.T) {
	withoutAWSEnvironment(t)
	t.Setenv("AWS_CONFIG_FILE", "/proc/self/mem") // reading it fails
	conn := watermillsqs.NewConnection(watermillsqs.Config{Endpoint: "nonsense"})
	_, sub := handles(t, conn)
	assert.ErrorIs(t, sub.SubscribeInitialize("in"), watermillsqs.ErrNotConnected)
	require.NoError(t, conn.Close())
}

func TestNotConnectedAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		pub, sub := handles(t, h.conn)
		require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("x"))))
		require.NoError(t, h.conn.Close())
		h.service.ResetCalls()
		assertNotConnected(t, everyHandle(t, pub, sub, "in"))

		// Handles made on a closed connection are no better.
		assertNotConnected(t, everyHandle(t, h.publisher(watermillsqs.PublisherConfig{}), h.subscriber(watermillsqs.SubscriberConfig{}), "in"))
		assert.Zero(t, h.service.Count())
	})
}

// A connection that was never connected closes, too, and stays closed.
func TestCloseBeforeConnect(t *testing.T) {
	t.Parallel()
	conn := watermillsqs.NewConnection(watermillsqs.Config{TestCredentials: true})
	pub, sub := handles(t, conn)
	require.NoError(t, conn.Close())
	require.NoError(t, conn.Close())
	assert.ErrorIs(t, conn.Connect(t.Context()), watermillsqs.ErrNotConnected)
	assertNotConnected(t, everyHandle(t, pub, sub, "in"))
}

// However many Connects there are, the clients are built once.
func TestConnectOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		var builds atomic.Int32
		cfg := h.service.AWSConfig()
		conn := watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg, SQSOptions: []func(*sqs.Options){func(*sqs.Options) {
			builds.Add(1)
			time.Sleep(time.Second)
		}}})
		defer func() { assert.NoError(t, conn.Close()) }()
		pub, _ := handles(t, conn)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				assert.NoError(t, conn.Connect(t.Context()))
				// Whoever comes back from Connect has a connection.
				assert.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("x"))))
			})
		}
		group.Wait()
		require.NoError(t, conn.Connect(t.Context()))
		assert.EqualValues(t, 2, builds.Load(), "one client for calls and one for polls")
		assert.Equal(t, 1, h.service.Count("GetQueueUrl"))
	})
}

// While one Connect is under way another waits for it, but not past its context.
func TestConnectWaitsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		release := make(chan struct{})
		cfg := h.service.AWSConfig()
		conn := watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg, SQSOptions: []func(*sqs.Options){func(*sqs.Options) { <-release }}})
		pub, _ := handles(t, conn)
		first := make(chan error, 1)
		go func() { first <- conn.Connect(t.Context()) }()
		synctest.Wait()
		assert.ErrorIs(t, pub.Publish("in"), watermillsqs.ErrNotConnected, "connecting is not connected")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		assert.ErrorIs(t, conn.Connect(ctx), context.DeadlineExceeded)
		close(release)
		assert.NoError(t, <-first)
		assert.NoError(t, conn.Close())
	})
}

func TestConnectAgainAfterFailure(t *testing.T) {
	withoutAWSEnvironment(t)
	conn := watermillsqs.NewConnection(watermillsqs.Config{})
	pub, sub := handles(t, conn)
	for range 2 {
		err := conn.Connect(t.Context())
		require.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
		assert.ErrorContains(t, err, "region")
		assertNotConnected(t, everyHandle(t, pub, sub, "in"))
	}
	t.Setenv("AWS_REGION", "eu-central-1")
	require.NoError(t, conn.Connect(t.Context()))
	assert.NoError(t, pub.Publish("in"), "connected; nothing to send")
	require.NoError(t, conn.Close())
}

// The failure of one Connect is not that of another that waits for it.
func TestConnectFailureIsNotShared(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		var builds atomic.Int32
		cfg := h.service.AWSConfig()
		conn := watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg, SQSOptions: []func(*sqs.Options){func(o *sqs.Options) {
			if builds.Add(1) <= 2 {
				o.BaseEndpoint = aws.String("http://[::1")
				time.Sleep(time.Second)
			}
		}}})
		first := make(chan error, 1)
		go func() { first <- conn.Connect(t.Context()) }()
		synctest.Wait()
		assert.NoError(t, conn.Connect(t.Context()), "it tries on its own")
		err := <-first
		assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
		assert.ErrorContains(t, err, "http://[::1")
		assert.EqualValues(t, 4, builds.Load())
		assert.NoError(t, conn.Close())
	})
}

// A Close that comes during Connect wins.
func TestCloseDuringConnect(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		release := make(chan struct{})
		cfg := h.service.AWSConfig()
		conn := watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg, SQSOptions: []func(*sqs.Options){func(*sqs.Options) { <-release }}})
		pub, sub := handles(t, conn)
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- conn.Connect(t.Context()) }()
			synctest.Wait()
		}
		require.NoError(t, conn.Close())
		assertNotConnected(t, everyHandle(t, pub, sub, "in"))
		close(release)
		assert.ErrorIs(t, <-errs, watermillsqs.ErrNotConnected)
		assert.ErrorIs(t, <-errs, watermillsqs.ErrNotConnected)
		assertNotConnected(t, everyHandle(t, pub, sub, "in"))
		assert.ErrorIs(t, conn.Connect(t.Context()), watermillsqs.ErrNotConnected)
		assert.Zero(t, h.service.Count())
	})
}

func TestConnectRacesClose(t *testing.T) {
	t.Parallel()
	service := sqstest.New(t)
	cfg := service.AWSConfig()
	for i := range 200 {
		conn := watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg})
		pub, sub := handles(t, conn)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				if err := conn.Connect(context.Background()); err != nil {
					assert.ErrorIs(t, err, watermillsqs.ErrNotConnected)
				}
			})
			group.Go(func() { assert.NoError(t, conn.Close()) })
			group.Go(func() { _ = pub.Publish("in") })
		}
		if i%2 == 0 {
			_, _ = sub.Subscribe(context.Background(), "missing")
		}
		group.Wait()
		assertNotConnected(t, everyHandle(t, pub, sub, "in"))
	}
}

// Close waits for a subscription that is being set up, and ends its set-up.
func TestCloseDuringSubscribe(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.service.Inject(sqstest.Fault{Action: "GetQueueUrl", Effect: sqstest.Hang()})
		sub := h.subscriber(watermillsqs.SubscriberConfig{})
		failed := make(chan error, 1)
		go func() {
			_, err := sub.Subscribe(context.Background(), "in")
			failed <- err
		}()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, h.conn.Close())
		assert.Zero(t, time.Since(start))
		assert.Error(t, <-failed)
		_, err := sub.Subscribe(context.Background(), "in")
		assert.ErrorIs(t, err, watermillsqs.ErrNotConnected)
	})
}

// Wrong credentials show at the first subscription, on its GetQueueUrl, and not
// before.
func TestCredentialsAreLazy(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		wrong := errors.New("the vault is sealed")
		var resolved atomic.Int32
		cfg := h.service.AWSConfig()
		cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			resolved.Add(1)
			return aws.Credentials{}, wrong
		})
		h.connectWith(watermillsqs.Config{AWS: &cfg})
		assert.Zero(t, resolved.Load())

		_, err := h.subscriber(watermillsqs.SubscriberConfig{}).Subscribe(t.Context(), "in")
		require.ErrorIs(t, err, wrong)
		assert.ErrorContains(t, err, `"in"`)
		var operation *smithy.OperationError
		require.ErrorAs(t, err, &operation)
		assert.Equal(t, "GetQueueUrl", operation.Operation())
		assert.Positive(t, resolved.Load())
		assert.Zero(t, h.service.Count(), "nothing is sent that is not signed")

		assert.ErrorIs(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("in", message.NewMessage("1", []byte("x"))), wrong)
	})
}

// The same through the SDK's default chain, on a machine that has no credentials.
func TestDefaultChainWithoutCredentials(t *testing.T) {
	withoutAWSEnvironment(t)
	service := sqstest.New(t)
	endpoint, err := service.Listen()
	require.NoError(t, err)
	conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{Region: "us-east-1", Endpoint: endpoint})
	require.NoError(t, err)
	_, sub := handles(t, conn)
	_, err = sub.Subscribe(t.Context(), "in")
	var operation *smithy.OperationError
	require.ErrorAs(t, err, &operation)
	assert.Equal(t, "GetQueueUrl", operation.Operation())
	assert.Zero(t, service.Count())
	require.NoError(t, conn.Close())
}
