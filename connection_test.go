package watermillsqs_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// transport is a RoundTripper made of a function.
type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// actionOf is the SQS action of a request.
func actionOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
}

// connectWith replaces the connection of the harness, which is closed with the test.
func (h *harness) connectWith(config watermillsqs.Config) {
	h.t.Helper()
	conn, err := watermillsqs.Connect(h.t.Context(), config)
	require.NoError(h.t, err)
	h.conn = conn
}

// intercept replaces the connection by one whose requests go through a function.
func (h *harness) intercept(wrap func(next http.RoundTripper, r *http.Request) (*http.Response, error)) {
	h.t.Helper()
	cfg := h.service.AWSConfig()
	next := h.service.RoundTripper()
	cfg.HTTPClient = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) { return wrap(next, r) })}
	h.connectWith(watermillsqs.Config{AWS: &cfg})
}

// built is the configuration with which the connection loads its own AWS
// configuration and builds its own HTTP clients. They keep everything but their
// transport, which leads to the service in process.
func (h *harness) built() watermillsqs.Config {
	return watermillsqs.Config{
		Endpoint:        "http://sqs.test",
		TestCredentials: true,
		SQSOptions: []func(*sqs.Options){func(o *sqs.Options) {
			o.HTTPClient.(*http.Client).Transport = h.service.RoundTripper()
		}},
	}
}

// withoutAWSEnvironment makes sure that the default chain finds nothing.
func withoutAWSEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent/config")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// handles are a publisher and a subscriber of a connection.
func handles(t *testing.T, conn *watermillsqs.Connection) (*watermillsqs.Publisher, *watermillsqs.Subscriber) {
	t.Helper()
	pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{}, nil)
	require.NoError(t, err)
	sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{}, nil)
	require.NoError(t, err)
	return pub, sub
}

// everyHandle calls all that needs SQS and returns the errors by name.
func everyHandle(t *testing.T, pub *watermillsqs.Publisher, sub *watermillsqs.Subscriber, topic string) map[string]error {
	t.Helper()
	_, subscribe := sub.Subscribe(t.Context(), topic)
	return map[string]error{
		"Publish":             pub.Publish(topic, message.NewMessage("1", []byte("x"))),
		"Publish of nothing":  pub.Publish(topic),
		"Subscribe":           subscribe,
		"SubscribeInitialize": sub.SubscribeInitialize(topic),
	}
}

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

// An attempt that hangs is given up after 25 s, and the SDK tries again.
func TestAttemptTimeout(t *testing.T) {
	const backoff = 50 * time.Millisecond // the SDK's first, at most
	for _, test := range []struct {
		name    string
		timeout time.Duration // configured
		want    time.Duration
		wait    time.Duration
	}{
		{"default", 0, 25 * time.Second, 0},
		{"shorter", 7 * time.Second, 7 * time.Second, 6 * time.Second},
		{"longer", 40 * time.Second, 40 * time.Second, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				config := h.built()
				config.AttemptTimeout = test.timeout
				h.connectWith(config)
				q := h.queue("in", nil)
				for _, action := range []string{"GetQueueUrl", "SendMessage"} {
					h.service.Inject(sqstest.Fault{Action: action, Times: 1, Effect: sqstest.Hang()})
				}
				pub := h.publisher(watermillsqs.PublisherConfig{PublishTimeout: 5 * time.Minute})
				start := time.Now()
				require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("x"))))
				assert.GreaterOrEqual(t, time.Since(start), 2*test.want)
				assert.LessOrEqual(t, time.Since(start), 2*test.want+2*backoff)
				for _, action := range []string{"GetQueueUrl", "SendMessage"} {
					calls := h.service.Calls(action)
					require.Len(t, calls, 2, action)
					gap := calls[1].At.Sub(calls[0].At)
					assert.GreaterOrEqual(t, gap, test.want, action)
					assert.LessOrEqual(t, gap, test.want+backoff, action)
				}
				require.Equal(t, 1, q.Len())

				// The same for a long poll: no failure is seen, only a later message.
				fault := h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 1, Effect: sqstest.Hang()})
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Wait: test.wait}}, "in")
				start = time.Now()
				h.next(messages).Ack()
				assert.Equal(t, 1, fault.Hits())
				assert.GreaterOrEqual(t, time.Since(start), test.want)
				assert.LessOrEqual(t, time.Since(start), test.want+backoff)
				assert.Empty(t, h.failures)
			})
		})
	}
}

