package contract_test

var motoDeviations = []reason{
	{"answers with status 400 where SQS does with 403 or 404", map[string]string{
		"queue/status": "status of ReceiptHandleIsInvalid: want 404, got 400",
	}},
	{"takes the suffix .fifo without FifoQueue", map[string]string{
		"queue/fifo-suffix": "CreateQueue of a standard queue with the suffix: want InvalidParameterValue, got success",
	}},
	{"does not look at the account", map[string]string{
		"queue/other-account": "GetQueueUrl for another account: want QueueDoesNotExist, got success",
	}},
	{"gives a name free at once", map[string]string{
		"queue/recreate": "CreateQueue at once: want QueueDeletedRecently, got success",
	}},
	{"purges as often as it is asked", map[string]string{
		"queue/purge-twice": "PurgeQueue again: want PurgeQueueInProgress, got success",
	}},
	{"lists all queues on the first page", map[string]string{
		"queue/pages": "queues on the first page: want 2, got 3",
	}},
	{"does not check the attributes of queues", map[string]string{
		"attribute/ranges":           "VisibilityTimeout over its most: want InvalidAttributeValue, got success",
		"attribute/ranges-on-create": "CreateQueue with VisibilityTimeout 43201: want InvalidAttributeValue, got success",
		"attribute/unknown":          "SetQueueAttributes: want InvalidAttributeName, got success",
		"attribute/fifo-on-standard": "CreateQueue with FifoQueue: want InvalidAttributeName, got success",
		"attribute/type-standard":    "FifoQueue=true: want InvalidAttributeName, got success",
		"attribute/kms-or-sqs":       "SetQueueAttributes with both: want InvalidAttributeName, got success",
		"fifo/type":                  "SetQueueAttributes: want InvalidAttributeValue, got success",
		"fifo/throughput":            "CreateQueue with perMessageGroupId alone: want a refusal, got success",
	}},
	{"keeps SqsManagedSseEnabled when a key of KMS is set", map[string]string{
		"attribute/kms": "SqsManagedSseEnabled with a key: want false, got true",
	}},
	{"returns timestamps with fractions", map[string]string{
		"attribute/timestamps": "CreatedTimestamp is not the time in seconds",
	}},
	{"does not return the checksum of system attributes", map[string]string{
		"send/md5-system": "MD5OfMessageSystemAttributes: want 5ae4d5d7636402d80f4eb6d213245a88, got",
	}},
	{"takes a trace header as system attribute only, and any other", map[string]string{
		"send/trace-http":     "AWSTraceHeader: want Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1, got",
		"send/system-unknown": "SendMessage: want InvalidParameterValue, got success",
		"delivery/trace":      "AWSTraceHeader: want Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1, got",
	}},
	{"does not check this parameter", map[string]string{
		"send/group-invalid":       `SendMessage with the MessageGroupId "of 129 letters": want InvalidParameterValue, got success`,
		"send/dedup-standard":      "SendMessage: want InvalidParameterValue, got success",
		"send/delay-range":         "SendMessage with DelaySeconds -1: want InvalidParameterValue, got success",
		"receive/attempt-standard": "ReceiveMessage: want InvalidParameterValue, got success",
		"visibility/range":         "ChangeMessageVisibility to -1: want InvalidParameterValue, got success",
	}},
	{"counts characters of the body, not bytes, and no attributes", map[string]string{
		"size/attributes": "SendMessage of a byte more: want InvalidParameterValue, got success",
		"size/bytes":      "SendMessage of 513 characters in 1025 bytes: want InvalidParameterValue, got success",
	}},
	{"refuses the batch for an entry", map[string]string{
		"size/batch-entry": "SendMessageBatch: want success, got InvalidParameterValue",
		"batch/delay":      "SendMessageBatch: want success, got an answer that cannot be read",
	}},
	{"does not check bodies", map[string]string{
		"content/empty":         "SendMessage: want MissingParameter, got success",
		"content/illegal":       "SendMessage with U+0000: want InvalidMessageContents, got success",
		"content/illegal-entry": "its entries: want a ok, b InvalidMessageContents, got a ok, b ok",
	}},
	{"does not check message attributes, but for characters of names, where it takes ASCII only", map[string]string{
		"content/ten-attributes":    "SendMessage with 11 attributes: want InvalidParameterValue, got success",
		"content/attribute-names":   "SendMessage with an attribute .a: want InvalidParameterValue, got success",
		"content/attribute-dots":    "SendMessage: want InvalidParameterValue, got success",
		"content/attribute-accents": "SendMessage: want success, got InvalidParameterValue",
		"content/attribute-empty":   "SendMessage with an empty String: want InvalidParameterValue, got success",
		"content/attribute-charset": "SendMessage: want InvalidParameterValue, got success",
		"content/number":            "SendMessage: want InvalidParameterValue, got success",
		"content/number-digits":     "SendMessage with 39 digits: want InvalidParameterValue, got success",
		"content/list-values":       "SendMessage: want a refusal, got success",
	}},
	{"does not check batches of deletes and changes of visibility", map[string]string{
		"batch/empty":            "ChangeMessageVisibilityBatch: want EmptyBatchRequest, got success",
		"batch/distinct":         "ChangeMessageVisibilityBatch: want BatchEntryIdsNotDistinct, got success",
		"batch/delete-ids":       "DeleteMessageBatch with the id : want InvalidBatchEntryId, got success",
		"batch/too-many-deletes": "DeleteMessageBatch: want TooManyEntriesInBatchRequest, got BatchEntryIdsNotDistinct",
		"batch/too-many-changes": "ChangeMessageVisibilityBatch: want TooManyEntriesInBatchRequest, got success",
	}},
	{"gives messages to polls whose clients have gone", map[string]string{
		"receive/abandoned": "the message that was sent after the poll was cancelled: want a message, got 0",
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
	{"does not tell where a dead letter comes from", map[string]string{
		"deadletter/attributes": "DeadLetterQueueSourceArn is not the source's ARN",
	}},
	{"does not check RedrivePolicy and RedriveAllowPolicy, but that the target exists", map[string]string{
		"redrive/not-json":   "SetQueueAttributes with nonsense: want InvalidAttributeValue, got a status of the 500s",
		"redrive/keys":       "SetQueueAttributes with another key: want InvalidParameterValue, got success",
		"redrive/range":      "SetQueueAttributes with maxReceiveCount 0: want InvalidParameterValue, got success",
		"redrive/no-target":  "SetQueueAttributes: want InvalidParameterValue, got QueueDoesNotExist",
		"redrive/type":       "SetQueueAttributes: want InvalidParameterValue, got success",
		"redrive/allow":      "the RedrivePolicy of a queue that is not: want InvalidParameterValue, got success",
		"redrive/allow-form": `SetQueueAttributes with {"redrivePermission":"byQueue"}: want InvalidParameterValue, got success`,
	}},
	{"has MissingParameter for the batch", map[string]string{
		"fifo/group-required-batch": "SendMessageBatch: want InvalidParameterValue, got MissingParameter",
	}},
	{"takes an empty MessageGroupId for none", map[string]string{
		"fifo/ids": "SendMessage with the group : want InvalidParameterValue, got MissingParameter",
	}},
	{"takes an explicit DelaySeconds of 0 for the message", map[string]string{
		"fifo/delay-zero": "at once: want no message, got [a]",
	}},
	{"fixes the delay of a message when it is sent", map[string]string{
		"fifo/delay-change": "after the delay of the queue was taken away: want a message, got 0",
	}},
	{"makes sequence numbers at random", map[string]string{
		"fifo/sequence": "does not rise",
	}},
	{"forgets a deduplication id with its message, and gives duplicates an id of their own", map[string]string{
		"dedup/same-id":      "the second: want no message, got [second]",
		"dedup/success":      "the duplicate has another MessageId",
		"dedup/scope-change": "the duplicate in another group: want no message, got [a]",
	}},
	{"deduplicates by queue only", map[string]string{
		"dedup/per-group": "messages: want 2, got 1",
	}},
	{"does not wake a poll when a group is unlocked", map[string]string{
		"order/unlock-wakes": "messages of the long poll: want [2], got []",
	}},
	{"locks a group while any of its messages is in flight, the first included", map[string]string{
		"order/head-back":     "the next receive: want [1], got []",
		"order/head-expired":  "after its timeout: want [1], got []",
		"order/extend-second": "after the timeouts of the others: want [1], got []",
		"order/extend-third":  "after the timeouts of the others: want [1 2], got []",
	}},
	{"loses the order of a group when timeouts end", map[string]string{
		"order/all-expired": "the next receive: want [1 2 3], got [3]",
	}},
	{"treats handles on FIFO queues as on standard queues", map[string]string{
		"fifosettle/expired":        "DeleteMessage: want InvalidParameterValue, got success",
		"fifosettle/expired-batch":  "its entries: want 0 ReceiptHandleIsInvalid, got 0 ok",
		"fifosettle/expired-change": "ChangeMessageVisibility: want a refusal of the handle, got success",
	}},
	{"has no ReceiveRequestAttemptId", map[string]string{
		"fifosettle/attempt": "messages again: want [1 2], got []",
	}},
	{"keeps the deduplication id in the dead-letter queue", map[string]string{
		"fifosettle/deadletter": "its deduplication id is not its message id",
	}},
	{"does not compare attributes and tags", map[string]string{
		"topic/again-differs":        "CreateTopic with another DisplayName: want InvalidParameter, got success",
		"topic/tags-differ":          "CreateTopic: want InvalidParameter, got success",
		"subscription/again-differs": "Subscribe: want InvalidParameter, got success",
	}},
	{"does not check attributes of subscriptions", map[string]string{
		"subscription/attributes":   "RawMessageDelivery=maybe: want InvalidParameter, got success",
		"subscription/redrive":      "a RedrivePolicy with no ARN: want InvalidParameter, got success",
		"subscription/redrive-type": "SetSubscriptionAttributes: want InvalidParameter, got success",
	}},
	{"does not look at the region", map[string]string{
		"publish/other-region": "Publish: want InvalidParameter, got NotFound",
	}},
	{"does not check this parameter of Publish", map[string]string{
		"publish/empty":         "Publish: want InvalidParameter, got success",
		"publish/subject-empty": "Publish: want InvalidParameter, got success",
	}},
	{"does not count attributes, and checks the size of each entry only", map[string]string{
		"publish/size-attributes": "Publish: want InvalidParameter, got success",
		"publish/size-batch":      "PublishBatch: want BatchRequestTooLong, got success",
	}},
	{"does not check message attributes, or refuses them with InvalidParameter", map[string]string{
		"publish/attribute-values": "Publish with an empty String: want ParameterValueInvalid, got InvalidParameter",
		"publish/attribute-names":  "Publish with an attribute ^a: want ParameterValueInvalid, got success",
		"publish/batch-attribute":  "PublishBatch: want ParameterValueInvalid, got InvalidParameter",
	}},
	{"does not check entry ids", map[string]string{
		"publish/batch-ids": "PublishBatch with the id message.id: want InvalidBatchEntryId, got success",
	}},
	{"does not refuse the batch for an entry", map[string]string{
		"publish/batch-fifo":      "PublishBatch without deduplication id: want InvalidParameter, got success",
		"publish/batch-structure": "PublishBatch: want InvalidParameter, got success",
	}},
	{"has MissingParameter for the group", map[string]string{
		"publish/group-required": "Publish without group: want InvalidParameter, got MissingParameter",
	}},
	{"does not look into messages in parts for their default", map[string]string{
		"publish/structure": "Publish without default: want InvalidParameter, got success",
	}},
	{"cannot receive a Binary attribute that a topic has delivered raw: the queue answers 500 from then on", map[string]string{
		"delivery/raw": "ReceiveMessage: want success, got a status of the 500s",
	}},
	{"delivers what SNS drops", map[string]string{
		"delivery/eleven-attributes": "in the queue with raw delivery: want no message, got [hello]",
		"delivery/policy":            "without a policy: want no message, got [a]",
	}},
	{"refuses to publish when a subscribed queue is gone", map[string]string{
		"delivery/no-queue":    "Publish: want success, got NonExistentQueue",
		"delivery/dead-letter": "Publish: want success, got NonExistentQueue",
	}},
	{"numbers nothing in FIFO topics, and signs envelopes all the same", map[string]string{
		"delivery/fifo":          "Publish returns no SequenceNumber",
		"delivery/fifo-envelope": "members: want [Message MessageId SequenceNumber Timestamp TopicArn Type UnsubscribeURL], got [Message MessageI",
	}},
	{"makes no content-based deduplication id in topics", map[string]string{
		"delivery/fifo-content": "Publish: want success, got InvalidParameterValue",
	}},
	{"deduplicates in FIFO queues, not in topics", map[string]string{
		"delivery/fifo-to-standard": "messages: want [a], got [a a]",
	}},
	{"fails on JSON that it cannot parse, with an internal error", map[string]string{
		"filterpolicy/invalid": "Subscribe with invalid: want InvalidParameter, got a status of the 500s",
	}},
}
