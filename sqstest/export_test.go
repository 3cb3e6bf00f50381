package sqstest

import "time"

// Fill puts messages into a queue, faster than sends would.
func Fill(q *Queue, messages int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	c, sum := &call{}, bodyMD5("x")
	for range messages {
		q.enqueue(c, &message{id: "m", body: "x", bodyMD5: sum}, 0, now)
	}
}

// TakeAll receives what can be received and returns the receipts.
func TakeAll(q *Queue) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var receipts []string
	for _, d := range q.take(&poll{queue: q, call: &call{at: now}, most: q.visibleCount()}, now).deliveries {
		receipts = append(receipts, d.receipt)
	}
	return receipts
}
