package sqstest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// loopback is a bench whose client goes through a socket.
func loopback(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, nil)
	endpoint, err := b.svc.Listen()
	require.NoError(t, err)
	again, err := b.svc.Listen()
	require.NoError(t, err)
	require.Equal(t, endpoint, again)

	transport := awshttp.NewBuildableClient().GetTransport()
	t.Cleanup(transport.CloseIdleConnections)
	cfg := b.svc.AWSConfig()
	cfg.BaseEndpoint = &endpoint
	cfg.HTTPClient = doFunc(func(r *http.Request) (*http.Response, error) {
		r.Body = struct{ io.ReadCloser }{r.Body}
		return (&http.Client{Transport: transport}).Do(r)
	})
	b.client = sqs.NewFromConfig(cfg)
	return b
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	b := loopback(t)
	out, err := b.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("orders")})
	require.NoError(t, err)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/000000000000/orders$`, *out.QueueUrl)
	b.url = out.QueueUrl

	const messages = 200
	body := strings.Repeat("x", 1000)
	for range messages {
		b.send(body)
	}
	got := 0
	for got < messages {
		held := b.receive(10, 1)
		require.NotEmpty(t, held)
		got += len(held)
		for _, m := range held {
			require.Equal(t, "1", m.Attributes["ApproximateReceiveCount"], "no answer was lost")
			require.NoError(t, b.delete(m.ReceiptHandle))
		}
	}
	_, err = b.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String("nowhere")})
	requireType[*types.QueueDoesNotExist](t, err)

	// A poll that is waiting when the client goes takes nothing afterwards.
	ctx := withTimeout(t, 50*time.Millisecond)
	_, err = b.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20})
	require.Error(t, err)
	require.Eventually(t, func() bool {
		calls := b.svc.Calls("ReceiveMessage")
		return calls[len(calls)-1].Done
	}, 5*time.Second, time.Millisecond)
	b.send("after")
	require.Equal(t, 1, b.queue.Visible())
}

func TestSNSOnLoopback(t *testing.T) {
	t.Parallel()
	b := loopback(t)
	endpoint, err := b.svc.Listen()
	require.NoError(t, err)
	s := withTopic(b, "events", nil)
	s.subscribe(b.queue, raw1)
	cfg := b.svc.AWSConfig()
	cfg.BaseEndpoint, cfg.HTTPClient = &endpoint, b.client.Options().HTTPClient
	s.sns = sns.NewFromConfig(cfg)
	s.publish("x", nil)
	require.Equal(t, "x", *b.receiveOne().Body)
	_, err = s.sns.Publish(t.Context(), &sns.PublishInput{TopicArn: aws.String(*s.arn + "x"), Message: aws.String("x")})
	requireCode(t, err, 404, "NotFound")
}

func TestQueryProtocolErrors(t *testing.T) {
	t.Parallel()
	svc := sqstest.New(t)
	for name, c := range map[string]struct {
		members map[string]string
		status  int
		code    string
	}{
		"no action":      {map[string]string{"Version": "2010-03-31"}, 400, "InvalidAction"},
		"unknown action": {map[string]string{"Action": "OptInPhoneNumber", "Version": "2010-03-31"}, 400, "InvalidAction"},
		"SQS":            {map[string]string{"Action": "SendMessage", "Version": "2012-11-05"}, 400, "InvalidAction"},
		"no version":     {map[string]string{"Action": "ListTopics"}, 400, "InvalidAction"},
		"bad base64": {map[string]string{
			"Action": "Publish", "Version": "2010-03-31", "MessageAttributes.entry.1.Name": "a", "MessageAttributes.entry.1.Value.BinaryValue": "%",
		}, 400, "MalformedQueryString"},
		"too large": {map[string]string{"Action": "Publish", "Message": strings.Repeat("x", 9<<20)}, 413, "RequestEntityTooLarge"},
	} {
		t.Run(name, func(t *testing.T) {
			w := form(t, svc, c.members, "")
			require.Equal(t, c.status, w.StatusCode)
			require.Equal(t, "text/xml", w.Header.Get("Content-Type"))
			body, err := io.ReadAll(w.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), "<Code>"+c.code+"</Code>")
		})
	}
	svc.Close()
	require.Equal(t, 503, form(t, svc, map[string]string{"Action": "ListTopics", "Version": "2010-03-31"}, "").StatusCode)
}

func TestLoopbackFaults(t *testing.T) {
	t.Parallel()
	b := loopback(t)
	lost := b.svc.Inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.LoseAnswer()})
	_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x")}, noRetry)
	require.Error(t, err)
	require.Equal(t, 1, b.queue.Len())
	lost.Remove()

	hang := b.svc.Inject(sqstest.Fault{Action: "SendMessage", Effect: sqstest.Hang()})
	_, err = b.client.SendMessage(withTimeout(t, 20*time.Millisecond), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x")})
	require.Error(t, err)
	require.Equal(t, 1, hang.Hits())

	errs := make(chan error, 1)
	go func() {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("x")}, noRetry)
		errs <- err
	}()
	require.Eventually(t, func() bool { return hang.Hits() == 2 }, 5*time.Second, time.Millisecond)
	b.svc.Close()
	require.Error(t, <-errs)
	_, err = b.svc.Listen()
	require.Error(t, err)
	require.Equal(t, 1, b.queue.Len())
}

// raw makes a request that the SDK would not make.
func raw(t testing.TB, svc *sqstest.Service, method, target, body string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	if target != "" {
		r.Header.Set("X-Amz-Target", target)
	}
	w := httptest.NewRecorder()
	svc.ServeHTTP(w, r)
	return w.Result()
}

func TestProtocolErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, c := range map[string]struct {
		method, target, body string
		status               int
		query                string
	}{
		"not a POST":     {"GET", "AmazonSQS.ListQueues", "", 400, "UnknownOperationException;Sender"},
		"no target":      {http.MethodPost, "", "{}", 400, "UnknownOperationException;Sender"},
		"other service":  {http.MethodPost, "DynamoDB_20120810.ListTables", "{}", 400, "UnknownOperationException;Sender"},
		"unknown action": {http.MethodPost, "AmazonSQS.Nonsense", "{}", 400, "UnknownOperationException;Sender"},
		"not modelled":   {http.MethodPost, "AmazonSQS.AddPermission", "{}", 400, "AWS.SimpleQueueService.UnsupportedOperation;Sender"},
		"not JSON":       {http.MethodPost, "AmazonSQS.SendMessage", "{", 400, "SerializationException;Sender"},
		"wrong type":     {http.MethodPost, "AmazonSQS.SendMessage", `{"MessageBody":7}`, 400, "SerializationException;Sender"},
		"not an object":  {http.MethodPost, "AmazonSQS.SendMessage", `[]`, 400, "SerializationException;Sender"},
		"no body":        {http.MethodPost, "AmazonSQS.SendMessage", "", 400, "MissingParameter;Sender"},
		"null":           {http.MethodPost, "AmazonSQS.SendMessage", "null", 400, "MissingParameter;Sender"},
		"no queue":       {http.MethodPost, "AmazonSQS.ReceiveMessage", "{}", 400, "MissingParameter;Sender"},
		"null entry":     {http.MethodPost, "AmazonSQS.SendMessageBatch", `{"QueueUrl":"orders","Entries":[null]}`, 400, "AWS.SimpleQueueService.InvalidBatchEntryId;Sender"},
		"no visibility":  {http.MethodPost, "AmazonSQS.ChangeMessageVisibility", `{"QueueUrl":"orders","ReceiptHandle":"x"}`, 400, "MissingParameter;Sender"},
		"zero messages":  {http.MethodPost, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"orders","MaxNumberOfMessages":0}`, 400, "InvalidParameterValue;Sender"},
		"bad base64":     {http.MethodPost, "AmazonSQS.SendMessage", `{"QueueUrl":"orders","MessageBody":"x","MessageAttributes":{"a":{"DataType":"Binary","BinaryValue":"%"}}}`, 400, "SerializationException;Sender"},
		"control":        {http.MethodPost, "AmazonSQS.DeleteMessage", `{"QueueUrl":"orders","ReceiptHandle":"\u0001\"\r\n\t"}`, 404, "ReceiptHandleIsInvalid;Sender"},
		"invalid UTF-8":  {http.MethodPost, "AmazonSQS.\xff", "{}", 400, "UnknownOperationException;Sender"},
		"too large":      {http.MethodPost, "AmazonSQS.SendMessage", strings.Repeat(" ", 9<<20), 413, "RequestEntityTooLarge;Sender"},
	} {
		t.Run(name, func(t *testing.T) {
			w := raw(t, b.svc, c.method, c.target, c.body)
			require.Equal(t, c.status, w.StatusCode)
			require.Equal(t, c.query, w.Header.Get("x-amzn-query-error"))
			require.Equal(t, "application/x-amz-json-1.0", w.Header.Get("Content-Type"))
			var body struct {
				Type    string `json:"__type"`
				Message string `json:"message"`
			}
			require.NoError(t, json.NewDecoder(w.Body).Decode(&body))
			require.Contains(t, body.Type, "#")
			require.NotEmpty(t, body.Message)
		})
	}
	require.Zero(t, b.queue.Len())
}

