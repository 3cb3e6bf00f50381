package sqstest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

func resourceNotFound(parameter string) *apiError {
	return errorf("ResourceNotFoundException", "The resource that you specified for the %s parameter doesn't exist.", parameter)
}

// arnTarget is the member of requests that name a queue by ARN.
type arnTarget struct{ SourceArn string }

// queueRef is the name of the queue.
func (t *arnTarget) queueRef() string {
	name, _ := strings.CutPrefix(t.SourceArn, queueARN(""))
	return name
}
func (t *arnTarget) describe(*Call) {}

func (t *arnTarget) source(c *call) (*Queue, *apiError) {
	if t.SourceArn == "" {
		return nil, missingParameter("SourceArn")
	}
	q := c.service.queueByARN(t.SourceArn)
	if q == nil {
		return nil, resourceNotFound("SourceArn")
	}
	return q, nil
}

type startMoveRequest struct {
	arnTarget
	DestinationArn               string
	MaxNumberOfMessagesPerSecond *int
}

func (r *startMoveRequest) run(c *call) ([]byte, *apiError) {
	source, err := r.source(c)
	if err != nil {
		return nil, err
	}
	if n := r.MaxNumberOfMessagesPerSecond; n != nil && (*n < 1 || *n > maxMoveRate) {
		return nil, invalidValue("MaxNumberOfMessagesPerSecond", *n, "Must be between 1 and 500, if provided.")
	}
	if r.DestinationArn != "" {
		destination := c.service.queueByARN(r.DestinationArn)
		if destination == nil {
			return nil, resourceNotFound("DestinationArn")
		}
		if (destination.fifo != nil) != (source.fifo != nil) {
			return nil, invalidValue("DestinationArn", r.DestinationArn, "Destination queue must be same type of queue as the source.")
		}
	}
	if !slices.ContainsFunc(c.service.registry.list(), source.isDeadLetterQueueOf) {
		return nil, newError(0, "InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
	}
	task, err := c.service.startMove(source, r)
	if err != nil {
		return nil, err
	}
	c.service.progress(task.started)
	// Long polls have to look when there will be something for them.
	for _, q := range c.service.registry.list() {
		q.mu.Lock()
		q.wakeNext()
		q.mu.Unlock()
	}
	o := newObject(nil)
	o.text("TaskHandle", task.handle())
	return o.end(), nil
}

// isDeadLetterQueueOf tells whether another queue sends its dead letters here.
func (q *Queue) isDeadLetterQueueOf(other *Queue) bool {
	other.mu.Lock()
	defer other.mu.Unlock()
	return other.settings.redrive != nil && other.settings.redrive.targetARN == q.ARN()
}

func (s *Service) startMove(source *Queue, r *startMoveRequest) (*moveTask, *apiError) {
	s.moves.mu.Lock()
	defer s.moves.mu.Unlock()
	for _, m := range s.moves.all {
		if m.source == source && m.status == taskRunning {
			return nil, newError(0, "InvalidParameterValue", "There is already a task running. Only one active task is allowed for a source queue arn at a given time.")
		}
	}
	now := time.Now()
	task := &moveTask{
		id: newUUID(), source: source, destination: r.DestinationArn, rate: r.MaxNumberOfMessagesPerSecond,
		started: now, toMove: source.visibleBy(now), status: taskRunning,
	}
	s.moves.all = append(s.moves.all, task)
	s.moves.running.Add(1)
	return task, nil
}

type listMovesRequest struct {
	arnTarget
	MaxResults *int
}

func (r *listMovesRequest) run(c *call) ([]byte, *apiError) {
	source, err := r.source(c)
	if err != nil {
		return nil, err
	}
	most := 1
	if n := r.MaxResults; n != nil {
		if *n < 1 || *n > maxMovesShown {
			return nil, invalidValue("MaxResults", *n, "Must be between 1 and 10, if provided.")
		}
		most = *n
	}
	s := c.service
	s.moves.mu.Lock()
	defer s.moves.mu.Unlock()
	var shown []map[string]any
	for _, m := range slices.Backward(s.moves.all) {
		if m.source == source && len(shown) < most {
			shown = append(shown, m.show())
		}
	}
	if shown == nil {
		return nil, nil
	}
	return marshal(map[string]any{"Results": shown}), nil
}

// show is a task as it is listed. The handle is there while it runs.
func (m *moveTask) show() map[string]any {
	view := map[string]any{
		"ApproximateNumberOfMessagesMoved":  m.moved,
		"ApproximateNumberOfMessagesToMove": m.toMove,
		"SourceArn":                         m.source.ARN(),
		"StartedTimestamp":                  m.started.UnixMilli(),
		"Status":                            m.status,
	}
	if m.destination != "" {
		view["DestinationArn"] = m.destination
	}
	if m.rate != nil {
		view["MaxNumberOfMessagesPerSecond"] = *m.rate
	}
	if m.failure != "" {
		view["FailureReason"] = m.failure
	}
	if m.status == taskRunning {
		view["TaskHandle"] = m.handle()
	}
	return view
}

type cancelMoveRequest struct{ TaskHandle string }

func (r *cancelMoveRequest) queueRef() string { return (&arnTarget{r.sourceARN()}).queueRef() }
func (r *cancelMoveRequest) describe(*Call)   {}

func (r *cancelMoveRequest) sourceARN() string {
	_, arn, _ := r.decode()
	return arn
}

func (r *cancelMoveRequest) decode() (id, sourceARN string, ok bool) {
	text, err := base64.StdEncoding.DecodeString(r.TaskHandle)
	var handle struct{ TaskID, SourceArn string }
	if err != nil || json.Unmarshal(text, &handle) != nil || handle.TaskID == "" {
		return "", "", false
	}
	return handle.TaskID, handle.SourceArn, true
}

func (r *cancelMoveRequest) run(c *call) ([]byte, *apiError) {
	if r.TaskHandle == "" {
		return nil, missingParameter("TaskHandle")
	}
	id, arn, ok := r.decode()
	if !ok {
		return nil, newError(0, "InvalidParameterValue", "Value for parameter TaskHandle is invalid.")
	}
	s := c.service
	if s.queueByARN(arn) == nil {
		return nil, resourceNotFound("SourceArn")
	}
	s.moves.mu.Lock()
	defer s.moves.mu.Unlock()
	for _, m := range s.moves.all {
		if m.id == id && m.source.ARN() == arn && m.status == taskRunning {
			s.end(m, taskCancelled, "")
			return marshal(map[string]any{"ApproximateNumberOfMessagesMoved": m.moved}), nil
		}
	}
	return nil, newError(0, "ResourceNotFoundException", "Task does not exist.")
}
