package sqstest

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// message is a message in a queue. The first group of fields never changes once the
// message is in a queue; the mutex of the queue guards the others.
type message struct {
	number      uint64 // unique in the service, rising in the order of sends and of moves to FIFO queues
	id          string
	body        string
	bodyMD5     string
	attributes  []attribute // sorted by name
	attrsMD5    string
	traceHeader string
	groupID     string
	dedupID     string // on FIFO queues
	sentAt      time.Time
	enqueuedAt  time.Time // when its retention began

	state           messageState
	visibleAt       time.Time // when a hidden message is to be seen, or when a visible one could be
	receiveCount    int
	firstReceivedAt time.Time
	receivedAt      time.Time // start of the receive that the latest receipt is of
	serial          uint32    // of the latest receipt, 0 when never received
	revoked         uint32    // receipts up to this serial were made unusable by a fault
	changed         bool      // the visibility was changed under the latest receipt
	sourceARN       string    // of the queue it was dead-lettered from

	prev, next   *message // neighbours in the list of visible messages or, on FIFO queues, in the group
	group        *group   // on FIFO queues, while in one
	older, newer *message // neighbours in a FIFO queue
	history      *history // nil only in tests
	hiddenSlot   int      // place in the heap of hidden messages
	ageSlot      int      // place in the heap by age
}

type messageState uint8

const (
	stateVisible messageState = iota
	stateInFlight
	stateDelayed
)

// attribute is a message attribute. The value is text or, for Binary types, binary.
type attribute struct {
	name     string
	dataType string
	text     string
	binary   []byte
	isBinary bool
}

// MessageView shows a message as it was at one moment. In a fault's Message it may be
// one that is about to be sent, which has no ID yet.
type MessageView struct {
	ID         string
	Body       string
	Attributes map[string]types.MessageAttributeValue
	GroupID    string
	// DeduplicationID and SequenceNumber are those of a message of a FIFO queue.
	DeduplicationID string
	SequenceNumber  string
	ReceiveCount    int
	// Visible tells that a receive could return the message. On a FIFO queue one that is
	// behind an invisible one of its group is not visible.
	Visible bool
	// InFlight tells that it was received and is neither deleted nor visible again.
	InFlight bool
	// VisibleAt is when the delay or visibility timeout of the message ends or ended.
	VisibleAt time.Time
	// Receipt is the latest receipt handle, "" if the message was not received in
	// this queue.
	Receipt string
	SentAt  time.Time
}

func attributeValues(attributes []attribute) map[string]types.MessageAttributeValue {
	values := make(map[string]types.MessageAttributeValue, len(attributes))
	for _, a := range attributes {
		v := types.MessageAttributeValue{DataType: aws.String(a.dataType)}
		if a.isBinary {
			v.BinaryValue = append([]byte(nil), a.binary...)
		} else {
			v.StringValue = aws.String(a.text)
		}
		values[a.name] = v
	}
	return values
}

// clone makes a view whose map the receiver of it may change.
func (v MessageView) clone() MessageView {
	v.Attributes = maps.Clone(v.Attributes)
	return v
}

// newUUID makes the identifiers of messages and requests.
func newUUID() string {
	hi, lo := rand.Uint64(), rand.Uint64()
	hi = hi&^0xf000 | 0x4000 // version 4
	lo = lo&^(3<<62) | 1<<63 // variant 10
	var b [36]byte
	place := 0
	for i := range 32 {
		if i == 8 || i == 12 || i == 16 || i == 20 {
			b[place] = '-'
			place++
		}
		word, nibble := hi, i
		if i >= 16 {
			word, nibble = lo, i-16
		}
		b[place] = hexDigits[word>>(60-4*nibble)&15]
		place++
	}
	return string(b[:])
}
