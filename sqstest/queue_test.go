package sqstest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func TestQueueLifeCycle(t *testing.T) {
	t.Parallel()
	svc := sqstest.New(t)
	client := svc.Client()

	created, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders")})
	require.NoError(t, err)
	require.Equal(t, "https://sqs.us-east-1.amazonaws.com/000000000000/orders", *created.QueueUrl)
	require.Equal(t, *created.QueueUrl, svc.Queue("orders").URL())
	require.Equal(t, "arn:aws:sqs:us-east-1:000000000000:orders", svc.Queue("orders").ARN())
	require.Equal(t, "orders", svc.Queue("orders").Name())

	found, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("orders")})
	require.NoError(t, err)
	require.Equal(t, *created.QueueUrl, *found.QueueUrl)

	_, err = client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: created.QueueUrl})
	require.NoError(t, err)
	require.Nil(t, svc.Queue("orders"))

	_, err = client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("orders")})
	requireType[*types.QueueDoesNotExist](t, err)
	requireCode(t, err, 400, "AWS.SimpleQueueService.NonExistentQueue")
	requireText(t, err, "The specified queue does not exist.")
}

func TestMissingQueue(t *testing.T) {
	t.Parallel()
	svc := sqstest.New(t)
	client, ctx, url := svc.Client(), t.Context(), aws.String("https://sqs.us-east-1.amazonaws.com/000000000000/nowhere")
	for name, call := range map[string]func() error{
		"send": func() error {
			_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("x")})
			return err
		},
		"receive": func() error {
			_, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20})
			return err
		},
		"attributes": func() error {
			_, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{"All"}})
			return err
		},
		"set attributes": func() error {
			_, err := client.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: url, Attributes: map[string]string{"DelaySeconds": "1"}})
			return err
		},
		"delete": func() error {
			_, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String("x")})
			return err
		},
		"delete batch": func() error {
			_, err := client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []types.DeleteMessageBatchRequestEntry{{Id: aws.String("1"), ReceiptHandle: aws.String("x")}}})
			return err
		},
		"visibility": func() error {
			_, err := client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: aws.String("x")})
			return err
		},
		"purge":        func() error { _, err := client.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: url}); return err },
		"delete queue": func() error { _, err := client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: url}); return err },
		"tags":         func() error { _, err := client.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: url}); return err },
		"sources": func() error {
			_, err := client.ListDeadLetterSourceQueues(ctx, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: url})
			return err
		},
		"other account": func() error {
			_, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("nowhere"), QueueOwnerAWSAccountId: aws.String("123456789012")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { requireType[*types.QueueDoesNotExist](t, call()) })
	}
}

func TestQueueNames(t *testing.T) {
	t.Parallel()
	client := sqstest.New(t).Client()
	for name, attributes := range map[string]map[string]string{
		"bad name!":                       nil,
		"":                                nil,
		strings.Repeat("q", 81):           nil,
		"umlaut-ä":                        nil,
		"orders.fifo":                     nil,
		"orders":                          {"FifoQueue": "true"},
		".fifo":                           {"FifoQueue": "true"},
		strings.Repeat("q", 76) + ".fifo": {"FifoQueue": "true"},
		"false.fifo":                      {"FifoQueue": "false"},
	} {
		_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if name == "" {
			requireCode(t, err, 400, "MissingParameter")
			continue
		}
		requireCode(t, err, 400, "InvalidParameterValue")
	}
	for _, name := range []string{"b.fifo", strings.Repeat("q", 75) + ".fifo"} {
		_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{"FifoQueue": "true"}})
		require.NoError(t, err)
	}
	for _, name := range []string{strings.Repeat("q", 80), "a", "A-b_9"} {
		_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
		require.NoError(t, err)
	}
}

