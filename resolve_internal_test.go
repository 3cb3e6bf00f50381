package watermillsqs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a connection knows of queues is bounded: another one takes the place of one that
// was looked up before, never of a lookup that is under way.
func TestKnownQueuesAreBounded(t *testing.T) {
	done := make(chan struct{})
	close(done)
	cache := queueCache{lookups: map[string]*queueLookup{}, claims: map[string]string{}}
	underWay := &queueLookup{done: make(chan struct{})}
	cache.lookups["under-way"] = underWay
	for i := range 2 * maxKnownQueues {
		name := fmt.Sprint("reply-", i)
		cache.shrink()
		cache.lookups[name], cache.claims[name] = &queueLookup{done: done}, name
	}
	assert.Len(t, cache.lookups, maxKnownQueues)
	assert.Len(t, cache.claims, maxKnownQueues-1)
	assert.Same(t, underWay, cache.lookups["under-way"])
}
