package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var testCosts = &Costs{
	RunPostgres: 1000, RunServer: 1000, StepPostgres: 200, StepServer: 200,
	AppendServer: 100, AppendNATS: 90, FrameServer: 20, StreamRate: 10_000,
}

// small returns a plan that takes little time.
func small() *Plan {
	p := usual()
	p.Threads, p.Runs, p.Workers, p.APIs, p.PostgresCores, p.NATSCores = 10_000, 200, 4, 2, 2, 2
	p.Call, p.Time = 500*time.Millisecond, 15*time.Second
	return p
}

func TestSimulationIsDeterministic(t *testing.T) {
	first, err := json.Marshal(Simulate(small(), testCosts))
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(Simulate(small(), testCosts))
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%s, then %s, %v", first, second, err)
	}
}

// The flow through a part and the cost per item determine its utilization, and the
// duration of a run determines the number of concurrent runs.
func TestSimulationMatchesQueueingTheory(t *testing.T) {
	p := small()
	r := Simulate(p, testCosts)
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.05*want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	steps := float64(p.Steps)
	near("runs a second", r.RunsPerSecond, float64(p.Runs)/(steps*p.Call.Seconds()))
	near("transactions a second", r.Transactions, r.RunsPerSecond*(transactionsOfRun+steps-1))
	near("packs a second", r.PacksPerSecond, float64(p.Runs)*p.Packs+r.RunsPerSecond*steps/2)
	near("Postgres", r.Busy[partPostgres], r.RunsPerSecond*(1000+200*(steps-1))/1e6/float64(p.PostgresCores))
	near("the stream", r.Busy[partStreams], r.PacksPerSecond/testCosts.StreamRate)
	near("NATS", r.Busy[partNATS], r.PacksPerSecond*90/1e6/float64(p.NATS*p.NATSCores))
	near("the processes that are read from", r.Busy[partAPIs], r.FramesPerSecond*20/1e6/float64(p.APIs*p.APICores))
	near("the workers", r.Busy[partWorkers], (r.PacksPerSecond*100+r.RunsPerSecond*(1000+200*(steps-1)))/1e6/float64(p.Workers*p.WorkerCores))
	if r.Event.P50 <= 0 || r.Event.P99 < r.Event.P50 || r.Event.P99 > 20*time.Millisecond {
		t.Errorf("events take %+v", r.Event)
	}
}

func TestFirstNamesSaturatedPart(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		partStreams:  func(p *Plan) { p.Runs = 1000 },
		partNATS:     func(p *Plan) { p.Runs, p.Streams, p.NATSCores = 1000, 8, 1 },
		partPostgres: func(p *Plan) { p.Call, p.PostgresCores, p.Packs = 20*time.Millisecond, 1, 1 },
		partAPIs:     func(p *Plan) { p.Readers = 50 },
		partWorkers:  func(p *Plan) { p.Workers, p.WorkerCores, p.Streams = 1, 1, 4 },
	} {
		p := small()
		change(p)
		if r := Simulate(p, testCosts); r.First() != want || r.Busy[want] < 0.5 {
			t.Errorf("%s is first, want %s: %v", r.First(), want, r.Busy)
		}
	}
	// A single saturated stream delays events; more streams help.
	p := small()
	p.Runs = 1000
	one := Simulate(p, testCosts)
	p.Streams = 4
	if more := Simulate(p, testCosts); one.Event.P50 < 10*more.Event.P50 || more.PacksPerSecond < 1.5*one.PacksPerSecond {
		t.Errorf("events take %v with one stream and %v with four", one.Event, more.Event)
	}
}

// The committed costs are complete, and the program prints a table from them.
func TestMainPrintsTable(t *testing.T) {
	var out bytes.Buffer
	if err := runMain([]string{"-costs", "costs.json", "-threads", "1000", "-runs", "100", "-workers", "2", "-time", "300ms"}, &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2+len(variants(usual())) {
		t.Errorf("table:\n%s", &out)
	}
	path := filepath.Join(t.TempDir(), "costs.json")
	if err := os.WriteFile(path, []byte(`{"run_postgres": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runMain([]string{"-costs", path}, &out); err == nil || !strings.Contains(err.Error(), "want a measured cost") {
		t.Errorf("missing costs: %v", err)
	}
}
