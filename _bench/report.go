package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cell is one row of the table: both sides under the same conditions, medians over the
// rounds.
type cell struct {
	Workload   string
	Delay      time.Duration
	InFlight   int
	Ours, Bare summary
	// Speed and CPU are ours in proportion to the bare loop's, round by round.
	Speed, SpeedSpread float64
	CPU                float64
	Missing            string // why there is nothing to compare
}

// summary are the medians of one side.
type summary struct {
	Rate, CPU, Allocs, Bytes, Calls float64
	P50, P99, Server, Client, RSS   float64
	Send, Receive, Delete, Change   float64 // calls a message
	Peak                            float64
}

func summarize(results []result) summary {
	of := func(value func(result) float64) float64 {
		var values []float64
		for _, r := range results {
			values = append(values, value(r))
		}
		return median(values)
	}
	return summary{
		Rate: of(func(r result) float64 { return r.Rate }), CPU: of(func(r result) float64 { return r.CPU }),
		Allocs: of(func(r result) float64 { return r.Allocs }), Bytes: of(func(r result) float64 { return r.Bytes }),
		Calls: of(result.callsPerMessage),
		P50:   of(func(r result) float64 { return r.P50 }), P99: of(func(r result) float64 { return r.P99 }),
		Server: of(func(r result) float64 { return r.Server }), Client: of(func(r result) float64 { return r.Cores }),
		RSS:  of(func(r result) float64 { return float64(r.RSS) / 1024 }),
		Peak: of(func(r result) float64 { return float64(r.Peak) }),
		Send: of(func(r result) float64 { return r.perMessage("Send") }), Receive: of(func(r result) float64 { return r.perMessage("Receive") }),
		Delete: of(func(r result) float64 { return r.perMessage("Delete") }), Change: of(func(r result) float64 { return r.perMessage("Change") }),
	}
}

// cells groups the results, in the order in which they were measured.
func (f *findings) cells() []cell {
	type key struct {
		workload string
		delay    time.Duration
		inFlight int
	}
	var order []key
	bySide := make(map[key]map[string][]result)
	missing := make(map[key]string)
	for _, r := range f.Results {
		k := key{r.Workload, r.Delay, r.InFlight}
		if bySide[k] == nil {
			order = append(order, k)
			bySide[k] = make(map[string][]result)
		}
		if r.Failed != "" {
			missing[k] = r.Side + ": " + r.Failed
			continue
		}
		bySide[k][r.Side] = append(bySide[k][r.Side], r)
	}
	var cells []cell
	for _, k := range order {
		ours, bare := bySide[k]["ours"], bySide[k]["bare"]
		c := cell{Workload: k.workload, Delay: k.delay, InFlight: k.inFlight, Ours: summarize(ours), Bare: summarize(bare), Missing: missing[k]}
		if c.Missing == "" {
			var speeds, cpus []float64
			for i := range min(len(ours), len(bare)) {
				speeds = append(speeds, ours[i].Rate/bare[i].Rate)
				cpus = append(cpus, ours[i].CPU/bare[i].CPU)
			}
			c.Speed, c.SpeedSpread, c.CPU = median(speeds), spread(speeds), median(cpus)
		}
		cells = append(cells, c)
	}
	return cells
}

const header = "| workload | added | in flight | messages/s | of bare | CPU µs | of bare | allocs | calls: send | receive | delete | change | all | bare: messages/s | CPU µs | allocs | calls | client, server busy |\n" +
	"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n"

func (c cell) row() string {
	if c.Missing != "" {
		return fmt.Sprintf("| %s | %s | %s | not measured: %s |%s\n", c.Workload, ms(c.Delay), thousands(float64(c.InFlight)), oneLine(c.Missing), strings.Repeat(" |", 14))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %.2f ± %.2f | %.1f | %.2f | %.0f | %s | %s | %s | %s | %.3f | %s | %.1f | %.0f | %.3f | %.2f, %.2f |\n",
		c.Workload, ms(c.Delay), thousands(float64(c.InFlight)), thousands(c.Ours.Rate), c.Speed, c.SpeedSpread*c.Speed,
		c.Ours.CPU, c.CPU, c.Ours.Allocs, calls(c.Ours.Send), calls(c.Ours.Receive), calls(c.Ours.Delete), calls(c.Ours.Change), c.Ours.Calls,
		thousands(c.Bare.Rate), c.Bare.CPU, c.Bare.Allocs, c.Bare.Calls, c.Ours.Client, c.Ours.Server)
}

func ms(d time.Duration) string { return fmt.Sprintf("%g ms", float64(d)/float64(time.Millisecond)) }

