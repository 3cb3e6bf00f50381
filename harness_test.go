package watermillsqs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// harness is a service, a connection to it, and a look at what the library says: to
// its hooks, and to its log. bubble and realTime make one.
type harness struct {
	lying   bool // the service does not tell the truth, so the manners of its clients cannot be judged
	t       *testing.T
	service *sqstest.Service
	conn    *watermillsqs.Connection
	log     *capturedLog

	mu          sync.Mutex // guards what the hooks have said
	settlements []watermillsqs.Settlement
	extensions  []watermillsqs.Extension
	losses      []watermillsqs.LeaseLoss
	failures    []watermillsqs.ReceiveFailure
}

// bubble runs a test in a synctest bubble, where time is fake: waiting costs
// nothing and every wait is exact.
func bubble(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { realTime(t, test) })
}

// realTime runs a test outside a bubble. A closing Watermill router needs it: it
// waits for its handlers under a mutex that they also want, and fake time stands
// still while a goroutine waits for a mutex.
func realTime(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Helper()
	h := &harness{t: t, service: sqstest.New(t), log: newCapturedLog()}
	cfg := h.service.AWSConfig()
	h.conn = watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg})
	require.NoError(t, h.conn.Connect(t.Context()))
	defer func() { require.NoError(t, h.conn.Close()) }()
	test(t, h)
	if !h.lying {
		h.service.CheckManners(t) // whatever else it did
	}
}

// Publishers, subscribers, and what they carry.

func (h *harness) publisher(config watermillsqs.PublisherConfig) *watermillsqs.Publisher {
	h.t.Helper()
	pub, err := watermillsqs.NewPublisher(h.conn, config, h.log)
	require.NoError(h.t, err)
	return pub
}

func (h *harness) subscriber(config watermillsqs.SubscriberConfig) *watermillsqs.Subscriber {
	h.t.Helper()
	config.Hooks = h.hooks()
	sub, err := watermillsqs.NewSubscriber(h.conn, config, h.log)
	require.NoError(h.t, err)
	return sub
}

func (h *harness) subscribe(config watermillsqs.SubscriberConfig, topic string) (*watermillsqs.Subscriber, <-chan *message.Message) {
	h.t.Helper()
	sub := h.subscriber(config)
	messages, err := sub.Subscribe(context.Background(), topic)
	require.NoError(h.t, err)
	return sub, messages
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

// publish sends one message per payload.
func (h *harness) publish(topic string, payloads ...string) {
	h.t.Helper()
	messages := make([]*message.Message, len(payloads))
	for i, payload := range payloads {
		messages[i] = message.NewMessage(watermill.NewUUID(), []byte(payload))
	}
	require.NoError(h.t, h.publisher(watermillsqs.PublisherConfig{}).Publish(topic, messages...))
}

// numbered are messages whose UUID and payload are their number.
func numbered(n int) []*message.Message {
	messages := make([]*message.Message, n)
	for i := range messages {
		messages[i] = message.NewMessage(fmt.Sprint(i), []byte(fmt.Sprint(i)))
	}
	return messages
}

// next is the next message of a subscription, within a minute of fake time.
func (h *harness) next(messages <-chan *message.Message) *message.Message {
	h.t.Helper()
	return h.within(messages, time.Minute)
}

func (h *harness) within(messages <-chan *message.Message, limit time.Duration) *message.Message {
	h.t.Helper()
	select {
	case msg, open := <-messages:
		require.True(h.t, open, "the channel is closed")
		return msg
	case <-time.After(limit):
		h.t.Fatalf("no message within %v", limit)
		return nil
	}
}

// none asserts that no message comes for a time.
func (h *harness) none(messages <-chan *message.Message, limit time.Duration) {
	h.t.Helper()
	select {
	case msg, open := <-messages:
		if open {
			h.t.Fatalf("unexpected message %q", msg.Payload)
		}
		h.t.Fatal("the channel is closed")
	case <-time.After(limit):
	}
}

// Connections.

// connectWith replaces the connection of the harness, which is closed with the test.
func (h *harness) connectWith(config watermillsqs.Config) {
	h.t.Helper()
	conn, err := watermillsqs.Connect(h.t.Context(), config)
	require.NoError(h.t, err)
	h.conn = conn
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

// Between the SDK and the service.

// intercept replaces the connection by one whose attempts go through a function, where
// next carries them out. As in the clients that the library builds, an attempt that
// hangs is given up after 25 s.
func (h *harness) intercept(attempt func(next http.RoundTripper, r *http.Request) (*http.Response, error)) {
	h.t.Helper()
	cfg := h.service.AWSConfig()
	next := h.service.RoundTripper()
	cfg.HTTPClient = &http.Client{
		Transport: transport(func(r *http.Request) (*http.Response, error) { return attempt(next, r) }),
		Timeout:   25 * time.Second,
	}
	h.connectWith(watermillsqs.Config{AWS: &cfg})
}

// transport is a RoundTripper made of a function.
type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// actionOf is the SQS action of a request.
func actionOf(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
}

// passThrough changes no attempt, so that what intercept adds is its timeout.
func passThrough(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	return next.RoundTrip(r)
}

// slowly makes one action take a while, as seen by the client.
func (h *harness) slowly(action string, d time.Duration) {
	h.t.Helper()
	h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if actionOf(r) == action {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return next.RoundTrip(r)
	})
}

// rewriteAnswers replaces the bodies of the answers to some actions.
func (h *harness) rewriteAnswers(to func(body string) string, actions ...string) {
	h.t.Helper()
	h.intercept(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && slices.Contains(actions, actionOf(r)) {
			response.Body, response.ContentLength = rewritten(response.Body, to)
		}
		return response, err
	})
}

