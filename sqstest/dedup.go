package sqstest

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

const (
	// dedupInterval is how long a FIFO queue remembers the deduplication ids of sends,
	// and the attempt ids of receives (sqs-facts 4.6, 5.1).
	dedupInterval = 5 * time.Minute
	// scopeLag is how long a changed DeduplicationScope takes to have an effect
	// (sqs-facts 3).
	scopeLag = 60 * time.Second
)

// recently remembers values for the deduplication interval. It takes constant time per
// operation, amortized, and holds what was put into it during one interval.
type recently[K comparable, V any] struct {
	values map[K]remembered[V]
	order  []struct { // oldest first, from head on
		key K
		at  time.Time
	}
	head int
}

type remembered[V any] struct {
	value V
	at    time.Time
}

func (r *recently[K, V]) get(key K, now time.Time) (V, bool) {
	r.expire(now)
	found, ok := r.values[key]
	return found.value, ok
}

func (r *recently[K, V]) put(key K, value V, now time.Time) {
	r.expire(now)
	if r.values == nil {
		r.values = make(map[K]remembered[V])
	}
	r.values[key] = remembered[V]{value, now}
	r.order = append(r.order, struct {
		key K
		at  time.Time
	}{key, now})
}

func (r *recently[K, V]) expire(now time.Time) {
	for r.head < len(r.order) && now.Sub(r.order[r.head].at) >= dedupInterval {
		oldest := r.order[r.head]
		if r.values[oldest.key].at.Equal(oldest.at) { // else it was put again since
			delete(r.values, oldest.key)
		}
		clear(r.order[r.head : r.head+1])
		r.head++
	}
	if r.head > len(r.order)/2 {
		r.order = append(r.order[:0], r.order[r.head:]...)
		r.head = 0
	}
}

// dedupKey is what makes two sends duplicates. The group is empty where the scope is
// the queue.
type dedupKey struct{ group, id string }

// original is the message that later sends are duplicates of.
type original struct {
	id     string
	number uint64
}

// contentID is the deduplication id of a message that has none: a hash of the body, and
// of nothing else (sqs-facts 4.6).
func contentID(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// dedupKey is the key of a message in the scope that is in effect now.
func (f *fifoState) dedupKey(m *message, byGroup bool, now time.Time) dedupKey {
	if byGroup != f.byGroup && now.Sub(f.scopeChange) >= scopeLag {
		f.byGroup = byGroup
	}
	key := dedupKey{id: m.dedupID}
	if f.byGroup {
		key.group = m.groupID
	}
	return key
}

// legalID takes what MessageGroupId, MessageDeduplicationId and ReceiveRequestAttemptId
// may be: 1 to 128 printable ASCII characters without spaces (sqs-facts 4.6).
func legalID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

func illegalID(parameter, id string) *apiError {
	return invalidValue(parameter, id, parameter+" can only include alphanumeric and punctuation characters. 1 to 128 in length.")
}
