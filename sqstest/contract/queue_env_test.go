package contract_test

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// queue is a queue that is deleted with the row.
type queue struct {
	e    *env
	name string
	url  *string
}

// pairs makes a map of names and values that take turns.
func pairs(s []string) map[string]string {
	if len(s) == 0 {
		return nil
	}
	m := make(map[string]string, len(s)/2)
	for i := 0; i < len(s); i += 2 {
		m[s[i]] = s[i+1]
	}
	return m
}

// create tries to create a queue with attributes, given as names and values.
func (e *env) create(name string, attributes ...string) (*queue, error) {
	out, err := e.sqs.CreateQueue(e.ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: pairs(attributes)})
	if err != nil {
		return nil, err
	}
	q := &queue{e: e, name: name, url: out.QueueUrl}
	e.later(func() { e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: q.url}) })
	return q, nil
}

func (e *env) queue(attributes ...string) *queue {
	q, err := e.create(e.name(), attributes...)
	e.ok("CreateQueue", err)
	return q
}

func (e *env) fifo(attributes ...string) *queue {
	q, err := e.create(e.name()+".fifo", append([]string{"FifoQueue", "true"}, attributes...)...)
	e.ok("CreateQueue of a FIFO queue", err)
	return q
}

// pair is a queue with a dead-letter queue.
func (e *env) pair(maxReceives int, attributes ...string) (source, dead *queue) {
	dead = e.queue()
	return e.queue(append([]string{"RedrivePolicy", redrive(dead, strconv.Itoa(maxReceives))}, attributes...)...), dead
}

func redrive(target *queue, count string) string {
	return `{"deadLetterTargetArn":"` + target.arn() + `","maxReceiveCount":` + count + `}`
}

func (q *queue) arn() string {
	return "arn:aws:sqs:" + sqstest.Region + ":" + sqstest.AccountID + ":" + q.name
}

func (q *queue) set(attributes ...string) error {
	_, err := q.e.sqs.SetQueueAttributes(q.e.ctx, &sqs.SetQueueAttributesInput{QueueUrl: q.url, Attributes: pairs(attributes)})
	return err
}

func (q *queue) attributes(names ...types.QueueAttributeName) map[string]string {
	out, err := q.e.sqs.GetQueueAttributes(q.e.ctx, &sqs.GetQueueAttributesInput{QueueUrl: q.url, AttributeNames: names})
	q.e.ok("GetQueueAttributes", err)
	return out.Attributes
}

// counts are the messages visible, in flight and delayed.
func (q *queue) counts() string {
	a := q.attributes("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")
	return a["ApproximateNumberOfMessages"] + "/" + a["ApproximateNumberOfMessagesNotVisible"] + "/" + a["ApproximateNumberOfMessagesDelayed"]
}

type sendOption func(*sqs.SendMessageInput)

func group(id string) sendOption {
	return func(in *sqs.SendMessageInput) { in.MessageGroupId = &id }
}

func dedup(id string) sendOption {
	return func(in *sqs.SendMessageInput) { in.MessageDeduplicationId = &id }
}

func delayed(seconds int32) sendOption {
	return func(in *sqs.SendMessageInput) { in.DelaySeconds = seconds }
}

func text(name, kind, value string) sendOption {
	return attribute(name, types.MessageAttributeValue{DataType: &kind, StringValue: &value})
}

func binary(name, kind string, value []byte) sendOption {
	return attribute(name, types.MessageAttributeValue{DataType: &kind, BinaryValue: value})
}

func attribute(name string, value types.MessageAttributeValue) sendOption {
	return func(in *sqs.SendMessageInput) {
		if in.MessageAttributes == nil {
			in.MessageAttributes = map[string]types.MessageAttributeValue{}
		}
		in.MessageAttributes[name] = value
	}
}

func trace(header string) sendOption {
	return func(in *sqs.SendMessageInput) {
		in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &header},
		}
	}
}

func (q *queue) trySend(body string, options ...sendOption) (*sqs.SendMessageOutput, error) {
	in := &sqs.SendMessageInput{QueueUrl: q.url, MessageBody: &body}
	for _, o := range options {
		o(in)
	}
	return q.e.sqs.SendMessage(q.e.ctx, in)
}

func (q *queue) send(body string, options ...sendOption) *sqs.SendMessageOutput {
	out, err := q.trySend(body, options...)
	q.e.ok("SendMessage", err)
	return out
}

// sendFIFO sends messages of a group, each with its body as the deduplication id.
func (q *queue) sendFIFO(id string, bodies ...string) {
	for _, body := range bodies {
		q.send(body, group(id), dedup(body))
	}
}

type sendEntry = types.SendMessageBatchRequestEntry

func (q *queue) sendBatch(entries ...sendEntry) (*sqs.SendMessageBatchOutput, error) {
	if entries == nil {
		entries = []sendEntry{} // the SDK itself refuses nil
	}
	return q.e.sqs.SendMessageBatch(q.e.ctx, &sqs.SendMessageBatchInput{QueueUrl: q.url, Entries: entries})
}

func entry(id, body string) sendEntry {
	return sendEntry{Id: &id, MessageBody: &body}
}

func fifoEntry(id, body, group string) sendEntry {
	return sendEntry{Id: &id, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &body}
}

