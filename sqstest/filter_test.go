package sqstest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/stretchr/testify/require"
)

func TestFilterOnAttributes(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	sub := s.subscribe(s.queue, raw1)
	attributes := map[string]snstypes.MessageAttributeValue{
		"kind": snsText("String", "order-placed"), "price": snsText("Number", "100.50"), "ip": snsText("String", "10.1.2.3"),
		"tags": snsText("String.Array", `["red",7,true,null]`), "bin": {DataType: aws.String("Binary"), BinaryValue: []byte("x")},
	}
	for policy, want := range map[string]bool{
		`{}`:                                                            true,
		`{"kind":["order-placed"]}`:                                     true,
		`{"kind":["x","order-placed"]}`:                                 true,
		`{"kind":["order"]}`:                                            false,
		`{"absent":["x"]}`:                                              false,
		`{"kind":["order-placed"],"price":[1]}`:                         false,
		`{"price":[100.5]}`:                                             true,
		`{"kind":[{"prefix":"order-"}]}`:                                true,
		`{"kind":[{"prefix":"x"},"y"]}`:                                 false,
		`{"kind":[{"suffix":"placed"}]}`:                                true,
		`{"kind":[{"suffix":"x"}]}`:                                     false,
		`{"kind":[{"equals-ignore-case":"ORDER-Placed"}]}`:              true,
		`{"kind":[{"anything-but":"x"}]}`:                               true,
		`{"kind":[{"anything-but":["x","order-placed"]}]}`:              false,
		`{"kind":[{"anything-but":{"prefix":"order"}}]}`:                false,
		`{"kind":[{"anything-but":{"prefix":"x"}}]}`:                    true,
		`{"price":[{"anything-but":[100]}]}`:                            true,
		`{"price":[{"anything-but":100.5}]}`:                            false,
		`{"absent":[{"anything-but":"x"}]}`:                             false,
		`{"price":[{"numeric":["=",100.5]}]}`:                           true,
		`{"price":[{"numeric":[">",100,"<=",100.5]}]}`:                  true,
		`{"price":[{"numeric":[">=",101]}]}`:                            false,
		`{"price":[{"numeric":["<",100.5]}]}`:                           false,
		`{"price":[{"numeric":[">",0,"<",100]}]}`:                       false,
		`{"kind":[{"numeric":["=",1]}]}`:                                false,
		`{"kind":[{"exists":true}]}`:                                    true,
		`{"kind":[{"exists":false}]}`:                                   false,
		`{"absent":[{"exists":false}]}`:                                 true,
		`{"absent":[{"exists":true}]}`:                                  false,
		`{"bin":[{"exists":true}]}`:                                     false,
		`{"ip":[{"cidr":"10.0.0.0/8"}]}`:                                true,
		`{"ip":[{"cidr":"11.0.0.0/8"}]}`:                                false,
		`{"tags":["red"]}`:                                              true,
		`{"tags":[7]}`:                                                  true,
		`{"tags":[true]}`:                                               true,
		`{"tags":[null]}`:                                               true,
		`{"tags":["7"]}`:                                                false,
		`{"$or":[{"kind":["x"]},{"price":[{"numeric":[">",1]}]}]}`:      true,
		`{"$or":[{"kind":["x"]},{"price":[1]}]}`:                        false,
		`{"$or":[{"kind":["x"]},{"price":[100.5]}],"absent":["x"]}`:     false,
		`{"$or":[{"kind":["x"]},{"$or":[{"price":[1]},{"tags":[7]}]}]}`: true,
	} {
		t.Run(policy, func(t *testing.T) {
			_, err := s.sns.SetSubscriptionAttributes(t.Context(), &sns.SetSubscriptionAttributesInput{SubscriptionArn: &sub, AttributeName: aws.String("FilterPolicy"), AttributeValue: &policy})
			require.NoError(t, err)
			before := s.queue.Len()
			s.publish("x", attributes)
			require.Equal(t, want, s.queue.Len() > before)
		})
	}
	require.Empty(t, s.topic.Discards(), "a filtered message is not discarded")
}

