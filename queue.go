package watermillsqs

import (
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
)

const (
	maxWait       = 20 * time.Second
	maxBatch      = 10
	minVisibility = time.Second
	maxVisibility = 12 * time.Hour
	maxQueueName  = 80
	maxReceives   = 1000
	fifoSuffix    = ".fifo"
)

// Queue describes how a subscriber uses a queue, and how the queue is made where
// it is missing.
//
// A value that SQS would refuse is an error that wraps [ErrInvalidQueue], names
// the queue, the field, the value and the range, and is returned by
// [NewSubscriber], before any call.
type Queue struct {
	// Wait is how long a receive waits for a message to arrive (WaitTimeSeconds
	// of ReceiveMessage). Whole seconds, 1 s to 20 s. Default: 20 s, which costs
	// three calls a minute while the queue is empty.
	Wait time.Duration

	// BatchSize is the largest number of messages that one receive asks for
	// (MaxNumberOfMessages), 1 to 10. Default: 10.
	BatchSize int

	// Visibility is the time for which a received message is invisible to other
	// consumers unless it is extended, which it is while its handler runs. It is
	// sent with every receive. Whole seconds, 1 s to 12 h. Default: the queue's
	// own visibility timeout, read once when the subscription opens
	// (GetQueueAttributes).
	Visibility time.Duration

	// CreateIfMissing creates the queue when the subscription opens and
	// GetQueueUrl says that there is none (CreateQueue). Default: false, a missing
	// queue is an error.
	CreateIfMissing bool

	// MaxAttempts is how often a message is delivered before SQS moves it to
	// DeadLetter, 1 to 1000: the maxReceiveCount of the queue's redrive policy.
	// Every receive counts, expired leases and other consumers' included, and with 1
	// a single lost answer moves a message, which is warned about. The policy is
	// written when the subscription opens (SetQueueAttributes), unless an equal one
	// is there. Together with DeadLetter, or not at all ([ErrIncompleteRedrive]).
	// Default: 0, the queue's own policy stays as it is.
	MaxAttempts int

	// DeadLetter is the queue, by name, URL or ARN, that takes what has been
	// delivered MaxAttempts times. Where CreateIfMissing is set it is created, too,
	// and keeps its messages for 14 days.
	DeadLetter string

	// Attributes are the attributes with which the queue is created, by their
	// names in the SQS API. A queue that exists is not changed. Where
	// VisibilityTimeout is absent and Visibility is set, Visibility is used.
	Attributes map[string]string

	// Tags are the tags with which the queue is created.
	Tags map[string]string
}

func (q Queue) withDefaults() Queue {
	if q.Wait == 0 {
		q.Wait = maxWait
	}
	if q.BatchSize == 0 {
		q.BatchSize = maxBatch
	}
	return q
}

