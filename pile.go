package watermillsqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

var (
	errLate     = fmt.Errorf("not sent, PublishTimeout has passed: %w", context.DeadlineExceeded)
	errPanicked = errors.New("the call panicked")
	errNoAnswer = fmt.Errorf("PublishTimeout has passed before SQS answered, which may have accepted the message: %w", context.DeadlineExceeded)
)

// pile holds the letters of an outbox that wait, and knows which of them may leave
// together, and what becomes of those that have. The mutex of the outbox guards it.
type pile struct {
	fifo    bool
	letters []*letter // in the order in which they came
	ready   tally     // what of letters may leave
	// express holds what leaves without company: what failed alone, and the letters
	// of a batch that was refused as a whole, each for itself.
	express [][]*letter
	groups  map[string]*group // of a FIFO queue
	all     group             // of a standard queue
}

// put takes the letters of a parcel in. Apart from all others, they leave in a call of
// their own.
func (p *pile) put(of *parcel, letters []*letter, apart bool) {
	of.letters, of.left = letters, len(letters)
	for _, l := range letters {
		l.fate, l.parcel, l.group = waiting, of, p.groupOf(l)
		if apart {
			p.enterExpress(l)
			continue
		}
		l.place = inPile
		p.letters = append(p.letters, l)
		p.update(l.group, func(g *group) { g.pileOf(l).add(l, 1) })
	}
	if apart {
		p.express = append(p.express, slices.Clone(letters))
	}
}

// oldest is the first letter that is ready; there must be one.
func (p *pile) oldest() *letter {
	return p.letters[slices.IndexFunc(p.letters, func(l *letter) bool {
		return !l.group.busy() && (l.held || l.group.retries == 0)
	})]
}

func (p *pile) groupOf(l *letter) *group {
	if !p.fifo {
		return &p.all
	}
	g := p.groups[l.out.GroupID]
	if g == nil {
		g = &group{id: l.out.GroupID}
		if p.groups == nil {
			p.groups = make(map[string]*group)
		}
		p.groups[g.id] = g
	}
	return g
}

// update changes a group, and with it what is ready.
func (p *pile) update(g *group, change func(*group)) {
	before := g.ready()
	change(g)
	after := g.ready()
	p.ready.letters += after.letters - before.letters
	p.ready.bytes += after.bytes - before.bytes
}

// tidy forgets a group of which nothing is left.
func (p *pile) tidy(g *group) {
	if p.fifo && g.idle() {
		delete(p.groups, g.id)
	}
}

// decide is the end of a letter's stay in the outbox.
//
// Where its call failed as a whole, the letters of its parcel that are not on the wire
// are not sent either; and of a FIFO group none that stands behind it in its parcel.
func (p *pile) decide(l *letter, f fate, err error) {
	p.finish(l, f, err)
	if f == accepted || l.parcel.left == 0 {
		return
	}
	behind := false
	for _, other := range l.parcel.letters {
		switch {
		case other == l:
			behind = true
		case other.fate != waiting:
		case f == failedCall:
			p.finish(other, f, fmt.Errorf("not sent, since an earlier call failed: %w", err))
		case p.fifo && behind && other.group == l.group:
			other.alone = l.alone
			p.finish(other, f, behindError(err))
		}
	}
}

// finish is decide for nothing but the letter.
func (p *pile) finish(l *letter, f fate, err error) {
	p.remove(l)
	wasHeld := l.held
	l.held = f == again && p.fifo
	l.fate, l.err = f, err
	if wasHeld != l.held {
		p.update(l.group, func(g *group) {
			if l.held {
				g.retries++
			} else {
				g.retries--
			}
		})
	}
	p.tidy(l.group)
	if l.parcel.left--; l.parcel.left == 0 {
		l.parcel.done <- struct{}{}
	}
}

// behindError is the error of a letter that is not sent because of one before it.
func behindError(cause error) error {
	return fmt.Errorf("not sent, since an earlier message of its group was not accepted: %w", cause)
}