// rewriteRequest replaces the body of a request.
func rewriteRequest(r *http.Request, to func(body string) string) {
	r.Body, r.ContentLength = rewritten(r.Body, to)
}

func rewritten(body io.Reader, to func(string) string) (io.ReadCloser, int64) {
	b, err := io.ReadAll(body)
	if err != nil {
		panic(err)
	}
	text := to(string(b))
	return io.NopCloser(strings.NewReader(text)), int64(len(text))
}

// The service, past the library.

// queue makes a queue past the API.
func (h *harness) queue(name string, attributes map[string]string) *sqstest.Queue {
	h.t.Helper()
	queue, err := h.service.CreateQueue(name, attributes)
	require.NoError(h.t, err)
	return queue
}

// deleteQueue deletes a queue by the API, past the connection.
func (h *harness) deleteQueue(name string) {
	h.t.Helper()
	_, err := h.service.Client().DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: aws.String(h.service.Queue(name).URL())})
	require.NoError(h.t, err)
}

func setAttribute(h *harness, q *sqstest.Queue, name, value string) {
	h.t.Helper()
	_, err := h.service.Client().SetQueueAttributes(h.t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: aws.String(q.URL()), Attributes: map[string]string{name: value},
	})
	require.NoError(h.t, err)
}

func redrivePolicy(dlq *sqstest.Queue, maxReceiveCount int) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, dlq.ARN(), maxReceiveCount)
}

func changeVisibilityInput(queueURL, receipt string, seconds int32) *sqs.ChangeMessageVisibilityInput {
	return &sqs.ChangeMessageVisibilityInput{
		QueueUrl: aws.String(queueURL), ReceiptHandle: aws.String(receipt), VisibilityTimeout: seconds,
	}
}

// What the service has seen.

func (h *harness) deletes() int {
	return h.service.Count("DeleteMessage", "DeleteMessageBatch")
}

// changes are the visibility timeouts that were asked for, in order.
func (h *harness) changes() (seconds []int32) {
	for _, call := range h.service.Calls("ChangeMessageVisibility", "ChangeMessageVisibilityBatch") {
		seconds = append(seconds, call.VisibilityTimeouts...)
	}
	return seconds
}

