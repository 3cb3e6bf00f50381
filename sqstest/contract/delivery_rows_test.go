package contract_test

import (
	"strconv"
	"time"

	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

var deliveryRows = []behaviour{
	row("delivery/raw", "11.2.raw", "is the message as it is when raw, with its attributes as message attributes", func(e *env) {
		t := e.topic()
		q := t.raw()
		out := t.publish("ü 😀 {\"a\":1}", subject("s"), snsText("a", "String", "x"), snsText("n", "Number", "1.5"), snsBinary("b", []byte{0, 255}))
		m := q.one("the message")
		e.equal("body", "ü 😀 {\"a\":1}", *m.Body)
		e.equal("number of attributes", 3, len(m.MessageAttributes))
		e.equal("String attribute", "x", aws.ToString(m.MessageAttributes["a"].StringValue))
		e.equal("type of the Number attribute", "Number", aws.ToString(m.MessageAttributes["n"].DataType))
		e.equal("Binary attribute", []byte{0, 255}, m.MessageAttributes["b"].BinaryValue)
		e.checkf(*m.MessageId != *out.MessageId, "the MessageId is that of SNS")
	}),
	row("delivery/envelope", "11.2.envelope", "is wrapped in JSON when not raw", func(e *env) {
		t, q := e.topic(), e.queue()
		t.feeds(q)
		out := t.publish("hello", subject("s"), snsText("a", "String", "x"), snsBinary("b", []byte{0, 255}))
		m := q.one("the message")
		got := e.envelope(*m.Body)
		e.equal("members", []string{"Message", "MessageAttributes", "MessageId", "Signature", "SignatureVersion", "SigningCertURL", "Subject", "Timestamp", "TopicArn", "Type", "UnsubscribeURL"}, keys(got))
		for _, want := range [][2]string{{"Type", "Notification"}, {"Message", "hello"}, {"Subject", "s"}, {"MessageId", *out.MessageId}, {"TopicArn", *t.arn}} {
			e.checkf(got[want[0]] == want[1], "%s of the envelope is another", want[0])
		}
		e.equal("MessageAttributes of the envelope", map[string]any{
			"a": map[string]any{"Type": "String", "Value": "x"},
			"b": map[string]any{"Type": "Binary", "Value": base64.StdEncoding.EncodeToString([]byte{0, 255})},
		}, got["MessageAttributes"])
		stamp, _ := got["Timestamp"].(string)
		_, err := time.Parse("2006-01-02T15:04:05.000Z", stamp)
		e.checkf(err == nil, "the Timestamp of the envelope has another form")
		e.equal("message attributes", 0, len(m.MessageAttributes))
	}),
	row("delivery/envelope-least", "11.2.envelope", "has no Subject and MessageAttributes in the JSON if there are none", func(e *env) {
		t, q := e.topic(), e.queue()
		t.feeds(q)
		t.publish("hello")
		got := e.envelope(*q.one("the message").Body)
		_, hasSubject := got["Subject"]
		_, hasAttributes := got["MessageAttributes"]
		e.checkf(!hasSubject && !hasAttributes, "the envelope has members for nothing")
	}),
	row("delivery/fan-out", "11.2.raw", "reaches every queue that is subscribed", func(e *env) {
		t := e.topic()
		a, b := t.raw(), t.raw()
		t.publish("hello")
		e.equal("in the first queue", "[hello]", bodies(a.receive(10, 2)))
		e.equal("in the second queue", "[hello]", bodies(b.receive(10, 2)))
	}),
	row("delivery/before", "11.2.before", "does not bring what was published before the subscription", func(e *env) {
		t := e.topic()
		t.publish("early")
		t.raw().none("after subscribing")
	}),
	row("delivery/eleven-attributes", "11.2.eleven", "does not happen for a raw message with more than 10 attributes", func(e *env) {
		t := e.topic()
		raw, wrapped := t.raw(), e.queue()
		t.feeds(wrapped)
		var options []publishOption
		for i := range 11 {
			options = append(options, snsText("a"+strconv.Itoa(i), "String", "x"))
		}
		t.publish("hello", options...)
		wrapped.one("the wrapped message")
		raw.none("in the queue with raw delivery")
	}),
	row("delivery/policy", "11.1.policy", "needs a queue policy that lets the topic send", func(e *env) {
		t, q := e.topic(), e.queue()
		_, err := t.trySubscribe(q.arn(), "RawMessageDelivery", "true")
		e.ok("Subscribe", err)
		t.publish("a")
		q.none("without a policy")
		e.ok("SetQueueAttributes", q.set("Policy", e.topic().policy(q)))
		t.publish("a")
		q.none("with a policy for another topic")
		e.ok("SetQueueAttributes", q.set("Policy", t.policy(q)))
		t.publish("b")
		e.equal("with its policy", "[b]", bodies(q.receive(10, 2)))
	}),
	row("delivery/no-queue", "11.1.no-queue", "to a queue that is gone is dropped, and the subscription stays", func(e *env) {
		t, q := e.topic(), e.queue()
		arn := t.feeds(q)
		_, err := e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: q.url})
		e.ok("DeleteQueue", err)
		t.publish("a")
		e.equal("Endpoint", q.arn(), e.subscription(arn, "Endpoint"))
	}),
	row("delivery/dead-letter", "11.1.redrive", "to a queue that is gone goes to the subscription's dead-letter queue", func(e *env) {
		t, q, dead := e.topic(), e.queue(), e.queue()
		e.ok("SetQueueAttributes", dead.set("Policy", t.policy(dead)))
		t.feeds(q, "RawMessageDelivery", "true", "RedrivePolicy", `{"deadLetterTargetArn":"`+dead.arn()+`"}`)
		_, err := e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: q.url})
		e.ok("DeleteQueue", err)
		t.publish("a", snsText("x", "String", "1"))
		e.equal("in the dead-letter queue", "[a]", bodies(dead.receive(10, 3)))
	}),
	row("delivery/group", "11.2.group", "passes a MessageGroupId of a standard topic to standard queues", func(e *env) {
		t := e.topic()
		q := t.raw()
		t.publish("a", snsGroup("tenant"))
		e.equal("MessageGroupId", "tenant", q.one("the message").Attributes["MessageGroupId"])
	}),
	row("delivery/trace", "11.2.trace", "passes the X-Ray header of Publish as AWSTraceHeader", func(e *env) {
		t := e.topic()
		q := t.raw()
		_, err := e.sns.Publish(e.ctx, &sns.PublishInput{TopicArn: t.arn, Message: aws.String("a")},
			sns.WithAPIOptions(smithyhttp.AddHeaderValue("X-Amzn-Trace-Id", aTrace)))
		e.ok("Publish", err)
		e.equal("AWSTraceHeader", aTrace, q.one("the message").Attributes["AWSTraceHeader"])
	}),
	row("delivery/fifo", "11.2.fifo", "from a FIFO topic keeps order, group and deduplication id, also in a queue without content-based deduplication", func(e *env) {
		t, q := e.fifoTopic(), e.fifo()
		t.feeds(q, "RawMessageDelivery", "true")
		first := t.publish("1", snsGroup("g"), snsDedup("d1"))
		e.checkf(aws.ToString(first.SequenceNumber) != "", "Publish returns no SequenceNumber")
		t.publish("1", snsGroup("g"), snsDedup("d1"))
		t.publish("2", snsGroup("g"), snsDedup("d2"))
		m := q.one("the first message")
		e.equal("body", "1", *m.Body)
		e.equal("MessageGroupId", "g", m.Attributes["MessageGroupId"])
		e.equal("MessageDeduplicationId", "d1", m.Attributes["MessageDeduplicationId"])
		e.checkf(m.Attributes["SequenceNumber"] != *first.SequenceNumber, "the SequenceNumber is that of SNS")
		e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		e.equal("after that", "[2]", bodies(q.receive(10, 1)))
	}),
	row("delivery/fifo-content", "11.2.fifo", "from a FIFO topic with content-based deduplication has the SHA-256 of the message as id", func(e *env) {
		t, q := e.fifoTopic("ContentBasedDeduplication", "true"), e.fifo()
		t.feeds(q, "RawMessageDelivery", "true")
		t.publish("a", snsGroup("g"))
		t.publish("a", snsGroup("g"))
		got := q.all(2)
		e.equal("messages", "[a]", bodies(got))
		sum := sha256.Sum256([]byte("a"))
		e.equal("MessageDeduplicationId", hex.EncodeToString(sum[:]), got[0].Attributes["MessageDeduplicationId"])
	}),
	row("delivery/fifo-envelope", "11.2.fifo-envelope", "from a FIFO topic has a SequenceNumber and no signature in the JSON", func(e *env) {
		t, q := e.fifoTopic(), e.fifo()
		t.feeds(q)
		out := t.publish("a", snsGroup("g"), snsDedup("d"))
		got := e.envelope(*q.one("the message").Body)
		e.equal("members", []string{"Message", "MessageId", "SequenceNumber", "Timestamp", "TopicArn", "Type", "UnsubscribeURL"}, keys(got))
		e.checkf(got["SequenceNumber"] == aws.ToString(out.SequenceNumber), "the SequenceNumber is not that of Publish")
	}),
	row("delivery/fifo-batch", "11.2.fifo 11.batch", "from a FIFO topic keeps the order of a batch", func(e *env) {
		t, q := e.fifoTopic(), e.fifo()
		t.feeds(q, "RawMessageDelivery", "true")
		out, err := t.publishBatch(snsFIFOEntry("z", "1", "g", "1"), snsFIFOEntry("y", "2", "g", "2"), snsFIFOEntry("x", "3", "g", "3"))
		e.ok("PublishBatch", err)
		e.equal("its entries", "x ok, y ok, z ok", published(out))
		order := ""
		for range 3 {
			m := q.one("the next message")
			order += *m.Body
			e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		}
		e.equal("the order", "123", order)
	}),
	row("delivery/fifo-to-standard", "11.1.fifo-standard", "from a FIFO topic reaches standard queues without group, duplicates dropped", func(e *env) {
		t, q := e.fifoTopic(), e.queue()
		t.feeds(q, "RawMessageDelivery", "true")
		t.publish("a", snsGroup("g"), snsDedup("d"))
		t.publish("a", snsGroup("g"), snsDedup("d"))
		got := q.all(2)
		e.equal("messages", "[a]", bodies(got))
		_, there := got[0].Attributes["MessageGroupId"]
		e.checkf(!there, "the message has a MessageGroupId")
	}),
}

