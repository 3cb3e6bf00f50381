package contract_test

var fauxqsDeviations = []reason{
	{"writes the codes of errors without a Go type with a prefix", map[string]string{
		"queue/generic-code": "ErrorCode(): want InvalidParameterValue, got AWS.SimpleQueueService.InvalidParameterValue",
	}},
	{"answers with status 400 where SQS does with 403 or 404", map[string]string{
		"queue/status": "status of ReceiptHandleIsInvalid: want 404, got 400",
	}},
	{"serves its own pages at the paths of queues", map[string]string{
		"queue/url-path": "SendMessage posted to the queue URL: want success, got an answer that cannot be read",
	}},
	{"takes names of any length and the suffix .fifo without FifoQueue", map[string]string{
		"queue/names":       "CreateQueue with the name 81 long: want InvalidParameterValue, got success",
		"queue/fifo-suffix": "CreateQueue of a standard queue with the suffix: want InvalidParameterValue, got success",
		"topic/names":       "CreateTopic with the name of 24 letters: want InvalidParameter, got success",
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
	{"stores attributes without regard to each other", map[string]string{
		"attribute/kms":        "SqsManagedSseEnabled with a key: want false, got true",
		"attribute/kms-or-sqs": "SetQueueAttributes with both: want InvalidAttributeName, got success",
		"fifo/throughput":      "CreateQueue with perMessageGroupId alone: want a refusal, got success",
	}},
	{"keeps an empty Policy", map[string]string{
		"attribute/policy-empty": "the empty Policy is still there",
	}},
	{"returns all attributes when none is named", map[string]string{
		"attribute/by-name": "GetQueueAttributes of none: want 0, got 12",
	}},
	{"takes attributes of FIFO queues on standard queues, or refuses them with another code", map[string]string{
		"attribute/fifo-on-standard": "CreateQueue with FifoQueue: want InvalidAttributeName, got success",
		"attribute/type-standard":    "FifoQueue=true: want InvalidAttributeName, got InvalidAttributeValue",
	}},
	{"moves messages whose timeout has ended back on the next receive only, and counts them as in flight until then", map[string]string{
		"attribute/count-expired": "after the timeout: visible/in flight/delayed: want 1/0/0, got 0/1/0",
		"deadletter/on-receive":   "source: visible/in flight/delayed: want 1/0/0, got 0/1/0",
	}},
	{"has no system attributes on sending", map[string]string{
		"send/md5-system":     "MD5OfMessageSystemAttributes: want 5ae4d5d7636402d80f4eb6d213245a88, got",
		"send/trace":          "AWSTraceHeader: want Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1, got",
		"send/trace-http":     "AWSTraceHeader: want Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1, got",
		"send/system-unknown": "SendMessage: want InvalidParameterValue, got success",
		"delivery/trace":      "AWSTraceHeader: want Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1, got",
	}},
	{"has no MessageGroupId on standard queues", map[string]string{
		"send/group":         "MessageGroupId: want tenant, got",
		"send/group-invalid": `SendMessage with the MessageGroupId "of 129 letters": want InvalidParameterValue, got success`,
		"batch/group":        "MessageGroupId: want tenant, got",
		"delivery/group":     "MessageGroupId: want tenant, got",
	}},
	{"does not check this parameter", map[string]string{
		"send/dedup-standard":      "SendMessage: want InvalidParameterValue, got success",
		"send/delay-range":         "SendMessage with DelaySeconds 901: want InvalidParameterValue, got success",
		"batch/delay":              "its entries: want a ok, b ok, c InvalidParameterValue, got a ok, b ok, c ok",
		"receive/attempt-standard": "ReceiveMessage: want InvalidParameterValue, got success",
		"batch/ids":                "SendMessageBatch with the id of 81 letters: want InvalidBatchEntryId, got success",
		"batch/delete-ids":         "DeleteMessageBatch with the id of 100 letters: want InvalidBatchEntryId, got success",
	}},
	{"checks bodies by UTF-16 units, so nothing beyond U+FFFF passes", map[string]string{
		"content/supplementary": "SendMessage: want success, got InvalidMessageContents",
	}},
	{"does not check message attributes, but for some of the size", map[string]string{
		"content/ten-attributes":    "SendMessage with 11 attributes: want InvalidParameterValue, got success",
		"content/attribute-names":   "SendMessage with an attribute a b: want InvalidParameterValue, got success",
		"content/attribute-dots":    "SendMessage: want InvalidParameterValue, got success",
		"content/attribute-types":   "SendMessage with the type Foo: want InvalidParameterValue, got success",
		"content/attribute-empty":   "SendMessage with an empty String: want InvalidParameterValue, got success",
		"content/attribute-charset": "SendMessage: want InvalidParameterValue, got success",
		"content/number":            "SendMessage: want InvalidParameterValue, got success",
		"content/number-digits":     "SendMessage with 39 digits: want InvalidParameterValue, got success",
		"content/list-values":       "SendMessage: want a refusal, got success",
	}},
	{"gives messages to polls whose clients have gone", map[string]string{
		"receive/abandoned": "the message that was sent after the poll was cancelled: want a message, got 0",
	}},
	{"returns message attributes that were not asked for", map[string]string{
		"filter/nothing": "message attributes: want 0, got 1",
	}},
	{"takes prefixes with a dot only", map[string]string{
		"filter/names": "message attributes of Hel.*: want Hello Help.Me, got",
	}},
	{"returns the checksum of all attributes whichever are returned", map[string]string{
		"filter/md5": "MD5OfMessageAttributes of b: want 35253c8c52776761eeb35a5855738a25, got fb921ed26b602b1dbe2a595741287c4a",
	}},
	{"has no limit of 12 hours from the receive", map[string]string{
		"visibility/limit": "ChangeMessageVisibility to 43200 after 2 seconds: want InvalidParameterValue, got success",
	}},
	{"makes a message invisible again whose timeout has ended", map[string]string{
		"visibility/expired-nothing": "the message, which is still visible: want a message, got 0",
	}},
	{"answers MessageNotInflight for every handle it does not know, older ones included", map[string]string{
		"visibility/deleted":      "ChangeMessageVisibility: want InvalidParameterValue, got MessageNotInflight",
		"visibility/older-handle": "ChangeMessageVisibility by the older handle: want success, got MessageNotInflight",
		"visibility/garbage":      "ChangeMessageVisibility: want ReceiptHandleIsInvalid, got MessageNotInflight",
	}},
	{"ignores handles it does not know on deleting, and forgets a handle on a change to 0", map[string]string{
		"delete/zeroed":  "after that: want no message, got [a]",
		"delete/garbage": "DeleteMessage: want ReceiptHandleIsInvalid, got success",
		"delete/batch":   "its entries: want 0 ok, 1 ReceiptHandleIsInvalid, got 0 ok, 1 ok",
	}},
	{"does not tell where a dead letter comes from, and counts the receive that moves it", map[string]string{
		"deadletter/attributes": "DeadLetterQueueSourceArn is not the source's ARN",
		"deadletter/count":      "ApproximateReceiveCount: want 2, got 3",
	}},
	{"has no ListDeadLetterSourceQueues", map[string]string{
		"deadletter/sources": "ListDeadLetterSourceQueues: want success, got InvalidAction",
	}},
	{"does not check RedrivePolicy and RedriveAllowPolicy", map[string]string{
		"redrive/not-json":   "SetQueueAttributes with nonsense: want InvalidAttributeValue, got success",
		"redrive/keys":       "SetQueueAttributes with no deadLetterTargetArn: want InvalidParameterValue, got success",
		"redrive/range":      "SetQueueAttributes with maxReceiveCount 0: want InvalidParameterValue, got success",
		"redrive/no-target":  "SetQueueAttributes: want InvalidParameterValue, got success",
		"redrive/type":       "SetQueueAttributes: want InvalidParameterValue, got success",
		"redrive/allow":      "the RedrivePolicy of a queue that is not: want InvalidParameterValue, got success",
		"redrive/allow-form": `SetQueueAttributes with {"redrivePermission":"byQueue"}: want InvalidParameterValue, got success`,
	}},
	{"does not refuse the batch but fails the entry", map[string]string{
		"fifo/group-required-batch": "SendMessageBatch: want InvalidParameterValue, got success",
		"fifo/dedup-required-batch": "SendMessageBatch: want InvalidParameterValue, got success",
	}},
	{"takes an empty MessageGroupId for none", map[string]string{
		"fifo/ids": "SendMessage with the group : want InvalidParameterValue, got MissingParameter",
	}},
	{"fixes the delay of a message when it is sent", map[string]string{
		"fifo/delay-change": "after the delay of the queue was taken away: want a message, got 0",
	}},
	{"deduplicates by queue only, and does not let the scope change", map[string]string{
		"dedup/per-group":    "messages: want 2, got 1",
		"dedup/scope-change": "SetQueueAttributes: want success, got InvalidAttributeName",
	}},
	{"keeps deduplication ids when purged", map[string]string{
		"dedup/purge": "the message after PurgeQueue: want a message, got 0",
	}},
	{"returns one message of a group in a receive", map[string]string{
		"order/many-at-once":   "messages of one receive: want [1 2 3], got [1]",
		"order/groups":         "messages by group: want map[a:a1a2 b:b1b2], got map[a:a1 b:b1]",
		"order/partial-delete": "messages of one receive: want [1 2], got [1]",
		"order/head-back":      "messages of one receive: want [1 2 3], got [1]",
		"order/head-expired":   "messages of one receive: want [1 2 3], got [1]",
		"order/second-back":    "messages of one receive: want [1 2 3], got [1]",
		"order/extend-first":   "messages of one receive: want [1 2 3], got [1]",
		"order/extend-second":  "messages of one receive: want [1 2 3], got [1]",
		"order/extend-third":   "messages of one receive: want [1 2 3], got [1]",
		"order/all-back":       "messages of one receive: want [1 2 3], got [1]",
		"order/all-expired":    "messages of one receive: want [1 2 3], got [1]",
		"fifosettle/attempt":   "messages: want [1 2], got [1]",
	}},
	{"treats handles on FIFO queues as on standard queues", map[string]string{
		"fifosettle/expired":        "DeleteMessage: want InvalidParameterValue, got success",
		"fifosettle/expired-batch":  "its entries: want 0 ReceiptHandleIsInvalid, got 0 ok",
		"fifosettle/expired-change": "ChangeMessageVisibility: want a refusal of the handle, got success",
	}},
	{"keeps the deduplication id in the dead-letter queue", map[string]string{
		"fifosettle/deadletter": "its deduplication id is not its message id",
	}},
	{"does not compare tags, nor attributes that the topic does not have", map[string]string{
		"topic/again-differs": "CreateTopic with a DisplayName it has not: want InvalidParameter, got success",
		"topic/tags-differ":   "CreateTopic: want InvalidParameter, got success",
	}},
	{"compares RawMessageDelivery by case", map[string]string{
		"subscription/again": "Subscribe again with RawMessageDelivery=True: want success, got InvalidParameter",
	}},
	{"does not check endpoints", map[string]string{
		"subscription/url":        "Subscribe: want InvalidParameter, got success",
		"subscription/fifo-queue": "Subscribe: want InvalidParameter, got success",
	}},
	{"does not check attributes of subscriptions", map[string]string{
		"subscription/attributes":   "RawMessageDelivery=maybe: want InvalidParameter, got success",
		"subscription/redrive":      "a RedrivePolicy with no ARN: want InvalidParameter, got success",
		"subscription/redrive-type": "SetSubscriptionAttributes: want InvalidParameter, got success",
	}},
	{"has no TargetArn", map[string]string{
		"publish/target": "Publish: want success, got InvalidParameter",
	}},
	{"does not look at the region", map[string]string{
		"publish/other-region": "Publish: want InvalidParameter, got NotFound",
	}},
	{"does not check this parameter of Publish", map[string]string{
		"publish/subject-empty":  "Publish: want InvalidParameter, got success",
		"publish/dedup-standard": "Publish: want InvalidParameter, got success",
	}},
	{"checks the size of each entry only", map[string]string{
		"publish/size-batch": "PublishBatch: want BatchRequestTooLong, got success",
	}},
	{"does not check message attributes", map[string]string{
		"publish/attribute-values": "Publish with an empty String: want ParameterValueInvalid, got success",
		"publish/attribute-names":  "Publish with an attribute ^a: want ParameterValueInvalid, got success",
	}},
	{"does not refuse the batch for an entry", map[string]string{
		"publish/batch-attribute": "PublishBatch: want ParameterValueInvalid, got success",
		"publish/batch-fifo":      "PublishBatch without group: want InvalidParameter, got success",
		"publish/batch-structure": "PublishBatch: want InvalidParameter, got success",
	}},
	{"does not look into messages in parts", map[string]string{
		"publish/structure": `the message with an entry for sqs: want [s], got [{"default":"d","sqs":"s"}]`,
	}},
	{"delivers what SNS drops", map[string]string{
		"delivery/eleven-attributes": "in the queue with raw delivery: want no message, got [hello]",
		"delivery/policy":            "without a policy: want no message, got [a]",
	}},
	{"has no dead-letter queues of subscriptions", map[string]string{
		"delivery/dead-letter": "in the dead-letter queue: want [a], got []",
	}},
	{"numbers nothing in FIFO topics, and signs envelopes all the same", map[string]string{
		"delivery/fifo":          "Publish returns no SequenceNumber",
		"delivery/fifo-envelope": "members: want [Message MessageId SequenceNumber Timestamp TopicArn Type UnsubscribeURL], got [Message MessageI",
	}},
	{"deduplicates in FIFO queues, not in topics", map[string]string{
		"delivery/fifo-to-standard": "messages: want [a], got [a a]",
	}},
	{"does not look into String.Array", map[string]string{
		"filterpolicy/array": "what passes: want [yes], got []",
	}},
	{"fails on JSON that it cannot parse, with an internal error", map[string]string{
		"filterpolicy/invalid": "Subscribe with invalid: want InvalidParameter, got a status of the 500s",
	}},
}
