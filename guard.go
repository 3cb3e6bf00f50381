package watermillsqs

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
)

// AddMiddleware adds middleware to a router, or to one of its handlers, as their own
// AddMiddleware does, after it has looked for pieces that would carry a retry or a
// poison message through SQS by publishing it: middleware.PoisonQueue and
// PoisonQueueWithFilter. Then it adds nothing and returns an error that wraps
// [ErrRepublishRetry] and says what to use instead. It refuses middleware.Deduplicator
// as well ([ErrUnsafeMiddleware]): a message that is retried looks like a duplicate of
// itself, and is deleted without having been handled.
//
// It is for routers whose handlers consume from SQS. What it cannot see, because it
// hides in a closure, the [Publisher] refuses when it happens.
func AddMiddleware(to interface {
	AddMiddleware(m ...message.HandlerMiddleware)
}, m ...message.HandlerMiddleware,
) error {
	for _, piece := range m {
		name := runtime.FuncForPC(reflect.ValueOf(piece).Pointer()).Name()
		switch {
		case strings.HasPrefix(name, deduplicatorPrefix):
			return fmt.Errorf("%w: middleware.Deduplicator marks a message before its handler runs, so a retry within its timeout is taken for a duplicate and deleted; make the handler idempotent instead",
				ErrUnsafeMiddleware)
		case strings.HasPrefix(name, poisonQueuePrefix):
			return fmt.Errorf("%w: middleware.PoisonQueue publishes a copy and acks the original, so the receive count starts again and the redrive policy never fires; set Queue.MaxAttempts and Queue.DeadLetter, and return DropError for what is hopeless",
				ErrRepublishRetry)
		}
	}
	to.AddMiddleware(m...)
	return nil
}

// How the functions are named that PoisonQueue and PoisonQueueWithFilter return, and
// the method of Deduplicator.
const (
	middlewarePackage  = "github.com/ThreeDotsLabs/watermill/message/router/middleware."
	poisonQueuePrefix  = middlewarePackage + "poisonQueue."
	deduplicatorPrefix = middlewarePackage + "(*Deduplicator)."
)

// CheckRequeuer returns an error that wraps [ErrRepublishRetry] if a requeuer would
// consume from SQS: it holds each message while it waits, then publishes it again. Use
// a retry after a delay instead ([RetryAfter], [SubscriberConfig].Backoff), and SQS's
// own redrive to bring messages back from a dead-letter queue.
func CheckRequeuer(config requeuer.Config) error {
	if config.Subscriber == nil || !isSQS(config.Subscriber) {
		return nil
	}
	return fmt.Errorf("%w: a requeuer on topic %q publishes what it consumes again; retry after a delay (RetryAfter, Backoff), or start SQS's own redrive of the dead-letter queue",
		ErrRepublishRetry, config.SubscribeTopic)
}
