package contract_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var receiveRows = []behaviour{
	row("receive/one", "5.max", "returns one message unless asked for more, and never more than asked for", func(e *env) {
		q := e.queue()
		for range 2 {
			_, err := q.sendBatch(entries(8)...)
			e.ok("SendMessageBatch", err)
		}
		got, err := q.tryReceive(&sqs.ReceiveMessageInput{WaitTimeSeconds: 1})
		e.ok("ReceiveMessage", err)
		e.equal("messages without MaxNumberOfMessages", 1, len(got))
		e.checkf(len(q.receive(10, 1)) <= 10, "more than 10 messages")
	}),
	row("receive/max", "5.max", "refuses MaxNumberOfMessages over 10", func(e *env) {
		_, err := e.queue().tryReceive(everything(11, 0))
		e.refused("ReceiveMessage", err, "InvalidParameterValue", "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.")
	}),
	row("receive/max-zero", "5.max", "refuses an explicit MaxNumberOfMessages of 0", func(e *env) {
		_, err := e.queue().tryReceive(everything(1, 0), withJSON(func(m map[string]any) { m["MaxNumberOfMessages"] = 0 }))
		e.refused("ReceiveMessage", err, "InvalidParameterValue", "Value 0 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.")
	}),
	row("receive/wait-range", "5.wait", "refuses WaitTimeSeconds outside of 0 to 20", func(e *env) {
		q := e.queue()
		_, err := q.tryReceive(everything(1, 21))
		e.refused("ReceiveMessage with 21", err, "InvalidParameterValue", "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.")
		_, err = q.tryReceive(everything(1, -1))
		e.refused("ReceiveMessage with -1", err, "InvalidParameterValue", "Value -1 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.")
	}),
	row("receive/visibility-range", "6.range", "refuses a VisibilityTimeout outside of 0 to 43200", func(e *env) {
		in := everything(1, 0)
		in.VisibilityTimeout = 43201
		_, err := e.queue().tryReceive(in)
		e.refused("ReceiveMessage with 43201", err, "InvalidParameterValue", "")
	}),
	row("receive/empty", "5.empty", "answers {} if there is nothing", func(e *env) {
		_, err := e.queue().tryReceive(everything(1, 0))
		e.ok("ReceiveMessage", err)
		_, body := e.wire.last()
		e.checkf(!strings.Contains(body, "Messages"), "the answer has the member Messages")
	}),
	row("receive/short", "5.poll", "returns at once from a short poll", func(e *env) {
		start := time.Now()
		e.queue().none("from an empty queue")
		e.checkf(time.Since(start) < 1500*time.Millisecond, "the short poll took long")
	}),
	row("receive/long-empty", "5.poll", "waits for WaitTimeSeconds if nothing comes", func(e *env) {
		q := e.queue()
		start := time.Now()
		e.equal("messages", 0, len(q.receive(1, 2)))
		took := time.Since(start)
		e.checkf(took > 1800*time.Millisecond && took < 4*time.Second, "the long poll did not take the 2 seconds it was given")
	}),
	row("receive/long-queue", "5.poll", "waits for the queue's ReceiveMessageWaitTimeSeconds if the request has none", func(e *env) {
		q := e.queue("ReceiveMessageWaitTimeSeconds", "2")
		start := time.Now()
		e.equal("messages", 0, len(q.receive(1, 0)))
		e.checkf(time.Since(start) > 1800*time.Millisecond, "the poll did not take the 2 seconds of the queue")
	}),
	row("receive/short-over-queue", "5.zero", "takes an explicit WaitTimeSeconds of 0 over the queue's", func(e *env) {
		q := e.queue("ReceiveMessageWaitTimeSeconds", "5")
		start := time.Now()
		_, err := q.tryReceive(everything(1, 0), withJSON(func(m map[string]any) { m["WaitTimeSeconds"] = 0 }))
		e.ok("ReceiveMessage", err)
		e.checkf(time.Since(start) < 3*time.Second, "the poll took the time of the queue")
	}),
	row("receive/wakes-send", "5.wake", "ends a long poll when a message is sent", func(e *env) {
		q := e.queue()
		poll := q.poll(10, 8)
		q.send("a")
		wakes(e, poll, "[a]")
	}),
	row("receive/wakes-due", "5.wake", "ends a long poll when a delayed message is due", func(e *env) {
		q := e.queue()
		q.send("a", delayed(2))
		wakes(e, q.poll(10, 8), "[a]")
	}),
	row("receive/wakes-visible", "5.wake", "ends a long poll when a message is visible again", func(e *env) {
		q := e.queue("VisibilityTimeout", "2")
		q.send("a")
		q.one("the message")
		wakes(e, q.poll(10, 8), "[a]")
	}),
	row("receive/not-filled", "5.wake", "does not wait for the rest once a long poll has a message", func(e *env) {
		q := e.queue()
		q.send("a")
		start := time.Now()
		e.equal("messages", "[a]", bodies(q.receive(10, 8)))
		e.checkf(time.Since(start) < 5*time.Second, "the poll waited for more messages")
	}),
	row("receive/abandoned", "5.abandoned", "may lose sight of a poll whose client has gone, but a later message is received by another", func(e *env) {
		q := e.queue()
		ctx, cancel := context.WithTimeout(e.ctx, 700*time.Millisecond)
		defer cancel()
		in := everything(1, 8)
		in.QueueUrl = q.url
		_, err := e.sqs.ReceiveMessage(ctx, in)
		e.checkf(err != nil, "the cancelled poll: want an error, got success")
		e.sleep(500 * time.Millisecond)
		q.send("a")
		q.one("the message that was sent after the poll was cancelled")
	}),
	row("receive/count", "5.count 5.handle", "counts receives from 1, and gives a new handle each time", func(e *env) {
		q := e.queue()
		q.send("a")
		seen := map[string]bool{}
		for i := 1; i <= 3; i++ {
			m := q.one("receive " + strconv.Itoa(i))
			e.equal("ApproximateReceiveCount", strconv.Itoa(i), m.Attributes["ApproximateReceiveCount"])
			e.checkf(!seen[*m.ReceiptHandle], "receive %d gave a handle again", i)
			e.checkf(len(*m.ReceiptHandle) <= 1024, "the handle is longer than 1024")
			seen[*m.ReceiptHandle] = true
			e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 0))
		}
	}),
	row("receive/timestamps", "5.system", "tells when a message was sent and first received, in milliseconds", func(e *env) {
		q := e.queue()
		before := time.Now().UnixMilli()
		sent := q.send("a")
		e.sleep(50 * time.Millisecond)
		first := q.one("the message")
		e.equal("MessageId", *sent.MessageId, *first.MessageId)
		e.ok("ChangeMessageVisibility", q.change(first.ReceiptHandle, 0))
		second := q.one("the message again")
		at := func(name string) int64 {
			n, err := strconv.ParseInt(second.Attributes[name], 10, 64)
			e.checkf(err == nil, "%s is no number", name)
			return n
		}
		e.checkf(at("SentTimestamp") >= before-1000 && at("SentTimestamp") <= time.Now().UnixMilli()+1000, "SentTimestamp is not now in milliseconds")
		e.checkf(at("ApproximateFirstReceiveTimestamp") > at("SentTimestamp"), "ApproximateFirstReceiveTimestamp is not after SentTimestamp")
		e.equal("ApproximateFirstReceiveTimestamp of the second receive", first.Attributes["ApproximateFirstReceiveTimestamp"], second.Attributes["ApproximateFirstReceiveTimestamp"])
		e.checkf(second.Attributes["SenderId"] != "", "there is no SenderId")
	}),
	row("receive/lost", "5.lost", "counts a receive whose answer is lost: the message is in flight", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		_, err := q.tryReceive(everything(1, 3)) // as good as lost: nobody looks at it
		e.ok("ReceiveMessage", err)
		q.none("at once")
		e.equal("ApproximateReceiveCount", "2", q.one("after the timeout").Attributes["ApproximateReceiveCount"])
	}),
	row("receive/visibility", "6.receive", "hides messages for the VisibilityTimeout of the receive if it has one", func(e *env) {
		q := e.queue("VisibilityTimeout", "60")
		q.send("a")
		in := everything(1, 1)
		in.VisibilityTimeout = 2
		got, err := q.tryReceive(in)
		e.ok("ReceiveMessage", err)
		e.equal("messages", "[a]", bodies(got))
		q.none("at once")
		e.sleep(2500 * time.Millisecond)
		q.one("after 2 seconds")
	}),
	row("receive/visibility-zero", "5.visibility-zero", "takes an explicit VisibilityTimeout of 0: the message stays visible", func(e *env) {
		q := e.queue()
		q.send("a")
		got, err := q.tryReceive(everything(1, 1), withJSON(func(m map[string]any) { m["VisibilityTimeout"] = 0 }))
		e.ok("ReceiveMessage", err)
		e.equal("messages", "[a]", bodies(got))
		e.equal("ApproximateReceiveCount of the next receive", "2", q.one("at once").Attributes["ApproximateReceiveCount"])
	}),
	row("receive/attempt-standard", "5.1.attempt", "refuses a ReceiveRequestAttemptId on a standard queue", func(e *env) {
		in := everything(1, 0)
		in.ReceiveRequestAttemptId = aws.String("a")
		_, err := e.queue().tryReceive(in)
		e.refused("ReceiveMessage", err, "InvalidParameterValue", "")
	}),
	row("receive/once", "5.max", "gives each message to one of many polls", func(e *env) {
		q := e.queue()
		const n = 5
		polls := make([]<-chan polled, n)
		for i := range polls {
			polls[i] = q.poll(1, 8)
		}
		_, err := q.sendBatch(entries(n)...)
		e.ok("SendMessageBatch", err)
		var got []types.Message
		for _, poll := range polls {
			p := <-poll
			e.ok("ReceiveMessage", p.err)
			got = append(got, p.messages...)
		}
		e.equal("the messages of all polls", "[body 0 body 1 body 2 body 3 body 4]", sortedBodies(got))
	}),
}

