package main

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// ours is the library, as a program uses it: Publisher and Subscriber with their
// defaults but for MaxInFlight, and no logger.
type ours struct {
	conn      *watermillsqs.Connection
	publisher *watermillsqs.Publisher
}

func newOurs(endpoint string) (transport, error) {
	conn, err := watermillsqs.Connect(context.Background(), watermillsqs.Config{Endpoint: endpoint, TestCredentials: true, Region: region})
	if err != nil {
		return nil, err
	}
	publisher, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{}, nil)
	return &ours{conn: conn, publisher: publisher}, err
}

func (o *ours) close() { _ = o.conn.Close() }

type ourPublication struct {
	publisher *watermillsqs.Publisher
	topic     string
	messages  []*message.Message
}

func (o *ours) prepare(queue string, messages []payload) publication {
	p := &ourPublication{publisher: o.publisher, topic: queue}
	for _, m := range messages {
		msg := message.NewMessage(m.uuid, []byte(m.body))
		msg.Metadata = m.metadata
		p.messages = append(p.messages, msg)
	}
	return p
}

func (p *ourPublication) publish(i, j int) error {
	return p.publisher.Publish(p.topic, p.messages[i:j]...)
}

func (o *ours) consume(queue string, inFlight int, handle func(received) verdict, settled func(bool)) (func() error, error) {
	subscriber, err := watermillsqs.NewSubscriber(o.conn, watermillsqs.SubscriberConfig{
		MaxInFlight: inFlight,
		Hooks: watermillsqs.Hooks{Settled: func(s watermillsqs.Settlement) {
			if s.Err == nil {
				settled(s.Outcome == watermillsqs.Acked || s.Outcome == watermillsqs.Dropped)
			}
		}},
	}, nil)
	if err != nil {
		return nil, err
	}
	messages, err := subscriber.Subscribe(context.Background(), queue)
	if err != nil {
		return nil, err
	}
	go func() {
		for msg := range messages {
			go func() { // as Watermill's router does
				delivery, _ := watermillsqs.DeliveryFromContext(msg.Context())
				switch handle(received{body: msg.Payload, metadata: msg.Metadata, attempt: delivery.ReceiveCount}) {
				case ack:
					msg.Ack()
				case retry:
					msg.Nack()
				case retryAfter:
					watermillsqs.RetryAfter(msg, retryDelay)
					msg.Nack()
				case drop:
					watermillsqs.Drop(msg)
					msg.Ack()
				}
			}()
		}
	}()
	return subscriber.Close, nil
}

const retryDelay = time.Second
