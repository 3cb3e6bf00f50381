package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// env is what a row works with: clients of one server, and names nobody else uses.
type env struct {
	ctx    context.Context
	sqs    *sqs.Client
	sns    *sns.Client
	wire   *wire
	prefix string
	// exact also compares texts and the HTTP status of every refusal. The texts of other
	// servers are their own; their statuses have one row.
	exact bool

	mu    sync.Mutex // guards what follows
	undo  []func()
	named int
}

// newLocalEnv makes a service of its own in the bubble of the test.
func newLocalEnv(t *testing.T) *env {
	cfg := sqstest.New(t).AWSConfig()
	return newEnv(t.Context(), cfg, cfg.HTTPClient, true)
}

// remoteClient keeps connections for the long polls of parallel rows.
var remoteClient = &http.Client{Transport: hideWriteTo{&http.Transport{MaxIdleConnsPerHost: 64}}}

func newRemoteEnv(t *testing.T, name, endpoint string) *env {
	// A row takes some seconds; one that hangs must not hang the rest.
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	cfg := aws.Config{
		Region:       sqstest.Region,
		BaseEndpoint: aws.String(endpoint),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test", Source: name}, nil
		}),
	}
	return newEnv(ctx, cfg, remoteClient, false)
}

func newEnv(ctx context.Context, cfg aws.Config, client aws.HTTPClient, exact bool) *env {
	e := &env{ctx: ctx, wire: &wire{client: client}, prefix: fmt.Sprintf("contract-%08x", rand.Uint32()), exact: exact}
	cfg.HTTPClient = e.wire
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} } // rows see what one attempt does
	e.sqs, e.sns = sqs.NewFromConfig(cfg), sns.NewFromConfig(cfg)
	return e
}

// name is a name for a queue or topic.
func (e *env) name() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.named++
	return fmt.Sprintf("%s-%d", e.prefix, e.named)
}

// later registers what is to be undone when the row has ended.
func (e *env) later(undo func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.undo = append(e.undo, undo)
}

func (e *env) cleanUp() {
	e.mu.Lock()
	undo := e.undo
	e.mu.Unlock()
	for _, f := range slices.Backward(undo) {
		f()
	}
}

func (e *env) sleep(d time.Duration) { time.Sleep(d) }

// unmet is an expectation that was not met. It is a value to compare with the table of
// deviations, so it must contain nothing that changes from run to run.
type unmet string

func (e *env) failf(format string, args ...any) { panic(unmet(fmt.Sprintf(format, args...))) }

func (e *env) checkf(ok bool, format string, args ...any) {
	if !ok {
		e.failf(format, args...)
	}
}

func (e *env) equal(what string, want, got any) {
	if !reflect.DeepEqual(want, got) {
		e.failf("%s: want %v, got %v", what, want, got)
	}
}

// ok expects success.
func (e *env) ok(what string, err error) {
	if err != nil {
		e.failf("%s: want success, got %s", what, describe(err))
	}
}

// refused expects an error of that Go type or, if it has none, of that code; text is
// part of its message.
func (e *env) refused(what string, err error, name, text string) {
	if got := describe(err); got != name {
		e.failf("%s: want %s, got %s", what, name, got)
	}
	var api smithy.APIError
	if !e.exact || !errors.As(err, &api) {
		return
	}
	if !strings.Contains(api.ErrorMessage(), text) {
		e.failf("%s: want a text with %q, got %q", what, text, api.ErrorMessage())
	}
	if !isModelled(api) {
		e.equal(what+": code", name, api.ErrorCode())
	}
	e.equal(what+": HTTP status", statusOf(name), httpStatus(err))
}

// statusOf is the HTTP status of an error.
func statusOf(name string) int {
	switch name {
	case "PurgeQueueInProgress", "OverLimit":
		return http.StatusForbidden
	case "ReceiptHandleIsInvalid", "ResourceNotFoundException", "NotFound":
		return http.StatusNotFound
	default:
		return http.StatusBadRequest
	}
}

func httpStatus(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

// isModelled tells whether an error has a Go type in service/sqs.
func isModelled(api smithy.APIError) bool {
	kind := reflect.TypeOf(api)
	return kind.Kind() == reflect.Pointer && strings.HasSuffix(kind.Elem().PkgPath(), "sqs/types")
}

// describe names an error: by its Go type in service/sqs, else by its code. The prefixes
// that some servers put before codes have a row of their own, queue/generic-code, so that
// the other rows show what else there is.
func describe(err error) string {
	if err == nil {
		return "success"
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return "no answer in time"
		case strings.Contains(err.Error(), "checksum"):
			return "a wrong checksum"
		case httpStatus(err) >= http.StatusInternalServerError:
			return "a status of the 500s"
		case strings.Contains(err.Error(), "deserialization failed"):
			return "an answer that cannot be read"
		}
		return "no API error: " + err.Error()
	}
	if isModelled(api) {
		return reflect.TypeOf(api).Elem().Name()
	}
	code := strings.TrimPrefix(api.ErrorCode(), "com.amazonaws.sqs#")
	return strings.TrimPrefix(code, "AWS.SimpleQueueService.")
}

// wire is the HTTP client of the SDK. It keeps the last answer.
type wire struct {
	client aws.HTTPClient

	mu     sync.Mutex
	header http.Header
	body   []byte
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	response, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.header, w.body = response.Header, body
	return response, nil
}

func (w *wire) last() (http.Header, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.header, string(w.body)
}

// hideWriteTo hides the WriteTo of request bodies from net/http, as the documentation
// of package sqstest explains.
type hideWriteTo struct{ http.RoundTripper }

func (h hideWriteTo) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		clone := *r
		clone.Body = struct{ io.ReadCloser }{r.Body}
		r = &clone
	}
	return h.RoundTripper.RoundTrip(r)
}

// withJSON changes the members of an SQS request. The SDK for Go leaves out members
// that are 0, which other SDKs send.
func withJSON(change func(members map[string]any)) func(*sqs.Options) {
	return sqs.WithAPIOptions(func(stack *middleware.Stack) error {
		return stack.Serialize.Add(middleware.SerializeMiddlewareFunc("contract", func(
			ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler,
		) (middleware.SerializeOutput, middleware.Metadata, error) {
			request := in.Request.(*smithyhttp.Request)
			raw, err := io.ReadAll(request.GetStream())
			if err != nil {
				return middleware.SerializeOutput{}, middleware.Metadata{}, err
			}
			members := map[string]any{}
			if err := json.Unmarshal(raw, &members); err != nil {
				return middleware.SerializeOutput{}, middleware.Metadata{}, err
			}
			change(members)
			if raw, err = json.Marshal(members); err != nil {
				return middleware.SerializeOutput{}, middleware.Metadata{}, err
			}
			if in.Request, err = request.SetStream(bytes.NewReader(raw)); err != nil {
				return middleware.SerializeOutput{}, middleware.Metadata{}, err
			}
			return next.HandleSerialize(ctx, in)
		}), middleware.After)
	})
}

// withHeader adds a header to a request.
func withHeader(name, value string) func(*sqs.Options) {
	return sqs.WithAPIOptions(smithyhttp.AddHeaderValue(name, value))
}
