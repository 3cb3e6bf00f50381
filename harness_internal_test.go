package watermillsqs

import (
	"crypto/md5"
	"encoding/hex"
	"maps"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"
)

const traceHeader = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

func newTestMessage(uuid, payload string, pairs ...string) *message.Message {
	msg := message.NewMessage(uuid, []byte(payload))
	for i := 0; i < len(pairs); i += 2 {
		msg.Metadata[pairs[i]] = pairs[i+1]
	}
	return msg
}

func stringAttribute(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

// received is what a consumer gets for out, after it has passed validation.
func received(t testing.TB, out Outgoing) types.Message {
	t.Helper()
	require.NoError(t, out.validate())
	sum := md5.Sum([]byte(out.Body))
	msg := types.Message{
		MessageId:         aws.String("sqs-message-id"),
		Body:              &out.Body,
		MD5OfBody:         aws.String(hex.EncodeToString(sum[:])),
		MessageAttributes: out.Attributes,
	}
	if out.TraceHeader != "" {
		msg.Attributes = map[string]string{"AWSTraceHeader": out.TraceHeader}
	}
	return msg
}

// requireRoundTrip marshals msg, checks that it is left alone and comes back, and returns what was sent.
func requireRoundTrip(t testing.TB, marshaler DefaultMarshaler, msg *message.Message) Outgoing {
	t.Helper()
	uuid, metadata, payload := msg.UUID, maps.Clone(msg.Metadata), slices.Clone(msg.Payload)
	out, err := marshaler.Marshal("topic", msg)
	require.NoError(t, err)
	require.Equal(t, uuid, msg.UUID, "the caller's message was changed")
	require.Equal(t, metadata, msg.Metadata, "the caller's message was changed")
	require.Equal(t, payload, msg.Payload, "the caller's message was changed")

	delivery := received(t, out)
	require.NoError(t, checkBody(delivery))
	got, err := marshaler.Unmarshal("topic", delivery)
	require.NoError(t, err)
	require.Equal(t, msg.UUID, got.UUID)
	require.Equal(t, string(msg.Payload), string(got.Payload))
	require.NotNil(t, got.Payload)
	require.NotNil(t, got.Metadata)
	require.Equal(t, maps.Collect(maps.All(msg.Metadata)), maps.Collect(maps.All(got.Metadata)))
	return out
}
