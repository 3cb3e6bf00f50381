package watermillsqs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

const (
	groupKey = watermillsqs.GroupIDKey
	dedupKey = watermillsqs.DeduplicationIDKey
)

// inGroup is a message with metadata, given as keys and values.
func inGroup(uuid, group string, pairs ...string) *message.Message {
	msg := message.NewMessage(uuid, []byte("body of "+uuid))
	msg.Metadata.Set(groupKey, group)
	for i := 0; i < len(pairs); i += 2 {
		msg.Metadata.Set(pairs[i], pairs[i+1])
	}
	return msg
}

// The keys are those that watermill-aws uses.
func TestIDKeys(t *testing.T) {
	assert.Equal(t, "MessageGroupId", groupKey)
	assert.Equal(t, "MessageDeduplicationId", dedupKey)
}

// Where the ids of a message come from.
func TestPublishIDs(t *testing.T) {
	const allowed = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	groupOf := func(topic string, msg *message.Message) string { return topic + "/" + msg.UUID }
	dedupOf := func(topic string, msg *message.Message) string { return topic + ":" + msg.Metadata.Get(dedupKey) }
	none := func(string, *message.Message) string { return "" }
	hashed := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	for name, test := range map[string]struct {
		config       watermillsqs.PublisherConfig
		msg          *message.Message
		group, dedup string
	}{
		"metadata":             {msg: inGroup("1", "g", dedupKey, "d"), group: "g", dedup: "d"},
		"the UUID":             {msg: inGroup("1", "g"), group: "g", dedup: "1"},
		"an empty key":         {msg: inGroup("1", "g", dedupKey, ""), group: "g", dedup: "1"},
		"any punctuation":      {msg: inGroup("1", allowed, dedupKey, allowed), group: allowed, dedup: allowed},
		"the longest":          {msg: inGroup(strings.Repeat("u", 128), strings.Repeat("g", 128)), group: strings.Repeat("g", 128), dedup: strings.Repeat("u", 128)},
		"a UUID with a space":  {msg: inGroup("a b", "g"), group: "g", dedup: hashed("a b")},
		"a UUID that is long":  {msg: inGroup(strings.Repeat("u", 129), "g"), group: "g", dedup: hashed(strings.Repeat("u", 129))},
		"a UUID in other text": {msg: inGroup("größe", "g"), group: "g", dedup: hashed("größe")},
		"functions": {config: watermillsqs.PublisherConfig{GroupID: groupOf, DeduplicationID: dedupOf},
			msg: inGroup("1", "ignored", dedupKey, "d"), group: "orders.fifo/1", dedup: "orders.fifo:d"},
		"left to the content": {config: watermillsqs.PublisherConfig{DeduplicationID: none},
			msg: inGroup("1", "g", dedupKey, "ignored"), group: "g", dedup: hashed("body of 1")},
		"of the marshaler": {config: watermillsqs.PublisherConfig{GroupID: groupOf, DeduplicationID: dedupOf, Marshaler: idMarshaler{group: "mine", dedup: "my"}},
			msg: inGroup("1", "g", dedupKey, "d"), group: "mine", dedup: "my"},
	} {
		for _, count := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " ", count), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *harness) {
					q := h.queue("orders.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
					messages := []*message.Message{test.msg}
					if count == 2 {
						messages = append(messages, inGroup("another", "g", dedupKey, "another"))
					}
					require.NoError(t, h.publisher(test.config).Publish("orders.fifo", messages...))
					stored := q.Messages()[0]
					assert.Equal(t, test.group, stored.GroupID)
					assert.Equal(t, test.dedup, stored.DeduplicationID)
					assert.NotContains(t, stored.Attributes, dedupKey, "consumed")
					assert.Contains(t, stored.Attributes, groupKey, "travels")
				})
			})
		}
	}
}

// idMarshaler sets ids of its own, and tells what it is given.
type idMarshaler struct {
	watermillsqs.DefaultMarshaler

	group, dedup string
	seen         *message.Metadata
}

func (m idMarshaler) Marshal(topic string, msg *message.Message) (watermillsqs.Outgoing, error) {
	if m.seen != nil {
		*m.seen = msg.Metadata
	}
	out, err := m.DefaultMarshaler.Marshal(topic, msg)
	out.GroupID, out.DeduplicationID = m.group, m.dedup
	return out, err
}

