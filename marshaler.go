package watermillsqs

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// The names that this library reserves on the wire. Metadata may use them as keys
// all the same: such a pair is packed.
const (
	// UUIDAttribute is the message attribute that carries the UUID of a Watermill
	// message. It is the one that watermill-aws uses, so both libraries see the
	// same UUID. A message without it, and without a packed UUID, gets the SQS
	// message id as its UUID.
	UUIDAttribute = "_watermill_message_uuid"

	// PackedAttribute is the message attribute that carries what attributes of
	// their own cannot, as one JSON object. Its members, all optional:
	//
	//	uuid        the UUID, where it is empty or holds forbidden characters
	//	uuid64      the UUID in base64, where it is not valid UTF-8
	//	metadata    an object with metadata pairs
	//	metadata64  the same with keys and values in base64, for pairs that are
	//	            not valid UTF-8
	//	body        the body's encoding, where BodyEncodingAttribute has no room
	PackedAttribute = "_watermillsqs_packed"

	// BodyEncodingAttribute is the message attribute that says that the body is
	// not the payload itself: "base64" where it is the payload in standard base64,
	// "empty" where it is a placeholder for an empty payload.
	BodyEncodingAttribute = "_watermillsqs_body_encoding"

	// TraceHeaderKey is the metadata key of the AWS X-Ray trace header. A valid
	// one travels as SQS's system attribute of the same name, which takes none of
	// the ten attributes and is not counted in the size.
	TraceHeaderKey = "AWSTraceHeader"
)

var (
	// ErrInvalidDelay means that a message's delay metadata (Watermill's
	// components/delay) cannot be read, asks for more than the 15 minutes for which
	// SQS can delay a message, or asks a FIFO queue for a delay, which has none for
	// a single message.
	ErrInvalidDelay = errors.New("watermillsqs: invalid delay")
)

const (
	bodyBase64 = "base64"
	bodyEmpty  = "empty"

	// emptyBody stands for the empty payload, which SQS refuses as a body.
	emptyBody = "(empty)"

	// maxAttributeKeys is what is left for named keys when the UUID and the packed
	// attribute are there too.
	maxAttributeKeys = maxAttributes - 2
)

// Marshaler turns a Watermill message into what SQS carries, and back.
//
// An implementation is pure: it does no I/O, is safe for concurrent use, and
// neither changes its arguments nor keeps them.
type Marshaler interface {
	// Marshal returns what to send for msg to topic. The result is checked against
	// SQS's rules afterwards, so an implementation needs no checks of its own. An
	// error fails the message before anything is sent.
	Marshal(topic string, msg *message.Message) (Outgoing, error)

	// Unmarshal returns the Watermill message for one received from topic. An
	// error, which should wrap [ErrUndecodable], means that no handler can get the
	// message; it is reported, and left to the queue's redrive policy.
	Unmarshal(topic string, msg types.Message) (*message.Message, error)
}

// DefaultMarshaler is the [Marshaler] that is used where none is configured. Its
// zero value is ready to use.
//
// Every metadata pair becomes a String message attribute and the UUID another
// ([UUIDAttribute]), as watermill-aws does, so the two libraries read each
// other's messages. What attributes cannot carry is packed into one more
// ([PackedAttribute]) and restored exactly: pairs beyond the ten attributes of a
// message, names that SQS forbids, empty values, bytes that are not text, an
// empty UUID. A payload that is valid text is the body as it is; any other is
// encoded, and marked by [BodyEncodingAttribute]. So any UUID, any payload and
// any metadata come back as they were published, except that
//
//   - a nil payload comes back as an empty one, nil metadata as an empty map;
//   - delay metadata (Watermill's components/delay) is consumed: it becomes
//     DelaySeconds and is not carried on;
//   - a deduplication id ([DeduplicationIDKey]) is consumed, too, by Publish;
//   - the metadata in which this library records a verdict is not published.
//
// The delay is what remains until delay.DelayedUntilKey or, where that is absent
// or empty, the duration in delay.DelayedForKey; rounded up to whole seconds, and
// none if it is past. A malformed one, or one over 15 minutes, is an error that
// wraps [ErrInvalidDelay].
//
// Messages of other producers are read too: every attribute of any type becomes
// metadata, a binary one with its bytes as they are. The envelope that SNS puts
// around a message without raw delivery is not unwrapped.
type DefaultMarshaler struct {
	// AttributeKeys names the metadata keys that must stay message attributes when
	// a message has more metadata than fits, for the sake of SNS filter policies
	// and of other consumers. They are placed first, then the rest in sorted
	// order. A pair that cannot be an attribute is packed even if it is named.
	// At most 8: with more, Marshal returns an error that wraps
	// [ErrInvalidConfig]. Default: none.
	AttributeKeys []string
}

