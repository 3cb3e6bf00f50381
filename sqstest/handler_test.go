package sqstest_test

import (
	"testing"
	"time"
)

// A day and a half of somebody's handler, as a test; see the example.
func TestShipping(t *testing.T) {
	t.Parallel()
	began := time.Now()
	runShipping(t)
	t.Logf("it took %v", time.Since(began))
}
