// Quickstart runs a Watermill router on an SQS queue and shows what becomes of
// three orders: one is handled, one is tried again two seconds later, one is
// dropped. At the end it counts the SQS calls that each step cost.
//
//	go run ./_examples/quickstart
//
// runs on the embedded server, with no AWS account. With -endpoint it runs on any
// other server, with -aws on AWS itself; it creates the queue there and leaves it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

const topic = "quickstart-orders"

func main() {
	endpoint := flag.String("endpoint", "", "URL of an SQS server (default: the embedded one)")
	aws := flag.Bool("aws", false, "run on AWS, with the default credentials and region")
	flag.Parse()
	if err := run(*endpoint, *aws); err != nil {
		log.Fatal(err)
	}
}

func run(endpoint string, aws bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// Where the queue is.
	var calls watermillsqs.CallCounter
	config := watermillsqs.Config{Called: calls.Count}
	switch {
	case aws:
	case endpoint != "":
		config.Endpoint, config.TestCredentials = endpoint, true
	default:
		service := sqstest.Start()
		defer service.Close()
		embedded := service.AWSConfig()
		config.AWS = &embedded
	}
	conn, err := watermillsqs.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close()

	// The router: as with any other Watermill transport, plus Outcomes.
	logger := watermill.NopLogger{}
	publisher, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{CreateIfMissing: true}, logger)
	if err != nil {
		return err
	}
	finished := make(chan struct{}, 3)
	subscriber, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{
		Queue: watermillsqs.Queue{CreateIfMissing: true},
		Hooks: watermillsqs.Hooks{Settled: func(s watermillsqs.Settlement) {
			if s.Outcome != watermillsqs.Retried {
				finished <- struct{}{}
			}
		}},
	}, logger)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return err
	}
	router.AddMiddleware(watermillsqs.Outcomes)
	router.AddConsumerHandler("orders", topic, subscriber, handle)

	// Send three orders, wait until each has found its end, and stop.
	if err := publisher.Publish(topic,
		message.NewMessage(watermill.NewUUID(), []byte("a good order")),
		message.NewMessage(watermill.NewUUID(), []byte("an order for a busy shop")),
		message.NewMessage(watermill.NewUUID(), []byte("not an order at all")),
	); err != nil {
		return err
	}
	go func() {
		for range 3 {
			select {
			case <-finished:
			case <-ctx.Done():
			}
		}
		_ = router.Close()
	}()
	if err := router.Run(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("not all orders were settled within a minute")
	}
	printCost(&calls)
	return nil
}

// handle settles each order in another way.
func handle(msg *message.Message) error {
	delivery, _ := watermillsqs.DeliveryFromContext(msg.Context())
	say := func(what string) {
		fmt.Printf("%-26q delivery %d: %s\n", msg.Payload, delivery.ReceiveCount, what)
	}
	switch string(msg.Payload) {
	case "an order for a busy shop":
		if delivery.ReceiveCount == 1 {
			say("shop busy, again in 2 s  → ChangeMessageVisibility(2)")
			return watermillsqs.RetryAfterError(errors.New("shop busy"), 2*time.Second)
		}
	case "not an order at all":
		say("dropped                  → DeleteMessage")
		return watermillsqs.DropError(errors.New("cannot be parsed"))
	}
	say("handled                  → DeleteMessage")
	return nil
}

// printCost shows what the orders cost.
func printCost(calls *watermillsqs.CallCounter) {
	counts := calls.Counts()
	fmt.Println("\nSQS calls:")
	for _, action := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("%4d %s\n", counts[action].Calls, action)
	}
	fmt.Printf("%d orders deleted\n", counts["DeleteMessage"].Messages+counts["DeleteMessageBatch"].Messages)
}
