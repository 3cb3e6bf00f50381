package watermillsqs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/components/fanin"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watermillsqs "github.com/watermill-contrib/watermill-sqs"
)

// What docs/compatibility.md says of Watermill's components, and that the page is true
// to the tests. Components that have dependencies of their own are tested in the module
// _components.

// start runs what runs a router, and returns how to end it.
func start(t *testing.T, run func(context.Context) error, running chan struct{}, end func() error) (stop func()) {
	t.Helper()
	ran := make(chan error, 1)
	go func() { ran <- run(context.WithoutCancel(t.Context())) }()
	<-running
	return func() {
		t.Helper()
		require.NoError(t, end())
		require.NoError(t, <-ran)
	}
}

// The forwarder's envelope carries any message, and its delay counts from when it was
// published first. What is no envelope is nacked, and ends in the dead-letter queue.
func TestForwarder(t *testing.T) {
	t.Parallel()
	realTime(t, func(t *testing.T, h *harness) {
		dead, orders := h.queue("dead", nil), h.queue("orders", nil)
		outbox := h.queue("outbox", map[string]string{"RedrivePolicy": redrivePolicy(dead, 3)})
		pub := h.publisher(watermillsqs.PublisherConfig{})
		enveloping := forwarder.NewPublisher(pub, forwarder.PublisherConfig{ForwarderTopic: "outbox"})

		later := message.NewMessage("later", []byte("x"))
		delay.Message(later, delay.For(10*time.Minute))
		sent := message.NewMessage("now", nil)
		for i := range 256 {
			sent.Payload = append(sent.Payload, byte(i))
		}
		for i := range 12 {
			sent.Metadata.Set(fmt.Sprint("key", i), fmt.Sprint(i))
		}
		require.NoError(t, enveloping.Publish("orders", later))
		require.NoError(t, pub.Publish("outbox", message.NewMessage("foreign", []byte("no envelope"))))
		require.NoError(t, enveloping.Publish("orders", sent))

		f, err := forwarder.NewForwarder(h.subscriber(watermillsqs.SubscriberConfig{MaxInFlight: 1}), pub, h.log,
			forwarder.Config{ForwarderTopic: "outbox"})
		require.NoError(t, err)
		stop := start(t, f.Run, f.Running(), f.Close)
		_, forwarded := h.subscribe(watermillsqs.SubscriberConfig{}, "orders")
		got := h.next(forwarded)
		assert.Equal(t, sent.UUID, got.UUID)
		assert.Equal(t, sent.Payload, got.Payload)
		assert.Equal(t, sent.Metadata, got.Metadata)
		got.Ack()
		_, refused := h.subscribe(watermillsqs.SubscriberConfig{}, "dead")
		msg := h.next(refused)
		assert.Equal(t, "foreign", msg.UUID)
		msg.Ack()
		stop()
		assert.Equal(t, 0, outbox.Len())
		assert.Equal(t, 1, orders.Delayed())
	})
}

// delay.Publisher's delays become DelaySeconds, up to 15 minutes; Close goes through.
func TestDelayPublisher(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		h.queue("in", nil)
		standard := 20 * time.Second
		pub, err := delay.NewPublisher(h.publisher(watermillsqs.PublisherConfig{}), delay.PublisherConfig{
			DefaultDelayGenerator: func(delay.DefaultDelayGeneratorParams) (delay.Delay, error) { return delay.For(standard), nil },
		})
		require.NoError(t, err)
		own := message.NewMessage("own", nil)
		own.SetContext(delay.WithContext(t.Context(), delay.For(5*time.Second)))
		require.NoError(t, pub.Publish("in", message.NewMessage("standard", nil), own))
		begin := time.Now()
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		for _, want := range []struct {
			uuid  string
			after time.Duration
		}{{"own", 5 * time.Second}, {"standard", standard}} {
			msg := h.next(messages)
			assert.Equal(t, want.uuid, msg.UUID)
			assert.Equal(t, want.after, time.Since(begin))
			assert.Empty(t, msg.Metadata)
			msg.Ack()
		}
		standard = 16 * time.Minute
		require.ErrorIs(t, pub.Publish("in", message.NewMessage("1", nil)), watermillsqs.ErrInvalidDelay)
		require.NoError(t, sub.Close()) // until then the publisher's Close waits
		require.NoError(t, pub.Close())
		require.ErrorIs(t, pub.Publish("in", message.NewMessage("1", nil)), watermillsqs.ErrClosed)
	})
}

