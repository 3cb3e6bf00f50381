package contract_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	mebibyte   = 1 << 20
	tooLongFor = "One or more parameters are invalid. Reason: Message must be shorter than %d bytes."
)

var sizeRows = []behaviour{
	row("size/limit", "4.1.limit", "takes a body of exactly 1 MiB and refuses one byte more", func(e *env) {
		q := e.queue()
		q.send(strings.Repeat("a", mebibyte))
		e.equal("length of the body", mebibyte, len(*q.one("the message").Body))
		_, err := q.trySend(strings.Repeat("a", mebibyte+1))
		e.refused("SendMessage of 1 MiB and a byte", err, "InvalidParameterValue", fmt.Sprintf(tooLongFor, mebibyte))
	}),
	row("size/attributes", "4.1.attributes", "counts names, types and values of attributes", func(e *env) {
		q := e.queue("MaximumMessageSize", "1024")
		name := text("name", "String", "value") // 4+6+5
		q.send(strings.Repeat("a", 1024-15), name)
		_, err := q.trySend(strings.Repeat("a", 1024-14), name)
		e.refused("SendMessage of a byte more", err, "InvalidParameterValue", fmt.Sprintf(tooLongFor, 1024))
		_, err = q.trySend(strings.Repeat("a", 1024-10), binary("b", "Binary", []byte("four")))
		e.refused("SendMessage of a byte more in a Binary attribute", err, "InvalidParameterValue", "")
	}),
	row("size/bytes", "4.1.attributes", "counts bytes of UTF-8, not characters", func(e *env) {
		q := e.queue("MaximumMessageSize", "1024")
		q.send(strings.Repeat("ü", 512))
		_, err := q.trySend(strings.Repeat("ü", 512) + "a")
		e.refused("SendMessage of 513 characters in 1025 bytes", err, "InvalidParameterValue", "")
	}),
	row("size/system", "4.1.system", "does not count the AWSTraceHeader", func(e *env) {
		q := e.queue("MaximumMessageSize", "1024")
		_, err := q.trySend(strings.Repeat("a", 1024), trace(aTrace))
		e.ok("SendMessage of 1024 bytes and a trace header", err)
	}),
	row("size/queue", "4.1.queue", "takes the limit from the queue's MaximumMessageSize, also when it changes", func(e *env) {
		q := e.queue()
		e.ok("SetQueueAttributes", q.set("MaximumMessageSize", "1024"))
		q.send(strings.Repeat("a", 1024))
		_, err := q.trySend(strings.Repeat("a", 1025))
		e.refused("SendMessage of 1025 bytes", err, "InvalidParameterValue", fmt.Sprintf(tooLongFor, 1024))
	}),
	row("size/batch", "4.1.batch", "refuses a batch of more than 1 MiB in all, whatever its entries", func(e *env) {
		q := e.queue()
		half := strings.Repeat("a", mebibyte/2)
		out, err := q.sendBatch(entry("a", half), entry("b", half))
		e.ok("SendMessageBatch of exactly 1 MiB", err)
		e.equal("its entries", "a ok, b ok", sendResults(out))
		_, err = q.sendBatch(entry("a", half), entry("b", half+"a"))
		e.refused("SendMessageBatch of a byte more", err, "BatchRequestTooLong", "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.")
	}),
	row("size/batch-fixed", "4.1.batch", "lets a batch be longer than the queue's MaximumMessageSize if its entries are not", func(e *env) {
		q := e.queue("MaximumMessageSize", "1024")
		out, err := q.sendBatch(entry("a", strings.Repeat("a", 1024)), entry("b", strings.Repeat("b", 1024)))
		e.ok("SendMessageBatch", err)
		e.equal("its entries", "a ok, b ok", sendResults(out))
	}),
	row("size/batch-entry", "4.1.entry", "fails an entry alone that is too long for the queue", func(e *env) {
		q := e.queue("MaximumMessageSize", "1024")
		out, err := q.sendBatch(entry("a", "short"), entry("b", strings.Repeat("b", 1025)))
		e.ok("SendMessageBatch", err)
		e.equal("its entries", "a ok, b InvalidParameterValue", sendResults(out))
		if e.exact {
			e.equal("the text of the failure", "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.", aws.ToString(out.Failed[0].Message))
		}
		e.equal("messages", "[short]", bodies(q.receive(10, 1)))
	}),
}

// A character of every range that a body can have, at its edges.
const legalCharacters = "\t\n\r ~\u007f\u0080\ud7ff\ue000\ufffd"

