package contract_test

var localAWSSQSDeviations = []reason{
	{"answers with status 400 where SQS does with 403 or 404", map[string]string{
		"queue/status": "status of ReceiptHandleIsInvalid: want 404, got 400",
	}},
	{"has InvalidAttributeName, InvalidParameterValue and others for each other", map[string]string{
		"queue/fifo-suffix":          "CreateQueue of a FIFO queue without the suffix: want InvalidParameterValue, got InvalidAttributeName",
		"attribute/ranges":           "VisibilityTimeout over its most: want InvalidAttributeValue, got InvalidParameterValue",
		"attribute/ranges-on-create": "CreateQueue with VisibilityTimeout 43201: want InvalidAttributeValue, got InvalidParameterValue",
		"redrive/not-json":           "SetQueueAttributes with nonsense: want InvalidAttributeValue, got InvalidParameterValue",
		"redrive/type":               "SetQueueAttributes: want InvalidParameterValue, got InvalidAttributeName",
		"fifo/type":                  "SetQueueAttributes: want InvalidAttributeValue, got InvalidAttributeName",
	}},
	{"does not look at the account", map[string]string{
		"queue/other-account": "GetQueueUrl for another account: want QueueDoesNotExist, got success",
	}},
	{"compares attributes that were not given with the defaults", map[string]string{
		"queue/again": "CreateQueue again with : want success, got QueueNameExists",
	}},
	{"does not compare ContentBasedDeduplication", map[string]string{
		"fifo/again-differs": "CreateQueue: want QueueNameExists, got success",
	}},
	{"purges after a minute", map[string]string{
		"queue/purge": "after PurgeQueue: want no message, got [in flight visible delayed]",
	}},
	{"returns the reuse period of a key of KMS that is gone", map[string]string{
		"attribute/kms": "the attributes of KMS are still there when emptied",
	}},
	{"takes a VisibilityTimeout of 0 for none", map[string]string{
		"attribute/visibility-zero": "second, at once: want a message, got 0",
	}},
	{"counts messages in flight as visible too", map[string]string{
		"attribute/counts":        "visible/in flight/delayed: want 2/1/1, got 3/1/1",
		"attribute/count-expired": "in flight: visible/in flight/delayed: want 0/1/0, got 1/1/0",
		"batch/delay":             "visible/in flight/delayed: want 0/1/1, got 1/1/1",
		"order/counts":            "visible/in flight/delayed: want 2/1/0, got 3/1/0",
	}},
	{"leaves labels out of the checksum of attributes", map[string]string{
		"send/md5": "MD5OfMessageAttributes: want 43e7ec42b0259f812093235e5a353eb2, got d327d5c3a711713c24170effbbc6da6e",
	}},
	{"does not take the trace header of the request", map[string]string{
		"send/trace-http": "AWSTraceHeader: want Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1, got",
	}},
	{"counts characters, not bytes", map[string]string{
		"size/bytes": "SendMessage of 513 characters in 1025 bytes: want InvalidParameterValue, got success",
	}},
	{"does not check characters of bodies and attributes", map[string]string{
		"content/illegal":           "SendMessage with U+0000: want InvalidMessageContents, got success",
		"content/illegal-entry":     "its entries: want a ok, b InvalidMessageContents, got a ok, b ok",
		"content/attribute-charset": "SendMessage: want InvalidParameterValue, got success",
	}},
	{"takes any attribute name, and numbers of any length", map[string]string{
		"content/attribute-names": "SendMessage with an attribute a b: want InvalidParameterValue, got success",
		"content/number-digits":   "SendMessage with 39 digits: want InvalidParameterValue, got success",
	}},
	{"ends a long poll before its time only when it has as many messages as asked for, and returns a message again that becomes visible meanwhile", map[string]string{
		"receive/wakes-send":    "the long poll came with its message at its end only",
		"receive/wakes-due":     "the long poll came with its message at its end only",
		"receive/wakes-visible": "messages of the long poll: want [a], got [a a",
		"receive/not-filled":    "the poll waited for more messages",
		"order/unlock-wakes":    "the long poll came with its message at its end only",
	}},
	{"counts a change of visibility as a receive", map[string]string{
		"receive/count":     "ApproximateReceiveCount: want 2, got 3",
		"visibility/zero":   "ApproximateReceiveCount: want 2, got 3",
		"deadletter/nacked": "the message: want a message, got 0",
	}},
	{"gives messages to polls whose clients have gone", map[string]string{
		"receive/abandoned": "the message that was sent after the poll was cancelled: want a message, got 0",
	}},
	{"does not check this parameter", map[string]string{
		"receive/attempt-standard": "ReceiveMessage: want InvalidParameterValue, got success",
		"redrive/range":            `SetQueueAttributes with maxReceiveCount "x": want InvalidParameterValue, got success`,
		"redrive/allow":            "the RedrivePolicy of a queue that is not: want InvalidParameterValue, got success",
	}},
	{"knows AttributeNames only", map[string]string{
		"filter/system":     "system attributes of All: want ApproximateFirstReceiveTimestamp ApproximateReceiveCount SenderId SentTimestamp",
		"filter/older-name": "system attributes of both: want SenderId SentTimestamp, got SentTimestamp",
	}},
	{"has no limit of 12 hours from the receive", map[string]string{
		"visibility/limit": "ChangeMessageVisibility to 43200 after 2 seconds: want InvalidParameterValue, got success",
	}},
	{"makes a message invisible again whose timeout has ended", map[string]string{
		"visibility/expired-nothing": "the message, which is still visible: want a message, got 0",
	}},
	{"answers ReceiptHandleIsInvalid for a deleted message", map[string]string{
		"visibility/deleted": "ChangeMessageVisibility: want InvalidParameterValue, got ReceiptHandleIsInvalid",
	}},
	{"deletes by an older handle too", map[string]string{
		"delete/stale-kept": "the message, which was not deleted: want a message, got 0",
	}},
	{"moves a message to the dead-letter queue when its last timeout ends", map[string]string{
		"deadletter/on-receive": "in the dead-letter queue before another receive: want no message, got [a]",
	}},
	{"counts receives and times anew in the dead-letter queue", map[string]string{
		"deadletter/attributes": "ApproximateReceiveCount: want 2, got 1",
		"deadletter/count":      "ApproximateReceiveCount: want 2, got 1",
		"deadletter/timestamps": "SentTimestamp is another",
	}},
	{"refuses an explicit DelaySeconds of 0", map[string]string{
		"fifo/delay-zero": "SendMessage: want success, got InvalidParameterValue",
	}},
	{"fixes the delay of a message when it is sent", map[string]string{
		"fifo/delay-change": "after the delay of the queue was taken away: want a message, got 0",
	}},
	{"takes an empty MessageGroupId for none", map[string]string{
		"fifo/ids": "SendMessage with the group : want InvalidParameterValue, got MissingParameter",
	}},
	{"forgets a deduplication id with its message", map[string]string{
		"dedup/same-id":      "the second: want no message, got [second]",
		"dedup/scope-change": "the duplicate in another group: want no message, got [a]",
	}},
	{"does not lock groups", map[string]string{
		"order/locked":         "the next of the group: want no message, got [2]",
		"order/other-groups":   "the next receive: want [b1], got [a2 b1]",
		"order/unlocked":       "the second: want no message, got [2]",
		"order/partial-delete": "while 2 is in flight: want no message, got [3]",
		"order/second-back":    "while 1 is in flight: want no message, got [2]",
		"order/extend-first":   "after the timeouts of the others: want [], got [2 3]",
		"order/extend-second":  "after the timeouts of the others: want [1], got [1 3]",
	}},
	{"has the code of the single call", map[string]string{
		"fifosettle/expired-batch": "its entries: want 0 ReceiptHandleIsInvalid, got 0 InvalidParameterValue",
	}},
	{"keeps the deduplication id in the dead-letter queue", map[string]string{
		"fifosettle/deadletter": "its deduplication id is not its message id",
	}},
	{"has no ReceiveRequestAttemptId", map[string]string{
		"fifosettle/attempt": "messages again: want [1 2], got []",
	}},
}
