package components

import (
	"context"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// fanOutTopic publishes to an SNS topic what our subscribers read from the queues behind
// it: with raw delivery, body and attributes arrive as they were published.
type fanOutTopic struct {
	client *sns.Client
	topic  *sqstest.Topic
}

// newFanOutTopic makes a topic and the queues behind it.
func newFanOutTopic(t *testing.T, service *sqstest.Service, name string, queues ...string) message.Publisher {
	t.Helper()
	topic, err := service.CreateTopic(name, nil)
	require.NoError(t, err)
	client := service.SNSClient()
	for _, name := range queues {
		q, err := service.CreateQueue(name, map[string]string{"Policy": fmt.Sprintf(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},`+
				`"Action":"sqs:SendMessage","Resource":"*","Condition":{"ArnEquals":{"aws:SourceArn":%q}}}]}`, topic.ARN())})
		require.NoError(t, err)
		_, err = client.Subscribe(t.Context(), &sns.SubscribeInput{
			TopicArn: aws.String(topic.ARN()), Protocol: aws.String("sqs"), Endpoint: aws.String(q.ARN()),
			Attributes: map[string]string{"RawMessageDelivery": "true"},
		})
		require.NoError(t, err)
	}
	return fanOutTopic{client: client, topic: topic}
}

func (f fanOutTopic) Publish(topic string, messages ...*message.Message) error {
	for _, msg := range messages {
		out, err := watermillsqs.DefaultMarshaler{}.Marshal(topic, msg)
		if err != nil {
			return err
		}
		attributes := map[string]types.MessageAttributeValue{}
		for name, a := range out.Attributes {
			attributes[name] = types.MessageAttributeValue{DataType: a.DataType, StringValue: a.StringValue, BinaryValue: a.BinaryValue}
		}
		if _, err := f.client.Publish(context.Background(), &sns.PublishInput{
			TopicArn: aws.String(f.topic.ARN()), Message: &out.Body, MessageAttributes: attributes,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (fanOutTopic) Close() error { return nil }
