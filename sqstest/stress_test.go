package sqstest_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// Producers, consumers that fail, topics, dead-letter queues that are moved back, faults
// and onlookers, all at once: nothing is lost, nothing is stuck, and nobody misbehaves.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	for _, fifo := range []bool{false, true} {
		t.Run(fmt.Sprint("fifo ", fifo), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { everythingAtOnce(t, fifo) })
		})
	}
}

func everythingAtOnce(t *testing.T, fifo bool) {
	var s *snsBench
	var dead *bench
	if fifo {
		s = newFIFOSNS(t, nil)
		dead = fifoOn(t, s.svc, "dead.fifo", nil)
	} else {
		s = newSNS(t)
		q, err := s.svc.CreateQueue("dead", nil)
		require.NoError(t, err)
		dead = s.on(q)
		s.svc.Inject(sqstest.Fault{Action: "ReceiveMessage", Share: 0.1, Effect: sqstest.Redeliver()})
	}
	require.NoError(t, s.set("RedrivePolicy", policyTo(dead.queue, 3)))
	s.subscribe(s.queue, raw1)
	for _, effect := range []sqstest.Effect{sqstest.LoseAnswer(), sqstest.Reset(), sqstest.Raw(503, "text/html", "busy"), sqstest.FailEntry("InternalError", "again", false)} {
		s.svc.Inject(sqstest.Fault{Action: "DeleteMessage", Share: 0.05, Effect: effect})
	}
	s.svc.Inject(sqstest.Fault{Effect: sqstest.Latency(0, 50*time.Millisecond)})
	s.svc.Inject(sqstest.Fault{Action: "ReceiveMessage", Share: 0.2, Effect: sqstest.TakeWhenGone()})

	const producers, each, consumers = 4, 30, 6
	var sending, others sync.WaitGroup
	stop := make(chan struct{})
	for p := range producers {
		sending.Go(func() {
			for i := range each {
				body := fmt.Sprintf("%d.%d", p, i)
				if i%2 == 0 {
					in := &sqs.SendMessageInput{QueueUrl: s.url, MessageBody: &body}
					if fifo {
						in.MessageGroupId, in.MessageDeduplicationId = aws.String(fmt.Sprint(p)), &body
					}
					_, err := s.client.SendMessage(t.Context(), in)
					require.NoError(t, err)
					continue
				}
				in := s.publication(body)
				if fifo {
					in.MessageGroupId, in.MessageDeduplicationId = aws.String(fmt.Sprint(p)), &body
				}
				_, err := s.sns.Publish(t.Context(), in)
				require.NoError(t, err)
			}
		})
	}
	for c := range consumers {
		others.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), 1))
			for !isClosed(stop) {
				ctx := withTimeout(t, time.Duration(random.IntN(4000))*time.Millisecond)
				out, err := s.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: s.url, MaxNumberOfMessages: 5, WaitTimeSeconds: 2, VisibilityTimeout: 10})
				if err != nil {
					continue // gave up
				}
				for _, m := range out.Messages {
					if random.IntN(3) == 0 {
						s.change(m.ReceiptHandle, 0)
						continue
					}
					s.delete(m.ReceiptHandle)
				}
			}
		})
	}
	others.Go(func() {
		for !isClosed(stop) {
			time.Sleep(time.Second)
			dead.startMove(nil, aws.Int32(50)) // refused while one runs
			s.svc.Calls("ReceiveMessage")
			s.svc.Missteps()
			_, err := s.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: s.url, AttributeNames: []types.QueueAttributeName{"All"}})
			require.NoError(t, err)
		}
	})
	sending.Wait()
	for empty := 0; empty < 3; empty++ { // a message may be on its way between two queues
		time.Sleep(time.Second)
		if len(s.queue.Messages())+len(dead.queue.Messages()) > 0 {
			empty = -1
		}
	}
	close(stop)
	others.Wait()
	for p := range producers {
		for i := range each {
			histories := s.svc.Histories(fmt.Sprintf("%d.%d", p, i))
			require.NotEmpty(t, histories[len(histories)-1].Of(sqstest.EventDeleted), "%v", histories)
		}
	}
	require.Empty(t, s.topic.Discards())
	s.svc.CheckManners(t)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
