package watermillsqs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// entryError is the failure of one entry of a batch call, or of a call with a
// single entry, so that both are judged alike.
type entryError struct {
	code        string
	message     string
	senderFault bool
}

func (e *entryError) Error() string {
	return fmt.Sprintf("%s: %s", e.code, e.message)
}

// ErrorCode returns the code of SQS, so that errorCode sees entries and calls alike.
func (e *entryError) ErrorCode() string { return e.code }

func newEntryError(failed types.BatchResultErrorEntry) *entryError {
	return &entryError{code: aws.ToString(failed.Code), message: aws.ToString(failed.Message), senderFault: failed.SenderFault}
}

// errorCode returns the code of the first error in the chain that has one. The
// same condition has two spellings, the modelled name and the legacy code of the
// query protocol, depending on a response header, so the prefix and the suffix of
// the legacy one are cut and callers compare one spelling.
func errorCode(err error) string {
	var coded interface{ ErrorCode() string }
	if !errors.As(err, &coded) {
		return ""
	}
	code := strings.TrimPrefix(coded.ErrorCode(), "AWS.SimpleQueueService.")
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	return code
}

func isQueueMissing(err error) bool {
	var missing *types.QueueDoesNotExist
	if errors.As(err, &missing) {
		return true
	}
	switch errorCode(err) {
	case "NonExistentQueue", "QueueDoesNotExist":
		return true
	}
	return false
}

func isQueueExists(err error) bool {
	var exists *types.QueueNameExists
	return errors.As(err, &exists) || errorCode(err) == "QueueAlreadyExists"
}

func isAccessDenied(err error) bool {
	switch errorCode(err) {
	case "AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation":
		return true
	}
	return false
}

func isThrottled(err error) bool {
	switch errorCode(err) {
	case "RequestThrottled", "RequestThrottledException", "Throttling", "ThrottlingException", "ThrottledException",
		"TooManyRequestsException", "RequestLimitExceeded", "SlowDown", "OverLimit":
		return true
	}
	if isKeyThrottled(err) {
		return true
	}
	var response *smithyhttp.ResponseError
	return errors.As(err, &response) && response.HTTPStatusCode() == http.StatusTooManyRequests
}

// isRefused reports that the service has answered a request, and did nothing.
func isRefused(err error) bool {
	var response *smithyhttp.ResponseError
	return errors.As(err, &response) && response.HTTPStatusCode() >= 400 && response.HTTPStatusCode() < 500
}

// isKeyThrottled reports that the key of an encrypted queue is used too often, which
// the SDK, other than for the queue itself, does not try again.
func isKeyThrottled(err error) bool {
	switch errorCode(err) {
	case "KmsThrottled", "KMS.ThrottlingException":
		return true
	}
	return false
}

// isReceiptGone reports whether SQS refused a delete or a visibility change for
// good because of the receipt: it expired, belongs to a deleted message, or asked
// for more than 12 hours. Trying again cannot help.
func isReceiptGone(err error) bool {
	switch errorCode(err) {
	case "ReceiptHandleIsInvalid", "InvalidParameterValue", "InvalidParameterValueException", "MessageNotInflight", "InvalidIdFormat":
		return true
	}
	var entry *entryError
	return errors.As(err, &entry) && entry.senderFault && !isThrottled(err) && !isAccessDenied(err) && !isQueueMissing(err)
}

// isContentFault reports whether SQS refused a whole request because of what one
// of its messages contains, so that the others deserve a request of their own.
func isContentFault(err error) bool {
	switch errorCode(err) {
	case "InvalidParameterValue", "InvalidParameterValueException", "InvalidMessageContents", "MissingParameter",
		"MissingRequiredParameterException", "BatchRequestTooLong", "InvalidAttributeValue", "InvalidAttributeName",
		"ValidationException", "SerializationException":
		return true
	}
	return false
}
