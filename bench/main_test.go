package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestFlags(t *testing.T) {
	s, err := parseFlags([]string{"-json", "-peers", "-only", " loop1000,chain10,chain10"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, j := range s.jobs {
		names = append(names, j.name)
	}
	if !s.json || !s.peers || !slices.Equal(names, []string{"chain10", "loop1000"}) {
		t.Errorf("json %t, peers %t, jobs %v; want both flags and the two jobs once each, in catalog order", s.json, s.peers, names)
	}
}

func TestJSONAndMarkdownAreExclusive(t *testing.T) {
	if _, err := parseFlags([]string{"-json", "-markdown"}, io.Discard); err == nil {
		t.Error("-json and -markdown were accepted together")
	}
	s, err := parseFlags([]string{"-markdown", "-strict"}, io.Discard)
	if _, ok := s.printer(io.Discard).(*markdownPrinter); err != nil || !ok || !s.strict {
		t.Errorf("settings %+v, %v", s, err)
	}
}

func TestNoOnlyMeansAll(t *testing.T) {
	s, err := parseFlags(nil, io.Discard)
	if err != nil || len(s.jobs) != len(catalogue) || s.json || s.peers {
		t.Errorf("no flags: %+v, %v", s, err)
	}
}

func TestOnlyAcceptsNamePrefixes(t *testing.T) {
	jobs, err := selectJobs("server,chain100")
	if err != nil {
		t.Fatal(err)
	}
	others, servers := apart(jobs)
	if _, all := apart(catalogue); len(servers) != len(all) || len(others) != 1 || others[0].name != "chain100" {
		t.Errorf("-only server,chain100: %v and %v", others, servers)
	}
}

func TestUnknownJobErrorListsNames(t *testing.T) {
	for _, only := range []string{"chain11", "chain10,", "chain10,chain11"} {
		_, err := parseFlags([]string{"-only", only}, io.Discard)
		if err == nil {
			t.Errorf("-only %q was accepted", only)
			continue
		}
		for _, name := range jobNames() {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("-only %q: error %q does not list %s", only, err, name)
			}
		}
	}
}

func TestStrayArgumentIsRejected(t *testing.T) {
	if _, err := parseFlags([]string{"chain10"}, io.Discard); err == nil {
		t.Error("stray argument was accepted")
	}
}

func TestJSONLines(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out, true)
	b := bench{ours: map[string]line{"chain10": {NsPerOp: 500}}}
	err := errors.Join(
		p.ours(line{Name: "chain10", N: 10, NsPerOp: 500, AllocsPerOp: 2, BytesPerOp: 64}, "step"),
		p.peer(b.against("eino", line{Name: "chain10", NsPerOp: 5000})),
		p.peer(peerLine{Name: "send100", Peer: "eino", Note: "why"}),
		p.flush(),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"chain10","n":10,"ns_per_op":500,"allocs_per_op":2,"bytes_per_op":64,"note":""}
{"name":"chain10","peer":"eino","ours_ns":500,"peer_ns":5000,"ratio":10}
{"name":"send100","peer":"eino","note":"why"}
`
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", &out, want)
	}
}

func TestTableGroupsEnginesByJob(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out, false)
	b := bench{ours: map[string]line{"chain10": {NsPerOp: 500}}}
	err := errors.Join(
		p.ours(line{Name: "chain10", N: 10, NsPerOp: 500}, "step"),
		p.ours(line{Name: "loop1000", N: 1000, NsPerOp: 700}, "step"),
		p.peer(b.against("langgraph.js", line{Name: "chain10", NsPerOp: 6e5})),
		p.flush(),
	)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 4 || !strings.Contains(rows[2], "langgraph.js") || !strings.Contains(rows[2], "600µs/step") || !strings.Contains(rows[2], "1200.0") {
		t.Errorf("table:\n%s", &out)
	}
}

func TestTrialsReportMedians(t *testing.T) {
	results := []line{
		{NsPerOp: 3, Turn10Ns: 1, BytesPerOp: 7, Note: "first"},
		{NsPerOp: 9, Turn10Ns: 2, BytesPerOp: 9},
		{NsPerOp: 2, Turn10Ns: 5, BytesPerOp: 8, Note: "last"},
	}
	i := 0
	w := newTrial("chain10", "n", len(results), func(context.Context, job) (line, error) {
		i++
		return results[i-1], nil
	})
	got, err := measure(t.Context(), time.Millisecond, w)
	want := line{Name: "chain10", N: 10, NsPerOp: 3, LeastNs: 2, GreatestNs: 9, Turn10Ns: 2, BytesPerOp: 8, Note: "n, first"}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("measured %+v, %v, want %+v", got, err, want)
	}
}

// A job that cannot be measured gets a note, and the other jobs still run.
func TestUnmeasuredJobGetsNote(t *testing.T) {
	var out bytes.Buffer
	b := bench{out: newPrinter(&out, true), progress: io.Discard, ours: map[string]line{}}
	w := newTrial("chain100_postgres", "", 1, func(context.Context, job) (line, error) {
		return line{}, &notMeasuredError{"no Postgres", errors.New("install it")}
	})
	j, _ := findJob(w.name)
	if err := b.inTurns(t.Context(), j, side{"treadle", w}); err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"chain100_postgres","note":"not measured: no Postgres: install it"}` + "\n"
	if out.String() != want || len(b.lacks) != 1 || len(b.ours) != 0 {
		t.Errorf("printed %s, missing %v, measured %v", &out, b.lacks, b.ours)
	}
	if err := b.verdict(false); err != nil {
		t.Errorf("without -strict: %v", err)
	}
	if err := b.verdict(true); err == nil || !strings.Contains(err.Error(), "no Postgres") {
		t.Errorf("with -strict: %v", err)
	}
}