// validate checks a descriptor with its defaults applied.
func (q Queue) validate(name string) error {
	check := func(ok bool, field string, value any, rule string) error {
		if ok {
			return nil
		}
		return fmt.Errorf("%w: %s: %s is %v, must be %s", ErrInvalidQueue, name, field, value, rule)
	}
	if (q.MaxAttempts != 0) != (q.DeadLetter != "") {
		return fmt.Errorf("%w: %s: MaxAttempts is %d and DeadLetter is %q, must both be set or neither", ErrIncompleteRedrive, name, q.MaxAttempts, q.DeadLetter)
	}
	for _, err := range []error{
		check(q.MaxAttempts >= 0 && q.MaxAttempts <= maxReceives, "MaxAttempts", q.MaxAttempts, "1 to 1000"),
		check(q.MaxAttempts == 0 || q.Attributes["RedrivePolicy"] == "", `Attributes["RedrivePolicy"]`, q.Attributes["RedrivePolicy"],
			"absent where MaxAttempts and DeadLetter say it"),
		check(q.Wait >= time.Second && q.Wait <= maxWait, "Wait", q.Wait, "1s to 20s (0 is the default, 20s)"),
		check(q.Wait%time.Second == 0, "Wait", q.Wait, "whole seconds"),
		check(q.BatchSize >= 1 && q.BatchSize <= maxBatch, "BatchSize", q.BatchSize, "1 to 10 (0 is the default, 10)"),
		check(q.Visibility == 0 || q.Visibility >= minVisibility && q.Visibility <= maxVisibility, "Visibility", q.Visibility,
			"1s to 12h (0 is the queue's own)"),
		check(q.Visibility%time.Second == 0, "Visibility", q.Visibility, "whole seconds"),
		check(q.Visibility > 0 || q.Attributes["VisibilityTimeout"] != "0", `Attributes["VisibilityTimeout"]`, 0,
			"1 to 43200 unless Visibility is set: every received message would be received again at once"),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// creationAttributes are the attributes for CreateQueue.
func (q Queue) creationAttributes() map[string]string {
	attributes := make(map[string]string, len(q.Attributes)+1)
	maps.Copy(attributes, q.Attributes)
	if _, set := attributes["VisibilityTimeout"]; !set && q.Visibility > 0 {
		attributes["VisibilityTimeout"] = strconv.Itoa(int(q.Visibility / time.Second))
	}
	return attributes
}

// DefaultQueueName maps a Watermill topic onto a legal queue name: each character
// outside [A-Za-z0-9_-] becomes "-", and a ".fifo" suffix stays. It does not
// check the length. It is what publishers and subscribers use unless their
// QueueName says otherwise, and it is exported for functions that add to it:
//
//	QueueName: func(topic string) string { return "staging-" + watermillsqs.DefaultQueueName(topic) }
func DefaultQueueName(topic string) string {
	base, fifo := strings.CutSuffix(topic, fifoSuffix)
	name := strings.Map(func(r rune) rune {
		if isQueueNameRune(r) {
			return r
		}
		return '-'
	}, base)
	if fifo {
		name += fifoSuffix
	}
	return name
}

func isQueueNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// queueID is what a topic names: a queue by its name (and owner), or by its URL.
type queueID struct {
	topic   string
	name    string
	account string // "" is the caller's own
	url     string // "" if it has to be looked up
	mapped  bool   // the default mapping was used for the name
}

// parseTopic finds out which queue a topic names: an http(s) URL is used as it is,
// an ARN is looked up by its name and owner, anything else is a name that is
// mapped onto a legal one. It refuses what can never be a queue.
func parseTopic(topic, region string, queueName func(string) string) (queueID, error) {
	invalid := func(format string, args ...any) (queueID, error) {
		return queueID{}, fmt.Errorf("%w: topic %q: %s", ErrInvalidQueue, topic, fmt.Sprintf(format, args...))
	}
	id := queueID{topic: topic}
	switch {
	case strings.HasPrefix(topic, "https://"), strings.HasPrefix(topic, "http://"):
		u, err := url.Parse(topic)
		if err != nil {
			return invalid("not a URL: %v", err)
		}
		account, name, found := strings.Cut(strings.Trim(u.Path, "/"), "/")
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			account, name = account+"/"+name[:i], name[i+1:]
			account = account[strings.LastIndexByte(account, '/')+1:]
		}
		if u.Host == "" || !found {
			return invalid("a queue URL has the form https://HOST/ACCOUNT/NAME")
		}
		id.account, id.name, id.url = account, name, topic
	case strings.HasPrefix(topic, "arn:"):
		parsed, err := arn.Parse(topic)
		if err != nil {
			return invalid("not an ARN: %v", err)
		}
		if parsed.Service != "sqs" {
			return invalid("the ARN is of service %q, must be sqs", parsed.Service)
		}
		if parsed.Region != region {
			return invalid("the ARN is of region %q, the connection is in %q: a client sees only the queues of its own region", parsed.Region, region)
		}
		id.account, id.name = parsed.AccountID, parsed.Resource
	case topic == "":
		return invalid("empty")
	case queueName != nil:
		id.name = queueName(topic)
	default:
		id.name, id.mapped = DefaultQueueName(topic), true
	}

	base := strings.TrimSuffix(id.name, fifoSuffix)
	switch {
	case base == "":
		return invalid("queue name %q is empty", id.name)
	case strings.ContainsFunc(base, func(r rune) bool { return !isQueueNameRune(r) }):
		return invalid("queue name %q may have only characters of [A-Za-z0-9_-] before an optional .fifo", id.name)
	case len(id.name) > maxQueueName:
		return invalid("queue name %q has %d characters, at most %d are allowed", id.name, len(id.name), maxQueueName)
	}
	return id, nil
}

// isFIFO reports whether the queue keeps the order of its message groups, which its
// name says.
func (id queueID) isFIFO() bool { return strings.HasSuffix(id.name, fifoSuffix) }

// key identifies the queue in the cache.
func (id queueID) key() string {
	if id.url != "" {
		return id.url
	}
	if id.account == "" {
		return id.name // a URL has a slash
	}
	return id.account + "/" + id.name
}

// rebase moves a queue URL that the service returned onto a configured endpoint: a
// local server often answers with a host name of its own that is not reachable.
func rebase(queueURL string, endpoint *url.URL) string {
	if endpoint == nil {
		return queueURL
	}
	u, err := url.Parse(queueURL)
	if err != nil || u.Host == "" {
		return queueURL
	}
	u.Scheme, u.Host = endpoint.Scheme, endpoint.Host
	return u.String()
}
