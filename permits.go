package watermillsqs

import (
	"context"
	"sync"
	"time"
)

// permitPatience is how long a poller that could ask for some messages waits for the
// permits of settlements under way, so as to ask for more.
const permitPatience = 100 * time.Millisecond

// permits bound what a subscription has in hand: a permit is taken before a message is
// received and comes back when it is settled.
//
// A poller gets a full batch as soon as there is one. With fewer free, it gets them at
// once where none is about to come back, so that a message that arrives is not kept
// waiting; but while settlements are under way it waits for theirs, for at most
// permitPatience, since a receive costs the same for one message as for ten.
type permits struct {
	mu        sync.Mutex // guards what follows
	free      int
	owed      int // in use, and never there: see owe
	undecided int // have a delivery that is not decided
	settling  int // have a delivery that is decided and not settled
	waiting   []*permitWait
	patience  *time.Timer // runs while somebody waits although some are free
	impatient bool        // it has run out
}

// permitWait is a poller that waits for permits.
type permitWait struct {
	want  int
	taken chan int // capacity 1
}

func newPermits(n int) *permits { return &permits{free: n} }

// take waits for permits, and takes one to want. It returns 0 when stopped is done.
func (p *permits) take(stopped context.Context, want int) int {
	if stopped.Err() != nil {
		return 0
	}
	wait := &permitWait{want: want, taken: make(chan int, 1)}
	p.mu.Lock()
	p.waiting = append(p.waiting, wait)
	p.grant()
	p.mu.Unlock()
	select {
	case n := <-wait.taken:
		return n
	case <-stopped.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.waiting {
		if w == wait {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			p.grant()
			return 0
		}
	}
	p.add(<-wait.taken) // it came in the same instant
	return 0
}

// grant gives free permits to those who wait. The mutex is held.
func (p *permits) grant() {
	for len(p.waiting) > 0 && p.free > 0 {
		first := p.waiting[0]
		if p.free < first.want && p.settling > 0 && !p.impatient {
			if p.patience == nil {
				p.patience = time.AfterFunc(permitPatience, p.losePatience)
			}
			return
		}
		n := min(p.free, first.want)
		p.free -= n
		p.waiting = append(p.waiting[:0], p.waiting[1:]...)
		first.taken <- n
		p.impatient = false
		p.calm() // for the next one it begins anew
	}
	p.calm()
}

// calm ends the wait of permits for others. The mutex is held.
func (p *permits) calm() {
	if p.patience != nil {
		p.patience.Stop()
		p.patience = nil
	}
}

func (p *permits) losePatience() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.patience != nil {
		p.patience, p.impatient = nil, true
		p.grant()
		p.impatient = false
	}
}

// add gives permits back, after what is owed. The mutex is held.
func (p *permits) add(n int) {
	paid := min(n, p.owed)
	p.owed -= paid
	p.free += n - paid
	p.grant()
}

// put gives back permits that were not used.
func (p *permits) put(n int) {
	if n > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.add(n)
	}
}

// owe is for a service that delivers n messages more than it was asked for: they are
// served all the same, with permits that have become free meanwhile, or else as many do
// not come back.
func (p *permits) owe(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	there := min(n, p.free)
	p.free -= there
	p.owed += n - there
}

// use says that n permits have an undecided delivery now.
func (p *permits) use(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.undecided += n
}

// decided says that the delivery of a permit is decided, and reports whether none is
// undecided now.
func (p *permits) decided() (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.undecided--
	p.settling++
	return p.undecided == 0
}

// settled gives back the permits of n deliveries that are settled.
func (p *permits) settled(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settling -= n
	p.add(n)
}

// inHand reports whether there are deliveries that are not decided yet.
func (p *permits) inHand() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.undecided > 0
}
