package watermillsqs

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"
)

// requireLegalText is SQS's rule for text, written a second time and another way,
// and that the SDK's JSON encoder leaves the text as it is.
func requireLegalText(t *testing.T, text string) {
	t.Helper()
	require.NotEmpty(t, text)
	require.True(t, utf8.ValidString(text))
	for _, r := range text {
		legal := r == 0x9 || r == 0xA || r == 0xD || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000
		require.True(t, legal, "%U", r)
	}
	encoded, err := json.Marshal(text)
	require.NoError(t, err)
	var decoded string
	require.NoError(t, json.Unmarshal(encoded, &decoded))
	require.Equal(t, text, decoded)
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("uuid", []byte("text"), "a", "1", "b", "2", "named", uint8(0))
	f.Add("", []byte(nil), "", "", "a", "", "", uint8(9))
	f.Add("\xff", []byte{0xff, 0}, "\xff", "v", "v", "\xff", "k3", uint8(12))
	f.Add("\x00", []byte("\uFFFE"), UUIDAttribute, "1", PackedAttribute, "2", BodyEncodingAttribute, uint8(3))
	f.Add("u", []byte("//4="), TraceHeaderKey, traceHeader, "AWS.x", "v", "a..b", uint8(30))
	f.Add("u", []byte("(empty)"), "\uFFFF", "\uFFFE\\ufffe", "\"", "\\", "k11", uint8(40))
	f.Fuzz(func(t *testing.T, uuid string, payload []byte, key1, value1, key2, value2, named string, more uint8) {
		msg := message.NewMessage(uuid, payload)
		for i := range more {
			msg.Metadata[fmt.Sprint("k", i)] = value1[:min(len(value1), int(i))]
		}
		msg.Metadata[named] = value2
		msg.Metadata[key1] = value1
		msg.Metadata[key2] = value2
		for key := range msg.Metadata {
			if key == delay.DelayedUntilKey || key == delay.DelayedForKey || key == DeduplicationIDKey || isReservedKey(key) {
				delete(msg.Metadata, key)
			}
		}
		out := requireRoundTrip(t, DefaultMarshaler{AttributeKeys: []string{named, "k3", "absent"}}, msg)

		requireLegalText(t, out.Body)
		require.LessOrEqual(t, len(out.Attributes), 10)
		for _, attribute := range out.Attributes {
			require.Equal(t, "String", *attribute.DataType)
			requireLegalText(t, *attribute.StringValue)
		}
		for _, key := range []string{named, "k3"} {
			if value, ok := msg.Metadata[key]; ok && legalName(key) && legalText(value) && !isOwnAttribute(key) && key != TraceHeaderKey {
				require.Contains(t, out.Attributes, key)
				require.Equal(t, value, *out.Attributes[key].StringValue)
			}
		}
		again, err := DefaultMarshaler{AttributeKeys: []string{named, "k3", "absent"}}.Marshal("topic", msg)
		require.NoError(t, err)
		require.Equal(t, out, again)
	})
}

func FuzzUnmarshal(f *testing.F) {
	f.Add("body", "base64", `{"uuid":"u","metadata":{"a":"b"},"metadata64":{"/w==":"/w=="},"body":"empty"}`, "String", "name", []byte("v"), uint8(0xff))
	f.Add("(empty)", "empty", `{"uuid64":"/w=="}`, "Number.int", UUIDAttribute, []byte("1"), uint8(0x7f))
	f.Add("//4=", "base64", "null", "Binary", UUIDAttribute, []byte{0xff}, uint8(0))
	f.Add("", "", "{}{}", ".", PackedAttribute, []byte("{"), uint8(0x55))
	f.Fuzz(func(t *testing.T, body, encoding, pack, dataType, name string, value []byte, present uint8) {
		has := func(bit int) bool { return present&(1<<bit) != 0 }
		text := string(value)
		var in types.Message
		if has(0) {
			in.Body = &body
		}
		if has(1) {
			in.MessageId = &text
			in.MD5OfBody = &encoding
			in.Attributes = map[string]string{TraceHeaderKey: text}
		}
		if has(2) {
			in.MessageAttributes = map[string]types.MessageAttributeValue{BodyEncodingAttribute: stringAttribute(encoding)}
		}
		if has(3) {
			if in.MessageAttributes == nil {
				in.MessageAttributes = map[string]types.MessageAttributeValue{}
			}
			in.MessageAttributes[PackedAttribute] = stringAttribute(pack)
		}
		if in.MessageAttributes != nil && has(4) {
			var attribute types.MessageAttributeValue
			if has(5) {
				attribute.DataType = &dataType
			}
			if has(6) {
				attribute.StringValue = &text
			}
			if has(7) {
				attribute.BinaryValue = value
			}
			in.MessageAttributes[name] = attribute
		}

		if err := checkBody(in); err != nil {
			require.ErrorIs(t, err, ErrUndecodable)
		}
		got, err := DefaultMarshaler{}.Unmarshal("topic", in)
		if err != nil {
			require.ErrorIs(t, err, ErrUndecodable)
			require.Nil(t, got)
			return
		}
		// Whatever came in can be sent on, and is the same at the next stop.
		requireRoundTrip(t, DefaultMarshaler{}, got)
	})
}
