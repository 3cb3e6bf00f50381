package watermillsqs

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnmarshalForeign(t *testing.T) {
	value := func(dataType, text string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: &dataType, StringValue: &text}
	}
	binary := func(dataType string, bytes ...byte) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: &dataType, BinaryValue: bytes}
	}
	both := types.MessageAttributeValue{StringValue: aws.String("text"), BinaryValue: []byte("bytes")}
	bothBinary := both
	bothBinary.DataType = aws.String("Binary.x")
	got, err := DefaultMarshaler{}.Unmarshal("topic", types.Message{
		MessageId: aws.String("id"),
		Body:      aws.String("aGVsbG8="),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"string": value("String", "s"), "label": value("String.x", "l"), "array": value("String.Array", "[1]"),
			"number": value("Number", "1"), "int": value("Number.int", "2"), "other": value("Other", "o"),
			"binary": binary("Binary", 0xff, 0), "gif": binary("Binary.gif", 'g'),
			"untyped": {StringValue: aws.String("u")}, "untyped bytes": {BinaryValue: []byte("b")},
			"both": both, "both, binary": bothBinary, "none": {}, "string without one": {DataType: aws.String("String")},
		},
	})
	require.NoError(t, err)
	assert.Equal(t, "id", got.UUID, "the SQS message id stands in for the UUID")
	assert.Equal(t, "aGVsbG8=", string(got.Payload), "what looks like base64 stays as it is")
	assert.Equal(t, message.Metadata{
		"string": "s", "label": "l", "array": "[1]", "number": "1", "int": "2", "other": "o", "binary": "\xff\x00", "gif": "g",
		"untyped": "u", "untyped bytes": "b", "both": "text", "both, binary": "bytes",
	}, got.Metadata)
	requireRoundTrip(t, DefaultMarshaler{}, got)

	got, err = DefaultMarshaler{}.Unmarshal("topic", types.Message{MessageAttributes: map[string]types.MessageAttributeValue{
		UUIDAttribute: binary("Binary", 'b', 'i', 'n'),
	}})
	require.NoError(t, err)
	assert.Equal(t, "bin", got.UUID)
	assert.Empty(t, got.Metadata)

	got, err = DefaultMarshaler{}.Unmarshal("topic", types.Message{MessageId: aws.String("id"),
		MessageAttributes: map[string]types.MessageAttributeValue{UUIDAttribute: {}}})
	require.NoError(t, err)
	assert.Equal(t, "id", got.UUID)

	got, err = DefaultMarshaler{}.Unmarshal("topic", types.Message{})
	require.NoError(t, err)
	assert.Equal(t, message.NewMessage("", []byte{}).Payload, got.Payload)
	assert.NotNil(t, got.Metadata)

	// Attributes that were added on the way do not replace what was published.
	got, err = DefaultMarshaler{}.Unmarshal("topic", types.Message{MessageAttributes: map[string]types.MessageAttributeValue{
		UUIDAttribute: stringAttribute("x"), "k": stringAttribute("x"),
		PackedAttribute: stringAttribute(`{"uuid":"packed","metadata":{"k":"packed"}}`),
	}})
	require.NoError(t, err)
	assert.Equal(t, "packed", got.UUID)
	assert.Equal(t, "packed", got.Metadata["k"])
}

func TestUnmarshalMalformed(t *testing.T) {
	tests := []struct {
		name, attribute, value, body string
	}{
		{"unknown encoding", BodyEncodingAttribute, "gzip", "x"},
		{"empty encoding", BodyEncodingAttribute, "", "x"},
		{"not base64", BodyEncodingAttribute, "base64", "a payload in clear"},
		{"base64 cut short", BodyEncodingAttribute, "base64", "//4"},
		{"not the placeholder", BodyEncodingAttribute, "empty", "a payload"},
		{"packed encoding unknown", PackedAttribute, `{"body":"gzip"}`, "x"},
		{"packed encoding wrong", PackedAttribute, `{"body":"base64"}`, "x"},
		{"packed: nothing", PackedAttribute, "", "x"},
		{"packed: null", PackedAttribute, "null", "x"},
		{"packed: list", PackedAttribute, "[]", "x"},
		{"packed: cut short", PackedAttribute, `{"uuid":"u"`, "x"},
		{"packed: more behind", PackedAttribute, `{"uuid":"u"} {}`, "x"},
		{"packed: wrong type", PackedAttribute, `{"metadata":{"k":1}}`, "x"},
		{"packed: unknown member", PackedAttribute, `{"next":{}}`, "x"},
		{"packed: invalid UTF-8", PackedAttribute, "{\"uuid\":\"\xff\"}", "x"},
		{"packed: UUID not base64", PackedAttribute, `{"uuid64":"!"}`, "x"},
		{"packed: key not base64", PackedAttribute, `{"metadata64":{"!":""}}`, "x"},
		{"packed: value not base64", PackedAttribute, `{"metadata64":{"":"!"}}`, "x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := DefaultMarshaler{}.Unmarshal("topic", types.Message{Body: &test.body,
				MessageAttributes: map[string]types.MessageAttributeValue{test.attribute: stringAttribute(test.value)}})
			require.ErrorIs(t, err, ErrUndecodable)
			assert.Nil(t, got)
			assert.NotContains(t, err.Error(), "payload", "contents do not belong into errors")
		})
	}
	for _, name := range []string{BodyEncodingAttribute, PackedAttribute} {
		_, err := DefaultMarshaler{}.Unmarshal("topic", types.Message{
			MessageAttributes: map[string]types.MessageAttributeValue{name: {}}})
		require.ErrorIs(t, err, ErrUndecodable, name)
	}
}

