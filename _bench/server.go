package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/watermill-contrib/watermill-sqs/sqstest"
)

// controlPath is where the server is steered, beside the API and past it.
const controlPath = "/_bench/"

// server is sqstest on a loopback port, in a process of its own. It counts every call
// and holds each up for delay, as a network would.
type server struct {
	service *sqstest.Service
	delay   atomic.Int64

	mu     sync.Mutex // guards what follows
	counts map[string]int
	cpu    time.Duration // of this process when the counters were reset
	since  time.Time
	queues []string // URLs, of the last two runs
}

// serverStats is what the server did since the last reset.
type serverStats struct {
	Calls map[string]int
	CPU   time.Duration
	Wall  time.Duration
	Left  int // messages in the queue that was asked for
}

// resetRequest makes a queue with messages in it and zeroes the counters.
type resetRequest struct {
	Queue    string
	Messages int
	Groups   int // of a FIFO queue
	Delay    time.Duration
}

// runServer serves until stdin is closed, which the end of the parent does too. The
// endpoint is its first line of output.
func runServer() error {
	s := &server{service: sqstest.Start(), counts: make(map[string]int), since: time.Now()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+controlPath+"reset", s.reset)
	mux.HandleFunc("POST "+controlPath+"stats", s.stats)
	mux.HandleFunc("/", s.serve)
	go http.Serve(listener, mux) //nolint:gosec // ends with the process
	fmt.Printf("http://%s\n", listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serve is the API.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	action := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	s.mu.Lock()
	s.counts[action]++
	s.mu.Unlock()
	if delay := time.Duration(s.delay.Load()); delay > 0 {
		time.Sleep(delay)
	}
	s.service.ServeHTTP(w, r)
}

func (s *server) reset(w http.ResponseWriter, r *http.Request) {
	var ask resetRequest
	err := json.NewDecoder(r.Body).Decode(&ask)
	if err == nil {
		err = s.seed(ask)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.delay.Store(int64(ask.Delay))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = make(map[string]int)
	s.cpu, s.since = processCPU(), time.Now()
}

func (s *server) stats(w http.ResponseWriter, r *http.Request) {
	cpu := processCPU()
	s.mu.Lock()
	answer := serverStats{Calls: s.counts, CPU: cpu - s.cpu, Wall: time.Since(s.since)}
	s.mu.Unlock()
	if q := s.service.Queue(r.FormValue("queue")); q != nil {
		answer.Left = q.Len()
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// seed makes a queue and sends to it in process, without the SDK and uncounted. The
// queue before the last, to which nobody is subscribed any more, is deleted, and what
// the service remembers of it.
func (s *server) seed(ask resetRequest) error {
	attributes := map[string]string{"VisibilityTimeout": "300"}
	fifo := strings.HasSuffix(ask.Queue, ".fifo")
	if fifo {
		attributes["FifoQueue"] = "true"
	}
	queue, err := s.service.CreateQueue(ask.Queue, attributes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.queues = append(s.queues, queue.URL())
	old := s.queues[:max(0, len(s.queues)-2)]
	s.queues = s.queues[len(old):]
	s.mu.Unlock()
	for _, url := range old {
		if err := s.call("DeleteQueue", map[string]any{"QueueUrl": url}); err != nil {
			return err
		}
	}
	for from := 0; from < ask.Messages; from += batchSize {
		entries := make([]map[string]any, 0, batchSize)
		for i := from; i < min(from+batchSize, ask.Messages); i++ {
			m := newPayload(i)
			texts := map[string]any{"_watermill_message_uuid": stringAttribute(m.uuid)}
			for key, value := range m.metadata {
				texts[key] = stringAttribute(value)
			}
			entry := map[string]any{"Id": strconv.Itoa(i % batchSize), "MessageBody": m.body, "MessageAttributes": texts}
			if fifo {
				entry["MessageGroupId"] = strconv.Itoa(i % ask.Groups)
				entry["MessageDeduplicationId"] = strconv.Itoa(i)
			}
			entries = append(entries, entry)
		}
		if err := s.call("SendMessageBatch", map[string]any{"QueueUrl": queue.URL(), "Entries": entries}); err != nil {
			return err
		}
	}
	s.service.ResetCalls()
	return nil
}

func stringAttribute(value string) map[string]string {
	return map[string]string{"DataType": "String", "StringValue": value}
}

func (s *server) call(action string, request any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	w := httptest.NewRecorder()
	s.service.ServeHTTP(w, r)
	if w.Code != http.StatusOK || bytes.Contains(w.Body.Bytes(), []byte(`"SenderFault"`)) {
		return fmt.Errorf("%s: status %d: %s", action, w.Code, w.Body)
	}
	return nil
}

// control is the other end of a server's control path.
type control struct{ endpoint string }

func (c control) reset(ask resetRequest) error { return c.post("reset", ask, nil) }

func (c control) stats(queue string) (answer serverStats, err error) {
	err = c.post("stats?queue="+queue, nil, &answer)
	return answer, err
}

func (c control) post(what string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	response, err := http.Post(c.endpoint+controlPath+what, "application/json", bytes.NewReader(body)) //nolint:gosec,noctx // loopback
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("server: %s: %s", what, text)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// startServer runs this program again as a server, on so many processors.
func startServer(ctx context.Context, procs int) (endpoint string, stop func(), err error) {
	command, err := again(ctx, procs, "server")
	if err != nil {
		return "", nil, err
	}
	input, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = input.Close()
		_ = command.Wait()
	}
	if _, err := fmt.Fscanln(output, &endpoint); err != nil {
		stop()
		return "", nil, fmt.Errorf("the server did not start: %w", err)
	}
	return endpoint, stop, nil
}

// again is this program as another process, on so many processors.
func again(ctx context.Context, procs int, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, self, args...)
	command.Env = append(os.Environ(), hiddenEnv+"=1", "GOMAXPROCS="+strconv.Itoa(procs))
	command.Stderr = os.Stderr
	return command, nil
}
