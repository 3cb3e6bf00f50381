package sqstest

import (
	"encoding/base64"
	"strconv"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. It expects valid UTF-8, which everything
// that came out of a JSON decoder is.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// object appends the members of a JSON object one after the other.
type object struct {
	b    []byte
	some bool
}

func newObject(b []byte) object { return object{b: append(b, '{')} }

// key appends the name of a member, which must need no escaping; the value follows.
func (o *object) key(name string) {
	if o.some {
		o.b = append(o.b, ',')
	}
	o.some = true
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) text(name, value string) {
	o.key(name)
	o.b = appendString(o.b, value)
}

// textIf appends a member unless its value is empty.
func (o *object) textIf(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) flag(name string, value bool) {
	o.key(name)
	o.b = strconv.AppendBool(o.b, value)
}

func (o *object) blob(name string, value []byte) {
	o.key(name)
	o.b = append(o.b, '"')
	o.b = base64.StdEncoding.AppendEncode(o.b, value)
	o.b = append(o.b, '"')
}

func (o *object) end() []byte { return append(o.b, '}') }
