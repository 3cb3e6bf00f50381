package contract_test

import (
	"crypto/md5"

	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const aTrace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

var sendRows = []behaviour{
	row("send/md5", "4.4.md5", "answers with the MD5 of the body, and that of attributes if there are any", func(e *env) {
		q := e.queue()
		out := q.send("plain")
		e.equal("MD5OfMessageBody", md5Hex([]byte("plain")), aws.ToString(out.MD5OfMessageBody))
		e.checkf(out.MD5OfMessageAttributes == nil, "there is an MD5OfMessageAttributes without attributes")
		e.checkf(out.MD5OfMessageSystemAttributes == nil, "there is an MD5OfMessageSystemAttributes without system attributes")
		e.checkf(out.SequenceNumber == nil, "there is a SequenceNumber on a standard queue")
		out = q.send("with", text("b", "String.custom", "ü"), text("a", "Number", "1"), binary("c", "Binary", []byte{0, 255}))
		want := attributesMD5([][3]string{{"a", "Number", "1"}, {"b", "String.custom", "ü"}, {"c", "Binary", "\x00\xff"}})
		e.equal("MD5OfMessageAttributes", want, aws.ToString(out.MD5OfMessageAttributes))
		for _, m := range q.all(2) {
			e.equal("MD5OfBody on receive", md5Hex([]byte(*m.Body)), aws.ToString(m.MD5OfBody))
			if *m.Body == "with" {
				e.equal("MD5OfMessageAttributes on receive", want, aws.ToString(m.MD5OfMessageAttributes))
			}
		}
	}),
	row("send/md5-system", "4.4.md5-system", "keeps system attributes out of the MD5 of attributes", func(e *env) {
		q := e.queue()
		out := q.send("a", text("a", "String", "x"), trace(aTrace))
		e.equal("MD5OfMessageAttributes", attributesMD5([][3]string{{"a", "String", "x"}}), aws.ToString(out.MD5OfMessageAttributes))
		e.equal("MD5OfMessageSystemAttributes", attributesMD5([][3]string{{"AWSTraceHeader", "String", aTrace}}), aws.ToString(out.MD5OfMessageSystemAttributes))
	}),
	row("send/attributes", "4.3.round-trip 4.3.types", "keeps attributes of every type as they are, labels and all", func(e *env) {
		q := e.queue()
		q.send("a", text("s", "String", "ü 😀"), text("n", "Number", "-12.5"), binary("b", "Binary", []byte{0, 1, 254, 255}),
			text("l", "String.label", "x"), text("i", "Number.int", "7"), binary("z", "Binary.gzip", []byte("y")))
		got := q.one("the message").MessageAttributes
		for _, want := range [][3]string{
			{"s", "String", "ü 😀"}, {"n", "Number", "-12.5"}, {"b", "Binary", "\x00\x01\xfe\xff"},
			{"l", "String.label", "x"}, {"i", "Number.int", "7"}, {"z", "Binary.gzip", "y"},
		} {
			e.equal("type of "+want[0], want[1], aws.ToString(got[want[0]].DataType))
			value := aws.ToString(got[want[0]].StringValue)
			if strings.HasPrefix(want[1], "Binary") {
				value = string(got[want[0]].BinaryValue)
			}
			e.equal("value of "+want[0], want[2], value)
		}
	}),
	row("send/trace", "4.3.trace", "keeps an AWSTraceHeader", func(e *env) {
		q := e.queue()
		q.send("a", trace(aTrace))
		e.equal("AWSTraceHeader", aTrace, q.one("the message").Attributes["AWSTraceHeader"])
	}),
	row("send/trace-http", "4.3.trace-http", "takes the header X-Amzn-Trace-Id of the request as AWSTraceHeader", func(e *env) {
		q := e.queue()
		_, err := e.sqs.SendMessage(e.ctx, &sqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("a")}, withHeader("X-Amzn-Trace-Id", aTrace))
		e.ok("SendMessage", err)
		e.equal("AWSTraceHeader", aTrace, q.one("the message").Attributes["AWSTraceHeader"])
	}),
	row("send/system-unknown", "4.3.trace", "refuses other system attributes", func(e *env) {
		q := e.queue()
		_, err := q.trySend("a", func(in *sqs.SendMessageInput) {
			in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{"Other": {DataType: aws.String("String"), StringValue: aws.String("x")}}
		})
		e.refused("SendMessage", err, "InvalidParameterValue", "")
	}),
	row("send/group", "4.6.fair", "takes a MessageGroupId on a standard queue, which gives no SequenceNumber", func(e *env) {
		q := e.queue()
		out := q.send("a", group("tenant"))
		e.checkf(out.SequenceNumber == nil, "there is a SequenceNumber")
		m := q.one("the message")
		e.equal("MessageGroupId", "tenant", m.Attributes["MessageGroupId"])
		q.send("b", group("tenant"))
		q.one("a second one of the group, while the first is in flight")
	}),
	row("send/group-invalid", "4.6.ids", "refuses a MessageGroupId that is empty, longer than 128 or has spaces, on a standard queue too", func(e *env) {
		q := e.queue()
		for _, id := range []string{strings.Repeat("a", 129), "group 123", ""} {
			_, err := q.trySend("a", group(id))
			e.refused(fmt.Sprintf("SendMessage with the MessageGroupId %q", shorten(id)), err, "InvalidParameterValue",
				"Value "+id+" for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
		}
	}),
	row("send/dedup-standard", "4.6.dedup-standard", "refuses a MessageDeduplicationId on a standard queue", func(e *env) {
		q := e.queue()
		_, err := q.trySend("a", dedup("a"))
		e.refused("SendMessage", err, "InvalidParameterValue", "")
	}),
	row("send/delay", "4.5.delay", "hides a message for its DelaySeconds", func(e *env) {
		q := e.queue()
		q.send("a", delayed(2))
		q.none("at once")
		e.equal("visible/in flight/delayed", "0/0/1", q.counts())
		e.sleep(2500 * time.Millisecond)
		q.one("after the delay")
	}),
	row("send/delay-queue", "4.5.delay", "hides messages for the DelaySeconds of the queue if they have none of their own", func(e *env) {
		q := e.queue("DelaySeconds", "2")
		q.send("queue's")
		q.send("own", delayed(60))
		q.none("at once")
		e.sleep(2500 * time.Millisecond)
		e.equal("after the delay", "[queue's]", bodies(q.receive(10, 1)))
	}),
	row("send/delay-zero", "4.5.zero", "takes an explicit DelaySeconds of 0 over the queue's", func(e *env) {
		q := e.queue("DelaySeconds", "60")
		_, err := e.sqs.SendMessage(e.ctx, &sqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("a")},
			withJSON(func(m map[string]any) { m["DelaySeconds"] = 0 }))
		e.ok("SendMessage", err)
		q.one("at once")
	}),
	row("send/delay-change", "3.delay-change", "keeps the delay of a message on a standard queue when the queue's changes", func(e *env) {
		q := e.queue("DelaySeconds", "60")
		q.send("a")
		e.ok("SetQueueAttributes", q.set("DelaySeconds", "0"))
		e.sleep(time.Second)
		q.none("after the delay of the queue was taken away")
		q.send("b")
		e.equal("a message sent later", "[b]", bodies(q.receive(10, 1)))
	}),
	row("send/delay-range", "4.5.delay", "refuses DelaySeconds over 900", func(e *env) {
		q := e.queue()
		q.send("a", delayed(900))
		_, err := q.trySend("a", delayed(901))
		e.refused("SendMessage with DelaySeconds 901", err, "InvalidParameterValue", "")
		_, err = q.trySend("a", delayed(-1))
		e.refused("SendMessage with DelaySeconds -1", err, "InvalidParameterValue", "")
	}),
}

func md5Hex(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}

// attributesMD5 is the checksum of attributes, each a name, a type and a value: for each,
// by name, the length and bytes of name and type, a 1 for text or 2 for binary, and
// length and bytes of the value.
func attributesMD5(attributes [][3]string) string {
	slices.SortFunc(attributes, func(a, b [3]string) int { return strings.Compare(a[0], b[0]) })
	var b []byte
	add := func(s string) {
		b = append(b, byte(len(s)>>24), byte(len(s)>>16), byte(len(s)>>8), byte(len(s)))
		b = append(b, s...)
	}
	for _, a := range attributes {
		add(a[0])
		add(a[1])
		if strings.HasPrefix(a[1], "Binary") {
			b = append(b, 2)
		} else {
			b = append(b, 1)
		}
		add(a[2])
	}
	return md5Hex(b)
}