func TestQueueURLForms(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, url := range []string{
		"orders",
		"https://sqs.eu-west-1.amazonaws.com/000000000000/orders",
		"http://localhost:4566/000000000000/orders",
		"http://localhost:4566/queue/us-east-1/000000000000/orders/",
	} {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")})
		require.NoError(t, err, url)
	}
	for _, url := range []string{"ORDERS", "https://sqs.us-east-1.amazonaws.com/123456789012/orders"} {
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")})
		requireType[*types.QueueDoesNotExist](t, err)
	}
	require.Equal(t, 4, b.queue.Len())
}

func TestCreateQueueAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"DelaySeconds": "5", "VisibilityTimeout": "7"})
	create := func(attributes map[string]string) error {
		_, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders"), Attributes: attributes})
		return err
	}
	require.NoError(t, create(nil))
	require.NoError(t, create(map[string]string{"DelaySeconds": "5"}), "a subset of the values")
	require.NoError(t, create(map[string]string{"ReceiveMessageWaitTimeSeconds": "0"}), "a default")
	err := create(map[string]string{"VisibilityTimeout": "7", "DelaySeconds": "6"})
	requireType[*types.QueueNameExists](t, err)
	requireCode(t, err, 400, "QueueAlreadyExists")
	require.ErrorContains(t, err, "different value for attribute DelaySeconds")

	// What counts is the value now, not at creation.
	_, err = b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: b.url, Attributes: map[string]string{"DelaySeconds": "6"}})
	require.NoError(t, err)
	requireType[*types.QueueNameExists](t, create(map[string]string{"DelaySeconds": "5"}))
	require.NoError(t, create(map[string]string{"DelaySeconds": "6"}))

	q, err := b.svc.CreateQueue("orders", nil)
	require.NoError(t, err)
	require.Same(t, b.queue, q)
	_, err = b.svc.CreateQueue("orders", map[string]string{"DelaySeconds": "9"})
	require.ErrorContains(t, err, "QueueAlreadyExists")
}

func TestRecreateAfterDeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.send("x")
		_, err := b.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: b.url})
		require.NoError(t, err)
		time.Sleep(59 * time.Second)
		_, err = b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders")})
		requireType[*types.QueueDeletedRecently](t, err)
		requireCode(t, err, 400, "AWS.SimpleQueueService.QueueDeletedRecently")
		time.Sleep(time.Second)
		_, err = b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("orders")})
		require.NoError(t, err)
		require.Zero(t, b.svc.Queue("orders").Len())
	})
}

func TestQueueAttributes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		get := func(names ...types.QueueAttributeName) map[string]string {
			out, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: b.url, AttributeNames: names})
			require.NoError(t, err)
			return out.Attributes
		}
		set := func(name, value string) error {
			_, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: b.url, Attributes: map[string]string{name: value}})
			return err
		}
		created := fmt.Sprint(time.Now().Unix())
		require.Equal(t, map[string]string{
			"VisibilityTimeout": "30", "DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0",
			"MessageRetentionPeriod": "345600", "MaximumMessageSize": "1048576", "SqsManagedSseEnabled": "true",
			"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0", "ApproximateNumberOfMessagesDelayed": "0",
			"CreatedTimestamp": created, "LastModifiedTimestamp": created, "QueueArn": b.queue.ARN(),
		}, get("All"))
		require.Empty(t, get(), "nothing unless asked for")
		require.Equal(t, map[string]string{"DelaySeconds": "0"}, get("DelaySeconds", "RedrivePolicy", "FifoQueue"))
		_, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: b.url, AttributeNames: []types.QueueAttributeName{"Nonsense"}})
		requireType[*types.InvalidAttributeName](t, err)

		for name, bounds := range map[string][2]int{
			"VisibilityTimeout": {0, 43200}, "DelaySeconds": {0, 900}, "ReceiveMessageWaitTimeSeconds": {0, 20},
			"MessageRetentionPeriod": {60, 1209600}, "MaximumMessageSize": {1024, 1048576}, "KmsDataKeyReusePeriodSeconds": {60, 86400},
		} {
			for _, good := range bounds {
				require.NoError(t, set(name, fmt.Sprint(good)))
				require.Equal(t, fmt.Sprint(good), get("All")[name])
			}
			for _, bad := range []string{fmt.Sprint(bounds[0] - 1), fmt.Sprint(bounds[1] + 1), "many", "", "1.5"} {
				err := set(name, bad)
				requireType[*types.InvalidAttributeValue](t, err)
				requireCode(t, err, 400, "InvalidAttributeValue")
			}
		}

		for name, value := range map[string]string{
			"Nonsense": "1", "QueueArn": "x", "ApproximateNumberOfMessages": "1", "All": "1", "FifoQueue": "true",
			"ContentBasedDeduplication": "true", "DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue",
		} {
			requireType[*types.InvalidAttributeName](t, set(name, value))
		}
		requireText(t, set("FifoQueue", "true"), "Unknown Attribute FifoQueue.")
		requireText(t, set("DeduplicationScope", "queue"), "You can specify the DeduplicationScope only when FifoQueue is set to true.")
		requireType[*types.InvalidAttributeValue](t, set("SqsManagedSseEnabled", "yes"))
		requireType[*types.InvalidAttributeValue](t, set("Policy", strings.Repeat("x", 8193)))

		time.Sleep(time.Minute)
		require.NoError(t, set("Policy", `{"Version":"2012-10-17"}`))
		require.Equal(t, `{"Version":"2012-10-17"}`, get("Policy")["Policy"])
		require.Equal(t, fmt.Sprint(time.Now().Unix()), get("All")["LastModifiedTimestamp"])
		require.Equal(t, created, get("All")["CreatedTimestamp"])
		require.NoError(t, set("Policy", ""))
		require.NotContains(t, get("All"), "Policy")
	})
}

