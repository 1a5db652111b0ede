package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeResults has three runs of one job with a peer.
const fakeResults = `{"runs": [
	{"date": "2026-01-02", "machine": "M", "load": "0.10", "command": "c", "lines": [
		{"name": "chain100", "n": 100, "ns_per_op": 1000, "allocs_per_op": 4, "bytes_per_op": 9},
		{"name": "chain100", "peer": "eino", "ours_ns": 1000, "peer_ns": 8000, "ratio": 8}]},
	{"date": "2026-01-03", "machine": "M", "load": "0.30", "command": "c", "lines": [
		{"name": "chain100", "n": 100, "ns_per_op": 3000, "allocs_per_op": 4, "bytes_per_op": 9},
		{"name": "chain100", "peer": "eino", "ours_ns": 3000, "peer_ns": 6000, "ratio": 2}]},
	{"date": "2026-01-03", "machine": "M", "load": "0.20", "command": "c", "lines": [
		{"name": "chain100", "n": 100, "ns_per_op": 1200, "allocs_per_op": 4, "bytes_per_op": 9},
		{"name": "chain100", "peer": "eino", "ours_ns": 1200, "peer_ns": 6000, "ratio": 5}]}
]}`

func TestReportWritesMediansWithSpread(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "results.json")
	page := "before\n\n<!-- bench:highlights -->\n\nold\n\n<!-- /bench:highlights -->\n\n<!-- bench:servers -->\n\nkept\n\n<!-- /bench:servers -->\n\nafter\n"
	err := errors.Join(
		os.WriteFile(file, []byte(fakeResults), 0o600),
		os.Mkdir(filepath.Join(root, "docs"), 0o700),
		os.WriteFile(filepath.Join(root, "README.md"), []byte(page), 0o600),
		os.WriteFile(filepath.Join(root, "docs/performance.md"), []byte("<!-- bench:jobs -->\n<!-- /bench:jobs -->\n"), 0o600),
		report(file, root),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"README.md": "before\n\n<!-- bench:highlights -->\n\n| work | time | faster than |\n|---|---|---|\n" +
			"| a step without a saver (`chain100`) | 1.20 µs (1.00 µs–3.00 µs) | eino 5.0 × (2.0–8.0) |\n\n" +
			"Medians of 3 runs. In parentheses: the least and the greatest run or, after a single run, repetition. " +
			"A run's number is the fastest of its repetitions or trials. Measured in `bench` on 2026-01-02 to 2026-01-03 by `c`; " +
			"M; load before each run: 0.10, 0.30, 0.20. Runs are in `bench/results.json`.\n\n<!-- /bench:highlights -->\n\n<!-- bench:servers -->\n\nkept\n\n<!-- /bench:servers -->\n\nafter\n",
		"docs/performance.md": "<!-- bench:jobs -->\n\n| job | Treadle | eino | LangGraph.js | LangGraph |\n|---|---|---|---|---|\n" +
			"| `chain100` | 1.20 µs (1.00 µs–3.00 µs) | 6.00 µs: 5.0 × (2.0–8.0) |  |  |\n\n<!-- /bench:jobs -->\n",
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != text {
			t.Errorf("%s, %v:\n%s\nwant\n%s", name, err, got, text)
		}
	}
}

// A row never mixes runs of minima and runs of medians, and the source names the rows of each.
func TestReportPrefersRunsOfMedians(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	text := strings.Replace(fakeResults, "]}\n]}", `]},
	{"date": "2026-01-04", "machine": "M", "load": "0.20", "command": "d", "medians": true, "lines": [
		{"name": "chain10", "n": 10, "ns_per_op": 700, "least_ns": 500, "greatest_ns": 900}]},
	{"date": "2026-01-04", "machine": "M", "load": "0.20", "command": "d", "medians": true, "lines": [
		{"name": "chain100", "n": 100, "ns_per_op": 5000, "least_ns": 4000, "greatest_ns": 9000}]}
]}`, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := partsOf(file)
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]string{
		"jobs":   "| `chain100` | 5.00 µs (4.00 µs–9.00 µs) |",
		"source": "the fastest of its repetitions or trials, but the median for `chain10`, `chain100`. Measured in `bench` on 2026-01-02 to 2026-01-04 by `c`, `d`;",
	} {
		if !strings.Contains(parts[part], want) {
			t.Errorf("%s:\n%s\nwant %s", part, parts[part], want)
		}
	}
}

func TestReportNeedsRunsAndMarkers(t *testing.T) {
	if err := report(filepath.Join(t.TempDir(), "none.json"), ".."); err == nil || !strings.Contains(err.Error(), "-record") {
		t.Errorf("a report without runs: %v", err)
	}
	if _, err := replaceParts("<!-- bench:jobs -->\n", map[string]string{"jobs": "x"}); err == nil {
		t.Error("accepted a part without an end")
	}
}

// The documentation shows the medians of results.json. After a change of that file, run
// go run . -report results.json.
func TestDocsMatchResults(t *testing.T) {
	for page, parts := range map[string][]string{
		"README.md":           {"highlights"},
		"docs/performance.md": {"budgets", "jobs", "conversations", "goals", "source", "servers"},
	} {
		text, err := os.ReadFile(filepath.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range parts {
			if !bytes.Contains(text, []byte("<!-- bench:"+name+" -->\n")) || !bytes.Contains(text, []byte("<!-- /bench:"+name+" -->\n")) {
				t.Errorf("%s lacks the markers of %s", page, name)
			}
		}
		if _, err := os.Stat("results.json"); errors.Is(err, fs.ErrNotExist) {
			continue // the tables are older than the file
		}
		generated, err := partsOf("results.json")
		if err != nil {
			t.Fatal(err)
		}
		if next, err := replaceParts(string(text), generated); err != nil || next != string(text) {
			t.Errorf("%s differs from results.json (%v): run go run . -report results.json", page, err)
		}
	}
}

func TestRecordAppendsRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	for range 2 {
		r := newRecorder(newPrinter(io.Discard, true), []string{"-record", file})
		err := errors.Join(
			r.ours(line{Name: "chain10", N: 10, NsPerOp: 500}, "step"),
			r.ours(line{Name: "chain100_postgres", Note: "no Postgres"}, "step"),
			r.peer(peerLine{Name: "chain10", Peer: "eino", Note: "why"}),
			r.save(file),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := readResults(file)
	if err != nil || len(all.Runs) != 2 || len(all.Runs[1].Lines) != 2 || all.Runs[0].Machine == "" || all.Runs[0].Date == "" || !all.Runs[0].Medians {
		t.Errorf("the file has %+v, %v", all, err)
	}
}

func TestRecordMeasuresPublishedJobs(t *testing.T) {
	s, err := parseFlags([]string{"-record", "x", "-runs", "3"}, io.Discard)
	if err != nil || s.runs != 3 || len(s.jobs) == 0 || len(s.jobs) >= len(catalogue) {
		t.Errorf("-record measures %d of %d jobs %d times, %v", len(s.jobs), len(catalogue), s.runs, err)
	}
	for _, h := range highlighted {
		if j, ok := findJob(h.job); !ok || !published(j) {
			t.Errorf("the README shows %s, which -record does not measure", h.job)
		}
	}
	if err := run(context.Background(), []string{"-runs", "0"}, io.Discard, io.Discard); err == nil {
		t.Error("accepted -runs 0")
	}
}
