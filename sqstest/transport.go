package sqstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// maxRequestBody bounds what is read of a request. A message of 1 MiB that needs the
// longest escapes of JSON takes 6 MiB.
const maxRequestBody = 8 << 20

const contentType = "application/x-amz-json-1.0"

// AWSConfig is a configuration whose SQS and SNS clients call the service in process: static
// credentials, [Region], and the SDK's own retries.
func (s *Service) AWSConfig() aws.Config {
	return aws.Config{
		Region: Region,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test", Source: "sqstest"}, nil
		}),
		HTTPClient: &http.Client{Transport: hideWriteTo{s.RoundTripper()}},
	}
}

// Client is a client on [Service.AWSConfig].
func (s *Service) Client() *sqs.Client { return sqs.NewFromConfig(s.AWSConfig()) }

// SNSClient is an SNS client on [Service.AWSConfig].
func (s *Service) SNSClient() *sns.Client { return sns.NewFromConfig(s.AWSConfig()) }

// hideWriteTo hides the WriteTo of request bodies from net/http: see the package
// documentation. In process, where net/http writes nothing, it makes no difference.
type hideWriteTo struct{ http.RoundTripper }

func (t hideWriteTo) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		clone := *r
		clone.Body = struct{ io.ReadCloser }{r.Body}
		r = &clone
	}
	return t.RoundTripper.RoundTrip(r)
}

// RoundTripper carries requests to the service on the goroutine of the caller, with no
// sockets. It honours the context of the request.
func (s *Service) RoundTripper() http.RoundTripper { return inProcess{s} }

type inProcess struct{ service *Service }

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r)
	if r.Body != nil {
		var err error
		x.body, x.oversized, err = readBody(r.Body, r.ContentLength)
		_ = r.Body.Close() // a RoundTripper closes it in any case; it has been read
		if err != nil {
			return nil, err
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := t.service.serve(r.Context(), x)
	switch answer.fate {
	case fateGone:
		return nil, r.Context().Err()
	case fateBroken:
		return nil, io.ErrUnexpectedEOF
	case fateReset:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	response := &http.Response{
		Status:        strconv.Itoa(answer.status) + " " + http.StatusText(answer.status),
		StatusCode:    answer.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        make(http.Header, 5),
		Body:          io.NopCloser(bytes.NewReader(answer.body)),
		ContentLength: int64(len(answer.body)),
		Request:       r,
	}
	answer.header(response.Header)
	response.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return response, nil
}

// ServeHTTP serves the protocols of SQS and SNS to any HTTP client.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r)
	var err error
	if x.body, x.oversized, err = readBody(r.Body, r.ContentLength); err != nil {
		return // the client has gone while it sent its request
	}
	answer := s.serve(r.Context(), x)
	switch answer.fate {
	case fateGone:
		return
	case fateBroken, fateReset:
		breakConnection(w, answer.fate == fateReset)
		return
	}
	answer.header(w.Header())
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // fails only if the client has gone
}

// breakConnection ends the connection without an answer.
func breakConnection(w http.ResponseWriter, reset bool) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // makes Close send a reset; without it the end is only less rude
		}
		_ = conn.Close()
		return
	}
	panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way for connections that cannot be hijacked
}

func exchangeOf(r *http.Request) exchange {
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if r.URL != nil && r.URL.Host != "" { // only in the request of a client
		scheme = r.URL.Scheme
		if host == "" {
			host = r.URL.Host
		}
	}
	return exchange{
		method:      r.Method,
		target:      r.Header.Get("X-Amz-Target"),
		form:        isForm(r.Header.Get("Content-Type")),
		base:        scheme + "://" + host,
		traceHeader: r.Header.Get("X-Amzn-Trace-Id"),
	}
}

// readBody reads a request's body up to the bound.
func readBody(body io.Reader, length int64) (b []byte, oversized bool, err error) {
	if length > maxRequestBody {
		return nil, true, nil
	}
	if length >= 0 {
		b = make([]byte, length)
		if _, err := io.ReadFull(body, b); err != nil {
			return nil, false, err
		}
		return b, false, nil
	}
	b, err = io.ReadAll(io.LimitReader(body, maxRequestBody+1))
	return b, len(b) > maxRequestBody, err
}

// Listen serves on a loopback port and returns the base endpoint for clients. The first
// call starts the server, which Close stops.
func (s *Service) Listen() (endpoint string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", errors.New("sqstest: the service is closed")
	}
	if s.server != nil {
		return s.endpoint, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nothing to wait for on the loopback
	if err != nil {
		return "", err
	}
	server, serving := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}, make(chan struct{})
	go func() {
		defer close(serving)
		_ = server.Serve(listener) // returns when Close closes the server
	}()
	s.server, s.serving, s.endpoint = server, serving, "http://"+listener.Addr().String()
	return s.endpoint, nil
}
