// Package contract_test holds what SQS and SNS do, as a table of behaviours that any
// server can be asked for: each row rests on a fact of FACTS.md, which says where the
// fact was seen. The rows run against package sqstest, which has to show all of them,
// and against independent servers, whose deviations are in a table as well, so that
// each side checks the other:
//
//	go test ./sqstest/contract                                # sqstest, in process
//	WATERMILLSQS_CONTRACT_SERVER=fauxqs WATERMILLSQS_CONTRACT_ENDPOINT=http://127.0.0.1:4566 \
//	    go test -count=1 -v -run '^TestContract$' ./sqstest/contract
//	go test -run '^TestMatrix$' ./sqstest/contract -update    # writes DEVIATIONS.md
//
// The server has to be in region us-east-1, with account 000000000000.
package contract_test

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write DEVIATIONS.md")

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(endpointVariable) != "" && !isSet("test.parallel") {
		// In real time most rows wait for a timeout to pass, which needs no processor.
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func isSet(name string) bool {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}
