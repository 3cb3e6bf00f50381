package contract_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

var deadLetterRows = []behaviour{
	row("deadletter/nacked", "8.on-receive 8.zero-counts", "takes a message that was received maxReceiveCount times and given back each time", func(e *env) {
		source, dead := e.pair(2)
		source.send("a")
		for range 2 {
			e.ok("ChangeMessageVisibility", source.change(source.one("the message").ReceiptHandle, 0))
		}
		source.none("the third receive")
		dead.one("the message in the dead-letter queue")
	}),
	row("deadletter/on-receive", "8.on-receive", "takes a message when it is received once too often, not before", func(e *env) {
		source, dead := e.pair(1, "VisibilityTimeout", "1")
		source.send("a")
		source.one("the message")
		e.sleep(1500 * time.Millisecond)
		dead.none("in the dead-letter queue before another receive")
		e.equal("source: visible/in flight/delayed", "1/0/0", source.counts())
		source.none("the receive that moves it")
		dead.one("the message in the dead-letter queue")
		e.equal("source: visible/in flight/delayed", "0/0/0", source.counts())
	}),
	row("deadletter/others", "8.on-receive", "does not keep a receive from returning other messages", func(e *env) {
		source, dead := e.pair(1)
		source.send("poison")
		e.ok("ChangeMessageVisibility", source.change(source.one("the message").ReceiptHandle, 0))
		source.send("good")
		e.equal("the next receive", "[good]", bodies(source.receive(10, 1)))
		e.equal("in the dead-letter queue", "[poison]", bodies(dead.receive(10, 1)))
	}),
	row("deadletter/wakes", "8.on-receive 5.wake", "wakes the long polls on it", func(e *env) {
		source, dead := e.pair(1)
		source.send("a")
		e.ok("ChangeMessageVisibility", source.change(source.one("the message").ReceiptHandle, 0))
		poll := dead.poll(1, 8)
		source.none("the receive that moves it")
		wakes(e, poll, "[a]")
	}),
	row("deadletter/attributes", "8.attributes 8.count", "keeps id, body, attributes and trace header, adds DeadLetterQueueSourceArn and goes on counting", func(e *env) {
		source, dead := e.pair(1)
		sent := source.send("a", text("MyAttribute", "String", "foobar"), trace(aTrace))
		m := source.one("the message")
		_, there := m.Attributes["DeadLetterQueueSourceArn"]
		e.checkf(!there, "a message in its first queue has DeadLetterQueueSourceArn")
		e.ok("ChangeMessageVisibility", source.change(m.ReceiptHandle, 0))
		source.none("the receive that moves it")
		got := dead.one("the message in the dead-letter queue")
		e.equal("body", "a", *got.Body)
		e.equal("MessageId", *sent.MessageId, *got.MessageId)
		e.equal("message attribute", "foobar", aws.ToString(got.MessageAttributes["MyAttribute"].StringValue))
		e.checkf(got.Attributes["DeadLetterQueueSourceArn"] == source.arn(), "DeadLetterQueueSourceArn is not the source's ARN")
		e.equal("ApproximateReceiveCount", "2", got.Attributes["ApproximateReceiveCount"])
		e.equal("AWSTraceHeader", aTrace, got.Attributes["AWSTraceHeader"])
	}),
	row("deadletter/count", "8.count", "goes on counting receives: 2 in the dead-letter queue after one in the source", func(e *env) {
		source, dead := e.pair(1)
		source.send("a")
		e.ok("ChangeMessageVisibility", source.change(source.one("the message").ReceiptHandle, 0))
		source.none("the receive that moves it")
		e.equal("ApproximateReceiveCount", "2", dead.one("the message").Attributes["ApproximateReceiveCount"])
	}),
	row("deadletter/timestamps", "8.timestamps", "keeps SentTimestamp and ApproximateFirstReceiveTimestamp", func(e *env) {
		source, dead := e.pair(1)
		source.send("a")
		m := source.one("the message")
		e.sleep(100 * time.Millisecond)
		e.ok("ChangeMessageVisibility", source.change(m.ReceiptHandle, 0))
		source.none("the receive that moves it")
		got := dead.one("the message")
		for _, name := range []string{"SentTimestamp", "ApproximateFirstReceiveTimestamp"} {
			e.checkf(m.Attributes[name] == got.Attributes[name], "%s is another", name)
		}
	}),
	row("deadletter/retention", "8.retention", "keeps the time a message was sent for its retention on a standard queue", func(e *env) {
		dead := e.queue("MessageRetentionPeriod", "120")
		source := e.queue("VisibilityTimeout", "0", "RedrivePolicy", redrive(dead, "1"))
		source.send("a")
		source.one("the message")
		e.sleep(100 * time.Second)
		source.none("the receive that moves it")
		e.equal("visible/in flight/delayed", "1/0/0", dead.counts())
		e.sleep(30 * time.Second)
		e.equal("visible/in flight/delayed 130 seconds after it was sent", "0/0/0", dead.counts())
	}).onSqstestOnly("the least retention period is a minute"),
	row("deadletter/removed", "3.empty-removes", "takes nothing any more when the RedrivePolicy is set to nothing", func(e *env) {
		source, _ := e.pair(1)
		e.ok("SetQueueAttributes with an empty RedrivePolicy", source.set("RedrivePolicy", ""))
		_, there := source.attributes("All")["RedrivePolicy"]
		e.checkf(!there, "the empty RedrivePolicy is still there")
		source.send("a")
		for range 3 {
			e.ok("ChangeMessageVisibility", source.change(source.one("the message").ReceiptHandle, 0))
		}
	}),
	row("deadletter/gone", "8.gone", "leaves messages in the source when it is gone", func(e *env) {
		source, dead := e.pair(1, "VisibilityTimeout", "0")
		source.send("a")
		source.one("the message")
		_, err := e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: dead.url})
		e.ok("DeleteQueue", err)
		source.one("the message after that")
	}).onSqstestOnly("nobody has said what SQS does"),
	row("deadletter/sources", "8.sources", "lists the queues that use it", func(e *env) {
		source, dead := e.pair(1)
		out, err := e.sqs.ListDeadLetterSourceQueues(e.ctx, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead.url})
		e.ok("ListDeadLetterSourceQueues", err)
		e.equal("queueUrls", []string{*source.url}, out.QueueUrls)
	}),
}

