package components

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/requestreply"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// replies is a configuration of a backend, for callers and handlers alike, with a reply
// queue for each request. Tests change what they are about.
func (p *process) replies() requestreply.PubSubBackendConfig {
	p.t.Helper()
	sub := p.subscriber(watermillsqs.SubscriberConfig{Queue: watermillsqs.Queue{CreateIfMissing: true}})
	topic := func(id requestreply.OperationID) string { return "replies-" + string(id) }
	limit := time.Minute
	return requestreply.PubSubBackendConfig{
		Publisher:             p.publisher,
		SubscriberConstructor: func(requestreply.PubSubBackendSubscribeParams) (message.Subscriber, error) { return sub, nil },
		GeneratePublishTopic: func(params requestreply.PubSubBackendPublishParams) (string, error) {
			return topic(params.OperationID), nil
		},
		GenerateSubscribeTopic: func(params requestreply.PubSubBackendSubscribeParams) (string, error) {
			return topic(params.OperationID), nil
		},
		ListenForReplyTimeout: &limit,
	}
}

// onOneQueue makes all replies use one queue.
func onOneQueue(config requestreply.PubSubBackendConfig) requestreply.PubSubBackendConfig {
	config.GeneratePublishTopic = func(requestreply.PubSubBackendPublishParams) (string, error) { return "replies", nil }
	config.GenerateSubscribeTopic = func(requestreply.PubSubBackendSubscribeParams) (string, error) { return "replies", nil }
	return config
}

func backend(t *testing.T, config requestreply.PubSubBackendConfig) requestreply.Backend[int] {
	t.Helper()
	b, err := requestreply.NewPubSubBackend(config, requestreply.BackendPubsubJSONMarshaler[int]{})
	require.NoError(t, err)
	return b
}

// double answers charges with twice their amount, in an order that is neither that of
// the requests nor its reverse, and starts the process.
func (p *process) double(config requestreply.PubSubBackendConfig) {
	p.t.Helper()
	commands := p.commands(byName)
	commands.SubscriberConstructor = func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
		return p.subscriber(watermillsqs.SubscriberConfig{MaxInFlight: requests}), nil
	}
	p.handleCommands(commands, requestreply.NewCommandHandlerWithResult("charge", backend(p.t, config),
		func(_ context.Context, c *Charge) (int, error) {
			time.Sleep(time.Duration(c.Amount*5%requests) * time.Second)
			return 2 * c.Amount, nil
		}))
	p.run()
}

const requests = 12 // of a test, at a time

// request sends as many charges at a time, by turns from several callers, and returns
// how many got no reply until their time was up. Every reply is the right one.
func request(t *testing.T, from ...func(*Charge) (requestreply.Reply[int], error)) (lost int) {
	t.Helper()
	var mu sync.Mutex
	var waiting sync.WaitGroup
	for i := range requests {
		waiting.Go(func() {
			got, err := from[i%len(from)](&Charge{i})
			if !assert.NoError(t, err) {
				return
			}
			var timeout requestreply.ReplyTimeoutError
			if errors.As(got.Error, &timeout) {
				mu.Lock()
				defer mu.Unlock()
				lost++
				return
			}
			assert.NoError(t, got.Error)
			assert.Equal(t, 2*i, got.HandlerResult)
		})
	}
	waiting.Wait()
	return lost
}

// caller sends charges from a process.
func (p *process) caller(config requestreply.PubSubBackendConfig) func(*Charge) (requestreply.Reply[int], error) {
	p.t.Helper()
	bus, replies := p.commandBus(byName), backend(p.t, config)
	return func(c *Charge) (requestreply.Reply[int], error) {
		return requestreply.SendWithReply(p.t.Context(), bus, replies, c)
	}
}

// On a reply queue that callers share, they ack each other's replies: one of them is
// handed a reply, finds that it is not its own, and has deleted it. It makes no
// difference whether the callers are in one process.
func TestRepliesOnASharedQueue(t *testing.T) {
	for _, processes := range []int{1, 2} {
		bubble(t, func(t *testing.T, service *sqstest.Service) {
			queue(t, service, "Charge")
			q := queue(t, service, "replies")
			worker := newProcess(t, service)
			worker.double(onOneQueue(worker.replies()))
			var callers []func(*Charge) (requestreply.Reply[int], error)
			for range processes {
				p := newProcess(t, service)
				callers = append(callers, p.caller(onOneQueue(p.replies())))
			}
			assert.NotZero(t, request(t, callers...))
			pass(time.Minute)
			assert.Equal(t, 0, q.Len(), "every reply was sent, and is deleted")
			sent := 0
			for _, call := range service.Calls("SendMessage", "SendMessageBatch") {
				sent += call.Entries
			}
			assert.Equal(t, 2*requests, sent)
		})
	}
}

