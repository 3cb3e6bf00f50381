// Package compat checks, against the real watermill-aws, that the two libraries
// read each other's messages, so that a service can migrate with messages in
// flight. It is a module of its own to keep watermill-aws out of users' graphs.
package compat

import (
	"fmt"
	"maps"
	"testing"

	theirs "github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

func newMessage(uuid, payload string, pairs ...string) *message.Message {
	msg := message.NewMessage(uuid, []byte(payload))
	for i := 0; i < len(pairs); i += 2 {
		msg.Metadata[pairs[i]] = pairs[i+1]
	}
	return msg
}

func numbered(n int) []string {
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("key.%02d", i), fmt.Sprint("value ", i))
	}
	return pairs
}

// plain are messages that attributes can carry as they are.
var plain = map[string]*message.Message{
	"no metadata":  newMessage("1f6f2f0e-0000-4000-8000-000000000000", `{"a":1}`),
	"some":         newMessage("u", "text", "correlation_id", "c", "name", "order.placed", "UTF-8", "é\U0001F600\t"),
	"nine":         newMessage("u", "text", numbered(9)...),
	"like base64":  newMessage("u", "//4=", "k", "v"),
	"multiline":    newMessage("u", "a\r\nb\tc", "k", "line 1\nline 2"),
	"trace header": newMessage("u", "text", watermillsqs.TraceHeaderKey, "not a valid one"),
}

// asReceived is what a consumer gets for a message of ours. It does not show the
// trace header, for which watermill-aws does not ask.
func asReceived(out watermillsqs.Outgoing) *types.Message {
	return &types.Message{
		MessageId:         aws.String("sqs-message-id"),
		Body:              &out.Body,
		MessageAttributes: out.Attributes,
	}
}

func requireSame(t *testing.T, want, got *message.Message) {
	t.Helper()
	require.Equal(t, want.UUID, got.UUID)
	require.Equal(t, string(want.Payload), string(got.Payload))
	require.Equal(t, maps.Collect(maps.All(want.Metadata)), maps.Collect(maps.All(got.Metadata)))
}

func TestWeWriteAsTheyDo(t *testing.T) {
	for name, msg := range plain {
		t.Run(name, func(t *testing.T) {
			their, err := theirs.DefaultMarshalerUnmarshaler{}.Marshal(msg)
			require.NoError(t, err)
			our, err := watermillsqs.DefaultMarshaler{}.Marshal("topic", msg)
			require.NoError(t, err)
			assert.Equal(t, *their.Body, our.Body)
			assert.Equal(t, their.MessageAttributes, our.Attributes)
			assert.Empty(t, our.TraceHeader)
		})
	}
}

func TestTheyWriteWeRead(t *testing.T) {
	for name, msg := range plain {
		t.Run(name, func(t *testing.T) {
			sent, err := theirs.DefaultMarshalerUnmarshaler{}.Marshal(msg)
			require.NoError(t, err)
			got, err := watermillsqs.DefaultMarshaler{}.Unmarshal("topic", *sent)
			require.NoError(t, err)
			requireSame(t, msg, got)
		})
	}
}

func TestWeWriteTheyRead(t *testing.T) {
	for name, msg := range plain {
		t.Run(name, func(t *testing.T) {
			sent, err := watermillsqs.DefaultMarshaler{}.Marshal("topic", msg)
			require.NoError(t, err)
			got, err := theirs.DefaultMarshalerUnmarshaler{}.Unmarshal(asReceived(sent))
			require.NoError(t, err)
			requireSame(t, msg, got)
		})
	}
}

func TestTheyReadWhatAttributesCarry(t *testing.T) {
	tests := []struct {
		name     string
		msg      *message.Message
		keys     []string
		metadata []string // what they see besides our own attributes
	}{
		{"empty value", newMessage("u", "text", "correlation_id", "", "k", "v"), nil, []string{"k", "v"}},
		{"illegal name", newMessage("u", "text", "a key", "v", "k", "v"), nil, []string{"k", "v"}},
		{"bytes", newMessage("u", "text", "bytes", "\xff", "k", "v"), nil, []string{"k", "v"}},
		{"too many", newMessage("u", "text", numbered(20)...), nil, numbered(8)},
		{"named ones", newMessage("u", "text", append(numbered(20), "z", "v")...), []string{"z"}, append(numbered(7), "z", "v")},
		{"their UUID attribute as a key", newMessage("u", "text", theirs.UUIDAttribute, "other", "k", "v"), nil, []string{"k", "v"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			marshaler := watermillsqs.DefaultMarshaler{AttributeKeys: test.keys}
			sent, err := marshaler.Marshal("topic", test.msg)
			require.NoError(t, err)
			got, err := theirs.DefaultMarshalerUnmarshaler{}.Unmarshal(asReceived(sent))
			require.NoError(t, err)

			// What they send on, and we receive, is whole again.
			again, err := theirs.DefaultMarshalerUnmarshaler{}.Marshal(got)
			require.NoError(t, err)
			back, err := marshaler.Unmarshal("topic", *again)
			require.NoError(t, err)
			requireSame(t, test.msg, back)

			require.Contains(t, got.Metadata, watermillsqs.PackedAttribute)
			delete(got.Metadata, watermillsqs.PackedAttribute)
			requireSame(t, newMessage(test.msg.UUID, "text", test.metadata...), got)
		})
	}
}

func TestTheyStillReadWhatTheyCannotUnderstand(t *testing.T) {
	for name, msg := range map[string]*message.Message{
		"illegal UUID":  newMessage("\x00", "text", "k", "v"),
		"empty UUID":    newMessage("", "text", "k", "v"),
		"binary body":   newMessage("u", "\xff\x00", "k", "v"),
		"empty payload": newMessage("u", "", "k", "v"),
	} {
		t.Run(name, func(t *testing.T) {
			sent, err := watermillsqs.DefaultMarshaler{}.Marshal("topic", msg)
			require.NoError(t, err)
			got, err := theirs.DefaultMarshalerUnmarshaler{}.Unmarshal(asReceived(sent))
			require.NoError(t, err)
			assert.Equal(t, "v", got.Metadata["k"])
			assert.NotEmpty(t, got.UUID, "the SQS message id, where the UUID is packed")

			again, err := theirs.DefaultMarshalerUnmarshaler{}.Marshal(got)
			require.NoError(t, err)
			back, err := watermillsqs.DefaultMarshaler{}.Unmarshal("topic", *again)
			require.NoError(t, err)
			requireSame(t, msg, back)
		})
	}
}

func TestUUIDAttributeIsTheirs(t *testing.T) {
	assert.Equal(t, theirs.UUIDAttribute, watermillsqs.UUIDAttribute)
}
