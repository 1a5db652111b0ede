// Testreport summarizes the events of one or more runs of go test -json:
//
//	go test -race -json ./... | go run ./internal/test/testreport
//
// It prints a line for each package when it finishes, preceded by the output of its failed
// tests. Output of the compiler and vet is printed as it arrives. The last line is the tally
// alone:
//
//	412 passed, 0 failed
//
// Tests and subtests count alike. A test that was skipped, or that ended without a result
// because its process panicked or timed out, counts as failed: a check that did not happen did
// not pass. So does a package that failed outside its tests, a failed build, and a stream in
// which no test ran.
//
// There are three exceptions. A test skipped by package need, for a program that
// TREADLE_TEST_WITHOUT lists, is left out: the report counts such tests by program, before
// the tally. Each -left-out flag adds a line to that list. A test listed in the -quarantine
// file may fail for a week; see quarantine.go. With -rerun, a few failures may be excused by
// running the tests again; see rerun.go. For this, the line
// {"Action":"command","Output":"go test -race"} precedes the events of each command.
//
// To detect a go test command that fails without reporting a failure, write the line
// {"Action":"exit"} after the events of each failed command.
//
// The exit status is 0 if nothing failed and something passed, and 1 otherwise.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/internal/test/need"
)

func main() {
	o := options{without: need.Without()}
	flag.Func("left-out", "`line` about tests that the run omits; repeatable", func(s string) error {
		o.leftOut = append(o.leftOut, s)
		return nil
	})
	file := flag.String("quarantine", "", "the `file` that lists quarantined tests, in a directory below the root of the repository")
	again := flag.Bool("rerun", false, "run failed tests again, alone, and accept failures of tests that then pass")
	flag.Parse()
	if *again {
		o.rerun = rerun
	}
	if *file != "" {
		o.quarantine, o.invalid = readQuarantine(*file, time.Now())
	}
	ok, err := run(os.Stdin, os.Stdout, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

// An event is one line of the stream. See go doc cmd/test2json for test events and go
// help buildjson for build events.
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64
	Output      string
	ImportPath  string // for a build
	FailedBuild string // the build that prevented a package from being tested
}

type options struct {
	without    []string // programs whose tests may be skipped
	leftOut    []string // lines about what else the run leaves out
	quarantine []quarantined
	invalid    []string                             // problems of the quarantine, which fail the run
	rerun      func(f failure, out io.Writer) error // nil: failures count
}

// run reports on the stream in. It returns true if all tests passed, and an error if the
// stream could not be read to its end.
func run(in io.Reader, out io.Writer, o options) (bool, error) {
	w := bufio.NewWriter(out)
	r := &report{
		options:  o,
		out:      w,
		packages: map[string]*testedPackage{},
		builds:   map[string]bool{},
		needs:    map[string]int{},
		trouble:  o.invalid,
	}
	lines := bufio.NewReader(in)
	var err error
	for err == nil {
		var line []byte
		line, err = lines.ReadBytes('\n')
		if len(line) == 0 {
			continue
		}
		var ev event
		if json.Unmarshal(line, &ev) != nil || ev.Action == "" {
			fmt.Fprintf(w, "%s\n", strings.TrimSuffix(string(line), "\n")) // not part of the stream: pass it on
		} else {
			r.add(ev)
		}
		if flushErr := w.Flush(); flushErr != nil {
			return false, flushErr
		}
	}
	if err == io.EOF {
		err = nil
	}
	ok := r.close() && err == nil
	return ok, cmp.Or(err, w.Flush())
}

// A report is the state of the stream so far.
type report struct {
	options
	out      io.Writer
	packages map[string]*testedPackage // unfinished packages
	builds   map[string]bool           // failed builds; true once a package has reported it
	failed   bool                      // whether the current command has reported a failure
	passed   int
	needs    map[string]int // number of tests left out, by program
	accepted []string       // one entry per failure of a quarantined test
	trouble  []string       // one entry per failure
	command  string         // the command whose events are being read
	flaky    []failure      // failed tests that may run again
}

type testedPackage struct {
	name   string
	tests  []*test // in start order
	byName map[string]*test
	output []string // outside any test
}

type test struct {
	name   string
	result string // the final action; "" while the test runs
	output []string
	paused bool // waited for others: it is parallel
}

func (r *report) add(ev event) {
	switch ev.Action {
	case "build-output":
		fmt.Fprint(r.out, ev.Output)
		return
	case "build-fail":
		r.builds[ev.ImportPath], r.failed = false, true
		return
	case "command":
		r.command = strings.TrimSpace(ev.Output)
		return
	case "exit":
		if !r.failed && len(r.packages) == 0 {
			r.fail("a command that reported no failure")
		}
		r.failed = false
		return
	}
	if ev.Package == "" {
		return
	}
	p := r.packages[ev.Package]
	if p == nil {
		p = &testedPackage{name: ev.Package, byName: map[string]*test{}}
		r.packages[ev.Package] = p
	}
	final := ev.Action == "pass" || ev.Action == "fail" || ev.Action == "skip"
	switch {
	case ev.Test == "" && ev.Action == "output":
		p.output = append(p.output, ev.Output)
	case ev.Test == "" && final:
		delete(r.packages, p.name)
		r.finish(p, ev)
	case ev.Test == "":
	case ev.Action == "output":
		t := p.test(ev.Test)
		t.output = append(t.output, ev.Output)
	case final:
		t := p.test(ev.Test)
		t.result = ev.Action
		if ev.Action == "pass" {
			t.output = nil // later output belongs to the failure of the package
		}
	default:
		t := p.test(ev.Test)
		t.paused = t.paused || ev.Action == "pause"
	}
}

func (p *testedPackage) test(name string) *test {
	t := p.byName[name]
	if t == nil {
		t = &test{name: name}
		p.byName[name] = t
		p.tests = append(p.tests, t)
	}
	return t
}

// finish reports on a package that ended with ev.
func (r *report) finish(p *testedPackage, ev event) {
	if ev.FailedBuild != "" {
		r.builds[ev.FailedBuild] = true
	}
	if ev.Action == "skip" {
		fmt.Fprintf(r.out, "none  %s  (no test files)\n", p.name)
		return
	}
	r.failed = r.failed || ev.Action == "fail"
	before, accepted := len(r.trouble), len(r.accepted)
	for _, t := range p.tests {
		switch t.result {
		case "pass":
			r.passed++
		case "fail":
			if q := r.quarantined(p, t); q != nil {
				r.accepted = append(r.accepted, fmt.Sprintf("%s %s (%s, until %s)", p.name, t.name, q.issue, q.until().Format(time.DateOnly)))
			} else {
				r.fail("%s %s", p.name, t.name)
				if p.mayRerun() {
					r.candidate(p, t)
				}
			}
		case "skip":
			if name := t.needs(); slices.Contains(r.without, name) {
				r.needs[name]++
			} else {
				r.fail("%s %s (skipped)", p.name, t.name)
			}
		default:
			r.fail("%s %s (did not finish)", p.name, t.name)
		}
	}
	if ev.Action == "fail" && len(r.trouble) == before && len(r.accepted) == accepted {
		what := "outside its tests"
		if ev.FailedBuild != "" {
			what = "build of " + ev.FailedBuild
		}
		r.fail("%s (%s)", p.name, what)
	}
	verdict := "ok  "
	switch {
	case len(r.trouble) > before:
		verdict = "FAIL"
		p.print(r.out)
	case len(r.accepted) > accepted:
		verdict = "QUAR"
		p.print(r.out)
	}
	took := fmt.Sprintf("%.2fs", ev.Elapsed)
	if slices.ContainsFunc(p.output, func(s string) bool { return strings.HasSuffix(s, "\t(cached)\n") }) {
		took = "cached"
	}
	fmt.Fprintf(r.out, "%s  %s  (tests: %d, %s)\n", verdict, p.name, len(p.tests), took)
}

// needs returns the program that a skipped test needs, or "" if package need did not skip
// it.
func (t *test) needs() string {
	for _, line := range t.output {
		if name := need.Skipped(line); name != "" {
			return name
		}
	}
	return ""
}

// print writes the output of a failed package: its tests first, then the package itself.
func (p *testedPackage) print(out io.Writer) {
	for _, t := range p.tests {
		if t.result == "" {
			fmt.Fprintf(out, "--- %s did not finish\n", t.name)
		}
		for _, s := range t.output {
			if !strings.HasPrefix(s, "=== ") { // RUN, PAUSE, CONT, NAME
				fmt.Fprint(out, s)
			}
		}
	}
	for _, s := range p.output {
		verdict := s == "PASS\n" || s == "FAIL\n" || strings.HasPrefix(s, "FAIL\t"+p.name) || strings.HasPrefix(s, "ok  \t"+p.name)
		if !verdict { // our own verdict follows
			fmt.Fprint(out, s)
		}
	}
}

// list writes lines under a title, if there are any.
func (r *report) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(r.out, "\n%s:\n", title)
	for _, s := range lines {
		fmt.Fprintf(r.out, "  %s\n", s)
	}
}

