package watermillsqs

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// entryIDs are the ids of batch entries: positions, never message ids, which may
// occur twice in one batch.
var entryIDs = [maxBatch]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// errUnanswered is the failure of an entry that a batch answer does not mention.
var errUnanswered = errors.New("the answer says nothing about this entry")

// entryErrors spreads the answer of a batch call over its n entries, by id: the
// order of the answer is not promised.
func entryErrors(n int, succeeded []string, failed []types.BatchResultErrorEntry) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = errUnanswered
	}
	for _, id := range succeeded {
		if i := entryIndex(id); i >= 0 && i < n {
			errs[i] = nil
		}
	}
	for _, entry := range failed {
		if i := entryIndex(aws.ToString(entry.Id)); i >= 0 && i < n {
			errs[i] = newEntryError(entry)
		}
	}
	return errs
}

func entryIndex(id string) int {
	if len(id) == 1 && id[0] >= '0' && id[0] <= '9' {
		return int(id[0] - '0')
	}
	return -1
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// visibilityChange is one entry of a visibility call.
type visibilityChange struct {
	handle  string
	seconds int32
}

// once keeps the SDK from sending a visibility change again by itself: after an
// attempt that hung, the seconds may be more than is left of the 12 hours, and after
// one whose answer was lost, the message may have been received again. Those who
// make the change try again, with what is right then.
func once(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }

// eachAlone makes one call an entry where a batch was refused as a whole for what one
// of its entries contains.
func eachAlone[T any](entries []T, call func([]T) []error) []error {
	errs := make([]error, 0, len(entries))
	for i := range entries {
		errs = append(errs, call(entries[i:i+1])...)
	}
	return errs
}

// changeVisibility makes one call for one to ten changes and returns one error
// each. A single change is a call of its own; several are a batch.
func changeVisibility(ctx context.Context, clients *clients, queueURL string, changes []visibilityChange) []error {
	if len(changes) == 1 {
		_, err := clients.calls.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
			QueueUrl:          aws.String(queueURL),
			ReceiptHandle:     aws.String(changes[0].handle),
			VisibilityTimeout: changes[0].seconds,
		}, once)
		return []error{err}
	}
	in := &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: aws.String(queueURL),
		Entries:  make([]types.ChangeMessageVisibilityBatchRequestEntry, len(changes)),
	}
	for i, change := range changes {
		in.Entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
			Id:                aws.String(entryIDs[i]),
			ReceiptHandle:     aws.String(change.handle),
			VisibilityTimeout: change.seconds,
		}
	}
	out, err := clients.calls.ChangeMessageVisibilityBatch(ctx, in, once)
	if err != nil && isContentFault(err) {
		return eachAlone(changes, func(one []visibilityChange) []error { return changeVisibility(ctx, clients, queueURL, one) })
	}
	if err != nil {
		return repeat(err, len(changes))
	}
	succeeded := make([]string, len(out.Successful))
	for i, entry := range out.Successful {
		succeeded[i] = aws.ToString(entry.Id)
	}
	return entryErrors(len(changes), succeeded, out.Failed)
}

// deleteMessages makes one call for one to ten receipts and returns one error each.
func deleteMessages(ctx context.Context, clients *clients, queueURL string, handles []string) []error {
	if len(handles) == 1 {
		_, err := clients.calls.DeleteMessage(ctx, &sqs.DeleteMessageInput{
			QueueUrl:      aws.String(queueURL),
			ReceiptHandle: aws.String(handles[0]),
		})
		return []error{err}
	}
	in := &sqs.DeleteMessageBatchInput{
		QueueUrl: aws.String(queueURL),
		Entries:  make([]types.DeleteMessageBatchRequestEntry, len(handles)),
	}
	for i, handle := range handles {
		in.Entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(entryIDs[i]), ReceiptHandle: aws.String(handle)}
	}
	out, err := clients.calls.DeleteMessageBatch(ctx, in)
	if err != nil && isContentFault(err) {
		return eachAlone(handles, func(one []string) []error { return deleteMessages(ctx, clients, queueURL, one) })
	}
	if err != nil {
		return repeat(err, len(handles))
	}
	succeeded := make([]string, len(out.Successful))
	for i, entry := range out.Successful {
		succeeded[i] = aws.ToString(entry.Id)
	}
	return entryErrors(len(handles), succeeded, out.Failed)
}
