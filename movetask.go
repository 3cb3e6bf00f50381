package watermillsqs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// RedriveConfig says how [Connection.StartRedrive] moves messages. The zero value moves
// each back to the queue that it came from, as fast as SQS likes.
type RedriveConfig struct {
	// Destination is the queue, by name, URL or ARN, that all messages go to. Default:
	// each goes back to the queue that it came from.
	Destination string

	// MaxPerSecond bounds the messages moved a second, 1 to 500. Default: 0, SQS's own
	// rate.
	MaxPerSecond int

	// QueueName maps names onto queue names, as in [SubscriberConfig]. Default:
	// [DefaultQueueName].
	QueueName func(topic string) string
}

const maxRedriveRate = 500

// RedriveStatus is where a redrive stands.
type RedriveStatus string

// The statuses of a redrive, as SQS names them.
const (
	RedriveRunning    RedriveStatus = "RUNNING"
	RedriveCompleted  RedriveStatus = "COMPLETED"
	RedriveCancelling RedriveStatus = "CANCELLING"
	RedriveCancelled  RedriveStatus = "CANCELLED"
	RedriveFailed     RedriveStatus = "FAILED"
)

// Ended reports whether nothing is moved any more.
func (s RedriveStatus) Ended() bool {
	return s == RedriveCompleted || s == RedriveCancelled || s == RedriveFailed
}

// RedriveProgress is what SQS says of a redrive. Its numbers are approximate.
type RedriveProgress struct {
	Status RedriveStatus
	// Moved is the number of messages moved so far, Total the number to move; Total is 0
	// until SQS has counted them.
	Moved, Total int64
	// Failure is why the redrive failed, "" if it did not.
	Failure string
}

// A Redrive is a message move task of SQS: it moves the messages of a dead-letter queue,
// as new messages with new ids, within SQS. It runs there whether or not anybody looks.
type Redrive struct {
	clients *clients
	source  string // ARN
	handle  string
	started int64 // StartedTimestamp, by which the task is known when it has ended
}

// StartRedrive starts moving the messages of a dead-letter queue, which is named by name,
// URL or ARN (StartMessageMoveTask). SQS runs one such task per queue at a time.
//
// Errors: ErrNotConnected, ErrInvalidQueue and ErrInvalidConfig (wrapped), or what SQS
// answered, for example that the queue is no dead-letter queue.
func (c *Connection) StartRedrive(ctx context.Context, deadLetter string, config RedriveConfig) (*Redrive, error) {
	if config.MaxPerSecond < 0 || config.MaxPerSecond > maxRedriveRate {
		return nil, fmt.Errorf("%w: RedriveConfig.MaxPerSecond is %d, must be 1 to %d (0 is SQS's own rate)", ErrInvalidConfig, config.MaxPerSecond, maxRedriveRate)
	}
	clients, err := c.forPublish()
	if err != nil {
		return nil, err
	}
	source, err := c.arnOf(ctx, clients, deadLetter, config.QueueName)
	if err != nil {
		return nil, err
	}
	in := &sqs.StartMessageMoveTaskInput{SourceArn: aws.String(source)}
	if config.Destination != "" {
		destination, err := c.arnOf(ctx, clients, config.Destination, config.QueueName)
		if err != nil {
			return nil, err
		}
		in.DestinationArn = aws.String(destination)
	}
	if config.MaxPerSecond > 0 {
		in.MaxNumberOfMessagesPerSecond = aws.Int32(int32(config.MaxPerSecond))
	}
	out, err := clients.calls.StartMessageMoveTask(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("watermillsqs: start the redrive of %q: %w", deadLetter, err)
	}
	return &Redrive{clients: clients, source: source, handle: aws.ToString(out.TaskHandle)}, nil
}

// arnOf finds the ARN of a queue.
func (c *Connection) arnOf(ctx context.Context, clients *clients, topic string, queueName func(string) string) (string, error) {
	id, err := parseTopic(topic, clients.region, queueName)
	if err != nil {
		return "", err
	}
	if arn.IsARN(topic) {
		return topic, nil
	}
	queueURL, _, err := c.queues.resolve(ctx, clients, id, nil)
	if err != nil {
		return "", err
	}
	found, err := queueARN(ctx, clients, queueURL)
	if err != nil {
		return "", fmt.Errorf("watermillsqs: read the ARN of queue %q: %w", topic, err)
	}
	return found, nil
}

// Progress asks how far the redrive is (ListMessageMoveTasks).
func (r *Redrive) Progress(ctx context.Context) (RedriveProgress, error) {
	const mostListed = 10
	out, err := r.clients.calls.ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{
		SourceArn: aws.String(r.source), MaxResults: aws.Int32(mostListed),
	})
	if err != nil {
		return RedriveProgress{}, fmt.Errorf("watermillsqs: list the redrives of %s: %w", r.source, err)
	}
	task := r.find(out.Results)
	if task == nil {
		return RedriveProgress{}, fmt.Errorf("watermillsqs: SQS does not list the redrive of %s any more", r.source)
	}
	return RedriveProgress{
		Status:  RedriveStatus(aws.ToString(task.Status)),
		Moved:   task.ApproximateNumberOfMessagesMoved,
		Total:   aws.ToInt64(task.ApproximateNumberOfMessagesToMove),
		Failure: aws.ToString(task.FailureReason),
	}, nil
}

// find picks our task. SQS gives its handle only while it runs, so it is known by the
// time at which it was started, and before that was seen it is the newest.
func (r *Redrive) find(tasks []types.ListMessageMoveTasksResultEntry) *types.ListMessageMoveTasksResultEntry {
	var newest *types.ListMessageMoveTasksResultEntry
	for i := range tasks {
		task := &tasks[i]
		switch {
		case aws.ToString(task.TaskHandle) == r.handle, r.started != 0 && task.StartedTimestamp == r.started:
			r.started = task.StartedTimestamp
			return task
		case newest == nil || task.StartedTimestamp > newest.StartedTimestamp:
			newest = task
		}
	}
	if r.started == 0 && newest != nil {
		r.started = newest.StartedTimestamp
		return newest
	}
	return nil
}

// Watch yields the progress now and then at each interval, until the redrive has ended,
// ctx ends, or asking failed; the last two are yielded as the error. A redrive that
// failed is yielded with an error that says why. Breaking out of the loop stops watching,
// not the redrive.
func (r *Redrive) Watch(ctx context.Context, interval time.Duration) iter.Seq2[RedriveProgress, error] {
	return func(yield func(RedriveProgress, error) bool) {
		ticker := time.NewTicker(max(interval, time.Second))
		defer ticker.Stop()
		for {
			progress, err := r.Progress(ctx)
			if err == nil && progress.Status == RedriveFailed {
				err = errors.New("watermillsqs: the redrive failed: " + progress.Failure)
			}
			if !yield(progress, err) || err != nil || progress.Status.Ended() {
				return
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				yield(progress, fmt.Errorf("watermillsqs: watch the redrive of %s: %w", r.source, context.Cause(ctx)))
				return
			}
		}
	}
}

// Cancel stops the redrive (CancelMessageMoveTask) and returns how many messages had been
// moved, which stay where they are. A redrive that has ended cannot be cancelled.
func (r *Redrive) Cancel(ctx context.Context) (moved int64, err error) {
	out, err := r.clients.calls.CancelMessageMoveTask(ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: aws.String(r.handle)})
	if err != nil {
		return 0, fmt.Errorf("watermillsqs: cancel the redrive of %s: %w", r.source, err)
	}
	return out.ApproximateNumberOfMessagesMoved, nil
}
