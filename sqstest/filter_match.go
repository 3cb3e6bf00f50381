package sqstest

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// matches tells whether a message gets through. A nil policy lets every one through.
func (f *filterPolicy) matches(p *publication) bool {
	if f == nil {
		return true
	}
	values, ok := attributeScope(p.attributes), true
	if f.onBody {
		values, ok = bodyScope(p.text)
	}
	if !ok {
		return false
	}
	for _, alternative := range f.alternatives {
		if matchesAll(alternative, values) {
			return true
		}
	}
	return false
}

// matchesAll tells whether each key has a value that fits one of its conditions.
func matchesAll(alternative map[string][]condition, values map[string][]any) bool {
	for path, conditions := range alternative {
		if !matchesAny(conditions, values[path]) {
			return false
		}
	}
	return true
}

func matchesAny(conditions []condition, values []any) bool {
	if len(values) == 0 {
		values = []any{absent{}}
	}
	for _, c := range conditions {
		if slices.ContainsFunc(values, c) {
			return true
		}
	}
	return false
}

// attributeScope shows the attributes of a message to a filter: a text, a number, or the
// elements of a String.Array. Binary ones are not looked at (sqs-facts 11.3).
func attributeScope(attributes []attribute) map[string][]any {
	values := make(map[string][]any, len(attributes))
	for _, a := range attributes {
		switch {
		case a.isBinary:
		case a.dataType == "String.Array":
			if elements, ok := decodeNumbers[[]any](a.text); ok {
				values[a.name] = elements
			}
		case strings.HasPrefix(a.dataType, "Number"):
			values[a.name] = []any{json.Number(a.text)}
		default:
			values[a.name] = []any{a.text}
		}
	}
	return values
}

// bodyScope shows the values of a JSON object to a filter by their path. Elements of
// arrays share the path of the array. It reports false for what is no object.
func bodyScope(body string) (map[string][]any, bool) {
	object, ok := decodeNumbers[map[string]any](body)
	if !ok || object == nil {
		return nil, false
	}
	values := make(map[string][]any)
	spread(object, "", values)
	return values, true
}

func spread(value any, path string, into map[string][]any) {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			spread(v, join(path, key), into)
		}
	case []any:
		for _, v := range value {
			spread(v, path, into)
		}
	default:
		into[path] = append(into[path], value)
	}
}

// decodeNumbers decodes JSON, nothing after it, with its numbers as they are written.
func decodeNumbers[T any](text string) (into T, ok bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&into) != nil {
		return into, false
	}
	_, err := decoder.Token()
	return into, err == io.EOF
}
