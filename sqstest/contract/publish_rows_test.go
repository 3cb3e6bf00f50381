package contract_test

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
)

// topicMaximum is the size of a message by default.
const topicMaximum = 256 << 10

var publishRows = []behaviour{
	row("publish/no-topic", "11.missing", "to a topic that does not exist is refused", func(e *env) {
		none := e.noTopic()
		_, err := none.tryPublish("a")
		e.refused("Publish", err, "NotFound", noTopicText)
		_, err = none.publishBatch(snsEntry("a", "a"))
		e.refused("PublishBatch", err, "NotFound", noTopicText)
	}),
	row("publish/other-region", "11.region", "to a topic of another region is refused", func(e *env) {
		t := e.topic()
		t.arn = aws.String(strings.Replace(*t.arn, "us-east-1", "eu-west-1", 1))
		_, err := t.tryPublish("a")
		e.refused("Publish", err, "InvalidParameter", "Invalid parameter: TopicArn")
	}),
	row("publish/target", "11.target", "takes the topic as TargetArn as well", func(e *env) {
		t := e.topic()
		q := t.raw()
		_, err := e.sns.Publish(e.ctx, &sns.PublishInput{TargetArn: t.arn, Message: aws.String("a")})
		e.ok("Publish", err)
		q.one("the message")
	}),
	row("publish/empty", "11.empty", "refuses an empty message", func(e *env) {
		_, err := e.topic().tryPublish("")
		e.refused("Publish", err, "InvalidParameter", "Invalid parameter: Empty message")
	}),
	row("publish/subject-empty", "11.empty", "refuses an empty subject", func(e *env) {
		_, err := e.topic().tryPublish("a", subject(""))
		e.refused("Publish", err, "InvalidParameter", "Invalid parameter: Subject")
	}),
	row("publish/size", "11.size", "takes 256 KiB and refuses one byte more", func(e *env) {
		t := e.topic()
		t.publish(strings.Repeat("a", topicMaximum))
		_, err := t.tryPublish(strings.Repeat("a", topicMaximum+1))
		e.refused("Publish", err, "InvalidParameter", "Invalid parameter: Message too long")
	}),
	row("publish/size-attributes", "11.size", "counts names, types and values of attributes", func(e *env) {
		t := e.topic()
		t.publish(strings.Repeat("a", topicMaximum-15), snsText("name", "String", "value"))
		_, err := t.tryPublish(strings.Repeat("a", topicMaximum-14), snsText("name", "String", "value"))
		e.refused("Publish", err, "InvalidParameter", "Invalid parameter: Message too long")
	}),
	row("publish/size-batch", "11.batch-size", "refuses a whole batch of more than 256 KiB in all", func(e *env) {
		t := e.topic()
		half := strings.Repeat("a", topicMaximum/2)
		_, err := t.publishBatch(snsEntry("a", half), snsEntry("b", half))
		e.ok("PublishBatch of 256 KiB", err)
		_, err = t.publishBatch(snsEntry("a", half), snsEntry("b", half+"b"))
		e.refused("PublishBatch", err, "BatchRequestTooLong", "The length of all the messages put together is more than the limit.")
	}),
	row("publish/batch", "11.batch", "takes ten entries and answers for each by its id", func(e *env) {
		t := e.topic()
		q := t.raw()
		var all []publishEntry
		for i := range 10 {
			entry := snsEntry(strconv.Itoa(i), "body "+strconv.Itoa(i))
			entry.MessageAttributes = map[string]snstypes.MessageAttributeValue{"n": {DataType: aws.String("String"), StringValue: aws.String(strconv.Itoa(i))}}
			all = append(all, entry)
		}
		out, err := t.publishBatch(all...)
		e.ok("PublishBatch", err)
		e.equal("its entries", "0 ok, 1 ok, 2 ok, 3 ok, 4 ok, 5 ok, 6 ok, 7 ok, 8 ok, 9 ok", published(out))
		got := q.all(10)
		e.equal("messages", 10, len(got))
		for _, m := range got {
			e.equal("the attribute of a message", *m.Body, "body "+aws.ToString(m.MessageAttributes["n"].StringValue))
		}
	}),
	row("publish/batch-many", "11.batch-refused", "refuses eleven entries", func(e *env) {
		var all []publishEntry
		for i := range 11 {
			all = append(all, snsEntry(strconv.Itoa(i), "a"))
		}
		_, err := e.topic().publishBatch(all...)
		e.refused("PublishBatch", err, "TooManyEntriesInBatchRequest", "The batch request contains more entries than permissible.")
	}),
	row("publish/batch-distinct", "11.batch-refused", "refuses the same entry id twice", func(e *env) {
		_, err := e.topic().publishBatch(snsEntry("a", "1"), snsEntry("a", "2"))
		e.refused("PublishBatch", err, "BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
	}),
	row("publish/batch-ids", "11.batch-refused", "refuses entry ids with other characters or longer than 80", func(e *env) {
		t := e.topic()
		for _, id := range []string{"message.id", "msg@123#test", strings.Repeat("a", 81)} {
			_, err := t.publishBatch(snsEntry(id, "a"))
			e.refused("PublishBatch with the id "+shorten(id), err, "InvalidBatchEntryId", "The Id of a batch entry in the batch request")
		}
	}),
	row("publish/batch-attribute", "11.batch-whole", "refuses a whole batch for a bad attribute of one entry", func(e *env) {
		t := e.topic()
		q := t.raw()
		bad := snsEntry("b", "bad")
		bad.MessageAttributes = map[string]snstypes.MessageAttributeValue{"attr1": {DataType: aws.String("String"), StringValue: aws.String("")}}
		_, err := t.publishBatch(snsEntry("a", "good"), bad)
		e.refused("PublishBatch", err, "ParameterValueInvalid", "The message attribute 'attr1' must contain non-empty message attribute value for message attribute type 'String'.")
		q.none("after that")
	}),
	row("publish/batch-fifo", "11.batch-whole", "refuses a whole batch for an entry without group or deduplication id on a FIFO topic", func(e *env) {
		t := e.fifoTopic()
		_, err := t.publishBatch(snsFIFOEntry("a", "a", "g", "d"), snsEntry("b", "b"))
		e.refused("PublishBatch without group", err, "InvalidParameter", "The MessageGroupId parameter is required for FIFO topics")
		b := snsEntry("b", "b")
		b.MessageGroupId = aws.String("g")
		_, err = t.publishBatch(snsFIFOEntry("a", "a", "g", "d"), b)
		e.refused("PublishBatch without deduplication id", err, "InvalidParameter", "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	}),
	row("publish/batch-structure", "11.batch-whole", "refuses a whole batch for an entry in parts without default", func(e *env) {
		t := e.topic()
		q := t.raw()
		bad := snsEntry("b", `{"sqs":"s"}`)
		bad.MessageStructure = aws.String("json")
		_, err := t.publishBatch(snsEntry("a", "good"), bad)
		e.refused("PublishBatch", err, "InvalidParameter", "Invalid parameter: Message Structure - No default entry in JSON message body")
		q.none("after that")
	}),
	row("publish/attribute-values", "11.attributes", "refuses attributes that are empty or of the wrong member", func(e *env) {
		t := e.topic()
		type value = snstypes.MessageAttributeValue
		for _, c := range []struct {
			what  string
			value value
		}{
			{"an empty String", value{DataType: aws.String("String"), StringValue: aws.String("")}},
			{"no value", value{DataType: aws.String("String")}},
			{"an empty Binary", value{DataType: aws.String("Binary"), BinaryValue: []byte{}}},
			{"a String in binary", value{DataType: aws.String("String"), BinaryValue: []byte("x")}},
			{"a Binary in text", value{DataType: aws.String("Binary"), StringValue: aws.String("x")}},
			{"an unknown type", value{DataType: aws.String("Foo"), StringValue: aws.String("x")}},
			{"a type with no label", value{DataType: aws.String("String."), StringValue: aws.String("x")}},
		} {
			_, err := t.tryPublish("a", snsAttribute("attr1", c.value))
			e.refused("Publish with "+c.what, err, "ParameterValueInvalid", "The message attribute 'attr1'")
		}
	}),
	row("publish/attribute-names", "11.attributes", "refuses attribute names with other characters, dots in a row or at an end", func(e *env) {
		t := e.topic()
		t.publish("a", snsText("A-b_c.1", "String", "x"))
		for _, name := range []string{"^a", ".a", "a.", "a..b", strings.Repeat("n", 257)} {
			_, err := t.tryPublish("a", snsText(name, "String", "x"))
			e.refused("Publish with an attribute "+shorten(name), err, "ParameterValueInvalid", "")
		}
	}),
	row("publish/group-required", "11.2.fifo-required", "refuses a message to a FIFO topic without group or deduplication id", func(e *env) {
		t := e.fifoTopic()
		_, err := t.tryPublish("a", snsDedup("d"))
		e.refused("Publish without group", err, "InvalidParameter", "The MessageGroupId parameter is required for FIFO topics")
		_, err = t.tryPublish("a", snsGroup("g"))
		e.refused("Publish without deduplication id", err, "InvalidParameter", "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	}),
	row("publish/dedup-standard", "11.2.dedup-standard", "refuses a MessageDeduplicationId to a standard topic", func(e *env) {
		_, err := e.topic().tryPublish("a", snsDedup("d"))
		e.refused("Publish", err, "InvalidParameter", "MessageDeduplicationId")
	}),
	row("publish/structure", "11.structure", "takes the entry for sqs, else default, of a message in parts, and refuses one without default", func(e *env) {
		t := e.topic()
		q := t.raw()
		parts := func(in *sns.PublishInput) { in.MessageStructure = aws.String("json") }
		t.publish(`{"default":"d","sqs":"s"}`, parts)
		e.equal("the message with an entry for sqs", "[s]", bodies(q.receive(1, 2)))
		t.publish(`{"default":"d","email":"m"}`, parts)
		e.equal("the message without", "[d]", bodies(q.receive(1, 2)))
		_, err := t.tryPublish(`{"sqs":"s"}`, parts)
		e.refused("Publish without default", err, "InvalidParameter", "Invalid parameter: Message Structure - No default entry in JSON message body")
		_, err = t.tryPublish(`nonsense`, parts)
		e.refused("Publish of no JSON", err, "InvalidParameter", "Invalid parameter: Message Structure - JSON message body failed to parse")
	}),
}
