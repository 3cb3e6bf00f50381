// Package components checks, against Watermill's own packages, what
// docs/compatibility.md says of those pieces whose dependencies the root module does
// not have: two protobuf libraries, the Prometheus client, a circuit breaker. It is a
// module of its own to keep them out of users' graphs.
package components

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