// A call that always hangs fails after the SDK's three attempts, and the
// subscription goes on.
func TestEveryAttemptHangs(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.connectWith(h.built())
		h.queue("in", nil)
		h.publish("in", "x")
		h.service.Inject(sqstest.Fault{Action: "ReceiveMessage", Times: 3, Effect: sqstest.Hang()})
		start := time.Now()
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		h.within(messages, 2*time.Minute).Ack()
		elapsed := time.Since(start)
		assert.GreaterOrEqual(t, elapsed, 76*time.Second, "three attempts and a pause of a second")
		assert.Less(t, elapsed, 77*time.Second)
		assert.Len(t, h.failures, 1)
	})
}

// The clients that are built: long polls have a client and a pool of their own.
func TestBuiltClients(t *testing.T) {
	withoutAWSEnvironment(t)
	t.Setenv("HTTPS_PROXY", "")
	for name, config := range map[string]watermillsqs.Config{
		"own configuration":             {TestCredentials: true},
		"prebuilt without HTTP client":  {AWS: &aws.Config{Region: "eu-central-1"}},
		"own configuration, AWS region": {Region: "eu-central-1"},
	} {
		t.Run(name, func(t *testing.T) {
			var clients []*http.Client
			var transports []*http.Transport
			config.SQSOptions = []func(*sqs.Options){func(o *sqs.Options) {
				client := o.HTTPClient.(*http.Client)
				clients = append(clients, client)
				transports = append(transports, client.Transport.(*http.Transport))
				assert.True(t, o.DisableMessageChecksumValidation, "one bad body must not discard a whole receive")
			}}
			conn, err := watermillsqs.Connect(t.Context(), config)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			require.Len(t, clients, 2)
			assert.NotSame(t, clients[0], clients[1])
			assert.NotSame(t, transports[0], transports[1], "pools of their own")
			for i, client := range clients {
				assert.Equal(t, 25*time.Second, client.Timeout)
				assert.Zero(t, transports[i].ResponseHeaderTimeout)
				assert.GreaterOrEqual(t, transports[i].MaxIdleConnsPerHost, 64)
				if n := transports[i].MaxIdleConns; n != 0 {
					assert.GreaterOrEqual(t, n, transports[i].MaxIdleConnsPerHost)
				}
				assert.NotNil(t, transports[i].Proxy, "the SDK's transport, with its proxy")
				require.NotNil(t, client.CheckRedirect)
				assert.ErrorIs(t, client.CheckRedirect(&http.Request{}, nil), http.ErrUseLastResponse)
			}
		})
	}
}

// Seen from the server: no connection carries both polls and other calls.
func TestPollsHaveTheirOwnConnections(t *testing.T) {
	t.Parallel()
	service := sqstest.New(t)
	_, err := service.CreateQueue("in", nil)
	require.NoError(t, err)
	var mu sync.Mutex
	carried := map[string]map[string]bool{} // by remote address
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := "call"
		if actionOf(r) == "ReceiveMessage" {
			kind = "poll"
		}
		mu.Lock()
		if carried[r.RemoteAddr] == nil {
			carried[r.RemoteAddr] = map[string]bool{}
		}
		carried[r.RemoteAddr][kind] = true
		mu.Unlock()
		service.ServeHTTP(w, r)
	}))
	defer server.Close()
	conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{Endpoint: server.URL, TestCredentials: true})
	require.NoError(t, err)
	pub, sub := handles(t, conn)
	messages, err := sub.Subscribe(t.Context(), "in")
	require.NoError(t, err)
	for range 20 {
		require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("x"))))
		(<-messages).Ack()
	}
	require.NoError(t, conn.Close())
	mu.Lock()
	defer mu.Unlock()
	kinds := map[string]int{}
	for address, kind := range carried {
		assert.Len(t, kind, 1, address)
		for k := range kind {
			kinds[k]++
		}
	}
	assert.Positive(t, kinds["poll"])
	assert.Positive(t, kinds["call"])
}

