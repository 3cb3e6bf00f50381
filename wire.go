package watermillsqs

import (
	"crypto/md5" // SQS's choice; it guards against accidents, not against attackers
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// What SQS accepts in one message. Where the service is looser than its
// documentation (it takes accented letters in names, for one), the documented
// rule is kept: SNS and other consumers rely on it.
const (
	// maxMessageBytes is inclusive: exactly this much is accepted.
	maxMessageBytes = 1 << 20
	// maxAttributes is also where SNS, with raw delivery, starts to discard
	// messages without a word.
	maxAttributes = 10
	// maxNameBytes bounds an attribute's name and, separately, its data type.
	maxNameBytes = 256
	// maxDelaySeconds is 15 minutes.
	maxDelaySeconds = 900
	// maxTraceHeaderBytes is our own bound, since none is documented. A real
	// header is well below it.
	maxTraceHeaderBytes = 256
	// maxIDBytes bounds a group id and a deduplication id.
	maxIDBytes = 128

	typeString = "String"
	typeNumber = "Number"
	typeBinary = "Binary"
)

var (
	// ErrMessageTooLarge means that a message is over SQS's limit of 1 MiB
	// (1,048,576 bytes). The error that wraps it is a [*TooLargeError], which has
	// the sizes.
	ErrMessageTooLarge = errors.New("watermillsqs: message too large")

	// ErrInvalidMessage means that a message breaks another of SQS's rules: its
	// body or an attribute is empty or holds forbidden characters, it has too
	// many attributes, and so on. What [DefaultMarshaler] returns never does.
	ErrInvalidMessage = errors.New("watermillsqs: invalid message")
)

// TooLargeError says by how much a message is too large. It wraps
// [ErrMessageTooLarge].
type TooLargeError struct {
	// Size is what SQS counts, in bytes: Body and Attributes together.
	Size int
	// Body is the size of the body, in bytes. A payload that is not valid text
	// takes a third more than its own size there.
	Body int
	// Attributes is the size of the names, types and values of the message
	// attributes, in bytes.
	Attributes int
	// Limit is the largest Size that is accepted, in bytes.
	Limit int
}

// Error names the sizes and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%v: %d bytes (body %d, attributes %d), the limit is %d",
		ErrMessageTooLarge, e.Size, e.Body, e.Attributes, e.Limit)
}

// Unwrap returns [ErrMessageTooLarge].
func (e *TooLargeError) Unwrap() error { return ErrMessageTooLarge }

// Outgoing is one message as SQS carries it.
type Outgoing struct {
	// Body is the message's body: at least one byte of valid UTF-8, without
	// control characters (but tab, line feed and carriage return) and without
	// U+FFFE and U+FFFF.
	Body string

	// Attributes are the message attributes, at most 10. Default: none.
	Attributes map[string]types.MessageAttributeValue

	// DelaySeconds is how long the message stays hidden after it was sent, 0-900
	// seconds. Default: 0, which leaves it to the queue's own delay.
	DelaySeconds int32

	// TraceHeader is the value of the AWSTraceHeader system attribute, a valid
	// AWS X-Ray trace header. Default: "", none.
	TraceHeader string

	// GroupID is SQS's MessageGroupId: 1-128 ASCII letters, digits and punctuation
	// characters, without spaces. A FIFO queue needs one, and a standard queue takes
	// one. Default: "", the one that [PublisherConfig].GroupID or the metadata
	// ([GroupIDKey]) says.
	GroupID string

	// DeduplicationID is SQS's MessageDeduplicationId, of the same characters. It is
	// sent to FIFO queues only. Default: "", the one that
	// [PublisherConfig].DeduplicationID, the metadata ([DeduplicationIDKey]) or the
	// UUID of the message says.
	DeduplicationID string
}

// size returns the message's size as SQS counts it. The trace header is free.
func (o Outgoing) size() int {
	return len(o.Body) + o.attributesSize()
}

func (o Outgoing) attributesSize() int {
	size := 0
	for name, value := range o.Attributes {
		size += len(name) + len(aws.ToString(value.DataType)) + len(aws.ToString(value.StringValue)) + len(value.BinaryValue)
	}
	return size
}

