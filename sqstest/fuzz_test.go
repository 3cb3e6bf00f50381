package sqstest_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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
		{"SendMessage", `{"QueueUrl":"orders.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"d"}`},
		{"SendMessageBatch", `{"QueueUrl":"orders.fifo","Entries":[{"Id":"1","MessageBody":"x","MessageGroupId":""},{"Id":"2","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":null}]}`},
		{"ReceiveMessage", `{"QueueUrl":"orders.fifo","MaxNumberOfMessages":10,"ReceiveRequestAttemptId":"a","VisibilityTimeout":0}`},
		{"SetQueueAttributes", `{"QueueUrl":"orders.fifo","Attributes":{"DelaySeconds":"9","DeduplicationScope":"messageGroup","FifoThroughputLimit":"perMessageGroupId"}}`},
		{"SetQueueAttributes", `{"QueueUrl":"orders","Attributes":{"Policy":"{\"Statement\":{\"Effect\":\"Allow\",\"Principal\":{\"AWS\":[\"*\"]},\"Action\":\"*\",\"Condition\":{\"ArnLike\":{\"aws:SourceArn\":7}}}}"}}`},
		{"StartMessageMoveTask", `{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:orders","MaxNumberOfMessagesPerSecond":500}`},
		{"ListMessageMoveTasks", `{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:orders","MaxResults":10}`},
		{"CancelMessageMoveTask", `{"TaskHandle":"eyJ0YXNrSWQiOiJ4Iiwic291cmNlQXJuIjoieSJ9"}`},
		{"", `nonsense`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, action, body string) {
		svc := sqstest.New(t)
		_, err := svc.CreateQueue("orders", nil)
		require.NoError(t, err)
		_, err = svc.CreateQueue("orders.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
		require.NoError(t, err)
		for range 2 { // the second time meets what the first has left
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("X-Amz-Target", "AmazonSQS."+action)
			w := httptest.NewRecorder()
			svc.ServeHTTP(w, r)
			waited := ctx.Err() != nil // a long poll
			cancel()
			if waited {
				continue
			}
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

// FuzzQuery does the same with the query protocol, whose answers are XML.
func FuzzQuery(f *testing.F) {
	const arn = "&TopicArn=arn:aws:sns:us-east-1:000000000000:events"
	for _, seed := range []string{
		"Action=CreateTopic&Name=other.fifo&Attributes.entry.1.key=FifoTopic&Attributes.entry.1.value=true&Tags.member.1.Key=a",
		"Action=Publish&Message=x&MessageAttributes.entry.1.Name=a&MessageAttributes.entry.1.Value.DataType=Binary&MessageAttributes.entry.1.Value.BinaryValue=eA==" + arn,
		"Action=Publish&MessageStructure=json&Message=%7B%22default%22%3A%22d%22%7D&Subject=s&MessageGroupId=g" + arn,
		"Action=PublishBatch&PublishBatchRequestEntries.member.1.Id=a&PublishBatchRequestEntries.member.1.Message=%00%ff&PublishBatchRequestEntries.member.2.Id=a" + arn,
		"Action=Subscribe&Protocol=sqs&Endpoint=arn:aws:sqs:us-east-1:000000000000:orders&Attributes.entry.1.key=FilterPolicy&Attributes.entry.1.value=%7B%22%24or%22%3A%5B%7B%22a%22%3A%5B1%5D%7D%2C%7B%22b%22%3A%5B%7B%22numeric%22%3A%5B%22%3E%22%2C1%5D%7D%5D%7D%5D%7D" + arn,
		"Action=Subscribe&Protocol=sqs&Endpoint=a:b:c:d:e&Attributes.entry.1.key=RedrivePolicy&Attributes.entry.1.value=null" + arn,
		"Action=SetTopicAttributes&AttributeName=MaximumMessageSize&AttributeValue=1e3" + arn,
		"Action=ListTopics&NextToken=%25", "Action=ListSubscriptionsByTopic&NextToken=AA" + arn, "Action=Unsubscribe&SubscriptionArn=::::::",
		"Action=TagResource&Tags.member.1.Key=a&ResourceArn=arn:aws:sns:us-east-1:000000000000:events", "Action", "%", strings.Repeat("a.", 100) + "=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		svc := sqstest.New(t)
		q, err := svc.CreateQueue("orders", map[string]string{"Policy": `{"Statement":{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}}`})
		require.NoError(t, err)
		topic, err := svc.CreateTopic("events", nil)
		require.NoError(t, err)
		call := func(body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("Version=2010-03-31&"+body))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			svc.ServeHTTP(w, r)
			return w
		}
		for range 2 {
			w := call(body)
			var answer struct {
				XMLName xml.Name
				Code    string `xml:"Error>Code"`
			}
			require.NoError(t, xml.Unmarshal(w.Body.Bytes(), &answer), "%s", w.Body)
			require.Equal(t, w.Code >= 400, answer.Code != "", "%s", w.Body)
		}
		for _, m := range q.Messages() { // what SNS has delivered must be good JSON on the way out
			require.True(t, utf8.ValidString(m.Body))
		}
		require.True(t, json.Valid([]byte(callBody(t, svc))))
		if svc.Topic("events") == nil {
			return // it was deleted
		}
		require.Equal(t, http.StatusOK, call("Action=Publish&Message=still+works&TopicArn="+topic.ARN()).Code)
	})
}

func callBody(t testing.TB, svc *sqstest.Service) string {
	answer := raw(t, svc, "POST", "AmazonSQS.ReceiveMessage", `{"QueueUrl":"orders","MaxNumberOfMessages":10,"MessageAttributeNames":["All"],"AttributeNames":["All"]}`)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(body)
}
