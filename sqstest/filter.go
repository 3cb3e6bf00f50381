package sqstest

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// Limits of filter policies (sqs-facts 11.3).
const (
	maxFilterKeys         = 5
	maxFilterCombinations = 150
	maxFilterSize         = 256 << 10
)

// filterPolicy says which messages a subscription gets.
type filterPolicy struct {
	onBody bool
	// Each alternative is a set of conditions by the path of a key, parts joined with
	// dots. There is more than one where the policy has $or.
	alternatives []map[string][]condition
}

// condition is one of the values, or operators, that a key may match.
type condition func(value any) bool

// absent stands for the value of a key that is not there.
type absent struct{}

// parseFilter checks a filter policy and reads it. The prefix goes into refusals, whose
// texts are those of SNS without the place in the JSON.
func parseFilter(policy string, onBody bool, prefix string) (*filterPolicy, *apiError) {
	p := filterParser{onBody: onBody, prefix: prefix}
	if len(policy) > maxFilterSize {
		return nil, p.refuse("Filter policy is too large")
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(policy)))
	decoder.UseNumber()
	var root map[string]any
	if err := decoder.Decode(&root); err != nil {
		return nil, p.refuse("failed to parse JSON. %v", err)
	}
	if decoder.More() {
		return nil, p.refuse("failed to parse JSON. There is more than an object.")
	}
	if len(root) > maxFilterKeys {
		return nil, p.refuse("Filter policy can not have more than %d keys", maxFilterKeys)
	}
	combinations, err := p.check(root, 1)
	if err != nil {
		return nil, err
	}
	if combinations > maxFilterCombinations {
		return nil, p.refuse("Filter policy is too complex")
	}
	alternatives, err := p.flatten(root, "", []map[string][]condition{{}})
	if err != nil {
		return nil, err
	}
	return &filterPolicy{onBody: onBody, alternatives: alternatives}, nil
}

type filterParser struct {
	onBody bool
	prefix string
}

func (p filterParser) refuse(format string, args ...any) *apiError {
	return invalidParameter(p.prefix+"FilterPolicy: "+format, args...)
}

// alternativesOf tells whether a key is $or, and not a key of that name.
func alternativesOf(key string, value any) ([]map[string]any, bool) {
	list, ok := value.([]any)
	if key != "$or" || !ok || len(list) < 2 {
		return nil, false
	}
	choices := make([]map[string]any, len(list))
	for i, v := range list {
		if choices[i], ok = v.(map[string]any); !ok {
			return nil, false
		}
	}
	return choices, true
}

