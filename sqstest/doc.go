// Package sqstest is an Amazon SQS service in memory for tests.
//
// The real AWS SDK client talks to it over the real protocol (AWS JSON 1.0), so
// what is tested is the code that runs in production, down to its requests:
//
//	svc := sqstest.New(t)
//	queue, err := svc.CreateQueue("orders", map[string]string{"VisibilityTimeout": "5"})
//	client := svc.Client() // or sqs.NewFromConfig(svc.AWSConfig())
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
// # Looking in and breaking things
//
// [Queue] shows exact counts and messages without an API call, [Service.Calls] every
// call that was made, and [Service.Inject] makes calls fail, hang, lose their answer
// or fail partly.
//
// # What is modelled
//
// Standard queues, with these actions: CreateQueue, GetQueueUrl, GetQueueAttributes,
// SetQueueAttributes, DeleteQueue, ListQueues, ListDeadLetterSourceQueues, PurgeQueue,
// TagQueue, UntagQueue, ListQueueTags, SendMessage, SendMessageBatch, ReceiveMessage,
// DeleteMessage, DeleteMessageBatch, ChangeMessageVisibility and
// ChangeMessageVisibilityBatch.
//
// The double is strict: what SQS refuses it refuses, with the error code, HTTP status
// and (where known) the text of SQS. That covers names and ranges, batch rules and
// partial failures, body and attribute contents and their size, receipt handles
// (malformed, of another queue, stale, of a deleted message, older than 12 hours), the
// 12-hour limit on visibility, checksums, redrive to a dead-letter queue, retention,
// delays, long polls and the limit of 120,000 messages in flight.
//
// # What is not modelled
//
//   - FIFO queues: creating one is refused with InvalidParameterValue.
//   - AddPermission, RemovePermission and the message move tasks: UnsupportedOperation.
//   - Access: every request is allowed, whoever signs it; Policy is stored but not
//     evaluated. There is one account, [AccountID], and one region, [Region].
//   - Encryption: its attributes are stored, nothing is encrypted, no key is looked up.
//   - The looseness of a distributed service: no duplicate deliveries, no reappearing
//     deleted messages, no empty short polls on a queue with messages, no lag of counts,
//     attributes or deletions, and messages come in the order in which they became
//     visible. Code that relies on any of that is wrong although its test passes.
//   - Throttling, unless a fault asks for it, and the fairness of fair queues (the
//     MessageGroupId is stored and returned).
//   - The trimming of zeros of Number attributes: they come back as they were sent.
//   - The form of an AWSTraceHeader: any text will do.
//   - The AWS query protocol (form-encoded requests).
package sqstest