// validate reports what SQS would refuse in the message. SQS fails a whole batch
// for some of it, and accepts a damaged message for some, so everything is
// checked before a message meets others. It never quotes contents, but the start of
// an id.
func (o Outgoing) validate() error {
	if size := o.size(); size > maxMessageBytes {
		return &TooLargeError{Size: size, Body: len(o.Body), Attributes: o.attributesSize(), Limit: maxMessageBytes}
	}
	if o.Body == "" {
		return fmt.Errorf("%w: the body is empty, SQS needs at least one character", ErrInvalidMessage)
	}
	if at := illegalAt(o.Body); at >= 0 {
		return fmt.Errorf("%w: the body holds what SQS forbids (invalid UTF-8, a control character, U+FFFE or U+FFFF) at byte %d",
			ErrInvalidMessage, at)
	}
	if n := len(o.Attributes); n > maxAttributes {
		return fmt.Errorf("%w: it has %d message attributes, SQS takes at most %d", ErrInvalidMessage, n, maxAttributes)
	}
	// The first by name, so that the same message always gives the same error.
	var wrongName, wrong string
	for name, value := range o.Attributes {
		if reason := attributeFault(name, value); reason != "" && (wrong == "" || name < wrongName) {
			wrongName, wrong = name, reason
		}
	}
	if wrong != "" {
		return fmt.Errorf("%w: message attribute %.300q: %s", ErrInvalidMessage, wrongName, wrong)
	}
	if o.DelaySeconds < 0 || o.DelaySeconds > maxDelaySeconds {
		return fmt.Errorf("%w: DelaySeconds is %d, must be 0-%d", ErrInvalidMessage, o.DelaySeconds, maxDelaySeconds)
	}
	if o.TraceHeader != "" && !legalTraceHeader(o.TraceHeader) {
		return fmt.Errorf("%w: TraceHeader is not a valid AWS X-Ray trace header", ErrInvalidMessage)
	}
	if err := idFault("GroupID", o.GroupID); err != nil {
		return err
	}
	return idFault("DeduplicationID", o.DeduplicationID)
}

// attributeFault says what SQS would refuse in one attribute, "" for nothing.
func attributeFault(name string, value types.MessageAttributeValue) string {
	switch {
	case !legalName(name):
		return "a name has 1-256 of A-Z a-z 0-9 _ - . and neither starts nor ends with a dot, has two in a row, nor begins with AWS. or Amazon."
	case !legalType(aws.ToString(value.DataType)):
		return "the data type must be String, Number or Binary, with or without a .label, of at most 256 bytes"
	case value.StringListValues != nil || value.BinaryListValues != nil:
		return "SQS does not implement list values"
	}
	switch base := baseType(*value.DataType); {
	case base == typeBinary && value.StringValue != nil, base != typeBinary && value.BinaryValue != nil:
		return "it has a value that is not of its data type"
	case base == typeBinary && len(value.BinaryValue) == 0, base != typeBinary && aws.ToString(value.StringValue) == "":
		return "the value is empty"
	case base == typeString && !legalText(*value.StringValue):
		return "the value holds what SQS forbids (invalid UTF-8, a control character, U+FFFE or U+FFFF)"
	case base == typeNumber && !legalNumber(*value.StringValue):
		return "the value is not a number of at most 38 digits, between 10^-128 and 10^126"
	}
	return ""
}

// attributeText returns an attribute's value and whether it has any. The type
// decides only where both values are set: foreign types and none are read too.
func attributeText(attribute types.MessageAttributeValue) (string, bool) {
	isBinary := baseType(aws.ToString(attribute.DataType)) == typeBinary
	if attribute.BinaryValue != nil && (isBinary || attribute.StringValue == nil) {
		return string(attribute.BinaryValue), true
	}
	return aws.ToString(attribute.StringValue), attribute.StringValue != nil
}

// attributeSet builds String attributes whose pointers lead into one array, of the
// size that is asked for, which saves two allocations for each.
type attributeSet struct {
	values  map[string]types.MessageAttributeValue
	backing []string
}

func newAttributeSet(size int) attributeSet {
	set := attributeSet{
		values:  make(map[string]types.MessageAttributeValue, size),
		backing: make([]string, 0, 1+size),
	}
	set.backing = append(set.backing, typeString)
	return set
}

func (s *attributeSet) set(name, value string) {
	s.backing = append(s.backing, value)
	s.values[name] = types.MessageAttributeValue{
		DataType:    &s.backing[0],
		StringValue: &s.backing[len(s.backing)-1],
	}
}

// illegalAt returns the offset of the first byte that SQS refuses in a body or
// in a String value, or -1. Legal are U+0009, U+000A, U+000D, U+0020-U+D7FF,
// U+E000-U+FFFD and U+10000-U+10FFFF, in valid UTF-8. Invalid UTF-8 matters most:
// the SDK would send U+FFFD for it, and the queue would hold a damaged message.
func illegalAt[T ~string | ~[]byte](text T) int {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
		if r == utf8.RuneError && size == 1 || r == '\uFFFE' || r == '\uFFFF' {
			return i
		}
		i += size
	}
	return -1
}