// wakes expects a long poll of 8 seconds to end soon with these messages.
func wakes(e *env, poll <-chan polled, want string) {
	p := <-poll
	e.ok("the long poll", p.err)
	e.equal("messages of the long poll", want, bodies(p.messages))
	e.checkf(p.took < 6*time.Second, "the long poll came with its message at its end only")
}

var filterRows = []behaviour{
	row("filter/nothing", "5.nothing", "returns no attributes unless asked for", func(e *env) {
		q := e.queue()
		q.send("a", text("a", "String", "x"), trace(aTrace))
		got, err := q.tryReceive(&sqs.ReceiveMessageInput{WaitTimeSeconds: 1})
		e.ok("ReceiveMessage", err)
		e.equal("messages", 1, len(got))
		e.equal("message attributes", 0, len(got[0].MessageAttributes))
		e.equal("system attributes", 0, len(got[0].Attributes))
		e.checkf(got[0].MD5OfMessageAttributes == nil, "there is an MD5OfMessageAttributes")
	}),
	row("filter/names", "5.filter", "returns message attributes by name, by prefix, or all", func(e *env) {
		q := e.queue()
		for _, c := range [][2]string{
			{"All", "General Hello Help.Me"}, {".*", "General Hello Help.Me"}, {"General,Hello", "General Hello"},
			{"General,Nothing", "General"}, {"Nothing", ""}, {"Help.*", "Help.Me"}, {"Hel.*", "Hello Help.Me"},
		} {
			got := filtered(q, &sqs.ReceiveMessageInput{MessageAttributeNames: strings.Split(c[0], ",")},
				text("Help.Me", "String", "Me"), text("Hello", "String", "There"), text("General", "String", "Kenobi"))
			e.equal("message attributes of "+c[0], c[1], strings.Join(slices.Sorted(maps.Keys(got.MessageAttributes)), " "))
		}
	}),
	row("filter/md5", "4.4.md5-filtered", "computes MD5OfMessageAttributes of the attributes that are returned", func(e *env) {
		q := e.queue()
		a, b := text("a", "String", "1"), text("b", "String", "2")
		got := filtered(q, &sqs.ReceiveMessageInput{MessageAttributeNames: []string{"b"}}, a, b)
		e.equal("MD5OfMessageAttributes of b", attributesMD5([][3]string{{"b", "String", "2"}}), aws.ToString(got.MD5OfMessageAttributes))
		got = filtered(q, &sqs.ReceiveMessageInput{MessageAttributeNames: []string{"c"}}, a, b)
		e.checkf(got.MD5OfMessageAttributes == nil, "there is an MD5OfMessageAttributes of nothing")
	}),
	row("filter/system", "5.system-names", "returns system attributes by name or all", func(e *env) {
		q := e.queue()
		for _, c := range []struct{ name, want string }{
			{"All", "ApproximateFirstReceiveTimestamp ApproximateReceiveCount SenderId SentTimestamp"},
			{"SentTimestamp", "SentTimestamp"},
			{"MessageGroupId", ""},
		} {
			got := filtered(q, &sqs.ReceiveMessageInput{MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeName(c.name)}})
			e.equal("system attributes of "+c.name, c.want, strings.Join(slices.Sorted(maps.Keys(got.Attributes)), " "))
		}
	}),
	row("filter/older-name", "5.older-name", "takes system attributes under the older name AttributeNames, and joins both", func(e *env) {
		q := e.queue()
		older := []types.QueueAttributeName{"SentTimestamp"}
		got := filtered(q, &sqs.ReceiveMessageInput{AttributeNames: older}) //nolint:staticcheck // is what is asked
		e.equal("system attributes of AttributeNames", "SentTimestamp", strings.Join(slices.Sorted(maps.Keys(got.Attributes)), " "))
		got = filtered(q, &sqs.ReceiveMessageInput{
			AttributeNames:              older, //nolint:staticcheck // as above
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{"SenderId"},
		})
		e.equal("system attributes of both", "SenderId SentTimestamp", strings.Join(slices.Sorted(maps.Keys(got.Attributes)), " "))
	}),
}

// filtered sends a message and receives it.
func filtered(q *queue, in *sqs.ReceiveMessageInput, options ...sendOption) types.Message {
	q.send("msg", options...)
	in.WaitTimeSeconds = 1
	got, err := q.tryReceive(in)
	q.e.ok("ReceiveMessage", err)
	q.e.checkf(len(got) == 1, "want a message, got %d", len(got))
	q.e.ok("DeleteMessage", q.delete(got[0].ReceiptHandle))
	return got[0]
}
