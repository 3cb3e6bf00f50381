package sqstest_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// A program without a test closes the service itself.
func ExampleStart() {
	ctx, svc := context.Background(), sqstest.Start()
	defer svc.Close()
	queue, err := svc.CreateQueue("orders", map[string]string{"VisibilityTimeout": "5"})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := svc.Client()

	// The answer to the first attempt is lost, and the SDK sends again.
	svc.Inject(sqstest.Fault{Action: "SendMessage", Times: 1, Effect: sqstest.LoseAnswer()})
	if _, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String(queue.URL()), MessageBody: aws.String("hello")}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(svc.Count("SendMessage"), "calls,", queue.Visible(), "messages")
	for _, m := range queue.Messages() {
		fmt.Println(m.Body, m.ReceiveCount)
	}
	// Output:
	// 2 calls, 2 messages
	// hello 0
	// hello 0
}
