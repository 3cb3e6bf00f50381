package contract_test

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var allAttributes = []types.QueueAttributeName{"All"}

var attributeRows = []behaviour{
	row("attribute/defaults", "3.defaults", "have the documented defaults on a new standard queue", func(e *env) {
		got := e.queue().attributes("All")
		for _, want := range [][2]string{
			{"VisibilityTimeout", "30"}, {"DelaySeconds", "0"}, {"ReceiveMessageWaitTimeSeconds", "0"},
			{"MessageRetentionPeriod", "345600"}, {"MaximumMessageSize", "1048576"},
		} {
			e.equal(want[0], want[1], got[want[0]])
		}
		for _, name := range []string{"FifoQueue", "ContentBasedDeduplication", "RedrivePolicy", "Policy", "KmsMasterKeyId"} {
			_, there := got[name]
			e.checkf(!there, "a new standard queue has %s", name)
		}
	}),
	row("attribute/sse-default", "3.sse", "say that a new queue is encrypted by SQS", func(e *env) {
		e.equal("SqsManagedSseEnabled", "true", e.queue().attributes("All")["SqsManagedSseEnabled"])
	}),
	row("attribute/kms", "3.sse 3.kms-gone", "go from SQS's key to one of KMS, whose attributes vanish when emptied while SQS's key stays off", func(e *env) {
		q := e.queue()
		e.ok("SetQueueAttributes", q.set("KmsMasterKeyId", "alias/mine", "KmsDataKeyReusePeriodSeconds", "6000"))
		got := q.attributes("All")
		e.equal("KmsMasterKeyId", "alias/mine", got["KmsMasterKeyId"])
		e.equal("KmsDataKeyReusePeriodSeconds", "6000", got["KmsDataKeyReusePeriodSeconds"])
		e.equal("SqsManagedSseEnabled with a key", "false", got["SqsManagedSseEnabled"])
		e.ok("SetQueueAttributes to the defaults", q.set("KmsMasterKeyId", "", "KmsDataKeyReusePeriodSeconds", "300"))
		got = q.attributes("All")
		_, key := got["KmsMasterKeyId"]
		_, period := got["KmsDataKeyReusePeriodSeconds"]
		e.checkf(!key && !period, "the attributes of KMS are still there when emptied")
		e.equal("SqsManagedSseEnabled after that", "false", got["SqsManagedSseEnabled"])
	}),
	row("attribute/kms-or-sqs", "3.sse-exclusive", "refuse a key of KMS together with SQS's own", func(e *env) {
		q := e.queue("KmsMasterKeyId", "alias/mine")
		err := q.set("KmsMasterKeyId", "alias/mine", "SqsManagedSseEnabled", "true")
		e.refused("SetQueueAttributes with both", err, "InvalidAttributeName", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
	}),
	row("attribute/read-back", "3.defaults", "are read back as they were set, on creation and later", func(e *env) {
		q := e.queue("VisibilityTimeout", "11", "DelaySeconds", "12")
		e.ok("SetQueueAttributes", q.set("DelaySeconds", "13", "ReceiveMessageWaitTimeSeconds", "14", "MessageRetentionPeriod", "61", "MaximumMessageSize", "1024"))
		got := q.attributes("All")
		for _, want := range [][2]string{
			{"VisibilityTimeout", "11"}, {"DelaySeconds", "13"}, {"ReceiveMessageWaitTimeSeconds", "14"},
			{"MessageRetentionPeriod", "61"}, {"MaximumMessageSize", "1024"},
		} {
			e.equal(want[0], want[1], got[want[0]])
		}
	}),
	row("attribute/by-name", "3.by-name", "are returned by name, and none if none is named", func(e *env) {
		q := e.queue()
		e.equal("GetQueueAttributes of two", 2, len(q.attributes("VisibilityTimeout", "DelaySeconds")))
		e.equal("GetQueueAttributes of none", 0, len(q.attributes()))
	}),
	row("attribute/ranges", "3.ranges", "are refused outside of their ranges", func(e *env) {
		q := e.queue()
		for _, a := range []struct {
			name       string
			least, top int
		}{
			{"VisibilityTimeout", 0, 43200}, {"DelaySeconds", 0, 900}, {"ReceiveMessageWaitTimeSeconds", 0, 20},
			{"MessageRetentionPeriod", 60, 1209600}, {"MaximumMessageSize", 1024, 1048576},
		} {
			e.ok(a.name+" at its least", q.set(a.name, strconv.Itoa(a.least)))
			e.ok(a.name+" at its most", q.set(a.name, strconv.Itoa(a.top)))
			e.refused(a.name+" over its most", q.set(a.name, strconv.Itoa(a.top+1)), "InvalidAttributeValue", "Invalid value for the parameter "+a.name)
			e.refused(a.name+" under its least", q.set(a.name, strconv.Itoa(a.least-1)), "InvalidAttributeValue", "")
			e.refused(a.name+" that is no number", q.set(a.name, "x"), "InvalidAttributeValue", "")
		}
	}),
	row("attribute/ranges-on-create", "3.ranges", "are refused outside of their ranges by CreateQueue as well", func(e *env) {
		_, err := e.create(e.name(), "VisibilityTimeout", "43201")
		e.refused("CreateQueue with VisibilityTimeout 43201", err, "InvalidAttributeValue", "")
	}),
	row("attribute/unknown", "3.unknown", "are refused if there is none of that name", func(e *env) {
		q := e.queue()
		e.refused("SetQueueAttributes", q.set("Nonsense", "1"), "InvalidAttributeName", "Unknown Attribute Nonsense.")
	}),
	row("attribute/fifo-on-standard", "2.standard-fifo", "of FIFO queues are refused by CreateQueue of a standard queue", func(e *env) {
		for _, a := range [][3]string{
			{"FifoQueue", "false", "Unknown Attribute FifoQueue."},
			{"ContentBasedDeduplication", "false", "Unknown Attribute ContentBasedDeduplication."},
			{"DeduplicationScope", "queue", "You can specify the DeduplicationScope only when FifoQueue is set to true."},
			{"FifoThroughputLimit", "perQueue", "You can specify the FifoThroughputLimit only when FifoQueue is set to true."},
		} {
			_, err := e.create(e.name(), a[0], a[1])
			e.refused("CreateQueue with "+a[0], err, "InvalidAttributeName", a[2])
		}
	}),
	row("attribute/type-standard", "2.type", "cannot make a standard queue a FIFO one", func(e *env) {
		q := e.queue()
		e.refused("FifoQueue=true", q.set("FifoQueue", "true"), "InvalidAttributeName", "Unknown Attribute FifoQueue.")
		e.refused("FifoQueue=false", q.set("FifoQueue", "false"), "InvalidAttributeName", "Unknown Attribute FifoQueue.")
	}),
	row("attribute/policy-empty", "3.empty-removes", "lose the Policy when it is set to nothing", func(e *env) {
		q := e.queue()
		e.ok("SetQueueAttributes", q.set("Policy", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage","Resource":"`+q.arn()+`"}]}`))
		e.checkf(q.attributes("Policy")["Policy"] != "", "the Policy is not read back")
		e.ok("SetQueueAttributes with an empty Policy", q.set("Policy", ""))
		_, there := q.attributes("All")["Policy"]
		e.checkf(!there, "the empty Policy is still there")
	}),
	row("attribute/counts", "3.counts", "count what is visible, in flight and delayed", func(e *env) {
		q := e.queue()
		for range 3 {
			q.send("a")
		}
		q.send("later", delayed(60))
		q.one("a message")
		e.equal("visible/in flight/delayed", "2/1/1", q.counts())
	}),
	row("attribute/count-expired", "3.not-visible", "count a message whose timeout has ended as visible", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("a")
		q.one("the message")
		e.equal("in flight: visible/in flight/delayed", "0/1/0", q.counts())
		e.sleep(1500 * time.Millisecond)
		e.equal("after the timeout: visible/in flight/delayed", "1/0/0", q.counts())
	}),
	row("attribute/timestamps", "3.timestamps", "tell creation and change in seconds since 1970", func(e *env) {
		before := time.Now().Unix()
		q := e.queue()
		created := q.attributes("All")["CreatedTimestamp"]
		n, err := strconv.ParseInt(created, 10, 64)
		e.checkf(err == nil && n >= before-1 && n <= time.Now().Unix()+1, "CreatedTimestamp is not the time in seconds")
		e.sleep(1100 * time.Millisecond)
		e.ok("SetQueueAttributes", q.set("DelaySeconds", "1"))
		changed := q.attributes("All")
		e.equal("CreatedTimestamp after a change", created, changed["CreatedTimestamp"])
		e.checkf(changed["LastModifiedTimestamp"] > created, "LastModifiedTimestamp is not later after a change")
	}),
	row("attribute/visibility-zero", "6.zero", "make messages visible at once with a VisibilityTimeout of 0", func(e *env) {
		q := e.queue("VisibilityTimeout", "0")
		q.send("a")
		q.one("first")
		q.one("second, at once")
	}),
	row("attribute/retention", "5.retention", "end messages after the retention period, in flight or not", func(e *env) {
		q := e.queue("MessageRetentionPeriod", "60", "VisibilityTimeout", "100")
		q.send("a")
		q.send("b")
		m := q.one("a message")
		e.sleep(59 * time.Second)
		e.equal("before its end: visible/in flight/delayed", "1/1/0", q.counts())
		e.sleep(2 * time.Second)
		e.equal("after its end: visible/in flight/delayed", "0/0/0", q.counts())
		e.ok("DeleteMessage of what has expired", q.delete(m.ReceiptHandle))
	}).onSqstestOnly("the least retention period is a minute"),
}
