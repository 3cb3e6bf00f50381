package watermillsqs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

const (
	// GroupIDKey is the metadata key of the message group: SQS's MessageGroupId,
	// which is read at Publish unless [PublisherConfig].GroupID is set. A message to
	// a FIFO queue must have one, and keeps its order among the messages of its
	// group. On a standard queue it is optional and makes the queue fair to its
	// groups. 1-128 characters, ASCII letters, digits and punctuation, no spaces.
	// Default: none.
	//
	// The key travels with the message as ordinary metadata, so that a handler that
	// publishes what it received stays in the group. Where a delivery comes from
	// another producer the group is in [Delivery].GroupID all the same.
	GroupIDKey = "MessageGroupId"

	// DeduplicationIDKey is the metadata key of SQS's MessageDeduplicationId, which is
	// read at Publish to a FIFO queue unless [PublisherConfig].DeduplicationID is
	// set. 1-128 characters, ASCII letters, digits and punctuation, no spaces.
	// Default, and where the value is empty: the UUID of the message; its SHA-256 in
	// hexadecimal where SQS would not take it as it is; a random one where it is
	// empty. To a standard queue none is sent.
	//
	// SQS drops a message without a word if one with the same id was sent to the
	// queue within the last five minutes, also if that one has been received and
	// deleted since. So the same message, or another one with its UUID, arrives once
	// however often it is published in that time: to publish it again on purpose,
	// give it another UUID or another deduplication id.
	//
	// Publish consumes the key: it is neither sent as metadata nor delivered, since it
	// belongs to the one publish that it was set for. A handler that publishes twice
	// what it received would lose the second message otherwise.
	DeduplicationIDKey = "MessageDeduplicationId"
)

// defaultDeduplicationID makes a deduplication id of a UUID.
func defaultDeduplicationID(uuid string) string {
	switch {
	case uuid == "":
		return watermill.NewUUID()
	case legalID(uuid):
		return uuid
	}
	sum := sha256.Sum256([]byte(uuid))
	return hex.EncodeToString(sum[:])
}

// withoutDeduplicationID returns msg without its deduplication key: itself where it
// has none, else a copy.
func withoutDeduplicationID(msg *message.Message) *message.Message {
	if _, set := msg.Metadata[DeduplicationIDKey]; !set {
		return msg
	}
	copied := msg.CopyWithContext()
	delete(copied.Metadata, DeduplicationIDKey)
	return copied
}

// idsOf are functions that give a message its ids, nil for those of the metadata.
type idsOf struct {
	group, deduplication func(topic string, msg *message.Message) string
}

// fill gives out, which was made of msg, the ids that it has not yet, as the queue
// needs them, and refuses what a FIFO queue would.
func (f idsOf) fill(out *Outgoing, topic string, msg *message.Message, fifo bool) error {
	if out.GroupID == "" {
		if f.group != nil {
			out.GroupID = f.group(topic, msg)
		} else {
			out.GroupID = msg.Metadata[GroupIDKey]
		}
	}
	if !fifo {
		out.DeduplicationID = "" // a standard queue would refuse the message
		return nil
	}
	if out.GroupID == "" {
		return fmt.Errorf("%w: a message to a FIFO queue needs a group id, in metadata %s or by PublisherConfig.GroupID; it %s",
			ErrInvalidMessage, GroupIDKey, idRule)
	}
	if out.DeduplicationID != "" {
		return nil
	}
	if f.deduplication != nil {
		out.DeduplicationID = f.deduplication(topic, msg)
		return nil
	}
	if out.DeduplicationID = msg.Metadata[DeduplicationIDKey]; out.DeduplicationID == "" {
		out.DeduplicationID = defaultDeduplicationID(msg.UUID)
	}
	return nil
}