func TestQueueEncryptionAttributes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	set := func(attributes map[string]string) error {
		_, err := b.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: b.url, Attributes: attributes})
		return err
	}
	get := func() map[string]string {
		out, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: b.url, AttributeNames: []types.QueueAttributeName{"All"}})
		require.NoError(t, err)
		return out.Attributes
	}
	err := set(map[string]string{"KmsMasterKeyId": "alias/x", "SqsManagedSseEnabled": "true"})
	requireType[*types.InvalidAttributeName](t, err)
	require.NoError(t, set(map[string]string{"KmsMasterKeyId": "alias/x"}))
	require.Equal(t, "false", get()["SqsManagedSseEnabled"])
	requireType[*types.InvalidAttributeName](t, set(map[string]string{"SqsManagedSseEnabled": "true"}))
	require.NoError(t, set(map[string]string{"KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300"}))
	require.Equal(t, "false", get()["SqsManagedSseEnabled"], "stays off when the key is removed")
	require.NotContains(t, get(), "KmsMasterKeyId")
	require.NotContains(t, get(), "KmsDataKeyReusePeriodSeconds")
}

func TestCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		for range 3 {
			b.send("now")
		}
		_, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: b.url, MessageBody: aws.String("later"), DelaySeconds: 10})
		require.NoError(t, err)
		b.receiveOne()
		out, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: b.url, AttributeNames: []types.QueueAttributeName{
			"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed",
		}})
		require.NoError(t, err)
		require.Equal(t, map[string]string{
			"ApproximateNumberOfMessages": "2", "ApproximateNumberOfMessagesNotVisible": "1", "ApproximateNumberOfMessagesDelayed": "1",
		}, out.Attributes)
		require.Equal(t, []int{2, 1, 1, 4}, []int{b.queue.Visible(), b.queue.InFlight(), b.queue.Delayed(), b.queue.Len()})
		time.Sleep(30 * time.Second)
		require.Equal(t, []int{4, 0, 0, 4}, []int{b.queue.Visible(), b.queue.InFlight(), b.queue.Delayed(), b.queue.Len()})
	})
}

func TestPurgeQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		purge := func() error {
			_, err := b.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: b.url})
			return err
		}
		b.send("visible")
		b.send("in flight")
		held := b.receiveOne()
		require.NoError(t, purge())
		require.Zero(t, b.queue.Len())
		require.NoError(t, b.delete(held.ReceiptHandle), "of a message that is gone")
		b.send("after")
		require.Equal(t, 1, b.queue.Len())

		time.Sleep(59 * time.Second)
		err := purge()
		requireType[*types.PurgeQueueInProgress](t, err)
		requireCode(t, err, 403, "AWS.SimpleQueueService.PurgeQueueInProgress")
		time.Sleep(time.Second)
		require.NoError(t, purge())
	})
}

func TestRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, map[string]string{"MessageRetentionPeriod": "60", "VisibilityTimeout": "300"})
		b.send("first")
		held := b.receiveOne()
		time.Sleep(59 * time.Second)
		b.send("second")
		require.Equal(t, 2, b.queue.Len())
		time.Sleep(time.Second)
		require.Equal(t, 1, b.queue.Len(), "also what is in flight")
		require.NoError(t, b.delete(held.ReceiptHandle), "of an expired message")
		requireCode(t, b.change(held.ReceiptHandle, 5), 400, "InvalidParameterValue")
		time.Sleep(59 * time.Second)
		require.Zero(t, b.queue.Len())
	})
}

func TestListQueues(t *testing.T) {
	t.Parallel()
	svc := sqstest.New(t)
	client := svc.Client()
	out, err := client.ListQueues(t.Context(), &sqs.ListQueuesInput{})
	require.NoError(t, err)
	require.Empty(t, out.QueueUrls)
	var want []string
	for i := range 5 {
		q, err := svc.CreateQueue(fmt.Sprintf("list-%d", i), nil)
		require.NoError(t, err)
		want = append(want, q.URL())
	}
	_, err = svc.CreateQueue("other", nil)
	require.NoError(t, err)
	out, err = client.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: aws.String("list-")})
	require.NoError(t, err)
	require.Equal(t, want, out.QueueUrls)
	require.Nil(t, out.NextToken)

	var pages []int
	var got []string
	paginator := sqs.NewListQueuesPaginator(client, &sqs.ListQueuesInput{QueueNamePrefix: aws.String("list-"), MaxResults: aws.Int32(2)})
	for paginator.HasMorePages() {
		page, err := paginator.NextPage(t.Context())
		require.NoError(t, err)
		pages, got = append(pages, len(page.QueueUrls)), append(got, page.QueueUrls...)
	}
	require.Equal(t, []int{2, 2, 1}, pages)
	require.Equal(t, want, got)
	_, err = client.ListQueues(t.Context(), &sqs.ListQueuesInput{MaxResults: aws.Int32(1001)})
	requireCode(t, err, 400, "InvalidParameterValue")
	_, err = client.ListQueues(t.Context(), &sqs.ListQueuesInput{MaxResults: aws.Int32(1), NextToken: aws.String("%")})
	requireCode(t, err, 400, "InvalidParameterValue")
}

func TestTags(t *testing.T) {
	t.Parallel()
	svc := sqstest.New(t)
	client := svc.Client()
	created, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("tagged"), Tags: map[string]string{"team": "a"}})
	require.NoError(t, err)
	url := created.QueueUrl
	tags := func() map[string]string {
		out, err := client.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: url})
		require.NoError(t, err)
		return out.Tags
	}
	require.Equal(t, map[string]string{"team": "a"}, tags())
	_, err = client.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: url, Tags: map[string]string{"team": "b", "env": "test"}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"team": "b", "env": "test"}, tags())
	_, err = client.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: url, TagKeys: []string{"team", "none"}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"env": "test"}, tags())
	many := map[string]string{}
	for i := range 51 {
		many[fmt.Sprint(i)] = "x"
	}
	_, err = client.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: url, Tags: many})
	requireCode(t, err, 400, "InvalidParameterValue")
	_, err = client.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: url, Tags: map[string]string{strings.Repeat("k", 129): "x"}})
	requireCode(t, err, 400, "InvalidParameterValue")
	_, err = client.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: url, Tags: map[string]string{}})
	requireCode(t, err, 400, "MissingParameter")
	_, err = client.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: url, TagKeys: []string{}})
	requireCode(t, err, 400, "MissingParameter")
}