func calls(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", n)
}

func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "|", "/").Replace(s)
}

func thousands(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, groups...), ",")
}

// target is one of those that the library is measured against.
type target struct {
	What, Want, Have string
	Met              bool
}

const (
	maxCallsTogether = 0.33
	minSpeed         = 0.9
	maxCPU           = 1.3
	flat             = 0.1
)

// targets compares what was found with what is wanted. One that was not measured is
// left out.
func (f *findings) targets() []target {
	cells := f.cells()
	find := func(workload string, delay time.Duration, inFlight int) *cell {
		for i, c := range cells {
			if c.Workload == workload && c.Delay == delay && c.InFlight == inFlight && c.Missing == "" {
				return &cells[i]
			}
		}
		return nil
	}
	var all []target
	var sums []string
	met := true
	for _, inFlight := range []int{100, 1000, 10000} {
		for _, publish := range []string{"publish-each", "publish-call"} {
			for _, delay := range f.delays() {
				send, drain := find(publish, delay, inFlight), find("drain-noop", delay, inFlight)
				if send == nil || drain == nil {
					continue
				}
				sum := send.Ours.Send + drain.Ours.Calls
				met = met && sum <= maxCallsTogether
				sums = append(sums, fmt.Sprintf("%.3f", sum))
			}
		}
	}
	if sums != nil {
		all = append(all, target{"calls a message, publish + receive + settle, from 100 in flight on", fmt.Sprintf("≤ %.2f", maxCallsTogether), fromTo(sums), met})
	}
	if n, ok := f.Idle["ours"]; ok {
		limit := f.idleLimit()
		all = append(all, target{fmt.Sprintf("receives of an idle subscription in %v", f.IdleTime), fmt.Sprintf("≤ %d", limit), fmt.Sprintf("%d (bare: %d)", n, f.Idle["bare"]), n <= limit})
	}
	for _, delay := range f.delays() {
		worst, cpu := (*cell)(nil), (*cell)(nil)
		for i, c := range cells {
			if c.Delay != delay || c.Missing != "" || c.Workload == "roundtrip" {
				continue
			}
			if worst == nil || c.Speed < worst.Speed {
				worst = &cells[i]
			}
			if cpu == nil || c.CPU > cpu.CPU {
				cpu = &cells[i]
			}
		}
		if worst != nil {
			all = append(all,
				target{"throughput of the bare loop's, the worst at " + ms(delay), fmt.Sprintf("≥ %.1f", minSpeed), fmt.Sprintf("%.2f (%s, %s)", worst.Speed, worst.Workload, thousands(float64(worst.InFlight))), worst.Speed >= minSpeed},
				target{"client CPU a message of the bare loop's, the worst at " + ms(delay), fmt.Sprintf("≤ %.1f", maxCPU), fmt.Sprintf("%.2f (%s, %s)", cpu.CPU, cpu.Workload, thousands(float64(cpu.InFlight))), cpu.CPU <= maxCPU})
		}
	}
	for _, w := range workloads {
		var costs []float64
		for _, c := range cells {
			if c.Workload == w.name && c.Delay == f.delays()[0] && c.Missing == "" {
				costs = append(costs, c.Ours.CPU)
			}
		}
		if len(costs) == len(allLevels) {
			all = append(all, target{"CPU a message of " + w.name + " from 10 to 10,000 in flight, no delay", fmt.Sprintf("± %.0f %%", 100*flat), fmt.Sprintf("%.1f-%.1f µs, ± %.0f %%", slices.Min(costs), slices.Max(costs), 100*spread(costs)), spread(costs) <= flat})
		}
	}
	return all
}

// idleLimit is how many receives an idle subscription may begin: three a minute, the
// first at once.
func (f *findings) idleLimit() int { return int(f.IdleTime/(20*time.Second)) + 1 }

// fromTo says in which range values are.
func fromTo(values []string) string {
	least, most := slices.Min(values), slices.Max(values)
	if least == most {
		return least
	}
	return least + "-" + most
}

func (f *findings) delays() []time.Duration {
	var delays []time.Duration
	for _, r := range f.Results {
		delays = append(delays, r.Delay)
	}
	slices.Sort(delays)
	return slices.Compact(delays)
}