func TestCheckBody(t *testing.T) {
	sum := func(body string) *string {
		sum := md5.Sum([]byte(body))
		return aws.String(hex.EncodeToString(sum[:]))
	}
	require.NoError(t, checkBody(types.Message{}))
	require.NoError(t, checkBody(types.Message{Body: aws.String("x")}))
	require.NoError(t, checkBody(types.Message{Body: aws.String("x"), MD5OfBody: sum("x")}))
	require.NoError(t, checkBody(types.Message{Body: aws.String("x"), MD5OfBody: aws.String(strings.ToUpper(*sum("x")))}))
	require.NoError(t, checkBody(types.Message{MD5OfBody: sum("")}))
	require.ErrorIs(t, checkBody(types.Message{Body: aws.String("x"), MD5OfBody: sum("y")}), ErrUndecodable)
	require.ErrorIs(t, checkBody(types.Message{MD5OfBody: sum("y")}), ErrUndecodable)
	require.ErrorIs(t, checkBody(types.Message{Body: aws.String("x"), MD5OfBody: aws.String("")}), ErrUndecodable)
}

func TestLegalNumber(t *testing.T) {
	digits := strings.Repeat("9", 38)
	for _, text := range []string{"0", "-0", "+1", "1.", ".5", "00012.500", "1e5", "1E-128", "1e+126", "9.9e125", digits, "0." + digits,
		"1" + strings.Repeat("0", 60), "0e999", "10e125", "0.01e-126"} {
		assert.True(t, legalNumber(text), text)
	}
	for _, text := range []string{"", "-", "+-1", ".", "1.2.3", "1e", "e1", "1e1.5", " 1", "1 ", "1_0", "0x1", "NaN", "Inf", "١",
		digits + "1", "1e127", "1.1e126", "9.9e-129", "1e99999999999999999999"} {
		assert.False(t, legalNumber(text), text)
	}
}

func TestLegalTraceHeader(t *testing.T) {
	const root, parent = "Root=1-5759e988-bd862e3fe1be46a994272793", "Parent=53995c3f42cd8ad8"
	for _, text := range []string{root, traceHeader, "Sampled=0;" + root, root + ";Self=1-67891234-12456789abcdef012345678;CalledFrom=app",
		root + ";Lineage=a87bd80c:1|68fd508a:5"} {
		assert.True(t, legalTraceHeader(text), text)
	}
	for _, text := range []string{"", "Root=", "Root=1-5759e988-bd862e3fe1be46a99427279", "Root=2-5759e988-bd862e3fe1be46a994272793",
		"Root=1-5759e98g-bd862e3fe1be46a994272793", "Root=1-5759e988_bd862e3fe1be46a994272793", "Root=1-5759e988-bd862e3fe1be46a99427279z",
		parent, root + ";" + root, root + ";" + parent + ";" + parent, root + ";Parent=53995c3f42cd8ad", root + ";Parent=53995c3f42cd8adg",
		root + ";Sampled=2", root + ";Sampled=1;Sampled=1", root + ";", ";" + root, root + "; " + parent, root + ";a", root + ";=b",
		root + ";a=b=c", root + ";a=\n", root + ";a=é", root + ";a=" + strings.Repeat("b", 256)} {
		assert.False(t, legalTraceHeader(text), text)
	}
}

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
			if key == delay.DelayedUntilKey || key == delay.DelayedForKey || isReservedKey(key) {
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

func BenchmarkMarshaler(b *testing.B) {
	text, data := strings.Repeat("0123456789abcdef", 64), strings.Repeat("\xff\x00", 512)
	const uuid = "0b9a2f0e-4e5b-4f0e-8d0c-5f6c7f1d2a3b"
	for _, bench := range []struct {
		name string
		msg  *message.Message
	}{
		{"plain", newTestMessage(uuid, text, "correlation_id", uuid, "name", "order.placed")},
		{"no metadata", newTestMessage(uuid, text)},
		{"packed", newTestMessage(uuid, text, append(numbered(12), "correlation_id", "")...)},
		{"bytes", newTestMessage(uuid, data, "correlation_id", uuid, "name", "order.placed")},
		{"1 MB", newTestMessage(uuid, strings.Repeat(text, 1000))},
	} {
		out, err := DefaultMarshaler{}.Marshal("topic", bench.msg)
		require.NoError(b, err)
		in := received(b, out)
		b.Run("Marshal/"+bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = DefaultMarshaler{}.Marshal("topic", bench.msg)
			}
		})
		b.Run("validate/"+bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = out.validate()
			}
		})
		b.Run("Unmarshal/"+bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = checkBody(in)
				_, _ = DefaultMarshaler{}.Unmarshal("topic", in)
			}
		})
	}
}
