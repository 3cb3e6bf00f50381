package watermillsqs

import (
	"runtime"
	"sync"
	"time"
)

// yields is how often a worker lets others run before it takes less than a full
// batch: what is added in the same instant then leaves together, without a wait.
const yields = 3

const idleWorkers = 16

// batcher sends entries in batches of up to ten. Without linger an entry leaves at
// once, and while the allowed number of calls is under way the next ones pile up and
// leave together. With it, an entry waits for others until a batch is full, until
// flush says that there is nothing to wait for, or until it has lingered for long
// enough. An idle batcher has no timer. It keeps a few workers until wait: one that has
// made a call has the large stack that the SDK needs.
type batcher[T any] struct {
	calls  int       // how many calls may be under way at a time
	send   func([]T) // called with 1 to 10 entries, from a goroutine of the batcher
	linger func(T) time.Duration

	workers sync.WaitGroup

	mu      sync.Mutex // guards what follows; never held during send
	pending []T
	ripe    int // how many of them, the oldest, wait no longer
	active  int
	idle    int // workers that wait on resume
	ended   bool
	resume  chan struct{} // made with the first of them
	timer   *time.Timer   // runs while entries linger
	due     time.Time     // when it goes off
}

// add queues entries, which leave in their order. send reports what became of them.
func (b *batcher[T]) add(entries ...T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending == nil {
		b.pending = make([]T, 0, max(len(entries), maxBatch))
	}
	b.pending = append(b.pending, entries...)
	if b.linger == nil {
		b.ripe = len(b.pending)
		b.start()
		return
	}
	for _, entry := range entries {
		b.ripenIn(b.linger(entry))
	}
	b.start()
}

// flush lets everything that has been added leave.
func (b *batcher[T]) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ripe = len(b.pending)
	b.start()
}

// ripenIn makes sure that what is pending leaves after d at the latest. The mutex is
// held.
func (b *batcher[T]) ripenIn(d time.Duration) {
	if d <= 0 {
		b.ripe = len(b.pending)
		return
	}
	due := time.Now().Add(d)
	switch {
	case b.timer == nil:
		b.timer = time.AfterFunc(d, b.ripen)
	case due.Before(b.due):
		b.timer.Reset(d)
	default:
		return
	}
	b.due = due
}

func (b *batcher[T]) ripen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil && !time.Now().Before(b.due) {
		b.timer = nil
		b.ripe = len(b.pending)
		b.start()
	}
}

// leaves is how many entries are to leave next, in one batch. The mutex is held.
func (b *batcher[T]) leaves() int {
	if n := len(b.pending); n >= maxBatch || b.ripe > 0 {
		return min(n, maxBatch)
	}
	return 0
}

// start sets a worker to work if there is something for one to do. The mutex is held.
func (b *batcher[T]) start() {
	if b.active >= b.calls || b.leaves() == 0 {
		return
	}
	b.active++
	if b.idle > 0 {
		b.idle--
		b.resume <- struct{}{}
		return
	}
	b.workers.Add(1)
	go b.work()
}

func (b *batcher[T]) work() {
	defer b.workers.Done()
	for {
		for batch := b.take(); batch != nil; batch = b.take() {
			b.send(batch)
		}
		if !b.rest() {
			return
		}
	}
}

// rest waits until there is something to do again. It reports whether there will be.
func (b *batcher[T]) rest() bool {
	b.mu.Lock()
	if b.ended || b.idle == idleWorkers {
		b.mu.Unlock()
		return false
	}
	if b.resume == nil {
		b.resume = make(chan struct{}, idleWorkers) // so that start need not wait
	}
	b.idle++
	b.mu.Unlock()
	_, more := <-b.resume
	return more
}

// take takes a batch, nil if there is none to be sent; the worker is then no longer
// counted as active.
func (b *batcher[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range yields {
		if n := b.leaves(); n == 0 || n == maxBatch {
			break
		}
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
	n := b.leaves()
	if n == 0 {
		// Decided under the mutex under which start looks at active, so that no entry
		// is left behind.
		b.active--
		return nil
	}
	// What is taken is not written to any more, so it need not be copied.
	batch := b.pending[:n:n]
	b.pending = b.pending[n:]
	b.ripe = max(b.ripe-n, 0)
	if len(b.pending) == 0 {
		b.pending = nil
		if b.timer != nil {
			b.timer.Stop()
			b.timer = nil
		}
	}
	b.start() // there may be enough for another
	return batch
}

// wait returns when no call is under way, and ends the workers. Nothing may be added any
// more.
func (b *batcher[T]) wait() {
	b.mu.Lock()
	b.ended = true
	if b.resume != nil {
		close(b.resume)
	}
	b.mu.Unlock()
	b.workers.Wait()
}
