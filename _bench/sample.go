package main

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// span measures a stretch of a run: the one between its tenth and its ninetieth
// percent, where neither the start nor the end shows.
type span struct {
	from, to, all int64
	n             atomic.Int64
	start, end    sample
	done          chan struct{}
}

func newSpan(messages int) *span {
	n := int64(messages)
	return &span{from: n / 10, to: n - n/10, all: n, done: make(chan struct{})}
}

// add counts a message.
func (s *span) add() {
	switch s.n.Add(1) {
	case s.from:
		s.start = takeSample()
	case s.to:
		s.end = takeSample()
	case s.all:
		close(s.done)
	}
}

func (s *span) report(r *result) { r.between(s.start, s.end, float64(s.to-s.from)) }

func (r *result) between(start, end sample, messages float64) {
	seconds := end.at.Sub(start.at).Seconds()
	r.Rate = messages / seconds
	r.CPU = float64((end.cpu - start.cpu).Microseconds()) / messages
	r.Cores = (end.cpu - start.cpu).Seconds() / seconds
	r.Allocs = float64(end.allocs-start.allocs) / messages
	r.Bytes = float64(end.bytes-start.bytes) / messages
}

// sample is what the process has used so far.
type sample struct {
	at            time.Time
	cpu           time.Duration
	allocs, bytes uint64
}

func takeSample() sample {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return sample{at: time.Now(), cpu: processCPU(), allocs: memory.Mallocs, bytes: memory.TotalAlloc}
}

// processCPU is the processor time of this process.
func processCPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