var filterPolicyRows = []behaviour{
	row("filterpolicy/exact", "11.3.attributes", "lets messages pass whose attribute has one of the values", func(e *env) {
		filters(e, `{"kind":["a","b"]}`, []string{"a", "b"}, []string{"c", ""})
	}),
	row("filterpolicy/prefix", "11.3.operators", "has prefixes", func(e *env) {
		filters(e, `{"kind":[{"prefix":"ab"}]}`, []string{"abc"}, []string{"bab"})
	}),
	row("filterpolicy/anything-but", "11.3.operators", "has exceptions", func(e *env) {
		filters(e, `{"kind":[{"anything-but":["a","b"]}]}`, []string{"c"}, []string{"a", "b"})
	}),
	row("filterpolicy/exists", "11.3.operators", "has presence and absence", func(e *env) {
		filters(e, `{"kind":[{"exists":true}]}`, []string{"a"}, []string{""})
		filters(e, `{"kind":[{"exists":false}]}`, []string{""}, []string{"a"})
	}),
	row("filterpolicy/numeric", "11.3.operators", "has ranges of numbers", func(e *env) {
		t := e.topic()
		q := t.raw("FilterPolicy", `{"n":[{"numeric":[">",0,"<=",10]}]}`)
		for _, n := range []string{"0", "1", "10", "11"} {
			t.publish("n"+n, snsText("n", "Number", n))
		}
		e.equal("what passes", "[n1 n10]", sortedBodies(q.all(4)))
	}),
	row("filterpolicy/keys", "11.3.attributes", "wants all of its keys", func(e *env) {
		t := e.topic()
		q := t.raw("FilterPolicy", `{"a":["1"],"b":["2"]}`)
		t.publish("both", snsText("a", "String", "1"), snsText("b", "String", "2"))
		t.publish("one", snsText("a", "String", "1"))
		e.equal("what passes", "[both]", bodies(q.all(2)))
	}),
	row("filterpolicy/array", "11.3.attributes", "looks into String.Array attributes", func(e *env) {
		t := e.topic()
		q := t.raw("FilterPolicy", `{"a":["x"]}`)
		t.publish("yes", snsText("a", "String.Array", `["w","x"]`))
		t.publish("no", snsText("a", "String.Array", `["w"]`))
		e.equal("what passes", "[yes]", bodies(q.all(2)))
	}),
	row("filterpolicy/body", "11.3.body", "looks into the body with FilterPolicyScope MessageBody", func(e *env) {
		t := e.topic()
		q := t.raw("FilterPolicyScope", "MessageBody", "FilterPolicy", `{"order":{"kind":["a"]}}`)
		t.publish(`{"order":{"kind":"a"}}`)
		t.publish(`{"order":{"kind":"b"}}`)
		t.publish(`no JSON`)
		e.equal("what passes", `[{"order":{"kind":"a"}}]`, bodies(q.all(3)))
	}),
	row("filterpolicy/removed", "11.3.attributes", "ends when it is taken away", func(e *env) {
		t, q := e.topic(), e.queue()
		arn := t.feeds(q, "RawMessageDelivery", "true", "FilterPolicy", `{"kind":["a"]}`)
		e.ok("SetSubscriptionAttributes", e.setSubscription(arn, "FilterPolicy", "{}"))
		t.publish("hello")
		e.equal("what passes", "[hello]", bodies(q.all(1)))
	}),
	row("filterpolicy/invalid", "11.3.invalid", "is refused if it is no JSON map of arrays, or has more than 5 keys", func(e *env) {
		t, q := e.topic(), e.queue()
		for _, policy := range []string{"invalid", `{"a":"x"}`, `{"a":["1"],"b":["1"],"c":["1"],"d":["1"],"e":["1"],"f":["1"]}`, `{"a":[{"nonsense":"x"}]}`} {
			_, err := t.trySubscribe(q.arn(), "FilterPolicy", policy)
			e.refused("Subscribe with "+policy, err, "InvalidParameter", "FilterPolicy: ")
		}
	}),
}

// filters publishes messages with the attribute kind, or without for "", and looks at
// which of them pass.
func filters(e *env, policy string, pass, stop []string) {
	t := e.topic()
	q := t.raw("FilterPolicy", policy)
	want := ""
	for _, kind := range append(pass, stop...) {
		if kind == "" {
			t.publish("none", snsText("other", "String", "x"))
			continue
		}
		t.publish("is-"+kind, snsText("kind", "String", kind))
	}
	for i, kind := range pass {
		if i > 0 {
			want += " "
		}
		if kind == "" {
			want += "none"
		} else {
			want += "is-" + kind
		}
	}
	e.equal("what passes "+policy, "["+want+"]", sortedBodies(q.all(len(pass)+len(stop))))
}