var _ Marshaler = DefaultMarshaler{}

// validate reports a configuration that cannot keep its promise, so that a
// publisher can refuse it when it is built.
func (m DefaultMarshaler) validate() error {
	if n := len(m.AttributeKeys); n > maxAttributeKeys {
		return fmt.Errorf("%w: DefaultMarshaler.AttributeKeys has %d keys, must be 0-%d", ErrInvalidConfig, n, maxAttributeKeys)
	}
	return nil
}

// Marshal implements [Marshaler]. Its errors wrap [ErrInvalidDelay],
// [ErrInvalidConfig] for too many AttributeKeys, or [ErrInvalidMessage] for a nil
// message. It does not look at the size.
func (m DefaultMarshaler) Marshal(_ string, msg *message.Message) (Outgoing, error) {
	if err := m.validate(); err != nil {
		return Outgoing{}, err
	}
	if msg == nil {
		return Outgoing{}, fmt.Errorf("%w: it is nil", ErrInvalidMessage)
	}
	delaySeconds, err := delayOf(msg.Metadata)
	if err != nil {
		return Outgoing{}, err
	}
	out := Outgoing{DelaySeconds: delaySeconds}
	var encoding string
	out.Body, encoding = encodeBody(msg.Payload)

	// Sort out what can be an attribute at all.
	var pack packed
	var buffer [maxAttributes]string
	keys := buffer[:0]
	for key, value := range msg.Metadata {
		switch {
		case isConsumed(key):
		case key == TraceHeaderKey && legalTraceHeader(value):
			out.TraceHeader = value
		case isOwnAttribute(key), !legalName(key), !legalText(value):
			pack.add(key, value)
		default:
			keys = append(keys, key)
		}
	}
	uuidFits := legalText(msg.UUID)
	if !uuidFits {
		pack.setUUID(msg.UUID)
	}

	// Share out the attributes.
	room := maxAttributes
	if uuidFits {
		room--
	}
	if encoding != "" {
		room--
	}
	if len(keys) > room || !pack.isEmpty() {
		room--
	}
	if len(keys) > room {
		named := m.order(keys)
		if named > room && encoding != "" {
			// The body's marker gives way to a named key: it can be packed.
			pack.Body, encoding = encoding, ""
			room++
		}
		for _, key := range keys[room:] {
			pack.add(key, msg.Metadata[key])
		}
		keys = keys[:room]
	}

	attributes := newAttributeSet(len(keys) + maxAttributes - room)
	for _, key := range keys {
		attributes.set(key, msg.Metadata[key])
	}
	if uuidFits {
		attributes.set(UUIDAttribute, msg.UUID)
	}
	if encoding != "" {
		attributes.set(BodyEncodingAttribute, encoding)
	}
	if !pack.isEmpty() {
		attributes.set(PackedAttribute, pack.encode())
	}
	out.Attributes = attributes.values
	return out, nil
}

