package sqstest

import (
	"hash/maphash"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The one region and account of every service.
const (
	Region    = "us-east-1"
	AccountID = "000000000000"
)

// TB is the part of [testing.TB] that [New] needs, so that a program that uses this
// package does not link package testing.
type TB interface {
	Helper()
	Cleanup(func())
}

// Service is an Amazon SQS and SNS service in memory. Services share nothing.
type Service struct {
	registry registry
	topics   topicRegistry
	calls    callLog
	faults   faultSet
	receipts receiptCodec
	moves    moveTasks
	history  historyLog
	manners  manners

	queueNumber   atomic.Uint32
	messageNumber atomic.Uint64

	done   chan struct{}  // closed by Close, read by everything that waits
	active sync.WaitGroup // requests being served

	mu       sync.Mutex // guards what follows
	closed   bool
	server   *http.Server // nil until Listen
	endpoint string
	serving  chan struct{} // closed when server has stopped
}

// New makes a service that is closed when the test ends.
func New(t TB) *Service {
	t.Helper()
	s := Start()
	t.Cleanup(s.Close)
	return s
}

// Start makes a service without a test, for examples and programs. The caller closes it.
func Start() *Service {
	return &Service{
		registry: registry{queues: make(map[string]*Queue), deleted: make(map[string]time.Time)},
		topics:   topicRegistry{topics: make(map[string]*Topic)},
		receipts: receiptCodec{seed: maphash.MakeSeed()},
		done:     make(chan struct{}),
	}
}

// Close ends every long poll and hanging call, stops the loopback server and waits for
// the requests being served. Later requests are answered with status 503. Closing twice
// is the same as once.
func (s *Service) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	server, serving := s.server, s.serving
	s.mu.Unlock()

	if first {
		close(s.done)
	}
	if server != nil {
		_ = server.Close() // its error is that of a listener which is gone anyway
		<-serving
	}
	s.active.Wait()
}

// enter counts a request as being served, unless the service is closed. The mutex
// orders it before or after Close, which must not wait while the count rises from zero.
func (s *Service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.active.Add(1)
	return true
}

// CreateQueue makes a queue as the action of that name does, with the same refusals, but
// counts as no call. A queue of that name with these attributes is returned as it is.
func (s *Service) CreateQueue(name string, attributes map[string]string) (*Queue, error) {
	q, err := s.createQueue(name, attributes, nil)
	if err != nil {
		return nil, err.asError()
	}
	return q, nil
}

// Queue returns the queue of a name, nil if there is none.
func (s *Service) Queue(name string) *Queue { return s.registry.lookup(name) }
