package watermillsqs

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

const (
	defaultAttemptTimeout = 25 * time.Second
	testRegion            = "us-east-1"
)

// Config says how to reach SQS. It is plain data: nothing is loaded or called
// before [Connection.Connect].
type Config struct {
	// AWS is a prebuilt configuration. It is kept as it is, HTTP client, timeouts
	// and retryer included, save for Region and Endpoint where those are set here.
	// Without an HTTP client of its own it gets the one that this library builds.
	//
	// Default: nil, the SDK's default chain (environment, shared files, container
	// and instance roles).
	AWS *aws.Config

	// Region overrides the region of the default chain or of AWS.
	Region string

	// Endpoint overrides the SQS endpoint, as an absolute http or https URL. Queue
	// URLs that the service returns are moved onto it.
	//
	// Default: the SDK's endpoint for the region, or what AWS_ENDPOINT_URL_SQS says.
	Endpoint string

	// TestCredentials uses fixed credentials ("test"/"test"), and the region
	// us-east-1 where none is configured: for local servers that check neither.
	// Not together with AWS.
	TestCredentials bool

	// SQSOptions are applied to the SQS clients that the connection builds, last.
	SQSOptions []func(*sqs.Options)

	// AttemptTimeout is how long one attempt of one call may take before the SDK
	// gives it up and tries again. It must be longer than the longest
	// [Queue].Wait. It does not apply to a prebuilt AWS configuration that brings
	// an HTTP client.
	//
	// Default: 25 s. Negative is refused.
	AttemptTimeout time.Duration

	// Called is called after every call of the SQS API that the connection made, from
	// the goroutine that made it: it must be quick and safe for concurrent use.
	// [CallCounter] has a method for it. Default: nil.
	Called func(Call)
}

// A Connection holds the SQS clients that publishers and subscribers share, knows
// the queues that they have resolved, and the subscriptions that are open.
//
// It is safe for concurrent use.
type Connection struct {
	config   Config
	queues   queueCache
	outboxes outboxes
	publish  sync.WaitGroup // Publish calls; added to under mu, and only while they are allowed

	mu            sync.RWMutex // guards what follows; never held during a call
	state         connectionState
	connecting    chan struct{} // closed when the Connect under way has ended
	clients       *clients
	subscriptions map[drainer]struct{}
	inFlight      map[string]*inFlight // by the path of the queue's URL
	idleEpoch     uint64               // how often the last subscription has ended
	closed        chan struct{}        // closed when Close has finished
}

// drainer is what a connection knows of a subscription.
type drainer interface {
	end()                     // begins the drain; idempotent
	drained() <-chan struct{} // closed when nothing of it runs any more
}

type connectionState int

const (
	stateNew connectionState = iota
	stateConnecting
	stateConnected
	stateClosing // refuses subscriptions, still publishes
	stateClosed
)

// NewConnection returns a connection that is not connected yet. It does no I/O:
// publishers, subscribers and a whole router can be built on it before Connect.
func NewConnection(config Config) *Connection {
	return &Connection{
		config:        config,
		subscriptions: make(map[drainer]struct{}),
		inFlight:      make(map[string]*inFlight),
		closed:        make(chan struct{}),
	}
}

