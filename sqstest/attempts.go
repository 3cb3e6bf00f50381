package sqstest

import "time"

// repeat finds what an earlier receive with the same ReceiveRequestAttemptId returned,
// if nothing has become of it since: none of its messages was deleted, changed, or
// visible again. Their visibility timeout starts anew, up to the 12 hours that a receipt
// holds at most; receipts and counts stay (sqs-facts 5.1). The mutex is held.
func (q *Queue) repeat(p *poll, now time.Time) []delivery {
	if p.attempt == "" {
		return nil
	}
	deliveries, ok := q.fifo.attempts.get(p.attempt, now)
	if !ok {
		return nil
	}
	for _, d := range deliveries {
		m := d.message
		if q.byNumber[m.number] != m || m.state != stateInFlight || m.serial != d.serial || m.changed {
			return nil
		}
	}
	for _, d := range deliveries {
		m := d.message
		until := now.Add(q.visibilityFor(p))
		if limit := m.receivedAt.Add(maxHold); until.After(limit) {
			until = limit
		}
		q.hidden.remove(m)
		m.visibleAt = until
		q.hidden.push(m)
		e := p.call.event(repeated, q, now)
		e.receipt, e.count, e.timeout = d.receipt, int32(d.receiveCount), until.Sub(now)
		m.history.add(e)
	}
	return deliveries
}

// remember keeps what a receive with an attempt id returned. The mutex is held.
func (q *Queue) remember(p *poll, deliveries []delivery, now time.Time) {
	if p.attempt != "" && len(deliveries) > 0 {
		q.fifo.attempts.put(p.attempt, deliveries, now)
	}
}