// counting is an HTTP client that is none of the standard types.
type counting struct {
	next  aws.HTTPClient
	calls atomic.Int32
	scope atomic.Value // of the latest signature
	host  atomic.Value
}

func (c *counting) Do(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	c.scope.Store(r.Header.Get("Authorization"))
	c.host.Store(r.URL.Host)
	return c.next.Do(r)
}

// A prebuilt configuration is kept: its HTTP client is the one that is called, for
// everything, and only the region and the endpoint that Config names are others.
func TestPrebuiltConfigIsKept(t *testing.T) {
	for _, test := range []struct {
		name         string
		region, base string // of the prebuilt one
		config       watermillsqs.Config
		wantRegion   string
		wantHost     string
	}{
		{"as it is", "eu-west-1", "", watermillsqs.Config{}, "eu-west-1", "sqs.eu-west-1.amazonaws.com"},
		{"with its endpoint", "eu-west-1", "http://base.test:9324", watermillsqs.Config{}, "eu-west-1", "base.test:9324"},
		{"region", "eu-west-1", "", watermillsqs.Config{Region: "eu-north-1"}, "eu-north-1", "sqs.eu-north-1.amazonaws.com"},
		{"no region of its own", "", "", watermillsqs.Config{Region: "eu-north-1"}, "eu-north-1", "sqs.eu-north-1.amazonaws.com"},
		{"endpoint", "eu-west-1", "http://base.test", watermillsqs.Config{Endpoint: "http://mine.test:1"}, "eu-west-1", "mine.test:1"},
		{"both", "eu-west-1", "", watermillsqs.Config{Region: "eu-north-1", Endpoint: "https://mine.test"}, "eu-north-1", "mine.test"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.queue("in", nil)
				cfg := h.service.AWSConfig()
				client := &counting{next: cfg.HTTPClient}
				cfg.HTTPClient, cfg.Region = client, test.region
				if test.base != "" {
					cfg.BaseEndpoint = aws.String(test.base)
				}
				test.config.AWS = &cfg
				before := cfg
				h.connectWith(test.config)
				h.publish("in", "x")
				_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
				h.next(messages).Ack()
				synctest.Wait()

				assert.EqualValues(t, h.service.Count(), client.calls.Load(), "every call, polls included")
				assert.Contains(t, client.scope.Load(), "/"+test.wantRegion+"/sqs/")
				assert.Equal(t, test.wantHost, client.host.Load())

				assert.Same(t, client, cfg.HTTPClient)
				assert.Equal(t, test.region, cfg.Region)
				assert.Equal(t, aws.ToString(before.BaseEndpoint), aws.ToString(cfg.BaseEndpoint))
				assert.Nil(t, cfg.Retryer)
				assert.Equal(t, len(before.APIOptions), len(cfg.APIOptions))
			})
		})
	}
}

// The retryer of a prebuilt configuration is kept, too.
func TestPrebuiltRetryerIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		cfg := h.service.AWSConfig()
		cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		h.connectWith(watermillsqs.Config{AWS: &cfg})
		h.service.Inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.Error(500, "InternalFailure", "")})
		assert.Error(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("in", message.NewMessage("1", []byte("x"))))
		assert.Equal(t, 1, h.service.Count("SendMessage"))
	})
}

// The timeout of a prebuilt HTTP client decides, whatever AttemptTimeout says.
func TestPrebuiltTimeoutDecides(t *testing.T) {
	for _, attempt := range []time.Duration{0, time.Second, time.Hour} {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("in", nil)
			cfg := h.service.AWSConfig()
			client := cfg.HTTPClient.(*http.Client)
			client.Timeout = 21 * time.Second
			h.connectWith(watermillsqs.Config{AWS: &cfg, AttemptTimeout: attempt})
			h.service.Inject(sqstest.Fault{Action: "SendMessage", Times: 1, Effect: sqstest.Hang()})
			start := time.Now()
			h.publish("in", "x")
			assert.GreaterOrEqual(t, time.Since(start), 21*time.Second)
			assert.Less(t, time.Since(start), 22*time.Second)
			assert.Equal(t, 21*time.Second, client.Timeout)
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in") // 21 s is longer than the wait
			h.next(messages).Ack()
		})
	}
}