// Connect returns a connected [Connection]: [NewConnection], then
// [Connection.Connect].
func Connect(ctx context.Context, config Config) (*Connection, error) {
	c := NewConnection(config)
	if err := c.Connect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Connect loads the AWS configuration and builds the SQS clients. It makes no SQS
// call and does not resolve credentials: wrong ones show at the first
// subscription, when it looks up its queue.
//
// It returns an error that wraps [ErrInvalidConfig] for a field of [Config] that
// is out of range, and one that wraps [ErrNotConnected] after Close. On a
// connection that is already connected it does nothing. After a failure it can be
// called again.
func (c *Connection) Connect(ctx context.Context) error {
	for {
		c.mu.Lock()
		switch c.state {
		case stateConnected:
			c.mu.Unlock()
			return nil
		case stateClosing, stateClosed:
			c.mu.Unlock()
			return errConnectionClosed
		case stateConnecting:
			under := c.connecting
			c.mu.Unlock()
			select {
			case <-under:
				continue
			case <-ctx.Done():
				return fmt.Errorf("watermillsqs: connect: %w", context.Cause(ctx))
			}
		}
		c.state = stateConnecting
		done := make(chan struct{})
		c.connecting = done
		c.mu.Unlock()

		clients, err := c.config.load(ctx)

		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(done)
		if c.state != stateConnecting { // closed meanwhile
			if clients != nil {
				clients.closeIdle()
			}
			return errConnectionClosed
		}
		if err != nil {
			c.state = stateNew
			return err
		}
		c.state, c.clients = stateConnected, clients
		return nil
	}
}

var errConnectionClosed = fmt.Errorf("watermillsqs: the connection is closed: %w", ErrNotConnected)

// Close ends the connection: it refuses new subscriptions, closes the open ones as
// [Subscriber.Close] does, waits for them, from then on refuses publishes, and waits
// for those that are under way, each up to its PublishTimeout. It is idempotent; every
// call returns when the connection is closed.
func (c *Connection) Close() error {
	c.mu.Lock()
	if c.state == stateClosing || c.state == stateClosed {
		c.mu.Unlock()
		<-c.closed
		return nil
	}
	c.state = stateClosing
	open := make([]drainer, 0, len(c.subscriptions))
	for s := range c.subscriptions {
		open = append(open, s)
	}
	c.mu.Unlock()

	for _, s := range open {
		s.end()
	}
	for _, s := range open {
		<-s.drained()
	}

	c.mu.Lock()
	c.state = stateClosed
	clients := c.clients
	c.mu.Unlock()
	c.publish.Wait()
	c.outboxes.wait()
	if clients != nil {
		clients.closeIdle()
	}
	close(c.closed)
	return nil
}

// beginPublish is forPublish for a call that Close waits for, until endPublish.
func (c *Connection) beginPublish() (*clients, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	clients, err := c.publishClients()
	if err == nil {
		c.publish.Add(1)
	}
	return clients, err
}

func (c *Connection) endPublish() { c.publish.Done() }

// forPublish returns the clients as long as publishing is allowed: until the last
// drain has ended.
func (c *Connection) forPublish() (*clients, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.publishClients()
}

// publishClients is forPublish with the mutex held.
func (c *Connection) publishClients() (*clients, error) {
	switch c.state {
	case stateConnected:
		return c.clients, nil
	case stateClosing:
		if c.clients != nil {
			return c.clients, nil
		}
		return nil, errConnectionClosed
	case stateClosed:
		return nil, errConnectionClosed
	default:
		return nil, fmt.Errorf("watermillsqs: Connect has not been called or has not succeeded: %w", ErrNotConnected)
	}
}

// forSubscribe returns the clients as long as subscribing is allowed.
func (c *Connection) forSubscribe() (*clients, error) {
	c.mu.Lock()
	closing := c.state == stateClosing
	c.mu.Unlock()
	if closing {
		return nil, errConnectionClosed
	}
	return c.forPublish()
}

// add registers a subscription, from before its first call on, so that Close
// always waits for it.
func (c *Connection) add(s drainer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case stateConnected:
		c.subscriptions[s] = struct{}{}
		return nil
	case stateClosing, stateClosed:
		return errConnectionClosed
	default:
		return fmt.Errorf("watermillsqs: Connect has not been called or has not succeeded: %w", ErrNotConnected)
	}
}

func (c *Connection) remove(s drainer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subscriptions, s)
	if len(c.subscriptions) == 0 {
		c.idleEpoch++
	}
}

// closeMark is taken when a publisher is closed: its Close takes effect at once
// when no subscription is open or draining, and else when the last one has ended,
// since a router closes a handler's publisher while other handlers that share it
// are still draining.
type closeMark struct {
	epoch uint64
	now   bool
}

func (c *Connection) markClose() closeMark {
	c.mu.Lock()
	defer c.mu.Unlock()
	return closeMark{epoch: c.idleEpoch, now: len(c.subscriptions) == 0}
}

func (c *Connection) inEffect(m closeMark) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return m.now || c.idleEpoch != m.epoch
}