// markdown is the section of the docs that this program writes.
func (f *findings) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d CPUs; GOMAXPROCS=%d for the client and, in another process, for the server. The server alone: %s.\n\n", f.Go, f.CPUs, f.Procs, f.Capacity)
	if targets := f.targets(); len(targets) > 0 {
		b.WriteString("| target | wanted | found | |\n| --- | --- | --- | --- |\n")
		for _, t := range targets {
			verdict := "missed"
			if t.Met {
				verdict = "met"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", t.What, t.Want, t.Have, verdict)
		}
		b.WriteString("\n")
	}
	cells := f.cells()
	b.WriteString(header)
	for _, c := range cells {
		if c.Workload != "roundtrip" {
			b.WriteString(c.row())
		}
	}
	latency := false
	for _, c := range cells {
		if c.Workload != "roundtrip" || c.Missing != "" {
			continue
		}
		if !latency {
			fmt.Fprintf(&b, "\nFrom publish to handler, %d messages/s, each published alone:\n\n| added | p50 ms | p99 ms | calls a message | bare: p50 ms | p99 ms | calls |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n", roundtripRate)
			latency = true
		}
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.2f | %.1f | %.1f | %.2f |\n", ms(c.Delay), c.Ours.P50, c.Ours.P99, c.Ours.Calls, c.Bare.P50, c.Bare.P99, c.Bare.Calls)
	}
	held := false
	for _, c := range cells {
		if c.Workload != "drain-held" || c.Delay != f.delays()[0] || c.Missing != "" {
			continue
		}
		if !held {
			b.WriteString("\nIn hand at a time, and the most memory that the client had (drain-held, no delay):\n\n| in flight | in hand | MiB | bare: in hand | MiB |\n| ---: | ---: | ---: | ---: | ---: |\n")
			held = true
		}
		fmt.Fprintf(&b, "| %s | %s | %.0f | %s | %.0f |\n", thousands(float64(c.InFlight)), thousands(c.Ours.Peak), c.Ours.RSS, thousands(c.Bare.Peak), c.Bare.RSS)
	}
	return b.String()
}

const (
	beginMark = "<!-- measured: written by `go run . -docs ../docs` in _bench -->"
	endMark   = "<!-- /measured -->"
	plotName  = "benchmarks.svg"
)

// writeDocs rewrites what is measured in the docs: the section between the marks, and
// the plot.
func (f *findings) writeDocs(dir string) error {
	path := filepath.Join(dir, "benchmarks.md")
	page, err := os.ReadFile(path) //nolint:gosec // a path of the command line
	if err != nil {
		return err
	}
	replaced, err := replaceSection(string(page), f.markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return errors.Join(
		os.WriteFile(path, []byte(replaced), 0o644),                                //nolint:gosec // docs are for everybody
		os.WriteFile(filepath.Join(dir, plotName), []byte(plot(f.cells())), 0o644)) //nolint:gosec // likewise
}

func replaceSection(page, section string) (string, error) {
	before, rest, begun := strings.Cut(page, beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return "", fmt.Errorf("there is no section between %s and %s", beginMark, endMark)
	}
	return before + beginMark + "\n\n" + section + "\n" + endMark + after, nil
}

// check is what a quick run fails on: what was not measured, and calls. Times depend
// on the machine, calls on the code.
func (f *findings) check() error {
	var errs []error
	for _, r := range f.Results {
		if r.Failed != "" {
			errs = append(errs, fmt.Errorf("%s (%s): %s", r.Workload, r.Side, r.Failed))
			continue
		}
		limit, limited := callLimits[r.Workload][r.Side]
		// The end of a run has its own calls: polls under way, batches that are not full.
		allowed := limit + float64(2*callsFor(r.InFlight))/float64(r.Messages)
		if n := r.callsPerMessage(); limited && n > allowed {
			errs = append(errs, fmt.Errorf("%s (%s): %.3f calls a message, at most %.3f are allowed: %v for %d messages", r.Workload, r.Side, n, allowed, r.Calls, r.Messages))
		}
	}
	if n := f.Idle["ours"]; f.IdleTime > 0 && n > f.idleLimit() {
		errs = append(errs, fmt.Errorf("%d receives of an idle subscription in %v", n, f.IdleTime))
	}
	return errors.Join(errs...)
}

// callLimits are the calls a message that a quick run allows: at most 0.33 for publish,
// receive and settle together. The bare loop has to stay at 0.30.
var callLimits = map[string]map[string]float64{
	"publish-call": {"ours": 0.1, "bare": 0.1},
	"publish-each": {"ours": 0.11, "bare": 0.1},
	"drain-noop":   {"ours": 0.22, "bare": 0.2},
	"drain-20ms":   {"ours": 0.22, "bare": 0.2},
	"fifo-1":       {"ours": 0.22, "bare": 0.22},
	"fifo-100":     {"ours": 0.22, "bare": 0.21},
}
