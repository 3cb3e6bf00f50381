package sqstest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// ship is the code under test: a handler that waits for eleven hours before it tries
// again, and never succeeds.
func ship(msg *message.Message) error {
	watermillsqs.RetryAfter(msg, 11*time.Hour)
	return errors.New("the carrier does not answer")
}

// runShipping tests that a message which cannot be shipped is tried three times, eleven
// hours apart, and then goes to the dead-letter queue. The bubble makes a day and a half
// pass in milliseconds, lease extensions and long polls included. In a test file of yours
// it is a test function; nothing else changes.
func runShipping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := sqstest.New(t)
		dead, err := svc.CreateQueue("shipments-dead", nil)
		if err != nil {
			t.Fatal(err)
		}
		queue, err := svc.CreateQueue("shipments", map[string]string{
			"RedrivePolicy": `{"deadLetterTargetArn":"` + dead.ARN() + `","maxReceiveCount":3}`,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		consuming := make(chan error)
		go func() { consuming <- consume(ctx, svc, "shipments", ship) }()
		time.Sleep(36 * time.Hour)

		svc.AssertPauses(t, "order 1", 11*time.Hour, 11*time.Hour)
		dead.AssertBodies(t, "order 1")
		queue.AssertEmpty(t)
		svc.CheckManners(t)
		cancel()
		if err := <-consuming; err != nil {
			t.Fatal(err)
		}
	})
}

// A test of retries that take hours, and of the dead-letter queue at their end.
func Example_deadLetters() {
	var t *testing.T // that of the test
	runShipping(t)
}
