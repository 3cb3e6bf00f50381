package sqstest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are the attributes of a queue that can be set, as text and, where the
// service acts on them, parsed.
type settings struct {
	fifo bool
	text map[string]string

	visibility time.Duration
	delay      time.Duration
	wait       time.Duration
	retention  time.Duration
	maxSize    int
	redrive    *redrivePolicy // nil: none
	allow      *redriveAllowPolicy

	policy *queuePolicy // nil: none

	contentDedup bool // these two on FIFO queues
	scopeByGroup bool
}

// numericAttributes have a range and, but for the key reuse period, a default that is
// always shown (sqs-facts 3).
var numericAttributes = map[string]struct {
	least, most, standard int
	hideStandard          bool
	parsed                func(*settings, int)
}{
	"VisibilityTimeout":             {0, 43200, 30, false, func(s *settings, n int) { s.visibility = seconds(n) }},
	"DelaySeconds":                  {0, 900, 0, false, func(s *settings, n int) { s.delay = seconds(n) }},
	"ReceiveMessageWaitTimeSeconds": {0, 20, 0, false, func(s *settings, n int) { s.wait = seconds(n) }},
	"MessageRetentionPeriod":        {60, 1209600, 345600, false, func(s *settings, n int) { s.retention = seconds(n) }},
	"MaximumMessageSize":            {1024, 1 << 20, 1 << 20, false, func(s *settings, n int) { s.maxSize = n }},
	"KmsDataKeyReusePeriodSeconds":  {60, 86400, 300, true, func(*settings, int) {}},
}

// textAttributes are set and shown as they are; "" removes one.
var textAttributes = []string{"KmsMasterKeyId", "Policy", "RedriveAllowPolicy", "RedrivePolicy"}

// readOnlyAttributes are shown but never set.
var readOnlyAttributes = []string{
	"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed", "ApproximateNumberOfMessagesNotVisible",
	"CreatedTimestamp", "LastModifiedTimestamp", "QueueArn",
}

