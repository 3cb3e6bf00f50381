package sqstest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// withDeadLetters is a bench whose queue gives up after two receives, and one on its
// dead-letter queue.
func withDeadLetters(t *testing.T) (source, dead *bench) {
	t.Helper()
	source = newBench(t, nil)
	q, err := source.svc.CreateQueue("dead", nil)
	require.NoError(t, err)
	require.NoError(t, source.set("RedrivePolicy", policyTo(q, 2)))
	return source, source.on(q)
}

func policyTo(q *sqstest.Queue, most int) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, q.ARN(), most)
}

func (b *bench) set(name, value string) error {
	_, err := b.client.SetQueueAttributes(b.t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: b.url, Attributes: map[string]string{name: value}})
	return err
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, dead := withDeadLetters(t)
		out, err := source.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: source.url, MessageBody: aws.String("poison"), MessageAttributes: map[string]types.MessageAttributeValue{"a": text("v")},
		})
		require.NoError(t, err)
		sent := time.Now()
		time.Sleep(time.Second)
		first := source.receiveOne()
		require.NotContains(t, first.Attributes, "DeadLetterQueueSourceArn")
		require.NoError(t, source.change(first.ReceiptHandle, 0))
		second := source.receiveOne()
		time.Sleep(31 * time.Second)
		require.Equal(t, 1, source.queue.Visible(), "moved by a receive, not by time")
		require.Zero(t, dead.queue.Len())

		source.send("good")
		require.Equal(t, "good", *source.receive(10, 0)[0].Body)
		require.Equal(t, 1, source.queue.Len())
		require.Equal(t, 1, dead.queue.Visible())

		m := dead.receiveOne()
		require.Equal(t, *out.MessageId, *m.MessageId)
		require.Equal(t, "poison", *m.Body)
		require.Equal(t, "v", *m.MessageAttributes["a"].StringValue)
		require.Equal(t, "3", m.Attributes["ApproximateReceiveCount"], "goes on, without the receive that moved it")
		require.Equal(t, source.queue.ARN(), m.Attributes["DeadLetterQueueSourceArn"])
		require.Equal(t, fmt.Sprint(sent.UnixMilli()), m.Attributes["SentTimestamp"])
		require.Equal(t, first.Attributes["ApproximateFirstReceiveTimestamp"], m.Attributes["ApproximateFirstReceiveTimestamp"])

		require.NoError(t, source.delete(second.ReceiptHandle), "it is gone there")
		requireType[*types.ReceiptHandleIsInvalid](t, dead.delete(second.ReceiptHandle))
		require.NoError(t, dead.delete(m.ReceiptHandle))
		require.Zero(t, dead.queue.Len())
	})
}

// The poll on the source moves the message and goes on; the one on the dead-letter queue
// finds it.
func TestDeadLettersWakePolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, dead := withDeadLetters(t)
		source.send("poison")
		for range 2 {
			require.Len(t, source.receive(1, 0), 1)
			time.Sleep(30 * time.Second)
		}
		began := time.Now()
		found := make(chan time.Duration)
		go func() {
			require.Len(t, dead.receive(1, 20), 1)
			found <- time.Since(began)
		}()
		go func() {
			time.Sleep(2 * time.Second)
			require.Empty(t, source.receive(1, 5))
			found <- time.Since(began)
		}()
		require.Equal(t, 2*time.Second, <-found)
		require.Equal(t, 7*time.Second, <-found)
	})
}

func TestDeadLetterQueueGone(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, source, dead *bench){
		"deleted": func(t *testing.T, source, dead *bench) {
			_, err := dead.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: dead.url})
			require.NoError(t, err)
		},
		"not allowed": func(t *testing.T, source, dead *bench) {
			require.NoError(t, dead.set("RedriveAllowPolicy", `{"redrivePermission":"denyAll"}`))
		},
		"policy removed": func(t *testing.T, source, dead *bench) { require.NoError(t, source.set("RedrivePolicy", "")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, dead := withDeadLetters(t)
			source.send("x")
			lose(t, source, dead)
			for count := 1; count <= 5; count++ {
				m := source.receiveOne()
				require.Equal(t, fmt.Sprint(count), m.Attributes["ApproximateReceiveCount"])
				require.NoError(t, source.change(m.ReceiptHandle, 0))
			}
		})
	}
}

