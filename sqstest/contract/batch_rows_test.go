package contract_test

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const badEntryID = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."

// handles are n receipt handles that are no handles, for refusals that come before.
func handles(n int) []*string {
	all := make([]*string, n)
	for i := range all {
		all[i] = aws.String("garbage")
	}
	return all
}

func entries(n int) []sendEntry {
	all := make([]sendEntry, n)
	for i := range all {
		all[i] = entry(strconv.Itoa(i), "body "+strconv.Itoa(i))
	}
	return all
}

var batchRows = []behaviour{
	row("batch/ten", "4.7.partial 4.4.md5", "takes ten entries and answers for each by its id", func(e *env) {
		q := e.queue()
		out, err := q.sendBatch(entries(10)...)
		e.ok("SendMessageBatch", err)
		e.equal("failed entries", 0, len(out.Failed))
		e.equal("successful entries", 10, len(out.Successful))
		ids := map[string]bool{}
		for _, s := range out.Successful {
			e.equal("MD5OfMessageBody of an entry", md5Hex([]byte("body "+*s.Id)), aws.ToString(s.MD5OfMessageBody))
			ids[aws.ToString(s.MessageId)] = true
		}
		e.equal("different message ids", 10, len(ids))
		e.equal("messages received", 10, len(q.all(10)))
	}),
	row("batch/too-many", "4.7.too-many", "refuses eleven entries and more", func(e *env) {
		q := e.queue()
		_, err := q.sendBatch(entries(20)...)
		e.refused("SendMessageBatch", err, "TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent 20.")
		q.none("after that")
	}),
	row("batch/too-many-deletes", "4.7.too-many-others", "refuses twenty deletes", func(e *env) {
		_, err := e.queue().deleteBatch(handles(20)...)
		e.refused("DeleteMessageBatch", err, "TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent 20.")
	}),
	row("batch/too-many-changes", "4.7.too-many-others", "refuses twenty changes of visibility", func(e *env) {
		all := make([]changeEntry, 20)
		for i := range all {
			all[i].ReceiptHandle = aws.String("garbage")
		}
		_, err := e.queue().changeBatch(all...)
		e.refused("ChangeMessageVisibilityBatch", err, "TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent 20.")
	}),
	row("batch/empty", "4.7.empty", "refuses no entries", func(e *env) {
		q := e.queue()
		_, err := q.sendBatch()
		e.refused("SendMessageBatch", err, "EmptyBatchRequest", "")
		_, err = q.deleteBatch()
		e.refused("DeleteMessageBatch", err, "EmptyBatchRequest", "")
		_, err = q.changeBatch()
		e.refused("ChangeMessageVisibilityBatch", err, "EmptyBatchRequest", "")
	}),
	row("batch/ids", "4.7.ids", "refuses entry ids with other characters or longer than 80", func(e *env) {
		q := e.queue()
		out, err := q.sendBatch(entry(strings.Repeat("a", 80), "a"), entry("A-b_1", "b"))
		e.ok("SendMessageBatch with an id of 80", err)
		e.equal("failed entries", 0, len(out.Failed))
		for _, id := range []string{"a b", "a:b", "", strings.Repeat("a", 81)} {
			_, err := q.sendBatch(entry(id, "a"))
			e.refused("SendMessageBatch with the id "+shorten(id), err, "InvalidBatchEntryId", badEntryID)
		}
	}),
	row("batch/delete-ids", "4.7.ids-others", "refuses entry ids of deletes and changes in the same way", func(e *env) {
		q := e.queue()
		for _, id := range []string{"", strings.Repeat("testLongId", 10), "invalid:id"} {
			_, err := q.deleteNamed(id)
			e.refused("DeleteMessageBatch with the id "+shorten(id), err, "InvalidBatchEntryId", badEntryID)
		}
		_, err := q.changeBatch(changeEntry{Id: aws.String("invalid:id"), ReceiptHandle: aws.String("garbage")})
		e.refused("ChangeMessageVisibilityBatch with the id invalid:id", err, "InvalidBatchEntryId", badEntryID)
	}),
	row("batch/distinct", "4.7.distinct", "refuses the same id twice", func(e *env) {
		q := e.queue()
		_, err := q.sendBatch(entry("a", "1"), entry("a", "2"))
		e.refused("SendMessageBatch", err, "BatchEntryIdsNotDistinct", "")
		_, err = q.deleteNamed("a", "a")
		e.refused("DeleteMessageBatch", err, "BatchEntryIdsNotDistinct", "")
		_, err = q.changeBatch(changeEntry{Id: aws.String("a"), ReceiptHandle: aws.String("x")}, changeEntry{Id: aws.String("a"), ReceiptHandle: aws.String("x")})
		e.refused("ChangeMessageVisibilityBatch", err, "BatchEntryIdsNotDistinct", "")
		q.none("after that")
	}),
	row("batch/delay", "4.5.delay", "delays each entry by its own DelaySeconds, and fails alone one over 900", func(e *env) {
		q := e.queue()
		now, later, never := entry("a", "now"), entry("b", "later"), entry("c", "never")
		later.DelaySeconds, never.DelaySeconds = 60, 901
		out, err := q.sendBatch(now, later, never)
		e.ok("SendMessageBatch", err)
		e.equal("its entries", "a ok, b ok, c InvalidParameterValue", sendResults(out))
		e.equal("visible", "[now]", bodies(q.receive(10, 1)))
		e.equal("visible/in flight/delayed", "0/1/1", q.counts())
	}),
	row("batch/group", "4.6.fair", "takes a MessageGroupId for each entry on a standard queue", func(e *env) {
		q := e.queue()
		a := entry("a", "a")
		a.MessageGroupId = aws.String("tenant")
		out, err := q.sendBatch(a)
		e.ok("SendMessageBatch", err)
		e.equal("its entries", "a ok", sendResults(out))
		e.equal("MessageGroupId", "tenant", q.one("the message").Attributes["MessageGroupId"])
	}),
}
