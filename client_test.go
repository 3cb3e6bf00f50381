package watermillsqs_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

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
				assert.Empty(t, h.receiveFailures())
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
		assert.Len(t, h.receiveFailures(), 1)
	})
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
			assert.Empty(t, h.receiveFailures())
		})
	}
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