// order puts the keys that AttributeKeys names first, sorts the rest, and returns
// how many are named.
func (m DefaultMarshaler) order(keys []string) (named int) {
	rank := func(key string) int {
		if i := slices.Index(m.AttributeKeys, key); i >= 0 {
			return i
		}
		return len(m.AttributeKeys)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
	for named < len(keys) && rank(keys[named]) < len(m.AttributeKeys) {
		named++
	}
	return named
}

// Unmarshal implements [Marshaler]. Its errors wrap [ErrUndecodable]. Delay
// metadata, a deduplication id and recorded verdicts that a message carries are
// dropped, since they take effect once; the X-Ray trace header is added under [TraceHeaderKey]. The
// message's Metadata and Payload are never nil.
func (DefaultMarshaler) Unmarshal(_ string, msg types.Message) (*message.Message, error) {
	result := message.NewMessage("", nil)
	var encoding, packedText string
	var hasUUID, isEncoded, isPacked bool
	for name, attribute := range msg.MessageAttributes {
		value, ok := attributeText(attribute)
		switch {
		case name == BodyEncodingAttribute:
			encoding, isEncoded = value, true
		case name == PackedAttribute:
			packedText, isPacked = value, true
		case !ok:
			// Neither value is set, which SQS never delivers.
		case name == UUIDAttribute:
			result.UUID, hasUUID = value, true
		case !isConsumed(name):
			result.Metadata[name] = value
		}
	}

	if isPacked {
		pack, err := decodePacked(packedText)
		if err != nil {
			return nil, fmt.Errorf("%w: attribute %s: %w", ErrUndecodable, PackedAttribute, err)
		}
		if pack.UUID != nil {
			result.UUID, hasUUID = *pack.UUID, true
		}
		if !isEncoded && pack.Body != "" {
			encoding, isEncoded = pack.Body, true
		}
		// What is packed was published so; an attribute of the same name was added
		// on the way.
		for key, value := range pack.Metadata {
			if !isConsumed(key) {
				result.Metadata[key] = value
			}
		}
	}
	if !hasUUID {
		result.UUID = aws.ToString(msg.MessageId)
	}
	if header := msg.Attributes[string(types.MessageSystemAttributeNameAWSTraceHeader)]; header != "" {
		if _, ok := result.Metadata[TraceHeaderKey]; !ok {
			result.Metadata[TraceHeaderKey] = header
		}
	}

	if !isEncoded {
		result.Payload = []byte(aws.ToString(msg.Body))
		return result, nil
	}
	var err error
	if result.Payload, err = decodeBody(aws.ToString(msg.Body), encoding); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return result, nil
}

// isConsumed reports whether metadata under key takes effect once, and so is
// neither published nor delivered.
func isConsumed(key string) bool {
	return key == delay.DelayedUntilKey || key == delay.DelayedForKey || key == DeduplicationIDKey || isReservedKey(key)
}

// isOwnAttribute reports whether an attribute of this name has a meaning of its
// own, so that metadata cannot use it.
func isOwnAttribute(name string) bool {
	return name == UUIDAttribute || name == PackedAttribute || name == BodyEncodingAttribute
}

// delayOf reads the delay metadata. An empty value means none, as in Watermill.
func delayOf(metadata message.Metadata) (int32, error) {
	key, remaining := delay.DelayedUntilKey, time.Duration(0)
	value := metadata[key]
	if value != "" {
		until, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return 0, fmt.Errorf("%w: metadata %s is %.100q, which is not a time in RFC 3339", ErrInvalidDelay, key, value)
		}
		remaining = time.Until(until)
	} else {
		key = delay.DelayedForKey
		if value = metadata[key]; value == "" {
			return 0, nil
		}
		var err error
		if remaining, err = time.ParseDuration(value); err != nil {
			return 0, fmt.Errorf("%w: metadata %s is %.100q, which is not a Go duration", ErrInvalidDelay, key, value)
		}
	}
	if remaining > maxDelaySeconds*time.Second {
		return 0, fmt.Errorf("%w: metadata %s is %.100q, which is more than the 15 minutes that SQS can delay a message",
			ErrInvalidDelay, key, value)
	}
	return int32(max(0, (remaining+time.Second-1)/time.Second)), nil
}

// encodeBody returns the body for payload and its encoding, "" where the body is
// the payload itself.
func encodeBody(payload []byte) (body, encoding string) {
	switch {
	case len(payload) == 0:
		return emptyBody, bodyEmpty
	case legalText(payload):
		return string(payload), ""
	}
	return base64.StdEncoding.EncodeToString(payload), bodyBase64
}

