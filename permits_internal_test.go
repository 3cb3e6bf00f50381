package watermillsqs

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// The patience with permits under way begins anew with each poller that got its own: as
// long as they keep coming, nobody asks for less than a full batch.
func TestPatienceBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(100)
		for range 10 {
			assert.Equal(t, maxBatch, p.take(t.Context(), maxBatch))
		}
		p.use(100)
		for range 100 {
			p.decided()
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan int, 10)
		var pollers sync.WaitGroup
		for range 2 {
			pollers.Go(func() {
				for n := p.take(ctx, maxBatch); n > 0; n = p.take(ctx, maxBatch) {
					got <- n
				}
			})
		}
		p.settled(2)
		for range 4 {
			time.Sleep(permitPatience * 6 / 10)
			p.settled(maxBatch)
			assert.Equal(t, maxBatch, <-got)
		}
		time.Sleep(permitPatience - time.Millisecond)
		assert.Empty(t, got)
		time.Sleep(time.Millisecond)
		assert.Equal(t, 2, <-got)
		cancel()
		pollers.Wait()
	})
}