// legalText reports whether text can be a body or a String value.
func legalText[T ~string | ~[]byte](text T) bool {
	return len(text) > 0 && illegalAt(text) < 0
}

// legalName reports whether name can name a message attribute.
func legalName(name string) bool {
	if name == "" || len(name) > maxNameBytes || name[0] == '.' || name[len(name)-1] == '.' {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case isAlphanumeric(c), c == '_', c == '-':
		case c == '.' && name[i-1] != '.':
		default:
			return false
		}
	}
	return !hasPrefixFold(name, "aws.") && !hasPrefixFold(name, "amazon.")
}

// legalType reports whether dataType is String, Number or Binary, with a label
// or without.
func legalType(dataType string) bool {
	if len(dataType) > maxNameBytes || illegalAt(dataType) >= 0 || strings.HasSuffix(dataType, ".") {
		return false
	}
	switch baseType(dataType) {
	case typeString, typeNumber, typeBinary:
		return true
	}
	return false
}

// baseType returns the data type without its label: "Number" for "Number.int".
func baseType(dataType string) string {
	base, _, _ := strings.Cut(dataType, ".")
	return base
}

// legalNumber reports whether SQS takes text as a Number: a decimal of at most
// 38 significant digits that is zero or of a magnitude of 10^-128 to 10^126.
func legalNumber(text string) bool {
	const maxDigits, minExponent, maxExponent = 38, -128, 126

	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	exponent := 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil || exponent < -maxMessageBytes || exponent > maxMessageBytes {
			return false
		}
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	significant := strings.TrimLeft(digits, "0")
	if significant == "" {
		return digits != ""
	}
	// The exponent of the first significant digit: 2 for 123, -2 for 0.0123.
	exponent += len(whole) - (len(digits) - len(significant)) - 1
	significant = strings.TrimRight(significant, "0")
	return len(significant) <= maxDigits && exponent >= minExponent &&
		(exponent < maxExponent || exponent == maxExponent && significant == "1")
}

// legalTraceHeader reports whether text is an X-Ray trace header, such as
//
//	Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1
//
// It is strict on purpose. A header wrongly taken for valid costs the message,
// since SQS refuses it; one wrongly taken for invalid travels as ordinary
// metadata, and only X-Ray does not see it.
func legalTraceHeader(text string) bool {
	if len(text) > maxTraceHeaderBytes {
		return false
	}
	var root, parent, sampled bool
	for field := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(field, "=")
		var ok bool
		switch key {
		case "Root":
			// Version, seconds since the epoch, 96 random bits.
			ok = !root && len(value) == 35 && strings.HasPrefix(value, "1-") && value[10] == '-' &&
				isHex(value[2:10]) && isHex(value[11:])
			root = true
		case "Parent":
			ok = !parent && len(value) == 16 && isHex(value)
			parent = true
		case "Sampled":
			ok = !sampled && (value == "0" || value == "1")
			sampled = true
		default:
			// Self, Lineage, and fields that applications add.
			ok = legalTraceField(key, value)
		}
		if !ok {
			return false
		}
	}
	return root
}

func legalTraceField(key, value string) bool {
	for i := range len(key) {
		if c := key[i]; !isAlphanumeric(c) && c != '_' && c != '-' {
			return false
		}
	}
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return key != "" && value != ""
}

// idRule is what SQS asks of group ids and of deduplication ids.
const idRule = "must be 1-128 ASCII letters, digits and punctuation characters, without spaces"

// legalID reports whether SQS takes id as a group id or a deduplication id.
func legalID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= maxIDBytes
}

// idFault is the error about an id that SQS would refuse, nil for none.
func idFault(field, id string) error {
	if id == "" || legalID(id) {
		return nil
	}
	return fmt.Errorf("%w: %s is %.40q (%d bytes), it %s", ErrInvalidMessage, field, id, len(id), idRule)
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// matchesMD5 reports whether sum is the MD5 of body, in hexadecimal, or absent.
func matchesMD5(body string, sum *string) bool {
	if sum == nil {
		return true
	}
	actual := md5.Sum([]byte(body))
	var text [2 * md5.Size]byte
	hex.Encode(text[:], actual[:])
	return strings.EqualFold(string(text[:]), *sum)
}