// A reply queue for each request gives everybody what is theirs. It is created, and
// stays.
func TestReplyQueuePerRequest(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		queue(t, service, "Charge")
		worker, a, b := newProcess(t, service), newProcess(t, service), newProcess(t, service)
		worker.double(worker.replies())
		assert.Zero(t, request(t, a.caller(a.replies()), b.caller(b.replies())))
		pass(time.Minute)
		created := service.Calls("CreateQueue")
		assert.Len(t, created, requests)
		assert.Equal(t, 0, service.Count("DeleteQueue"))
		for _, call := range created {
			assert.Equal(t, 0, service.Queue(call.Queue).Len())
		}
	})
}

// One reply queue for each process, read once and dispatched in memory: its name goes
// with the command, every request of the process gets all replies, and picks its own by
// its operation id.
func TestReplyQueuePerProcess(t *testing.T) {
	const replyTo = "reply_to"
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		queue(t, service, "Charge")
		worker := newProcess(t, service)
		handling := worker.replies()
		handling.GeneratePublishTopic = func(params requestreply.PubSubBackendPublishParams) (string, error) {
			return params.CommandMessage.Metadata.Get(replyTo), nil
		}
		worker.double(handling)

		var callers []func(*Charge) (requestreply.Reply[int], error)
		queues := []string{"replies-a", "replies-b"}
		for _, name := range queues {
			queue(t, service, name)
			p := newProcess(t, service)
			fan, err := gochannel.NewFanOut(p.subscriber(watermillsqs.SubscriberConfig{}), nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, fan.Close()) })
			fan.AddSubscription(name)
			runUntilCleanup(t, fan.Run, fan.Running())

			config := p.replies()
			config.SubscriberConstructor = func(requestreply.PubSubBackendSubscribeParams) (message.Subscriber, error) { return fan, nil }
			config.GenerateSubscribeTopic = func(requestreply.PubSubBackendSubscribeParams) (string, error) { return name, nil }
			replies := backend(t, config)
			bus, err := cqrs.NewCommandBusWithConfig(p.publisher, cqrs.CommandBusConfig{
				GeneratePublishTopic: func(params cqrs.CommandBusGeneratePublishTopicParams) (string, error) {
					return params.CommandName, nil
				},
				OnSend: func(params cqrs.CommandBusOnSendParams) error {
					params.Message.Metadata.Set(replyTo, name)
					return nil
				},
				Marshaler: marshaler,
			})
			require.NoError(t, err)
			callers = append(callers, func(c *Charge) (requestreply.Reply[int], error) {
				return requestreply.SendWithReply(t.Context(), bus, replies, c)
			})
		}
		assert.Zero(t, request(t, callers...))
		pass(time.Minute)
		for _, name := range queues {
			assert.Equal(t, 0, service.Queue(name).Len())
		}
		assert.Equal(t, 0, service.Count("CreateQueue"))
	})
}

// A caller that gives up leaves nothing behind: its subscription ends, and a reply that
// comes later stays in the queue.
func TestReplyAfterTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, service *sqstest.Service) {
		charges, q := queue(t, service, "Charge"), queue(t, service, "replies")
		p := newProcess(t, service)
		got, err := p.caller(onOneQueue(p.replies()))(&Charge{1})
		require.NoError(t, err)
		var timeout requestreply.ReplyTimeoutError
		require.ErrorAs(t, got.Error, &timeout)
		assert.ErrorIs(t, timeout.Err, context.DeadlineExceeded)
		pass(time.Minute)

		worker := newProcess(t, service)
		worker.double(onOneQueue(worker.replies()))
		pass(time.Minute)
		assert.Equal(t, 0, charges.Len())
		assert.Equal(t, 1, q.Visible())
		assert.Empty(t, p.outcomes())
	})
}

// failingOnce handles charges as a command that fails once, and starts the process.
func (p *process) failingOnce(config requestreply.PubSubBackendConfig, err error) (runs *int) {
	p.t.Helper()
	runs = new(int)
	p.handleCommands(p.commands(byName), requestreply.NewCommandHandlerWithResult("charge", backend(p.t, config),
		func(_ context.Context, c *Charge) (int, error) {
			if *runs++; *runs == 1 {
				return 0, err
			}
			return 2 * c.Amount, nil
		}))
	p.run()
	return runs
}

