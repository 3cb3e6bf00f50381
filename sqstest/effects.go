package sqstest

import (
	"context"
	"net/http"
	"time"
)

// Effect is what a [Fault] does to a call. Of its stages exactly one is set.
type Effect struct {
	// instead ends a call that is not carried out; or, reporting false, only holds it up.
	instead func(*call, *Injection) (outcome, bool)
	// applies narrows instead to some calls. Nil: all.
	applies func(*call) bool
	// prepare changes what one entry of a call will find.
	prepare func(q *Queue, handle string)
	// entry fails one entry of a call; on a call without entries, the call.
	entry func(*call) *apiError
	// deliver makes a receive deliver a message more often than once.
	deliver duplication
	// haunt makes a poll whose client has gone go on.
	haunt bool
	// after ends a call that was carried out, in place of its answer; or, reporting
	// false, only holds the answer up.
	after func(*call, *Injection) (outcome, bool)
}

// duplication is a way to deliver a message more often than once.
type duplication uint8

const (
	once           duplication = iota
	againInAnother             // it stays visible
	againInTheSame             // it is in the answer twice
)

func always(o outcome) func(*call, *Injection) (outcome, bool) {
	return func(*call, *Injection) (outcome, bool) { return o, true }
}

// After makes an effect that comes instead of a call, or before it, come after the call
// was carried out: the client sees the same, but what it asked for has happened. Other
// effects stay as they are.
func After(e Effect) Effect {
	if e.instead == nil {
		return e
	}
	instead, applies := e.instead, e.applies
	return Effect{after: func(c *call, i *Injection) (outcome, bool) {
		if applies != nil && !applies(c) {
			return outcome{}, false
		}
		return instead(c, i)
	}}
}

// Error answers with an error instead of carrying the call out. The code is that of an
// error of SQS by its modelled name or its legacy code, of SNS by its code, or any other.
// A status of 0 is the one that goes with the code.
func Error(status int, code, message string) Effect {
	return Effect{instead: func(c *call, _ *Injection) (outcome, bool) {
		return outcome{err: c.failure(status, code, message)}, true
	}}
}

// Throttle answers RequestThrottled, or Throttling for SNS, which the SDK retries after a
// pause of up to a second and then more, so a test of it is best run in a synctest bubble.
func Throttle() Effect {
	return Effect{instead: func(c *call, _ *Injection) (outcome, bool) {
		if c.query() {
			return outcome{err: newSNSError(0, "Throttling", "Rate exceeded")}, true
		}
		return outcome{err: newError(0, "RequestThrottled", "The request was throttled.")}, true
	}}
}

// Raw answers with a status and a body that is not of the protocol, as load balancers and
// proxies do. The SDK retries the statuses 500, 502, 503 and 504 whatever the body.
func Raw(status int, contentType, body string) Effect {
	return Effect{instead: always(outcome{raw: &answer{status: status, contentType: contentType, body: []byte(body)}})}
}

// Reset does not carry the call out and resets the connection, which the SDK retries. As
// After(Reset()) it carries the call out first.
func Reset() Effect { return Effect{instead: always(outcome{fate: fateReset})} }

// FailEntry reports an entry of a batch as failed without carrying it out. On an action
// for one message it is the error of the call, with status 400 if the sender is at
// fault and 500 otherwise; so it is on an action that is about no entries.
func FailEntry(code, message string, senderFault bool) Effect {
	status := http.StatusInternalServerError
	if senderFault {
		status = http.StatusBadRequest
	}
	return Effect{entry: func(c *call) *apiError { return c.failure(status, code, message) }}
}

// LoseAnswer carries the call out and breaks the connection instead of answering, as
// the SDK sees it in io.ErrUnexpectedEOF or a closed connection. The SDK retries that.
func LoseAnswer() Effect { return Effect{after: always(outcome{fate: fateBroken})} }

// Hang does not carry the call out and never answers. It ends when the client goes away
// or the service is closed.
func Hang() Effect {
	return Effect{instead: func(c *call, _ *Injection) (outcome, bool) { return c.wait(nil), true }}
}

// HangAfter carries the call out and then hangs as [Hang] does.
func HangAfter() Effect { return After(Hang()) }

// Latency holds a call up before it is carried out, for a time between the two, the same
// again for the same [Service.Seed]. A long poll waits its full time after that. As
// After(Latency(…)) it holds the answer up. It is meant for a synctest bubble, where it
// costs no time.
func Latency(least, most time.Duration) Effect {
	return Effect{instead: func(c *call, i *Injection) (outcome, bool) {
		timer := time.NewTimer(i.between(least, most))
		defer timer.Stop()
		result := c.wait(timer.C)
		return result, result.fate != fateAnswered
	}}
}

// Lag hides a queue for a time after its creation, or for as long as the fault lasts if
// the time is 0: calls that name it are answered QueueDoesNotExist. With
// Action: "GetQueueUrl" it is how GetQueueUrl lags behind CreateQueue, and Times is
// for how many calls.
func Lag(d time.Duration) Effect {
	return Effect{
		instead: always(outcome{err: queueDoesNotExist()}),
		applies: func(c *call) bool {
			name, _ := queueName(c.request.queueRef())
			q := c.service.registry.lookup(name)
			return q != nil && c.action != "CreateQueue" && (d == 0 || time.Since(q.created) < d)
		},
	}
}

// Redeliver makes a receive of a standard queue leave a message visible that it returns,
// so that the next receive returns it too, with another receipt: the duplicate delivery
// that standard queues allow themselves. Skip and Times count messages. The receipts
// behave as those of a message that was received again always do. It does nothing on FIFO
// queues.
func Redeliver() Effect { return Effect{deliver: againInAnother} }

// RedeliverAtOnce is [Redeliver] within one answer: the message is in it twice, with two
// receipts, if the receive asks for more messages than it has so far.
func RedeliverAtOnce() Effect { return Effect{deliver: againInTheSame} }

// TakeWhenGone makes a long poll whose client has gone away go on in its place until its
// wait is over, and take what it would have taken: the messages are in flight and nobody
// has them, until their visibility timeout ends. Skip and Times count the polls that are
// abandoned. Without it a poll ends with its client.
func TakeWhenGone() Effect { return Effect{haunt: true} }

// InvalidateReceipt makes the receipts of a call unusable before it is carried out, as
// if somebody else had received the messages since: a deletion succeeds and deletes
// nothing, a change of visibility is refused with InvalidParameterValue; on a FIFO queue
// both are refused as expired. The receipt of the message changes; its visibility and its
// count do not.
func InvalidateReceipt() Effect { return Effect{prepare: (*Queue).revoke} }

// wait waits until a time comes, if ever, the client goes, or the service is closed.
func (c *call) wait(until <-chan time.Time) outcome {
	select {
	case <-until:
		return outcome{}
	case <-c.ctx.Done():
		return outcome{fate: fateGone}
	case <-c.service.done:
		return outcome{fate: fateBroken}
	}
}

// haunt goes on with a poll whose client has gone, if a fault says so.
func (p *poll) haunt() bool {
	service := p.call.service
	if !p.call.faults.haunted(p.call) || !service.enter() {
		return false
	}
	ghost := *p.call
	ghost.ctx, ghost.messageIDs = context.WithoutCancel(p.call.ctx), nil
	ghost.note = "by a poll whose client has gone"
	p.call.abandoned = true
	p.call = &ghost
	go func() {
		defer service.active.Done()
		p.wait() // what it takes is lost
	}()
	return true
}
