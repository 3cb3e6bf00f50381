package watermillsqs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Retried heads that other consumers have are forgotten, also where a receive asks for one
// message anyway (BatchSize or MaxInFlight 1, or no backlog).
func TestRetriedHeadsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newRetriedHeads(time.Second)
		for i := range 10_000 {
			h.retried(fmt.Sprint(i), fmt.Sprint("g", i), 0)
			h.received(nil, "other", "other")
			h.shape(1, 20*time.Second, true, false)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Less(t, len(h.out), 1000)
	})
}

// After a retried head one more message is asked for alone, whether or not the head is in
// hand when that receive begins.
func TestMessageAfterARetriedHeadComesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newRetriedHeads(time.Minute)
		ask := func() int {
			n, _ := h.shape(maxBatch, 20*time.Second, true, true)
			return n
		}
		assert.Equal(t, maxBatch, ask())
		h.retried("1", "a", 0)()
		assert.Equal(t, 1, ask(), "the head is out")
		h.answered()
		head := &delivery{}
		h.received(head, "1", "a")
		assert.Equal(t, 1, ask(), "it is back in hand")
		h.decided(&delivery{}) // its old delivery, noted late
		assert.Equal(t, 1, ask(), "it is still in hand")
		h.decided(head)
		assert.Equal(t, 1, ask(), "the one behind it")
		h.answered()
		h.received(&delivery{}, "2", "a")
		assert.Equal(t, maxBatch, ask())
	})
}