func decodeBody(body, encoding string) ([]byte, error) {
	switch encoding {
	case bodyBase64:
		return base64.StdEncoding.DecodeString(body)
	case bodyEmpty:
		// Anything else was not put there by us, and must not vanish.
		if body != emptyBody {
			return nil, fmt.Errorf("a body of %d bytes is marked as empty", len(body))
		}
		return []byte{}, nil
	}
	return nil, fmt.Errorf("unknown body encoding %.64q", encoding)
}

// checkBody compares the body with the checksum that SQS sent along, if any. The
// SDK's own check is off, since it discards a whole receive for one damaged body.
// The error wraps [ErrUndecodable].
func checkBody(msg types.Message) error {
	if body := aws.ToString(msg.Body); !matchesMD5(body, msg.MD5OfBody) {
		return fmt.Errorf("%w: its body of %d bytes does not match its MD5 %.64q", ErrUndecodable, len(body), *msg.MD5OfBody)
	}
	return nil
}

// packed is what PackedAttribute carries.
type packed struct {
	UUID       *string           `json:"uuid,omitempty"`
	UUID64     *string           `json:"uuid64,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Metadata64 map[string]string `json:"metadata64,omitempty"`
	Body       string            `json:"body,omitempty"`
}

func (p *packed) isEmpty() bool {
	return p.UUID == nil && p.UUID64 == nil && len(p.Metadata) == 0 && len(p.Metadata64) == 0 && p.Body == ""
}

func (p *packed) setUUID(uuid string) {
	if utf8.ValidString(uuid) {
		p.UUID = &uuid
		return
	}
	uuid = base64.StdEncoding.EncodeToString([]byte(uuid))
	p.UUID64 = &uuid
}

func (p *packed) add(key, value string) {
	// JSON holds any valid UTF-8, and would replace anything else.
	target := &p.Metadata
	if !utf8.ValidString(key) || !utf8.ValidString(value) {
		target = &p.Metadata64
		key = base64.StdEncoding.EncodeToString([]byte(key))
		value = base64.StdEncoding.EncodeToString([]byte(value))
	}
	if *target == nil {
		*target = make(map[string]string)
	}
	(*target)[key] = value
}

// escapeNoncharacters escapes the two characters that SQS forbids and that JSON
// encoders leave as they are.
var escapeNoncharacters = strings.NewReplacer("\uFFFE", `\ufffe`, "\uFFFF", `\uffff`)

// encode returns p as JSON that holds nothing that SQS forbids. Equal contents
// give equal text.
func (p *packed) encode() string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	// Strings and maps of strings cannot fail to encode, and a buffer cannot fail to take them.
	_ = encoder.Encode(p) //nolint:errchkjson // as above
	return escapeNoncharacters.Replace(strings.TrimSuffix(buffer.String(), "\n"))
}

// decodePacked reverses encode. The result holds everything in UUID, Metadata and
// Body.
func decodePacked(text string) (*packed, error) {
	// A null would decode into nothing, and invalid UTF-8 into other text.
	if !strings.HasPrefix(text, "{") || !utf8.ValidString(text) {
		return nil, errors.New("not a JSON object")
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	// A member that a later version adds must not get lost here.
	decoder.DisallowUnknownFields()
	var p packed
	if err := decoder.Decode(&p); err != nil {
		return nil, err
	}
	if decoder.InputOffset() != int64(len(text)) {
		return nil, fmt.Errorf("unexpected text after the JSON object, at offset %d", decoder.InputOffset())
	}
	if p.UUID64 != nil {
		uuid, err := base64.StdEncoding.DecodeString(*p.UUID64)
		if err != nil {
			return nil, fmt.Errorf("uuid64: %w", err)
		}
		decoded := string(uuid)
		p.UUID = &decoded
	}
	if p.Metadata == nil && len(p.Metadata64) > 0 {
		p.Metadata = make(map[string]string, len(p.Metadata64))
	}
	for key64, value64 := range p.Metadata64 {
		key, keyErr := base64.StdEncoding.DecodeString(key64)
		value, valueErr := base64.StdEncoding.DecodeString(value64)
		if err := cmp.Or(keyErr, valueErr); err != nil {
			return nil, fmt.Errorf("metadata64: %w", err)
		}
		p.Metadata[string(key)] = string(value)
	}
	return &p, nil
}
