// Command bench compares the library with a loop written by hand on the bare SDK, on
// an SQS server in another process:
//
//	go run . -docs ../docs   # everything; rewrites docs/benchmarks.md and its plot
//	go run . -quick          # a minute; checks that everything runs and what it costs in calls
//	go run . -only drain-noop -levels 100 -delays 5ms
//	go run . -only drain-noop -levels 100 -delays 0 -profile /tmp/profiles
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hiddenEnv marks the processes that this program starts of itself.
const hiddenEnv = "WATERMILLSQS_BENCH_PROCESS"

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// sides are measured in turns, in this order.
var sides = []string{"ours", "bare"}

// options are those of the command line.
type options struct {
	quick      bool
	only       *regexp.Regexp
	delays     []time.Duration
	levels     []int
	rounds     int
	seconds    float64
	idle       time.Duration
	procs      int
	docs, json string
	from       string
	profile    string
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "a short run that checks the calls per message")
	only := flags.String("only", "", "regular expression for the `workloads` to run")
	delays := flags.String("delays", "0,5ms,15ms", "`times` added per call")
	levels := flags.String("levels", "", "messages in flight (default: those of each workload)")
	flags.IntVar(&o.rounds, "rounds", 3, "measurements of each side, in turns")
	flags.Float64Var(&o.seconds, "seconds", 0.8, "about how long one measurement lasts")
	flags.DurationVar(&o.idle, "idle", 59*time.Second, "how long an idle subscription is watched, 0 for not at all")
	flags.IntVar(&o.procs, "procs", max(1, runtime.NumCPU()/2), "GOMAXPROCS of the client and, separately, of the server")
	flags.StringVar(&o.docs, "docs", "", "`directory` whose benchmarks.md and benchmarks.svg to rewrite")
	flags.StringVar(&o.json, "json", "", "`file` for every single measurement")
	flags.StringVar(&o.from, "from", "", "`file` of an earlier run to report instead of measuring")
	flags.StringVar(&o.profile, "profile", "", "`directory` for CPU and allocation profiles of every measurement")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		*delays, *levels, o.rounds, o.seconds, o.idle = "1ms", "100", 1, 0.3, 21*time.Second
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*delays, ",") {
		delay, err := time.ParseDuration(text)
		if err != nil {
			return o, err
		}
		o.delays = append(o.delays, delay)
	}
	for _, text := range strings.FieldsFunc(*levels, func(r rune) bool { return r == ',' }) {
		level, err := strconv.Atoi(text)
		if err != nil {
			return o, err
		}
		o.levels = append(o.levels, level)
	}
	return o, nil
}

func run(args []string) error {
	if os.Getenv(hiddenEnv) != "" {
		return runHidden(args)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	found, err := o.find(ctx)
	if err != nil {
		return err
	}
	if o.json != "" {
		text, err := json.MarshalIndent(found, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, text, 0o600); err != nil {
			return err
		}
	}
	fmt.Println(found.markdown())
	if o.docs != "" {
		if err := found.writeDocs(o.docs); err != nil {
			return err
		}
	}
	if o.quick {
		return found.check()
	}
	return nil
}

// runHidden is one of the processes that this program starts of itself.
func runHidden(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "server":
		return runServer()
	case len(args) == 3 && args[0] == "client":
		var s spec
		if err := json.Unmarshal([]byte(args[2]), &s); err != nil {
			return err
		}
		r, err := measure(args[1], s)
		if err != nil {
			r = result{spec: s, Failed: err.Error()}
		}
		return json.NewEncoder(os.Stdout).Encode(r)
	default:
		return fmt.Errorf("unknown process %q", args)
	}
}

// findings are all measurements of a run.
type findings struct {
	Procs    int
	CPUs     int
	Go       string
	Results  []result
	Idle     map[string]int // receives of each side
	IdleTime time.Duration
	Capacity serverCapacity
}

// find measures, or reads what was measured.
func (o options) find(ctx context.Context) (*findings, error) {
	if o.from == "" {
		return o.measureAll(ctx)
	}
	text, err := os.ReadFile(o.from)
	if err != nil {
		return nil, err
	}
	found := new(findings)
	return found, json.Unmarshal(text, found)
}