var redrivePolicyRows = []behaviour{
	row("redrive/read-back", "8.policy-string", "is read back, with a count given as number or as text", func(e *env) {
		dead, q := e.queue(), e.queue()
		for _, count := range []string{"3", `"4"`, "1000"} {
			e.ok("SetQueueAttributes with maxReceiveCount "+count, q.set("RedrivePolicy", redrive(dead, count)))
			got := q.attributes("All")["RedrivePolicy"]
			e.checkf(strings.Contains(got, strings.Trim(count, `"`)) && strings.Contains(got, dead.arn()), "the RedrivePolicy is not read back")
		}
	}),
	row("redrive/works-as-text", "8.policy-string", "works with a maxReceiveCount given as text", func(e *env) {
		dead := e.queue()
		source := e.queue("VisibilityTimeout", "1", "RedrivePolicy", redrive(dead, `"1"`))
		source.send("a")
		source.one("the message")
		e.sleep(1500 * time.Millisecond)
		source.none("the receive that moves it")
		dead.one("the message in the dead-letter queue")
	}),
	row("redrive/not-json", "8.policy-json", "is refused if it is no JSON map: InvalidAttributeValue", func(e *env) {
		q := e.queue()
		for _, policy := range []string{"nonsense", "1"} {
			e.refused("SetQueueAttributes with "+policy, q.set("RedrivePolicy", policy), "InvalidAttributeValue", "Redrive policy is not a valid JSON map.")
		}
	}),
	row("redrive/keys", "8.policy-keys", "is refused without one of its two keys or with a third", func(e *env) {
		dead, q := e.queue(), e.queue()
		for _, c := range [][2]string{
			{"no deadLetterTargetArn", `{"maxReceiveCount":3}`},
			{"no maxReceiveCount", `{"deadLetterTargetArn":"` + dead.arn() + `"}`},
			{"another key", `{"deadLetterTargetArn":"` + dead.arn() + `","maxReceiveCount":3,"other":1}`},
		} {
			e.refused("SetQueueAttributes with "+c[0], q.set("RedrivePolicy", c[1]), "InvalidParameterValue", "")
		}
	}),
	row("redrive/range", "8.policy-range", "is refused with a maxReceiveCount outside of 1 to 1000", func(e *env) {
		dead, q := e.queue(), e.queue()
		for _, count := range []string{"0", "1001", `"x"`} {
			e.refused("SetQueueAttributes with maxReceiveCount "+count, q.set("RedrivePolicy", redrive(dead, count)), "InvalidParameterValue", "")
		}
	}),
	row("redrive/no-target", "8.policy-target", "is refused if its target does not exist", func(e *env) {
		q := e.queue()
		none := &queue{e: e, name: e.name()}
		e.refused("SetQueueAttributes", q.set("RedrivePolicy", redrive(none, "3")), "InvalidParameterValue", "")
		_, err := e.create(e.name(), "RedrivePolicy", redrive(none, "3"))
		e.refused("CreateQueue", err, "InvalidParameterValue", "")
	}),
	row("redrive/type", "8.policy-type", "is refused if its target is of the other type", func(e *env) {
		fifo, q := e.fifo(), e.queue()
		e.refused("SetQueueAttributes", q.set("RedrivePolicy", redrive(fifo, "3")), "InvalidParameterValue",
			"Dead-letter queue must be same type of queue as the source..")
	}),
	row("redrive/allow", "8.allow", "is for the target to allow: all, none, or up to 10 queues by name", func(e *env) {
		q, friend, dead := e.queue(), e.queue(), e.queue()
		e.ok("SetQueueAttributes with allowAll", dead.set("RedriveAllowPolicy", `{"redrivePermission":"allowAll"}`))
		e.ok("SetQueueAttributes with byQueue", dead.set("RedriveAllowPolicy", fmt.Sprintf(`{"redrivePermission":"byQueue","sourceQueueArns":[%q]}`, friend.arn())))
		e.ok("the RedrivePolicy of a queue that is allowed", friend.set("RedrivePolicy", redrive(dead, "3")))
		e.refused("the RedrivePolicy of a queue that is not", q.set("RedrivePolicy", redrive(dead, "3")), "InvalidParameterValue", "")
	}),
	row("redrive/allow-form", "8.allow", "is refused as a RedriveAllowPolicy with queues where there can be none, or none where there must be", func(e *env) {
		dead := e.queue()
		for _, policy := range []string{
			`{"redrivePermission":"byQueue"}`,
			fmt.Sprintf(`{"redrivePermission":"allowAll","sourceQueueArns":[%q]}`, dead.arn()),
			`{"redrivePermission":"some"}`,
		} {
			e.refused("SetQueueAttributes with "+strings.ReplaceAll(policy, dead.arn(), "…"), dead.set("RedriveAllowPolicy", policy), "InvalidParameterValue", "")
		}
	}),
}