func endedError(l *letter) error {
	return fmt.Errorf("not sent, the context of the message has ended: %w", context.Cause(l.ends))
}

// remove takes a waiting letter out of where it waits.
func (p *pile) remove(l *letter) {
	switch l.place {
	case inPile:
		if i := slices.Index(p.letters, l); i >= 0 {
			p.letters = slices.Delete(p.letters, i, i+1)
		}
		p.update(l.group, func(g *group) { g.pileOf(l).add(l, -1) })
	case inExpress:
		p.leaveExpress(l)
		for i, letters := range p.express {
			if j := slices.Index(letters, l); j >= 0 {
				p.express[i] = slices.Delete(letters, j, j+1)
			}
		}
		p.express = slices.DeleteFunc(p.express, func(letters []*letter) bool { return len(letters) == 0 })
	case nowhere:
	}
	l.place = nowhere
}

// enterExpress and leaveExpress count a letter whose place is in express: what is behind
// it in a FIFO group does not overtake it.
func (p *pile) enterExpress(l *letter) {
	l.place = inExpress
	if p.fifo {
		p.update(l.group, func(g *group) { g.express++ })
	}
}

func (p *pile) leaveExpress(l *letter) {
	if p.fifo {
		p.update(l.group, func(g *group) { g.express-- })
	}
}

// letGo ends the wait of a letter's group for it.
func (p *pile) letGo(l *letter) {
	if l.held {
		l.held = false
		p.update(l.group, func(g *group) { g.retries-- })
		p.tidy(l.group)
	}
}

// calls is how many calls could start now; all tells whether what is ready may leave
// although it is less than a full batch.
func (p *pile) calls(all func() bool) int {
	n := 0
	for _, letters := range p.express {
		if p.expressReady(letters) {
			n++
		}
	}
	switch {
	case p.ready.full():
		n += max(p.ready.letters/maxBatch, p.ready.bytes/maxBatchBytes)
	case p.ready.letters > 0 && all():
		n++
	}
	return n
}

func (p *pile) expressReady(letters []*letter) bool {
	if letters[0].parcel.express {
		return false
	}
	for _, l := range letters {
		if l.group.call != nil {
			return false
		}
	}
	return true
}

// next takes the letters of the next call, nil if none can leave now.
func (p *pile) next(now time.Time, all func() bool) *call {
	for {
		c := &call{}
		c.letters = c.buffer[:0]
		i := slices.IndexFunc(p.express, p.expressReady)
		switch {
		case i >= 0:
			c.express = true
			letters := p.express[i]
			p.express = slices.Delete(p.express, i, i+1)
			letters[0].parcel.express = true
			for _, l := range letters {
				p.take(c, l)
			}
		case p.ready.full(), p.ready.letters > 0 && all():
			p.collect(c)
		default:
			return nil
		}
		if p.leaveOut(c, now); len(c.letters) > 0 {
			c.since = now
			return c
		}
	}
}

// leaveOut takes out of a call whom nobody wants sent or waits for any more, and those of
// a FIFO group that stand behind one. The others are on the wire from here on.
func (p *pile) leaveOut(c *call, now time.Time) {
	var out []*letter
	kept := c.letters[:0]
	for _, l := range c.letters {
		switch {
		case l.fate == waiting && l.ended():
			p.decide(l, refused, endedError(l))
		case l.fate == waiting && !now.Before(l.parcel.deadline):
			p.finish(l, refused, errLate)
		}
		if l.fate != waiting {
			out = append(out, l)
			continue
		}
		l.fate = onWire
		kept = append(kept, l)
	}
	c.letters = kept
	for _, l := range out {
		if !slices.ContainsFunc(kept, func(other *letter) bool { return other.group == l.group }) {
			p.freeGroup(c, l.group)
		}
		if len(kept) == 0 && c.express {
			l.parcel.express = false
		}
	}
}

