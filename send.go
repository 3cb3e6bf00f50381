package watermillsqs

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// maxBatchBytes bounds a whole SendMessageBatch, as SQS counts. It is inclusive.
const maxBatchBytes = 1 << 20

// sendMessages makes one call for one to ten messages, which fit it, and returns one
// error for each, or the error of the call as a whole. A single message is a call of
// its own; several are a batch.
func sendMessages(ctx context.Context, clients *clients, queueURL string, messages []*Outgoing) ([]error, error) {
	if len(messages) == 1 {
		out := messages[0]
		answer, err := clients.calls.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl:                aws.String(queueURL),
			MessageBody:             &out.Body,
			MessageAttributes:       out.Attributes,
			MessageSystemAttributes: systemAttributes(out),
			MessageGroupId:          optional(&out.GroupID),
			MessageDeduplicationId:  optional(&out.DeduplicationID),
			DelaySeconds:            out.DelaySeconds,
		})
		if err != nil {
			return nil, err
		}
		return []error{checkSent(out.Body, answer.MD5OfMessageBody)}, nil
	}
	in := &sqs.SendMessageBatchInput{
		QueueUrl: aws.String(queueURL),
		Entries:  make([]types.SendMessageBatchRequestEntry, len(messages)),
	}
	for i, out := range messages {
		in.Entries[i] = types.SendMessageBatchRequestEntry{
			Id:                      &entryIDs[i],
			MessageBody:             &out.Body,
			MessageAttributes:       out.Attributes,
			MessageSystemAttributes: systemAttributes(out),
			MessageGroupId:          optional(&out.GroupID),
			MessageDeduplicationId:  optional(&out.DeduplicationID),
			DelaySeconds:            out.DelaySeconds,
		}
	}
	answer, err := clients.calls.SendMessageBatch(ctx, in)
	if err != nil {
		return nil, err
	}
	succeeded := make([]string, len(answer.Successful))
	for i, entry := range answer.Successful {
		succeeded[i] = aws.ToString(entry.Id)
	}
	errs := entryErrors(len(messages), succeeded, answer.Failed)
	for _, entry := range answer.Successful {
		if i := entryIndex(aws.ToString(entry.Id)); i >= 0 && i < len(messages) && errs[i] == nil {
			errs[i] = checkSent(messages[i].Body, entry.MD5OfMessageBody)
		}
	}
	return errs, nil
}

// damagedError is about a message that SQS accepted and stored with another body.
type damagedError struct{ md5 string }

func (e *damagedError) Error() string {
	return fmt.Sprintf("SQS accepted the message but stored another body: its MD5 is %.64q", e.md5)
}

// checkSent compares the checksum of what SQS has stored. A message that differs
// was accepted, damaged: it is reported and not sent again.
func checkSent(body string, stored *string) error {
	if !matchesMD5(body, stored) {
		return &damagedError{md5: *stored}
	}
	return nil
}

// wasAccepted reports whether SQS has the message that an error is about.
func wasAccepted(err error) bool {
	var damaged *damagedError
	return err == nil || errors.As(err, &damaged)
}

// optional is nil where SQS takes no empty value.
func optional(value *string) *string {
	if *value == "" {
		return nil
	}
	return value
}

func systemAttributes(out *Outgoing) map[string]types.MessageSystemAttributeValue {
	if out.TraceHeader == "" {
		return nil
	}
	return map[string]types.MessageSystemAttributeValue{
		string(types.MessageSystemAttributeNameForSendsAWSTraceHeader): {DataType: aws.String("String"), StringValue: aws.String(out.TraceHeader)},
	}
}
