package sqstest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a service with a queue and the short forms of the calls that tests make.
type bench struct {
	t      testing.TB
	svc    *sqstest.Service
	client *sqs.Client
	queue  *sqstest.Queue
	url    *string
}

func newBench(t testing.TB, attributes map[string]string) *bench {
	t.Helper()
	svc := sqstest.New(t)
	queue, err := svc.CreateQueue("orders", attributes)
	require.NoError(t, err)
	return &bench{t: t, svc: svc, client: svc.Client(), queue: queue, url: aws.String(queue.URL())}
}

// on is the same bench on another queue.
func (b *bench) on(q *sqstest.Queue) *bench {
	other := *b
	other.queue, other.url = q, aws.String(q.URL())
	return &other
}

func (b *bench) send(body string) string {
	b.t.Helper()
	out, err := b.client.SendMessage(b.t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: &body})
	require.NoError(b.t, err)
	return *out.MessageId
}

// receive polls once; a wait of 0 is a short poll unless the queue says otherwise.
func (b *bench) receive(most, wait int32) []types.Message {
	b.t.Helper()
	out, err := b.client.ReceiveMessage(b.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: b.url, MaxNumberOfMessages: most, WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		MessageAttributeNames:       []string{"All"},
	})
	require.NoError(b.t, err)
	return out.Messages
}

// receiveOne receives a message that has to be there.
func (b *bench) receiveOne() types.Message {
	b.t.Helper()
	messages := b.receive(1, 0)
	require.Len(b.t, messages, 1)
	return messages[0]
}

func (b *bench) delete(receipt *string) error {
	_, err := b.client.DeleteMessage(b.t.Context(), &sqs.DeleteMessageInput{QueueUrl: b.url, ReceiptHandle: receipt})
	return err
}

func (b *bench) change(receipt *string, timeout int32) error {
	_, err := b.client.ChangeMessageVisibility(b.t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: b.url, ReceiptHandle: receipt, VisibilityTimeout: timeout,
	})
	return err
}

// requireCode checks the code that the SDK shows and the HTTP status.
func requireCode(t testing.TB, err error, status int, code string) {
	t.Helper()
	var api smithy.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, code, api.ErrorCode())
	var response *smithyhttp.ResponseError
	require.ErrorAs(t, err, &response)
	require.Equal(t, status, response.HTTPStatusCode())
}

// requireText checks the message of an API error.
func requireText(t testing.TB, err error, text string) {
	t.Helper()
	var api smithy.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, text, api.ErrorMessage())
}

// requireType checks that an error is of a modelled type.
func requireType[E error](t testing.TB, err error) {
	t.Helper()
	var want E
	require.ErrorAs(t, err, &want)
}

// noRetry makes a client show what one attempt does.
func noRetry(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }

// doFunc is an HTTP client.
type doFunc func(*http.Request) (*http.Response, error)

func (f doFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

func withTimeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