// FanIn publishes the very messages that it consumes. They keep UUID and metadata, and
// the subscriber that its handlers share is closed by each of them.
func TestFanIn(t *testing.T) {
	t.Parallel()
	realTime(t, func(t *testing.T, h *harness) {
		sources := []string{"a", "b"}
		pub := h.publisher(watermillsqs.PublisherConfig{})
		h.queue("all", nil)
		for _, source := range sources {
			h.queue(source, nil)
			for i := range 3 {
				msg := message.NewMessage(fmt.Sprint(source, i), []byte(source))
				msg.Metadata.Set("from", source)
				require.NoError(t, pub.Publish(source, msg))
			}
		}
		_, all := h.subscribe(watermillsqs.SubscriberConfig{}, "all")
		f, err := fanin.NewFanIn(h.subscriber(watermillsqs.SubscriberConfig{}), h.publisher(watermillsqs.PublisherConfig{}),
			fanin.Config{SourceTopics: sources, TargetTopic: "all"}, h.log)
		require.NoError(t, err)
		stop := start(t, f.Run, f.Running(), f.Close)
		var uuids []string
		for range 6 {
			msg := h.next(all)
			assert.Equal(t, msg.UUID[:1], msg.Metadata.Get("from"))
			uuids = append(uuids, msg.UUID)
			msg.Ack()
		}
		stop()
		assert.ElementsMatch(t, []string{"a0", "a1", "a2", "b0", "b1", "b2"}, uuids)
		assert.Equal(t, 0, h.service.Queue("a").Len()+h.service.Queue("b").Len())
	})
}

// gochannel.FanOut acks on SQS what it has put into the process's memory: handled or
// not, and whether or not anybody is there to handle it.
func TestFanOutIsAtMostOnce(t *testing.T) {
	t.Parallel()
	for _, readers := range []int{0, 2} {
		realTime(t, func(t *testing.T, h *harness) {
			q := h.queue("in", nil)
			f, err := gochannel.NewFanOut(h.subscriber(watermillsqs.SubscriberConfig{}), h.log)
			require.NoError(t, err)
			f.AddSubscription("in")
			stop := start(t, f.Run, f.Running(), f.Close)
			var channels []<-chan *message.Message
			for range readers {
				messages, err := f.Subscribe(t.Context(), "in")
				require.NoError(t, err)
				channels = append(channels, messages)
			}
			h.publish("in", "a")
			for _, messages := range channels {
				assert.Equal(t, "a", string(h.next(messages).Payload)) // and is never acked
			}
			h.log.await("Message acked")
			stop()
			assert.Equal(t, 0, q.Len())
		})
	}
}

// A requeuer on SQS that nobody has checked: the publisher refuses what it sends, and
// the message stays where it is.
func TestRequeuerIsRefused(t *testing.T) {
	t.Parallel()
	realTime(t, func(t *testing.T, h *harness) {
		dead, orders := h.queue("dead", nil), h.queue("orders", nil)
		h.publish("dead", "a")
		router, err := message.NewRouter(message.RouterConfig{}, h.log)
		require.NoError(t, err)
		config := requeuer.Config{
			Subscriber: h.subscriber(fixedBackoff(time.Minute)), SubscribeTopic: "dead",
			Publisher:            h.publisher(watermillsqs.PublisherConfig{}),
			GeneratePublishTopic: func(requeuer.GeneratePublishTopicParams) (string, error) { return "orders", nil },
			Router:               router,
		}
		require.ErrorIs(t, watermillsqs.CheckRequeuer(config), watermillsqs.ErrRepublishRetry)
		r, err := requeuer.NewRequeuer(config, h.log)
		require.NoError(t, err)
		stop := start(t, r.Run, router.Running(), router.Close)
		h.log.await("Handler returned error")
		stop()
		assert.NotEmpty(t, h.log.matching(watermillsqs.ErrRepublishRetry.Error()))
		assert.Equal(t, []int32{60}, h.changes())
		assert.Equal(t, 1, dead.Len())
		assert.Equal(t, 0, orders.Len())
	})
}

// Where the guards end: a poison queue that a closure hides, on another transport, takes
// the message before SQS has counted to its limit.
func TestPoisonQueueOnAnotherTransport(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		dead := h.queue("dead", nil)
		q := h.queue("in", map[string]string{"RedrivePolicy": redrivePolicy(dead, 3)})
		h.publish("in", "a")
		_, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		elsewhere := &recordingPublisher{}
		poison, err := middleware.PoisonQueue(elsewhere, "poison")
		require.NoError(t, err)
		route(messages, nil, consumer(func(*message.Message) error { return errors.New("failed") }),
			func(h message.HandlerFunc) message.HandlerFunc { return poison(h) })
		pass(time.Minute)
		assert.Len(t, elsewhere.sent, 1)
		assert.Equal(t, 0, q.Len()+dead.Len())
	})
}

// Like metrics.SubscriberPrometheusMetricsDecorator, something waits for the verdict of
// every message. When a message is left unfinished the wait ends, too: in a bubble, a
// goroutine that is left behind fails the test.
func TestWaitersOfUnfinishedMessagesEnd(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		h.publish("in", "a")
		sub, messages := h.subscribe(watermillsqs.SubscriberConfig{}, "in")
		msg := h.next(messages) // never settled
		observed := make(chan string, 1)
		go func() {
			select {
			case <-msg.Acked():
				observed <- "acked"
			case <-msg.Nacked():
				observed <- "nacked"
			}
		}()
		require.NoError(t, sub.Close())
		synctest.Wait()
		require.Len(t, observed, 1)
		assert.Equal(t, "nacked", <-observed)
		assert.Equal(t, watermillsqs.Unfinished, h.settled()[0].Outcome)
		assert.Equal(t, 1, q.Len())
	})
}

