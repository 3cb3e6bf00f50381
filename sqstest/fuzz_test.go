package sqstest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// FuzzServeHTTP throws requests at the service: whatever they are, the answer is JSON,
// and the service still works afterwards.
func FuzzServeHTTP(f *testing.F) {
	for _, seed := range [][2]string{
		{"SendMessage", `{"QueueUrl":"orders","MessageBody":"x","DelaySeconds":1,"MessageAttributes":{"a":{"DataType":"Number","StringValue":"1e3"}}}`},
		{"SendMessageBatch", `{"QueueUrl":"orders","Entries":[{"Id":"1","MessageBody":"\ud800"},null,{"Id":"2","MessageAttributes":{"":null}}]}`},
		{"ReceiveMessage", `{"QueueUrl":"orders","MaxNumberOfMessages":10,"MessageAttributeNames":[".*",""],"VisibilityTimeout":0}`},
		{"DeleteMessage", `{"QueueUrl":"orders","ReceiptHandle":"AQEBAQAAAAEAAAAAAAAAAQAAAAEAAAAAAAAAAAAAAAAAAAAA"}`},
		{"DeleteMessageBatch", `{"QueueUrl":"orders","Entries":[{"Id":"1","ReceiptHandle":""},{"Id":"1"}]}`},
		{"ChangeMessageVisibility", `{"QueueUrl":"orders","ReceiptHandle":"x","VisibilityTimeout":99999999999}`},
		{"ChangeMessageVisibilityBatch", `{"QueueUrl":"orders","Entries":[{"Id":"1","ReceiptHandle":"x","VisibilityTimeout":-1}]}`},
		{"CreateQueue", `{"QueueName":"q","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"\",\"maxReceiveCount\":null}","KmsMasterKeyId":"k"},"tags":{"":""}}`},
		{"SetQueueAttributes", `{"QueueUrl":"///orders","Attributes":{"RedriveAllowPolicy":"{\"sourceQueueArns\":null}"}}`},
		{"GetQueueAttributes", `{"QueueUrl":"orders","AttributeNames":["All","x"]}`},
		{"ListQueues", `{"MaxResults":-1,"NextToken":"AA"}`},
		{"PurgeQueue", `{"QueueUrl":"/"}`},
		{"UntagQueue", `{"QueueUrl":"orders","TagKeys":[null]}`},
		{"", `nonsense`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, action, body string) {
		if strings.Contains(body, "WaitTimeSeconds") || strings.Contains(strings.ToLower(body), "waittime") {
			t.Skip("would wait in real time")
		}
		svc := sqstest.New(t)
		_, err := svc.CreateQueue("orders", nil)
		require.NoError(t, err)
		for range 2 { // the second time meets what the first has left
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("X-Amz-Target", "AmazonSQS."+action)
			w := httptest.NewRecorder()
			svc.ServeHTTP(w, r)
			require.True(t, json.Valid(w.Body.Bytes()), "%s", w.Body)
			if w.Code >= 400 {
				require.NotEmpty(t, w.Header().Get("x-amzn-query-error"))
			}
		}
		if svc.Queue("orders") == nil {
			return // it was deleted
		}
		answer := raw(t, svc, "POST", "AmazonSQS.SendMessage", `{"QueueUrl":"orders","MessageBody":"still works"}`)
		require.Equal(t, http.StatusOK, answer.StatusCode)
	})
}
