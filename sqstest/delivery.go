package sqstest

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// senderID is the SenderId of every message.
const senderID = "AIDAIT2UOQQY3AUEKVGXU"

// delivery is a message as one receive returns it.
type delivery struct {
	message         *message
	receipt         string
	serial          uint32
	receiveCount    int
	firstReceivedAt time.Time
	sequence        string
	sourceARN       string
	dedupID         string // that of the queue it was received from
}

// answer writes the messages with the attributes that were asked for.
func (r *receiveMessageRequest) answer(received []delivery) []byte {
	size := 32
	for _, d := range received {
		size += len(d.message.body) + len(d.message.body)/8 + 512
	}
	o := newObject(make([]byte, 0, size))
	o.key("Messages")
	o.b = append(o.b, '[')
	for i, d := range received {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = r.appendMessage(o.b, d)
	}
	o.b = append(o.b, ']')
	return o.end()
}

func (r *receiveMessageRequest) appendMessage(b []byte, d delivery) []byte {
	m := d.message
	o := newObject(b)
	o.text("MessageId", m.id)
	o.text("ReceiptHandle", d.receipt)
	o.text("MD5OfBody", m.bodyMD5)
	o.text("Body", m.body)
	if r.wantsSystem() {
		o.key("Attributes")
		o.b = r.appendSystem(o.b, d)
	}
	// The checksum covers what is returned, not what was sent (sqs-facts 4.4).
	wanted, checksum := m.attributes, m.attrsMD5
	if !r.wantsEvery() {
		wanted = nil
		for _, a := range m.attributes {
			if r.wants(a.name) {
				wanted = append(wanted, a)
			}
		}
		if len(wanted) != len(m.attributes) {
			checksum = attributesMD5(wanted)
		}
	}
	if len(wanted) > 0 {
		o.text("MD5OfMessageAttributes", checksum)
		o.key("MessageAttributes")
		o.b = appendAttributes(o.b, wanted)
	}
	return o.end()
}

func appendAttributes(b []byte, attributes []attribute) []byte {
	b = append(b, '{')
	for i, a := range attributes {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, a.name)
		b = append(b, ':')
		o := newObject(b)
		if a.isBinary {
			o.blob("BinaryValue", a.binary)
		} else {
			o.text("StringValue", a.text)
		}
		o.text("DataType", a.dataType)
		b = o.end()
	}
	return append(b, '}')
}

func (r *receiveMessageRequest) wantsSystem() bool {
	return len(r.AttributeNames)+len(r.MessageSystemAttributeNames) > 0
}

// appendSystem appends the system attributes that were asked for and apply.
func (r *receiveMessageRequest) appendSystem(b []byte, d delivery) []byte {
	m, o := d.message, newObject(b)
	every := r.namesSystem("All")
	for _, a := range [...]struct{ name, value string }{
		{"SenderId", senderID},
		{"SentTimestamp", milliseconds(m.sentAt)},
		{"ApproximateReceiveCount", strconv.Itoa(d.receiveCount)},
		{"ApproximateFirstReceiveTimestamp", milliseconds(d.firstReceivedAt)},
		{"MessageGroupId", m.groupID},
		{"MessageDeduplicationId", d.dedupID},
		{"SequenceNumber", d.sequence},
		{"AWSTraceHeader", m.traceHeader},
		{"DeadLetterQueueSourceArn", d.sourceARN},
	} {
		if a.value != "" && (every || r.namesSystem(a.name)) {
			o.text(a.name, a.value)
		}
	}
	return o.end()
}

func milliseconds(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func (r *receiveMessageRequest) namesSystem(name string) bool {
	return slices.Contains(r.AttributeNames, name) || slices.Contains(r.MessageSystemAttributeNames, name)
}

func (r *receiveMessageRequest) wantsEvery() bool {
	return slices.ContainsFunc(r.MessageAttributeNames, func(name string) bool {
		return name == "All" || name == ".*" || name == "*"
	})
}

// wants tells whether an attribute was asked for by its name or by what its name begins
// with: "a.*" asks for "a.b" and for "ab".
func (r *receiveMessageRequest) wants(attribute string) bool {
	return slices.ContainsFunc(r.MessageAttributeNames, func(name string) bool {
		prefix, isPrefix := strings.CutSuffix(name, ".*")
		return name == attribute || isPrefix && strings.HasPrefix(attribute, prefix)
	})
}
