package sqstest

import (
	"encoding/json"
	"slices"
	"strings"
)

// snsPrincipal is who sends the messages of topics.
const snsPrincipal = "sns.amazonaws.com"

// queuePolicy is the Policy of a queue, as far as it decides whether SNS may send.
type queuePolicy struct{ statements []policyStatement }

type policyStatement struct {
	Effect       string
	Principal    policyPrincipal
	NotPrincipal policyPrincipal
	Action       textList
	NotAction    textList
	Resource     textList
	NotResource  textList
	Condition    map[string]map[string]textList
}

// textList is a text or a list of them.
type textList []string

func (l *textList) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = textList{one}
		return nil
	}
	var scalar any // true and numbers are written plainly in conditions
	if err := json.Unmarshal(b, &scalar); err != nil {
		return err
	}
	if list, ok := scalar.([]any); ok {
		*l = make(textList, 0, len(list))
		for _, v := range list {
			*l = append(*l, plain(v))
		}
		return nil
	}
	*l = textList{plain(scalar)}
	return nil
}

func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v) //nolint:errchkjson // it came out of a decoder
	return string(b)
}

// policyPrincipal is "*" or principals by their kind.
type policyPrincipal struct {
	everyone bool
	kinds    map[string]textList
}

func (p *policyPrincipal) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		p.everyone = one == "*"
		return nil
	}
	return json.Unmarshal(b, &p.kinds)
}

// isSNS tells whether SNS is meant.
func (p policyPrincipal) isSNS() bool {
	if p.everyone {
		return true
	}
	if slices.Contains(p.kinds["AWS"], "*") {
		return true
	}
	for _, name := range p.kinds["Service"] {
		if name == snsPrincipal || name == "*" {
			return true
		}
	}
	return false
}

func (p policyPrincipal) given() bool { return p.everyone || p.kinds != nil }

// parsePolicy reads a policy; one that is no policy is refused.
func parsePolicy(value string) (*queuePolicy, *apiError) {
	refused := newError(0, "InvalidAttributeValue", "Invalid value for the parameter Policy.")
	var document *struct{ Statement json.RawMessage }
	if err := json.Unmarshal([]byte(value), &document); err != nil || document == nil {
		return nil, refused
	}
	p := &queuePolicy{}
	if document.Statement == nil {
		return p, nil
	}
	if document.Statement[0] == '{' {
		document.Statement = append(append([]byte{'['}, document.Statement...), ']')
	}
	if err := json.Unmarshal(document.Statement, &p.statements); err != nil {
		return nil, refused
	}
	for _, s := range p.statements {
		if s.Effect != "Allow" && s.Effect != "Deny" || len(s.Action)+len(s.NotAction) == 0 {
			return nil, refused
		}
	}
	if len(p.statements) > 20 { // sqs-facts 3
		return nil, refused
	}
	return p, nil
}

// allowsSend tells whether a topic may send to a queue: a statement allows it and none
// denies it. Without a policy it may not.
func (p *queuePolicy) allowsSend(queueARN, topicARN string) bool {
	if p == nil {
		return false
	}
	allowed := false
	for _, s := range p.statements {
		if !s.concerns(queueARN, topicARN) {
			continue
		}
		if s.Effect == "Deny" {
			return false
		}
		allowed = true
	}
	return allowed
}

// concerns tells whether a statement is about SNS sending to a queue for a topic.
func (s policyStatement) concerns(queueARN, topicARN string) bool {
	if s.NotPrincipal.given() {
		if s.NotPrincipal.isSNS() {
			return false
		}
	} else if !s.Principal.isSNS() {
		return false
	}
	isAction := func(pattern string) bool { return like(strings.ToLower(pattern), "sqs:sendmessage") }
	isResource := func(pattern string) bool { return like(pattern, queueARN) }
	switch {
	case len(s.Action) > 0 && !anyOf(s.Action, isAction),
		len(s.NotAction) > 0 && anyOf(s.NotAction, isAction),
		len(s.Resource) > 0 && !anyOf(s.Resource, isResource),
		len(s.NotResource) > 0 && anyOf(s.NotResource, isResource):
		return false
	}
	for operator, keys := range s.Condition {
		for key, values := range keys {
			if !conditionHolds(operator, key, values, topicARN) {
				return false
			}
		}
	}
	return true
}

func anyOf(list textList, match func(string) bool) bool {
	return slices.ContainsFunc(list, match)
}

// conditionHolds evaluates a condition in the context of a delivery by SNS. What is not
// known of it, or no operator of these, does not hold.
func conditionHolds(operator, key string, values textList, topicARN string) bool {
	base, ifExists := strings.CutSuffix(operator, "IfExists")
	if _, one, isSet := strings.Cut(base, ":"); isSet { // ForAnyValue: or ForAllValues:, of one value here
		base = one
	}
	context := map[string]string{
		"aws:sourcearn":             topicARN,
		"aws:sourceaccount":         AccountID,
		"aws:sourceowner":           AccountID,
		"aws:securetransport":       "true",
		"aws:principalisawsservice": "true",
		"aws:principalservicename":  snsPrincipal,
	}
	actual, known := context[strings.ToLower(key)]
	positive, negated := base, false
	if rest, ok := strings.CutPrefix(base, "StringNot"); ok {
		positive, negated = "String"+rest, true
	} else if rest, ok := strings.CutPrefix(base, "ArnNot"); ok {
		positive, negated = "Arn"+rest, true
	}
	var match func(string) bool
	switch positive {
	case "StringEquals":
		match = func(want string) bool { return want == actual }
	case "StringEqualsIgnoreCase":
		match = func(want string) bool { return strings.EqualFold(want, actual) }
	case "StringLike":
		match = func(want string) bool { return like(want, actual) }
	case "ArnEquals", "ArnLike": // the two are the same in IAM
		match = func(want string) bool { return arnLike(want, actual) }
	case "Bool":
		match = func(want string) bool { return strings.EqualFold(want, actual) }
	case "Null":
		return anyOf(values, func(want string) bool { return (want == "true") == !known })
	default:
		return false
	}
	if !known {
		return ifExists || negated
	}
	return anyOf(values, match) != negated
}

// arnLike compares ARNs part by part, so that a star does not reach over a colon.
func arnLike(pattern, arn string) bool {
	want, have := strings.SplitN(pattern, ":", 6), strings.SplitN(arn, ":", 6)
	if len(want) != 6 || len(have) != 6 {
		return pattern == "*"
	}
	for i := range want {
		if !like(want[i], have[i]) {
			return false
		}
	}
	return true
}

// like matches a pattern in which * stands for any text and ? for any character.
func like(pattern, s string) bool {
	star, mark, p, i := -1, 0, 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]) && pattern[p] != '*':
			p++
			i++
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case star >= 0:
			p = star + 1
			mark++
			i = mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