// results shows the entries of a batch: "a ok, b InvalidParameterValue", sorted by id.
func results(ok []string, failed []types.BatchResultErrorEntry) string {
	var all []string
	for _, id := range ok {
		all = append(all, id+" ok")
	}
	for _, f := range failed {
		fault := ""
		if !f.SenderFault {
			fault = " (not the sender's fault)"
		}
		all = append(all, aws.ToString(f.Id)+" "+aws.ToString(f.Code)+fault)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func sendResults(out *sqs.SendMessageBatchOutput) string {
	var ok []string
	for _, s := range out.Successful {
		ok = append(ok, aws.ToString(s.Id))
	}
	return results(ok, out.Failed)
}

func (q *queue) tryReceive(in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) ([]types.Message, error) {
	in.QueueUrl = q.url
	out, err := q.e.sqs.ReceiveMessage(q.e.ctx, in, options...)
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

// everything asks for all attributes, of the system's also by the older name, so that a
// server that knows one of them only can show the rest of what it does.
func everything(most, wait int32) *sqs.ReceiveMessageInput {
	return &sqs.ReceiveMessageInput{
		MaxNumberOfMessages: most, WaitTimeSeconds: wait,
		AttributeNames:              []types.QueueAttributeName{"All"}, //nolint:staticcheck // as said above
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		MessageAttributeNames:       []string{"All"},
	}
}

func (q *queue) receive(most, wait int32) []types.Message {
	messages, err := q.tryReceive(everything(most, wait))
	q.e.ok("ReceiveMessage", err)
	return messages
}

// one receives a message that has to be there, or soon.
func (q *queue) one(what string) types.Message {
	messages := q.receive(1, 3)
	if len(messages) != 1 {
		q.e.failf("%s: want a message, got %d", what, len(messages))
	}
	return messages[0]
}

// none polls once, shortly, for nothing.
func (q *queue) none(what string) {
	if got := q.receive(10, 0); len(got) > 0 {
		q.e.failf("%s: want no message, got %s", what, bodies(got))
	}
}

// all receives up to n messages, in as many polls as it takes.
func (q *queue) all(n int) []types.Message {
	var got []types.Message
	for len(got) < n {
		more := q.receive(int32(min(10, n-len(got))), 1)
		if len(more) == 0 {
			break
		}
		got = append(got, more...)
	}
	return got
}

func bodies(messages []types.Message) string {
	var all []string
	for _, m := range messages {
		body := aws.ToString(m.Body)
		if len(body) > 40 {
			body = body[:40] + "…"
		}
		all = append(all, body)
	}
	return "[" + strings.Join(all, " ") + "]"
}

func sortedBodies(messages []types.Message) string {
	messages = slices.Clone(messages)
	slices.SortFunc(messages, func(a, b types.Message) int {
		return strings.Compare(aws.ToString(a.Body), aws.ToString(b.Body))
	})
	return bodies(messages)
}

func (q *queue) delete(handle *string) error {
	_, err := q.e.sqs.DeleteMessage(q.e.ctx, &sqs.DeleteMessageInput{QueueUrl: q.url, ReceiptHandle: handle})
	return err
}

func (q *queue) change(handle *string, seconds int32) error {
	_, err := q.e.sqs.ChangeMessageVisibility(q.e.ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: q.url, ReceiptHandle: handle, VisibilityTimeout: seconds,
	})
	return err
}

// deleteBatch deletes messages, with the entry ids 0, 1 and so on.
func (q *queue) deleteBatch(handles ...*string) (string, error) {
	entries := make([]types.DeleteMessageBatchRequestEntry, len(handles))
	for i, h := range handles {
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: h}
	}
	return q.deleteEntries(entries)
}

// deleteNamed tries to delete nothing, with these entry ids.
func (q *queue) deleteNamed(ids ...string) (string, error) {
	entries := make([]types.DeleteMessageBatchRequestEntry, len(ids))
	for i, id := range ids {
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(id), ReceiptHandle: aws.String("garbage")}
	}
	return q.deleteEntries(entries)
}

func (q *queue) deleteEntries(entries []types.DeleteMessageBatchRequestEntry) (string, error) {
	out, err := q.e.sqs.DeleteMessageBatch(q.e.ctx, &sqs.DeleteMessageBatchInput{QueueUrl: q.url, Entries: entries})
	if err != nil {
		return "", err
	}
	var ok []string
	for _, s := range out.Successful {
		ok = append(ok, aws.ToString(s.Id))
	}
	return results(ok, out.Failed), nil
}

type changeEntry = types.ChangeMessageVisibilityBatchRequestEntry

func (q *queue) changeBatch(entries ...changeEntry) (string, error) {
	for i := range entries {
		if entries[i].Id == nil {
			entries[i].Id = aws.String(strconv.Itoa(i))
		}
	}
	if entries == nil {
		entries = []changeEntry{}
	}
	out, err := q.e.sqs.ChangeMessageVisibilityBatch(q.e.ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: q.url, Entries: entries})
	if err != nil {
		return "", err
	}
	var ok []string
	for _, s := range out.Successful {
		ok = append(ok, aws.ToString(s.Id))
	}
	return results(ok, out.Failed), nil
}

// polled is the outcome of a long poll.
type polled struct {
	messages []types.Message
	err      error
	took     time.Duration
}

// poll begins a long poll and gives the server time to see it.
func (q *queue) poll(most, wait int32) <-chan polled {
	done := make(chan polled, 1)
	go func() {
		start := time.Now()
		messages, err := q.tryReceive(everything(most, wait))
		done <- polled{messages, err, time.Since(start)}
	}()
	q.e.sleep(500 * time.Millisecond)
	return done
}