// measureAll runs the matrix.
func (o options) measureAll(ctx context.Context) (*findings, error) {
	found := &findings{Procs: o.procs, CPUs: runtime.NumCPU(), Go: runtime.Version(), IdleTime: o.idle}
	idle := o.watchIdle(ctx)
	var err error
	if found.Capacity, err = o.measureServer(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "server: %s\n", found.Capacity)
	for _, w := range workloads {
		if !o.only.MatchString(w.name) {
			continue
		}
		levels := w.levels
		if o.levels != nil {
			levels = o.levels
		}
		for _, delay := range o.delays {
			for _, level := range levels {
				results, err := o.measureCell(ctx, w, delay, level)
				if err != nil {
					return nil, err
				}
				found.Results = append(found.Results, results...)
			}
		}
	}
	found.Idle, err = idle()
	return found, err
}

// measureServer measures what a server can do.
func (o options) measureServer(ctx context.Context) (serverCapacity, error) {
	endpoint, stop, err := startServer(ctx, o.procs)
	if err != nil {
		return serverCapacity{}, err
	}
	defer stop()
	return measureCapacity(endpoint, o.seconds)
}

// measureCell measures ours, bare, ours, bare and so on, all on one server.
func (o options) measureCell(ctx context.Context, w workload, delay time.Duration, level int) ([]result, error) {
	endpoint, stop, err := startServer(ctx, o.procs)
	if err != nil {
		return nil, err
	}
	defer stop()
	var results []result
	for round := range o.rounds {
		for _, side := range sides {
			s := spec{Workload: w.name, Side: side, Delay: delay, InFlight: level, Messages: w.messages(level, delay, o.seconds), Seconds: o.seconds}
			if o.profile != "" {
				s.Profile = filepath.Join(o.profile, fmt.Sprintf("%s-%s-%d-%s-%d", w.name, delay, level, side, round))
			}
			r, err := o.inProcess(ctx, endpoint, s)
			if err != nil {
				return nil, err
			}
			r.Round = round
			results = append(results, r)
			r.log()
			if r.Failed != "" {
				fmt.Fprintf(os.Stderr, "!!! %s (%s) WAS NOT MEASURED: %s\n", w.name, side, r.Failed)
			}
		}
	}
	return results, nil
}

func (r result) log() {
	fmt.Fprintf(os.Stderr, "%-13s %-5s %6v %6d  %8.0f/s %6.1f µs %6.1f allocs %6.3f calls  server %.2f client %.2f cores  peak %d  %d MiB  %.1fs  p50 %.1f p99 %.1f\n",
		r.Workload, r.Side, r.Delay, r.InFlight, r.Rate, r.CPU, r.Allocs, r.callsPerMessage(), r.Server, r.Cores, r.Peak, r.RSS>>10, r.Took, r.P50, r.P99)
}

// inProcess measures in a process of its own.
func (o options) inProcess(ctx context.Context, endpoint string, s spec) (result, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return result{}, err
	}
	command, err := again(ctx, o.procs, "client", endpoint, string(text))
	if err != nil {
		return result{}, err
	}
	var output bytes.Buffer
	command.Stdout = &output
	r := result{spec: s}
	err = command.Run()
	if err == nil {
		err = json.Unmarshal(output.Bytes(), &r)
	}
	if err != nil {
		r.Failed = fmt.Sprintf("the client ended: %v", err)
	}
	return r, ctx.Err()
}

// watchIdle watches an idle subscription of each side, on a server of their own, while
// everything else runs. What it returns waits for the end.
func (o options) watchIdle(ctx context.Context) func() (map[string]int, error) {
	counts := make(map[string]int)
	if o.idle == 0 {
		return func() (map[string]int, error) { return counts, nil }
	}
	var watchers sync.WaitGroup
	var mu sync.Mutex // guards counts and failed
	var failed error
	for _, side := range sides {
		watchers.Go(func() {
			endpoint, stop, err := startServer(ctx, 1)
			receives := 0
			if err == nil {
				defer stop()
				receives, err = idle(endpoint, side, o.idle)
			}
			mu.Lock()
			defer mu.Unlock()
			counts[side], failed = receives, errors.Join(failed, err)
		})
	}
	return func() (map[string]int, error) {
		watchers.Wait()
		return counts, failed
	}
}

// startProfile profiles until the returned function is called.
func startProfile(path string) (stop func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	cpu, err := os.Create(path + ".cpu") //nolint:gosec // a path of the command line
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = cpu.Close()
		if allocs, err := os.Create(path + ".allocs"); err == nil { //nolint:gosec // likewise
			_ = pprof.Lookup("allocs").WriteTo(allocs, 0)
			_ = allocs.Close()
		}
	}, pprof.StartCPUProfile(cpu)
}
