package watermillsqs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

var (
	errBusy   = errors.New("payment provider is busy")
	errNoCard = errors.New("no such card")
)

func charge(context.Context, message.Payload) error { return nil }

// A router on an SQS queue.
func Example() {
	service := sqstest.Start() // on AWS, leave out Config.AWS
	defer service.Close()
	cfg := service.AWSConfig()

	program := func(ctx context.Context) error {
		logger := watermill.NopLogger{}
		conn := watermillsqs.NewConnection(watermillsqs.Config{AWS: &cfg})
		sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{
			Queue:       watermillsqs.Queue{CreateIfMissing: true},
			MaxInFlight: 50,
			Backoff:     watermillsqs.ExponentialBackoff(time.Second, 5*time.Minute),
		}, logger)
		if err != nil {
			return err
		}
		router, err := message.NewRouter(message.RouterConfig{}, logger)
		if err != nil {
			return err
		}
		router.AddMiddleware(watermillsqs.Outcomes)
		router.AddConsumerHandler("charge", "payments", sub, func(msg *message.Message) error {
			err := charge(msg.Context(), msg.Payload)
			switch {
			case errors.Is(err, errBusy):
				return watermillsqs.RetryAfterError(err, 30*time.Second)
			case errors.Is(err, errNoCard):
				return watermillsqs.DropError(err)
			default:
				return err // nil deletes the message, anything else retries it
			}
		})
		if err := conn.Connect(ctx); err != nil { // until here there was no I/O
			return err
		}
		defer conn.Close()
		return router.Run(ctx)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fmt.Println(program(ctx))
	// Output: <nil>
}

// Swapping the transport under a router: the handles of watermill-aws become
// these, the rest of the program stays.
func Example_swap() {
	service := sqstest.Start()
	defer service.Close()
	cfg := service.AWSConfig()
	logger := watermill.NopLogger{}
	ctx := context.Background()

	build := func() (message.Publisher, message.Subscriber, error) {
		conn, err := watermillsqs.Connect(ctx, watermillsqs.Config{AWS: &cfg})
		if err != nil {
			return nil, nil, err
		}
		pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{}, logger)
		if err != nil {
			return nil, nil, err
		}
		sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{}, logger)
		return pub, sub, err
	}

	_, _, err := build()
	fmt.Println(err)
	// Output: <nil>
}

// Verbs record the outcome on the message; it takes effect when the router acks or
// nacks.
func ExampleRetryAfter() {
	handler := func(msg *message.Message) error {
		err := charge(msg.Context(), msg.Payload)
		if errors.Is(err, errBusy) {
			watermillsqs.RetryAfter(msg, 30*time.Second)
		}
		return err
	}
	fmt.Println(handler(message.NewMessage("1", nil)))
	// Output: <nil>
}

// Watermill's Retry retries in the process; a verdict ends that, and the queue does
// the rest.
func ExampleOutcomes() {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		panic(err)
	}
	router.AddMiddleware(
		middleware.Retry{MaxRetries: 2, ShouldRetry: watermillsqs.ShouldRetry}.Middleware,
		watermillsqs.Outcomes, // inside of Retry
	)
	fmt.Println(router.IsRunning())
	// Output: false
}

// The facts of the delivery, in any code that has the context.
func ExampleDeliveryFromContext() {
	handler := func(msg *message.Message) error {
		if delivery, ok := watermillsqs.DeliveryFromContext(msg.Context()); ok && delivery.ReceiveCount > 5 {
			watermillsqs.Drop(msg)
			return fmt.Errorf("given up after %d deliveries", delivery.ReceiveCount)
		}
		return charge(msg.Context(), msg.Payload)
	}
	fmt.Println(handler(message.NewMessage("1", nil)))
	// Output: <nil>
}

// The redrive policy, as a part of the queue's descriptor.
func ExampleQueue() {
	config := watermillsqs.SubscriberConfig{
		Queue:   watermillsqs.Queue{MaxAttempts: 5, DeadLetter: "payments-dead"},
		Backoff: watermillsqs.ExponentialBackoff(time.Second, 5*time.Minute),
	}
	_, err := watermillsqs.NewSubscriber(watermillsqs.NewConnection(watermillsqs.Config{}), config, nil)
	fmt.Println(err)
	// Output: <nil>
}

// One program for every transport: the source is the line that changes.
func ExampleNewRetry() {
	conn := watermillsqs.NewConnection(watermillsqs.Config{})
	sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{}, nil)
	if err != nil {
		panic(err)
	}
	handler := func(msg *message.Message) error { return charge(msg.Context(), msg.Payload) }
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		panic(err)
	}

	assemble := func() error {
		source := watermillsqs.Source{Subscriber: sub}
		retry, err := watermillsqs.NewRetry(source)
		if err != nil {
			return err
		}
		router.AddMiddleware(retry)
		router.AddConsumerHandler("charge", "payments", source.Subscriber, handler)
		return nil
	}
	fmt.Println(assemble())
	// Output: <nil>
}

