package watermillsqs

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxSends bounds the calls that one queue's outbox has under way. It is a part of
	// the calls client's pool of connections, so that a send never has to dial again.
	maxSends = callConnections / 4

	// patience is how long less than a full batch waits for a call to be answered,
	// and so how long a call that hangs holds others up.
	patience = 250 * time.Millisecond

	// Before it takes less than a full batch, a worker lets other goroutines run until
	// they have added nothing so many times in a row, or for so long.
	freshYields    = 3  // for those that are about to publish at the same moment
	answeredYields = 64 // for those that were answered and come with their next
	gatherLimit    = 50 * time.Microsecond
)

// outboxes are the outboxes of a connection, one a queue URL. The zero value is ready.
type outboxes struct {
	workers sync.WaitGroup // of all of them

	mu      sync.RWMutex // guards what follows
	boxes   map[string]*outbox
	sweepAt int // how many there are when those that nobody uses are dropped
}

// hold returns the outbox of a queue, until unhold.
func (b *outboxes) hold(clients *clients, queueURL string, fifo bool) *outbox {
	const keep = 64
	b.mu.RLock()
	o := b.boxes[queueURL]
	if o != nil {
		o.holders.Add(1) // under the mutex, so that it is not dropped
	}
	b.mu.RUnlock()
	if o != nil {
		return o
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o = b.boxes[queueURL]
	if o == nil {
		if len(b.boxes) >= max(b.sweepAt, keep) {
			for url, o := range b.boxes {
				if o.holders.Load() == 0 {
					delete(b.boxes, url)
				}
			}
			b.sweepAt = 2 * len(b.boxes)
		}
		o = &outbox{clients: clients, url: queueURL, pile: pile{fifo: fifo}, workers: &b.workers}
		if b.boxes == nil {
			b.boxes = make(map[string]*outbox)
		}
		b.boxes[queueURL] = o
	}
	o.holders.Add(1)
	return o
}

// wait returns when no call is under way. Nothing may be added any more.
func (b *outboxes) wait() { b.workers.Wait() }

// outbox is the pile of letters for one queue, and the calls that take them away.
//
// A letter that finds no call under way leaves at once. While one is, letters pile up,
// and leave when it is answered, when they fill a call of their own, or when patience
// with it has ended. Workers make the calls, one at a time each: they are started when
// something can leave, and end when nothing can.
type outbox struct {
	clients *clients
	url     string
	workers *sync.WaitGroup
	holders atomic.Int64 // Publish calls and workers that use it

	mu        sync.Mutex // guards what follows, and letters; never held during a call
	pile      pile
	calls     []*call     // under way
	active    int         // workers
	gathering int         // of them those that are about to take letters
	timer     *time.Timer // started while something waits behind a call
	armed     bool
	alarm     time.Time // when the timer ends
}

func (o *outbox) unhold() { o.holders.Add(-1) }

// add hands the letters of a parcel in, which fit one call. Apart from all others, they
// leave in a call of their own.
//
// Where nothing is under way, a caller that comes in person is itself the worker that sends them, as long as
// they stay alone: nobody else waits for the call then, and it takes no longer than the
// caller would wait.
func (o *outbox) add(of *parcel, letters []*letter, apart, inPerson bool) {
	of.added = time.Now()
	o.mu.Lock()
	o.pile.put(of, letters, apart)
	if o.active > 0 || !inPerson {
		o.dispatch(0)
		o.mu.Unlock()
		return
	}
	o.active++
	o.gathering++
	o.mu.Unlock()

	o.gather(0)
	c := o.start()
	switch {
	case c == nil:
	case len(c.letters) == len(letters) && c.letters[0].parcel == of && c.letters[len(letters)-1].parcel == of:
		o.sendInPerson(c)
	default:
		o.holders.Add(1)
		o.workers.Add(1)
		go o.work(c, 0)
	}
}

// sendInPerson makes the one call of a caller that is a worker. What the application has
// hung into it may panic, and the caller recover.
func (o *outbox) sendInPerson(c *call) {
	var errs []error
	err := errPanicked
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.answered(c, errs, err)
		o.active--
		o.dispatch(len(c.letters))
	}()
	errs, err = o.send(c)
}

// withdraw takes letters of a parcel back: at its deadline all of them, those on the
// wire included, whose answer nobody waits for any more, and before it those that are
// not on the wire and that nobody wants sent any more.
func (o *outbox) withdraw(of *parcel, late bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range of.letters {
		switch {
		case l.fate == onWire && late:
			o.pile.finish(l, refused, errNoAnswer)
		case l.fate == waiting && late:
			o.pile.finish(l, refused, errLate)
		case l.fate == waiting && l.ended():
			o.pile.decide(l, refused, endedError(l))
		}
	}
	o.dispatch(0)
}

