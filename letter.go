package watermillsqs

import (
	"context"
	"time"
)

// letter is one message of a Publish call, in an outbox or not. While it is in one,
// from add until its fate is decided, the mutex of the outbox guards what may change.
type letter struct {
	index  int // in the Publish call
	out    Outgoing
	size   int
	values context.Context // lends its values to the call that the letter leads
	ends   context.Context // ends the wish to send; nil if nothing does
	parcel *parcel

	fate fate
	err  error // why it was not accepted
	// alone tells of a letter to be sent again that it failed on its own, and not
	// with its whole call.
	alone bool

	group *group
	place place
	held  bool // its group waits for it, since it is to be sent again
}

// ended reports whether nobody wants the letter sent any more.
func (l *letter) ended() bool { return l.ends != nil && l.ends.Err() != nil }

// fate is what has become of a letter.
type fate uint8

const (
	waiting    fate = iota // in the outbox, or not in it yet
	onWire                 // in a call that is under way
	accepted               // by SQS
	refused                // for good, or not sent at all
	failedCall             // the call that it was in, or was to follow, failed as a whole
	again                  // failed, and may be sent again
)

// place is where in an outbox a waiting letter is.
type place uint8

const (
	nowhere place = iota
	inPile
	inExpress
)

// parcel is what a Publish call has in an outbox: at most what fits one call. Its
// letters may leave with different calls.
type parcel struct {
	sender   any           // the Publish call that it is of; only compared
	deadline time.Time     // when nobody waits for it any more
	done     chan struct{} // gets a value when all fates are decided; buffered

	// The rest belongs to the outbox.
	letters []*letter
	left    int // letters whose fate is not decided
	added   time.Time
	express bool // one of its express calls is under way
}

// group holds the letters of a FIFO message group that are in the outbox. Those of a
// standard queue are all of one group, which no call keeps from the others.
type group struct {
	id      string
	fresh   tally // in the pile
	held    tally // in the pile, to be sent again
	express int   // letters in express
	retries int   // letters to be sent again, in the outbox or not
	call    *call // under way with letters of the group
	skipped *call // formed without a fresh letter of the group, and so without those behind it
}

// busy reports whether nothing of the group may leave the pile: a call is under way, or
// letters that were in a call before them wait in express.
func (g *group) busy() bool { return g.call != nil || g.express > 0 }

// ready is what of the group may leave the pile now: nothing while it is busy, and
// nothing new while a letter waits to be sent again.
func (g *group) ready() tally {
	switch {
	case g.busy():
		return tally{}
	case g.retries > 0:
		return g.held
	}
	return tally{g.fresh.letters + g.held.letters, g.fresh.bytes + g.held.bytes}
}

// pileOf is the tally of the pile to which a letter of the group belongs.
func (g *group) pileOf(l *letter) *tally {
	if l.held {
		return &g.held
	}
	return &g.fresh
}

func (g *group) idle() bool {
	return g.fresh.letters == 0 && g.held.letters == 0 && g.retries == 0 && !g.busy()
}

// tally counts letters as SQS does.
type tally struct{ letters, bytes int }

func (t *tally) add(l *letter, sign int) {
	t.letters += sign
	t.bytes += sign * l.size
}

// full reports whether no call takes more.
func (t *tally) full() bool { return t.letters >= maxBatch || t.bytes >= maxBatchBytes }

// call is one call to SQS that is being formed or is under way.
type call struct {
	letters []*letter
	express bool
	since   time.Time
	buffer  [maxBatch]*letter // of letters
}

// batchLength is how many of the letters fit one call: ten, and 1 MiB.
func batchLength(letters []*letter) int {
	n, bytes := 0, 0
	for n < len(letters) && n < maxBatch {
		bytes += letters[n].size
		if n > 0 && bytes > maxBatchBytes {
			break
		}
		n++
	}
	return n
}