// Every run of a command sends a reply, whatever its error says. Unless AckCommandErrors
// is set, a failed command is retried, with its verdict. Its caller is sent the failure,
// too, and SendWithReply would end with what comes first.
func TestRepliesOfAFailedCommand(t *testing.T) {
	const text = "two lines\nand \x00 \xff"
	for _, test := range []struct {
		name     string
		ack      bool
		err      error
		outcomes []watermillsqs.Outcome
		replies  []string // errors, "" for the result
		after    time.Duration
	}{
		{
			"retry", false, errors.New(text),
			[]watermillsqs.Outcome{watermillsqs.Retried, watermillsqs.Acked},
			[]string{text, ""}, 0,
		},
		{
			"RetryAfterError", false, watermillsqs.RetryAfterError(errors.New(text), 10*time.Second),
			[]watermillsqs.Outcome{watermillsqs.Retried, watermillsqs.Acked},
			[]string{text, ""}, 10 * time.Second,
		},
		{
			"DropError", false, watermillsqs.DropError(errors.New(text)),
			[]watermillsqs.Outcome{watermillsqs.Dropped},
			[]string{text}, 0,
		},
		{
			"AckCommandErrors", true, watermillsqs.RetryAfterError(errors.New(text), 10*time.Second),
			[]watermillsqs.Outcome{watermillsqs.Acked},
			[]string{text}, 0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *sqstest.Service) {
				charges := queue(t, service, "Charge")
				worker, p := newProcess(t, service), newProcess(t, service)
				config := worker.replies()
				config.AckCommandErrors = test.ack
				worker.failingOnce(config, test.err)
				start := time.Now()
				replies, cancel, err := requestreply.SendWithReplies(t.Context(), p.commandBus(byName), backend(t, p.replies()), &Charge{4})
				require.NoError(t, err)
				defer cancel()
				var got []string
				for range test.replies {
					reply := <-replies
					if reply.Error != nil {
						got = append(got, reply.Error.Error())
						continue
					}
					assert.Equal(t, 8, reply.HandlerResult)
					got = append(got, "")
				}
				if test.after == 0 {
					assert.ElementsMatch(t, test.replies, got, "a standard queue promises no order")
				} else {
					assert.Equal(t, test.replies, got)
				}
				assert.Equal(t, test.after, time.Since(start))
				timeout := <-replies
				assert.ErrorAs(t, timeout.Error, new(requestreply.ReplyTimeoutError))
				assert.Equal(t, test.outcomes, worker.outcomes())
				assert.Equal(t, test.after, worker.delays()[0])
				assert.Equal(t, 0, charges.Len())
			})
		})
	}
}

// A second reply that has been received when its caller leaves blocks Watermill's
// listener for ever, on a channel that nobody reads; one that is received later is not,
// since the subscription has ended.
func TestSecondReplyOfACallerThatLeft(t *testing.T) {
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprint("early ", early), func(t *testing.T) {
			bubble(t, func(t *testing.T, service *sqstest.Service) {
				queue(t, service, "Charge")
				worker, p := newProcess(t, service), newProcess(t, service)
				runs := worker.failingOnce(worker.replies(), watermillsqs.RetryAfterError(errFailed, 10*time.Second))
				finished := make(chan struct{})
				config := p.replies()
				config.OnListenForReplyFinished = func(context.Context, requestreply.PubSubBackendSubscribeParams) { close(finished) }
				replies, cancel, err := requestreply.SendWithReplies(t.Context(), p.commandBus(byName), backend(t, config), &Charge{4})
				require.NoError(t, err)
				assert.Error(t, (<-replies).Error)
				if early {
					pass(20 * time.Second)
					assert.Equal(t, 2, *runs)
				}
				cancel()
				pass(time.Hour)
				assert.Equal(t, 2, *runs)
				select {
				case <-finished:
					assert.False(t, early)
				default:
					assert.True(t, early, "it still wants to say that the time is up")
					<-replies // lets it end, which a bubble insists on
					<-finished
				}
				left := 0
				for _, call := range service.Calls("CreateQueue") {
					assert.True(t, strings.HasPrefix(call.Queue, "replies-"))
					left += service.Queue(call.Queue).Visible()
				}
				assert.Equal(t, early, left == 0)
			})
		})
	}
}
