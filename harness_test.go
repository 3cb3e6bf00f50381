package watermillsqs_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// harness is a service, a connection to it, and a look at what the library says.
// It is made inside a synctest bubble, see bubble.
type harness struct {
	t       *testing.T
	service *sqstest.Service
	conn    *watermillsqs.Connection
	log     *capturedLog

	mu          sync.Mutex
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
}

// queue makes a queue past the API.
func (h *harness) queue(name string, attributes map[string]string) *sqstest.Queue {
	h.t.Helper()
	queue, err := h.service.CreateQueue(name, attributes)
	require.NoError(h.t, err)
	return queue
}

func (h *harness) hooks() watermillsqs.Hooks {
	return watermillsqs.Hooks{
		Settled: func(s watermillsqs.Settlement) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.settlements = append(h.settlements, s)
		},
		Extended: func(e watermillsqs.Extension) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.extensions = append(h.extensions, e)
		},
		LeaseLost: func(l watermillsqs.LeaseLoss) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.losses = append(h.losses, l)
		},
		ReceiveFailed: func(f watermillsqs.ReceiveFailure) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.failures = append(h.failures, f)
		},
	}
}

func (h *harness) settled() []watermillsqs.Settlement {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]watermillsqs.Settlement(nil), h.settlements...)
}

func (h *harness) lost() []watermillsqs.LeaseLoss {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]watermillsqs.LeaseLoss(nil), h.losses...)
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

func (h *harness) publisher(config watermillsqs.PublisherConfig) *watermillsqs.Publisher {
	h.t.Helper()
	pub, err := watermillsqs.NewPublisher(h.conn, config, h.log)
	require.NoError(h.t, err)
	return pub
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

// settlementCalls are the deletes and visibility changes that the service has seen.
func (h *harness) settlementCalls() []sqstest.Call {
	return h.service.Calls("DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch")
}

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

// capturedLog is a logger that remembers.
type capturedLog struct {
	mu      sync.Mutex
	entries []string
	more    chan struct{} // closed and replaced with each entry
}

func newCapturedLog() *capturedLog { return &capturedLog{more: make(chan struct{})} }

// await returns when an entry has been written that contains text.
func (l *capturedLog) await(text string) {
	for {
		l.mu.Lock()
		more := l.more
		l.mu.Unlock()
		if len(l.matching(text)) > 0 {
			return
		}
		<-more
	}
}

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

func changeVisibilityInput(queueURL, receipt string, seconds int32) *sqs.ChangeMessageVisibilityInput {
	return &sqs.ChangeMessageVisibilityInput{
		QueueUrl: aws.String(queueURL), ReceiptHandle: aws.String(receipt), VisibilityTimeout: seconds,
	}
}

func deleteQueueInput(queueURL string) *sqs.DeleteQueueInput {
	return &sqs.DeleteQueueInput{QueueUrl: aws.String(queueURL)}
}

// sendInput is a foreign message with one attribute.
func sendInput(queueURL, body, attribute, value string) *sqs.SendMessageInput {
	return &sqs.SendMessageInput{
		QueueUrl: aws.String(queueURL), MessageBody: aws.String(body),
		MessageAttributes: map[string]types.MessageAttributeValue{attribute: {DataType: aws.String("String"), StringValue: aws.String(value)}},
	}
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
