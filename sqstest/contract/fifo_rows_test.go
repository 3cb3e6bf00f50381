package contract_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

const noDedup = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"

var fifoSendRows = []behaviour{
	row("fifo/defaults", "3.fifo-defaults", "has deduplication scope queue and limit perQueue unless told otherwise", func(e *env) {
		got := e.fifo().attributes("All")
		for _, want := range [][2]string{{"FifoQueue", "true"}, {"ContentBasedDeduplication", "false"}, {"DeduplicationScope", "queue"}, {"FifoThroughputLimit", "perQueue"}} {
			e.equal(want[0], want[1], got[want[0]])
		}
	}),
	row("fifo/again-differs", "2.again-differs", "is refused when created again with another ContentBasedDeduplication", func(e *env) {
		q := e.fifo("ContentBasedDeduplication", "true")
		_, err := e.create(q.name, "FifoQueue", "true", "ContentBasedDeduplication", "false")
		e.refused("CreateQueue", err, "QueueNameExists", "A queue already exists with the same name and a different value for attribute ContentBasedDeduplication")
	}),
	row("fifo/type", "2.type", "cannot become a standard queue", func(e *env) {
		e.refused("SetQueueAttributes", e.fifo().set("FifoQueue", "false"), "InvalidAttributeValue", "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.")
	}),
	row("fifo/content-later", "3.content-later", "can be given ContentBasedDeduplication later", func(e *env) {
		q := e.fifo()
		e.ok("SetQueueAttributes", q.set("ContentBasedDeduplication", "true"))
		e.equal("ContentBasedDeduplication", "true", q.attributes("All")["ContentBasedDeduplication"])
		q.send("a", group("g"))
	}),
	row("fifo/throughput", "3.throughput-scope", "needs scope messageGroup for the limit perMessageGroupId, not the other way round", func(e *env) {
		q := e.fifo("DeduplicationScope", "messageGroup")
		e.equal("FifoThroughputLimit", "perQueue", q.attributes("All")["FifoThroughputLimit"])
		_, err := e.create(e.name()+".fifo", "FifoQueue", "true", "FifoThroughputLimit", "perMessageGroupId")
		e.checkf(err != nil, "CreateQueue with perMessageGroupId alone: want a refusal, got success")
	}),
	row("fifo/group-required", "4.6.group-required", "refuses a message without MessageGroupId: MissingParameter", func(e *env) {
		_, err := e.fifo().trySend("a", dedup("a"))
		e.refused("SendMessage", err, "MissingParameter", "The request must contain the parameter MessageGroupId.")
	}),
	row("fifo/group-required-batch", "4.6.group-required", "refuses a whole batch for an entry without MessageGroupId: InvalidParameterValue", func(e *env) {
		q := e.fifo("ContentBasedDeduplication", "true")
		_, err := q.sendBatch(fifoEntry("a", "a", "g"), entry("b", "b"))
		e.refused("SendMessageBatch", err, "InvalidParameterValue", "The request must contain the parameter MessageGroupId.")
		q.none("after that")
	}),
	row("fifo/dedup-required", "4.6.dedup-required", "refuses a message with no MessageDeduplicationId and no content-based one", func(e *env) {
		_, err := e.fifo().trySend("a", group("g"))
		e.refused("SendMessage", err, "InvalidParameterValue", noDedup)
	}),
	row("fifo/dedup-required-batch", "4.6.dedup-required", "refuses a whole batch for an entry without deduplication id", func(e *env) {
		q := e.fifo()
		b := entry("b", "b")
		b.MessageGroupId = aws.String("g")
		_, err := q.sendBatch(fifoEntry("a", "a", "g"), b)
		e.refused("SendMessageBatch", err, "InvalidParameterValue", noDedup)
		q.none("after that")
	}),
	row("fifo/ids", "4.6.ids", "refuses ids that are empty, longer than 128 or have spaces", func(e *env) {
		q := e.fifo()
		longest := strings.Repeat("a", 128)
		q.send("a", group(longest), dedup(longest))
		q.send("a", group("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), dedup("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
		for _, id := range []string{"", longest + "a", "group 123"} {
			_, err := q.trySend("a", group("g"), dedup(id))
			e.refused("SendMessage with the deduplication id "+shorten(id), err, "InvalidParameterValue",
				"Value "+id+" for parameter MessageDeduplicationId is invalid. Reason: MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
			_, err = q.trySend("a", group(id), dedup("d"))
			e.refused("SendMessage with the group "+shorten(id), err, "InvalidParameterValue", "MessageGroupId")
		}
	}),
	row("fifo/delay", "4.5.fifo", "refuses DelaySeconds of a message", func(e *env) {
		_, err := e.fifo().trySend("a", group("g"), dedup("d"), delayed(2))
		e.refused("SendMessage", err, "InvalidParameterValue", "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.")
	}),
	row("fifo/delay-zero", "4.5.fifo-zero", "takes an explicit DelaySeconds of 0 and delays by the queue's", func(e *env) {
		q := e.fifo("DelaySeconds", "2")
		_, err := e.sqs.SendMessage(e.ctx, &sqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("a"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("d")},
			withJSON(func(m map[string]any) { m["DelaySeconds"] = 0 }))
		e.ok("SendMessage", err)
		q.none("at once")
		e.sleep(2500 * time.Millisecond)
		q.one("after the delay of the queue")
	}),
	row("fifo/delay-change", "3.delay-change", "takes the delay off messages when the queue's changes", func(e *env) {
		q := e.fifo("DelaySeconds", "60")
		q.sendFIFO("g", "a")
		q.none("at once")
		e.ok("SetQueueAttributes", q.set("DelaySeconds", "0"))
		q.one("after the delay of the queue was taken away")
	}),
	row("fifo/attributes", "5.count 4.6.sequence", "returns group, deduplication id and sequence number with a message", func(e *env) {
		q := e.fifo()
		sent := q.send("a", group("group-1"), dedup("dedup-1"))
		e.checkf(aws.ToString(sent.SequenceNumber) != "", "SendMessage returns no SequenceNumber")
		m := q.one("the message")
		e.equal("MessageGroupId", "group-1", m.Attributes["MessageGroupId"])
		e.equal("MessageDeduplicationId", "dedup-1", m.Attributes["MessageDeduplicationId"])
		e.equal("ApproximateReceiveCount", "1", m.Attributes["ApproximateReceiveCount"])
		e.checkf(m.Attributes["SequenceNumber"] == *sent.SequenceNumber, "the SequenceNumber is another on receive")
	}),
	row("fifo/sequence", "4.6.sequence", "numbers the messages of a group in rising order, in batches too", func(e *env) {
		q := e.fifo()
		var numbers []string
		for _, body := range []string{"a", "b"} {
			numbers = append(numbers, aws.ToString(q.send(body, group("g"), dedup(body)).SequenceNumber))
		}
		out, err := q.sendBatch(fifoEntry("c", "c", "g"), fifoEntry("d", "d", "g"))
		e.ok("SendMessageBatch", err)
		e.equal("its entries", "c ok, d ok", sendResults(out))
		for _, id := range []string{"c", "d"} {
			for _, s := range out.Successful {
				if *s.Id == id {
					numbers = append(numbers, aws.ToString(s.SequenceNumber))
				}
			}
		}
		last := big.NewInt(-1)
		for i, s := range numbers {
			n, ok := new(big.Int).SetString(s, 10)
			e.checkf(ok, "the SequenceNumber of message %d is no number", i)
			e.checkf(n.Cmp(last) > 0, "the SequenceNumber of message %d does not rise", i)
			last = n
		}
	}),
}

var fifoDedupRows = []behaviour{
	row("dedup/same-id", "4.6.window 4.6.after-delete", "takes a message with a known deduplication id and drops it, also after the first was received and deleted", func(e *env) {
		for _, deleted := range []bool{false, true} {
			q := e.fifo()
			q.send("first", group("g"), dedup("d"))
			m := q.one("the first")
			if deleted {
				e.ok("DeleteMessage", q.delete(m.ReceiptHandle))
			} else {
				e.ok("ChangeMessageVisibility", q.change(m.ReceiptHandle, 0))
				e.ok("DeleteMessage", q.delete(q.one("the first again").ReceiptHandle))
			}
			q.trySend("second", group("g"), dedup("d")) // the SDK complains about the checksum of the first
			q.none("the second")
		}
	}),
	row("dedup/success", "4.6.window", "answers a duplicate with success and the id of the first", func(e *env) {
		q := e.fifo()
		first := q.send("a", group("g"), dedup("d"))
		second := q.send("a", group("g"), dedup("d"))
		e.checkf(*first.MessageId == *second.MessageId, "the duplicate has another MessageId")
		e.checkf(aws.ToString(first.SequenceNumber) == aws.ToString(second.SequenceNumber), "the duplicate has another SequenceNumber")
		e.equal("messages", "[a]", bodies(q.receive(10, 1)))
	}),
	row("dedup/window", "4.6.window", "forgets a deduplication id after 5 minutes", func(e *env) {
		q := e.fifo()
		q.send("a", group("g"), dedup("d"))
		e.ok("DeleteMessage", q.delete(q.one("the first").ReceiptHandle))
		e.sleep(4*time.Minute + 55*time.Second)
		q.send("a", group("g"), dedup("d"))
		q.none("before the 5 minutes")
		e.sleep(10 * time.Second)
		q.send("a", group("g"), dedup("d"))
		q.one("after the 5 minutes")
	}).onSqstestOnly("takes 5 minutes"),
	row("dedup/across-groups", "4.6.across-groups", "drops duplicates in other groups too", func(e *env) {
		q := e.fifo()
		q.send("a", group("g1"), dedup("d"))
		q.send("a", group("g2"), dedup("d"))
		got := q.all(2)
		e.equal("messages", "[a]", bodies(got))
		e.equal("its group", "g1", got[0].Attributes["MessageGroupId"])
	}),
	row("dedup/per-group", "4.6.per-group", "keeps groups apart with the scope messageGroup", func(e *env) {
		for _, more := range [][]string{nil, {"FifoThroughputLimit", "perMessageGroupId"}} {
			q := e.fifo(append([]string{"DeduplicationScope", "messageGroup"}, more...)...)
			q.send("a", group("g1"), dedup("d"))
			q.send("a", group("g2"), dedup("d"))
			q.send("a", group("g2"), dedup("d"))
			e.equal("messages", 2, len(q.all(3)))
		}
	}),
	row("dedup/content", "4.6.content 4.6.content-hash", "takes the SHA-256 of the body as id, attributes aside", func(e *env) {
		q := e.fifo("ContentBasedDeduplication", "true")
		q.send("a", group("g"), text("x", "String", "1"))
		q.send("a", group("g"), text("x", "String", "2"))
		got := q.receive(10, 1)
		e.equal("messages", "[a]", bodies(got))
		sum := sha256.Sum256([]byte("a"))
		e.equal("MessageDeduplicationId", hex.EncodeToString(sum[:]), got[0].Attributes["MessageDeduplicationId"])
	}),
	row("dedup/explicit", "4.6.content", "prefers an explicit id, which collides with an equal hash", func(e *env) {
		q := e.fifo("ContentBasedDeduplication", "true")
		q.send("a", group("g1"))
		q.send("a", group("g2"), dedup("own"))
		sum := sha256.Sum256([]byte("a"))
		q.send("a", group("g3"), dedup(hex.EncodeToString(sum[:])))
		e.equal("messages", 2, len(q.all(3)))
	}),
	row("dedup/batch", "4.6.window", "drops duplicates within a batch", func(e *env) {
		q := e.fifo()
		b := fifoEntry("b", "a", "g")
		out, err := q.sendBatch(fifoEntry("a", "a", "g"), b)
		e.ok("SendMessageBatch", err)
		e.equal("its entries", "a ok, b ok", sendResults(out))
		e.equal("messages", "[a]", bodies(q.all(2)))
	}),
	row("dedup/purge", "2.purge-dedup", "forgets deduplication ids when the queue is purged", func(e *env) {
		q := e.fifo()
		q.send("a", group("g"), dedup("d"))
		e.ok("PurgeQueue", q.purge())
		q.send("a", group("g"), dedup("d"))
		q.one("the message after PurgeQueue")
	}),
	row("dedup/scope-change", "3.scope-change", "does not change at once when the scope changes", func(e *env) {
		q := e.fifo()
		q.send("a", group("g1"), dedup("d"))
		e.ok("DeleteMessage", q.delete(q.one("the first").ReceiptHandle))
		e.ok("SetQueueAttributes", q.set("DeduplicationScope", "messageGroup", "FifoThroughputLimit", "perMessageGroupId"))
		e.equal("DeduplicationScope", "messageGroup", q.attributes("All")["DeduplicationScope"])
		q.send("a", group("g2"), dedup("d"))
		q.none("the duplicate in another group")
	}),
}