var contentRows = []behaviour{
	row("content/legal", "4.2.charset", "keeps every character that a body can have", func(e *env) {
		q := e.queue()
		q.send(legalCharacters)
		e.checkf(*q.one("the message").Body == legalCharacters, "the body has changed")
	}),
	row("content/supplementary", "4.2.charset", "keeps characters beyond U+FFFF, such as emoji", func(e *env) {
		q := e.queue()
		q.send("\U00010000😀\U0010ffff")
		e.checkf(*q.one("the message").Body == "\U00010000😀\U0010ffff", "the body has changed")
	}),
	row("content/illegal", "4.2.charset", "refuses control characters and non-characters in a body", func(e *env) {
		q := e.queue()
		for _, c := range []string{"\x00", "\x01", "\x0b", "\x1f", "\ufffe", "\uffff"} {
			_, err := q.trySend("a" + c)
			e.refused(fmt.Sprintf("SendMessage with %U", []rune(c)[0]), err, "InvalidMessageContents", "")
		}
		q.none("after that")
	}),
	row("content/illegal-entry", "4.2.entry", "fails an entry alone that has an illegal character", func(e *env) {
		q := e.queue()
		out, err := q.sendBatch(entry("a", "good"), entry("b", "bad\x01"))
		e.ok("SendMessageBatch", err)
		e.equal("its entries", "a ok, b InvalidMessageContents", sendResults(out))
		e.equal("messages", "[good]", bodies(q.receive(10, 1)))
	}),
	row("content/empty", "4.2.empty", "refuses an empty body", func(e *env) {
		_, err := e.queue().trySend("")
		e.refused("SendMessage", err, "MissingParameter", "The request must contain the parameter MessageBody.")
	}),
	row("content/odd", "4.2.charset", "keeps bodies that look like something else", func(e *env) {
		q := e.queue()
		for _, body := range []string{"1", "true", "null", `{"a":1}`, `"a"`, "<a>&amp;</a>", " a ", "a+b%20c"} {
			q.send(body)
			e.equal("the body", body, *q.one("the message").Body)
		}
	}),
	row("content/ten-attributes", "4.3.ten", "takes 10 attributes and refuses 11", func(e *env) {
		q := e.queue()
		var options []sendOption
		for i := range 10 {
			options = append(options, text(strconv.Itoa(i), "String", "x"))
		}
		q.send("a", options...)
		_, err := q.trySend("a", append(options, text("10", "String", "x"))...)
		e.refused("SendMessage with 11 attributes", err, "InvalidParameterValue", "")
	}),
	row("content/attribute-names", "4.3.names", "refuses attribute names with other characters, reserved prefixes or a dot at an end", func(e *env) {
		q := e.queue()
		longest := strings.Repeat("n", 256)
		q.send("a", text(longest, "String", "x"), text("A-b_c.1", "String", "x"), text("awsome", "String", "x"))
		for _, name := range []string{"a b", "a:b", ".a", "a.", "AWS.a", "aws.a", "Amazon.a", "amazon.a", longest + "n"} {
			_, err := q.trySend("a", text(name, "String", "x"))
			e.refused("SendMessage with an attribute "+shorten(name), err, "InvalidParameterValue", "")
		}
	}),
	row("content/attribute-dots", "4.3.names", "refuses attribute names with two dots in a row", func(e *env) {
		_, err := e.queue().trySend("a", text("a..b", "String", "x"))
		e.refused("SendMessage", err, "InvalidParameterValue", "")
	}),
	row("content/attribute-accents", "4.3.accents", "takes attribute names with accented letters", func(e *env) {
		q := e.queue()
		q.send("a", text("attr.1øßä", "String", "x"))
		e.equal("the attribute", "x", aws.ToString(q.one("the message").MessageAttributes["attr.1øßä"].StringValue))
	}),
	row("content/attribute-types", "4.3.types", "refuses attributes of other types than String, Number and Binary", func(e *env) {
		q := e.queue()
		for _, kind := range []string{"Foo", "string", "Strings", ""} {
			_, err := q.trySend("a", text("a", kind, "x"))
			e.refused("SendMessage with the type "+kind, err, "InvalidParameterValue", "")
		}
	}),
	row("content/attribute-empty", "4.3.empty", "refuses empty attribute values", func(e *env) {
		q := e.queue()
		_, err := q.trySend("a", text("ErrorDetails", "String", ""))
		e.refused("SendMessage with an empty String", err, "InvalidParameterValue", "Message (user) attribute 'ErrorDetails' must contain a non-empty value of type 'String'.")
		_, err = q.trySend("a", binary("b", "Binary", []byte{}))
		e.refused("SendMessage with an empty Binary", err, "InvalidParameterValue", "")
	}),
	row("content/attribute-charset", "4.3.charset", "refuses illegal characters in attribute values", func(e *env) {
		_, err := e.queue().trySend("a", text("a", "String", "x\x01"))
		e.refused("SendMessage", err, "InvalidParameterValue", "")
	}),
	row("content/number", "4.3.number", "refuses Number attributes that are no numbers", func(e *env) {
		_, err := e.queue().trySend("a", text("n", "Number", "abc"))
		e.refused("SendMessage", err, "InvalidParameterValue", "Can't cast the value of message (user) attribute 'n' to a number.")
	}),
	row("content/number-digits", "4.3.digits", "takes 38 digits in a Number and refuses 39", func(e *env) {
		q := e.queue()
		q.send("a", text("n", "Number", strings.Repeat("1", 38)))
		_, err := q.trySend("a", text("n", "Number", strings.Repeat("1", 39)))
		e.refused("SendMessage with 39 digits", err, "InvalidParameterValue", "")
	}),
	row("content/list-values", "4.3.lists", "does not have list values", func(e *env) {
		_, err := e.queue().trySend("a", attribute("a", types.MessageAttributeValue{DataType: aws.String("String"), StringListValues: []string{"x"}}))
		e.checkf(err != nil, "SendMessage: want a refusal, got success")
	}),
	row("content/invalid-utf8", "4.2.utf8", "receives U+FFFD where a Go string is no UTF-8, and stores that", func(e *env) {
		q := e.queue()
		_, err := q.trySend("a\xffb")
		e.checkf(err != nil, "SendMessage: want the SDK's complaint about the checksum, got success")
		got, err := e.sqs.ReceiveMessage(e.ctx, &sqs.ReceiveMessageInput{QueueUrl: q.url, WaitTimeSeconds: 1})
		e.ok("ReceiveMessage", err)
		e.equal("the messages", "[a\ufffdb]", bodies(got.Messages))
	}),
}

func shorten(s string) string {
	if len(s) > 20 {
		return fmt.Sprintf("of %d letters", len(s))
	}
	return s
}
