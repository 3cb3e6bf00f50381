package watermillsqs

import (
	"context"
	"maps"
	"path"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"
)

// Call is one finished call of the SQS API. SQS bills per call, so these are what a
// connection costs; see [CallCounter].
type Call struct {
	// Action is the name of the action, such as "DeleteMessageBatch".
	Action string
	// Queue is the name of the queue that the call is about, "" if there is none.
	Queue string
	// Messages is how many messages the call sent, received, deleted or changed, 1 to
	// 10; 0 for an empty receive, a failed call, and an action that is about none.
	Messages int
	// Failed is how many messages of the call SQS refused, all of them if the call
	// failed as a whole.
	Failed int
	// Attempts is how often the call was sent, 1 unless the SDK tried it again. Each
	// may be billed.
	Attempts int
	// Duration is the time from the call to its answer, pauses between attempts
	// included.
	Duration time.Duration
	// Err is nil if the call succeeded, even if SQS refused some of its entries.
	Err error
}

// observe makes an SDK client report its calls.
func observe(called func(Call)) func(*sqs.Options) {
	watch := middleware.InitializeMiddlewareFunc("watermillsqs.Called",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			started := time.Now()
			out, metadata, err := next.HandleInitialize(ctx, in)
			call := Call{Action: middleware.GetOperationName(ctx), Attempts: 1, Duration: time.Since(started), Err: err}
			if attempts, ok := retry.GetAttemptResults(metadata); ok {
				call.Attempts = len(attempts.Results)
			}
			call.describe(in.Parameters, out.Result)
			called(call)
			return out, metadata, err
		})
	return func(o *sqs.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(watch, middleware.After)
		})
	}
}

// describe says what a call was about.
func (c *Call) describe(in, out any) {
	var queueURL *string
	entries, failed := 0, 0
	switch in := in.(type) {
	case *sqs.SendMessageInput:
		queueURL, entries = in.QueueUrl, 1
	case *sqs.SendMessageBatchInput:
		queueURL, entries = in.QueueUrl, len(in.Entries)
	case *sqs.ReceiveMessageInput:
		queueURL = in.QueueUrl
	case *sqs.DeleteMessageInput:
		queueURL, entries = in.QueueUrl, 1
	case *sqs.DeleteMessageBatchInput:
		queueURL, entries = in.QueueUrl, len(in.Entries)
	case *sqs.ChangeMessageVisibilityInput:
		queueURL, entries = in.QueueUrl, 1
	case *sqs.ChangeMessageVisibilityBatchInput:
		queueURL, entries = in.QueueUrl, len(in.Entries)
	case *sqs.GetQueueAttributesInput:
		queueURL = in.QueueUrl
	case *sqs.SetQueueAttributesInput:
		queueURL = in.QueueUrl
	case *sqs.GetQueueUrlInput:
		c.Queue = aws.ToString(in.QueueName)
	case *sqs.CreateQueueInput:
		c.Queue = aws.ToString(in.QueueName)
	}
	if queueURL != nil {
		c.Queue = path.Base(*queueURL)
	}
	switch out := out.(type) {
	case *sqs.ReceiveMessageOutput:
		if out != nil {
			entries = len(out.Messages)
		}
	case *sqs.SendMessageBatchOutput:
		if out != nil {
			failed = len(out.Failed)
		}
	case *sqs.DeleteMessageBatchOutput:
		if out != nil {
			failed = len(out.Failed)
		}
	case *sqs.ChangeMessageVisibilityBatchOutput:
		if out != nil {
			failed = len(out.Failed)
		}
	}
	if c.Err != nil {
		failed = entries
	}
	c.Messages, c.Failed = entries-failed, failed
}

// CallCounter adds calls up: how many calls a message costs, and how full batches are.
// Its method Count goes into [Config].Called. The zero value is ready, and it is safe for
// concurrent use.
type CallCounter struct {
	mu       sync.Mutex // guards byAction
	byAction map[string]CallCount
}

// CallCount is what the calls of one action add up to.
type CallCount struct {
	// Calls, Attempts, Messages and Failed are sums over [Call]; Calls counts the calls
	// themselves.
	Calls, Attempts, Messages, Failed int
}

// Fill is how many messages a call carried on average, 0 if there was no call. The most
// that SQS allows is 10.
func (c CallCount) Fill() float64 {
	if c.Calls == 0 {
		return 0
	}
	return float64(c.Messages) / float64(c.Calls)
}

// Count adds a call.
func (c *CallCounter) Count(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byAction == nil {
		c.byAction = make(map[string]CallCount)
	}
	sum := c.byAction[call.Action]
	sum.Calls++
	sum.Attempts += call.Attempts
	sum.Messages += call.Messages
	sum.Failed += call.Failed
	c.byAction[call.Action] = sum
}

// Counts are the sums so far, by action.
func (c *CallCounter) Counts() map[string]CallCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byAction)
}

// PerMessage is how many attempts of all actions there were for one message: for one
// that was sent, or deleted, whichever were more. It is 0 before the first of them.
func (c *CallCounter) PerMessage() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var attempts, sent, deleted int
	for action, sum := range c.byAction {
		attempts += sum.Attempts
		switch action {
		case "SendMessage", "SendMessageBatch":
			sent += sum.Messages
		case "DeleteMessage", "DeleteMessageBatch":
			deleted += sum.Messages
		}
	}
	if most := max(sent, deleted); most > 0 {
		return float64(attempts) / float64(most)
	}
	return 0
}
