package sqstest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// resetEvery keeps the call log of a benchmark small, as a long-running program should.
const resetEvery = 1024

// BenchmarkTrip carries ten messages through a queue with three batched calls, by the
// real client in process.
func BenchmarkTrip(b *testing.B) {
	bench := newBench(b, nil)
	ctx, body := b.Context(), strings.Repeat("x", 200)
	entries := make([]types.SendMessageBatchRequestEntry, 10)
	for i := range entries {
		entries[i] = types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: &body,
			MessageAttributes: map[string]types.MessageAttributeValue{"trace": {DataType: aws.String("String"), StringValue: aws.String("abc")}},
		}
	}
	b.RunParallel(func(pb *testing.PB) {
		for n := 1; pb.Next(); n++ {
			_, err := bench.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: bench.url, Entries: entries})
			require.NoError(b, err)
			received, err := bench.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: bench.url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}})
			require.NoError(b, err)
			gone := make([]types.DeleteMessageBatchRequestEntry, len(received.Messages))
			for i, m := range received.Messages {
				gone[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle}
			}
			_, err = bench.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: bench.url, Entries: gone})
			require.NoError(b, err)
			if n%resetEvery == 0 {
				bench.svc.ResetCalls()
			}
		}
	})
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkHandler is the same trip without the SDK: what the service itself costs.
func BenchmarkHandler(b *testing.B) {
	bench := newBench(b, nil)
	var entries []map[string]any
	for i := range 10 {
		entries = append(entries, map[string]any{
			"Id": strconv.Itoa(i), "MessageBody": strings.Repeat("x", 200),
			"MessageAttributes": map[string]any{"trace": map[string]string{"DataType": "String", "StringValue": "abc"}},
		})
	}
	send, err := json.Marshal(map[string]any{"QueueUrl": bench.url, "Entries": entries})
	require.NoError(b, err)
	receive := []byte(`{"QueueUrl":"` + *bench.url + `","MaxNumberOfMessages":10,"MessageAttributeNames":["All"]}`)
	b.RunParallel(func(pb *testing.PB) {
		var remove bytes.Buffer
		for n := 1; pb.Next(); n++ {
			callHandler(b, bench.svc, "SendMessageBatch", send)
			answer := callHandler(b, bench.svc, "ReceiveMessage", receive)
			remove.Reset()
			remove.WriteString(`{"QueueUrl":"` + *bench.url + `","Entries":[`)
			const mark = `"ReceiptHandle":"`
			for i := 0; ; i++ {
				at := bytes.Index(answer, []byte(mark))
				if at < 0 {
					break
				}
				answer = answer[at+len(mark):]
				if i > 0 {
					remove.WriteByte(',')
				}
				remove.WriteString(`{"Id":"` + strconv.Itoa(i) + `","ReceiptHandle":"`)
				remove.Write(answer[:bytes.IndexByte(answer, '"')])
				remove.WriteString(`"}`)
			}
			remove.WriteString(`]}`)
			callHandler(b, bench.svc, "DeleteMessageBatch", remove.Bytes())
			if n%resetEvery == 0 {
				bench.svc.ResetCalls()
			}
		}
	})
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// callHandler makes a call as an HTTP client would, without one.
func callHandler(t testing.TB, svc *sqstest.Service, action string, body []byte) []byte {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	w := httptest.NewRecorder()
	svc.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", action, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// BenchmarkFIFO is the trip through a FIFO queue with 64 groups, behind a group that is
// blocked and has a backlog.
func BenchmarkFIFO(b *testing.B) {
	bench := newFIFO(b, nil)
	ctx, body := b.Context(), strings.Repeat("x", 200)
	for i := range 10_000 {
		bench.sendTo("blocked", strconv.Itoa(i))
	}
	require.Len(b, bench.receive(1, 0), 1)
	var sent atomic.Uint64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for n := 1; pb.Next(); n++ {
			entries := make([]types.SendMessageBatchRequestEntry, 10)
			for i := range entries {
				id := sent.Add(1)
				entries[i] = types.SendMessageBatchRequestEntry{
					Id: aws.String(strconv.Itoa(i)), MessageBody: &body, MessageGroupId: aws.String(strconv.FormatUint(id%64, 10)),
					MessageDeduplicationId: aws.String("id" + strconv.FormatUint(id, 10)),
				}
			}
			_, err := bench.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: bench.url, Entries: entries})
			require.NoError(b, err)
			received, err := bench.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: bench.url, MaxNumberOfMessages: 10})
			require.NoError(b, err)
			if len(received.Messages) == 0 {
				continue // the groups are in the hands of the other
			}
			gone := make([]types.DeleteMessageBatchRequestEntry, len(received.Messages))
			for i, m := range received.Messages {
				gone[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle}
			}
			_, err = bench.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: bench.url, Entries: gone})
			require.NoError(b, err)
			if n%resetEvery == 0 {
				bench.svc.ResetCalls()
			}
		}
	})
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkPublish carries ten messages through a topic into a queue, raw.
func BenchmarkPublish(b *testing.B) {
	bench := newSNS(b)
	bench.subscribe(bench.queue, raw1)
	body := strings.Repeat("x", 200)
	entries := make([]snstypes.PublishBatchRequestEntry, 10)
	for i := range entries {
		entries[i] = snstypes.PublishBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), Message: &body, MessageAttributes: map[string]snstypes.MessageAttributeValue{"trace": snsText("String", "abc")},
		}
	}
	for n := 1; b.Loop(); n++ {
		_, err := bench.sns.PublishBatch(b.Context(), &sns.PublishBatchInput{TopicArn: bench.arn, PublishBatchRequestEntries: entries})
		require.NoError(b, err)
		sqstest.TakeAll(bench.queue)
		if n%resetEvery == 0 {
			bench.svc.ResetCalls()
		}
	}
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}
