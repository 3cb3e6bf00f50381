// Package sqstest is an Amazon SQS and SNS service in memory for tests.
//
// The real AWS SDK clients talk to it over the real protocols (AWS JSON 1.0 for SQS, the
// query protocol for SNS), so what is tested is the code that runs in production, down to
// its requests:
//
//	svc := sqstest.New(t)
//	queue, err := svc.CreateQueue("orders", map[string]string{"VisibilityTimeout": "5"})
//	client := svc.Client() // or sqs.NewFromConfig(svc.AWSConfig()), and SNSClient
//
// Requests are served in process on the goroutine of the caller: there are no
// sockets and no goroutines in the background, and time is read through package
// time only. A test inside a [testing/synctest] bubble therefore runs a 12-hour
// lease in microseconds. The service has to be made inside the bubble, since a
// channel made outside one does not let the bubble's clock advance.
//
// [Service.Listen] serves the same state on a loopback port for what cannot use an
// in-process client. A Go client of it should hide the request body's WriteTo
// method from net/http as the client of [Service.AWSConfig] does: without that
// smithy-go closes the request body under net/http while the answer of a fast
// server is already being read, the connection is torn down, the SDK retries in
// silence and the messages of the first answer stay in flight.
//
// # Breaking things
//
// [Service.Inject] puts a [Fault] in place: for an action, a queue, a topic, single
// messages, a number of times, a share of the calls. It can make calls fail ([Error],
// [Throttle], [Raw], [FailEntry]), hang or take time ([Hang], [Latency]), break their
// connection ([Reset], [LoseAnswer]), each of them also when the call has been carried out
// ([After]); deliver messages twice ([Redeliver], [RedeliverAtOnce]), let abandoned long
// polls take messages ([TakeWhenGone]), hide a new queue for a while ([Lag]) and make
// receipts unusable ([InvalidateReceipt]). What is left to chance is the same for the same
// [Service.Seed].
//
// # Looking in
//
// [Queue] shows exact counts and messages without an API call, [Service.Calls] every
// call that was made, [Service.History] all that has happened to a message, and
// [Topic.Discards] what SNS could not deliver. A few assertions say it with the history of
// the messages in their failure: [Queue.AssertEmpty], [Queue.AssertSettled],
// [Queue.AssertBodies], [Service.AssertReceived] and [Service.AssertPauses].
// [Service.CheckManners] fails a test whose code did to SQS what a well-behaved client
// never does.
//
// # What is modelled
//
// Of SQS, standard and FIFO queues with the actions CreateQueue, GetQueueUrl,
// GetQueueAttributes, SetQueueAttributes, DeleteQueue, ListQueues,
// ListDeadLetterSourceQueues, PurgeQueue, TagQueue, UntagQueue, ListQueueTags,
// SendMessage, SendMessageBatch, ReceiveMessage, DeleteMessage, DeleteMessageBatch,
// ChangeMessageVisibility, ChangeMessageVisibilityBatch, StartMessageMoveTask,
// ListMessageMoveTasks and CancelMessageMoveTask.
//
// Of SNS, standard and FIFO topics with subscriptions of the protocol sqs, and the actions
// CreateTopic, DeleteTopic, ListTopics, GetTopicAttributes, SetTopicAttributes, Subscribe,
// Unsubscribe, ListSubscriptions, ListSubscriptionsByTopic, GetSubscriptionAttributes,
// SetSubscriptionAttributes, Publish, PublishBatch, TagResource, UntagResource and
// ListTagsForResource.
//
// The double is strict: what the services refuse it refuses, with the error code, HTTP
// status and (where known) the text of theirs. That covers names and ranges, batch rules
// and partial failures, body and attribute contents and their size, receipt handles
// (malformed, of another queue, stale, expired, of a deleted message, older than 12
// hours), the 12-hour limit on visibility, checksums, redrive to a dead-letter queue,
// retention, delays, long polls and the limit of 120,000 messages in flight; of FIFO
// queues the order and lock of message groups, deduplication, sequence numbers and
// ReceiveRequestAttemptId; of SNS raw and enveloped delivery, filter policies on attributes
// and bodies, dead-letter queues of subscriptions, the policy that a queue needs for a
// topic to send, and the silent loss of raw messages with more than 10 attributes.
//
// # What is open, and chosen
//
// Where it is not known what AWS does, or AWS does one of several things:
//
//   - A duplicate on a FIFO queue or topic is answered with the MessageId and the
//     SequenceNumber of its original.
//   - A change of DeduplicationScope takes effect after 60 seconds, all other attributes,
//     subscriptions, filter policies and deletions at once.
//   - An illegal MessageGroupId, MessageDeduplicationId, delay or message attribute in a
//     SendMessageBatch fails its entry; a missing one of the two ids the whole request.
//   - A change of visibility with an expired receipt of a FIFO queue is refused as its
//     deletion is. A receipt has expired there as soon as its message is visible.
//   - A receive with the ReceiveRequestAttemptId of an earlier one is an ordinary receive
//     when a message of that one was deleted, changed, or is visible again. A repetition
//     does not count as a receive.
//   - A message in a FIFO dead-letter queue has a SequenceNumber of that queue, and the move
//     is no send that later ones could be duplicates of.
//   - Where the dead-letter queue is gone or does not allow the source, messages stay and
//     are received on.
//   - A move task without a rate moves 500 messages a second. It takes what a receive would
//     take, ends as COMPLETED when nothing is visible, as CANCELLED at once, and as FAILED
//     with CouldNotDetermineMessageSource at a message that came from no queue.
//   - FifoThroughputLimit perMessageGroupId without DeduplicationScope messageGroup is
//     refused with InvalidAttributeValue.
//   - To the dead-letter queue of a subscription goes what would have gone to the queue,
//     and is lost where that has too many attributes for a raw delivery.
//   - Filter policies are refused with the texts of SNS, without the place in the JSON.
//     "exists": false holds for a path that is nowhere in the body.
//
// # What is not modelled
//
//   - AddPermission, RemovePermission and ConfirmSubscription, other protocols than sqs,
//     platform endpoints, SMS, archives and replay.
//   - Access: every request is allowed, whoever signs it. Only the policy of a queue is
//     evaluated, and only for messages that SNS sends; what it says about KMS keys, of
//     conditions other than on the topic and its account, and NotPrincipal of accounts
//     counts as not fulfilled. There is one account, [AccountID], and one region,
//     [Region]; a queue of another account stays pending.
//   - Encryption: its attributes are stored, nothing is encrypted, no key is looked up.
//     Notifications are not signed.
//   - The looseness of a distributed service, unless a fault asks for it: no duplicate
//     deliveries, no reappearing deleted messages, no empty short polls on a queue with
//     messages, no lag of counts or attributes, and messages come in the order in which
//     they became visible. SNS delivers before Publish returns, once, and does not retry.
//     Code that relies on any of that is wrong although its test passes.
//   - Throttling, unless a fault asks for it, the throughput limits of FIFO queues, and the
//     fairness of fair queues (the MessageGroupId is stored and returned).
//   - The trimming of zeros of Number attributes: they come back as they were sent.
//   - The form of an AWSTraceHeader: any text will do.
//   - The 36 hours that a move task lasts at most, and the 100 tasks of an account.
//   - The query protocol for SQS, and AWS JSON for SNS.
package sqstest
