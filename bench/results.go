package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// published selects the jobs of -record unless -only is set: everything that the README and
// the first tables of docs/performance.md show, apart from jobs that take minutes.
func published(j job) bool {
	return !isServer(j.name) && (!strings.HasPrefix(j.name, "store_") && j.name != "memory_recall_100k" || j.name == "store_search_semantic_100k_memory")
}

// results is the content of results.json: the runs that the documentation reports.
type results struct {
	Runs []recordedRun `json:"runs"`
}

// recordedRun is one complete run of the benchmarks.
type recordedRun struct {
	Date    string            `json:"date"`
	Machine string            `json:"machine"`
	Load    string            `json:"load"` // load average of the last minute, before the run
	Command string            `json:"command"`
	Medians bool              `json:"medians"` // lines contain medians of repetitions; in older runs, minima
	Lines   []json.RawMessage `json:"lines"`   // as -json prints them
}

func readResults(file string) (results, error) {
	var r results
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// recorder passes lines on to a printer and collects them for a file.
type recorder struct {
	printer
	run recordedRun
}

func newRecorder(out printer, args []string) *recorder {
	return &recorder{out, recordedRun{
		Date: time.Now().Format(time.DateOnly), Machine: machine(), Load: loadAverage(),
		Command: "go run . " + strings.Join(args, " "), Medians: true,
	}}
}

func (r *recorder) ours(l line, unit string) error {
	if !l.measured() {
		return r.printer.ours(l, unit)
	}
	return errors.Join(r.add(l), r.printer.ours(l, unit))
}

func (r *recorder) peer(l peerLine) error { return errors.Join(r.add(l), r.printer.peer(l)) }

func (r *recorder) add(l any) error {
	raw, err := json.Marshal(l)
	r.run.Lines = append(r.run.Lines, raw)
	return err
}

// save appends the run to a file.
func (r *recorder) save(file string) error {
	all, err := readResults(file)
	if err != nil {
		return err
	}
	all.Runs = append(all.Runs, r.run)
	raw, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	next := file + ".new"
	if err := os.WriteFile(next, append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// machine describes the computer.
func machine() string {
	name := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for l := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", name, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// loadAverage returns the load average of the last minute, or "unknown".
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil || len(strings.Fields(string(raw))) == 0 {
		return "unknown"
	}
	return strings.Fields(string(raw))[0]
}

// summary holds the medians of several runs, and the least and greatest values.
type summary struct {
	markdownPrinter
	runs    []recordedRun
	counts  map[string]int // runs per job
	medians []string       // jobs measured by runs with medians; the others have minima
}

// spread is the least and the greatest value of several runs.
type spread struct{ least, greatest float64 }

// summarize computes the medians of every job and peer. A job measured by runs with medians
// and by runs with minima has the numbers of the former, so that no row mixes the two.
func summarize(r results) (*summary, error) {
	s := &summary{runs: r.Runs, counts: map[string]int{}}
	s.spreads, s.ratios = map[string]spread{}, map[string]spread{}
	decoded := make([][]map[string]any, len(r.Runs))
	medians := map[string]bool{}
	for i, run := range r.Runs {
		decoded[i] = make([]map[string]any, len(run.Lines))
		for k, raw := range run.Lines {
			if err := json.Unmarshal(raw, &decoded[i][k]); err != nil {
				return nil, err
			}
			if name, _ := decoded[i][k]["name"].(string); run.Medians {
				medians[name] = true
			}
		}
	}
	for _, name := range jobNames() {
		if medians[name] {
			s.medians = append(s.medians, name)
		}
	}
	ours, peers := map[string][]map[string]any{}, map[[2]string][]map[string]any{}
	for i, run := range r.Runs {
		for _, l := range decoded[i] {
			name, _ := l["name"].(string)
			if medians[name] && !run.Medians {
				continue
			}
			if peer, ok := l["peer"].(string); ok {
				peers[[2]string{peer, name}] = append(peers[[2]string{peer, name}], l)
			} else {
				ours[name] = append(ours[name], l)
			}
		}
	}
	for name, all := range ours {
		var l line
		if err := medianLine(all, &l); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.counts[name], s.spreads[name] = len(all), spreadOf(all, "ns_per_op")
		if len(all) == 1 && l.LeastNs > 0 {
			s.spreads[name] = spread{l.LeastNs, l.GreatestNs}
		}
		if err := s.ours(l, ""); err != nil {
			return nil, err
		}
	}
	for key, all := range peers {
		var l peerLine
		if err := medianLine(all, &l); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", key[0], key[1], err)
		}
		s.ratios[key[0]+" "+key[1]] = spreadOf(all, "ratio")
		if err := s.peer(l); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// medianLine sets into to a line whose numbers are the medians of those in all.
func medianLine(all []map[string]any, into any) error {
	middle := map[string]any{}
	for _, l := range all {
		for key, value := range l {
			middle[key] = value
			if numbers := valuesOf(all, key); len(numbers) > 0 {
				half := len(numbers) / 2
				middle[key] = (numbers[half] + numbers[(len(numbers)-1)/2]) / 2
			}
		}
	}
	if n, ok := middle["n"].(float64); ok {
		middle["n"] = int(n)
	}
	raw, err := json.Marshal(middle)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// valuesOf returns the numbers under key, in ascending order.
func valuesOf(all []map[string]any, key string) []float64 {
	var numbers []float64
	for _, l := range all {
		if v, ok := l[key].(float64); ok {
			numbers = append(numbers, v)
		}
	}
	slices.Sort(numbers)
	return numbers
}

func spreadOf(all []map[string]any, key string) spread {
	numbers := valuesOf(all, key)
	if len(numbers) == 0 {
		return spread{}
	}
	return spread{numbers[0], numbers[len(numbers)-1]}
}

// report rewrites the marked parts of the documentation in root from a file of results. A part
// whose jobs the file lacks stays.
func report(file, root string) error {
	parts, err := partsOf(file)
	if err != nil {
		return err
	}
	for _, page := range reportedPages {
		name := filepath.Join(root, page)
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		next, err := replaceParts(string(text), parts)
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		if next != string(text) {
			if err := os.WriteFile(name, []byte(next), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportedPages are the pages with marked parts, from the root of the repository.
var reportedPages = []string{"README.md", "docs/performance.md"}

// partsOf returns the text of each marked part.
func partsOf(file string) (map[string]string, error) {
	r, err := readResults(file)
	if err != nil {
		return nil, err
	}
	if len(r.Runs) == 0 {
		return nil, fmt.Errorf("%s: no runs: measure with -record %s first", file, file)
	}
	s, err := summarize(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var jobs, conversations, servers strings.Builder
	s.jobs(&jobs)
	s.conversations(&conversations)
	s.servers(&servers)
	return map[string]string{
		"highlights": s.highlights(), "budgets": s.budgets(), "jobs": jobs.String(), "conversations": conversations.String() + s.bytes(),
		"servers": servers.String(), "source": s.source(), "goals": s.goals(),
	}, nil
}

// replaceParts replaces the text between <!-- bench:NAME --> and <!-- /bench:NAME -->.
func replaceParts(text string, parts map[string]string) (string, error) {
	for name, part := range parts {
		open, end := "<!-- bench:"+name+" -->\n", "<!-- /bench:"+name+" -->\n"
		before, rest, ok := strings.Cut(text, open)
		if !ok {
			continue
		}
		_, after, ok := strings.Cut(rest, end)
		if !ok {
			return "", fmt.Errorf("missing %s", strings.TrimSpace(end))
		}
		if part = strings.Trim(part, "\n"); part != "" {
			text = before + open + "\n" + part + "\n\n" + end + after
		}
	}
	return text, nil
}

// source describes the origin of the numbers.
func (s *summary) source() string {
	var from, to string
	var loads, machines, commands []string
	minima, add := false, func(list *[]string, text string) {
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, r := range s.runs {
		if from == "" || r.Date < from {
			from = r.Date
		}
		to = max(to, r.Date)
		add(&machines, r.Machine)
		add(&commands, "`"+r.Command+"`")
		loads = append(loads, r.Load)
		minima = minima || !r.Medians
	}
	dates := from
	if to != from {
		dates += " to " + to
	}
	slices.Sort(machines)
	least := len(s.runs)
	for _, n := range s.counts {
		least = min(least, n)
	}
	repetitions := "A run's number is the median of its repetitions."
	if minima {
		repetitions = "A run's number is the fastest of its repetitions or trials"
		if len(s.medians) > 0 {
			repetitions += ", but the median for `" + strings.Join(s.medians, "`, `") + "`"
		}
		repetitions += "."
	}
	return fmt.Sprintf("Medians of %s runs. In parentheses: the least and the greatest run or, after a single run, repetition. %s Measured in `bench` on %s by %s; "+
		"%s; load before each run: %s. Runs are in `bench/results.json`.",
		countRange(least, len(s.runs)), repetitions, dates, strings.Join(commands, ", "), strings.Join(machines, "; "), strings.Join(loads, ", "))
}

func countRange(least, most int) string {
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// highlighted are the rows of the README.
var highlighted = []struct{ work, job string }{
	{"a step without a saver", "chain100"},
	{"a step saved in memory", "chain100_memory"},
	{"a step saved in SQLite", "chain100_sqlite"},
	{"a step saved in Postgres", "chain100_postgres"},
	{"an agent's tool call, without the model", "react100"},
	{"a streamed token", "stream_tokens2000"},
	{"semantic search in 100,000 items in memory", "store_search_semantic_100k_memory"},
}

func (s *summary) highlights() string {
	var b strings.Builder
	b.WriteString("| work | time | faster than |\n|---|---|---|\n")
	rows := 0
	for _, h := range highlighted {
		l, ok := s.lines[h.job]
		if !ok {
			continue
		}
		var faster []string
		for _, c := range peerColumns {
			if p, ok := s.peers[c.peer][h.job]; ok && p.Ratio != nil {
				faster = append(faster, c.title+" "+s.ratio(c.peer, h.job, *p.Ratio))
			}
		}
		rows++
		fmt.Fprintf(&b, "| %s (`%s`) | %s | %s |\n", h.work, h.job, s.cell(l), strings.Join(faster, ", "))
	}
	if rows == 0 {
		return ""
	}
	return b.String() + "\n" + s.source()
}

// budgeted are the rows of the table of budgets.
var budgeted = []struct {
	work, budget string
	jobs         []string
}{
	{"chain step, no saver", "≤ 1 µs, ≤ 8 allocations", []string{"chain100"}},
	{"chain step, memory saver", "≤ 3 µs", []string{"chain100_memory"}},
	{"chain step, SQLite saver, Sync", "≤ 60 µs p50 (one transaction, synchronous=NORMAL)", []string{"chain100_sqlite"}},
	{"chain step, Postgres saver, Sync", "≤ 500 µs p50 (one round trip, also in pooler-safe mode)", []string{"chain100_postgres"}},
	{"Send fan-out, 1,000 tasks", "≤ 2.5 µs per task without a saver, ≤ 25 µs with SQLite", []string{"send1000", "send1000_sqlite"}},
	{"500-turn conversation", "turn 500 ≤ 1.5 × turn 10; bytes on disk ≤ 2 × (SQLite) and ≤ 3 × (Postgres) the messages' own JSON: see the second table below", []string{"history500_sqlite", "history500_postgres"}},
	{"a cold load of 1,000 messages", "≤ 15 ms", []string{"get_state_1000"}},
	{"2,000 streamed tokens", "≤ 2 µs per token through the graph", []string{"stream_tokens2000"}},
	{"cold start to first run", "≤ 20 ms", []string{"start_to_first_run"}},
	{"an agent's tool call, without the model", "≥ 30 × faster than LangGraph.js's `createReactAgent`", []string{"react10", "react100", "tool_parallel50"}},
	{"semantic search, 100,000 items of 384 dimensions", "p50 ≤ 15 ms in memory and on SQLite, recall@10 ≥ 0.95", []string{"store_search_semantic_100k_memory", "store_search_semantic_100k_sqlite"}},
	{"recall of memories, 100,000 of 384 dimensions on SQLite", "p95 ≤ 40 ms, no model call, the message's embedding not counted", []string{"memory_recall_100k"}},
	{"store get, SQLite", "≤ 20 µs", []string{"store_get_sqlite"}},
}

func (s *summary) budgets() string {
	var b strings.Builder
	b.WriteString("| work | budget | measured |\n|---|---|---|\n")
	for _, row := range budgeted {
		var cells []string
		for _, name := range row.jobs {
			if l, ok := s.lines[name]; ok {
				cell := s.cell(l)
				if l.AllocsPerOp > 0 && l.RawBytes == 0 {
					cell += fmt.Sprintf(", %.1f allocations", l.AllocsPerOp)
				}
				cells = append(cells, cell+" (`"+name+"`)")
			} else {
				cells = append(cells, "not measured (`"+name+"`)")
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.work, row.budget, strings.Join(cells, "; "))
	}
	return b.String()
}

// bytes compares the size of a conversation in SQLite.
func (s *summary) bytes() string {
	const name = "history500_sqlite"
	var fewer []string
	for _, c := range peerColumns {
		if p, ok := s.peers[c.peer][name]; ok && p.BytesRatio > 0 {
			fewer = append(fewer, fmt.Sprintf("%.0f times fewer bytes than %s", p.BytesRatio, c.title))
		}
	}
	if len(fewer) == 0 {
		return ""
	}
	return "\nOn SQLite, Treadle stores " + strings.Join(fewer, " and ") + ", with the empty tables of the store.\n"
}

// goaled are the ratios to reach.
var goaled = []struct {
	job, peer string
	ratio     float64
}{
	{"loop1000", "eino", 5},
	{"wide_state", "eino", 5},
	{"subgraph_fanout100", "eino", 5},
	{"stream_tokens2000", "eino", 1},
	{"interrupt_resume_sqlite", "langgraph.js", 20},
	{"tool_parallel50", "langgraph.js", 20},
	{"get_state_1000", "langgraph.js", 2},
}

func (s *summary) goals() string {
	var b strings.Builder
	b.WriteString("| job | peer | goal | ratio | |\n|---|---|---|---|---|\n")
	rows := 0
	for _, g := range goaled {
		p, ok := s.peers[g.peer][g.job]
		if !ok || p.Ratio == nil {
			continue
		}
		verdict := "reached"
		if *p.Ratio < g.ratio {
			verdict = "missed"
		}
		rows++
		fmt.Fprintf(&b, "| `%s` | %s | %.0f × | %s | %s |\n", g.job, titleOf(g.peer), g.ratio, s.ratio(g.peer, g.job, *p.Ratio), verdict)
	}
	if rows == 0 {
		return ""
	}
	return b.String()
}

func titleOf(peer string) string {
	for _, c := range peerColumns {
		if c.peer == peer {
			return c.title
		}
	}
	return peer
}