func (r *report) fail(format string, args ...any) {
	r.trouble = append(r.trouble, fmt.Sprintf(format, args...))
}

// close reports unfinished packages and builds, and then the totals.
func (r *report) close() bool {
	open := make([]*testedPackage, 0, len(r.packages))
	for _, p := range r.packages {
		open = append(open, p)
	}
	slices.SortFunc(open, func(a, b *testedPackage) int { return cmp.Compare(a.name, b.name) })
	for _, p := range open {
		fmt.Fprintf(r.out, "the stream ended before %s did\n", p.name)
		r.finish(p, event{Action: "fail"})
	}
	var builds []string
	for path, answered := range r.builds {
		if !answered {
			builds = append(builds, path)
		}
	}
	slices.Sort(builds)
	for _, path := range builds {
		r.fail("build of %s", path)
	}
	if r.passed == 0 && len(r.trouble) == 0 {
		r.fail("no test ran")
	}
	var leftOut []string
	for _, name := range slices.Sorted(maps.Keys(r.needs)) {
		leftOut = append(leftOut, fmt.Sprintf("tests that need %s: %d", name, r.needs[name]))
	}
	r.list("left out", append(leftOut, r.leftOut...))
	excused := r.again()
	if len(excused) > 0 {
		r.trouble = nil
	}
	r.list("quarantined", r.accepted)
	r.list("flaky", excused)
	r.list("failed", r.trouble)
	fmt.Fprintf(r.out, "%d passed, %d failed\n", r.passed, len(r.trouble))
	return len(r.trouble) == 0
}