// A client that gives an attempt up no later than the long poll ends would fail
// every poll of an idle queue, so it is refused at Subscribe, before any call.
func TestTimeoutMustExceedWait(t *testing.T) {
	prebuilt := func(client aws.HTTPClient) func(h *harness) watermillsqs.Config {
		return func(h *harness) watermillsqs.Config {
			cfg := h.service.AWSConfig()
			cfg.HTTPClient = client
			return watermillsqs.Config{AWS: &cfg, Endpoint: "http://127.0.0.1:1"} // nothing listens there
		}
	}
	own := func(timeout time.Duration) func(h *harness) watermillsqs.Config {
		return func(h *harness) watermillsqs.Config {
			config := h.built()
			config.AttemptTimeout = timeout
			return config
		}
	}
	headers := func(timeout time.Duration) func(*http.Transport) {
		return func(t *http.Transport) { t.ResponseHeaderTimeout = timeout }
	}
	for _, test := range []struct {
		name    string
		config  func(h *harness) watermillsqs.Config
		wait    time.Duration
		timeout string
	}{
		{"http.Client", prebuilt(&http.Client{Timeout: 15 * time.Second}), 20 * time.Second, "15s"},
		{"http.Client, equal", prebuilt(&http.Client{Timeout: 20 * time.Second}), 20 * time.Second, "20s"},
		{"http.Client, equal to a short wait", prebuilt(&http.Client{Timeout: 3 * time.Second}), 3 * time.Second, "3s"},
		{"http.Client, header timeout", prebuilt(&http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 10 * time.Second}}), 20 * time.Second, "10s"},
		{"http.Client, both", prebuilt(&http.Client{Timeout: time.Minute, Transport: &http.Transport{ResponseHeaderTimeout: 10 * time.Second}}), 20 * time.Second, "10s"},
		{"BuildableClient", prebuilt(awshttp.NewBuildableClient().WithTimeout(15 * time.Second)), 20 * time.Second, "15s"},
		{"BuildableClient, header timeout", prebuilt(awshttp.NewBuildableClient().WithTransportOptions(headers(9 * time.Second))), 20 * time.Second, "9s"},
		{"BuildableClient, read timeout", prebuilt(awshttp.NewBuildableClient().WithReadTimeout(15 * time.Second)), 20 * time.Second, "15s"},
		{"AttemptTimeout", own(15 * time.Second), 20 * time.Second, "15s"},
		{"AttemptTimeout, equal", own(5 * time.Second), 5 * time.Second, "5s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				h.connectWith(test.config(h))
				for topic, config := range map[string]watermillsqs.SubscriberConfig{
					"default":   {Queue: watermillsqs.Queue{Wait: test.wait, CreateIfMissing: true}},
					"per-topic": {Queue: watermillsqs.Queue{Wait: time.Second}, Queues: map[string]watermillsqs.Queue{"per-topic": {Wait: test.wait}}},
				} {
					sub := h.subscriber(config)
					_, err := sub.Subscribe(t.Context(), topic)
					require.ErrorIs(t, err, watermillsqs.ErrInvalidConfig, topic)
					assert.ErrorContains(t, err, test.timeout)
					assert.ErrorContains(t, err, test.wait.String())
					assert.ErrorContains(t, err, "Wait")
					assert.ErrorContains(t, err, topic)
					assert.ErrorIs(t, sub.SubscribeInitialize(topic), watermillsqs.ErrInvalidConfig)
				}
				assert.Zero(t, h.service.Count())
			})
		})
	}
}