func TestFilterOnBody(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	sub := s.subscribe(s.queue, map[string]string{"RawMessageDelivery": "true", "FilterPolicyScope": "MessageBody"})
	const body = `{"kind":"order","price":12.5,"ok":true,"none":null,"at":{"city":"Oslo","tags":["a","b"]},"items":[{"sku":1},{"sku":2,"size":"L"}],"empty":[],"a.b":"dotted"}`
	for policy, want := range map[string]bool{
		`{"kind":["order"]}`:                                         true,
		`{"kind":["x"]}`:                                             false,
		`{"price":[{"numeric":[">",12,"<",13]}]}`:                    true,
		`{"ok":[true]}`:                                              true,
		`{"ok":["true"]}`:                                            false,
		`{"none":[null]}`:                                            true,
		`{"none":[{"exists":true}]}`:                                 true,
		`{"none":[{"anything-but":"x"}]}`:                            false,
		`{"at":{"city":["Oslo"]}}`:                                   true,
		`{"at":{"city":["Rome"]}}`:                                   false,
		`{"at":{"tags":["b"]}}`:                                      true,
		`{"at":{"city":["Oslo"],"tags":["c"]}}`:                      false,
		`{"at.city":["Oslo"]}`:                                       true,
		`{"a":{"b":["dotted"]}}`:                                     true,
		`{"items":{"sku":[2]}}`:                                      true,
		`{"items":{"size":[{"exists":true}]}}`:                       true,
		`{"items":{"color":[{"exists":false}]}}`:                     true,
		`{"empty":[{"exists":false}]}`:                               true,
		`{"$or":[{"kind":["x"]},{"at":{"city":[{"prefix":"Os"}]}}]}`: true,
		`{"at":{"$or":[{"city":["x"]},{"tags":["a"]}]}}`:             true,
	} {
		t.Run(policy, func(t *testing.T) {
			_, err := s.sns.SetSubscriptionAttributes(t.Context(), &sns.SetSubscriptionAttributesInput{SubscriptionArn: &sub, AttributeName: aws.String("FilterPolicy"), AttributeValue: &policy})
			require.NoError(t, err)
			before := s.queue.Len()
			s.publish(body, nil)
			require.Equal(t, want, s.queue.Len() > before)
			before = s.queue.Len()
			for _, other := range []string{"not JSON", "7", "[]", "null", body + "x"} {
				s.publish(other, nil)
			}
			require.Equal(t, before, s.queue.Len(), "only JSON objects get through a filter")
		})
	}
}