// release lets the groups of letters go on that were to be sent again and are not.
func (o *outbox) release(letters ...*letter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range letters {
		o.pile.letGo(l)
	}
	o.dispatch(0)
}

// What follows is called with the mutex held.

// dispatch starts workers for what can leave, and else the timer for what waits behind
// a call that may hang. So many letters were answered a moment ago by a worker that ends.
func (o *outbox) dispatch(answered int) {
	for needed := o.pile.calls(o.goes); needed > o.gathering && o.active < maxSends; {
		o.active++
		o.gathering++
		o.holders.Add(1)
		o.workers.Add(1)
		go o.work(nil, answered)
	}
	switch waits := o.pile.ready.letters > 0 && o.gathering == 0 && o.active < maxSends; {
	case waits:
		alarm := o.patienceEnds()
		if o.armed && !alarm.Before(o.alarm) {
			return
		}
		o.armed, o.alarm = true, alarm
		in := time.Until(alarm)
		if o.timer == nil {
			o.timer = time.AfterFunc(in, o.impatient)
		} else {
			o.timer.Reset(in)
		}
	case o.armed && o.active == 0 && o.timer.Stop():
		o.armed = false
	}
}

// goes reports whether less than a full batch may leave: it waits for a call to be
// answered, but not for long, and not for calls of its own Publish alone, from which
// nothing else comes before they are answered.
func (o *outbox) goes() bool {
	return len(o.calls) == 0 || o.onlyFrom(o.pile.oldest().parcel.sender) || !time.Now().Before(o.patienceEnds())
}

// onlyFrom reports whether all calls under way are of one Publish call.
func (o *outbox) onlyFrom(sender any) bool {
	for _, c := range o.calls {
		for _, l := range c.letters {
			if l.parcel.sender != sender {
				return false
			}
		}
	}
	return true
}

// patienceEnds is when less than a full batch waits no longer: when every call under
// way, or the wait itself, has taken too long.
func (o *outbox) patienceEnds() time.Time {
	since := o.pile.oldest().parcel.added
	var latest time.Time
	for _, c := range o.calls {
		if c.since.After(latest) {
			latest = c.since
		}
	}
	if latest.Before(since) {
		since = latest
	}
	return since.Add(patience)
}

// What follows is called without the mutex.

func (o *outbox) impatient() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = false
	o.dispatch(0)
}

// work makes calls as long as something can leave, the first one where it is given.
func (o *outbox) work(c *call, answered int) {
	defer o.workers.Done()
	defer o.unhold()
	for {
		if c == nil {
			o.gather(answered)
			if c = o.start(); c == nil {
				return
			}
		}
		errs, err := o.send(c)
		o.mu.Lock()
		o.answered(c, errs, err)
		o.gathering++
		o.dispatch(0)
		o.mu.Unlock()
		answered, c = len(c.letters), nil
	}
}

// start is the end of gathering: it returns the worker's next call, or nil, and then the
// worker has ended.
func (o *outbox) start() *call {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.pile.next(time.Now(), o.goes)
	o.gathering--
	if c == nil {
		o.active--
	} else {
		o.calls = append(o.calls, c)
	}
	o.dispatch(0)
	return c
}

// answered takes note of a call's answer, with the mutex held.
func (o *outbox) answered(c *call, errs []error, err error) {
	o.calls = slices.DeleteFunc(o.calls, func(other *call) bool { return other == c })
	o.pile.record(c, errs, err)
}

// gather lets other goroutines run as long as they add something: several that are
// about to publish shall leave together, and those whose letters were answered a moment
// ago, so many of them, often come with their next ones.
func (o *outbox) gather(answered int) {
	yields := freshYields
	last, expected := -1, 0
	start := time.Now()
	for quiet := 0; quiet < yields && time.Since(start) < gatherLimit; quiet++ {
		o.mu.Lock()
		letters, enough := o.pile.ready.letters, o.pile.ready.full() || len(o.pile.express) > 0
		o.mu.Unlock()
		switch {
		case last < 0:
			expected = letters + answered
			if answered > 0 && expected > 1 {
				yields = answeredYields
			}
		case letters > last:
			quiet, start = 0, time.Now()
		}
		last = letters
		if enough || answered > 0 && letters >= expected {
			return
		}
		runtime.Gosched()
	}
}

// send makes the call, on a context of its own: it has the values of the first letter's,
// and ends when nobody waits for it any more.
func (o *outbox) send(c *call) ([]error, error) {
	var buffer [maxBatch]*Outgoing
	messages := buffer[:0]
	var deadline time.Time
	for _, l := range c.letters {
		messages = append(messages, &l.out)
		if l.parcel.deadline.After(deadline) {
			deadline = l.parcel.deadline
		}
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(c.letters[0].values), deadline)
	defer cancel()
	errs, err := sendMessages(ctx, o.clients, o.url, messages)
	if err != nil && ctx.Err() != nil {
		err = errNoAnswer
	}
	return errs, err
}
