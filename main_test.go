package watermillsqs_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The parallel tests are those of the conformance suite, which mostly wait. By
	// default no more of them run at a time than there are processors.
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", "16"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
