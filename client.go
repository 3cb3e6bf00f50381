package watermillsqs

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// maxPollers bounds the long polls that one connection has under way at a time, but for
// one that every subscription needs; the poll client's pool keeps as many idle
// connections, so that a poll never has to dial again.
const maxPollers = 64

// callConnections is how many idle connections the pool for all other calls keeps.
const callConnections = 256

// clients are the two SDK clients of a connection. Long polls occupy a connection
// for up to 20 s each, so they have an HTTP client and a pool of their own and
// never starve sends and settlements.
type clients struct {
	calls *sqs.Client
	polls *sqs.Client

	// freePolls is how many further polls the pool carries. Every subscription takes
	// one, so it can be negative.
	freePolls atomic.Int64

	// pollTimeout is the per-attempt timeout of polls, 0 if there is none or it
	// cannot be known.
	pollTimeout time.Duration
	endpoint    *url.URL // configured endpoint, nil if the SDK's own
	region      string
	transports  []*http.Transport // built here, closed with the connection
}

// newHTTPClient derives a client with its own pool from the one that the SDK's
// configuration made, keeping its certificates and proxy.
func newHTTPClient(base *awshttp.BuildableClient, timeout time.Duration, idle int) (*http.Client, *http.Transport) {
	transport := base.GetTransport()
	transport.MaxIdleConns = 0 // the limit per host decides
	transport.MaxIdleConnsPerHost = idle
	return &http.Client{
		Transport: transport,
		// A timeout of the client, not of a context, is what the SDK's retryer
		// takes for a failed attempt and tries again.
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, transport
}

// takePoll reports whether another poll may be kept under way, and counts it. A
// subscription's first is counted in any case.
func (c *clients) takePoll(first bool) bool {
	if left := c.freePolls.Add(-1); left < 0 && !first {
		c.freePolls.Add(1)
		return false
	}
	return true
}

func (c *clients) putPoll() { c.freePolls.Add(1) }

func (c *clients) closeIdle() {
	for _, transport := range c.transports {
		transport.CloseIdleConnections()
	}
}

// guardedClient wraps the HTTP client of an SDK client.
//
// It hides the request body's WriteTo: the SDK closes the body as soon as the
// response header is there, its closed body reports an error to net/http's
// trailing copy, and net/http then tears down the connection under the response.
// The SDK retries, and the messages in the torn ReceiveMessage answer stay
// invisible for a whole visibility timeout.
//
// It also notes when each attempt is sent, see withAttempt.
type guardedClient struct {
	aws.HTTPClient
}

func (c guardedClient) Do(r *http.Request) (*http.Response, error) {
	if attempt, ok := r.Context().Value(attemptKey{}).(*attempt); ok {
		attempt.sent = time.Now()
		attempt.count++
		if attempt.written != nil {
			defer time.AfterFunc(writeTime, attempt.written).Stop()
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { attempt.written() },
			}))
		}
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}

// writeTime is after how long an attempt is taken to be on the wire that is not answered,
// and of which the HTTP client has not said that it is written.
const writeTime = 10 * time.Millisecond

// attempt is the latest attempt of one call.
type attempt struct {
	sent  time.Time // read it, and count, only after the call has returned
	count int
	// written is called when an attempt is on the wire, perhaps more than once, but not
	// if it is answered before; may be nil.
	written func()
}

type attemptKey struct{}

// withAttempt returns a context for one call whose attempts are noted.
func withAttempt(ctx context.Context, a *attempt) context.Context {
	a.sent = time.Now()
	return context.WithValue(ctx, attemptKey{}, a)
}

// connectionLimit is how many connections to a host an HTTP client may have, 0 for any
// number or unknown.
func connectionLimit(client aws.HTTPClient) int {
	switch c := client.(type) {
	case guardedClient:
		return connectionLimit(c.HTTPClient)
	case *awshttp.BuildableClient:
		return c.GetTransport().MaxConnsPerHost
	case *http.Client:
		if transport, ok := c.Transport.(*http.Transport); ok {
			return transport.MaxConnsPerHost
		}
	}
	return 0
}

// clientTimeout is the time after which an HTTP client gives up an attempt that is
// not answered, 0 for never or unknown.
func clientTimeout(client aws.HTTPClient) time.Duration {
	var limits []time.Duration
	switch c := client.(type) {
	case guardedClient:
		return clientTimeout(c.HTTPClient)
	case *awshttp.BuildableClient:
		read, _ := c.GetReadTimeout()
		limits = []time.Duration{c.GetTimeout(), c.GetTransport().ResponseHeaderTimeout, read}
	case *http.Client:
		limits = []time.Duration{c.Timeout}
		if transport, ok := c.Transport.(*http.Transport); ok {
			limits = append(limits, transport.ResponseHeaderTimeout)
		}
	}
	var shortest time.Duration
	for _, limit := range limits {
		if limit > 0 && (shortest == 0 || limit < shortest) {
			shortest = limit
		}
	}
	return shortest
}
