package watermillsqs

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numbered returns n metadata pairs k00=v, k01=v, ...
func numbered(n int) []string {
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("k%02d", i), "v")
	}
	return pairs
}

func attributeNames(out Outgoing) []string {
	return slices.Sorted(maps.Keys(out.Attributes))
}

func TestMarshalWritesPlainAttributes(t *testing.T) {
	out, err := DefaultMarshaler{}.Marshal("topic", newTestMessage("uuid", "text", "key", "value"))
	require.NoError(t, err)
	assert.Equal(t, Outgoing{
		Body: "text",
		Attributes: map[string]types.MessageAttributeValue{
			"key":                     stringAttribute("value"),
			"_watermill_message_uuid": stringAttribute("uuid"),
		},
	}, out)
}

func TestRoundTrip(t *testing.T) {
	const (
		uuid, pack, body = UUIDAttribute, PackedAttribute, BodyEncodingAttribute
		bytes            = "\xff\xfe"
	)
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	first := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("k%02d", i))
		}
		return names
	}
	tests := []struct {
		name  string
		msg   *message.Message
		attrs []string // what travels as an attribute
		body  string   // "" where it is the payload
	}{
		{"plain", newTestMessage("u", "text", "a", "1"), []string{"a", uuid}, ""},
		{"nothing", message.NewMessage("", nil), []string{pack, body}, "(empty)"},
		{"nil metadata", &message.Message{UUID: "u", Payload: []byte("x")}, []string{uuid}, ""},
		{"9 pairs", newTestMessage("u", "x", numbered(9)...), append(first(9), uuid), ""},
		{"10 pairs", newTestMessage("u", "x", numbered(10)...), append(first(8), uuid, pack), ""},
		{"50 pairs", newTestMessage("u", "x", numbered(50)...), append(first(8), uuid, pack), ""},
		{"8 pairs, bytes", newTestMessage("u", bytes, numbered(8)...), append(first(8), uuid, body), "//4="},
		{"9 pairs, bytes", newTestMessage("u", bytes, numbered(9)...), append(first(7), uuid, pack, body), "//4="},
		{"9 pairs, no UUID", newTestMessage("", "x", numbered(9)...), append(first(9), pack), ""},
		{"10 pairs, no UUID", newTestMessage("", "x", numbered(10)...), append(first(9), pack), ""},
		{"9 pairs and an empty one", newTestMessage("u", "x", append(numbered(9), "e", "")...), append(first(8), uuid, pack), ""},
		{"empty value", newTestMessage("u", "x", "correlation_id", ""), []string{uuid, pack}, ""},
		{"empty key", newTestMessage("u", "x", "", "v"), []string{uuid, pack}, ""},
		{"illegal key", newTestMessage("u", "x", "a key", "v", "b", "v"), []string{"b", uuid, pack}, ""},
		{"dotted keys", newTestMessage("u", "x", ".a", "1", "a.", "2", "a..b", "3", "a.b", "4"), []string{"a.b", uuid, pack}, ""},
		{"keys of AWS", newTestMessage("u", "x", "aWs.x", "1", "AMAZON.x", "2", "AWSx", "3"), []string{"AWSx", uuid, pack}, ""},
		{"long keys", newTestMessage("u", "x", strings.Repeat("k", 256), "1", strings.Repeat("k", 257), "2"),
			[]string{uuid, pack, strings.Repeat("k", 256)}, ""},
		{"illegal value", newTestMessage("u", "x", "a", "\x00", "b", "\uFFFE\uFFFF", "c", "\x1b[0m"), []string{uuid, pack}, ""},
		{"legal value", newTestMessage("u", "x", "a", "\t\r\n \x7f\u0080\uD7FF\uE000\uFFFD\U00010000\U0010FFFF"), []string{"a", uuid}, ""},
		{"invalid UTF-8", newTestMessage("u", "x", "a", bytes, bytes, "v", "\xc0", "\x00\xc0"), []string{uuid, pack}, ""},
		{"replacement character", newTestMessage("u", "x", "a", "\uFFFD", "\uFFFD", "v"), []string{"a", uuid, pack}, ""},
		{"surrogate", newTestMessage("u", "\xed\xa0\x80", "a", "\xed\xa0\x80"), []string{uuid, pack, body}, "7aCA"},
		{"JSON and HTML", newTestMessage("u", "x", `"\{}<>&`+"\u2028", `\ufffe","a":"`), []string{uuid, pack}, ""},
		{"reserved names", newTestMessage("u", "x", uuid, "1", pack, "2", body, "3"), []string{uuid, pack}, ""},
		{"UUID with control character", newTestMessage("a\x00b", "x"), []string{pack}, ""},
		{"UUID of bytes", newTestMessage(bytes, "x"), []string{pack}, ""},
		{"body of every byte", newTestMessage("u", string(everyByte)), []string{uuid, body}, "AAECAw"},
		{"body with BEL", newTestMessage("u", "\x07"), []string{uuid, body}, "Bw=="},
		{"body with U+FFFE", newTestMessage("u", "a\uFFFE"), []string{uuid, body}, "Ye+/vg=="},
		{"body cut in a character", newTestMessage("u", "a\xe2\x82"), []string{uuid, body}, "YeKC"},
		{"body like base64", newTestMessage("u", "//4="), []string{uuid}, ""},
		{"body like the placeholder", newTestMessage("u", "(empty)"), []string{uuid}, ""},
		{"trace header", newTestMessage("u", "x", TraceHeaderKey, traceHeader), []string{uuid}, ""},
		{"trace header that is none", newTestMessage("u", "x", TraceHeaderKey, "Root=1"), []string{TraceHeaderKey, uuid}, ""},
		{"trace header that cannot be one", newTestMessage("u", "x", TraceHeaderKey, "\x00"), []string{uuid, pack}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := requireRoundTrip(t, DefaultMarshaler{}, test.msg)
			assert.ElementsMatch(t, test.attrs, attributeNames(out))
			if test.body == "" {
				assert.Equal(t, string(test.msg.Payload), out.Body)
			} else {
				assert.Equal(t, test.body, out.Body[:min(len(out.Body), max(6, len(test.body)))])
			}
			for range 20 {
				again, err := DefaultMarshaler{}.Marshal("topic", test.msg)
				require.NoError(t, err)
				require.Equal(t, out, again, "the output is not deterministic")
			}
		})
	}
}

