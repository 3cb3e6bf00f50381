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
