package watermillsqs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// sendRounds is how often a message is sent that failed alone and not through a fault
// of its own. A call that fails as a whole has been tried three times by the SDK
// already.
const sendRounds = 3

// publishCall is one call of Publish.
type publishCall struct {
	config  *PublisherConfig
	conn    *Connection
	log     watermill.LoggerAdapter
	clients *clients
	id      queueID
	letters []letter // by position in the call
	// broken has, for a FIFO group, the first letter that was refused for good.
	broken map[string]*letter

	// relook is closed when the one shipment that looks the queue up again has done so.
	relook    atomic.Pointer[chan struct{}]
	relookURL string // "" if it was not found
}

// publish sends messages, of which there is at least one.
func (c *publishCall) publish(topic string, messages []*message.Message) error {
	if err := c.marshal(topic, messages); err != nil {
		return err
	}
	rest, _ := c.sendable(c.pointers())
	if len(rest) == 0 {
		return c.result(topic, messages)
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(messages[0].Context()), c.config.PublishTimeout)
	defer cancel()
	queueURL, err := c.lookUp(ctx, rest)
	if err != nil {
		for _, l := range rest {
			if l.err = err; l.ended() {
				l.err = endedError(l)
			}
		}
		return c.result(topic, messages)
	}
	if traces(c.log) {
		c.log.Debug("Publishing", watermill.LogFields{logTopic: topic, logQueue: c.id.name, "messages": len(messages)})
	}
	c.send(ctx, queueURL, rest)
	return c.result(topic, messages)
}

// marshal turns the messages into letters. It fails, with the faults of all of them, if
// one can never be sent.
func (c *publishCall) marshal(topic string, messages []*message.Message) error {
	c.letters = make([]letter, len(messages))
	var faults []MessageError
	for i, msg := range messages {
		if msg == nil {
			faults = append(faults, MessageError{Index: i, Err: errors.New("the message is nil")})
			continue
		}
		out, err := c.outgoing(topic, msg)
		if err != nil {
			faults = append(faults, MessageError{Index: i, UUID: msg.UUID, Err: err})
			continue
		}
		c.letters[i] = newLetter(msg.Context(), i, out)
	}
	if faults != nil {
		return &PublishError{Topic: topic, Messages: len(messages), Failed: faults}
	}
	return nil
}

// outgoing is what to send for a message.
func (c *publishCall) outgoing(topic string, msg *message.Message) (Outgoing, error) {
	const noDelay = "a FIFO queue has no delay for a single message, only its own DelaySeconds for all of them"
	if err := checkRepublished(msg); err != nil {
		return Outgoing{}, err
	}
	out, err := c.config.Marshaler.Marshal(topic, withoutDeduplicationID(msg))
	switch {
	case err == nil && out.DelaySeconds > 0 && c.id.isFIFO():
		return Outgoing{}, fmt.Errorf("%w: it is %d s, but %s", ErrInvalidDelay, out.DelaySeconds, noDelay)
	case errors.Is(err, ErrInvalidDelay) && c.id.isFIFO():
		return Outgoing{}, fmt.Errorf("%w (and %s)", err, noDelay)
	case err != nil:
		return Outgoing{}, err
	}
	if err := (idsOf{c.config.GroupID, c.config.DeduplicationID}).fill(&out, topic, msg, c.id.isFIFO()); err != nil {
		return Outgoing{}, err
	}
	return out, out.validate()
}

func newLetter(ctx context.Context, index int, out Outgoing) letter {
	l := letter{index: index, out: out, size: out.size(), values: ctx}
	if deliveryFrom(ctx) == nil { // of a delivery's, the values count, not the end
		l.ends = ctx
	}
	return l
}

func (c *publishCall) pointers() []*letter {
	pointers := make([]*letter, len(c.letters))
	for i := range c.letters {
		pointers[i] = &c.letters[i]
	}
	return pointers
}

