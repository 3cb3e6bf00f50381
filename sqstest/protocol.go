package sqstest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange is the part of an HTTP request that the protocol looks at.
type exchange struct {
	method      string
	target      string // of the header X-Amz-Target
	form        bool   // the body is a form
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
	fateReset         // the same by a reset
	fateGone          // the client has gone, there is nobody to answer
)

// answer is the HTTP answer to an exchange.
type answer struct {
	fate        fate
	status      int
	contentType string // "" for that of the protocol
	body        []byte
	queryError  string
}

func (a answer) header(h http.Header) {
	h["Content-Type"] = []string{contentType}
	if a.contentType != "" {
		h["Content-Type"] = []string{a.contentType}
	}
	h["X-Amzn-Requestid"] = []string{newUUID()}
	if a.queryError != "" {
		h["X-Amzn-Query-Error"] = []string{a.queryError}
	}
}

// refusal answers with an error in the protocol of the request.
func (x exchange) refusal(err *apiError) answer {
	if x.query() {
		return queryRefusal(err)
	}
	return answer{status: err.status, body: err.body(), queryError: err.queryError()}
}

// query tells that a request is of the query protocol, which is the one of SNS.
func (x exchange) query() bool { return x.form && x.target == "" }

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
	"CancelMessageMoveTask":        func() request { return new(cancelMoveRequest) },
	"ChangeMessageVisibility":      func() request { return new(changeVisibilityRequest) },
	"ChangeMessageVisibilityBatch": func() request { return new(changeVisibilityBatchRequest) },
	"CreateQueue":                  func() request { return new(createQueueRequest) },
	"DeleteMessage":                func() request { return new(deleteMessageRequest) },
	"DeleteMessageBatch":           func() request { return new(deleteMessageBatchRequest) },
	"DeleteQueue":                  func() request { return new(deleteQueueRequest) },
	"GetQueueAttributes":           func() request { return new(getQueueAttributesRequest) },
	"GetQueueUrl":                  func() request { return new(getQueueURLRequest) },
	"ListDeadLetterSourceQueues":   func() request { return new(listDeadLetterSourceQueuesRequest) },
	"ListMessageMoveTasks":         func() request { return new(listMovesRequest) },
	"ListQueueTags":                func() request { return new(listQueueTagsRequest) },
	"ListQueues":                   func() request { return new(listQueuesRequest) },
	"PurgeQueue":                   func() request { return new(purgeQueueRequest) },
	"ReceiveMessage":               func() request { return new(receiveMessageRequest) },
	"SendMessage":                  func() request { return new(sendMessageRequest) },
	"SendMessageBatch":             func() request { return new(sendMessageBatchRequest) },
	"SetQueueAttributes":           func() request { return new(setQueueAttributesRequest) },
	"StartMessageMoveTask":         func() request { return new(startMoveRequest) },
	"TagQueue":                     func() request { return new(tagQueueRequest) },
	"UntagQueue":                   func() request { return new(untagQueueRequest) },
}

// unsupportedActions exist in SQS but not here.
var unsupportedActions = map[string]bool{"AddPermission": true, "RemovePermission": true}

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
	service *Service
	ctx     context.Context
	exchange
	action  string
	at      time.Time
	request request
	faults  callFaults

	record *callRecord // nil for what is no call
	note   string      // for the histories of messages

	messageIDs []string // of the messages the call has affected
	abandoned  bool     // the client went away before the call was carried out
	shortPoll  bool     // a receive that does not wait
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
		return x.refusal(serviceClosed())
	}
	defer s.active.Done()

	c := &call{service: s, ctx: ctx, exchange: x, at: time.Now()}
	refused := c.read()
	record := &callRecord{Call: Call{Action: c.action, At: c.at}}
	c.record = record
	if refused != nil {
		record.Code, record.Done = refused.code, true
		s.calls.begin(record)
		return x.refusal(refused)
	}

	record.Queue, _ = queueName(c.request.queueRef())
	record.Request = x.body
	c.request.describe(&record.Call)
	s.calls.begin(record)
	c.faults.find(s.faults.active(), &record.Call)

	result := c.perform(&record.Call)
	s.calls.finish(c, result)
	return result.answer(c)
}

// read finds out what action a request is for and decodes it.
func (c *call) read() *apiError {
	if c.method == http.MethodPost && c.query() {
		return c.readQuery()
	}
	action, isSQS := strings.CutPrefix(c.target, "AmazonSQS.")
	c.action = action
	switch newRequest := actions[action]; {
	case c.method != http.MethodPost || !isSQS:
		return newError(0, "UnknownOperationException", "sqstest serves POST requests: of AWS JSON 1.0 with a header X-Amz-Target: AmazonSQS.<Action>, and forms of the query protocol for SNS")
	case c.oversized:
		return newError(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The request body is too large.")
	case unsupportedActions[action]:
		return errorf("UnsupportedOperation", "sqstest does not model %s", action)
	case newRequest == nil:
		return errorf("UnknownOperationException", "SQS has no action %s", action)
	default:
		c.request = newRequest()
		return decode(c.body, c.request)
	}
}

// readQuery is read for the query protocol.
func (c *call) readQuery() *apiError {
	if c.oversized {
		return newSNSError(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The request body is too large.")
	}
	f, err := parseForm(c.body)
	if err != nil {
		return err
	}
	c.action = f.text("Action")
	read := snsActions[c.action]
	switch {
	case f.text("Version") != snsVersion:
		return snsErrorf("InvalidAction", "sqstest serves the query protocol for SNS only, with the Version %s", snsVersion)
	case read == nil:
		return snsErrorf("InvalidAction", "sqstest does not model the action %s of SNS", c.action)
	}
	request, err := read(f)
	c.request = request
	return err
}

// failure makes the error of a code as the service that was called answers it.
func (c *call) failure(status int, code, message string) *apiError {
	if c.query() {
		return newSNSError(status, code, message)
	}
	return newError(status, code, message)
}

// perform carries a call out between the faults that come before and after it.
func (c *call) perform(record *Call) outcome {
	if result, hit := c.faults.before(c, record); hit {
		return result
	}
	c.service.progress(time.Now())
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
	raw  *answer // an answer that is none of the service
}

func (o outcome) code() string {
	switch {
	case o.err != nil:
		return o.err.code
	case o.raw != nil:
		return strconv.Itoa(o.raw.status)
	}
	return ""
}

func (o outcome) answer(c *call) answer {
	switch {
	case o.fate != fateAnswered:
		return answer{fate: o.fate}
	case o.raw != nil:
		return *o.raw
	case o.err != nil:
		return c.refusal(o.err)
	case c.query():
		return queryAnswer(c.action, o.body)
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