// An empty UUID is no id: two such messages are two.
func TestPublishEmptyUUIDsToFIFO(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		require.NoError(t, h.publisher(watermillsqs.PublisherConfig{}).Publish("orders.fifo", inGroup("", "g"), inGroup("", "g")))
		assert.Equal(t, 2, q.Len())
	})
}

// What a FIFO queue would refuse is refused before any call.
func TestPublishRefusesIDs(t *testing.T) {
	long := strings.Repeat("x", 129)
	constant := func(id string) func(string, *message.Message) string {
		return func(string, *message.Message) string { return id }
	}
	for name, test := range map[string]struct {
		topic  string
		config watermillsqs.PublisherConfig
		msg    *message.Message
		says   []string
	}{
		"no group": {"orders.fifo", watermillsqs.PublisherConfig{}, message.NewMessage("1", []byte("x")),
			[]string{"MessageGroupId", "PublisherConfig.GroupID", "1-128"}},
		"no group of a function": {"orders.fifo", watermillsqs.PublisherConfig{GroupID: constant("")}, inGroup("1", "g"), []string{"PublisherConfig.GroupID"}},
		"group with a space":     {"orders.fifo", watermillsqs.PublisherConfig{}, inGroup("1", "a b"), []string{"GroupID", "1-128", `"a b"`}},
		"group of a function":    {"orders.fifo", watermillsqs.PublisherConfig{GroupID: constant("ä")}, inGroup("1", "g"), []string{"GroupID"}},
		"long group":             {"orders.fifo", watermillsqs.PublisherConfig{}, inGroup("1", long), []string{"GroupID", "129 bytes"}},
		"dedup with a space":     {"orders.fifo", watermillsqs.PublisherConfig{}, inGroup("1", "g", dedupKey, "a b"), []string{"DeduplicationID", "1-128"}},
		"long dedup":             {"orders.fifo", watermillsqs.PublisherConfig{DeduplicationID: constant(long)}, inGroup("1", "g"), []string{"DeduplicationID", "129 bytes"}},
		"standard, group":        {"orders", watermillsqs.PublisherConfig{}, inGroup("1", "a\tb"), []string{"GroupID"}},
		"of a marshaler":         {"orders", watermillsqs.PublisherConfig{Marshaler: idMarshaler{group: "a b"}}, inGroup("1", "g"), []string{"GroupID"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *harness) {
				err := h.publisher(test.config).Publish(test.topic, inGroup("0", "g"), test.msg)
				require.ErrorIs(t, err, watermillsqs.ErrInvalidMessage)
				for _, says := range test.says {
					assert.ErrorContains(t, err, says)
				}
				assert.Less(t, len(err.Error()), 1000)
				assert.Zero(t, h.service.Count())
			})
		})
	}
}

// The deduplication key belongs to one publish: the caller's message keeps it, no
// marshaler sees it, and no handler gets it, whoever sent it.
func TestDeduplicationKeyIsConsumed(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("orders", nil)
		var seen message.Metadata
		pub := h.publisher(watermillsqs.PublisherConfig{Marshaler: idMarshaler{seen: &seen}})
		msg := inGroup("1", "g", dedupKey, "d", "other", "x")
		require.NoError(t, pub.Publish("orders", msg))
		assert.Equal(t, message.Metadata{groupKey: "g", "other": "x"}, seen)
		assert.Equal(t, message.Metadata{groupKey: "g", "other": "x", dedupKey: "d"}, msg.Metadata, "the caller's message")

		// Of a producer that sends it as an attribute, and read by a marshaler that
		// keeps it.
		key, value := "String", "d"
		_, err := h.service.Client().SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: aws.String(h.service.Queue("orders").URL()), MessageBody: &value,
			MessageAttributes: map[string]types.MessageAttributeValue{dedupKey: {DataType: &key, StringValue: &value}},
		})
		require.NoError(t, err)
		for _, marshaler := range []watermillsqs.Marshaler{watermillsqs.DefaultMarshaler{}, keepingMarshaler{}} {
			sub, messages := h.subscribe(watermillsqs.SubscriberConfig{Marshaler: marshaler}, "orders")
			for range 2 {
				msg := h.next(messages)
				assert.NotContains(t, msg.Metadata, dedupKey)
				msg.Nack()
			}
			require.NoError(t, sub.Close())
		}
	})
}