// collect fills a call from the pile. Groups that have to wait are passed over; the
// order of those that do not, and within each, is kept.
func (p *pile) collect(c *call) {
	kept := p.letters[:0]
	bytes := 0
	for i, l := range p.letters {
		g := l.group
		if g.call != nil && g.call != c || g.express > 0 || !l.held && (g.retries > 0 || g.skipped == c) {
			g.skipped = c
			kept = append(kept, l)
			continue
		}
		if len(c.letters) == maxBatch || len(c.letters) > 0 && bytes+l.size > maxBatchBytes {
			kept = append(kept, p.letters[i:]...)
			break
		}
		bytes += l.size
		p.update(g, func(g *group) { g.pileOf(l).add(l, -1) })
		p.take(c, l)
	}
	clear(p.letters[len(kept):])
	p.letters = kept
}

// take puts a letter, which has left where it waited, into a call.
func (p *pile) take(c *call, l *letter) {
	if l.place == inExpress {
		p.leaveExpress(l)
	}
	l.place = nowhere
	p.update(l.group, func(g *group) {
		if p.fifo {
			g.call = c
		}
		if l.held {
			g.retries--
		}
	})
	l.held = false
	c.letters = append(c.letters, l)
}

// free lets the groups of a call, and the parcel of an express one, have another.
func (p *pile) free(c *call) {
	for _, l := range c.letters {
		p.freeGroup(c, l.group)
		if c.express {
			l.parcel.express = false
		}
	}
}

func (p *pile) freeGroup(c *call, g *group) {
	if g.call == c {
		p.update(g, func(g *group) { g.call = nil })
		p.tidy(g)
	}
}

// record decides the letters of a call that has been answered, save those that were
// withdrawn.
func (p *pile) record(c *call, errs []error, err error) {
	for i, l := range c.letters {
		switch {
		case l.fate != onWire:
		case err == nil:
			p.recordEntry(c, i, errs)
		case errors.Is(err, errNoAnswer):
			p.finish(l, refused, err) // the rest of its parcel is late, too
		case isContentFault(err) && len(c.letters) > 1:
			// One of them is at fault; the others are not to suffer for it.
			l.fate = waiting
			if p.fifo {
				l.held = true
				p.update(l.group, func(g *group) { g.retries++ })
			}
			p.enterExpress(l)
			p.express = append(p.express, []*letter{l})
		case isContentFault(err):
			p.decide(l, refused, err)
		case isKeyThrottled(err):
			l.alone = false
			p.decide(l, again, err)
		default:
			p.decide(l, failedCall, err)
		}
	}
	for _, l := range c.letters { // that its context ended on the wire has been told already
		if l.fate == waiting && l.ended() {
			p.decide(l, refused, endedError(l))
		}
	}
	p.free(c)
}

// recordEntry decides the letter of one entry of a call. It is sent again unless it is
// at fault itself, or its group could get out of order.
func (p *pile) recordEntry(c *call, i int, errs []error) {
	l, err := c.letters[i], errs[i]
	if err == nil {
		p.decide(l, accepted, nil)
		return
	}
	var failure *entryError
	f := refused
	if errors.As(err, &failure) && !failure.senderFault {
		f = again
	}
	if f == again && p.fifo {
		for _, earlier := range c.letters[:i] {
			if earlier.parcel == l.parcel && earlier.group == l.group && earlier.fate == refused {
				f, err = refused, fmt.Errorf("not sent again, since an earlier message of its group was not accepted: %w", err)
				break
			}
		}
		for j := i + 1; j < len(c.letters) && f == again; j++ {
			if c.letters[j].group == l.group && wasAccepted(errs[j]) {
				f, err = refused, fmt.Errorf("not sent again, since a later message of its group was accepted: %w", err)
			}
		}
	}
	l.alone = true
	p.decide(l, f, err)
}
