package contract_test

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// three is a FIFO queue with the messages 1, 2 and 3 of one group received together.
func (e *env) three(attributes ...string) (*queue, []types.Message) {
	q := e.fifo(attributes...)
	q.sendFIFO("g", "1", "2", "3")
	got := q.receive(10, 1)
	e.equal("messages of one receive", "[1 2 3]", bodies(got))
	return q, got
}

var fifoOrderRows = []behaviour{
	row("order/group", "5.2.order", "keeps the order of a group, from receive to receive", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "1", "2", "3", "4")
		var order []string
		for range 4 {
			m := q.one("the next message")
			order = append(order, *m.Body)
			e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		}
		e.equal("the order", "1 2 3 4", strings.Join(order, " "))
	}),
	row("order/batch", "4.6.batch-order", "keeps the order of the entries of a batch", func(e *env) {
		q := e.fifo()
		_, err := q.sendBatch(fifoEntry("z", "1", "g"), fifoEntry("y", "2", "g"), fifoEntry("x", "3", "g"))
		e.ok("SendMessageBatch", err)
		var order []string
		for range 3 {
			m := q.one("the next message")
			order = append(order, *m.Body)
			e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		}
		e.equal("the order", "1 2 3", strings.Join(order, " "))
	}),
	row("order/many-at-once", "5.2.order", "returns many messages of a group in one receive, in order", func(e *env) { e.three() }),
	row("order/groups", "5.2.order", "fills a receive from other groups, each in order", func(e *env) {
		q := e.fifo()
		q.sendFIFO("a", "a1")
		q.sendFIFO("b", "b1")
		q.sendFIFO("a", "a2")
		q.sendFIFO("b", "b2")
		byGroup := map[string]string{}
		for _, m := range q.receive(10, 1) {
			byGroup[m.Attributes["MessageGroupId"]] += *m.Body
		}
		e.equal("messages by group", map[string]string{"a": "a1a2", "b": "b1b2"}, byGroup)
	}),
	row("order/locked", "5.2.locked", "delivers nothing more of a group while one of its messages is in flight, a new one included", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "1", "2")
		e.equal("the first receive", "[1]", bodies(q.receive(1, 1)))
		q.none("the next of the group")
		q.sendFIFO("g", "3")
		q.none("after another was sent")
	}),
	row("order/other-groups", "5.2.locked", "delivers other groups while one is locked", func(e *env) {
		q := e.fifo()
		q.sendFIFO("a", "a1", "a2")
		e.equal("the first receive", "[a1]", bodies(q.receive(1, 1)))
		q.sendFIFO("b", "b1")
		e.equal("the next receive", "[b1]", bodies(q.receive(10, 1)))
	}),
	row("order/unlocked", "5.2.unlocked", "delivers the rest of a group as soon as what is in flight is deleted", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "1", "2")
		m := q.one("the first message")
		q.none("the second")
		e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		e.equal("after the delete", "[2]", bodies(q.receive(10, 1)))
	}),
	row("order/unlock-wakes", "5.2.unlocked", "ends a long poll when a group is unlocked by a delete", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "1", "2")
		m := q.one("the first message")
		poll := q.poll(10, 8)
		e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		wakes(e, poll, "[2]")
	}),
	row("order/partial-delete", "5.2.partial", "keeps a group locked when only one of two in flight is deleted", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "1", "2")
		got := q.receive(10, 1)
		e.equal("messages of one receive", "[1 2]", bodies(got))
		q.sendFIFO("g", "3")
		e.ok("DeleteMessage", q.delete(got[0].ReceiptHandle))
		q.none("while 2 is in flight")
		e.ok("DeleteMessage", q.delete(got[1].ReceiptHandle))
		e.equal("after both", "[3]", bodies(q.receive(10, 1)))
	}),
	row("order/head-back", "5.2.head", "delivers the first of a group again, alone, when it is given back while others are in flight", func(e *env) {
		q, got := e.three()
		e.ok("ChangeMessageVisibility", q.change(got[0].ReceiptHandle, 0))
		e.equal("the next receive", "[1]", bodies(q.receive(10, 1)))
	}),
	row("order/head-expired", "5.2.head", "delivers the first of a group again, alone, when its timeout ends while another is in flight", func(e *env) {
		q, got := e.three("VisibilityTimeout", "2")
		for _, m := range got[1:] {
			e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 60))
		}
		e.sleep(2500 * time.Millisecond)
		e.equal("after its timeout", "[1]", bodies(q.receive(10, 1)))
	}),
	row("order/second-back", "5.2.prefix", "delivers nothing when the second is given back while the first is in flight", func(e *env) {
		q, got := e.three()
		e.ok("ChangeMessageVisibility", q.change(got[1].ReceiptHandle, 0))
		q.none("while 1 is in flight")
	}),
	row("order/extend-first", "5.2.prefix", "delivers nothing while the first is extended, although the others' timeouts have ended", func(e *env) { prefix(e, 0, "[]") }),
	row("order/extend-second", "5.2.prefix", "delivers the first alone while the second is extended", func(e *env) { prefix(e, 1, "[1]") }),
	row("order/extend-third", "5.2.prefix", "delivers the first and second while the third is extended", func(e *env) { prefix(e, 2, "[1 2]") }),
	row("order/all-back", "5.2.order 5.2.prefix", "delivers all in order again when all are given back, last first", func(e *env) {
		q, got := e.three()
		for i := range got {
			e.ok("ChangeMessageVisibility", q.change(got[len(got)-1-i].ReceiptHandle, 0))
		}
		e.equal("the next receive", "[1 2 3]", bodies(q.receive(10, 1)))
	}),
	row("order/all-expired", "5.2.order", "delivers all in order again when their timeouts have ended", func(e *env) {
		q, _ := e.three("VisibilityTimeout", "2")
		e.sleep(2500 * time.Millisecond)
		e.equal("the next receive", "[1 2 3]", bodies(q.receive(10, 1)))
	}),
	row("order/emptied-group", "5.2.unlocked", "delivers a group again that was empty for a while", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "1")
		e.ok("DeleteMessage", q.delete(q.one("the first").ReceiptHandle))
		q.none("from the empty group")
		q.sendFIFO("g", "2")
		q.one("the second")
	}),
	row("order/counts", "3.fifo-not-visible", "counts received messages only as not visible, not the rest of a locked group", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "1", "2", "3")
		e.equal("received", "[1]", bodies(q.receive(1, 1)))
		e.equal("visible/in flight/delayed", "2/1/0", q.counts())
	}),
}

