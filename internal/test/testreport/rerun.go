package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// With -rerun, tests that failed run again alone after the stream has ended, each as often as
// reruns. Of a test with failed subtests, only these run again if they are parallel; other
// subtests may need those before them. If all of them pass, the report lists their failures as
// flaky, and they do not fail the run. A failure counts without a rerun if luck cannot excuse it: the race detector found a
// race, the process of the test panicked or timed out, a check outside the tests failed (such as
// goleak's), or more than maxFlaky test functions failed.
const (
	reruns   = 2
	maxFlaky = 5
)

// failure is a test function that failed, with its subtests.
type failure struct {
	pkg      string
	test     string
	subtests []string // those directly below test that failed, if all of these are parallel
	serial   bool     // a subtest that is not parallel failed
	command  string   // the go test command that ran it, from an event with the action "command"
	results  int      // number of failures, with those of subtests
}

// candidate notes a failed test that may run again.
func (r *report) candidate(p *testedPackage, t *test) {
	name, below, _ := strings.Cut(t.name, "/")
	again := failure{pkg: p.name, test: name, command: r.command}
	i := slices.IndexFunc(r.flaky, func(f failure) bool { return f.pkg == again.pkg && f.test == again.test && f.command == again.command })
	if i < 0 {
		i = len(r.flaky)
		r.flaky = append(r.flaky, again)
	}
	f := &r.flaky[i]
	f.results++
	subtest, _, _ := strings.Cut(below, "/")
	top := p.byName[name+"/"+subtest]
	switch {
	case subtest == "" || f.serial || slices.Contains(f.subtests, subtest):
	case top == nil || !top.paused:
		f.subtests, f.serial = nil, true
	default:
		f.subtests = append(f.subtests, subtest)
	}
}

// mayRerun reports whether a failure of a test of p can be the test's fault.
func (p *testedPackage) mayRerun() bool {
	raced := func(line string) bool { return strings.Contains(line, "WARNING: DATA RACE") }
	if slices.ContainsFunc(p.output, raced) {
		return false
	}
	for _, t := range p.tests {
		if slices.ContainsFunc(t.output, raced) {
			return false
		}
	}
	// Package testing prints FAIL after the last test. A process that ends early does not get there.
	return slices.Contains(p.output, "FAIL\n")
}

// again runs the failed tests again and returns true if the run passes because of them. Its
// lines describe the tests that passed.
func (r *report) again() (excused []string) {
	failures := 0
	for _, f := range r.flaky {
		failures += f.results
	}
	if r.rerun == nil || len(r.flaky) == 0 || len(r.flaky) > maxFlaky || failures != len(r.trouble) {
		return nil
	}
	for _, f := range r.flaky {
		if f.command == "" {
			return nil
		}
		fmt.Fprintf(r.out, "\nagain, %d times: %s %s\n", reruns, f.pkg, strings.Join(f.names(), " "))
		if err := r.rerun(f, r.out); err != nil {
			fmt.Fprintf(r.out, "%v\n", err)
			return nil
		}
		excused = append(excused, fmt.Sprintf("%s %s (failed once, then passed %d times alone: fix it or quarantine it)", f.pkg, f.test, reruns))
	}
	r.passed += failures
	return excused
}

// names returns the full names of the tests to run again.
func (f *failure) names() []string {
	if len(f.subtests) == 0 {
		return []string{f.test}
	}
	all := make([]string, len(f.subtests))
	for i, name := range f.subtests {
		all[i] = f.test + "/" + name
	}
	return all
}

// rerun runs a test function alone, or its failed subtests, with the command that ran it before.
func rerun(f failure, out io.Writer) error {
	pattern := "^" + f.test + "$"
	if len(f.subtests) > 0 {
		quoted := make([]string, len(f.subtests))
		for i, name := range f.subtests {
			quoted[i] = regexp.QuoteMeta(name)
		}
		pattern += "/^(" + strings.Join(quoted, "|") + ")$"
	}
	line := fmt.Sprintf(`%s -json=false -v -count=%d -run "$0" %s`, f.command, reruns, f.pkg)
	cmd := exec.CommandContext(context.Background(), "sh", "-c", line, pattern)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err := cmd.Run()
	for _, name := range f.names() {
		if err == nil && !strings.Contains(printed.String(), "--- PASS: "+name+" ") {
			err = fmt.Errorf("%s did not run again", name)
		}
	}
	if err != nil {
		_, _ = io.Copy(out, &printed)
	}
	return err
}
