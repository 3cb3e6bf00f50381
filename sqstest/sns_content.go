package sqstest

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

const (
	maxSubject   = 100
	maxSNSNumber = 1e9
)

func badAttribute(format string, args ...any) *apiError {
	return snsErrorf("ParameterValueInvalid", format, args...)
}

// parseSNSAttributes checks the message attributes of a publication (sqs-facts 11), which
// may be more than SQS takes, and sorts them by name. The place is where an error finds
// them in the request.
func parseSNSAttributes(wire map[string]wireAttribute, place string) ([]attribute, *apiError) {
	if len(wire) == 0 {
		return nil, nil
	}
	attributes := make([]attribute, 0, len(wire))
	for _, name := range sortedKeys(wire) {
		a, err := parseSNSAttribute(name, wire[name], place)
		if err != nil {
			return nil, err
		}
		attributes = append(attributes, a)
	}
	return attributes, nil
}

func parseSNSAttribute(name string, wire wireAttribute, place string) (attribute, *apiError) {
	if err := checkSNSAttributeName(name); err != nil {
		return attribute{}, err
	}
	if wire.DataType == "" {
		return attribute{}, snsErrorf("ValidationError", "1 validation error detected: Value null at '%smessageAttributes.%s.member.dataType' failed to satisfy constraint: Member must not be null", place, name)
	}
	kind, label, labelled := strings.Cut(wire.DataType, ".")
	if kind != "String" && kind != "Number" && kind != "Binary" || labelled && label == "" {
		return attribute{}, badAttribute("The message attribute '%s' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.", name)
	}
	a := attribute{name: name, dataType: wire.DataType}
	field, text, blob := "String", wire.StringValue != nil, wire.BinaryValue != nil
	if kind == "Binary" {
		field, text, blob = "Binary", blob, text
	}
	switch {
	case blob && !text:
		return attribute{}, badAttribute("The message attribute '%s' with type '%s' must use field '%s'.", name, wire.DataType, field)
	case kind == "Binary" && len(wire.BinaryValue) == 0, kind != "Binary" && (!text || *wire.StringValue == ""):
		return attribute{}, badAttribute("The message attribute '%s' must contain non-empty message attribute value for message attribute type '%s'.", name, wire.DataType)
	case kind == "Binary":
		a.binary, a.isBinary = wire.BinaryValue, true
		return a, nil
	}
	a.text = *wire.StringValue
	if kind == "Number" && !isSNSNumber(a.text) {
		return attribute{}, badAttribute("The value of message attribute '%s' is not a number between -10^9 and 10^9.", name)
	}
	return a, nil
}

func checkSNSAttributeName(name string) *apiError {
	lower := strings.ToLower(name)
	switch {
	case name == "":
		return badAttribute("Message attribute name can not be empty.")
	case len(name) > maxAttributeName:
		return badAttribute("Length of message attribute name must be less than 256 bytes.")
	case strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon."):
		return badAttribute("Message attribute name can not start with AWS. or Amazon.")
	case strings.HasPrefix(name, "."):
		return badAttribute("Invalid message attribute name starting with character '.' was found.")
	case strings.HasSuffix(name, "."):
		return badAttribute("Invalid message attribute name ending with character '.' was found.")
	case strings.Contains(name, ".."):
		return badAttribute("Message attribute name can not have successive '.' character.")
	}
	for _, r := range name {
		legal := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
		if !legal {
			return badAttribute("Invalid non-alphanumeric character '#x%X' was found in the message attribute name. Can only include alphanumeric characters, hyphens, underscores, or dots.", r)
		}
	}
	return nil
}

func isSNSNumber(s string) bool {
	if !isNumber(s) {
		return false
	}
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && f >= -maxSNSNumber && f <= maxSNSNumber
}

func checkSubject(subject *string) *apiError {
	if subject == nil {
		return nil
	}
	if *subject == "" || len([]rune(*subject)) >= maxSubject || strings.ContainsFunc(*subject, unicode.IsControl) {
		return invalidParameter("Subject")
	}
	return nil
}

// structured picks what a message of the structure json says to queues.
func structured(message string) (string, *apiError) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal([]byte(message), &parts); err != nil {
		return "", invalidParameter("Message Structure - JSON message body failed to parse")
	}
	part := func(name string) (string, bool) {
		var text *string
		if err := json.Unmarshal(parts[name], &text); err != nil || text == nil {
			return "", false
		}
		return *text, true
	}
	text, ok := part("default")
	if !ok {
		return "", invalidParameter("Message Structure - No default entry in JSON message body")
	}
	if own, ok := part("sqs"); ok {
		return own, nil
	}
	return text, nil
}