func TestFilterPolicyRules(t *testing.T) {
	t.Parallel()
	s := newSNS(t)
	values := func(n int) string { return strings.Trim(strings.Repeat(`"v",`, n), ",") }
	const flat, body = "MessageAttributes", "MessageBody"
	for policy, c := range map[string]struct{ scope, text string }{
		`x`:                                 {flat, "FilterPolicy: failed to parse JSON."},
		`{} {}`:                             {flat, "FilterPolicy: failed to parse JSON."},
		`{"key":[["value"]]}`:               {flat, "FilterPolicy: Match value must be String, number, true, false, or null"},
		`{"key":[{"wrong-operator":true}]}`: {flat, "FilterPolicy: Unrecognized match type wrong-operator"},
		`{"key":[{"suffix":"value","prefix":"value2"}]}`: {flat, "FilterPolicy: Only one key allowed in match expression"},
		`{"key":[]}`:                                                          {flat, "FilterPolicy: Empty arrays are not allowed"},
		`{"key":[{"suffix":100}]}`:                                            {flat, "FilterPolicy: suffix match pattern must be a string"},
		`{"key":[{"suffix":null}]}`:                                           {flat, "FilterPolicy: suffix match pattern must be a string"},
		`{"key":[{"cidr":["bad"]}]}`:                                          {flat, "FilterPolicy: prefix match pattern must be a string"},
		`{"key":[{"cidr":"bad"}]}`:                                            {flat, "FilterPolicy: Malformed CIDR"},
		`{"key":{"suffix":"value"}}`:                                          {flat, `FilterPolicy: "suffix" must be an object or an array`},
		`{"key":"value"}`:                                                     {body, `FilterPolicy: "key" must be an object or an array`},
		`{"key":{"inner":["value"]}}`:                                         {flat, "Filter policy scope MessageAttributes does not support nested filter policy"},
		`{"key":[{"numeric":[]}]}`:                                            {flat, "FilterPolicy: Invalid member in numeric match: ]"},
		`{"key":[{"numeric":["operator"]}]}`:                                  {flat, "FilterPolicy: Unrecognized numeric range operator: operator"},
		`{"key":[{"numeric":[1,"<="]}]}`:                                      {flat, "FilterPolicy: Invalid member in numeric match: 1"},
		`{"key":[{"numeric":["=","000"]}]}`:                                   {flat, "FilterPolicy: Value of equals must be numeric"},
		`{"key":[{"numeric":[">="]}]}`:                                        {flat, "FilterPolicy: Value of >= must be numeric"},
		`{"key":[{"numeric":["<",100,">",10]}]}`:                              {flat, "FilterPolicy: Too many elements in numeric expression"},
		`{"key":[{"numeric":[">=",1,">",2]}]}`:                                {flat, "FilterPolicy: Bad numeric range operator: >"},
		`{"key":[{"numeric":[">",3,"<",1]}]}`:                                 {flat, "FilterPolicy: Bottom must be less than top"},
		`{"key":[{"numeric":[">",20,"<="]}]}`:                                 {flat, "FilterPolicy: Value of <= must be numeric"},
		`{"key":[{"numeric":[">",20,30]}]}`:                                   {flat, "FilterPolicy: Bad value in numeric range: 30"},
		`{"key":[{"numeric":[">",20,"test"]}]}`:                               {flat, "FilterPolicy: Bad numeric range operator: test"},
		`{"key":[{"numeric":[">",20,"<",30,"<",50]}]}`:                        {flat, "FilterPolicy: Too many terms in numeric range expression"},
		`{"key":[{"numeric":1}]}`:                                             {flat, "FilterPolicy: Value of numeric must be an array."},
		`{"key":[{"exists":"no"}]}`:                                           {flat, "FilterPolicy: exists match pattern must be either true or false."},
		`{"key":[{"anything-but":{"suffix":"t"}}]}`:                           {flat, "FilterPolicy: Unsupported anything-but pattern: suffix"},
		`{"key":[{"anything-but":{"prefix":false}}]}`:                         {flat, "FilterPolicy: prefix match pattern must be a string"},
		`{"key":[{"anything-but":{}}]}`:                                       {flat, "FilterPolicy: Only one key allowed in match expression"},
		`{"key":[{"anything-but":[]}]}`:                                       {flat, "FilterPolicy: Empty arrays"},
		`{"key":[{"anything-but":[null]}]}`:                                   {flat, "FilterPolicy: Inside anything but list"},
		`{"key":[{"anything-but":true}]}`:                                     {flat, "FilterPolicy: Value of anything-but must be"},
		`{"key":[` + values(151) + `]}`:                                       {flat, "FilterPolicy: Filter policy is too complex"},
		`{"a":[` + values(100) + `],"b":[` + values(51) + `]}`:                {flat, "FilterPolicy: Filter policy is too complex"},
		`{"a":{"b":{"c":[` + values(4) + `]}},"d":{"e":[` + values(7) + `]}}`: {body, "FilterPolicy: Filter policy is too complex"},
		`{"1":["v"],"2":["v"],"3":["v"],"4":["v"],"5":["v"],"6":["v"]}`:       {flat, "FilterPolicy: Filter policy can not have more than 5 keys"},
		`{"source":["1","2","3","4"],"$or":[{"name":["1","2","3","4","5","6"]},{"type":["1","2","3","4"],"$or":[{"id":[1,2,3,4]},{"space":[1,2,3,4]}]}]}`: {flat, "FilterPolicy: Filter policy is too complex"},
		`{"$or":"x"}`:           {flat, `FilterPolicy: "$or" must be an object or an array`},
		`{"$or":[{"a":["x"]}]}`: {flat, "FilterPolicy: Unrecognized match type a"},
	} {
		t.Run(policy, func(t *testing.T) {
			_, err := s.trySubscribe(s.queue, map[string]string{"FilterPolicy": policy, "FilterPolicyScope": c.scope})
			requireCode(t, err, 400, "InvalidParameter")
			require.ErrorContains(t, err, "Invalid parameter: Attributes Reason: "+c.text)
		})
	}
	sub := s.subscribe(s.queue, map[string]string{"FilterPolicy": `{"a":{"b":{"c":[` + values(4) + `]}},"d":{"e":[` + values(6) + `]}}`, "FilterPolicyScope": "MessageBody"})
	s.subscribe(s.queue, map[string]string{"FilterPolicy": `{"d": {"e":[` + values(6) + `]}, "a":{"b":{"c":[` + values(4) + `]}}}`, "FilterPolicyScope": "MessageBody"}) // the same in other words
	set := func(name, value string) error {
		_, err := s.sns.SetSubscriptionAttributes(t.Context(), &sns.SetSubscriptionAttributesInput{SubscriptionArn: &sub, AttributeName: &name, AttributeValue: &value})
		return err
	}
	requireText(t, set("FilterPolicyScope", "MessageAttributes"), "Invalid parameter: Filter policy scope MessageAttributes does not support nested filter policy")
	require.ErrorContains(t, set("FilterPolicy", "{invalid"), "Invalid parameter: FilterPolicy: failed to parse JSON.")
	require.NoError(t, set("FilterPolicy", ""))
	require.NoError(t, set("FilterPolicyScope", "MessageAttributes"))
	require.ErrorContains(t, set("FilterPolicy", `{"a":[`+fmt.Sprintf("%q", strings.Repeat("x", 256<<10))+`]}`), "too large")
}
