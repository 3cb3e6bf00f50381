package sqstest

import (
	"fmt"
	"strconv"
	"time"
)

// publish brings a message to the subscriptions of its topic, whose mutex is held. A
// duplicate on a FIFO topic is accepted, goes nowhere, and gets the identity of its
// original.
func (t *Topic) publish(c *call, p *publication) {
	now := time.Now()
	t.published++
	if t.fifo {
		key := t.dedupKey(p)
		if first, ok := t.sent.get(key, now); ok {
			p.id, p.sequence = first.id, topicSequence(first.number)
			return
		}
		p.sequence = topicSequence(t.published)
		t.sent.put(key, original{p.id, t.published}, now)
	}
	c.messageIDs = append(c.messageIDs, p.id)
	if c.faults.wantAffected {
		c.faults.affected = append(c.faults.affected, MessageView{
			ID: p.id, Body: p.text, Attributes: attributeValues(p.attributes), GroupID: p.groupID, DeduplicationID: p.dedupID, SentAt: p.at,
		})
	}
	for _, sub := range t.subscriptions {
		if sub.pending() || !sub.settings.filter.matches(p) {
			continue
		}
		reason := sub.deliver(sub.endpoint, p, now)
		if reason == "" {
			continue
		}
		d := Discard{At: now, Subscription: sub.arn(), Endpoint: sub.endpoint, MessageID: p.id, Reason: reason}
		if dead := sub.settings.deadLetter; dead != "" {
			if reason := sub.deliver(dead, p, now); reason == "" {
				d.DeadLettered = true
			} else {
				d.Reason += "; dead-letter queue: " + reason
			}
		}
		t.discard(d)
	}
}

// topicSequence is a SequenceNumber of SNS, which has nothing to do with that of SQS.
func topicSequence(number uint64) string {
	return "1000" + strconv.FormatUint(1_000_000_000_000_000+number*1000, 10)
}

// deliver puts a message into a queue, and says why not if it cannot.
func (sub *subscription) deliver(queueARN string, p *publication, now time.Time) (reason string) {
	q := sub.topic.service.queueByARN(queueARN)
	if q == nil {
		return "the queue does not exist"
	}
	m := &message{id: newUUID(), traceHeader: p.traceHeader}
	if sub.settings.raw {
		m.body = p.text
		if !p.structured {
			m.attributes = p.attributes
		}
	} else {
		m.body = sub.envelope(p)
	}
	switch {
	case q.fifo != nil:
		m.groupID, m.dedupID = p.groupID, p.dedupID
	case !sub.topic.fifo:
		m.groupID = p.groupID // fair queues; a FIFO topic does not pass it on (sqs-facts 11.1)
	}
	if len(m.attributes) > maxMessageAttributes {
		return fmt.Sprintf("raw delivery of %d message attributes, %d are allowed", len(m.attributes), maxMessageAttributes)
	}
	if !legalText(m.body) {
		return "the body has characters that SQS does not take"
	}
	m.bodyMD5, m.attrsMD5 = bodyMD5(m.body), attributesMD5(m.attributes)

	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.deleted:
		return "the queue does not exist"
	case (q.fifo != nil) && m.groupID == "":
		return "a FIFO queue needs a message group"
	case !q.settings.policy.allowsSend(q.ARN(), sub.topic.ARN()):
		return "the policy of the queue does not let the topic send"
	case contentSize(m.body, m.attributes) > q.settings.maxSize:
		return fmt.Sprintf("the message is larger than the %d bytes of the queue", q.settings.maxSize)
	}
	q.enqueue(&call{service: q.service, at: now, note: "through topic " + sub.topic.name}, m, -1, now)
	q.wakeNext()
	return ""
}

// envelope is the body of a message that is not delivered raw (sqs-facts 11.2).
func (sub *subscription) envelope(p *publication) string {
	o := newObject(make([]byte, 0, 800+len(p.text)))
	o.text("Type", "Notification")
	o.text("MessageId", p.id)
	o.textIf("SequenceNumber", p.sequence)
	o.text("TopicArn", sub.topic.ARN())
	o.textIf("Subject", p.subject)
	o.text("Message", p.text)
	o.text("Timestamp", timestamp(p.at))
	host := "https://sns." + Region + ".amazonaws.com/"
	if !sub.topic.fifo {
		version := sub.topic.settings.text["SignatureVersion"]
		if version == "" {
			version = "1"
		}
		o.text("SignatureVersion", version)
		o.text("Signature", "c3FzdGVzdCBkb2VzIG5vdCBzaWdu") // "sqstest does not sign"
		o.text("SigningCertURL", host+"SimpleNotificationService-0000000000000000000000.pem")
	}
	o.text("UnsubscribeURL", host+"?Action=Unsubscribe&SubscriptionArn="+sub.arn())
	if len(p.attributes) > 0 && !p.structured {
		o.key("MessageAttributes")
		all := newObject(o.b)
		for _, a := range p.attributes {
			all.key(a.name)
			one := newObject(all.b)
			one.text("Type", a.dataType)
			if a.isBinary {
				one.blob("Value", a.binary)
			} else {
				one.text("Value", a.text)
			}
			all.b = one.end()
		}
		o.b = all.end()
	}
	return string(o.end())
}