func TestAttributeKeys(t *testing.T) {
	named := []string{"z8", "z7", "z6", "z5", "z4", "z3", "z2", "z1"}
	var pairs []string
	for _, key := range named {
		pairs = append(pairs, key, "v")
	}
	tests := []struct {
		name  string
		keys  []string
		msg   *message.Message
		attrs []string
	}{
		{"named first, the rest sorted", []string{"z1", "absent"}, newTestMessage("u", "x", append(numbered(20), "z1", "v")...),
			[]string{"z1", "k00", "k01", "k02", "k03", "k04", "k05", "k06", UUIDAttribute, PackedAttribute}},
		{"all named, and more", named, newTestMessage("u", "x", append(numbered(2), pairs...)...),
			append([]string{UUIDAttribute, PackedAttribute}, named...)},
		{"all named, and bytes", named, newTestMessage("u", "\xff", pairs...),
			append([]string{UUIDAttribute, BodyEncodingAttribute}, named...)},
		{"all named, more, and bytes", named, newTestMessage("u", "\xff", append(numbered(2), pairs...)...),
			append([]string{UUIDAttribute, PackedAttribute}, named...)},
		{"all named, more, and nothing", named, newTestMessage("u", "", append(numbered(2), pairs...)...),
			append([]string{UUIDAttribute, PackedAttribute}, named...)},
		{"7 named, more, and bytes", named[:7], newTestMessage("u", "\xff", append(numbered(2), pairs...)...),
			append([]string{UUIDAttribute, PackedAttribute, BodyEncodingAttribute}, named[:7]...)},
		{"named but illegal", []string{"a b", "c"}, newTestMessage("u", "x", "a b", "v", "c", ""),
			[]string{UUIDAttribute, PackedAttribute}},
		{"named but reserved", []string{UUIDAttribute}, newTestMessage("u", "x", UUIDAttribute, "v"),
			[]string{UUIDAttribute, PackedAttribute}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := requireRoundTrip(t, DefaultMarshaler{AttributeKeys: test.keys}, test.msg)
			assert.ElementsMatch(t, test.attrs, attributeNames(out))
		})
	}

	_, err := DefaultMarshaler{AttributeKeys: make([]string, 9)}.Marshal("topic", newTestMessage("u", "x"))
	require.ErrorIs(t, err, ErrInvalidConfig)
	require.ErrorContains(t, err, "AttributeKeys has 9 keys, must be 0-8")
}

