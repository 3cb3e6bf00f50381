package sqstest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// exchange is the part of an HTTP request that the protocol looks at.
type exchange struct {
	method      string
	target      string // of the header X-Amz-Target
	base        string // scheme and host it was made to, for queue URLs
	traceHeader string
	body        []byte
	oversized   bool
}

// fate is what becomes of a request.
type fate uint8

const (
	fateAnswered fate = iota
	fateBroken        // the connection breaks without an answer
	fateGone          // the client has gone, there is nobody to answer
)

// answer is the HTTP answer to an exchange.
type answer struct {
	fate       fate
	status     int
	body       []byte
	queryError string
}

func (a answer) header(h http.Header) {
	h["Content-Type"] = []string{contentType}
	h["X-Amzn-Requestid"] = []string{newUUID()}
	if a.queryError != "" {
		h["X-Amzn-Query-Error"] = []string{a.queryError}
	}
}

func refusal(err *apiError) answer {
	return answer{status: err.status, body: err.body(), queryError: err.queryError()}
}

// request is a decoded request of one action.
type request interface {
	// queueRef is the queue URL or name that the request gives, "" if none.
	queueRef() string
	// describe tells the call log what the request asks for.
	describe(*Call)
	// run carries the request out. No body stands for an empty object.
	run(*call) ([]byte, *apiError)
}

// actions makes an empty request for every action that is modelled.
var actions = map[string]func() request{
	"ChangeMessageVisibility":      func() request { return new(changeVisibilityRequest) },
	"ChangeMessageVisibilityBatch": func() request { return new(changeVisibilityBatchRequest) },
	"CreateQueue":                  func() request { return new(createQueueRequest) },
	"DeleteMessage":                func() request { return new(deleteMessageRequest) },
	"DeleteMessageBatch":           func() request { return new(deleteMessageBatchRequest) },
	"DeleteQueue":                  func() request { return new(deleteQueueRequest) },
	"GetQueueAttributes":           func() request { return new(getQueueAttributesRequest) },
	"GetQueueUrl":                  func() request { return new(getQueueURLRequest) },
	"ListDeadLetterSourceQueues":   func() request { return new(listDeadLetterSourceQueuesRequest) },
	"ListQueueTags":                func() request { return new(listQueueTagsRequest) },
	"ListQueues":                   func() request { return new(listQueuesRequest) },
	"PurgeQueue":                   func() request { return new(purgeQueueRequest) },
	"ReceiveMessage":               func() request { return new(receiveMessageRequest) },
	"SendMessage":                  func() request { return new(sendMessageRequest) },
	"SendMessageBatch":             func() request { return new(sendMessageBatchRequest) },
	"SetQueueAttributes":           func() request { return new(setQueueAttributesRequest) },
	"TagQueue":                     func() request { return new(tagQueueRequest) },
	"UntagQueue":                   func() request { return new(untagQueueRequest) },
}

// unsupportedActions exist in SQS but not here.
var unsupportedActions = map[string]bool{
	"AddPermission": true, "RemovePermission": true,
	"StartMessageMoveTask": true, "ListMessageMoveTasks": true, "CancelMessageMoveTask": true,
}

// queueTarget is the member of requests that name their queue by URL.
type queueTarget struct {
	QueueURL string `json:"QueueUrl"`
}

func (t *queueTarget) queueRef() string { return t.QueueURL }
func (t *queueTarget) describe(*Call)   {}

// queueName is the name in a queue URL. Host and region are not looked at, since the
// SDK does not call the host of a queue URL either, and a bare name is a URL too
// (sqs-facts 2, 10.4). It reports false for a queue of another account.
func queueName(ref string) (string, bool) {
	ref = strings.TrimRight(ref, "/")
	slash := strings.LastIndexByte(ref, '/')
	if slash < 0 {
		return ref, true
	}
	owner := ref[:slash]
	owner = owner[strings.LastIndexByte(owner, '/')+1:]
	return ref[slash+1:], owner == AccountID
}

