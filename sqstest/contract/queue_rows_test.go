package contract_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

var queueRows = []behaviour{
	row("queue/lifecycle", "2.get-url 2.url 1.missing-queue", "is created, found by name, listed, deleted, and then not found", func(e *env) {
		q := e.queue()
		out, err := e.getURL(q.name)
		e.ok("GetQueueUrl", err)
		e.equal("the URL that GetQueueUrl returns", *q.url, out)
		e.checkf(strings.HasSuffix(*q.url, "/000000000000/"+q.name), "the queue URL does not end in account and name")
		listed, err := e.sqs.ListQueues(e.ctx, &sqs.ListQueuesInput{QueueNamePrefix: &e.prefix})
		e.ok("ListQueues", err)
		e.equal("ListQueues of the prefix", []string{*q.url}, listed.QueueUrls)
		_, err = e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: q.url})
		e.ok("DeleteQueue", err)
		_, err = e.getURL(q.name)
		e.refused("GetQueueUrl after DeleteQueue", err, "QueueDoesNotExist", "The specified queue does not exist")
	}),
	row("queue/missing", "1.missing-queue 2.get-url", "is refused with *types.QueueDoesNotExist by every action", func(e *env) {
		q := e.queue()
		q.send("a")
		m := q.one("the message")
		_, err := e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: q.url})
		e.ok("DeleteQueue", err)
		_, err = q.trySend("b")
		e.refused("SendMessage", err, "QueueDoesNotExist", "")
		_, err = q.tryReceive(everything(1, 0))
		e.refused("ReceiveMessage", err, "QueueDoesNotExist", "")
		e.refused("DeleteMessage", q.delete(m.ReceiptHandle), "QueueDoesNotExist", "")
		e.refused("ChangeMessageVisibility", q.change(m.ReceiptHandle, 1), "QueueDoesNotExist", "")
		_, err = e.sqs.GetQueueAttributes(e.ctx, &sqs.GetQueueAttributesInput{QueueUrl: q.url, AttributeNames: allAttributes})
		e.refused("GetQueueAttributes", err, "QueueDoesNotExist", "")
		_, err = e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: q.url})
		e.refused("DeleteQueue", err, "QueueDoesNotExist", "")
	}),
	row("queue/legacy-code", "1.missing-queue 1.query-error", "names errors by the codes of the query protocol as well, in a header", func(e *env) {
		_, err := e.getURL(e.name())
		var api smithy.APIError
		e.checkf(errors.As(err, &api), "GetQueueUrl: want an API error, got %s", describe(err))
		e.equal("ErrorCode()", "AWS.SimpleQueueService.NonExistentQueue", api.ErrorCode())
		header, _ := e.wire.last()
		e.equal("x-amzn-query-error", "AWS.SimpleQueueService.NonExistentQueue;Sender", header.Get("X-Amzn-Query-Error"))
	}),
	row("queue/status", "1.status", "refuses with the HTTP status of the error: 400, 403 or 404", func(e *env) {
		q := e.queue()
		_, err := e.getURL(e.name())
		e.equal("status of QueueDoesNotExist", http.StatusBadRequest, httpStatus(err))
		e.equal("status of ReceiptHandleIsInvalid", http.StatusNotFound, httpStatus(q.change(aws.String("garbage"), 1)))
		e.ok("PurgeQueue", q.purge())
		if err := q.purge(); err != nil || e.exact { // that it is refused has a row of its own
			e.equal("status of PurgeQueueInProgress", http.StatusForbidden, httpStatus(err))
		}
	}),
	row("queue/generic-code", "1.generic", "has codes without prefix for errors that have no Go type", func(e *env) {
		_, err := e.queue().tryReceive(everything(11, 0))
		var api smithy.APIError
		e.checkf(errors.As(err, &api), "ReceiveMessage of 11: want an API error, got %s", describe(err))
		e.equal("ErrorCode()", "InvalidParameterValue", api.ErrorCode())
		e.equal("status", http.StatusBadRequest, httpStatus(err))
		if e.exact { // the SDK for Go does not show it
			_, body := e.wire.last()
			e.checkf(strings.Contains(body, "InvalidParameterValueException"), "the type of the error is not InvalidParameterValueException")
		}
	}),
	row("queue/arn", "2.arn", "has the ARN of region, account and name", func(e *env) {
		q := e.queue()
		e.equal("QueueArn", q.arn(), q.attributes("QueueArn")["QueueArn"])
	}),
	row("queue/names", "2.name", "takes names of 1 to 80 letters, digits, hyphens and underscores", func(e *env) {
		longest := (e.name() + strings.Repeat("_Z", 40))[:80]
		_, err := e.create(longest)
		e.ok("CreateQueue with a name of 80", err)
		for _, name := range []string{longest + "x", "bad name!", "a.b", "ä"} {
			_, err := e.create(name)
			e.refused("CreateQueue with the name "+strconv.Itoa(len(name))+" long", err, "InvalidParameterValue", "")
		}
	}),
	row("queue/case", "2.name", "tells names apart by case", func(e *env) {
		q := e.queue()
		_, err := e.getURL(strings.ToUpper(q.name))
		e.refused("GetQueueUrl in capitals", err, "QueueDoesNotExist", "")
	}),
	row("queue/fifo-suffix", "2.fifo-suffix", "refuses FifoQueue without the suffix .fifo and the suffix without FifoQueue", func(e *env) {
		_, err := e.create(e.name(), "FifoQueue", "true")
		e.refused("CreateQueue of a FIFO queue without the suffix", err, "InvalidParameterValue", "")
		_, err = e.create(e.name() + ".fifo")
		e.refused("CreateQueue of a standard queue with the suffix", err, "InvalidParameterValue", "")
	}),
	row("queue/bare-name", "2.bare-name", "is found by its bare name in place of its URL", func(e *env) {
		q := e.queue()
		_, err := (&queue{e: e, url: &q.name}).trySend("a")
		e.ok("SendMessage with a name as QueueUrl", err)
		q.one("after that")
	}),
	row("queue/url-path", "10.url-path", "takes calls that are posted to the path of the queue URL", func(e *env) {
		q := e.queue()
		toPath := sqs.WithAPIOptions(func(stack *middleware.Stack) error {
			return stack.Serialize.Add(middleware.SerializeMiddlewareFunc("path", func(
				ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler,
			) (middleware.SerializeOutput, middleware.Metadata, error) {
				in.Request.(*smithyhttp.Request).URL.Path = "/000000000000/" + q.name
				return next.HandleSerialize(ctx, in)
			}), middleware.After)
		})
		_, err := e.sqs.SendMessage(e.ctx, &sqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("a")}, toPath)
		e.ok("SendMessage posted to the queue URL", err)
	}),
	row("queue/foreign-host", "10.host-ignored", "is found by a URL of another host: the host is not looked at", func(e *env) {
		q := e.queue()
		q.url = aws.String("https://sqs.us-east-1.amazonaws.com/000000000000/" + q.name)
		_, err := q.trySend("a")
		e.ok("SendMessage", err)
	}),
	row("queue/other-account", "2.other-account", "is not found in an account that has no such queue", func(e *env) {
		q := e.queue()
		_, err := e.sqs.GetQueueUrl(e.ctx, &sqs.GetQueueUrlInput{QueueName: &q.name, QueueOwnerAWSAccountId: aws.String("111122223333")})
		e.refused("GetQueueUrl for another account", err, "QueueDoesNotExist", "")
	}),
	row("queue/again", "2.again-same", "is returned when created again with no attributes or with some it has", func(e *env) {
		q := e.queue("DelaySeconds", "5", "VisibilityTimeout", "20")
		for _, attributes := range [][]string{nil, {"DelaySeconds", "5"}, {"DelaySeconds", "5", "VisibilityTimeout", "20"}, {"MessageRetentionPeriod", "345600"}} {
			again, err := e.create(q.name, attributes...)
			e.ok("CreateQueue again with "+strings.Join(attributes, "="), err)
			e.equal("its URL", *q.url, *again.url)
		}
	}),
	row("queue/again-differs", "2.again-differs", "is refused when created again with another value: QueueNameExists, which names the attribute", func(e *env) {
		q := e.queue("DelaySeconds", "5")
		const text = "A queue already exists with the same name and a different value for attribute "
		_, err := e.create(q.name, "DelaySeconds", "6")
		e.refused("CreateQueue with another DelaySeconds", err, "QueueNameExists", text+"DelaySeconds")
		_, err = e.create(q.name, "VisibilityTimeout", "20")
		e.refused("CreateQueue with a VisibilityTimeout that is not the default", err, "QueueNameExists", text+"VisibilityTimeout")
	}),
	row("queue/again-current", "2.again-current", "is compared by its current values when created again", func(e *env) {
		q := e.queue("DelaySeconds", "5")
		e.ok("SetQueueAttributes", q.set("DelaySeconds", "6"))
		_, err := e.create(q.name, "DelaySeconds", "6")
		e.ok("CreateQueue with the current value", err)
		_, err = e.create(q.name, "DelaySeconds", "5")
		e.refused("CreateQueue with the original value", err, "QueueNameExists", "")
	}),
	row("queue/recreate", "2.delete-recently", "can be created again 60 seconds after it was deleted, and no sooner", func(e *env) {
		q := e.queue()
		_, err := e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: q.url})
		e.ok("DeleteQueue", err)
		_, err = e.create(q.name)
		e.refused("CreateQueue at once", err, "QueueDeletedRecently", "60 seconds")
		if !e.exact {
			return // the rest of the minute is for sqstest
		}
		e.sleep(59 * time.Second)
		_, err = e.create(q.name)
		e.refused("CreateQueue after 59 seconds", err, "QueueDeletedRecently", "60 seconds")
		e.sleep(time.Second)
		_, err = e.create(q.name)
		e.ok("CreateQueue after a minute", err)
	}),
	row("queue/deleted-under-poll", "2.delete-poll", "ends the long polls on it when it is deleted", func(e *env) {
		q := e.queue()
		poll := q.poll(1, 4)
		_, err := e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: q.url})
		e.ok("DeleteQueue", err)
		p := <-poll
		e.checkf(len(p.messages) == 0, "the poll on a deleted queue returned messages")
		e.checkf(p.err == nil || describe(p.err) == "QueueDoesNotExist", "the poll: want nothing or QueueDoesNotExist, got %s", describe(p.err))
	}),
	row("queue/purge", "2.purge", "is empty after PurgeQueue, of messages in flight and delayed as well", func(e *env) {
		q := e.queue("VisibilityTimeout", "1")
		q.send("in flight")
		q.one("the message")
		q.send("visible")
		q.send("delayed", delayed(1))
		e.ok("PurgeQueue", q.purge())
		e.sleep(1500 * time.Millisecond)
		q.none("after PurgeQueue")
	}),
	row("queue/purge-twice", "2.purge-twice", "is not purged twice within 60 seconds", func(e *env) {
		q := e.queue()
		e.ok("PurgeQueue", q.purge())
		e.refused("PurgeQueue again", q.purge(), "PurgeQueueInProgress", "Only one PurgeQueue operation on "+q.name+" is allowed every 60 seconds.")
		if !e.exact {
			return // the rest of the minute is for sqstest
		}
		e.sleep(59 * time.Second)
		e.refused("PurgeQueue after 59 seconds", q.purge(), "PurgeQueueInProgress", "")
		e.sleep(time.Second)
		e.ok("PurgeQueue after a minute", q.purge())
	}),
	row("queue/pages", "2.list", "is listed in pages if MaxResults is given", func(e *env) {
		var all []string
		for range 3 {
			all = append(all, *e.queue().url)
		}
		page, err := e.sqs.ListQueues(e.ctx, &sqs.ListQueuesInput{QueueNamePrefix: &e.prefix, MaxResults: aws.Int32(2)})
		e.ok("ListQueues", err)
		e.equal("queues on the first page", 2, len(page.QueueUrls))
		e.checkf(page.NextToken != nil, "the first page has no NextToken")
		rest, err := e.sqs.ListQueues(e.ctx, &sqs.ListQueuesInput{QueueNamePrefix: &e.prefix, MaxResults: aws.Int32(2), NextToken: page.NextToken})
		e.ok("ListQueues of the second page", err)
		e.checkf(rest.NextToken == nil, "the last page has a NextToken")
		got := append(page.QueueUrls, rest.QueueUrls...)
		slices.Sort(got)
		slices.Sort(all)
		e.equal("all pages", all, got)
		whole, err := e.sqs.ListQueues(e.ctx, &sqs.ListQueuesInput{QueueNamePrefix: &e.prefix})
		e.ok("ListQueues without MaxResults", err)
		e.checkf(len(whole.QueueUrls) == 3 && whole.NextToken == nil, "without MaxResults: want all queues and no NextToken, got %d", len(whole.QueueUrls))
	}),
	row("queue/tags", "2.tags", "takes tags when created and later", func(e *env) {
		name := e.name()
		out, err := e.sqs.CreateQueue(e.ctx, &sqs.CreateQueueInput{QueueName: &name, Tags: map[string]string{"a": "1", "b": "2"}})
		e.ok("CreateQueue", err)
		e.later(func() { e.sqs.DeleteQueue(e.ctx, &sqs.DeleteQueueInput{QueueUrl: out.QueueUrl}) })
		tags := func() map[string]string {
			out, err := e.sqs.ListQueueTags(e.ctx, &sqs.ListQueueTagsInput{QueueUrl: out.QueueUrl})
			e.ok("ListQueueTags", err)
			return out.Tags
		}
		e.equal("tags", map[string]string{"a": "1", "b": "2"}, tags())
		_, err = e.sqs.TagQueue(e.ctx, &sqs.TagQueueInput{QueueUrl: out.QueueUrl, Tags: map[string]string{"b": "3", "c": "4"}})
		e.ok("TagQueue", err)
		_, err = e.sqs.UntagQueue(e.ctx, &sqs.UntagQueueInput{QueueUrl: out.QueueUrl, TagKeys: []string{"a", "z"}})
		e.ok("UntagQueue", err)
		e.equal("tags after TagQueue and UntagQueue", map[string]string{"b": "3", "c": "4"}, tags())
	}),
}

func (e *env) getURL(name string) (string, error) {
	out, err := e.sqs.GetQueueUrl(e.ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", err
	}
	return *out.QueueUrl, nil
}

func (q *queue) purge() error {
	_, err := q.e.sqs.PurgeQueue(q.e.ctx, &sqs.PurgeQueueInput{QueueUrl: q.url})
	return err
}