// prefix extends one of three messages received together, lets the timeouts of the
// others end, and looks at what is delivered.
func prefix(e *env, extended int, want string) {
	q, got := e.three("VisibilityTimeout", "2")
	e.ok("ChangeMessageVisibility", q.change(got[extended].ReceiptHandle, 60))
	e.sleep(2500 * time.Millisecond)
	e.equal("after the timeouts of the others", want, bodies(q.receive(10, 0)))
}

var fifoSettleRows = []behaviour{
	row("fifosettle/expired", "7.fifo-expired", "refuses to delete after the timeout: the handle has expired", func(e *env) {
		q := e.fifo("VisibilityTimeout", "1")
		q.sendFIFO("g", "a")
		m := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		e.refused("DeleteMessage", q.delete(m.ReceiptHandle), "InvalidParameterValue",
			"Value "+*m.ReceiptHandle+" for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.")
		q.one("the message, which was not deleted")
	}),
	row("fifosettle/expired-batch", "7.fifo-expired-batch", "fails a delete alone in a batch after the timeout, with another code: ReceiptHandleIsInvalid", func(e *env) {
		q := e.fifo("VisibilityTimeout", "1")
		q.sendFIFO("g", "a")
		m := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		got, err := q.deleteBatch(m.ReceiptHandle)
		e.ok("DeleteMessageBatch", err)
		e.equal("its entries", "0 ReceiptHandleIsInvalid", got)
	}),
	row("fifosettle/expired-change", "6.fifo-expired", "refuses to change visibility after the timeout", func(e *env) {
		q := e.fifo("VisibilityTimeout", "1")
		q.sendFIFO("g", "a")
		m := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		err := q.change(m.ReceiptHandle, 60)
		got := describe(err)
		e.checkf(got == "InvalidParameterValue" || got == "ReceiptHandleIsInvalid", "ChangeMessageVisibility: want a refusal of the handle, got %s", got)
	}),
	row("fifosettle/extended", "7.fifo-extended", "deletes after the original timeout if it was extended", func(e *env) {
		q := e.fifo("VisibilityTimeout", "1")
		q.sendFIFO("g", "a")
		m := q.one("the message")
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 60))
		e.sleep(1500 * time.Millisecond)
		e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		e.equal("visible/in flight/delayed", "0/0/0", q.counts())
	}),
	row("fifosettle/twice", "7.twice", "succeeds to delete again what is deleted", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "a")
		m := q.one("the message")
		for range 2 {
			e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		}
		got, err := q.deleteBatch(m.ReceiptHandle)
		e.ok("DeleteMessageBatch", err)
		e.equal("its entries", "0 ok", got)
	}),
	row("fifosettle/deadletter", "8.on-receive 8.fifo-group 8.fifo-dedup", "moves poison to a FIFO dead-letter queue, with its id as deduplication id, and goes on with the group", func(e *env) {
		dead := e.fifo()
		q := e.fifo("RedrivePolicy", redrive(dead, "1"))
		q.sendFIFO("g", "poison", "good")
		m := q.one("the first message")
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 0))
		e.equal("the next receive", "[good]", bodies(q.receive(10, 2)))
		got := dead.one("the message in the dead-letter queue")
		e.equal("its body", "poison", *got.Body)
		e.equal("its group", "g", got.Attributes["MessageGroupId"])
		e.checkf(got.Attributes["MessageDeduplicationId"] == *m.MessageId, "its deduplication id is not its message id")
	}),
	row("fifosettle/deadletter-content", "8.fifo-content", "moves poison to a FIFO dead-letter queue that has content-based deduplication", func(e *env) {
		dead := e.fifo("ContentBasedDeduplication", "true")
		q := e.fifo("ContentBasedDeduplication", "true", "RedrivePolicy", redrive(dead, "1"))
		for _, g := range []string{"g1", "g2"} {
			q.send("poison "+g, group(g))
		}
		for range 2 {
			e.ok("ChangeMessageVisibility", q.change(q.one("a message").ReceiptHandle, 0))
		}
		q.none("the receive that moves them")
		e.equal("in the dead-letter queue", "[poison g1 poison g2]", sortedBodies(dead.all(2)))
	}),
	row("fifosettle/retention", "8.retention", "counts retention anew in a FIFO dead-letter queue", func(e *env) {
		dead := e.fifo("MessageRetentionPeriod", "120")
		q := e.fifo("VisibilityTimeout", "0", "RedrivePolicy", redrive(dead, "1"))
		q.sendFIFO("g", "a")
		q.one("the message")
		e.sleep(100 * time.Second)
		q.none("the receive that moves it")
		e.sleep(100 * time.Second)
		e.equal("visible/in flight/delayed 200 seconds after it was sent", "1/0/0", dead.counts())
		e.sleep(30 * time.Second)
		e.equal("visible/in flight/delayed 130 seconds after it was moved", "0/0/0", dead.counts())
	}).onSqstestOnly("the least retention period is a minute"),
	row("fifosettle/attempt", "5.1.attempt", "returns the same messages and handles for the same ReceiveRequestAttemptId", func(e *env) {
		q := e.fifo()
		q.sendFIFO("g", "1", "2")
		in := everything(10, 1)
		in.ReceiveRequestAttemptId = aws.String("attempt")
		first, err := q.tryReceive(in)
		e.ok("ReceiveMessage", err)
		e.equal("messages", "[1 2]", bodies(first))
		again, err := q.tryReceive(in)
		e.ok("ReceiveMessage again", err)
		e.equal("messages again", "[1 2]", bodies(again))
		e.checkf(*first[0].ReceiptHandle == *again[0].ReceiptHandle, "the handle is another")
		e.ok("DeleteMessage", q.delete(first[0].ReceiptHandle))
		after, err := q.tryReceive(in)
		e.ok("ReceiveMessage after a delete", err)
		e.equal("messages after a delete", "[]", bodies(after))
	}),
}
