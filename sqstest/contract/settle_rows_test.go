package contract_test

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const (
	goneForChange = "Message does not exist or is not available for visibility timeout change."
	beyondLimit   = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
)

var visibilityRows = []behaviour{
	row("visibility/queue", "6.receive", "ends after the queue's VisibilityTimeout", func(e *env) {
		q := e.queue("VisibilityTimeout", "2")
		q.send("a")
		q.one("the message")
		q.none("at once")
		e.sleep(2500 * time.Millisecond)
		q.one("after 2 seconds")
	}),
	row("visibility/zero", "6.zero", "ends at once when changed to 0", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 0))
		e.equal("ApproximateReceiveCount", "2", q.one("the message again").Attributes["ApproximateReceiveCount"])
	}),
	row("visibility/zero-wakes", "6.zero 5.wake", "ends a long poll when changed to 0", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		poll := q.poll(1, 8)
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 0))
		wakes(e, poll, "[a]")
	}),
	row("visibility/shorter", "6.replaces", "is replaced by a shorter one, counted from the call", func(e *env) {
		q := e.queue("VisibilityTimeout", "60")
		q.send("a")
		m := q.one("the message")
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 2))
		q.none("at once")
		e.sleep(2500 * time.Millisecond)
		q.one("after 2 seconds")
	}),
	row("visibility/longer", "6.replaces", "is replaced by a longer one, as often as wanted", func(e *env) {
		q := e.queue("VisibilityTimeout", "2")
		q.send("a")
		m := q.one("the message")
		for range 4 {
			e.sleep(time.Second)
			e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 2))
			q.none("while it is extended")
		}
		e.sleep(2500 * time.Millisecond)
		q.one("after the last extension")
	}),
	row("visibility/not-added", "6.replaces", "is not added to what is left", func(e *env) {
		q := e.queue("VisibilityTimeout", "10")
		q.send("a")
		m := q.one("the message")
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 1))
		e.sleep(1800 * time.Millisecond)
		q.one("after the new timeout alone")
	}),
	row("visibility/forgotten", "6.forgotten", "is the queue's again on the next receive", func(e *env) {
		q := e.queue("VisibilityTimeout", "2")
		q.send("a")
		m := q.one("the message")
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 60))
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 0))
		q.one("the message again")
		q.none("at once")
		e.sleep(2500 * time.Millisecond)
		q.one("after the queue's timeout")
	}),
	row("visibility/range", "6.range", "is refused outside of 0 to 43200", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		e.refused("ChangeMessageVisibility to 43201", q.change(m.ReceiptHandle, 43201), "InvalidParameterValue", "")
		e.refused("ChangeMessageVisibility to -1", q.change(m.ReceiptHandle, -1), "InvalidParameterValue", "")
	}),
	row("visibility/limit", "6.limit", "is refused beyond 12 hours from the receive", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		e.sleep(2 * time.Second)
		e.refused("ChangeMessageVisibility to 43200 after 2 seconds", q.change(m.ReceiptHandle, 43200), "InvalidParameterValue",
			"Value 43200 for parameter VisibilityTimeout is invalid. Reason: "+beyondLimit)
		e.ok("ChangeMessageVisibility to 43190", q.change(m.ReceiptHandle, 43190))
	}),
	row("visibility/limit-hours", "6.limit", "is not extended beyond 12 hours from the receive by many changes", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		e.ok("ChangeMessageVisibility at once", q.change(m.ReceiptHandle, 6*3600))
		e.sleep(5 * time.Hour)
		e.refused("ChangeMessageVisibility to 8 h after 5 h", q.change(m.ReceiptHandle, 8*3600), "InvalidParameterValue", beyondLimit)
		e.ok("ChangeMessageVisibility to 7 h after 5 h", q.change(m.ReceiptHandle, 7*3600))
		e.sleep(7*time.Hour - time.Second)
		q.none("a second before the 12 hours")
		e.sleep(2 * time.Second)
		q.one("after 12 hours")
	}).onSqstestOnly("takes 12 hours"),
	row("visibility/expired", "6.expired", "can be changed after it has ended", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		m := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		e.ok("ChangeMessageVisibility after the timeout", q.change(m.ReceiptHandle, 60))
	}),
	row("visibility/expired-nothing", "6.expired-nothing", "is not begun again by a change after it has ended", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		m := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		e.ok("ChangeMessageVisibility after the timeout", q.change(m.ReceiptHandle, 60))
		q.one("the message, which is still visible")
	}),
	row("visibility/deleted", "6.deleted", "of a deleted message is refused", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		e.refused("ChangeMessageVisibility", q.change(m.ReceiptHandle, 60), "InvalidParameterValue",
			"Value "+*m.ReceiptHandle+" for parameter ReceiptHandle is invalid. Reason: "+goneForChange)
	}),
	row("visibility/older-handle", "6.older-handle", "can be changed by an older handle as well", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		older := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		newer := q.one("the message again")
		e.ok("ChangeMessageVisibility by the newer handle", q.change(newer.ReceiptHandle, 60))
		e.ok("ChangeMessageVisibility by the older handle", q.change(older.ReceiptHandle, 0))
		q.one("after that")
	}),
	row("visibility/garbage", "6.garbage", "of a malformed handle is refused: ReceiptHandleIsInvalid", func(e *env) {
		e.refused("ChangeMessageVisibility", e.queue().change(aws.String("garbage"), 1), "ReceiptHandleIsInvalid", `The input receipt handle "garbage" is not a valid receipt handle.`)
	}),
	row("visibility/foreign", "6.foreign", "of another queue's handle is refused: ReceiptHandleIsInvalid", func(e *env) {
		q, other := e.queue(), e.queue()
		q.send("a")
		m := q.one("the message")
		got, err := other.changeBatch(changeEntry{ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0})
		e.ok("ChangeMessageVisibilityBatch", err)
		e.equal("its entries", "0 ReceiptHandleIsInvalid", got)
		q.none("after a change in another queue")
	}),
	row("visibility/batch", "6.batch", "fails alone in a batch for a bad handle and for a value out of range", func(e *env) {
		q := e.queue()
		q.send("a")
		q.send("b")
		got := q.all(2)
		e.equal("messages", 2, len(got))
		outcome, err := q.changeBatch(
			changeEntry{ReceiptHandle: got[0].ReceiptHandle, VisibilityTimeout: 0},
			changeEntry{ReceiptHandle: aws.String("garbage"), VisibilityTimeout: 0},
			changeEntry{ReceiptHandle: got[1].ReceiptHandle, VisibilityTimeout: 43201},
		)
		e.ok("ChangeMessageVisibilityBatch", err)
		e.equal("its entries", "0 ok, 1 ReceiptHandleIsInvalid, 2 InvalidParameterValue", outcome)
		e.equal("visible again", bodies(got[:1]), bodies(q.receive(10, 1)))
	}),
}