// Transforms arrive. A decorated subscriber whose channel nobody reads does not close:
// its goroutine holds a message for a reader. SQS has the message back all the same.
func TestTransformDecorators(t *testing.T) {
	bubble(t, func(t *testing.T, h *harness) {
		q := h.queue("in", nil)
		set := func(key string) func(*message.Message) {
			return func(msg *message.Message) { msg.Metadata.Set(key, "x") }
		}
		pub, err := message.MessageTransformPublisherDecorator(set("published"))(h.publisher(watermillsqs.PublisherConfig{}))
		require.NoError(t, err)
		sub, err := message.MessageTransformSubscriberDecorator(set("received"))(h.subscriber(watermillsqs.SubscriberConfig{}))
		require.NoError(t, err)
		require.NoError(t, pub.Publish("in", message.NewMessage("1", []byte("a"))))
		messages, err := sub.Subscribe(t.Context(), "in")
		require.NoError(t, err)
		msg := h.next(messages)
		assert.Equal(t, message.Metadata{"published": "x", "received": "x"}, msg.Metadata)
		msg.Ack()
		synctest.Wait()
		assert.Equal(t, 0, q.Len())

		require.NoError(t, pub.Publish("in", message.NewMessage("2", []byte("b"))))
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- sub.Close() }()
		pass(time.Hour)
		assert.Empty(t, closed)
		assert.NotEmpty(t, h.log.matching("Subscription closed"), "ours has")
		assert.Equal(t, 1, q.Visible())
		<-messages
		require.NoError(t, <-closed)
	})
}

// The page.

// Every middleware and component of Watermill has its row; every row has one of the
// verdicts, and names tests that exist, here or in another module of the repository. One
// that says that a piece works has to. All are about one version of Watermill.
func TestCompatibilityPage(t *testing.T) {
	tests := map[string]bool{}
	versions := map[string]string{}
	version := regexp.MustCompile(`github\.com/ThreeDotsLabs/watermill (v\S+)`)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir // tools and their caches
		case strings.HasSuffix(path, "_test.go"):
			for _, f := range functionsOf(t, path) {
				tests[f.Name.Name] = tests[f.Name.Name] || f.Recv == nil
			}
		case entry.Name() == "go.mod":
			mod, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if match := version.FindSubmatch(mod); match != nil {
				versions[path] = string(match[1])
			}
		}
		return nil
	}))
	page, err := os.ReadFile("docs/compatibility.md")
	require.NoError(t, err)
	for path, version := range versions {
		assert.Contains(t, string(page), "component of Watermill "+version+",", path)
	}
	verdicts := map[string]bool{"works": true, "works, with care": true, "danger": true, "refused": true, "not tested": true}
	testName := regexp.MustCompile(`\bTest\w+`)
	var pieces []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		require.Len(t, cells, 5, line)
		piece, verdict := strings.TrimPrefix(cells[0], "| "), cells[1]
		pieces = append(pieces, piece)
		assert.True(t, verdicts[verdict], "%s has the verdict %q", piece, verdict)
		named := testName.FindAllString(cells[4], -1)
		for _, name := range named {
			assert.True(t, tests[name], "%s names %s, which does not exist", piece, name)
		}
		assert.Equal(t, verdict == "not tested", len(named) == 0, piece)
	}
	all := strings.Join(pieces, " ")
	for _, piece := range watermillPieces(t) {
		assert.Contains(t, all, "`"+piece, "the page lacks a row")
	}
}

func functionsOf(t *testing.T, path string) (functions []*ast.FuncDecl) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			functions = append(functions, f)
		}
	}
	return functions
}

// watermillPieces are the middlewares of the version of Watermill in go.mod (types with
// a method Middleware, and functions that return a handler, or middleware), and the
// packages of its components.
func watermillPieces(t *testing.T) (pieces []string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/ThreeDotsLabs/watermill/message/router/middleware").Output()
	require.NoError(t, err)
	dir := strings.TrimSpace(string(out))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, f := range functionsOf(t, path) {
			name := f.Name.Name
			if f.Recv != nil && name == "Middleware" {
				name = strings.TrimPrefix(string(source[f.Recv.List[0].Type.Pos()-1:f.Recv.List[0].Type.End()-1]), "*")
			} else if f.Recv != nil || f.Type.Results == nil || !bytes.Contains(source[f.Type.Results.Pos()-1:f.Type.Results.End()-1], []byte("Handler")) {
				continue
			}
			if ast.IsExported(name) {
				pieces = append(pieces, "middleware."+name)
			}
		}
	}
	require.Len(t, pieces, 15)
	components, err := os.ReadDir(filepath.Join(dir, "..", "..", "..", "components"))
	require.NoError(t, err)
	for _, component := range components {
		pieces = append(pieces, component.Name()+".")
	}
	return pieces
}
