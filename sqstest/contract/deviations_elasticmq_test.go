package contract_test

var elasticMQDeviations = []reason{
	{"writes codes with a prefix, and the same in the header for the query protocol", map[string]string{
		"queue/generic-code": "ErrorCode(): want InvalidParameterValue, got com.amazonaws.sqs#InvalidAttributeValue",
		"queue/legacy-code":  "ErrorCode(): want AWS.SimpleQueueService.NonExistentQueue, got com.amazonaws.sqs#QueueDoesNotExist",
	}},
	{"answers with status 400 where SQS does with 403 or 404", map[string]string{
		"queue/status": "status of ReceiptHandleIsInvalid: want 404, got 400",
	}},
	{"has InvalidAttributeName and InvalidAttributeValue for InvalidParameterValue and others", map[string]string{
		"queue/names":               "CreateQueue with the name 81 long: want InvalidParameterValue, got InvalidAttributeName",
		"queue/fifo-suffix":         "CreateQueue of a FIFO queue without the suffix: want InvalidParameterValue, got InvalidAttributeName",
		"content/ten-attributes":    "SendMessage with 11 attributes: want InvalidParameterValue, got InvalidAttributeValue",
		"content/attribute-empty":   "SendMessage with an empty String: want InvalidParameterValue, got InvalidAttributeValue",
		"content/attribute-charset": "SendMessage: want InvalidParameterValue, got InvalidAttributeValue",
		"content/number":            "SendMessage: want InvalidParameterValue, got InvalidAttributeValue",
		"content/empty":             "SendMessage: want MissingParameter, got InvalidAttributeValue",
		"content/illegal":           "SendMessage with U+0000: want InvalidMessageContents, got InvalidAttributeValue",
		"content/illegal-entry":     "its entries: want a ok, b InvalidMessageContents, got a ok, b InvalidAttributeValue",
		"size/limit":                "SendMessage of 1 MiB and a byte: want InvalidParameterValue, got InvalidAttributeValue",
		"size/batch":                "SendMessageBatch of a byte more: want BatchRequestTooLong, got InvalidAttributeValue",
		"receive/max":               "ReceiveMessage: want InvalidParameterValue, got InvalidAttributeValue",
		"receive/max-zero":          "ReceiveMessage: want InvalidParameterValue, got InvalidAttributeValue",
		"receive/wait-range":        "ReceiveMessage with 21: want InvalidParameterValue, got InvalidAttributeValue",
		"redrive/keys":              "SetQueueAttributes with no deadLetterTargetArn: want InvalidParameterValue, got InvalidAttributeValue",
		"redrive/allow-form":        `SetQueueAttributes with {"redrivePermission":"byQueue"}: want InvalidParameterValue, got InvalidAttributeName`,
	}},
	{"takes no bare names", map[string]string{
		"queue/bare-name": "SendMessage with a name as QueueUrl: want success, got InvalidAction",
	}},
	{"does not look at the account", map[string]string{
		"queue/other-account": "GetQueueUrl for another account: want QueueDoesNotExist, got success",
	}},
	{"compares attributes with the defaults too", map[string]string{
		"queue/again-current": "CreateQueue with the current value: want success, got QueueNameExists",
	}},
	{"gives a name free at once", map[string]string{
		"queue/recreate": "CreateQueue at once: want QueueDeletedRecently, got success",
	}},
	{"does not end a long poll on a deleted queue, and fails after 20 seconds", map[string]string{
		"queue/deleted-under-poll": "the poll: want nothing or QueueDoesNotExist, got a status of the 500s",
	}},
	{"purges as often as it is asked", map[string]string{
		"queue/purge-twice": "PurgeQueue again: want PurgeQueueInProgress, got success",
	}},
	{"lists all queues on the first page", map[string]string{
		"queue/pages": "queues on the first page: want 2, got 3",
	}},
	{"has no MessageRetentionPeriod", map[string]string{
		"attribute/defaults":  "MessageRetentionPeriod: want 345600, got",
		"attribute/read-back": "MessageRetentionPeriod: want 61, got",
	}},
	{"has no attributes of encryption", map[string]string{
		"attribute/sse-default": "SqsManagedSseEnabled: want true, got",
		"attribute/kms":         "SetQueueAttributes: want success, got InvalidAttributeName",
	}},
	{"has no Policy", map[string]string{
		"attribute/policy-empty": "the Policy is not read back",
	}},
	{"has no RedriveAllowPolicy", map[string]string{
		"redrive/allow": "SetQueueAttributes with allowAll: want success, got InvalidAttributeName",
	}},
	{"does not check the attributes of queues", map[string]string{
		"attribute/ranges":           "VisibilityTimeout over its most: want InvalidAttributeValue, got success",
		"attribute/ranges-on-create": "CreateQueue with VisibilityTimeout 43201: want InvalidAttributeValue, got success",
		"attribute/fifo-on-standard": "CreateQueue with FifoQueue: want InvalidAttributeName, got success",
		"attribute/type-standard":    "FifoQueue=true: want InvalidAttributeName, got success",
		"fifo/type":                  "SetQueueAttributes: want InvalidAttributeValue, got success",
	}},
	{"does not change LastModifiedTimestamp", map[string]string{
		"attribute/timestamps": "LastModifiedTimestamp is not later after a change",
	}},
	{"does not check this parameter", map[string]string{
		"send/system-unknown":      "SendMessage: want InvalidParameterValue, got success",
		"receive/visibility-range": "ReceiveMessage with 43201: want InvalidParameterValue, got success",
		"visibility/range":         "ChangeMessageVisibility to 43201: want InvalidParameterValue, got success",
		"visibility/batch":         "its entries: want 0 ok, 1 ReceiptHandleIsInvalid, 2 InvalidParameterValue, got 0 ok, 1 ReceiptHandleIsInvalid,",
	}},
	{"does not return the checksum of system attributes", map[string]string{
		"send/md5-system": "MD5OfMessageSystemAttributes: want 5ae4d5d7636402d80f4eb6d213245a88, got",
	}},
	{"has no MaximumMessageSize of queues, only the limit of SQS", map[string]string{
		"size/attributes":  "SendMessage of a byte more: want InvalidParameterValue, got success",
		"size/bytes":       "SendMessage of 513 characters in 1025 bytes: want InvalidParameterValue, got success",
		"size/queue":       "SendMessage of 1025 bytes: want InvalidParameterValue, got success",
		"size/batch-entry": "its entries: want a ok, b InvalidParameterValue, got a ok, b ok",
	}},
	{"takes any attribute name, any type that begins with a known one, and numbers of any length", map[string]string{
		"content/attribute-names": "SendMessage with an attribute a b: want InvalidParameterValue, got success",
		"content/attribute-dots":  "SendMessage: want InvalidParameterValue, got success",
		"content/attribute-types": "SendMessage with the type Strings: want InvalidParameterValue, got success",
		"content/number-digits":   "SendMessage with 39 digits: want InvalidParameterValue, got success",
	}},
	{"does not check entry ids and whether there are entries", map[string]string{
		"batch/empty":      "SendMessageBatch: want EmptyBatchRequest, got success",
		"batch/ids":        "SendMessageBatch with the id a b: want InvalidBatchEntryId, got success",
		"batch/delete-ids": "DeleteMessageBatch with the id : want InvalidBatchEntryId, got success",
	}},
	{"writes an empty list of messages", map[string]string{
		"receive/empty": "the answer has the member Messages",
	}},
	{"gives messages to polls whose clients have gone", map[string]string{
		"receive/abandoned": "the message that was sent after the poll was cancelled: want a message, got 0",
	}},
	{"does not know prefixes with .*", map[string]string{
		"filter/names": "message attributes of Help.*: want Help.Me, got",
	}},
	{"has no limit of 12 hours from the receive", map[string]string{
		"visibility/limit": "ChangeMessageVisibility to 43200 after 2 seconds: want InvalidParameterValue, got success",
	}},
	{"makes a message invisible again whose timeout has ended", map[string]string{
		"visibility/expired-nothing": "the message, which is still visible: want a message, got 0",
	}},
	{"answers ReceiptHandleIsInvalid for every handle that is not the latest of a message in the queue", map[string]string{
		"visibility/deleted":      "ChangeMessageVisibility: want InvalidParameterValue, got ReceiptHandleIsInvalid",
		"visibility/older-handle": "ChangeMessageVisibility by the older handle: want success, got ReceiptHandleIsInvalid",
		"delete/stale":            "DeleteMessage by the older handle: want success, got ReceiptHandleIsInvalid",
		"delete/twice":            "DeleteMessage: want success, got ReceiptHandleIsInvalid",
		"fifosettle/twice":        "DeleteMessage: want success, got ReceiptHandleIsInvalid",
	}},
	{"does not wake the polls on a dead-letter queue", map[string]string{
		"deadletter/wakes": "messages of the long poll: want [a], got []",
	}},
	{"does not take an empty RedrivePolicy", map[string]string{
		"deadletter/removed": "SetQueueAttributes with an empty RedrivePolicy: want success, got InvalidAttributeValue",
	}},
	{"looks up the target as a queue that has to exist, and does not check its type", map[string]string{
		"redrive/no-target": "SetQueueAttributes: want InvalidParameterValue, got QueueDoesNotExist",
		"redrive/type":      "SetQueueAttributes: want InvalidParameterValue, got success",
	}},
	{"fails on a text that is no number, with an internal error", map[string]string{
		"redrive/range": `SetQueueAttributes with maxReceiveCount "x": want InvalidParameterValue, got a status of the 500s`,
	}},
	{"shows the handle of a task that has ended", map[string]string{
		"move/back": "a task that has ended shows its TaskHandle",
	}},
	{"keeps the id of a moved message", map[string]string{
		"move/new": "the message has the id it had",
	}},
	{"has other codes for errors of move tasks", map[string]string{
		"move/missing":    "StartMessageMoveTask from nowhere: want ResourceNotFoundException, got QueueDoesNotExist",
		"move/one":        "StartMessageMoveTask again: want InvalidParameterValue, got UnsupportedOperation",
		"move/bad-handle": "CancelMessageMoveTask: want InvalidParameterValue, got ResourceNotFoundException",
	}},
	{"fails with an internal error for a source that is no dead-letter queue", map[string]string{
		"move/not-dlq": "StartMessageMoveTask: want InvalidParameterValue, got a status of the 500s",
	}},
	{"forgets a task that was cancelled", map[string]string{
		"move/cancel": "the move task does not end",
	}},
	{"lists every task of a source", map[string]string{
		"move/list": "tasks without MaxResults: want 1, got 2",
	}},
	{"completes a task whose destination is gone", map[string]string{
		"move/failed": "Status: want FAILED, got COMPLETED",
	}},
	{"has no DeduplicationScope and FifoThroughputLimit", map[string]string{
		"fifo/defaults":      "DeduplicationScope: want queue, got",
		"fifo/throughput":    "FifoThroughputLimit: want perQueue, got",
		"dedup/per-group":    "messages: want 2, got 1",
		"dedup/scope-change": "SetQueueAttributes: want success, got InvalidAttributeName",
	}},
	{"fixes ContentBasedDeduplication when the queue is created", map[string]string{
		"fifo/content-later": "SetQueueAttributes: want success, got InvalidAttributeName",
	}},
	{"does not refuse the batch but fails the entry", map[string]string{
		"fifo/group-required-batch": "SendMessageBatch: want InvalidParameterValue, got success",
		"fifo/dedup-required-batch": "SendMessageBatch: want InvalidParameterValue, got success",
	}},
	{"fixes the delay of a message when it is sent", map[string]string{
		"fifo/delay-change": "after the delay of the queue was taken away: want a message, got 0",
	}},
	{"returns no SequenceNumber for the entries of a batch", map[string]string{
		"fifo/sequence": "the SequenceNumber of message 2 is no number",
	}},
	{"treats handles on FIFO queues as on standard queues", map[string]string{
		"fifosettle/expired":        "DeleteMessage: want InvalidParameterValue, got success",
		"fifosettle/expired-batch":  "its entries: want 0 ReceiptHandleIsInvalid, got 0 ok",
		"fifosettle/expired-change": "ChangeMessageVisibility: want a refusal of the handle, got success",
	}},
	{"gives a new handle for the same ReceiveRequestAttemptId", map[string]string{
		"fifosettle/attempt": "the handle is another",
	}},
}