var deleteRows = []behaviour{
	row("delete/ends", "7.latest", "ends a message", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		e.ok("DeleteMessage", q.delete(q.one("the message").ReceiptHandle))
		e.sleep(1500 * time.Millisecond)
		q.none("after the timeout")
		e.equal("visible/in flight/delayed", "0/0/0", q.counts())
	}),
	row("delete/expired", "7.expired", "works after the timeout while nobody has received the message again", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		m := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		e.ok("DeleteMessage after the timeout", q.delete(m.ReceiptHandle))
		q.none("after that")
	}),
	row("delete/zeroed", "7.zeroed", "works after a change of visibility to 0", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 0))
		e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		q.none("after that")
	}),
	row("delete/stale", "7.stale", "succeeds with an older handle after another receive", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		older := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		q.one("the message again")
		e.ok("DeleteMessage by the older handle", q.delete(older.ReceiptHandle))
	}),
	row("delete/stale-kept", "7.stale-kept", "does not end a message with an older handle after another receive", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		older := q.one("the message")
		e.sleep(1500 * time.Millisecond)
		q.one("the message again")
		q.delete(older.ReceiptHandle) // whether that succeeds has a row of its own
		e.sleep(1500 * time.Millisecond)
		q.one("the message, which was not deleted")
	}),
	row("delete/twice", "7.twice", "succeeds again and again, singly and in a batch", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		for range 2 {
			e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
		}
		got, err := q.deleteBatch(m.ReceiptHandle)
		e.ok("DeleteMessageBatch", err)
		e.equal("its entries", "0 ok", got)
	}),
	row("delete/garbage", "7.garbage", "refuses a malformed handle: ReceiptHandleIsInvalid", func(e *env) {
		e.refused("DeleteMessage", e.queue().delete(aws.String("garbage")), "ReceiptHandleIsInvalid", `The input receipt handle "garbage" is not a valid receipt handle.`)
	}),
	row("delete/batch", "7.garbage-batch", "fails alone in a batch for a malformed handle", func(e *env) {
		q := e.queue()
		q.send("a")
		got, err := q.deleteBatch(q.one("the message").ReceiptHandle, aws.String("garbage"))
		e.ok("DeleteMessageBatch", err)
		e.equal("its entries", "0 ok, 1 ReceiptHandleIsInvalid", got)
		e.equal("visible/in flight/delayed", "0/0/0", q.counts())
	}),
	row("delete/batch-ten", "7.latest", "ends ten messages in a batch", func(e *env) {
		q := e.queue()
		_, err := q.sendBatch(entries(10)...)
		e.ok("SendMessageBatch", err)
		var all []*string
		for _, m := range q.all(10) {
			all = append(all, m.ReceiptHandle)
		}
		e.equal("messages", 10, len(all))
		_, err = q.deleteBatch(all...)
		e.ok("DeleteMessageBatch", err)
		e.equal("visible/in flight/delayed", "0/0/0", q.counts())
	}),
	row("delete/old", "7.old", "refuses a handle that is older than 12 hours", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		e.sleep(12*time.Hour + time.Minute)
		e.refused("DeleteMessage after 12 hours", q.delete(m.ReceiptHandle), "InvalidParameterValue", "The receipt handle has expired")
		q.one("the message, which was not deleted")
	}).onSqstestOnly("takes 12 hours"),
}
