// Package watermillsqs is a Watermill transport over Amazon SQS that settles each
// delivery with SQS's own operations.
//
// A [Connection] holds the SQS clients. A [Publisher] and a [Subscriber] on it
// implement Watermill's interfaces, so a router, the CQRS component and every
// middleware run on them unchanged:
//
//	conn := watermillsqs.NewConnection(watermillsqs.Config{})
//	sub, err := watermillsqs.NewSubscriber(conn, watermillsqs.SubscriberConfig{}, logger)
//	...
//	router.AddMiddleware(watermillsqs.Outcomes)
//	router.AddConsumerHandler("charge", "payments", sub, handler)
//	if err := conn.Connect(ctx); err != nil {
//		return err
//	}
//	defer conn.Close()
//	return router.Run(ctx)
//
// Topics name queues: by name, by URL or by ARN. One that ends in ".fifo" is a FIFO
// queue, whose message groups are handled in order, one message of each at a time; see
// [GroupIDKey].
//
// # Outcomes
//
//	ack            DeleteMessage                     deleted
//	retry          ChangeMessageVisibility(0)        visible at once
//	retry after d  ChangeMessageVisibility(⌈d⌉)      returns after d
//	drop           DeleteMessage, or at the redrive  deleted, or moved to the
//	               limit ChangeMessageVisibility(0)  dead-letter queue
//	unfinished     no call                           returns when its lease ends
//
// A handler that returns nil acks, one that returns an error retries. [RetryAfter]
// and [Drop] say otherwise on the message; [RetryAfterError] and [DropError] say it
// in the error, under the middleware [Outcomes]. A retry never leaves the queue:
// nothing is republished.
//
// # Guarantees
//
// Delivery is at least once. What is not deleted after its handler acked it comes
// back, and if it comes back to the same connection it is then deleted, not handled
// again. Each delivery is settled exactly once, whatever races; a settlement that
// fails is tried again while the lease runs, and reported if that is in vain
// ([Hooks], and the log).
//
// While a handler runs, the visibility timeout of its message (its lease) is
// extended, up to the 12 hours that SQS allows. When the lease is lost all the same,
// the message's context ends with the cause [ErrLeaseLost]: another consumer may
// have the message. The context of a message ends at its Ack or Nack, not with that
// of Subscribe.
//
// # Closing
//
// A subscription ends with [Subscriber.Close], with [Connection.Close] and with the
// context of Subscribe, which all do the same, see Close. Its channel is closed when
// everything is settled, so a Watermill router that waits for the channel waits for
// the settlements.
//
// # Tuning
//
// [SubscriberConfig].MaxInFlight is the number of handlers that run at a time (on a FIFO
// queue the number of message groups), and the only brake. [SubscriberConfig].Backoff spaces out the retries of plain
// errors: every receive counts for a redrive policy, so without one a short outage
// can move messages to the dead-letter queue. The queue's own visibility timeout is
// used unless [Queue].Visibility is set; shorter means that the messages of a killed
// process come back sooner, longer means fewer extensions.
package watermillsqs
