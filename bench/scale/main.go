// Scale simulates an installation of many processes: a million threads, ten
// thousand concurrent runs, and a hundred processes that execute them. It reports
// which part saturates first, and what helps.
//
// The costs are measured by the benchmarks of server/internal/chaostest, which
// write them to a file:
//
//	TREADLE_COSTS=$PWD/bench/scale/costs.json go test ./server/internal/chaostest -run '^$' -bench . -benchtime 1x
//	cd bench && go run ./scale
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	if err := runMain(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func runMain(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	file := flags.String("costs", "scale/costs.json", "`file` with the measured costs")
	base := usual()
	flags.IntVar(&base.Threads, "threads", base.Threads, "number of threads")
	flags.IntVar(&base.Runs, "runs", base.Runs, "number of concurrent runs")
	flags.IntVar(&base.Workers, "workers", base.Workers, "number of worker processes")
	flags.DurationVar(&base.Time, "time", base.Time, "simulated time; the first third is not counted")
	flags.Uint64Var(&base.Seed, "seed", base.Seed, "random seed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	raw, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	c := &Costs{}
	if err := json.Unmarshal(raw, c); err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	if _, err := fmt.Fprintln(out, header); err != nil {
		return err
	}
	for _, p := range variants(base) {
		if _, err := fmt.Fprintln(out, row(p, Simulate(p, c))); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if a cost is missing.
func (c *Costs) check() error {
	for name, v := range map[string]float64{
		"run_postgres": c.RunPostgres, "run_server": c.RunServer, "step_postgres": c.StepPostgres, "step_server": c.StepServer,
		"append_server": c.AppendServer, "append_nats": c.AppendNATS, "frame_server": c.FrameServer, "stream_rate": c.StreamRate,
	} {
		if v <= 0 {
			return fmt.Errorf("invalid %s %v: want a measured cost", name, v)
		}
	}
	return nil
}

// usual returns an installation with agents whose steps are model calls.
func usual() *Plan {
	return &Plan{
		Name: "as it is", Threads: 1_000_000, Runs: 10_000, Workers: 100, APIs: 20, WorkerCores: 2, APICores: 2,
		Postgres: 1, PostgresCores: 16, NATS: 3, NATSCores: 8, Streams: 1,
		Steps: 4, Call: 3 * time.Second, Packs: 20, Readers: 1, Time: 9 * time.Second, Seed: 1,
	}
}

// variants returns plans that each change one part of base.
func variants(base *Plan) []*Plan {
	with := func(name string, change func(*Plan)) *Plan {
		p := *base
		p.Name = name
		change(&p)
		return &p
	}
	streams := func(p *Plan) { p.Streams = 32 }
	return []*Plan{
		base,
		with("packs of 250 ms", func(p *Plan) { p.Packs = 4 }),
		with("32 streams", streams),
		with("32 streams, steps of 0.3 s", func(p *Plan) { streams(p); p.Call = 300 * time.Millisecond }),
		with("32 streams, steps of 0.3 s, 4 databases", func(p *Plan) { streams(p); p.Call, p.Postgres = 300*time.Millisecond, 4 }),
		with("32 streams, 10 readers of each run", func(p *Plan) { streams(p); p.Readers = 10 }),
	}
}

const header = `| installation | runs/s | transactions/s | packs/s | frames/s | Postgres | streams | NATS | workers | SSE | event p50 / p99 | commit p99 | first |
|---|---|---|---|---|---|---|---|---|---|---|---|---|`

func row(p *Plan, r *Result) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s | %.0f | %.0f | %.0f | %.0f |", p.Name, r.RunsPerSecond, r.Transactions, r.PacksPerSecond, r.FramesPerSecond)
	for _, part := range parts {
		fmt.Fprintf(&text, " %.0f %% |", 100*r.Busy[part])
	}
	fmt.Fprintf(&text, " %s / %s | %s | %s |", round(r.Event.P50), round(r.Event.P99), round(r.Commit.P99), r.First())
	return text.String()
}

func round(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
