package contract_test

import (
	"fmt"
	"slices"
)

// server is an implementation of SQS that others wrote.
type server struct {
	name    string // as .ci/servers.sh has it
	version string
	lacks   map[string]bool // what the server does not have at all; a probe makes sure

	// deviations are the rows in which the server does otherwise than SQS. They are run
	// all the same: the tests fail when one is not true any more.
	deviations []reason
}

// reason is why a server deviates in some rows, of which each has a part of the failure.
type reason struct {
	why  string
	rows map[string]string
}

var servers = []*server{
	{"fauxqs", "2.4.1", map[string]bool{"move tasks": true}, fauxqsDeviations},
	{"elasticmq", "1.7.1", map[string]bool{"SNS": true}, elasticMQDeviations},
	{"moto", "5.2.1", map[string]bool{"move tasks": true}, motoDeviations},
	{"local-aws-sqs", "2.0.2", map[string]bool{"SNS": true}, localAWSSQSDeviations},
}

func serverNamed(name string) *server {
	if i := slices.IndexFunc(servers, func(s *server) bool { return s.name == name }); i >= 0 {
		return servers[i]
	}
	return nil
}

func serverNames() (names []string) {
	for _, s := range servers {
		names = append(names, s.name)
	}
	return names
}

// deviation is what a server does in a row instead of what SQS does; known tells whether
// it is known to deviate.
func (s *server) deviation(id string) (got, why string, known bool) {
	for _, r := range s.deviations {
		if got, known := r.rows[id]; known {
			return got, r.why, true
		}
	}
	return "", "", false
}

// check looks for mistakes in the tables of a server.
func (s *server) check(rows map[string]behaviour) (mistakes []string) {
	seen := map[string]bool{}
	for _, r := range s.deviations {
		if r.why == "" || len(r.rows) == 0 {
			mistakes = append(mistakes, fmt.Sprintf("a reason of %s has no text or no rows", s.name))
		}
		for id, got := range r.rows {
			b, ok := rows[id]
			switch {
			case !ok:
				mistakes = append(mistakes, fmt.Sprintf("%s deviates in %s, which is no row", s.name, id))
			case got == "":
				mistakes = append(mistakes, fmt.Sprintf("the deviation of %s in %s does not say what it does", s.name, id))
			case seen[id]:
				mistakes = append(mistakes, fmt.Sprintf("%s deviates in %s for two reasons", s.name, id))
			case b.sqstestOnly != "" || s.lacks[b.needs()]:
				mistakes = append(mistakes, fmt.Sprintf("%s deviates in %s, which it is not asked", s.name, id))
			}
			seen[id] = true
		}
	}
	for feature := range s.lacks {
		if probes[feature] == nil {
			mistakes = append(mistakes, fmt.Sprintf("nothing tells whether %s has %s", s.name, feature))
		}
	}
	return mistakes
}
