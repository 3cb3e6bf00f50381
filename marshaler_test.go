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

const traceHeader = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

func newTestMessage(uuid, payload string, pairs ...string) *message.Message {
	msg := message.NewMessage(uuid, []byte(payload))
	for i := 0; i < len(pairs); i += 2 {
		msg.Metadata[pairs[i]] = pairs[i+1]
	}
	return msg
}

// numbered returns n metadata pairs k00=v, k01=v, ...
func numbered(n int) []string {
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("k%02d", i), "v")
	}
	return pairs
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

func stringAttribute(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

func attributeNames(out Outgoing) []string {
	return slices.Sorted(maps.Keys(out.Attributes))
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
	consumed := []string{"watermillsqs_outcome", "watermillsqs_retry_after", delay.DelayedForKey, delay.DelayedUntilKey}
	msg := newTestMessage("u", "x", "a", "1")
	attributes := map[string]types.MessageAttributeValue{"a": stringAttribute("1")}
	var pack packed
	for _, key := range consumed {
		if isReservedKey(key) {
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

func TestOutgoingSize(t *testing.T) {
	out := Outgoing{
		Body:        "é",         // 2 bytes
		TraceHeader: traceHeader, // not counted
		Attributes: map[string]types.MessageAttributeValue{
			"name": stringAttribute("value"),                                           // 4+6+5
			"b":    {DataType: aws.String("Binary.gif"), BinaryValue: []byte{0, 1, 2}}, // 1+10+3
			"n":    {DataType: aws.String("Number"), StringValue: aws.String("12")},    // 1+6+2
		},
	}
	assert.Equal(t, 2+15+14+9, out.size())
	require.NoError(t, out.validate())

	for _, extra := range []int{0, 1} {
		out.Body = strings.Repeat("x", 1<<20-38+extra)
		err := out.validate()
		if extra == 0 {
			require.NoError(t, err, "exactly 1 MiB passes")
			continue
		}
		require.ErrorIs(t, err, ErrMessageTooLarge)
		var tooLarge *TooLargeError
		require.ErrorAs(t, err, &tooLarge)
		assert.Equal(t, TooLargeError{Size: 1<<20 + 1, Body: 1<<20 - 37, Attributes: 38, Limit: 1 << 20}, *tooLarge)
		assert.EqualError(t, err,
			"watermillsqs: message too large: 1048577 bytes (body 1048539, attributes 38), the limit is 1048576")
	}

	// With a real message: the UUID attribute takes 23+6+1 bytes.
	msg := newTestMessage("u", strings.Repeat("x", 1<<20-30))
	requireRoundTrip(t, DefaultMarshaler{}, msg)
	msg.Payload = append(msg.Payload, 'x')
	marshaled, err := DefaultMarshaler{}.Marshal("topic", msg)
	require.NoError(t, err)
	require.ErrorIs(t, marshaled.validate(), ErrMessageTooLarge)
}

func TestOutgoingValidate(t *testing.T) {
	attribute := func(name, dataType, value string) Outgoing {
		out := Outgoing{Body: "x", Attributes: map[string]types.MessageAttributeValue{name: {DataType: &dataType}}}
		field := out.Attributes[name]
		if strings.HasPrefix(dataType, "Binary") {
			field.BinaryValue = []byte(value)
		} else {
			field.StringValue = &value
		}
		out.Attributes[name] = field
		return out
	}
	single := func(value types.MessageAttributeValue) Outgoing {
		return Outgoing{Body: "x", Attributes: map[string]types.MessageAttributeValue{"a": value}}
	}
	numbers := func(n int) Outgoing {
		out := Outgoing{Body: "x", Attributes: map[string]types.MessageAttributeValue{}}
		for i := range n {
			out.Attributes[fmt.Sprint("a", i)] = stringAttribute("v")
		}
		return out
	}
	text, data := aws.String("v"), []byte("v")
	tests := []struct {
		name string
		out  Outgoing
		err  string // "" for none
	}{
		{"empty body", Outgoing{}, "the body is empty"},
		{"invalid UTF-8", Outgoing{Body: "ab\xff"}, "at byte 2"},
		{"cut character", Outgoing{Body: "a\xe2\x82"}, "at byte 1"},
		{"control character", Outgoing{Body: "\x1f"}, "at byte 0"},
		{"vertical tab", Outgoing{Body: "\v"}, "at byte 0"},
		{"U+FFFE", Outgoing{Body: "éa\uFFFE"}, "at byte 3"},
		{"U+FFFF", Outgoing{Body: "\uFFFF"}, "at byte 0"},
		{"all that is legal", Outgoing{Body: "\t\n\r \x7f\u0080\uD7FF\uE000\uFFFD\U00010000\U0010FFFF"}, ""},
		{"10 attributes", numbers(10), ""},
		{"11 attributes", numbers(11), "11 message attributes"},
		{"empty name", attribute("", "String", "v"), "a name has"},
		{"dot first", attribute(".a", "String", "v"), "a name has"},
		{"dot last", attribute("a.", "String", "v"), "a name has"},
		{"two dots", attribute("a..b", "String", "v"), "a name has"},
		{"space", attribute("a b", "String", "v"), "a name has"},
		{"accent", attribute("é", "String", "v"), "a name has"},
		{"AWS.", attribute("AwS.a", "String", "v"), "a name has"},
		{"Amazon.", attribute("amazon.a", "String", "v"), "a name has"},
		{"like AWS.", attribute("AWS-Amazon.a", "String", "v"), ""},
		{"256 bytes", attribute(strings.Repeat("a", 256), "String", "v"), ""},
		{"257 bytes", attribute(strings.Repeat("a", 257), "String", "v"), "a name has"},
		{"all that a name can have", attribute("azAZ09_-.x", "String", "v"), ""},
		{"no type", single(types.MessageAttributeValue{StringValue: text}), "data type"},
		{"unknown type", attribute("a", "Float", "v"), "data type"},
		{"case of type", attribute("a", "string", "v"), "data type"},
		{"empty label", attribute("a", "String.", "v"), "data type"},
		{"label", attribute("a", "String.x.y", "v"), ""},
		{"illegal label", attribute("a", "String.\x00", "v"), "data type"},
		{"long label", attribute("a", "String."+strings.Repeat("a", 250), "v"), "data type"},
		{"empty value", attribute("a", "String", ""), "empty"},
		{"no value", single(types.MessageAttributeValue{DataType: aws.String("Number")}), "empty"},
		{"empty bytes", attribute("a", "Binary", ""), "empty"},
		{"bytes", attribute("a", "Binary.x", "\x00\xff"), ""},
		{"illegal value", attribute("a", "String", "\x00"), "forbids"},
		{"text in Binary", single(types.MessageAttributeValue{DataType: aws.String("Binary"), BinaryValue: data, StringValue: text}), "not of its data type"},
		{"bytes in String", single(types.MessageAttributeValue{DataType: aws.String("String"), BinaryValue: data, StringValue: text}), "not of its data type"},
		{"list", single(types.MessageAttributeValue{DataType: aws.String("String"), StringValue: text, StringListValues: []string{"v"}}), "list"},
		{"binary list", single(types.MessageAttributeValue{DataType: aws.String("Binary"), BinaryValue: data, BinaryListValues: [][]byte{data}}), "list"},
		{"number", attribute("a", "Number", "-12.5e3"), ""},
		{"no number", attribute("a", "Number.int", "twelve"), "not a number"},
		{"delay at limit", Outgoing{Body: "x", DelaySeconds: 900}, ""},
		{"delay over limit", Outgoing{Body: "x", DelaySeconds: 901}, "DelaySeconds is 901, must be 0-900"},
		{"negative delay", Outgoing{Body: "x", DelaySeconds: -1}, "DelaySeconds is -1"},
		{"trace header", Outgoing{Body: "x", TraceHeader: traceHeader}, ""},
		{"no trace header", Outgoing{Body: "x", TraceHeader: "x"}, "TraceHeader"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.out.validate()
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalidMessage)
			require.ErrorContains(t, err, test.err)
		})
	}
	several := numbers(3)
	for name := range several.Attributes {
		several.Attributes[name] = stringAttribute("")
	}
	for range 20 {
		require.ErrorContains(t, several.validate(), `"a0"`, "the error is always the same")
	}
}
