package sqstest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
)

// apiError is an error answer of the service.
type apiError struct {
	status   int
	wireType string // the __type of the body
	code     string // the query-compatible code, which is what the SDK's ErrorCode() returns
	message  string
	receiver bool // the service is at fault, not the sender
}

// modelledErrors are the errors that have a Go type in the SDK, by the name of that
// type: legacy code and HTTP status (sqs-facts 1.1).
var modelledErrors = map[string]struct {
	legacy string
	status int
}{
	"BatchEntryIdsNotDistinct":     {"AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400},
	"BatchRequestTooLong":          {"AWS.SimpleQueueService.BatchRequestTooLong", 400},
	"EmptyBatchRequest":            {"AWS.SimpleQueueService.EmptyBatchRequest", 400},
	"InvalidBatchEntryId":          {"AWS.SimpleQueueService.InvalidBatchEntryId", 400},
	"TooManyEntriesInBatchRequest": {"AWS.SimpleQueueService.TooManyEntriesInBatchRequest", 400},
	"QueueDoesNotExist":            {"AWS.SimpleQueueService.NonExistentQueue", 400},
	"QueueNameExists":              {"QueueAlreadyExists", 400},
	"QueueDeletedRecently":         {"AWS.SimpleQueueService.QueueDeletedRecently", 400},
	"MessageNotInflight":           {"AWS.SimpleQueueService.MessageNotInflight", 400},
	"UnsupportedOperation":         {"AWS.SimpleQueueService.UnsupportedOperation", 400},
	"PurgeQueueInProgress":         {"AWS.SimpleQueueService.PurgeQueueInProgress", 403},
	"OverLimit":                    {"OverLimit", 403},
	"RequestThrottled":             {"RequestThrottled", 403},
	"InvalidSecurity":              {"InvalidSecurity", 403},
	"InvalidAddress":               {"InvalidAddress", 404},
	"ReceiptHandleIsInvalid":       {"ReceiptHandleIsInvalid", 404},
	"ResourceNotFoundException":    {"ResourceNotFoundException", 404},
	"KmsThrottled":                 {"KMS.ThrottlingException", 400},
	"KmsAccessDenied":              {"KMS.AccessDeniedException", 400},
	"KmsDisabled":                  {"KMS.DisabledException", 400},
	"KmsInvalidState":              {"KMS.InvalidStateException", 400},
	"KmsInvalidKeyUsage":           {"KMS.InvalidKeyUsageException", 400},
	"KmsNotFound":                  {"KMS.NotFoundException", 400},
	"KmsOptInRequired":             {"KMS.OptInRequired", 403},
	"InvalidAttributeName":         {"InvalidAttributeName", 400},
	"InvalidAttributeValue":        {"InvalidAttributeValue", 400},
	"InvalidIdFormat":              {"InvalidIdFormat", 400},
	"InvalidMessageContents":       {"InvalidMessageContents", 400},
}

// genericTypes are wire types that differ from the code of an error without a Go type.
var genericTypes = map[string]string{
	"InvalidParameterValue": "InvalidParameterValueException",
	"MissingParameter":      "MissingRequiredParameterException",
}

// modelledName finds a modelled error by its name or its legacy code.
func modelledName(code string) (string, bool) {
	if _, ok := modelledErrors[code]; ok {
		return code, true
	}
	for name, m := range modelledErrors {
		if m.legacy == code {
			return name, true
		}
	}
	return "", false
}

// newError makes the error of a code, modelled or not, as the service answers it.
// A status of 0 is the one that goes with the code.
func newError(status int, code, message string) *apiError {
	if name, ok := modelledName(code); ok {
		m := modelledErrors[name]
		if status == 0 {
			status = m.status
		}
		return &apiError{status: status, wireType: "com.amazonaws.sqs#" + name, code: m.legacy, message: message, receiver: status >= 500}
	}
	if status == 0 {
		status = http.StatusBadRequest
	}
	wire := code
	if t, ok := genericTypes[code]; ok {
		wire = t
	}
	return &apiError{status: status, wireType: "com.amazon.coral.service#" + wire, code: code, message: message, receiver: status >= 500}
}

func (e *apiError) queryError() string {
	if e.receiver {
		return e.code + ";Receiver"
	}
	return e.code + ";Sender"
}

func (e *apiError) body() []byte {
	b := append(make([]byte, 0, 64+len(e.wireType)+len(e.message)), `{"__type":`...)
	b = appendString(b, e.wireType)
	b = append(b, `,"message":`...)
	b = appendString(b, strings.ToValidUTF8(e.message, "\ufffd")) // may quote a header
	return append(b, '}')
}

func errorf(code, format string, args ...any) *apiError {
	return newError(0, code, fmt.Sprintf(format, args...))
}

func invalidValue(parameter string, value any, reason string) *apiError {
	return errorf("InvalidParameterValue", "Value %v for parameter %s is invalid. Reason: %s", value, parameter, reason)
}

func missingParameter(name string) *apiError {
	return errorf("MissingParameter", "The request must contain the parameter %s.", name)
}

func queueDoesNotExist() *apiError {
	return newError(0, "QueueDoesNotExist", "The specified queue does not exist.")
}

func serviceClosed() *apiError {
	return newError(http.StatusServiceUnavailable, "ServiceUnavailable", "The sqstest service is closed.")
}

// asError is the error as the SDK would show it to a caller that does not look for
// its modelled type.
func (e *apiError) asError() error {
	fault := smithy.FaultClient
	if e.receiver {
		fault = smithy.FaultServer
	}
	return &smithy.GenericAPIError{Code: e.code, Message: e.message, Fault: fault}
}