// lookUp finds the queue. Nothing is on the wire yet, so the end of the context that all
// messages share ends it.
func (c *publishCall) lookUp(ctx context.Context, letters []*letter) (string, error) {
	if queueURL, ok := c.conn.queues.known(c.id); ok {
		return queueURL, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if first := letters[0].ends; first != nil && !slices.ContainsFunc(letters, func(l *letter) bool { return l.ends != first }) {
		defer context.AfterFunc(first, cancel)()
	}
	queueURL, _, err := c.conn.queues.resolve(ctx, c.clients, c.id, c.config.creation())
	return queueURL, err
}

// send sends all letters, and leaves in each what became of it.
func (c *publishCall) send(ctx context.Context, queueURL string, letters []*letter) {
	if batchLength(letters) < len(letters) {
		c.sendBatches(ctx, queueURL, letters)
		return
	}
	s := c.newShipment(ctx, queueURL)
	defer s.end()
	_ = s.send(ctx, letters, false) // the letters have it
}

// sendBatches is send for more than fits one call. To a standard queue, which promises no
// order, as many batches are on their way at a time as may be.
func (c *publishCall) sendBatches(ctx context.Context, queueURL string, rest []*letter) {
	var (
		mu       sync.Mutex // guards rest and failed
		failed   error
		shipping sync.WaitGroup
	)
	next := func() (batch []*letter) {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil {
			// A call as a whole failed although the SDK tried it again: the next one
			// would most likely fail, too.
			for _, l := range rest {
				l.err = fmt.Errorf("not sent, since an earlier call failed: %w", failed)
			}
			rest = nil
		}
		n := batchLength(rest)
		batch, rest = rest[:n], rest[n:]
		return batch
	}
	most := 1
	if !c.id.isFIFO() {
		most = maxSends
	}
	for range most {
		batch := next()
		if len(batch) == 0 {
			break
		}
		// Handed in here, so that they leave in their order as far as possible.
		s := c.newShipment(ctx, queueURL)
		s.begin(batch)
		shipping.Go(func() {
			defer s.end()
			for begun := true; len(batch) > 0; begun = false {
				if err := s.send(ctx, batch, begun); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
				batch = next()
			}
		})
	}
	shipping.Wait()
}

// sendable leaves out letters whose context has ended, and those of a FIFO group that
// stand behind one that was not accepted. freed are those of them that their group
// waits for.
func (c *publishCall) sendable(letters []*letter) (kept, freed []*letter) {
	if len(c.broken) == 0 && !slices.ContainsFunc(letters, (*letter).ended) {
		return letters, nil
	}
	kept = make([]*letter, 0, len(letters))
	for _, l := range letters {
		first := c.broken[l.out.GroupID]
		switch {
		case first != nil && first.index < l.index:
			l.err = behindError(first.err)
		case l.ended():
			l.err = endedError(l)
			c.breakGroup(l)
		default:
			kept = append(kept, l)
			continue
		}
		if l.held {
			freed = append(freed, l)
		}
	}
	return kept, freed
}

// breakGroups notes of which groups a letter was refused for good.
func (c *publishCall) breakGroups(letters []*letter) {
	for _, l := range letters {
		if l.fate == refused {
			c.breakGroup(l)
		}
	}
}

func (c *publishCall) breakGroup(l *letter) {
	if !c.id.isFIFO() {
		return
	}
	if c.broken == nil {
		c.broken = make(map[string]*letter)
	}
	if first := c.broken[l.out.GroupID]; first == nil || l.index < first.index {
		c.broken[l.out.GroupID] = l
	}
}

// result is the outcome of the whole call.
func (c *publishCall) result(topic string, messages []*message.Message) error {
	var failed []MessageError
	for i := range c.letters {
		if err := c.letters[i].err; err != nil {
			failed = append(failed, MessageError{Index: i, UUID: messages[i].UUID, Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return &PublishError{Topic: topic, Messages: len(messages), Failed: failed}
}

// shipment sends letters of a Publish call, as many at a time as fit one call.
type shipment struct {
	call   *publishCall
	box    *outbox
	parcel parcel // what is in the outbox
	moved  bool   // the queue has been looked up again once

	// unwanted gets a value, or is closed, when the context of a message in the parcel
	// ends.
	unwanted <-chan struct{}
	shared   bool // unwanted is closed: there is one context for all
}

// newShipment holds the outbox of a queue.
func (c *publishCall) newShipment(ctx context.Context, queueURL string) *shipment {
	s := &shipment{call: c, parcel: parcel{sender: c, done: make(chan struct{}, 1)}}
	s.parcel.deadline, _ = ctx.Deadline()
	s.use(queueURL)
	return s
}

// end lets go of the outbox.
func (s *shipment) end() { s.box.unhold() }

// use makes a queue's outbox the one to send with.
func (s *shipment) use(queueURL string) {
	if s.box != nil {
		s.box.unhold()
	}
	s.box = s.call.conn.outboxes.hold(s.call.clients, queueURL, s.call.id.isFIFO())
}

// watch makes unwanted tell when the context of a message ends, until the function that
// it returns is called.
func (s *shipment) watch(letters []*letter) (stop func()) {
	var first <-chan struct{}
	s.shared = true
	for i, l := range letters {
		var done <-chan struct{}
		if l.ends != nil {
			done = l.ends.Done()
		}
		if i == 0 {
			first = done
		}
		s.shared = s.shared && done == first
	}
	if s.shared {
		s.unwanted = first
		return func() {}
	}
	unwanted := make(chan struct{}, 1)
	tell := func() {
		select {
		case unwanted <- struct{}{}:
		default:
		}
	}
	s.unwanted = unwanted
	var stops []func() bool
	var watched <-chan struct{}
	for _, l := range letters {
		if l.ends != nil && l.ends.Done() != watched { // neighbours often share one
			watched = l.ends.Done()
			stops = append(stops, context.AfterFunc(l.ends, tell))
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// send sends letters that fit one call until each is accepted, refused for good,
// or has been tried often enough. It returns the error of a call that failed as a whole.
//
// begun says that they are in the outbox already, see begin.
func (s *shipment) send(ctx context.Context, letters []*letter, begun bool) error {
	c := s.call
	defer s.watch(letters)()
	apart := false
	for round := 1; ; round++ {
		if begun {
			begun = false
		} else if letters = s.add(ctx, letters, apart); len(letters) == 0 {
			return nil
		}
		s.await(ctx)

		var failed error // of a call as a whole
		apart = false
		var undecided []*letter
		for _, l := range letters {
			switch l.fate {
			case again:
				apart = apart || l.alone
				undecided = append(undecided, l)
			case failedCall:
				if failed == nil {
					failed = l.err
				}
				undecided = append(undecided, l)
			default:
			}
		}
		c.breakGroups(letters)
		switch {
		case len(undecided) == 0:
			return nil
		case failed != nil && isQueueMissing(failed):
			s.box.release(undecided...)
			if s.lookUpAgain(ctx, letters) {
				letters, apart = undecided, false
				round--
				continue
			}
		case failed == nil && round < sendRounds && s.pauseBefore(ctx, round, undecided):
			letters = undecided
			continue
		}
		s.box.release(undecided...)   // first: who has decided the last of them may still be looking at the others
		for _, l := range undecided { // their errors say what is left
			l.fate = refused
		}
		c.breakGroups(undecided)
		if round > 1 {
			return nil // what fails when it is sent again is the misfortune of these
		}
		return failed
	}
}

// begin hands letters in, of which none has been sent.
func (s *shipment) begin(letters []*letter) { s.box.add(&s.parcel, letters, false, false) }

// add hands letters in, and returns those; others are not to be sent any more.
func (s *shipment) add(ctx context.Context, letters []*letter, apart bool) []*letter {
	letters, freed := s.call.sendable(letters)
	if len(freed) > 0 {
		s.box.release(freed...)
	}
	switch {
	case len(letters) == 0:
	case ctx.Err() != nil:
		for _, l := range letters {
			l.err = errLate
		}
		s.box.release(letters...)
		return nil
	default:
		s.box.add(&s.parcel, letters, apart, true)
	}
	return letters
}

// await waits until the fate of all letters in the outbox is decided.
func (s *shipment) await(ctx context.Context) {
	for {
		select {
		case <-s.parcel.done:
			return
		case <-s.unwanted:
			s.told()
			s.box.withdraw(&s.parcel, false)
		case <-ctx.Done():
			s.box.withdraw(&s.parcel, true)
			<-s.parcel.done
			return
		}
	}
}

// told is called when unwanted has told something.
func (s *shipment) told() {
	if s.shared {
		s.unwanted = nil // there is no more to tell
	}
}

// pauseBefore waits before another round, and reports whether there is time for it.
func (s *shipment) pauseBefore(ctx context.Context, round int, letters []*letter) bool {
	const firstPause, longestPause = 100 * time.Millisecond, time.Second
	pause := exponential(firstPause, longestPause, round-1)
	timer := time.NewTimer(pause/2 + rand.N(pause/2))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-s.unwanted:
			s.told()
			if !slices.ContainsFunc(letters, func(l *letter) bool { return !l.ended() }) {
				return true // there is nobody to pause for
			}
		case <-ctx.Done():
			return false
		}
	}
}

// lookUpAgain is tried once a call when the queue is not where it was: it may have
// been deleted and made anew.
func (s *shipment) lookUpAgain(ctx context.Context, letters []*letter) bool {
	c := s.call
	if s.moved || c.id.url != "" {
		return false
	}
	s.moved = true
	done := make(chan struct{})
	if c.relook.CompareAndSwap(nil, &done) {
		c.conn.queues.forget(c.id, s.box.url)
		c.relookURL, _ = c.lookUp(ctx, letters)
		close(done)
	}
	select {
	case <-*c.relook.Load():
	case <-ctx.Done():
		return false
	}
	if c.relookURL == "" {
		return false
	}
	s.use(c.relookURL)
	return true
}
