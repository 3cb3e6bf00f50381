package sqstest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// redrivePolicy says where messages go that were received too often.
type redrivePolicy struct {
	targetARN  string
	maxReceive int
}

// redriveAllowPolicy says which queues may use a queue as their dead-letter queue; nil
// stands for all.
type redriveAllowPolicy struct {
	permission string
	sources    []string
}

func (p *redriveAllowPolicy) allows(sourceARN string) bool {
	if p == nil {
		return true
	}
	switch p.permission {
	case "denyAll":
		return false
	case "byQueue":
		return slices.Contains(p.sources, sourceARN)
	default:
		return true
	}
}

// parseRedrivePolicy checks the form of a RedrivePolicy (sqs-facts 8); whether its
// target exists is for the caller to see.
func parseRedrivePolicy(value string) (*redrivePolicy, *apiError) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(value), &members); err != nil || members == nil {
		return nil, newError(0, "InvalidAttributeValue", "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map.")
	}
	for _, name := range []string{"deadLetterTargetArn", "maxReceiveCount"} {
		if _, ok := members[name]; !ok {
			return nil, invalidValue("RedrivePolicy", value, "Redrive policy does not contain mandatory attribute: "+name+".")
		}
	}
	if len(members) > 2 {
		return nil, invalidValue("RedrivePolicy", value, "Only following attributes are supported: [deadLetterTargetArn, maxReceiveCount].")
	}
	policy := &redrivePolicy{}
	if err := json.Unmarshal(members["deadLetterTargetArn"], &policy.targetARN); err != nil || policy.targetARN == "" {
		return nil, invalidValue("RedrivePolicy", value, "Dead letter target does not exist.")
	}
	// The count may be a number or a string of one.
	count := string(bytes.Trim(members["maxReceiveCount"], `"`))
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > 1000 {
		return nil, invalidValue("RedrivePolicy", value, "Invalid value for maxReceiveCount: "+count+", valid values are from 1 to 1000 both inclusive.")
	}
	policy.maxReceive = n
	return policy, nil
}

// parseRedriveAllowPolicy checks a RedriveAllowPolicy: sources with byQueue, and only
// with it.
func parseRedriveAllowPolicy(value string) (*redriveAllowPolicy, *apiError) {
	var members struct {
		RedrivePermission string   `json:"redrivePermission"`
		SourceQueueArns   []string `json:"sourceQueueArns"`
	}
	if err := json.Unmarshal([]byte(value), &members); err != nil {
		return nil, newError(0, "InvalidAttributeValue", "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the redrive allow policy. The policy is not a valid JSON map.")
	}
	n := len(members.SourceQueueArns)
	switch members.RedrivePermission {
	case "allowAll", "denyAll":
		if n > 0 {
			return nil, invalidValue("RedriveAllowPolicy", value, "Amazon SQS can't create the redrive allow policy. Source queue ARNs go with the redrive permission byQueue only.")
		}
	case "byQueue":
		if n < 1 || n > 10 {
			return nil, invalidValue("RedriveAllowPolicy", value, "Amazon SQS can't create the redrive allow policy. The redrive permission byQueue needs 1 to 10 source queue ARNs.")
		}
	default:
		return nil, invalidValue("RedriveAllowPolicy", value, "Amazon SQS can't create the redrive allow policy. The redrive permission must be allowAll, denyAll or byQueue.")
	}
	return &redriveAllowPolicy{permission: members.RedrivePermission, sources: members.SourceQueueArns}, nil
}

// checkRedriveTarget refuses a RedrivePolicy whose target is absent or does not allow
// the source.
func (s *Service) checkRedriveTarget(policy *redrivePolicy, value, sourceName string) *apiError {
	target := s.queueByARN(policy.targetARN)
	if target == nil {
		return invalidValue("RedrivePolicy", value, "Dead letter target does not exist.")
	}
	if (target.fifo != nil) != strings.HasSuffix(sourceName, ".fifo") {
		return invalidValue("RedrivePolicy", value, "Dead-letter queue must be same type of queue as the source..")
	}
	if !target.allow.Load().allows(queueARN(sourceName)) {
		return invalidValue("RedrivePolicy", value, "The dead letter target does not allow this source queue.")
	}
	return nil
}

func (s *Service) queueByARN(arn string) *Queue {
	name, ok := strings.CutPrefix(arn, queueARN(""))
	if !ok {
		return nil
	}
	return s.registry.lookup(name)
}

// deadLetterQueue is where messages of the queue go that were received too often; nil
// if nowhere, and then they stay. The mutex is held.
func (q *Queue) deadLetterQueue() *Queue {
	if q.settings.redrive == nil {
		return nil
	}
	target := q.service.queueByARN(q.settings.redrive.targetARN)
	if target == nil || target == q || !target.allow.Load().allows(q.ARN()) {
		return nil
	}
	return target
}

// accept takes messages over from another queue that has removed them and holds no
// mutex. They keep identity, count and the time they were sent; in a FIFO queue they get
// their id as deduplication id, a new place, and their retention begins anew (sqs-facts
// 8). It reports false when the queue was deleted meanwhile.
func (q *Queue) accept(messages []*message, source *Queue, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return false
	}
	q.advance(now)
	for _, m := range messages {
		m.sourceARN = source.ARN()
		m.serial, m.revoked = 0, 0 // receipts are of a queue
		if q.fifo != nil {
			m.number = q.service.messageNumber.Add(1)
			m.dedupID, m.enqueuedAt = m.id, now
			q.service.history.alias(m)
		}
		m.history.add(event{at: now, kind: deadLettered, queue: source, count: int32(m.receiveCount), detail: "to " + q.name})
		q.add(m, 0, now)
	}
	q.wakeNext()
	return true
}