// fifoAttributes exist on FIFO queues only. Each is one of two values; the first is the
// default.
var fifoAttributes = map[string][2]string{
	"ContentBasedDeduplication": {"false", "true"},
	"DeduplicationScope":        {"queue", "messageGroup"},
	"FifoQueue":                 {"true", "true"},
	"FifoThroughputLimit":       {"perQueue", "perMessageGroupId"},
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func defaultSettings(fifo bool) settings {
	s := settings{fifo: fifo, text: map[string]string{"SqsManagedSseEnabled": "true"}}
	if fifo {
		for name, values := range fifoAttributes {
			s.text[name] = values[0]
		}
	}
	for name, a := range numericAttributes {
		if !a.hideStandard {
			s.text[name] = strconv.Itoa(a.standard)
		}
		a.parsed(&s, a.standard)
	}
	return s
}

// with returns the settings changed as asked, or why that is refused.
func (s settings) with(changes map[string]string) (settings, *apiError) {
	next := s
	next.text = maps.Clone(s.text)
	// In the order of names, so that the first of several faults is always the same.
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if err := next.set(name, changes[name]); err != nil {
			return s, err
		}
	}
	if next.text["FifoThroughputLimit"] == "perMessageGroupId" && !next.scopeByGroup {
		return s, errorf("InvalidAttributeValue", "The perMessageGroupId value of FifoThroughputLimit is allowed only when DeduplicationScope is messageGroup.")
	}
	if key := changes["KmsMasterKeyId"]; key != "" {
		if changes["SqsManagedSseEnabled"] == "true" {
			return s, newError(0, "InvalidAttributeName", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
		}
		next.text["SqsManagedSseEnabled"] = "false"
	} else if next.text["SqsManagedSseEnabled"] == "true" && next.text["KmsMasterKeyId"] != "" {
		return s, newError(0, "InvalidAttributeName", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
	}
	return next, nil
}

func (s *settings) set(name, value string) *apiError {
	if numeric, ok := numericAttributes[name]; ok {
		n, err := strconv.Atoi(value)
		if err != nil || n < numeric.least || n > numeric.most {
			return invalidAttributeValue(name)
		}
		numeric.parsed(s, n)
		if numeric.hideStandard && n == numeric.standard {
			delete(s.text, name)
		} else {
			s.text[name] = strconv.Itoa(n)
		}
		return nil
	}
	if values, ok := fifoAttributes[name]; ok {
		return s.setFIFO(name, value, values)
	}
	switch name {
	case "SqsManagedSseEnabled":
		if value != "true" && value != "false" {
			return invalidAttributeValue(name)
		}
	case "Policy":
		s.policy = nil
		if value != "" {
			policy, err := parsePolicy(value)
			if err != nil || len(value) > 8192 {
				return invalidAttributeValue(name)
			}
			s.policy = policy
		}
	case "RedrivePolicy":
		s.redrive = nil
		if value != "" {
			policy, err := parseRedrivePolicy(value)
			if err != nil {
				return err
			}
			s.redrive = policy
		}
	case "RedriveAllowPolicy":
		s.allow = nil
		if value != "" {
			policy, err := parseRedriveAllowPolicy(value)
			if err != nil {
				return err
			}
			s.allow = policy
		}
	case "KmsMasterKeyId":
	default:
		return unknownAttribute(name)
	}
	if value == "" {
		delete(s.text, name)
	} else {
		s.text[name] = value
	}
	return nil
}

// setFIFO sets an attribute of FIFO queues (sqs-facts 2, 3).
func (s *settings) setFIFO(name, value string, values [2]string) *apiError {
	if name == "FifoQueue" || name == "ContentBasedDeduplication" {
		value = strings.ToLower(value) // "True" will do, and is shown as "true"
	}
	scoped := name == "DeduplicationScope" || name == "FifoThroughputLimit"
	switch {
	case !s.fifo && scoped:
		return errorf("InvalidAttributeName", "You can specify the %s only when FifoQueue is set to true.", name)
	case !s.fifo:
		return unknownAttribute(name)
	case name == "FifoQueue" && value != "true":
		return newError(0, "InvalidAttributeValue", "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.")
	case value != values[0] && value != values[1]:
		return invalidAttributeValue(name)
	}
	switch name {
	case "ContentBasedDeduplication":
		s.contentDedup = value == "true"
	case "DeduplicationScope":
		s.scopeByGroup = value == "messageGroup"
	}
	s.text[name] = value
	return nil
}

// differs names the first of the given attributes whose value is not the current one,
// as CreateQueue compares them (sqs-facts 2); "" if all are equal.
func (s settings) differs(given map[string]string) (string, *apiError) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		// Setting it on the defaults checks and normalizes the value.
		probe := defaultSettings(s.fifo)
		if err := probe.set(name, given[name]); err != nil {
			return "", err
		}
		equal := probe.text[name] == s.text[name]
		if name == "RedrivePolicy" && probe.redrive != nil && s.redrive != nil {
			equal = *probe.redrive == *s.redrive
		}
		if !equal {
			return name, nil
		}
	}
	return "", nil
}

func unknownAttribute(name string) *apiError {
	return errorf("InvalidAttributeName", "Unknown Attribute %s.", name)
}

func invalidAttributeValue(name string) *apiError {
	return errorf("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
}

// attributes shows the attributes of the names asked for; none if none.
func (q *Queue) attributes(names []string, now time.Time) (map[string]string, *apiError) {
	for _, name := range names {
		_, numeric := numericAttributes[name]
		_, fifo := fifoAttributes[name]
		if !numeric && !fifo && name != "All" && name != "SqsManagedSseEnabled" && !slices.Contains(textAttributes, name) &&
			!slices.Contains(readOnlyAttributes, name) {
			return nil, unknownAttribute(name)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil, queueDoesNotExist()
	}
	q.advance(now)
	all := maps.Clone(q.settings.text)
	all["ApproximateNumberOfMessages"] = strconv.Itoa(q.visibleCount())
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(q.inFlight)
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(q.delayed)
	all["CreatedTimestamp"] = strconv.FormatInt(q.created.Unix(), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(q.modified.Unix(), 10)
	all["QueueArn"] = q.ARN()
	if slices.Contains(names, "All") {
		return all, nil
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(names, name) })
	return all, nil
}

// checkName refuses what CreateQueue does not take as a name (sqs-facts 2).
func checkName(name string, fifo bool) *apiError {
	base, hasSuffix := strings.CutSuffix(name, ".fifo")
	legal := base != "" && len(name) <= 80
	for i := range len(base) {
		c := base[i]
		legal = legal && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	}
	switch {
	case !legal || hasSuffix && !fifo:
		return newError(0, "InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	case fifo && !hasSuffix:
		return newError(0, "InvalidParameterValue", "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length")
	}
	return nil
}
