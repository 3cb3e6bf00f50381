package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	region = "us-east-1"

	// linger is how long an entry waits for nine others.
	linger = 5 * time.Millisecond
	// sendLinger is the same for a message to be published, where somebody waits.
	sendLinger = time.Millisecond
	attempts   = 3 // of an entry that fails alone
)

// bare is what one would write by hand on the SDK for this very work, and tune: tens in
// every call, receives only for ten at a time, settlements and lone messages gathered
// into tens, as many calls in parallel as the messages in flight can fill, connections
// kept. It handles failures of single entries and what the SDK does not retry. It
// extends no lease, since none is held for long.
type bare struct {
	polls, calls *sqs.Client
	endpoint     string
	coalesce     bool // lone messages travel together
}

func newBare(endpoint string, coalesce bool) transport {
	client := func(idle int) *sqs.Client {
		return sqs.New(sqs.Options{
			Region:       region,
			BaseEndpoint: aws.String(endpoint),
			Credentials:  aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("test", "test", "")),
			HTTPClient: untorn{awshttp.NewBuildableClient().WithTimeout(25 * time.Second).WithTransportOptions(func(t *http.Transport) {
				t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, idle
			})},
		})
	}
	return &bare{polls: client(idlePolls), calls: client(idleCalls), endpoint: endpoint, coalesce: coalesce}
}

func (b *bare) close() {}

func (b *bare) url(queue string) *string {
	return aws.String(b.endpoint + "/000000000000/" + queue)
}

// untorn hides the WriteTo of request bodies. Without that net/http tears some answers,
// and what a torn receive brought stays invisible: nobody could measure a drain.
type untorn struct{ aws.HTTPClient }

func (c untorn) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}

// Publishing.

type barePublication struct {
	*bare
	queueURL *string
	messages []payload
	lone     chan sending // to the gatherer, nil where lone messages travel alone
}

// sending is a lone message and who waits for it.
type sending struct {
	message *payload
	sent    chan error
}

var waiters = sync.Pool{New: func() any { return make(chan error, 1) }}

func (b *bare) prepare(queue string, messages []payload) publication {
	p := &barePublication{bare: b, queueURL: b.url(queue), messages: messages}
	if b.coalesce {
		p.lone = make(chan sending, 1024)
		go gather(p.lone, sendLinger, maxCalls, func(batch []sending) {
			entries := make([]*payload, len(batch))
			for i := range batch {
				entries[i] = batch[i].message
			}
			for i, err := range p.send(entries) {
				batch[i].sent <- err
			}
		})
	}
	return p
}

func (p *barePublication) publish(i, j int) error {
	switch {
	case j-i > 1:
		return p.publishMany(p.messages[i:j])
	case p.coalesce:
		sent := waiters.Get().(chan error)
		p.lone <- sending{message: &p.messages[i], sent: sent}
		err := <-sent
		waiters.Put(sent)
		return err
	}
	m := &p.messages[i]
	_, err := p.calls.SendMessage(context.Background(), &sqs.SendMessageInput{
		QueueUrl: p.queueURL, MessageBody: &m.body, MessageAttributes: m.attributes(),
	})
	return err
}