// Moving the messages of a dead-letter queue back.
func ExampleConnection_StartRedrive() {
	service := sqstest.Start()
	defer service.Close()
	cfg := service.AWSConfig()
	ctx := context.Background()
	conn, err := watermillsqs.Connect(ctx, watermillsqs.Config{AWS: &cfg})
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{
		Queue: watermillsqs.Queue{CreateIfMissing: true, MaxAttempts: 5, DeadLetter: "payments-dead"},
	}, nil)
	if err != nil {
		panic(err)
	}
	if err := sub.SubscribeInitialize("payments"); err != nil {
		panic(err)
	}

	redriveAll := func() error {
		redrive, err := conn.StartRedrive(ctx, "payments-dead", watermillsqs.RedriveConfig{MaxPerSecond: 100})
		if err != nil {
			return err
		}
		for progress, err := range redrive.Watch(ctx, time.Second) {
			if err != nil {
				return err
			}
			fmt.Println(progress.Status, progress.Moved, progress.Total)
		}
		return nil
	}
	fmt.Println(redriveAll())
	// Output:
	// COMPLETED 0 0
	// <nil>
}

// Which messages of a call were not accepted.
func ExamplePublishError() {
	service := sqstest.Start()
	defer service.Close()
	cfg := service.AWSConfig()
	conn, err := watermillsqs.Connect(context.Background(), watermillsqs.Config{AWS: &cfg})
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{CreateIfMissing: true}, nil)
	if err != nil {
		panic(err)
	}

	err = pub.Publish("orders",
		message.NewMessage("small", []byte("fits")),
		message.NewMessage("large", make([]byte, 2<<20)),
	)
	var failure *watermillsqs.PublishError
	if errors.As(err, &failure) {
		for _, failed := range failure.Failed {
			fmt.Println(failed.Index, failed.UUID, errors.Is(failed.Err, watermillsqs.ErrMessageTooLarge))
		}
	}
	// Output: 1 large true
}

// Counting what becomes of messages.
func ExampleHooks() {
	config := watermillsqs.SubscriberConfig{
		Hooks: watermillsqs.Hooks{
			Settled: func(s watermillsqs.Settlement) {
				fmt.Println(s.Queue, s.Outcome, s.ReceiveCount, s.Err)
			},
		},
	}
	config.Hooks.Settled(watermillsqs.Settlement{Queue: "orders", Outcome: watermillsqs.Acked, ReceiveCount: 1})
	// Output: orders acked 1 <nil>
}

// A FIFO queue: the messages of a group, here of an order, arrive one at a time and in
// order, those of other orders beside them.
func ExamplePublisherConfig() {
	service := sqstest.Start()
	defer service.Close()
	cfg := service.AWSConfig()
	conn, err := watermillsqs.Connect(context.Background(), watermillsqs.Config{AWS: &cfg})
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	logger := watermill.NopLogger{}

	publish := func(messages ...*message.Message) error {
		pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{
			CreateIfMissing: true,
			GroupID:         func(_ string, msg *message.Message) string { return msg.Metadata.Get("order") },
		}, logger)
		if err != nil {
			return err
		}
		return pub.Publish("orders.fifo", messages...)
	}

	var messages []*message.Message
	for _, step := range []string{"placed", "paid", "shipped"} {
		msg := message.NewMessage(watermill.NewUUID(), []byte(step))
		msg.Metadata.Set("order", "1017")
		messages = append(messages, msg)
	}
	if err := publish(messages...); err != nil {
		panic(err)
	}
	sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{}, logger)
	if err != nil {
		panic(err)
	}
	arrived, err := sub.Subscribe(context.Background(), "orders.fifo")
	if err != nil {
		panic(err)
	}
	for range messages {
		msg := <-arrived
		fmt.Println(string(msg.Payload))
		msg.Ack()
	}
	// Output:
	// placed
	// paid
	// shipped
}

// What messages cost, and how full calls are.
func ExampleCallCounter() {
	service := sqstest.Start()
	defer service.Close()
	cfg := service.AWSConfig()
	ctx, logger := context.Background(), watermill.NopLogger{}

	var calls watermillsqs.CallCounter
	conn, err := watermillsqs.Connect(ctx, watermillsqs.Config{AWS: &cfg, Called: calls.Count})
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	pub, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{CreateIfMissing: true}, logger)
	if err != nil {
		panic(err)
	}
	var messages []*message.Message
	for range 100 {
		messages = append(messages, message.NewMessage(watermill.NewUUID(), []byte("hello")))
	}
	if err := pub.Publish("greetings", messages...); err != nil {
		panic(err)
	}

	for action, count := range calls.Counts() {
		if action == "SendMessageBatch" {
			fmt.Println(action, count.Calls, "calls,", count.Fill(), "messages each")
		}
	}
	// Output: SendMessageBatch 10 calls, 10 messages each
}
