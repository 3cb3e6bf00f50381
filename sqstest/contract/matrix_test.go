package contract_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const matrixFile = "DEVIATIONS.md"

// TestMatrix fails when DEVIATIONS.md is not what the tables say. With -update it writes
// the file.
func TestMatrix(t *testing.T) {
	want := matrix(t)
	if *update {
		if err := os.WriteFile(matrixFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the tables say: run go test -run '^TestMatrix$' ./sqstest/contract -update", matrixFile)
	}
}

// matrix writes DEVIATIONS.md.
func matrix(t *testing.T) string {
	seen := map[string]string{}
	for _, f := range readFacts(t) {
		seen[f.id] = strongest(f.seen)
	}
	var b strings.Builder
	b.WriteString(matrixHead)
	b.WriteString(summary())
	b.WriteString("\n## Where servers disagree\n\n" +
		"`·` does as SQS, a number is a reason below, `–` is not asked: it would take minutes, or the server has nothing of the kind.\n" +
		"The column *seen* has the kinds of the facts that a row rests on.\n\n" +
		"| behaviour | what SQS does | seen | sqstest |")
	for _, s := range servers {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n| --- | --- | --- |" + strings.Repeat(" :-: |", len(servers)+1) + "\n")
	var agreed []behaviour
	for _, row := range behaviours() {
		cells, deviates := cellsOf(row)
		if !deviates {
			agreed = append(agreed, row)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | · | %s |\n", row.id, cell(row.does), kinds(row, seen), strings.Join(cells, " | "))
	}
	b.WriteString(agreement(agreed))
	for _, s := range servers {
		fmt.Fprintf(&b, "\n## %s %s\n\n", s.name, s.version)
		for i, r := range s.deviations {
			fmt.Fprintf(&b, "%d. It %s: %s.\n", i+1, r.why, strings.Join(ordered(r), ", "))
		}
	}
	return b.String()
}

const matrixHead = `<!-- Written by go test -run '^TestMatrix$' ./sqstest/contract -update from the tables in this directory. -->

# What to trust

The same contract is asked of package sqstest and of servers that others wrote. Where they disagree, what was seen of SQS
decides: each behaviour rests on facts of [FACTS.md](FACTS.md), which has their sources. Package sqstest does all of it.
Deviations are in tables as well, are run with the rest, and fail the tests when they are not true any more.

Texts of errors are compared on sqstest only. The prefixes of codes and the HTTP status have rows of their own and are
not held against a server in others. A row ends at the first difference, so a server may deviate in more of it.

`

// summary is a table with a line for each server.
func summary() string {
	all := behaviours()
	var b strings.Builder
	b.WriteString("| server | asked | as SQS | otherwise | not asked |\n| --- | --: | --: | --: | --- |\n")
	fmt.Fprintf(&b, "| sqstest | %d | %d | 0 | |\n", len(all), len(all))
	for _, s := range servers {
		asked, otherwise, long, lacking := 0, 0, 0, map[string]int{}
		for _, row := range all {
			_, _, deviates := s.deviation(row.id)
			switch {
			case s.lacks[row.needs()]:
				lacking[row.needs()]++
			case row.sqstestOnly != "":
				long++
			case deviates:
				asked++
				otherwise++
			default:
				asked++
			}
		}
		notAsked := fmt.Sprintf("%d for sqstest only", long)
		for _, feature := range []string{"SNS", "move tasks"} {
			if n := lacking[feature]; n > 0 {
				notAsked += fmt.Sprintf(", %d of %s", n, feature)
			}
		}
		fmt.Fprintf(&b, "| %s %s | %d | %d | %d | %s |\n", s.name, s.version, asked, asked-otherwise, otherwise, notAsked)
	}
	return b.String()
}

// cellsOf says how each server does in a row.
func cellsOf(row behaviour) (cells []string, deviates bool) {
	for _, s := range servers {
		mark := "·"
		if row.sqstestOnly != "" || s.lacks[row.needs()] {
			mark = "–"
		}
		for i, r := range s.deviations {
			if _, ok := r.rows[row.id]; ok {
				mark, deviates = strconv.Itoa(i+1), true
			}
		}
		cells = append(cells, mark)
	}
	return cells, deviates
}

// agreement lists the rows in which no server that was asked deviates, by area.
func agreement(rows []behaviour) string {
	var b strings.Builder
	b.WriteString("\n## Where all do as SQS\n\nRows that are asked of sqstest only are in italics.\n\n")
	area := ""
	for _, row := range rows {
		switch {
		case row.area() != area && area != "":
			b.WriteString("\n- ")
		case area == "":
			b.WriteString("- ")
		default:
			b.WriteString(", ")
		}
		area = row.area()
		if row.sqstestOnly != "" {
			b.WriteString("*" + row.id + "*")
			continue
		}
		b.WriteString(row.id)
	}
	b.WriteString("\n")
	return b.String()
}

// ordered has the rows of a reason in the order of the contract.
func ordered(r reason) (ids []string) {
	for _, row := range behaviours() {
		if _, ok := r.rows[row.id]; ok {
			ids = append(ids, row.id)
		}
	}
	return ids
}

// strongest is the first kind of a source, in the order of FACTS.md.
func strongest(source string) string {
	for _, kind := range []string{"REC", "VAL", "SDK", "SNSDG23", "SNSDG", "DG23", "DG", "GH", "EXP", "3P", "INFER", "UNSOURCED"} {
		if strings.HasPrefix(source, kind) || strings.Contains(source, "; "+kind) {
			return kind
		}
	}
	return "?"
}

func kinds(row behaviour, seen map[string]string) string {
	var all []string
	for _, id := range row.facts {
		if !slices.Contains(all, seen[id]) {
			all = append(all, seen[id])
		}
	}
	return strings.Join(all, ", ")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
