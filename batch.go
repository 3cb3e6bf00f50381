package watermillsqs

import (
	"sync"
)

// batcher sends entries in batches of up to ten by accumulation: an entry that
// finds no call under way leaves at once, and while the allowed number of calls is
// under way the next entries pile up and leave together. Nothing waits on a timer,
// and an idle batcher has no goroutine.
type batcher[T any] struct {
	calls int       // how many calls may be under way at a time
	send  func([]T) // called with 1 to 10 entries, from a goroutine of the batcher

	workers sync.WaitGroup

	mu      sync.Mutex // guards what follows; never held during send
	pending []T
	active  int
}

// add queues an entry. send reports what became of it.
func (b *batcher[T]) add(entry T) {
	b.mu.Lock()
	b.pending = append(b.pending, entry)
	start := b.active < b.calls
	if start {
		b.active++
		b.workers.Add(1)
	}
	b.mu.Unlock()
	if start {
		go b.work()
	}
}

func (b *batcher[T]) work() {
	defer b.workers.Done()
	for {
		b.mu.Lock()
		if len(b.pending) == 0 {
			// Decided under the lock under which add looks at active, so that no
			// entry is left behind.
			b.active--
			b.mu.Unlock()
			return
		}
		n := min(len(b.pending), maxBatch)
		batch := make([]T, n)
		copy(batch, b.pending)
		rest := copy(b.pending, b.pending[n:])
		clear(b.pending[rest:]) // let go of what was sent
		b.pending = b.pending[:rest]
		b.mu.Unlock()
		b.send(batch)
	}
}

// wait returns when no call is under way. Nothing may be added any more.
func (b *batcher[T]) wait() { b.workers.Wait() }
