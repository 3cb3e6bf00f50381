package watermillsqs

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// republishingMarks are the metadata keys by which pieces that republish mark what they
// send, with the names of those pieces.
var republishingMarks = map[string]string{
	middleware.ReasonForPoisonedKey: "middleware.PoisonQueue",
	requeuer.RetriesKey:             "a requeuer",
}

// marksOf notes the marks that a message carries when it is delivered: those of an old
// poison queue, say, which can still be drained.
func marksOf(msg *message.Message) (marks map[string]string) {
	if len(msg.Metadata) == 0 {
		return nil
	}
	for key := range republishingMarks {
		if value, marked := msg.Metadata[key]; marked {
			if marks == nil {
				marks = make(map[string]string, 1)
			}
			marks[key] = value
		}
	}
	return marks
}

// checkRepublished refuses a delivery of ours that a piece which republishes has marked
// since it was delivered. The handler's error then stays an error, the message is
// nacked, and nothing is lost.
func checkRepublished(msg *message.Message) error {
	d := deliveryFrom(msg.Context())
	if d == nil || msg.UUID != d.uuid { // another message that has the context, such as one out of a forwarder's envelope
		return nil
	}
	for key, piece := range republishingMarks {
		if value, marked := msg.Metadata[key]; marked {
			if before, arrived := d.marks[key]; !arrived || before != value {
				return fmt.Errorf("%w: %s sends a message that came from SQS and whose handler has not succeeded (metadata %s); set Queue.MaxAttempts and Queue.DeadLetter, or retry after a delay",
					ErrRepublishRetry, piece, key)
			}
		}
	}
	return nil
}