// publishMany sends tens, several at a time.
func (p *barePublication) publishMany(messages []payload) error {
	tens := make(chan []*payload)
	failed := make(chan error, 1)
	var workers sync.WaitGroup
	for range callsFor(len(messages)) {
		workers.Go(func() {
			for ten := range tens {
				if err := errors.Join(p.send(ten)...); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for len(messages) > 0 {
		ten := make([]*payload, min(batchSize, len(messages)))
		for i := range ten {
			ten[i] = &messages[i]
		}
		messages = messages[len(ten):]
		tens <- ten
	}
	close(tens)
	workers.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// send makes one call, and others for what failed alone and not by its own fault.
func (p *barePublication) send(batch []*payload) []error {
	errs := make([]error, len(batch))
	entries := make([]types.SendMessageBatchRequestEntry, len(batch))
	for i, m := range batch {
		entries[i] = types.SendMessageBatchRequestEntry{Id: &digits[i], MessageBody: &m.body, MessageAttributes: m.attributes()}
	}
	for range attempts {
		out, err := p.calls.SendMessageBatch(context.Background(), &sqs.SendMessageBatchInput{QueueUrl: p.queueURL, Entries: entries})
		if err != nil {
			for i := range entries {
				errs[digit(entries[i].Id)] = err
			}
			return errs
		}
		for _, entry := range out.Successful {
			errs[digit(entry.Id)] = nil
		}
		again := entries[:0:0]
		for _, entry := range out.Failed {
			errs[digit(entry.Id)] = failure(entry)
			if !entry.SenderFault {
				for _, e := range entries {
					if *e.Id == *entry.Id {
						again = append(again, e)
					}
				}
			}
		}
		if entries = again; len(entries) == 0 {
			return errs
		}
	}
	return errs
}

func (m *payload) attributes() map[string]types.MessageAttributeValue {
	attributes := make(map[string]types.MessageAttributeValue, 1+len(m.metadata))
	attributes["_watermill_message_uuid"] = types.MessageAttributeValue{DataType: &stringType, StringValue: &m.uuid}
	values := make([]string, 0, len(m.metadata)) // one allocation for all of them
	for key, value := range m.metadata {
		values = append(values, value)
		attributes[key] = types.MessageAttributeValue{DataType: &stringType, StringValue: &values[len(values)-1]}
	}
	return attributes
}

// Consuming.

type bareConsumer struct {
	*bare
	queueURL *string
	handle   func(received) verdict
	settled  func(removed bool)

	tens     chan struct{} // permits for ten messages each
	loose    atomic.Int64  // permits that do not make ten yet
	deletes  chan deletion
	changes  chan change
	handlers sync.WaitGroup
}

type deletion = types.DeleteMessageBatchRequestEntry

type change = types.ChangeMessageVisibilityBatchRequestEntry

func (b *bare) consume(queue string, inFlight int, handle func(received) verdict, settled func(bool)) (func() error, error) {
	c := &bareConsumer{
		bare: b, queueURL: b.url(queue), handle: handle, settled: settled,
		tens:    make(chan struct{}, inFlight),
		deletes: make(chan deletion, 1024),
		changes: make(chan change, 1024),
	}
	c.release(inFlight)
	calls := callsFor(inFlight)
	ctx, cancel := context.WithCancel(context.Background())
	var receivers, settlers sync.WaitGroup
	for range calls {
		receivers.Go(func() { c.receive(ctx) })
	}
	settlers.Go(func() { gather(c.deletes, linger, calls, c.delete) })
	settlers.Go(func() { gather(c.changes, linger, calls, c.change) })
	return func() error {
		cancel()
		receivers.Wait()
		c.handlers.Wait()
		close(c.deletes)
		close(c.changes)
		settlers.Wait()
		return nil
	}, nil
}

// release gives permits back, for receives of ten.
func (c *bareConsumer) release(n int) {
	for loose := c.loose.Add(int64(n)); loose >= batchSize; loose = c.loose.Load() {
		if c.loose.CompareAndSwap(loose, loose-batchSize) {
			c.tens <- struct{}{}
		}
	}
}

func (c *bareConsumer) receive(ctx context.Context) {
	for {
		select {
		case <-c.tens:
		case <-ctx.Done():
			return
		}
		out, err := c.polls.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: c.queueURL, MaxNumberOfMessages: batchSize, WaitTimeSeconds: 20,
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		if err != nil {
			c.release(batchSize)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		c.release(batchSize - len(out.Messages))
		c.dispatch(out.Messages)
	}
}

// dispatch starts a goroutine for each message, on a FIFO queue for each group.
func (c *bareConsumer) dispatch(messages []types.Message) {
	var groups map[string][]*types.Message
	for i := range messages {
		m := &messages[i]
		group, ok := m.Attributes["MessageGroupId"]
		if !ok {
			c.handlers.Go(func() { c.serve(m) })
			continue
		}
		if groups == nil {
			groups = make(map[string][]*types.Message)
		}
		groups[group] = append(groups[group], m)
	}
	for _, group := range groups {
		c.handlers.Go(func() {
			for _, m := range group {
				c.serve(m)
			}
		})
	}
}

func (c *bareConsumer) serve(m *types.Message) {
	r := received{body: []byte(*m.Body), metadata: make(map[string]string, len(m.MessageAttributes))}
	for name, attribute := range m.MessageAttributes {
		r.metadata[name] = aws.ToString(attribute.StringValue)
	}
	r.attempt, _ = strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	switch c.handle(r) {
	case ack, drop:
		c.deletes <- deletion{ReceiptHandle: m.ReceiptHandle}
	case retry:
		c.changes <- change{ReceiptHandle: m.ReceiptHandle}
	case retryAfter:
		c.changes <- change{ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: int32(retryDelay / time.Second)}
	}
}

// delete settles up to ten. What fails comes back when its visibility timeout ends.
func (c *bareConsumer) delete(batch []deletion) {
	defer c.release(len(batch))
	for i := range batch {
		batch[i].Id = &digits[i]
	}
	for range attempts {
		out, err := c.calls.DeleteMessageBatch(context.Background(), &sqs.DeleteMessageBatchInput{QueueUrl: c.queueURL, Entries: batch})
		if err != nil {
			return
		}
		for range out.Successful {
			c.settled(true)
		}
		if batch = failed(batch, out.Failed, func(d deletion) string { return *d.Id }); len(batch) == 0 {
			return
		}
	}
}

func (c *bareConsumer) change(batch []change) {
	defer c.release(len(batch))
	for i := range batch {
		batch[i].Id = &digits[i]
	}
	for range attempts {
		out, err := c.calls.ChangeMessageVisibilityBatch(context.Background(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: c.queueURL, Entries: batch})
		if err != nil {
			return
		}
		for range out.Successful {
			c.settled(false)
		}
		if batch = failed(batch, out.Failed, func(d change) string { return *d.Id }); len(batch) == 0 {
			return
		}
	}
}

// failed are the entries that failed.
func failed[T any](batch []T, failures []types.BatchResultErrorEntry, id func(T) string) []T {
	var again []T
	for _, f := range failures {
		for _, entry := range batch {
			if id(entry) == *f.Id {
				again = append(again, entry)
			}
		}
	}
	return again
}

// gather hands entries on in tens, or fewer when the first has waited for pause, to so
// many workers, which live on: a new goroutine would grow its stack through the depths
// of the SDK each time. It returns when in is closed and everything is sent.
func gather[T any](in <-chan T, pause time.Duration, workers int, send func([]T)) {
	batches := make(chan []T)
	var sending sync.WaitGroup
	for range workers {
		sending.Go(func() {
			for batch := range batches {
				send(batch)
			}
		})
	}
	defer sending.Wait()
	defer close(batches)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	var batch []T
	flush := func() {
		timer.Stop()
		if len(batch) > 0 {
			batches <- batch
			batch = nil
		}
	}
	for {
		select {
		case entry, ok := <-in:
			if !ok {
				flush()
				return
			}
			if batch == nil {
				batch = make([]T, 0, batchSize)
				timer.Reset(pause)
			}
			if batch = append(batch, entry); len(batch) == batchSize {
				flush()
			}
		case <-timer.C:
			flush()
		}
	}
}

var (
	digits     = [batchSize]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	stringType = "String"
)

func digit(id *string) int { return int((*id)[0] - '0') }

func failure(entry types.BatchResultErrorEntry) error {
	return fmt.Errorf("%s: %s", aws.ToString(entry.Code), aws.ToString(entry.Message))
}
