package sqstest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// charger is the code under test: its handler fails until the bank is back.
type charger struct{ outages int }

func (c *charger) charge(*message.Message) error {
	if c.outages > 0 {
		c.outages--
		return errors.New("the bank does not answer")
	}
	return nil
}

// connect is a connection of the library to the service.
func connect(ctx context.Context, svc *sqstest.Service) (*watermillsqs.Connection, error) {
	cfg := svc.AWSConfig()
	return watermillsqs.Connect(ctx, watermillsqs.Config{AWS: &cfg})
}

// consume runs a handler on a queue, as a Watermill router does, until it has handled a
// message without an error.
func consume(ctx context.Context, svc *sqstest.Service, queue string, handler message.NoPublishHandlerFunc) error {
	conn, err := connect(ctx, svc)
	if err != nil {
		return err
	}
	defer conn.Close()
	sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{}, nil)
	if err != nil {
		return err
	}
	messages, err := sub.Subscribe(ctx, queue)
	if err != nil {
		return err
	}
	pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	if err := pub.Publish(queue, message.NewMessage(watermill.NewUUID(), []byte("order 1"))); err != nil {
		return err
	}
	for msg := range messages {
		if err := handler(msg); err == nil {
			msg.Ack()
			break
		}
		msg.Nack()
	}
	return nil
}

// stdout reports what an assertion has to say, in place of the *testing.T of a test.
type stdout struct{}

func (stdout) Helper()                           {}
func (stdout) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// A test that a handler gets over an outage, and that nothing stays behind. In a test of
// yours the service is sqstest.New(t), and t stands where stdout{} does.
func Example_retries() {
	ctx, svc, t := context.Background(), sqstest.Start(), stdout{}
	defer svc.Close()
	queue, err := svc.CreateQueue("charges", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := consume(ctx, svc, "charges", (&charger{outages: 2}).charge); err != nil {
		fmt.Println(err)
		return
	}

	svc.AssertReceived(t, "order 1", 3)
	queue.AssertEmpty(t)
	svc.CheckManners(t)
	for _, event := range svc.Histories("order 1")[0].Events {
		fmt.Println(event.Kind, event.ReceiveCount)
	}
	// Output:
	// sent 0
	// received 1
	// visibility changed 1
	// received 2
	// visibility changed 2
	// received 3
	// deleted 3
}
