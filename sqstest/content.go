package sqstest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxMessageAttributes = 10
	maxAttributeName     = 256
	maxNumberDigits      = 38
)

// illegalCharacters is the text for characters outside of what SQS takes (sqs-facts 4.2).
const illegalCharacters = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"

func legalText(s string) bool {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == 0xfffe || r == 0xffff || r == utf8.RuneError && size == 1 {
			return false
		}
		i += size
	}
	return true
}

// wireAttribute is a message attribute in a request.
type wireAttribute struct {
	DataType         string
	StringValue      *string
	BinaryValue      []byte
	StringListValues []string
	BinaryListValues [][]byte
}

// parseAttributes checks message attributes (sqs-facts 4.3) and sorts them by name.
func parseAttributes(wire map[string]wireAttribute) ([]attribute, *apiError) {
	if len(wire) == 0 {
		return nil, nil
	}
	if len(wire) > maxMessageAttributes {
		return nil, errorf("InvalidParameterValue", "Number of message attributes [%d] exceeds the allowed maximum [%d].", len(wire), maxMessageAttributes)
	}
	attributes := make([]attribute, 0, len(wire))
	for _, name := range slices.Sorted(maps.Keys(wire)) {
		a, err := parseAttribute(name, wire[name])
		if err != nil {
			return nil, err
		}
		attributes = append(attributes, a)
	}
	return attributes, nil
}

func parseAttribute(name string, wire wireAttribute) (attribute, *apiError) {
	if !legalAttributeName(name) {
		return attribute{}, errorf("InvalidParameterValue", "Message (user) attribute name '%s' is invalid: it can contain letters, digits, hyphens, underscores and single periods between them, is at most %d characters long and does not begin with AWS. or Amazon.", name, maxAttributeName)
	}
	kind, label, labelled := strings.Cut(wire.DataType, ".")
	switch {
	case wire.DataType == "":
		return attribute{}, errorf("InvalidParameterValue", "The message attribute '%s' must contain non-empty message attribute type.", name)
	case kind != "String" && kind != "Number" && kind != "Binary" || labelled && label == "" || len(wire.DataType) > maxAttributeName:
		return attribute{}, errorf("InvalidParameterValue", "The message attribute '%s' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.", name)
	case len(wire.StringListValues) > 0 || len(wire.BinaryListValues) > 0:
		return attribute{}, newError(0, "UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported.")
	}
	a := attribute{name: name, dataType: wire.DataType}
	if kind == "Binary" {
		if len(wire.BinaryValue) == 0 || wire.StringValue != nil {
			return attribute{}, noValue(name, wire.DataType)
		}
		a.binary, a.isBinary = wire.BinaryValue, true
		return a, nil
	}
	if wire.StringValue == nil || *wire.StringValue == "" || wire.BinaryValue != nil {
		return attribute{}, noValue(name, wire.DataType)
	}
	a.text = *wire.StringValue
	if !legalText(a.text) {
		return attribute{}, newError(0, "InvalidParameterValue", illegalCharacters)
	}
	if kind == "Number" && !isNumber(a.text) {
		return attribute{}, errorf("InvalidParameterValue", "Can't cast the value of message (user) attribute '%s' to a number.", name)
	}
	return a, nil
}

func noValue(name, dataType string) *apiError {
	return errorf("InvalidParameterValue", "Message (user) attribute '%s' must contain a non-empty value of type '%s'.", name, dataType)
}

// legalAttributeName takes letters of any script, as SQS was seen to (sqs-facts 4.3).
func legalAttributeName(name string) bool {
	if name == "" || utf8.RuneCountInString(name) > maxAttributeName ||
		strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return false
	}
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") {
		return false
	}
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.' {
			return false
		}
	}
	return true
}

// isNumber tells whether a text is a number of at most 38 digits between 10^-128 and
// 10^126, or zero.
func isNumber(s string) bool {
	digits := 0
	mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			if i < len(mantissa) {
				digits++
			}
		case c != '+' && c != '-' && c != '.' && c != 'e' && c != 'E':
			return false // what ParseFloat takes beyond decimal numbers
		}
	}
	if digits > maxNumberDigits {
		return false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return false
	}
	f = max(f, -f)
	return f == 0 || f >= 1e-128 && f <= 1e126
}

// parseSystemAttributes takes the one system attribute that can be sent.
func parseSystemAttributes(wire map[string]wireAttribute) (traceHeader string, err *apiError) {
	for name, a := range wire {
		if name != "AWSTraceHeader" {
			return "", errorf("InvalidParameterValue", "Message system attribute name '%s' is invalid. Valid names are: [AWSTraceHeader].", name)
		}
		if a.DataType != "String" || a.StringValue == nil || *a.StringValue == "" {
			return "", errorf("InvalidParameterValue", "Message (system) attribute '%s' must contain a non-empty value of type 'String'.", name)
		}
		traceHeader = *a.StringValue
	}
	return traceHeader, nil
}

// contentSize is what counts towards size limits: the body and the names, types and
// values of attributes, but no system attributes (sqs-facts 4.1).
func contentSize(body string, attributes []attribute) int {
	size := len(body)
	for i := range attributes {
		a := &attributes[i]
		size += len(a.name) + len(a.dataType) + len(a.text) + len(a.binary)
	}
	return size
}