// receives are the instants of the receives so far, since start.
func (h *harness) receives(start time.Time) (at []time.Duration) {
	for _, call := range h.service.Calls("ReceiveMessage") {
		at = append(at, call.At.Sub(start))
	}
	return at
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

// entriesOf are the sizes of the send calls so far, in messages.
func entriesOf(service *sqstest.Service) (sizes []int) {
	for _, call := range service.Calls("SendMessage", "SendMessageBatch") {
		sizes = append(sizes, call.Entries)
	}
	return sizes
}

// bodies are what the queue holds, in the order it was sent.
func bodies(q *sqstest.Queue) (bodies []string) {
	for _, m := range q.Messages() {
		bodies = append(bodies, m.Body)
	}
	return bodies
}

// What the hooks have said.

func (h *harness) hooks() watermillsqs.Hooks {
	return watermillsqs.Hooks{
		Settled:       record(h, &h.settlements),
		Extended:      record(h, &h.extensions),
		LeaseLost:     record(h, &h.losses),
		ReceiveFailed: record(h, &h.failures),
	}
}

func record[T any](h *harness, list *[]T) func(T) {
	return func(what T) {
		h.mu.Lock()
		defer h.mu.Unlock()
		*list = append(*list, what)
	}
}

func recorded[T any](h *harness, list *[]T) []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(*list)
}

func (h *harness) settled() []watermillsqs.Settlement { return recorded(h, &h.settlements) }

func (h *harness) lost() []watermillsqs.LeaseLoss { return recorded(h, &h.losses) }

func (h *harness) receiveFailures() []watermillsqs.ReceiveFailure { return recorded(h, &h.failures) }

// What Publish has said, about numbered messages.

// failedOf asserts that an error is a PublishError that names just these messages of
// a call with numbered ones, and returns it.
func failedOf(t *testing.T, err error, count int, indexes ...int) *watermillsqs.PublishError {
	t.Helper()
	var failed *watermillsqs.PublishError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, count, failed.Messages)
	got := []int{}
	for _, m := range failed.Failed {
		got = append(got, m.Index)
		assert.Equal(t, fmt.Sprint(m.Index), m.UUID)
		assert.Error(t, m.Err)
		assert.ErrorIs(t, err, m.Err)
	}
	require.Equal(t, indexes, got)
	return failed
}

// numbers are the bodies of numbered messages, those from i to j.
func numbers(i, j int) (bodies []string) {
	for ; i < j; i++ {
		bodies = append(bodies, fmt.Sprint(i))
	}
	return bodies
}

func span(i, j int) (indexes []int) {
	for ; i < j; i++ {
		indexes = append(indexes, i)
	}
	return indexes
}

// bodyIs makes a fault hit the message with a body.
func bodyIs(bodies ...string) func(sqstest.MessageView) bool {
	return func(m sqstest.MessageView) bool {
		return slices.Contains(bodies, m.Body)
	}
}

// What was logged.

// capturedLog is a logger that remembers.
type capturedLog struct {
	mu      sync.Mutex
	entries []string
	more    chan struct{} // closed and replaced with each entry
}

func newCapturedLog() *capturedLog { return &capturedLog{more: make(chan struct{})} }

// matching are the entries that contain text.
func (l *capturedLog) matching(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, entry := range l.entries {
		if strings.Contains(entry, text) {
			found = append(found, entry)
		}
	}
	return found
}

func (l *capturedLog) add(level, msg string, err error, fields watermill.LogFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, fmt.Sprintf("%s %s err=%v %v", level, msg, err, fields))
	close(l.more)
	l.more = make(chan struct{})
}

func (l *capturedLog) Error(msg string, err error, fields watermill.LogFields) {
	l.add("ERROR", msg, err, fields)
}
func (l *capturedLog) Info(msg string, fields watermill.LogFields)  { l.add("INFO", msg, nil, fields) }
func (l *capturedLog) Debug(msg string, fields watermill.LogFields) { l.add("DEBUG", msg, nil, fields) }
func (l *capturedLog) Trace(msg string, fields watermill.LogFields) { l.add("TRACE", msg, nil, fields) }

func (l *capturedLog) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return &logWith{l: l, fields: fields}
}

type logWith struct {
	l      *capturedLog
	fields watermill.LogFields
}

func (w *logWith) Error(msg string, err error, fields watermill.LogFields) {
	w.l.Error(msg, err, w.fields.Add(fields))
}
func (w *logWith) Info(msg string, fields watermill.LogFields)  { w.l.Info(msg, w.fields.Add(fields)) }
func (w *logWith) Debug(msg string, fields watermill.LogFields) { w.l.Debug(msg, w.fields.Add(fields)) }
func (w *logWith) Trace(msg string, fields watermill.LogFields) { w.l.Trace(msg, w.fields.Add(fields)) }
func (w *logWith) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return &logWith{l: w.l, fields: w.fields.Add(fields)}
}