func TestMarshalKeepsNoArguments(t *testing.T) {
	msg := newTestMessage("u", "text", "key", "value")
	out, err := DefaultMarshaler{}.Marshal("topic", msg)
	require.NoError(t, err)
	msg.Payload[0], msg.Metadata["key"] = 'X', "X"
	assert.Equal(t, "text", out.Body)
	assert.Equal(t, "value", *out.Attributes["key"].StringValue)

	in := types.Message{Body: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{
		"key": {DataType: aws.String("Binary"), BinaryValue: []byte("value")},
	}}
	got, err := DefaultMarshaler{}.Unmarshal("topic", in)
	require.NoError(t, err)
	in.MessageAttributes["key"].BinaryValue[0] = 'X'
	got.Metadata["other"] = "x"
	assert.Equal(t, "value", got.Metadata["key"])
	assert.Len(t, in.MessageAttributes, 1)

	_, err = DefaultMarshaler{}.Marshal("topic", nil)
	require.ErrorIs(t, err, ErrInvalidMessage)
}

func TestMarshalDelay(t *testing.T) {
	const until, duration = delay.DelayedUntilKey, delay.DelayedForKey
	// The clock of a bubble starts at midnight UTC 2000-01-01; half a second later, whole seconds have a remainder.
	tests := []struct {
		name  string
		pairs []string
		want  int32
		err   string
	}{
		{"none", nil, 0, ""},
		{"until, rounded up", []string{until, "2000-01-01T00:00:02Z"}, 2, ""},
		{"until, to the second", []string{until, "2000-01-01T00:00:02.5Z"}, 2, ""},
		{"until, just over", []string{until, "2000-01-01T00:00:02.500000001Z"}, 3, ""},
		{"until, in another zone", []string{until, "2000-01-01T02:00:05+02:00"}, 5, ""},
		{"until, past", []string{until, "1999-12-31T23:59:59Z"}, 0, ""},
		{"until, long past", []string{until, "0001-01-01T00:00:00Z"}, 0, ""},
		{"until, the limit", []string{until, "2000-01-01T00:15:00.5Z"}, 900, ""},
		{"until, over the limit", []string{until, "2000-01-01T00:15:01Z"}, 0,
			`metadata _watermill_delayed_until is "2000-01-01T00:15:01Z", which is more than the 15 minutes that SQS can delay a message`},
		{"until, far future", []string{until, "9999-01-01T00:00:00Z"}, 0, "15 minutes"},
		{"until, malformed", []string{until, "tomorrow", duration, "1s"}, 0,
			`metadata _watermill_delayed_until is "tomorrow", which is not a time in RFC 3339`},
		{"until before for", []string{until, "2000-01-01T00:00:05Z", duration, "1h"}, 5, ""},
		{"past until before for", []string{until, "1999-12-31T23:59:59Z", duration, "10s"}, 0, ""},
		{"empty until, for", []string{until, "", duration, "10s"}, 10, ""},
		{"for", []string{duration, "10s"}, 10, ""},
		{"for, rounded up", []string{duration, "1.000000001s"}, 2, ""},
		{"for, negative", []string{duration, "-1h"}, 0, ""},
		{"for, empty", []string{duration, ""}, 0, ""},
		{"for, the limit", []string{duration, "15m"}, 900, ""},
		{"for, over the limit", []string{duration, "15m0.001s"}, 0,
			`metadata _watermill_delayed_for is "15m0.001s", which is more than the 15 minutes that SQS can delay a message`},
		{"for, malformed", []string{duration, "10"}, 0,
			`metadata _watermill_delayed_for is "10", which is not a Go duration`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Second / 2)
				out, err := DefaultMarshaler{}.Marshal("topic", newTestMessage("u", "x", test.pairs...))
				if test.err != "" {
					require.ErrorIs(t, err, ErrInvalidDelay)
					require.ErrorContains(t, err, test.err)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, test.want, out.DelaySeconds)
				assert.Equal(t, []string{UUIDAttribute}, attributeNames(out), "a delay is not carried on")
				assert.NoError(t, out.validate())
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(999 * time.Millisecond)
		msg := newTestMessage("u", "x")
		delay.Message(msg, delay.For(15*time.Minute))
		out, err := DefaultMarshaler{}.Marshal("topic", msg)
		require.NoError(t, err)
		assert.EqualValues(t, 900, out.DelaySeconds, "as Watermill's own component writes it")
		assert.Len(t, msg.Metadata, 2, "the caller's message was changed")
	})
}