// keepingMarshaler keeps what the default one consumes.
type keepingMarshaler struct{ watermillsqs.DefaultMarshaler }

func (m keepingMarshaler) Unmarshal(topic string, msg types.Message) (*message.Message, error) {
	decoded, err := m.DefaultMarshaler.Unmarshal(topic, msg)
	if err == nil {
		decoded.Metadata.Set(dedupKey, "kept")
	}
	return decoded, err
}

// A handler that publishes twice what it received loses nothing.
func TestPublishTwiceWhatWasReceived(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		q := h.fifo("out.fifo", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		require.NoError(t, pub.Publish("in", inGroup("1", "g", dedupKey, "d"), inGroup("2", "g", dedupKey, "d")))
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		for range 2 {
			msg := h.next(messages)
			require.NoError(t, pub.Publish("out.fifo", msg))
			msg.Ack()
		}
		assert.Equal(t, 2, q.Len())
		assert.Equal(t, "g", q.Messages()[1].GroupID)
	})
}

// A standard queue takes group ids, for fairness, and no deduplication ids.
func TestPublishGroupToAStandardQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("orders", nil)
		config := watermillsqs.PublisherConfig{DeduplicationID: func(string, *message.Message) string {
			t.Error("called for a standard queue")
			return ""
		}}
		require.NoError(t, h.publisher(config).Publish("orders", inGroup("1", "tenant-7", dedupKey, "not even legal")))
		require.NoError(t, h.publisher(watermillsqs.PublisherConfig{Marshaler: idMarshaler{group: "g", dedup: "d"}}).Publish("orders", inGroup("2", "g")))
		assert.Equal(t, "tenant-7", q.Messages()[0].GroupID)
		assert.Empty(t, q.Messages()[0].DeduplicationID)
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		for range 2 {
			msg := h.next(messages)
			delivery, ok := watermillsqs.DeliveryFromContext(msg.Context())
			require.True(t, ok)
			assert.Equal(t, map[string]string{"1": "tenant-7", "2": "g"}[msg.UUID], delivery.GroupID)
			assert.Equal(t, delivery.GroupID, msg.Metadata.Get(groupKey), "travels as metadata, too")
			msg.Ack()
		}
	})
}

// A FIFO queue has no delay for one message.
func TestPublishDelayToFIFO(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		for _, d := range []time.Duration{time.Second, time.Hour} {
			msg := inGroup("1", "g")
			delay.Message(msg, delay.For(d))
			err := pub.Publish("orders.fifo", msg)
			require.ErrorIs(t, err, watermillsqs.ErrInvalidDelay)
			assert.ErrorContains(t, err, "a FIFO queue has no delay for a single message")
		}
		assert.Zero(t, h.service.Count())
		past := inGroup("2", "g")
		delay.Message(past, delay.For(time.Minute))
		time.Sleep(time.Minute)
		require.NoError(t, pub.Publish("orders.fifo", past))
		assert.Equal(t, 1, q.Visible())
	})
}

// The same UUID within five minutes is the same message to SQS.
func TestPublishTheSameTwiceToFIFO(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.fifo("orders.fifo", nil)
		pub := h.publisher(watermillsqs.PublisherConfig{})
		msg := inGroup("1", "g")
		require.NoError(t, pub.Publish("orders.fifo", msg, inGroup("2", "g")))
		require.NoError(t, pub.Publish("orders.fifo", msg))
		assert.Equal(t, 2, q.Len(), "dropped without a word")
		msg.Metadata.Set(dedupKey, "again")
		require.NoError(t, pub.Publish("orders.fifo", msg))
		assert.Equal(t, 3, q.Len())
		time.Sleep(5 * time.Minute)
		delete(msg.Metadata, dedupKey)
		require.NoError(t, pub.Publish("orders.fifo", msg))
		assert.Equal(t, 4, q.Len())
	})
}

// A queue that is created for a publish is the FIFO queue that its name says.
func TestPublishCreatesAFIFOQueue(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		pub := h.publisher(watermillsqs.PublisherConfig{CreateIfMissing: true})
		require.NoError(t, pub.Publish("orders.fifo", inGroup("1", "g")))
		assert.Equal(t, "g", h.service.Queue("orders.fifo").Messages()[0].GroupID)
	})
}
