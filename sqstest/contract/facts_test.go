package contract_test

import (
	"os"
	"strings"
	"testing"
)

const factsFile = "FACTS.md"

// excused are facts that were recorded or validated and have no row, with the reason.
var excused = map[string]string{
	"1.query-text": "the SDK for Go does not speak the query protocol of SQS",
	"2.permissions": "sqstest does not have AddPermission and RemovePermission, as its documentation says; " +
		"a Policy is set as an attribute",
	"5.subset":     "SQS may do so and need not: sqstest and the servers never do",
	"11.1.confirm": "there is one account in sqstest and the servers, whose subscriptions are confirmed at once",
}

// fact is something that a client can see.
type fact struct {
	id, says, seen string
}

// recorded tells whether a fact rests on answers of AWS.
func (f fact) recorded() bool {
	return strings.Contains(f.seen, "REC:") || strings.Contains(f.seen, "VAL:")
}

// readFacts reads the tables of FACTS.md.
func readFacts(t *testing.T) []fact {
	t.Helper()
	text, err := os.ReadFile(factsFile)
	if err != nil {
		t.Fatal(err)
	}
	var facts []fact
	for number, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| fact ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 3 {
			t.Fatalf("%s:%d: want three cells: %s", factsFile, number+1, line)
		}
		facts = append(facts, fact{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])})
	}
	if len(facts) == 0 {
		t.Fatalf("%s has no facts", factsFile)
	}
	return facts
}

// factsOf shows the facts of a row, for whoever looks at its failure.
func factsOf(t *testing.T, b behaviour) string {
	t.Helper()
	var lines []string
	for _, f := range readFacts(t) {
		for _, id := range b.facts {
			if f.id == id {
				lines = append(lines, "  "+f.id+": "+f.says+" ["+f.seen+"]")
			}
		}
	}
	return strings.Join(lines, "\n")
}

// TestFactsHaveRows fails for each fact that was recorded or validated and is checked by
// no row, unless it is excused, and for each excuse that is none.
func TestFactsHaveRows(t *testing.T) {
	rows := map[string]int{}
	for _, b := range behaviours() {
		for _, id := range b.facts {
			rows[id]++
		}
	}
	seen := map[string]fact{}
	for _, f := range readFacts(t) {
		if _, twice := seen[f.id]; twice {
			t.Errorf("there are two facts %s", f.id)
		}
		seen[f.id] = f
		if f.says == "" || f.seen == "" {
			t.Errorf("fact %s needs what it says and where it was seen", f.id)
		}
		_, excuse := excused[f.id]
		switch {
		case f.recorded() && rows[f.id] == 0 && !excuse:
			t.Errorf("fact %s has no row: %s [%s]", f.id, f.says, f.seen)
		case excuse && rows[f.id] > 0:
			t.Errorf("fact %s is excused but has a row", f.id)
		}
	}
	for id, why := range excused {
		if f, ok := seen[id]; !ok || !f.recorded() {
			t.Errorf("%s needs no excuse", id)
		}
		if why == "" {
			t.Errorf("the excuse of %s is empty", id)
		}
	}
}