// hold returns the register of what this connection has in flight from a queue, for
// one subscription, until unhold.
func (c *Connection) hold(queue *boundQueue) *inFlight {
	key := queue.path()
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.inFlight[key]
	if f == nil {
		f = newInFlight(key)
		c.inFlight[key] = f
	}
	f.subscriptions++
	return f
}

// unhold drops a register that nobody uses and that remembers nothing.
func (c *Connection) unhold(f *inFlight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.subscriptions--
	if f.subscriptions == 0 && f.isEmpty() {
		delete(c.inFlight, f.queuePath)
	}
}

func (config Config) validate() error {
	if config.AttemptTimeout < 0 {
		return fmt.Errorf("%w: Config.AttemptTimeout is %v, must not be negative (0 is the default, %v)",
			ErrInvalidConfig, config.AttemptTimeout, defaultAttemptTimeout)
	}
	if config.AWS != nil && config.TestCredentials {
		return fmt.Errorf("%w: Config.TestCredentials is set together with Config.AWS, whose credentials are kept as they are", ErrInvalidConfig)
	}
	if config.Endpoint != "" {
		u, err := url.Parse(config.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%w: Config.Endpoint is %q, must be an absolute http or https URL", ErrInvalidConfig, config.Endpoint)
		}
	}
	return nil
}

// load builds the clients. It is all the I/O that Connect does.
func (config Config) load(ctx context.Context) (*clients, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	timeout := config.AttemptTimeout
	if timeout == 0 {
		timeout = defaultAttemptTimeout
	}

	var loaded aws.Config
	var base *awshttp.BuildableClient // set where we build the HTTP clients
	if config.AWS != nil {
		loaded = config.AWS.Copy()
		if loaded.HTTPClient == nil {
			base = awshttp.NewBuildableClient()
		}
	} else {
		var options []func(*awsconfig.LoadOptions) error
		if config.Region != "" { // also for the credential providers that make calls
			options = append(options, awsconfig.WithRegion(config.Region))
		}
		if config.TestCredentials {
			options = append(options,
				awsconfig.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("test", "test", "")),
				awsconfig.WithDefaultRegion(testRegion))
		}
		var err error
		loaded, err = awsconfig.LoadDefaultConfig(ctx, options...)
		if err != nil {
			return nil, fmt.Errorf("watermillsqs: load the AWS configuration: %w", err)
		}
		var ok bool
		if base, ok = loaded.HTTPClient.(*awshttp.BuildableClient); !ok {
			base = awshttp.NewBuildableClient()
		}
	}
	if config.Region != "" {
		loaded.Region = config.Region
	}
	if loaded.Region == "" {
		return nil, fmt.Errorf("%w: no AWS region: set Config.Region, AWS_REGION or the region of the shared configuration", ErrInvalidConfig)
	}

	result := &clients{region: loaded.Region}
	build := func(idle int) *sqs.Client {
		options := func(o *sqs.Options) {
			// One bad body would make the SDK discard a whole receive; each
			// message is verified here instead, see checkBody.
			o.DisableMessageChecksumValidation = true
			if config.Endpoint != "" {
				o.BaseEndpoint = aws.String(config.Endpoint)
			}
			if base != nil {
				client, transport := newHTTPClient(base, timeout, idle)
				result.transports = append(result.transports, transport)
				o.HTTPClient = client
			}
			for _, option := range config.SQSOptions {
				option(o)
			}
			o.HTTPClient = guardedClient{o.HTTPClient}
			if config.Called != nil {
				observe(config.Called)(o)
			}
		}
		return sqs.NewFromConfig(loaded, options)
	}
	result.calls = build(callConnections)
	result.polls = build(maxPollers)

	resolved := result.polls.Options()
	result.pollTimeout = clientTimeout(resolved.HTTPClient)
	polls := int64(maxPollers)
	if limit := connectionLimit(resolved.HTTPClient); limit > 0 {
		polls = min(polls, int64(limit/2)) // the other half is for sends and settlements
	}
	result.freePolls.Store(polls)
	if resolved.BaseEndpoint != nil {
		endpoint, err := url.Parse(*resolved.BaseEndpoint)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: the SQS endpoint %q is not a URL", ErrInvalidConfig, *resolved.BaseEndpoint), err)
		}
		result.endpoint = endpoint
	}
	return result, nil
}
