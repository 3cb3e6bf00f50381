package sqstest

import (
	"fmt"
	"net/http"
)

// snsStatuses are the HTTP statuses of SNS errors; all others have 400.
var snsStatuses = map[string]int{
	"AuthorizationError":        403,
	"FilterPolicyLimitExceeded": 403,
	"InternalError":             500,
	"InternalFailure":           500,
	"InvalidSecurity":           403,
	"NotFound":                  404,
	"ServiceUnavailable":        503,
	"SubscriptionLimitExceeded": 403,
	"Throttled":                 429,
	"TopicLimitExceeded":        403,
}

// newSNSError makes the error of a code as SNS answers it. A status of 0 is the one that
// goes with the code.
func newSNSError(status int, code, message string) *apiError {
	if status == 0 {
		status = http.StatusBadRequest
		if s, ok := snsStatuses[code]; ok {
			status = s
		}
	}
	return &apiError{status: status, wireType: code, code: code, message: message, receiver: status >= 500}
}

func snsErrorf(code, format string, args ...any) *apiError {
	return newSNSError(0, code, fmt.Sprintf(format, args...))
}

func invalidParameter(format string, args ...any) *apiError {
	return snsErrorf("InvalidParameter", "Invalid parameter: "+format, args...)
}

func topicDoesNotExist() *apiError { return newSNSError(0, "NotFound", "Topic does not exist") }

func subscriptionDoesNotExist() *apiError {
	return newSNSError(0, "NotFound", "Subscription does not exist")
}
