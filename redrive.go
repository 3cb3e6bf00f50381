package watermillsqs

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// redrivePolicy is the RedrivePolicy attribute of a queue: after
// maxReceiveCount receives, the next receive moves a message to the dead-letter
// queue instead of delivering it.
type redrivePolicy struct {
	maxReceiveCount int
	deadLetterARN   string
}

// attribute is the policy as SetQueueAttributes takes it.
func (p redrivePolicy) attribute() string {
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, p.deadLetterARN, p.maxReceiveCount)
}

// parseRedrivePolicy reads the attribute as GetQueueAttributes returns it. The
// count comes as a number or as a numeric string, depending on who wrote it. An
// empty attribute is no policy (nil).
func parseRedrivePolicy(attribute string) (*redrivePolicy, error) {
	if attribute == "" {
		return nil, nil //nolint:nilnil // no policy is what nil says
	}
	var wire struct {
		DeadLetterTargetArn string          `json:"deadLetterTargetArn"`
		MaxReceiveCount     json.RawMessage `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(attribute), &wire); err != nil {
		return nil, fmt.Errorf("RedrivePolicy %q: %w", attribute, err)
	}
	text := string(wire.MaxReceiveCount)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		return nil, fmt.Errorf("RedrivePolicy %q: maxReceiveCount is not a positive number", attribute)
	}
	return &redrivePolicy{maxReceiveCount: count, deadLetterARN: wire.DeadLetterTargetArn}, nil
}