func TestConsumedMetadataIsNeitherPublishedNorDelivered(t *testing.T) {
	consumed := []string{"watermillsqs_outcome", "watermillsqs_retry_after", delay.DelayedForKey, delay.DelayedUntilKey, DeduplicationIDKey}
	msg := newTestMessage("u", "x", "a", "1")
	attributes := map[string]types.MessageAttributeValue{"a": stringAttribute("1")}
	var pack packed
	for _, key := range consumed {
		if isReservedKey(key) || key == DeduplicationIDKey {
			msg.Metadata[key] = "\x00"
			out, err := DefaultMarshaler{AttributeKeys: []string{key}}.Marshal("topic", msg)
			require.NoError(t, err)
			assert.Equal(t, []string{UUIDAttribute, "a"}, attributeNames(out))
		}
		attributes[key] = stringAttribute("1s")
		pack.add(key, "1s")
		pack.add("\xff"+key, "kept")
	}
	for range 2 {
		got, err := DefaultMarshaler{}.Unmarshal("topic", types.Message{MessageAttributes: attributes})
		require.NoError(t, err)
		for _, key := range consumed {
			assert.NotContains(t, got.Metadata, key)
		}
		assert.Equal(t, "1", got.Metadata["a"])
		attributes[PackedAttribute] = stringAttribute(pack.encode())
	}
}

func TestTraceHeader(t *testing.T) {
	out, err := DefaultMarshaler{}.Marshal("topic", newTestMessage("u", "x", TraceHeaderKey, traceHeader))
	require.NoError(t, err)
	assert.Equal(t, traceHeader, out.TraceHeader)

	in := received(t, out)
	in.Attributes["SenderId"] = "not for metadata"
	got, err := DefaultMarshaler{}.Unmarshal("topic", in)
	require.NoError(t, err)
	assert.Equal(t, message.Metadata{TraceHeaderKey: traceHeader}, got.Metadata)

	for name, value := range map[string]string{"attribute": "mine", "packed": "\x00"} {
		t.Run("not over the "+name, func(t *testing.T) {
			out, err := DefaultMarshaler{}.Marshal("topic", newTestMessage("u", "x", TraceHeaderKey, value))
			require.NoError(t, err)
			in := received(t, out)
			in.Attributes = map[string]string{TraceHeaderKey: traceHeader}
			got, err := DefaultMarshaler{}.Unmarshal("topic", in)
			require.NoError(t, err)
			assert.Equal(t, value, got.Metadata[TraceHeaderKey])
		})
	}
}

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
