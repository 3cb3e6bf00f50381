package watermillsqs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
