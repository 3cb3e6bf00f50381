package contract_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

const (
	endpointVariable = "WATERMILLSQS_CONTRACT_ENDPOINT"
	serverVariable   = "WATERMILLSQS_CONTRACT_SERVER"
)

// behaviour is a row of the contract.
type behaviour struct {
	id    string   // area/name
	facts []string // what of FACTS.md it checks
	does  string   // what SQS does
	run   func(e *env)

	// sqstestOnly says why it is not asked of other servers, "" if it is.
	sqstestOnly string
}

func row(id, facts, does string, run func(e *env)) behaviour {
	return behaviour{id: id, facts: strings.Fields(facts), does: does, run: run}
}

// onSqstestOnly is for rows that would take minutes or hours in real time.
func (b behaviour) onSqstestOnly(why string) behaviour {
	b.sqstestOnly = why
	return b
}

func (b behaviour) area() string {
	area, _, _ := strings.Cut(b.id, "/")
	return area
}

// needs is what not every server has, "" for the SQS that all have.
func (b behaviour) needs() string {
	switch b.area() {
	case "move":
		return "move tasks"
	case "topic", "subscription", "publish", "delivery", "filterpolicy":
		return "SNS"
	}
	return ""
}

// behaviours is the contract, in the order of the matrix.
func behaviours() []behaviour {
	return slices.Concat(
		queueRows, attributeRows, sendRows, sizeRows, contentRows, batchRows, receiveRows, filterRows,
		visibilityRows, deleteRows, deadLetterRows, redrivePolicyRows, moveRows,
		fifoSendRows, fifoDedupRows, fifoOrderRows, fifoSettleRows,
		topicRows, subscriptionRows, publishRows, deliveryRows, filterPolicyRows,
	)
}

// TestContract asks the server that the environment names for every behaviour, or sqstest.
func TestContract(t *testing.T) {
	endpoint := os.Getenv(endpointVariable)
	if endpoint == "" {
		for _, b := range behaviours() {
			t.Run(b.id, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					if failure := b.perform(newLocalEnv(t)); failure != "" {
						t.Errorf("%s\nfacts:\n%s", failure, factsOf(t, b))
					}
				})
			})
		}
		return
	}
	name := os.Getenv(serverVariable)
	s := serverNamed(name)
	if s == nil {
		t.Fatalf("%s=%q names none of %v", serverVariable, name, serverNames())
	}
	t.Logf("running against %s at %s", name, endpoint)
	for feature := range s.lacks {
		t.Run("lacks/"+feature, func(t *testing.T) {
			t.Parallel()
			if failure := perform(newRemoteEnv(t, name, endpoint), probes[feature]); failure == "" {
				t.Errorf("%s has %s now: take that out of its table", name, feature)
			}
		})
	}
	for _, b := range behaviours() {
		t.Run(b.id, func(t *testing.T) {
			t.Parallel()
			if b.sqstestOnly != "" {
				t.Skip(b.sqstestOnly)
			}
			if s.lacks[b.needs()] {
				t.Skipf("%s has no %s", name, b.needs())
			}
			askServer(t, s, b, endpoint)
		})
	}
}

// askServer compares a row's outcome with the table of deviations. In real time and on
// a busy machine a row can fail for want of time, so an outcome that the table does not
// have is looked at again.
func askServer(t *testing.T, s *server, b behaviour, endpoint string) {
	t.Helper()
	const attempts = 3
	for attempt := 1; ; attempt++ {
		failure := b.perform(newRemoteEnv(t, s.name, endpoint))
		complaint := s.judge(b.id, failure)
		switch {
		case complaint == "" && failure == "":
			return
		case complaint == "":
			t.Logf("deviates as is known: %s", failure)
			return
		case attempt == attempts:
			t.Errorf("%s\nfacts:\n%s", complaint, factsOf(t, b))
			return
		}
		t.Logf("attempt %d: %s", attempt, complaint)
	}
}

// judge says how an outcome differs from what the tables say of a server.
func (s *server) judge(id, failure string) (complaint string) {
	got, _, known := s.deviation(id)
	switch {
	case !known:
		return failure
	case failure == "":
		return fmt.Sprintf("%s does as SQS does now; its table says: %s", s.name, got)
	case !strings.Contains(failure, got):
		return fmt.Sprintf("%s deviates otherwise than its table says (%s): %s", s.name, got, failure)
	}
	return ""
}

// perform runs a row and returns the first expectation that was not met.
func (b behaviour) perform(e *env) string { return perform(e, b.run) }

func perform(e *env, run func(e *env)) (failure string) {
	defer e.cleanUp()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case unmet:
			failure = string(r)
		default:
			panic(r)
		}
	}()
	run(e)
	return ""
}

// TestRowsAreWellFormed looks for mistakes in the tables.
func TestRowsAreWellFormed(t *testing.T) {
	facts := map[string]bool{}
	for _, f := range readFacts(t) {
		facts[f.id] = true
	}
	rows := map[string]behaviour{}
	for _, b := range behaviours() {
		if _, twice := rows[b.id]; twice {
			t.Errorf("two rows are named %s", b.id)
		}
		rows[b.id] = b
		if b.area() == b.id || b.does == "" || len(b.facts) == 0 {
			t.Errorf("row %s needs an area, a sentence and facts", b.id)
		}
		for _, id := range b.facts {
			if !facts[id] {
				t.Errorf("row %s rests on %s, which %s does not have", b.id, id, factsFile)
			}
		}
	}
	for _, s := range servers {
		for _, mistake := range s.check(rows) {
			t.Error(mistake)
		}
	}
}
