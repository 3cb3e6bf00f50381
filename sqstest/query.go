package sqstest

import (
	"encoding/base64"
	"encoding/xml"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// The query protocol of SNS: requests are forms whose names have dots where there are
// members, answers are XML (sqs-facts 1).
const (
	formType     = "application/x-www-form-urlencoded"
	xmlType      = "text/xml"
	snsNamespace = "http://sns.amazonaws.com/doc/2010-03-31/"
	snsVersion   = "2010-03-31"
	maxFormDepth = 16
)

func isForm(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == formType
}

// form is a value of a request, or the members of one.
type form struct {
	value   *string
	members map[string]*form
}

// parseForm reads the body of a request. A name whose parts are too many is left out, as
// nothing asks for it.
func parseForm(body []byte) (*form, *apiError) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, snsErrorf("MalformedQueryString", "The request could not be decoded: %v", err)
	}
	root := &form{}
	for name, all := range values {
		parts := strings.Split(name, ".")
		if len(parts) > maxFormDepth {
			continue
		}
		at := root
		for _, part := range parts {
			if at.members == nil {
				at.members = make(map[string]*form)
			}
			next := at.members[part]
			if next == nil {
				next = &form{}
				at.members[part] = next
			}
			at = next
		}
		value := strings.ToValidUTF8(all[0], "\ufffd")
		at.value = &value
	}
	return root, nil
}

func (f *form) member(name string) *form {
	if f == nil {
		return nil
	}
	return f.members[name]
}

// text is a member's value, "" if it has none.
func (f *form) text(name string) string {
	if v := f.optional(name); v != nil {
		return *v
	}
	return ""
}

// optional is a member's value, nil if it has none.
func (f *form) optional(name string) *string {
	if m := f.member(name); m != nil {
		return m.value
	}
	return nil
}

// list is a member that is a list, whose elements are called member.1 and so on or, in
// maps, entry.1. It ends where a number is missing.
func (f *form) list(name, element string) []*form {
	elements := f.member(name).member(element)
	var all []*form
	for elements != nil {
		next := elements.members[strconv.Itoa(len(all)+1)]
		if next == nil {
			break
		}
		all = append(all, next)
	}
	return all
}

// texts is a map of texts. The later of two equal keys counts.
func (f *form) texts(name, key, value string) map[string]string {
	m := make(map[string]string)
	for _, e := range f.list(name, "entry") {
		m[e.text(key)] = e.text(value)
	}
	return m
}

// attributes is a map of message attributes.
func (f *form) attributes(name string) (map[string]wireAttribute, *apiError) {
	m := make(map[string]wireAttribute)
	for _, e := range f.list(name, "entry") {
		value := e.member("Value")
		a := wireAttribute{DataType: value.text("DataType"), StringValue: value.optional("StringValue")}
		if encoded := value.optional("BinaryValue"); encoded != nil {
			b, err := base64.StdEncoding.DecodeString(*encoded)
			if err != nil {
				return nil, snsErrorf("MalformedQueryString", "The binary value of message attribute '%s' is not base64.", e.text("Name"))
			}
			a.BinaryValue = b
		}
		m[e.text("Name")] = a
	}
	return m, nil
}

// tags is a list of tags; a repeated key is refused.
func (f *form) tags() (map[string]string, *apiError) {
	tags := make(map[string]string)
	for _, e := range f.list("Tags", "member") {
		key := e.text("Key")
		if _, twice := tags[key]; twice {
			return nil, invalidParameter("Duplicated keys are not allowed.")
		}
		tags[key] = e.text("Value")
	}
	return tags, nil
}

// element appends XML elements one after the other.
type element struct{ b strings.Builder }

func (x *element) text(name, value string) {
	x.open(name)
	_ = xml.EscapeText(&x.b, []byte(value)) // writing to a Builder does not fail
	x.close(name)
}

func (x *element) open(name string) {
	x.b.WriteByte('<')
	x.b.WriteString(name)
	x.b.WriteByte('>')
}

func (x *element) close(name string) {
	x.b.WriteString("</")
	x.b.WriteString(name)
	x.b.WriteByte('>')
}

// entries appends a map of texts in the order of its keys.
func (x *element) entries(name string, m map[string]string) {
	x.open(name)
	for _, key := range sortedKeys(m) {
		x.open("entry")
		x.text("key", key)
		x.text("value", m[key])
		x.close("entry")
	}
	x.close(name)
}

func (x *element) bytes() []byte { return []byte(x.b.String()) }

// queryAnswer wraps the result of an action.
func queryAnswer(action string, result []byte) answer {
	var x element
	x.b.WriteString(`<` + action + `Response xmlns="` + snsNamespace + `">`)
	x.open(action + "Result")
	x.b.Write(result)
	x.close(action + "Result")
	x.open("ResponseMetadata")
	x.text("RequestId", newUUID())
	x.close("ResponseMetadata")
	x.close(action + "Response")
	return answer{status: http.StatusOK, contentType: xmlType, body: x.bytes()}
}

// queryRefusal is an error as the query protocol answers it.
func queryRefusal(err *apiError) answer {
	kind := "Sender"
	if err.receiver {
		kind = "Receiver"
	}
	var x element
	x.b.WriteString(`<ErrorResponse xmlns="` + snsNamespace + `">`)
	x.open("Error")
	x.text("Type", kind)
	x.text("Code", err.code)
	x.text("Message", err.message)
	x.close("Error")
	x.text("RequestId", newUUID())
	x.close("ErrorResponse")
	return answer{status: err.status, contentType: xmlType, body: x.bytes()}
}