// An AttemptTimeout that is longer than the wait is accepted, and none does not
// matter.
func TestTimeoutThatExceedsWait(t *testing.T) {
	for _, timeout := range []time.Duration{0, 3*time.Second + 1, 4 * time.Second} {
		bubble(t, func(t *testing.T, h *harness) {
			h.queue("in", nil)
			cfg := h.service.AWSConfig()
			cfg.HTTPClient.(*http.Client).Timeout = timeout
			h.connectWith(watermillsqs.Config{AWS: &cfg})
			_, messages := h.subscribe(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{Wait: 3 * time.Second}}, "in")
			h.none(messages, time.Minute)
			assert.Empty(t, h.failures)
		})
	}
}

func TestConfigIsValidated(t *testing.T) {
	withoutAWSEnvironment(t)
	prebuilt := &aws.Config{Region: "eu-central-1"}
	for _, test := range []struct {
		name   string
		config watermillsqs.Config
		says   []string
	}{
		{"negative AttemptTimeout", watermillsqs.Config{TestCredentials: true, AttemptTimeout: -time.Second}, []string{"AttemptTimeout", "-1s", "negative"}},
		{"TestCredentials and AWS", watermillsqs.Config{AWS: prebuilt, TestCredentials: true}, []string{"TestCredentials", "AWS"}},
		{"endpoint without scheme", watermillsqs.Config{TestCredentials: true, Endpoint: "localhost:9324"}, []string{"Endpoint", `"localhost:9324"`, "http"}},
		{"endpoint of another scheme", watermillsqs.Config{TestCredentials: true, Endpoint: "ftp://localhost"}, []string{"Endpoint", `"ftp://localhost"`, "http"}},
		{"endpoint without host", watermillsqs.Config{TestCredentials: true, Endpoint: "http://"}, []string{"Endpoint", `"http://"`}},
		{"relative endpoint", watermillsqs.Config{TestCredentials: true, Endpoint: "/sqs"}, []string{"Endpoint", `"/sqs"`}},
		{"malformed endpoint", watermillsqs.Config{TestCredentials: true, Endpoint: "http://[::1"}, []string{"Endpoint", `"http://[::1"`}},
		{"endpoint and AWS", watermillsqs.Config{AWS: prebuilt, Endpoint: "nonsense"}, []string{"Endpoint", `"nonsense"`}},
		{"no region", watermillsqs.Config{}, []string{"region", "Config.Region"}},
		{"no region in AWS", watermillsqs.Config{AWS: &aws.Config{}}, []string{"region", "Config.Region"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := watermillsqs.Connect(t.Context(), test.config)
			require.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
			for _, text := range test.says {
				assert.ErrorContains(t, err, text)
			}
		})
	}
	assert.Equal(t, &aws.Config{Region: "eu-central-1"}, prebuilt)

	_, err := watermillsqs.NewPublisher(nil, watermillsqs.PublisherConfig{}, nil)
	assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
	_, err = watermillsqs.NewSubscriber(nil, watermillsqs.SubscriberConfig{}, nil)
	assert.ErrorIs(t, err, watermillsqs.ErrInvalidConfig)
}

// TestCredentials need no region; a configured one is used.
func TestTestCredentials(t *testing.T) {
	withoutAWSEnvironment(t)
	for _, test := range []struct{ environment, config, want string }{
		{"", "", "us-east-1"},
		{"eu-west-3", "", "eu-west-3"},
		{"eu-west-3", "eu-north-1", "eu-north-1"},
	} {
		t.Setenv("AWS_REGION", test.environment)
		var options sqs.Options
		conn, err := watermillsqs.Connect(t.Context(), watermillsqs.Config{
			Region:          test.config,
			TestCredentials: true,
			SQSOptions:      []func(*sqs.Options){func(o *sqs.Options) { options = o.Copy() }},
		})
		require.NoError(t, err)
		assert.Equal(t, test.want, options.Region)
		keys, err := options.Credentials.Retrieve(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "test", keys.AccessKeyID)
		assert.Equal(t, "test", keys.SecretAccessKey)
		require.NoError(t, conn.Close())
	}
}

// queueURLs are the queue URLs in the requests of some actions.
func queueURLs(t *testing.T, service *sqstest.Service, actions ...string) (urls []string) {
	t.Helper()
	for _, call := range service.Calls(actions...) {
		var request struct{ QueueUrl string }
		require.NoError(t, json.Unmarshal(call.Request, &request))
		urls = append(urls, request.QueueUrl)
	}
	return urls
}