// call is one API call on its way through the service.
type call struct {
	service     *Service
	ctx         context.Context
	action      string
	base        string
	traceHeader string
	at          time.Time
	request     request
	faults      callFaults

	messageIDs []string // of the messages the call has affected
	abandoned  bool     // the client went away before the call was carried out
}

// queue finds the queue the request names by URL.
func (c *call) queue() (*Queue, *apiError) {
	ref := c.request.queueRef()
	if ref == "" {
		return nil, missingParameter("QueueUrl")
	}
	name, ok := queueName(ref)
	if !ok {
		return nil, queueDoesNotExist()
	}
	q := c.service.registry.lookup(name)
	if q == nil {
		return nil, queueDoesNotExist()
	}
	return q, nil
}

// affect notes that the call has affected a message, under the mutex of its queue.
func (c *call) affect(q *Queue, m *message) {
	c.messageIDs = append(c.messageIDs, m.id)
	if c.faults.wantAffected {
		c.faults.affected = append(c.faults.affected, q.view(m))
	}
}

// serve carries one request from its bytes to its answer.
func (s *Service) serve(ctx context.Context, x exchange) answer {
	if !s.enter() {
		return refusal(serviceClosed())
	}
	defer s.active.Done()

	action, isSQS := strings.CutPrefix(x.target, "AmazonSQS.")
	c := &call{service: s, ctx: ctx, action: action, base: x.base, traceHeader: x.traceHeader, at: time.Now()}
	record := &Call{Action: action, At: c.at}
	var refused *apiError
	switch newRequest := actions[action]; {
	case x.method != http.MethodPost || !isSQS:
		refused = newError(0, "UnknownOperationException", "sqstest serves POST requests of AWS JSON 1.0 with a header X-Amz-Target: AmazonSQS.<Action>")
	case x.oversized:
		refused = newError(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The request body is too large.")
	case unsupportedActions[action]:
		refused = errorf("UnsupportedOperation", "sqstest does not model %s", action)
	case newRequest == nil:
		refused = errorf("UnknownOperationException", "SQS has no action %s", action)
	default:
		c.request = newRequest()
		refused = decode(x.body, c.request)
	}
	if refused != nil {
		record.Code, record.Done = refused.code, true
		s.calls.begin(record)
		return refusal(refused)
	}

	record.Queue, _ = queueName(c.request.queueRef())
	record.Request = x.body
	c.request.describe(record)
	s.calls.begin(record)
	c.faults.find(s.faults.active(), record)

	result := c.perform(record)
	s.calls.finish(record, c.messageIDs, result.code())
	return result.answer()
}

// perform carries a call out between the faults that come before and after it.
func (c *call) perform(record *Call) outcome {
	if result, hit := c.faults.before(c, record); hit {
		return result
	}
	body, err := c.request.run(c)
	if c.abandoned {
		return outcome{fate: fateGone}
	}
	if result, hit := c.faults.after(c); hit {
		return result
	}
	return outcome{body: body, err: err}
}

// outcome is how a call ended.
type outcome struct {
	fate fate
	body []byte
	err  *apiError
}

func (o outcome) code() string {
	if o.err != nil {
		return o.err.code
	}
	return ""
}

func (o outcome) answer() answer {
	switch {
	case o.fate != fateAnswered:
		return answer{fate: o.fate}
	case o.err != nil:
		return refusal(o.err)
	case o.body == nil:
		return answer{status: http.StatusOK, body: []byte("{}")}
	}
	return answer{status: http.StatusOK, body: o.body}
}

// decode reads the body of a request.
func decode(body []byte, into request) *apiError {
	if len(body) == 0 {
		return nil // every member is absent
	}
	if err := json.Unmarshal(body, into); err != nil {
		return errorf("SerializationException", "The request could not be decoded: %v", err)
	}
	return nil
}
