package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the program that is tested start itself as a server or a client.
func TestMain(m *testing.M) {
	if os.Getenv(hiddenEnv) == "" {
		os.Exit(m.Run())
	}
	main()
}

func TestStatistics(t *testing.T) {
	require.Zero(t, median(nil))
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	require.InDelta(t, 0.25, spread([]float64{3, 4, 5}), 0)
	require.InDelta(t, 50, percentile([]float64{100, 50}, 50), 0)
	require.InDelta(t, 100, percentile([]float64{100, 50}, 99), 0)
	require.Zero(t, percentile(nil, 99))
	require.Equal(t, "1,234,567", thousands(1234567))
	require.Equal(t, "999", thousands(999))
}

func TestMessageNumber(t *testing.T) {
	m := newPayload(1234567)
	require.Len(t, m.body, bodyBytes)
	require.Equal(t, 1234567, received{body: []byte(m.body)}.index())
}

func TestMessagesOfARun(t *testing.T) {
	for _, w := range workloads {
		for _, level := range allLevels {
			n := w.messages(level, 15*time.Millisecond, 0.5)
			require.Positive(t, n, w.name)
			if w.name != "roundtrip" {
				require.Zero(t, n%100, w.name)
				require.GreaterOrEqual(t, n, min(level, 10000), w.name)
			}
		}
	}
}

func TestHeldHandler(t *testing.T) {
	const messages, hold = 50, 20
	handle := heldHandler(messages, hold)
	var group sync.WaitGroup
	var done atomic.Int64
	for i := range messages {
		group.Go(func() {
			handle(received{})
			done.Add(1)
		})
		require.LessOrEqual(t, done.Load(), int64(max(0, i+1-hold)))
	}
	group.Wait() // the last one lets all go

	handle = heldHandler(3, 5)
	for range 3 {
		group.Go(func() { handle(received{}) })
	}
	group.Wait()
}

func TestOrderedHandler(t *testing.T) {
	var disorder atomic.Int64
	handle := orderedHandler(2, &disorder)
	for _, i := range []int{0, 1, 3, 2, 4} { // two groups
		handle(received{body: []byte(newPayload(i).body)})
	}
	require.Zero(t, disorder.Load())
	handle(received{body: []byte(newPayload(2).body)})
	require.EqualValues(t, 1, disorder.Load())
}

func TestGather(t *testing.T) {
	in, batches := make(chan int), make(chan []int, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		gather(in, time.Millisecond, 2, func(batch []int) { batches <- batch })
	}()
	for i := range 10 {
		in <- i
	}
	require.Len(t, <-batches, 10)
	in <- 10
	require.Equal(t, []int{10}, <-batches, "after the pause")
	in <- 11
	close(in)
	require.Equal(t, []int{11}, <-batches, "at the end")
	<-done
}

// example is a small set of findings.
func example() *findings {
	f := &findings{Go: "go0", CPUs: 2, Procs: 1, IdleTime: 59 * time.Second, Idle: map[string]int{"ours": 3, "bare": 30}}
	for _, name := range []string{"publish-each", "drain-noop"} {
		for _, delay := range []time.Duration{0, 5 * time.Millisecond} {
			for round := range 3 {
				for _, side := range sides {
					action, calls := "SendMessageBatch", 100
					if name == "drain-noop" {
						action, calls = "DeleteMessageBatch", 200
					}
					rate := float64(1000 + 100*round)
					if side == "bare" {
						rate *= 2
					}
					f.Results = append(f.Results, result{
						spec:  spec{Workload: name, Side: side, Delay: delay, InFlight: 100, Messages: 1000},
						Round: round, Rate: rate, CPU: 10, Calls: map[string]int{action: calls, "GetQueueUrl": 1},
					})
				}
			}
		}
	}
	return f
}

func TestReport(t *testing.T) {
	f := example()
	cells := f.cells()
	require.Len(t, cells, 4)
	require.InDelta(t, 1100, cells[0].Ours.Rate, 0)
	require.InDelta(t, 0.5, cells[0].Speed, 1e-9)
	require.InDelta(t, 0.1, cells[0].Ours.Calls, 0, "GetQueueUrl carries no message")

	met := make(map[string]bool)
	for _, target := range f.targets() {
		met[target.What] = target.Met
	}
	require.True(t, met["calls a message, publish + receive + settle, from 100 in flight on"])
	require.True(t, met["receives of an idle subscription in 59s"])
	require.False(t, met["throughput of the bare loop's, the worst at 5 ms"])
	require.NoError(t, f.check())

	f.Results[0].Calls["SendMessageBatch"] = 1000
	require.ErrorContains(t, f.check(), "1.000 calls a message")
	f.Results[0].Failed = "broken"
	require.ErrorContains(t, f.check(), "broken")
	require.Contains(t, f.markdown(), "not measured: ours: broken")
}

func TestDocs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "benchmarks.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600))
	require.NoError(t, example().writeDocs(dir))
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(page), "before\n"+beginMark) && strings.HasSuffix(string(page), endMark+"\nafter\n"), string(page))
	require.NotContains(t, string(page), "old")

	require.NoError(t, os.WriteFile(path, []byte("no marks"), 0o600))
	require.ErrorContains(t, example().writeDocs(dir), "no section")
}

func TestPlotIsXML(t *testing.T) {
	for _, cells := range [][]cell{nil, example().cells()} {
		decoder := xml.NewDecoder(strings.NewReader(plot(cells)))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
	}
}

// TestEndToEnd runs every workload in small, both sides, with the server and the client
// as processes.
func TestEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	o, err := parse([]string{"-only", "publish|drain-noop|roundtrip", "-levels", "100", "-delays", "0", "-rounds", "1", "-seconds", "0.05", "-idle", "0", "-procs", "1"})
	require.NoError(t, err)
	found, err := o.measureAll(t.Context())
	require.NoError(t, err)
	require.Len(t, found.Results, 8)
	for _, r := range found.Results {
		name := fmt.Sprintf("%s (%s)", r.Workload, r.Side)
		require.Empty(t, r.Failed, name)
		require.Positive(t, r.Rate, name)
		require.Positive(t, r.CPU, name)
		require.Positive(t, r.Allocs, name)
		require.Positive(t, r.callsPerMessage(), name)
	}
	require.Positive(t, found.Capacity.Rate)
}