func TestRedrivePolicies(t *testing.T) {
	t.Parallel()
	b, dead := withDeadLetters(t)
	for name, c := range map[string]struct{ policy, code, text string }{
		"not JSON":      {"nonsense", "InvalidAttributeValue", "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map."},
		"null":          {"null", "InvalidAttributeValue", ""},
		"list":          {"[]", "InvalidAttributeValue", ""},
		"no count":      {fmt.Sprintf(`{"deadLetterTargetArn":%q}`, dead.queue.ARN()), "InvalidParameterValue", ""},
		"no target":     {`{"maxReceiveCount":3}`, "InvalidParameterValue", `Value {"maxReceiveCount":3} for parameter RedrivePolicy is invalid. Reason: Redrive policy does not contain mandatory attribute: deadLetterTargetArn.`},
		"count 0":       {policyTo(dead.queue, 0), "InvalidParameterValue", ""},
		"count 1001":    {policyTo(dead.queue, 1001), "InvalidParameterValue", ""},
		"text count":    {fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"many"}`, dead.queue.ARN()), "InvalidParameterValue", ""},
		"extra key":     {fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":3,"x":1}`, dead.queue.ARN()), "InvalidParameterValue", ""},
		"absent target": {`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:none","maxReceiveCount":3}`, "InvalidParameterValue", ""},
		"other region":  {`{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:000000000000:dead","maxReceiveCount":3}`, "InvalidParameterValue", ""},
		"number target": {`{"deadLetterTargetArn":7,"maxReceiveCount":3}`, "InvalidParameterValue", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := b.set("RedrivePolicy", c.policy)
			requireCode(t, err, 400, c.code)
			if c.text != "" {
				requireText(t, err, c.text)
			}
			_, err = b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("new"), Attributes: map[string]string{"RedrivePolicy": c.policy}})
			requireCode(t, err, 400, c.code)
		})
	}
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"42"}`, dead.queue.ARN())
	require.NoError(t, b.set("RedrivePolicy", policy), "the count may be text")
	out, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: b.url, AttributeNames: []types.QueueAttributeName{"RedrivePolicy"}})
	require.NoError(t, err)
	require.JSONEq(t, policy, out.Attributes["RedrivePolicy"])
	_, err = b.svc.CreateQueue("orders", map[string]string{"RedrivePolicy": policyTo(dead.queue, 42)})
	require.NoError(t, err, "the same policy in other words")
}

func TestRedriveAllowPolicies(t *testing.T) {
	t.Parallel()
	b, dead := withDeadLetters(t)
	for _, bad := range []string{
		"x", `{}`, `{"redrivePermission":"some"}`, `{"redrivePermission":"byQueue"}`,
		`{"redrivePermission":"allowAll","sourceQueueArns":["a"]}`, `{"redrivePermission":"denyAll","sourceQueueArns":["a"]}`,
		`{"redrivePermission":"byQueue","sourceQueueArns":["1","2","3","4","5","6","7","8","9","10","11"]}`,
	} {
		require.Error(t, dead.set("RedriveAllowPolicy", bad), bad)
	}
	byQueue := fmt.Sprintf(`{"redrivePermission":"byQueue","sourceQueueArns":[%q]}`, b.queue.ARN())
	require.NoError(t, dead.set("RedriveAllowPolicy", byQueue))
	require.NoError(t, b.set("RedrivePolicy", policyTo(dead.queue, 5)))
	_, err := b.svc.CreateQueue("stranger", map[string]string{"RedrivePolicy": policyTo(dead.queue, 5)})
	require.ErrorContains(t, err, "InvalidParameterValue")
	require.NoError(t, dead.set("RedriveAllowPolicy", `{"redrivePermission":"allowAll"}`))
	_, err = b.svc.CreateQueue("stranger", map[string]string{"RedrivePolicy": policyTo(dead.queue, 5)})
	require.NoError(t, err)

	out, err := b.client.ListDeadLetterSourceQueues(t.Context(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead.url})
	require.NoError(t, err)
	require.Equal(t, []string{b.queue.URL(), b.svc.Queue("stranger").URL()}, out.QueueUrls)
}