// The output of a run can be printed again in any format.
func TestReplayPrintsEarlierRun(t *testing.T) {
	const lines = `{"name":"chain10","n":10,"ns_per_op":500,"allocs_per_op":2,"bytes_per_op":64,"note":"","mean_ns":600}
{"name":"chain10","peer":"eino","ours_ns":500,"peer_ns":5000,"ratio":10}
{"name":"chain100_postgres","note":"not measured: why"}
`
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-json", "-from", path}, &out, io.Discard); err != nil || out.String() != lines {
		t.Errorf("printed\n%s%v, want\n%s", &out, err, lines)
	}
	if err := os.WriteFile(path, []byte(`{"name":"chain11"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-from", path}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "chain11") {
		t.Errorf("unknown job: %v", err)
	}
}

func TestMarkdownTables(t *testing.T) {
	var out bytes.Buffer
	p := &markdownPrinter{w: &out}
	ours := line{Name: "history500_sqlite", NsPerOp: 120e3, Turn10Ns: 100e3, Turn100Ns: 110e3, BytesPerOp: 800e3, RawBytes: 400e3}
	b := bench{ours: map[string]line{"chain10": {NsPerOp: 500}, ours.Name: ours}}
	err := errors.Join(
		p.ours(ours, "turn"),
		p.ours(line{Name: "chain10", NsPerOp: 500}, "step"),
		p.ours(line{Name: "get_state_1000", NsPerOp: 5e6, ColdNs: 6e6}, "read"),
		p.ours(line{Name: "threads10k_rss", NsPerOp: 3e5, BytesPerOp: 5400, RSSBytes: 9e7}, "thread"),
		p.ours(line{Name: "chain100_postgres", Note: "not measured: no Postgres: install it"}, "step"),
		p.peer(b.against("eino", line{Name: "chain10", NsPerOp: 5000})),
		p.peer(peerLine{Name: ours.Name, Peer: "eino", Note: "why"}),
		p.peer(b.against("langgraph.js", line{Name: ours.Name, NsPerOp: 24e6, Turn10Ns: 2e6, Turn100Ns: 4e6, BytesPerOp: 320e6, RawBytes: 400e3})),
		p.peer(b.against("langgraph", line{Name: ours.Name, NsPerOp: 12e6, Turn10Ns: 3e6, Turn100Ns: 4e6, BytesPerOp: 340e6, RawBytes: 400e3})),
		p.flush(),
	)
	if err != nil {
		t.Fatal(err)
	}
	const want = `| job | Treadle | eino | LangGraph.js | LangGraph |
|---|---|---|---|---|
| ` + "`chain10`" + ` | 500 ns | 5.00 µs: 10.0 × |  |  |
| ` + "`chain100_postgres`" + ` | not measured |  |  |  |
| ` + "`history500_sqlite`" + ` | 120 µs | cannot | 24.0 ms: 200 × | 12.0 ms: 100 × |
| ` + "`get_state_1000`" + ` | 5.00 ms, cold 6.00 ms |  |  |  |
| ` + "`threads10k_rss`" + ` | 300 µs, 5.40 kB of memory |  |  |  |

| job | engine | turn 10 | turn 100 | turn 500 | 500 / 10 | bytes | of the messages' JSON |
|---|---|---|---|---|---|---|---|
| ` + "`history500_sqlite`" + ` | Treadle | 100 µs | 110 µs | 120 µs | 1.2 × | 800 kB | 2.0 × |
| ` + "`history500_sqlite`" + ` | LangGraph.js | 2.00 ms | 4.00 ms | 24.0 ms | 12.0 × | 320 MB | 800 × |
| ` + "`history500_sqlite`" + ` | LangGraph | 3.00 ms | 4.00 ms | 12.0 ms | 4.0 × | 340 MB | 850 × |
`
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", &out, want)
	}
}

func TestMarkdownPrintsServerTable(t *testing.T) {
	var out bytes.Buffer
	p := &markdownPrinter{w: &out}
	one := line{Name: "server_wait_stateless", NsPerOp: 1e6, P50Ns: 1e6, P95Ns: 3e6, PerSecond: 900}
	many := line{Name: "server_wait_stateless32", NsPerOp: 5e5, P50Ns: 15e6, P95Ns: 20e6, PerSecond: 2000}
	read := line{Name: "server_sse1000", NsPerOp: 2e3, PerSecond: 5e5, RSSBytes: 84e6}
	b := bench{ours: map[string]line{one.Name: one, many.Name: many, read.Name: read}}
	err := errors.Join(
		p.ours(one, "request"), p.ours(many, "request"), p.ours(read, "frame"),
		p.peer(b.against("langgraph.js", line{Name: one.Name, NsPerOp: 540e6, P50Ns: 540e6, P95Ns: 560e6, PerSecond: 1.8})),
		p.peer(b.against("langgraph.js", line{Name: many.Name, NsPerOp: 50e6, P50Ns: 1.5e9, P95Ns: 2e9, PerSecond: 20})),
		p.peer(peerLine{Name: read.Name, Peer: "langgraph", Note: "not measured: why"}),
		p.flush(),
	)
	if err != nil {
		t.Fatal(err)
	}
	const want = `| job | Treadle | LangGraph's JavaScript server | LangGraph's Python server |
|---|---|---|---|
| ` + "`server_wait_stateless`" + ` | 1.00 ms, p95 3.00 ms | 540 ms, p95 560 ms: 540 × |  |
| ` + "`server_wait_stateless32`" + ` | 2000/s, p50 15.0 ms, p95 20.0 ms | 20.0/s, p50 1500 ms, p95 2000 ms: 100 × |  |
| ` + "`server_sse1000`" + ` | 500000/s, 84.0 MB of memory |  | not measured |
`
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", &out, want)
	}
}

func TestMeasureCountsPerUnit(t *testing.T) {
	var sink []byte
	w := work{name: "w", unit: "step", n: 4, note: "n", run: func(context.Context) error {
		for range 4 {
			sink = make([]byte, 1024)
		}
		return nil
	}}
	lines, err := measure(t.Context(), time.Millisecond, w)
	if err != nil {
		t.Fatal(err)
	}
	l := lines[0]
	_ = sink
	if l.NsPerOp < l.LeastNs || l.NsPerOp > l.GreatestNs {
		t.Errorf("median %v not between %v and %v", l.NsPerOp, l.LeastNs, l.GreatestNs)
	}
	if l.Name != "w" || l.N != 4 || l.Note != "n" || l.NsPerOp <= 0 || l.AllocsPerOp < 1 || l.AllocsPerOp > 1.5 || l.BytesPerOp < 1024 || l.BytesPerOp > 1536 {
		t.Errorf("measured %+v, want one allocation of 1 KiB per unit", l)
	}
}

func TestWorkFailsAfterLostUpdate(t *testing.T) {
	w := newWork("chain10", "", func(context.Context) (program, error) {
		return func(context.Context) (tally, error) { return tally{count: 10, log: make([]int, 9)}, nil }, nil
	})
	if err := w.run(t.Context()); err == nil {
		t.Error("run that lost a list item was accepted")
	}
}

func TestWorkBuildsOnce(t *testing.T) {
	builds := 0
	w := newWork("chain10", "", func(context.Context) (program, error) {
		builds++
		return func(context.Context) (tally, error) { return tally{count: 10, log: make([]int, 10)}, nil }, nil
	})
	for range 3 {
		if err := w.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if builds != 1 {
		t.Errorf("built %d times: compiling would be part of the measurement", builds)
	}
}

// The run itself compares the final int and list with the catalog.
func TestTreadleRunsAllJobs(t *testing.T) {
	for _, name := range jobNames() {
		if _, ok := findWork(ours, name); !ok {
			t.Errorf("%s is in the catalog but not implemented", name)
		}
	}
	doTheWork(t, ours)
}

func TestEinoRunsJobs(t *testing.T) { doTheWork(t, einoWorks) }

// small contains reduced sizes for jobs that take seconds.
var small = func() map[string]job {
	all := map[string]job{
		"history500_memory":   {n: 20, want: 40},
		"history500_sqlite":   {n: 20, want: 40},
		"history500_postgres": {n: 20, want: 40},
		"get_state_1000":      {n: 1, want: 40},
		"threads10k_rss":      {n: 50, want: 50},
		"concurrent1000":      {n: 500, want: 10},
	}
	for _, w := range ourServer {
		all[w.name] = job{name: w.name, n: 1, want: 20}
	}
	for _, w := range append(ourStores, ourRecall) {
		all[w.name] = job{name: w.name, n: 1, want: 100}
	}
	return all
}()

func doTheWork(t *testing.T, works []work) {
	t.Cleanup(func() {
		if err := stores.close(); err != nil {
			t.Error(err)
		}
	})
	for _, w := range works {
		t.Run(w.name, func(t *testing.T) {
			if w.trial != nil {
				j, ok := small[w.name]
				if !ok {
					j = mustFind(w.name)
				}
				if l, err := w.trial(t.Context(), j); err != nil || !l.measured() {
					t.Errorf("trial: %+v, %v", l, err)
				}
				return
			}
			for range 2 { // every run of a compiled graph must start from scratch
				if err := w.run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Even small searches must request existing items.
func TestSentencesAreUnique(t *testing.T) {
	s := newSentences()
	seen := map[string]bool{}
	for _, text := range slices.Concat(s.take("question", asked), s.take("fact", 20_000)) {
		if seen[text] || strings.ContainsAny(text, "{}|") || !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") {
			t.Fatalf("%q is a duplicate or not a sentence", text)
		}
		seen[text] = true
	}
	if again := newSentences().next("question"); !seen[again] {
		t.Errorf("%q is new: sentences must be deterministic", again)
	}
}

// A search that misses one of ten has a recall of 0.9.
func TestRecallComparesWithExactSearch(t *testing.T) {
	c, err := newCorpus(t.Context(), 50, false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	notes := make([]note, len(c.facts))
	for i, text := range c.facts {
		notes[i] = note{Text: text}
	}
	slices.SortFunc(notes, func(a, b note) int {
		return cmp.Compare(cosine(c.vectors[0], c.vectors[c.at[b.Text]]), cosine(c.vectors[0], c.vectors[c.at[a.Text]]))
	})
	if got := c.recall(0, 50, notes[:10]); got != 1 {
		t.Errorf("recall of the ten nearest: %v", got)
	}
	if got := c.recall(0, 50, append(slices.Clone(notes[:9]), notes[40])); got != 0.9 {
		t.Errorf("recall of nine of them: %v", got)
	}
}

func TestVectorsAreEmbeddedOnce(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
	made := 0
	embed := func() ([][]float32, error) {
		made++
		v := make([]float32, dimension)
		v[3] = 0.5
		return [][]float32{v, v}, nil
	}
	first, err := cached("some.f32", 2, embed)
	if err != nil {
		t.Fatal(err)
	}
	second, err := cached("some.f32", 2, embed)
	if err != nil || made != 1 || !slices.EqualFunc(first, second, slices.Equal) {
		t.Errorf("embedded %d times, %v", made, err)
	}
	if _, err := cached("some.f32", 3, embed); err != nil || made != 2 {
		t.Errorf("file of another size was used: embedded %d times, %v", made, err)
	}
}

func TestEinoRunsNodesInOrder(t *testing.T) {
	for name, build := range map[string]func(context.Context) (program, error){
		"chain": einoChain(50), "loop": einoLoop(120), "wide": einoWide,
	} {
		run, err := build(t.Context())
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := run(t.Context())
		if err != nil {
			t.Fatal(name, err)
		}
		for i, v := range got.log {
			if v != i+1 {
				t.Fatalf("%s: list item %d is %d", name, i, v)
			}
		}
	}
}

func TestEinoRunsOrExplainsEveryJob(t *testing.T) {
	for _, j := range catalogue {
		_, does := findWork(einoWorks, j.name)
		if _, explains := einoLacks[j.name]; does == explains {
			t.Errorf("%s: implemented %t, reason for omission %t", j.name, does, explains)
		}
	}
}
