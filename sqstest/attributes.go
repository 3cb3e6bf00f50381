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
	text map[string]string

	visibility time.Duration
	delay      time.Duration
	wait       time.Duration
	retention  time.Duration
	maxSize    int
	redrive    *redrivePolicy // nil: none
	allow      *redriveAllowPolicy
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

// fifoAttributes exist on FIFO queues only.
var fifoAttributes = []string{"ContentBasedDeduplication", "DeduplicationScope", "FifoQueue", "FifoThroughputLimit"}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func defaultSettings() settings {
	s := settings{text: map[string]string{"SqsManagedSseEnabled": "true"}}
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
	switch name {
	case "SqsManagedSseEnabled":
		if value != "true" && value != "false" {
			return invalidAttributeValue(name)
		}
	case "Policy":
		if len(value) > 8192 {
			return invalidAttributeValue(name)
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
	case "DeduplicationScope", "FifoThroughputLimit":
		return errorf("InvalidAttributeName", "You can specify the %s only when FifoQueue is set to true.", name)
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

// differs names the first of the given attributes whose value is not the current one,
// as CreateQueue compares them (sqs-facts 2); "" if all are equal.
func (s settings) differs(given map[string]string) (string, *apiError) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		// Setting it on the defaults checks and normalizes the value.
		probe := defaultSettings()
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
		if !numeric && name != "All" && name != "SqsManagedSseEnabled" && !slices.Contains(textAttributes, name) &&
			!slices.Contains(readOnlyAttributes, name) && !slices.Contains(fifoAttributes, name) {
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
	all["ApproximateNumberOfMessages"] = strconv.Itoa(q.visible.length)
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
	case fifo:
		return newError(0, "InvalidParameterValue", "sqstest: FIFO queues are not modelled yet")
	}
	return nil
}
