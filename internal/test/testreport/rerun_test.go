package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// stream returns the events of a package whose tests failed with the given output. The process
// ended normally if last is "FAIL\n".
func stream(output, last string, tests ...string) string {
	var b strings.Builder
	b.WriteString(`{"Action":"command","Output":"go test -race"}` + "\n")
	b.WriteString(`{"Action":"pass","Package":"p","Test":"TestOther"}` + "\n")
	for _, name := range tests {
		fmt.Fprintf(&b, "{\"Action\":\"output\",\"Package\":\"p\",\"Test\":%q,\"Output\":%q}\n", name, output)
		fmt.Fprintf(&b, "{\"Action\":\"fail\",\"Package\":\"p\",\"Test\":%q}\n", name)
	}
	fmt.Fprintf(&b, "{\"Action\":\"output\",\"Package\":\"p\",\"Output\":%q}\n", last)
	b.WriteString(`{"Action":"fail","Package":"p"}` + "\n" + `{"Action":"exit"}` + "\n")
	return b.String()
}

// parallel returns the events of parallel tests that wait.
func parallel(tests ...string) string {
	var b strings.Builder
	for _, name := range tests {
		fmt.Fprintf(&b, "{\"Action\":\"pause\",\"Package\":\"p\",\"Test\":%q}\n", name)
	}
	return b.String()
}

func TestRerun(t *testing.T) {
	many := make([]string, maxFlaky+1)
	for i := range many {
		many[i] = fmt.Sprint("Test", i)
	}
	for _, test := range []struct {
		name   string
		stream string
		err    error
		reran  string
		ok     bool
	}{
		{"passes", stream("late\n", "FAIL\n", "TestA"), nil, "go test -race p TestA", true},
		{"subtests", stream("late\n", "FAIL\n", "TestA/b/c", "TestA/b", "TestA/e", "TestA"), nil, "go test -race p TestA", true},
		{"parallel subtests", parallel("TestA/b", "TestA/e") + stream("late\n", "FAIL\n", "TestA/b/c", "TestA/b/d", "TestA/b", "TestA/e", "TestA"), nil, "go test -race p TestA/b TestA/e", true},
		{"some parallel subtests", parallel("TestA/b") + stream("late\n", "FAIL\n", "TestA/b", "TestA/e", "TestA"), nil, "go test -race p TestA", true},
		{"fails", stream("late\n", "FAIL\n", "TestA"), errors.New("exit status 1"), "go test -race p TestA", false},
		{"race", stream("WARNING: DATA RACE\n", "FAIL\n", "TestA"), nil, "", false},
		{"panic", stream("panic: nil\n", "exit status 2\n", "TestA"), nil, "", false},
		{"many", stream("late\n", "FAIL\n", many...), nil, "", false},
		{"skip", `{"Action":"skip","Package":"p","Test":"TestS"}` + "\n" + stream("late\n", "FAIL\n", "TestA"), nil, "", false},
		{"build", `{"Action":"build-fail","ImportPath":"q"}` + "\n" + stream("late\n", "FAIL\n", "TestA"), nil, "", false},
		{"command", strings.Replace(stream("late\n", "FAIL\n", "TestA"), "command", "start", 1), nil, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var reran []string
			var out bytes.Buffer
			ok, err := run(strings.NewReader(test.stream), &out, options{rerun: func(f failure, _ io.Writer) error {
				reran = append(reran, f.command+" "+f.pkg+" "+strings.Join(f.names(), " "))
				return test.err
			}})
			if ok != test.ok || err != nil {
				t.Errorf("run = %v, %v; want %v\n%s", ok, err, test.ok, &out)
			}
			if got := strings.Join(reran, ", "); got != test.reran {
				t.Errorf("ran %q again, want %q", got, test.reran)
			}
			if tally := strings.HasSuffix(out.String(), " 0 failed\n"); tally != test.ok {
				t.Errorf("report:\n%s", &out)
			}
			if listed := strings.Contains(out.String(), "flaky:\n  p TestA (failed once"); listed != test.ok {
				t.Errorf("report:\n%s", &out)
			}
		})
	}
}

func TestRerunFailsWithFailingTest(t *testing.T) {
	var out bytes.Buffer
	f := failure{pkg: "./testdata/none", test: "TestX", command: "go test -json"}
	if err := rerun(f, &out); err == nil {
		t.Error("an unknown package passed")
	}
	for _, test := range []struct {
		f   failure
		err string
	}{
		{failure{test: "TestCutStreamFails"}, ""},
		{failure{test: "TestRerun", subtests: []string{"passes", "race"}}, ""},
		{failure{test: "TestRerun", subtests: []string{"passes", "gone(1)"}}, "TestRerun/gone(1) did not run again"},
		{failure{test: "TestGone"}, "TestGone did not run again"},
	} {
		test.f.pkg, test.f.command = ".", "go test -json"
		out.Reset()
		if err := rerun(test.f, &out); err == nil && test.err != "" || err != nil && err.Error() != test.err {
			t.Errorf("%v: %v, want %q\n%s", test.f.names(), err, test.err, &out)
		}
	}
}