// A server often answers with a host name of its own, which the client may not be
// able to reach: its URLs are moved onto the endpoint that is configured, however
// that was done.
func TestQueueURLsAreRebased(t *testing.T) {
	withoutAWSEnvironment(t)
	service := sqstest.New(t)
	_, err := service.CreateQueue("there", nil)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "sqs.internal.example:4566"
		service.ServeHTTP(w, r)
	}))
	defer server.Close()
	test := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
	})
	for name, connect := range map[string]func(t *testing.T) watermillsqs.Config{
		"Config.Endpoint": func(*testing.T) watermillsqs.Config {
			return watermillsqs.Config{Endpoint: server.URL, TestCredentials: true}
		},
		"Config.Endpoint over a path": func(*testing.T) watermillsqs.Config {
			return watermillsqs.Config{Endpoint: server.URL + "/", TestCredentials: true}
		},
		"prebuilt BaseEndpoint": func(*testing.T) watermillsqs.Config {
			return watermillsqs.Config{AWS: &aws.Config{Region: "us-east-1", Credentials: test, BaseEndpoint: aws.String(server.URL)}}
		},
		"environment": func(t *testing.T) watermillsqs.Config {
			t.Setenv("AWS_ENDPOINT_URL_SQS", server.URL)
			return watermillsqs.Config{TestCredentials: true}
		},
		"SQSOptions": func(*testing.T) watermillsqs.Config {
			return watermillsqs.Config{TestCredentials: true, SQSOptions: []func(*sqs.Options){func(o *sqs.Options) {
				o.BaseEndpoint = aws.String(server.URL)
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := watermillsqs.Connect(t.Context(), connect(t))
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			service.ResetCalls()
			pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{CreateIfMissing: true}, nil)
			require.NoError(t, err)
			sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{}, nil)
			require.NoError(t, err)
			created := watermillsqs.DefaultQueueName(t.Name())
			for _, topic := range []string{"there", created} {
				require.NoError(t, pub.Publish(topic, message.NewMessage("1", []byte("x"))))
				require.NoError(t, sub.SubscribeInitialize(topic))
			}
			require.Equal(t, 1, service.Count("CreateQueue"))
			urls := queueURLs(t, service, "SendMessage", "GetQueueAttributes")
			there, made := server.URL+"/"+sqstest.AccountID+"/there", server.URL+"/"+sqstest.AccountID+"/"+created
			assert.Equal(t, []string{there, there, made, made}, urls)
		})
	}
}

// Without a configured endpoint the service's URL is used as it is.
func TestQueueURLsAreKept(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			r.Host = "queue.amazonaws.com"
			return next.RoundTrip(r)
		})
		h.publish("in", "x")
		assert.Equal(t, []string{"https://queue.amazonaws.com/" + sqstest.AccountID + "/in"}, queueURLs(t, h.service, "SendMessage"))
	})
}

// SQSOptions come last, and go to both clients.
func TestSQSOptionsComeLast(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		cfg := h.service.AWSConfig()
		client := &counting{next: cfg.HTTPClient}
		h.connectWith(watermillsqs.Config{
			AWS:      &aws.Config{Region: "eu-west-1", Credentials: cfg.Credentials},
			Endpoint: "http://overridden.test",
			SQSOptions: []func(*sqs.Options){
				func(o *sqs.Options) { o.BaseEndpoint, o.HTTPClient = aws.String("http://first.test"), client },
				func(o *sqs.Options) { o.BaseEndpoint = aws.String("http://last.test") },
			},
		})
		h.publish("in", "x")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		h.next(messages).Ack()
		synctest.Wait()
		assert.EqualValues(t, h.service.Count(), client.calls.Load())
		assert.Equal(t, "last.test", client.host.Load())
		assert.Equal(t, []string{"http://last.test/" + sqstest.AccountID + "/in"}, queueURLs(t, h.service, "SendMessage"))
	})
}
