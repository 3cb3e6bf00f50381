package contract_test

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// poisoned is a pair of queues with a message in the dead-letter queue, which is returned.
func (e *env) poisoned(body string) (source, dead *queue, sent *sqs.SendMessageOutput) {
	source, dead = e.pair(1)
	sent = source.poison(body)
	return source, dead, sent
}

// poison sends a message and has it moved to the dead-letter queue.
func (q *queue) poison(body string) *sqs.SendMessageOutput {
	sent := q.send(body)
	q.e.ok("ChangeMessageVisibility", q.change(q.one("the message").ReceiptHandle, 0))
	q.none("the receive that moves it")
	return sent
}

func (q *queue) move(change ...func(*sqs.StartMessageMoveTaskInput)) (*string, error) {
	in := &sqs.StartMessageMoveTaskInput{SourceArn: aws.String(q.arn())}
	for _, c := range change {
		c(in)
	}
	out, err := q.e.sqs.StartMessageMoveTask(q.e.ctx, in)
	if err != nil {
		return nil, err
	}
	return out.TaskHandle, nil
}

func (q *queue) moves(most int32) []types.ListMessageMoveTasksResultEntry {
	in := &sqs.ListMessageMoveTasksInput{SourceArn: aws.String(q.arn())}
	if most > 0 {
		in.MaxResults = aws.Int32(most)
	}
	out, err := q.e.sqs.ListMessageMoveTasks(q.e.ctx, in)
	q.e.ok("ListMessageMoveTasks", err)
	return out.Results
}

// moved waits until the latest task has ended.
func (q *queue) moved() types.ListMessageMoveTasksResultEntry {
	for range 40 {
		if latest := q.moves(1); len(latest) > 0 && aws.ToString(latest[0].Status) != "RUNNING" {
			return latest[0]
		}
		q.e.sleep(250 * time.Millisecond)
	}
	q.e.failf("the move task does not end")
	return types.ListMessageMoveTasksResultEntry{}
}

func to(q *queue) func(*sqs.StartMessageMoveTaskInput) {
	return func(in *sqs.StartMessageMoveTaskInput) { in.DestinationArn = aws.String(q.arn()) }
}

func perSecond(n int32) func(*sqs.StartMessageMoveTaskInput) {
	return func(in *sqs.StartMessageMoveTaskInput) { in.MaxNumberOfMessagesPerSecond = &n }
}

