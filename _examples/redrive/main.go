// Redrive moves the messages of a dead-letter queue back to where they came from, and
// shows how far it is: a bar in a terminal, plain lines elsewhere.
//
//	go run ./_examples/redrive
//
// shows it on the embedded server with 300 dead letters of its own. With -queue it works
// on a queue of yours, on AWS or at -endpoint. An interrupt cancels the redrive.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

func main() {
	queue := flag.String("queue", "", "dead-letter queue, by name, URL or ARN (default: one made on the embedded server)")
	endpoint := flag.String("endpoint", "", "URL of an SQS server (default: AWS)")
	rate := flag.Int("rate", 0, "messages a second, up to 500 (default: SQS's own rate)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *queue, *endpoint, *rate); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, queue, endpoint string, rate int) error {
	config := watermillsqs.Config{Endpoint: endpoint, TestCredentials: endpoint != ""}
	if queue == "" {
		service := sqstest.Start()
		defer service.Close()
		embedded := service.AWSConfig()
		config = watermillsqs.Config{AWS: &embedded}
	}
	conn, err := watermillsqs.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if queue == "" {
		queue, rate = "orders-dead", 100
		if err := makeDeadLetters(ctx, conn, queue, 300); err != nil {
			return err
		}
	}

	redrive, err := conn.StartRedrive(ctx, queue, watermillsqs.RedriveConfig{MaxPerSecond: rate})
	if err != nil {
		return err
	}
	for progress, err := range redrive.Watch(ctx, time.Second) {
		if ctx.Err() != nil {
			moved, err := redrive.Cancel(context.WithoutCancel(ctx))
			fmt.Printf("\ncancelled after %d messages\n", moved)
			return err
		}
		if err != nil {
			return err
		}
		show(os.Stdout, progress)
	}
	return nil
}

// show prints a bar in a terminal, and a line elsewhere.
func show(w io.Writer, p watermillsqs.RedriveProgress) {
	const width = 40
	if info, err := os.Stdout.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		fmt.Fprintf(w, "%s: %d of %d messages moved\n", p.Status, p.Moved, p.Total)
		return
	}
	done := width
	if p.Total > 0 && !p.Status.Ended() {
		done = int(min(p.Moved, p.Total) * width / p.Total)
	}
	fmt.Fprintf(w, "\r[%s%s] %d/%d %-10s", strings.Repeat("#", done), strings.Repeat(".", width-done), p.Moved, p.Total, p.Status)
	if p.Status.Ended() {
		fmt.Fprintln(w)
	}
}

// makeDeadLetters lets a handler fail at messages until SQS has moved them.
func makeDeadLetters(ctx context.Context, conn *watermillsqs.Connection, deadLetter string, n int) error {
	subscriber, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{
		Queue:       watermillsqs.Queue{CreateIfMissing: true, MaxAttempts: 2, DeadLetter: deadLetter},
		MaxInFlight: 100,
	}, nil)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	messages, err := subscriber.Subscribe(ctx, "orders")
	if err != nil {
		return err
	}
	publisher, err := watermillsqs.NewPublisher(conn, watermillsqs.PublisherConfig{}, nil)
	if err != nil {
		return err
	}
	bad := make([]*message.Message, n)
	for i := range bad {
		bad[i] = message.NewMessage(watermill.NewUUID(), []byte("bad order"))
	}
	if err := publisher.Publish("orders", bad...); err != nil {
		return err
	}
	for range 2 * n {
		(<-messages).Nack()
	}
	// The next receive moves the last of them: wait until all have been seen there.
	watcher, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{MaxInFlight: n}, nil)
	if err != nil {
		return err
	}
	defer watcher.Close()
	dead, err := watcher.Subscribe(ctx, deadLetter)
	if err != nil {
		return err
	}
	seen := make([]*message.Message, n)
	for i := range seen {
		seen[i] = <-dead
	}
	for _, msg := range seen {
		msg.Nack()
	}
	return nil
}