// check refuses a wrong form and counts the combinations of values: the product of the
// numbers of values, each times the depth of its key, where $or adds up its choices.
func (p filterParser) check(object map[string]any, depth int) (float64, *apiError) {
	combinations := 1.0
	for _, key := range sortedKeys(object) {
		if choices, ok := alternativesOf(key, object[key]); ok {
			sum := 0.0
			for _, choice := range choices {
				n, err := p.check(choice, depth)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			combinations *= sum
			continue
		}
		switch value := object[key].(type) {
		case map[string]any:
			n, err := p.check(value, depth+1)
			if err != nil {
				return 0, err
			}
			combinations *= n
		case []any:
			if len(value) == 0 {
				return 0, p.refuse("Empty arrays are not allowed")
			}
			combinations *= float64(len(value) * depth)
		default:
			return 0, p.refuse("%q must be an object or an array", key)
		}
	}
	if depth > 1 && !p.onBody {
		return 0, invalidParameter(p.prefix + "Filter policy scope MessageAttributes does not support nested filter policy")
	}
	return combinations, nil
}

// flatten adds the conditions of an object to each of the alternatives so far.
func (p filterParser) flatten(object map[string]any, path string, so []map[string][]condition) ([]map[string][]condition, *apiError) {
	for _, key := range sortedKeys(object) {
		if choices, ok := alternativesOf(key, object[key]); ok {
			var all []map[string][]condition
			for _, choice := range choices {
				some, err := p.flatten(choice, path, so)
				if err != nil {
					return nil, err
				}
				all = append(all, some...)
			}
			so = all
			continue
		}
		inner := join(path, key)
		if nested, ok := object[key].(map[string]any); ok {
			var err *apiError
			if so, err = p.flatten(nested, inner, so); err != nil {
				return nil, err
			}
			continue
		}
		var conditions []condition
		for _, rule := range object[key].([]any) { // as check has seen
			c, err := p.rule(rule)
			if err != nil {
				return nil, err
			}
			conditions = append(conditions, c)
		}
		next := make([]map[string][]condition, len(so))
		for i, alternative := range so {
			next[i] = make(map[string][]condition, len(alternative)+1)
			maps.Copy(next[i], alternative)
			next[i][inner] = conditions
		}
		so = next
	}
	return so, nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// rule reads one value or operator.
func (p filterParser) rule(rule any) (condition, *apiError) {
	switch rule := rule.(type) {
	case []any:
		return nil, p.refuse("Match value must be String, number, true, false, or null")
	case map[string]any:
		if len(rule) != 1 {
			return nil, p.refuse("Only one key allowed in match expression")
		}
		for operator, operand := range rule {
			return p.operator(operator, operand)
		}
	}
	return equals(rule), nil
}

// equals matches one value exactly. Numbers are equal as numbers.
func equals(want any) condition {
	if n, ok := want.(json.Number); ok {
		number := float(n)
		return func(value any) bool {
			n, ok := value.(json.Number)
			return ok && float(n) == number
		}
	}
	return func(value any) bool { return value == want }
}

func float(n json.Number) float64 {
	f, err := n.Float64()
	if err != nil {
		return math.NaN() // out of range: equal to nothing
	}
	return f
}

func onText(match func(string) bool) condition {
	return func(value any) bool {
		s, ok := value.(string)
		return ok && match(s)
	}
}

func (p filterParser) operator(operator string, operand any) (condition, *apiError) {
	text, isText := operand.(string)
	switch operator {
	case "prefix", "suffix", "equals-ignore-case", "cidr":
		if !isText {
			return nil, p.refuse("%s match pattern must be a string", map[bool]string{true: "prefix", false: operator}[operator == "cidr"])
		}
	}
	switch operator {
	case "prefix":
		return onText(func(s string) bool { return strings.HasPrefix(s, text) }), nil
	case "suffix":
		return onText(func(s string) bool { return strings.HasSuffix(s, text) }), nil
	case "equals-ignore-case":
		return onText(func(s string) bool { return strings.EqualFold(s, text) }), nil
	case "cidr":
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, p.refuse("Malformed CIDR, %v", err)
		}
		return onText(func(s string) bool {
			address, err := netip.ParseAddr(s)
			return err == nil && network.Contains(address)
		}), nil
	case "exists":
		want, ok := operand.(bool)
		if !ok {
			return nil, p.refuse("exists match pattern must be either true or false.")
		}
		return func(value any) bool { return (value != absent{}) == want }, nil
	case "numeric":
		return p.numeric(operand)
	case "anything-but":
		return p.anythingBut(operand)
	}
	return nil, p.refuse("Unrecognized match type %s", operator)
}

// anythingBut matches every value that is there but these.
func (p filterParser) anythingBut(operand any) (condition, *apiError) {
	var unwanted []condition
	switch operand := operand.(type) {
	case map[string]any:
		if len(operand) != 1 {
			return nil, p.refuse("Only one key allowed in match expression")
		}
		for operator, pattern := range operand {
			if operator != "prefix" {
				return nil, p.refuse("Unsupported anything-but pattern: %s", operator)
			}
			c, err := p.operator(operator, pattern)
			if err != nil {
				return nil, err
			}
			unwanted = append(unwanted, c)
		}
	case []any:
		if len(operand) == 0 {
			return nil, p.refuse("Empty arrays are not allowed")
		}
		for _, v := range operand {
			switch v.(type) {
			case string, json.Number:
				unwanted = append(unwanted, equals(v))
			default:
				return nil, p.refuse("Inside anything but list, start|null|boolean is not supported.")
			}
		}
	case string, json.Number:
		unwanted = append(unwanted, equals(operand))
	default:
		return nil, p.refuse("Value of anything-but must be an array or single string/number value.")
	}
	return func(value any) bool {
		if value == nil || value == (absent{}) {
			return false
		}
		for _, c := range unwanted {
			if c(value) {
				return false
			}
		}
		return true
	}, nil
}

// numeric reads ["=", 1], [">", 1] and [">", 1, "<=", 2].
func (p filterParser) numeric(operand any) (condition, *apiError) {
	list, ok := operand.([]any)
	if !ok {
		return nil, p.refuse("Value of numeric must be an array.")
	}
	if len(list) == 0 {
		return nil, p.refuse("Invalid member in numeric match: ]")
	}
	first, ok := list[0].(string)
	if !ok {
		return nil, p.refuse("Invalid member in numeric match: %v", list[0])
	}
	if !slices.Contains([]string{"=", "<", "<=", ">", ">="}, first) {
		return nil, p.refuse("Unrecognized numeric range operator: %s", first)
	}
	low, err := p.bound(first, list[1:])
	if err != nil {
		return nil, err
	}
	rest := list[2:]
	switch {
	case len(rest) == 0:
		return compare(first, low), nil
	case first != ">" && first != ">=":
		return nil, p.refuse("Too many elements in numeric expression")
	}
	second, ok := rest[0].(string)
	if !ok {
		return nil, p.refuse("Bad value in numeric range: %v", rest[0])
	}
	if second != "<" && second != "<=" {
		return nil, p.refuse("Bad numeric range operator: %s", second)
	}
	high, err := p.bound(second, rest[1:])
	if err != nil {
		return nil, err
	}
	if low >= high {
		return nil, p.refuse("Bottom must be less than top")
	}
	if len(rest) > 2 {
		return nil, p.refuse("Too many terms in numeric range expression")
	}
	above, below := compare(first, low), compare(second, high)
	return func(value any) bool { return above(value) && below(value) }, nil
}

func (p filterParser) bound(operator string, after []any) (float64, *apiError) {
	if len(after) > 0 {
		if n, ok := after[0].(json.Number); ok {
			return float(n), nil
		}
	}
	if operator == "=" {
		operator = "equals"
	}
	return 0, p.refuse("Value of %s must be numeric", operator)
}

func compare(operator string, bound float64) condition {
	return func(value any) bool {
		n, ok := value.(json.Number)
		if !ok {
			return false
		}
		f := float(n)
		switch operator {
		case "<":
			return f < bound
		case "<=":
			return f <= bound
		case ">":
			return f > bound
		case ">=":
			return f >= bound
		}
		return f == bound
	}
}