var moveRows = []behaviour{
	row("move/back", "8.move 8.move-status", "returns messages to the queue they came from", func(e *env) {
		source, dead, _ := e.poisoned("a")
		handle, err := dead.move()
		e.ok("StartMessageMoveTask", err)
		e.checkf(aws.ToString(handle) != "", "there is no TaskHandle")
		task := dead.moved()
		e.equal("Status", "COMPLETED", aws.ToString(task.Status))
		e.equal("SourceArn", dead.arn(), aws.ToString(task.SourceArn))
		e.equal("ApproximateNumberOfMessagesMoved", int64(1), task.ApproximateNumberOfMessagesMoved)
		e.checkf(task.TaskHandle == nil, "a task that has ended shows its TaskHandle")
		e.checkf(task.StartedTimestamp > 0, "there is no StartedTimestamp")
		e.equal("back in the source", "[a]", bodies(source.receive(10, 1)))
		dead.none("in the dead-letter queue")
	}),
	row("move/to", "8.move", "moves messages to another queue if one is named", func(e *env) {
		source, dead, _ := e.poisoned("a")
		other := e.queue()
		_, err := dead.move(to(other))
		e.ok("StartMessageMoveTask", err)
		task := dead.moved()
		e.equal("Status", "COMPLETED", aws.ToString(task.Status))
		e.equal("DestinationArn", other.arn(), aws.ToString(task.DestinationArn))
		e.equal("in the other queue", "[a]", bodies(other.receive(10, 1)))
		source.none("in the source")
	}),
	row("move/new", "8.move-new", "makes new messages: another id, and receives count from 1", func(e *env) {
		source, dead, sent := e.poisoned("a")
		_, err := dead.move()
		e.ok("StartMessageMoveTask", err)
		dead.moved()
		m := source.one("the message")
		e.checkf(*m.MessageId != *sent.MessageId, "the message has the id it had")
		e.equal("ApproximateReceiveCount", "1", m.Attributes["ApproximateReceiveCount"])
	}),
	row("move/not-dlq", "8.move-errors", "refuses a source that is no dead-letter queue", func(e *env) {
		_, err := e.queue().move()
		e.refused("StartMessageMoveTask", err, "InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
	}),
	row("move/missing", "8.move-errors", "refuses a source or destination that does not exist: ResourceNotFoundException", func(e *env) {
		_, dead, _ := e.poisoned("a")
		none := &queue{e: e, name: e.name()}
		_, err := none.move()
		e.refused("StartMessageMoveTask from nowhere", err, "ResourceNotFoundException", "The resource that you specified for the SourceArn parameter doesn't exist.")
		_, err = dead.move(to(none))
		e.refused("StartMessageMoveTask to nowhere", err, "ResourceNotFoundException", "The resource that you specified for the DestinationArn parameter doesn't exist.")
	}),
	row("move/one", "8.move-errors 8.move-handle", "runs one task at a time for a source, and shows its handle meanwhile", func(e *env) {
		source, dead, _ := e.poisoned("a")
		source.poison("b")
		source.poison("c")
		_, err := dead.move(perSecond(1))
		e.ok("StartMessageMoveTask", err)
		_, err = dead.move()
		e.refused("StartMessageMoveTask again", err, "InvalidParameterValue", "There is already a task running.")
		task := dead.moves(1)
		e.equal("tasks", 1, len(task))
		e.equal("Status", "RUNNING", aws.ToString(task[0].Status))
		e.checkf(aws.ToString(task[0].TaskHandle) != "", "a running task has no TaskHandle")
	}),
	row("move/cancel", "8.move-status 8.move-cancel", "is cancelled by its handle, which brings nothing back", func(e *env) {
		source, dead, _ := e.poisoned("a")
		source.poison("b")
		source.poison("c")
		handle, err := dead.move(perSecond(1))
		e.ok("StartMessageMoveTask", err)
		_, err = e.sqs.CancelMessageMoveTask(e.ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: handle})
		e.ok("CancelMessageMoveTask", err)
		for aws.ToString(dead.moved().Status) == "CANCELLING" {
			e.sleep(250 * time.Millisecond)
		}
		e.equal("Status", "CANCELLED", aws.ToString(dead.moved().Status))
		e.equal("messages in both queues", 3, len(source.all(3))+len(dead.all(3)))
	}),
	row("move/bad-handle", "8.move-errors", "refuses to cancel by a handle that is none", func(e *env) {
		_, err := e.sqs.CancelMessageMoveTask(e.ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: aws.String("garbage")})
		e.refused("CancelMessageMoveTask", err, "InvalidParameterValue", "Value for parameter TaskHandle is invalid.")
	}),
	row("move/list", "8.move-list", "lists one task unless asked for more, the latest first", func(e *env) {
		source, dead, _ := e.poisoned("a")
		_, err := dead.move()
		e.ok("StartMessageMoveTask", err)
		dead.moved()
		e.equal("back in the source", "[a]", bodies(source.receive(10, 1)))
		e.sleep(1100 * time.Millisecond)
		_, err = dead.move()
		e.ok("StartMessageMoveTask again", err)
		dead.moved()
		e.equal("tasks without MaxResults", 1, len(dead.moves(0)))
		two := dead.moves(10)
		e.equal("tasks with MaxResults 10", 2, len(two))
		e.checkf(two[0].StartedTimestamp > two[1].StartedTimestamp, "the latest task is not the first")
	}),
	row("move/failed", "8.move-status", "fails when the destination is deleted while it runs, with a reason", func(e *env) {
		source, dead, _ := e.poisoned("a")
		source.poison("b")
		source.poison("c")
		other := e.queue()
		_, err := dead.move(to(other), perSecond(1))
		e.ok("StartMessageMoveTask", err)
		_, err = e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: other.url})
		e.ok("DeleteQueue", err)
		task := dead.moved()
		e.equal("Status", "FAILED", aws.ToString(task.Status))
		e.equal("FailureReason", "AWS.SimpleQueueService.NonExistentQueue", aws.ToString(task.FailureReason))
	}),
}

// probes tell whether a server has an area at all.
var probes = map[string]func(e *env){
	"move tasks": func(e *env) {
		_, dead := e.pair(1)
		_, err := dead.move()
		e.ok("StartMessageMoveTask", err)
	},
	"SNS": func(e *env) { e.topic() },
}