func TestWireForms(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	read := func(w *http.Response) string {
		body, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.Equal(t, "{}", read(raw(t, b.svc, http.MethodPost, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"orders"}`)))
	require.Equal(t, "{}", read(raw(t, b.svc, http.MethodPost, "AmazonSQS.GetQueueAttributes", `{"QueueUrl":"orders"}`)))
	require.JSONEq(t, `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}`,
		read(raw(t, b.svc, http.MethodPost, "AmazonSQS.GetQueueUrl", `{"QueueName":"nowhere"}`)))
	w := raw(t, b.svc, http.MethodPost, "AmazonSQS.SendMessage", `{"QueueUrl":"orders","MessageBody":""}`)
	require.Contains(t, read(w), `"com.amazon.coral.service#MissingRequiredParameterException"`)
	require.Len(t, w.Header.Get("x-amzn-requestid"), 36)
	require.JSONEq(t, `{"QueueUrl":"http://example.com/000000000000/orders"}`,
		read(raw(t, b.svc, http.MethodPost, "AmazonSQS.GetQueueUrl", `{"QueueName":"orders"}`)))

	// An X-Amzn-Trace-Id of the request becomes the trace header of the message.
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"QueueUrl":"orders","MessageBody":"x"}`))
	r.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
	r.Header.Set("X-Amzn-Trace-Id", "Root=1-a")
	b.svc.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, "Root=1-a", b.receiveOne().Attributes["AWSTraceHeader"])

	// A receive that asks for a visibility timeout of 0, which the Go SDK cannot.
	b.send("y")
	require.Contains(t, read(raw(t, b.svc, http.MethodPost, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"orders","VisibilityTimeout":0}`)), `"Body":"y"`)
	require.Equal(t, 1, b.queue.Visible())
}

func TestClientTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		cfg := b.svc.AWSConfig()
		cfg.HTTPClient = &http.Client{Transport: b.svc.RoundTripper(), Timeout: 3 * time.Second}
		began := time.Now()
		_, err := sqs.NewFromConfig(cfg).ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: b.url, WaitTimeSeconds: 20}, noRetry)
		require.Error(t, err)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestDateIsTrue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := sqstest.New(t)
		time.Sleep(1000 * time.Hour)
		r, err := http.NewRequest(http.MethodPost, "https://sqs.us-east-1.amazonaws.com/", bytes.NewReader([]byte("{}")))
		require.NoError(t, err)
		r.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues")
		answer, err := svc.RoundTripper().RoundTrip(r)
		require.NoError(t, err)
		date, err := http.ParseTime(answer.Header.Get("Date"))
		require.NoError(t, err)
		require.Equal(t, time.Now().Unix(), date.Unix())
	})
}

// form makes a request of the query protocol that the SDK would not make.
func form(t testing.TB, svc *sqstest.Service, members map[string]string, traceID string) *http.Response {
	t.Helper()
	values := url.Values{}
	for name, value := range members {
		values.Set(name, value)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if traceID != "" {
		r.Header.Set("X-Amzn-Trace-Id", traceID)
	}
	w := httptest.NewRecorder()
	svc.ServeHTTP(w, r)
	return w.Result()
}
