package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/need"
)

const issue = "https://github.com/treadle-go/treadle/issues/7"

// repository writes a quarantine file and a package "server" with TestCancel, and returns
// the path of the file.
func repository(t *testing.T, lines ...string) string {
	t.Helper()
	root := t.TempDir()
	file := filepath.Join(root, ".ci", "quarantine")
	for name, text := range map[string]string{
		file: strings.Join(lines, "\n"),
		filepath.Join(root, "server", "a_test.go"):  "package server\n\nfunc TestCancel(t *testing.T) {}\n",
		filepath.Join(root, "root_test.go"):         "package treadle\n\nfunc TestRoot(t *testing.T) {}\n",
		filepath.Join(root, "server", "notests.go"): "package server\n\nfunc TestOther(t *testing.T) {}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestQuarantineLines(t *testing.T) {
	now := time.Date(2026, 11, 18, 15, 0, 0, 0, time.UTC)
	const server = modulePath + "/server"
	for _, test := range []struct {
		line    string
		problem string // "" if the line is valid
	}{
		{"2026-11-18 " + issue + " " + server + " TestCancel", ""},
		{"2026-11-11 " + issue + " " + server + " TestCancel", ""},
		{"2026-11-18 " + issue + " " + modulePath + " TestRoot", ""},
		{"2026-11-10 " + issue + " " + server + " TestCancel", "quarantine of TestCancel expired on 2026-11-17"},
		{"2026-12-18 " + issue + " " + server + " TestCancel", "invalid date"},
		{"yesterday " + issue + " " + server + " TestCancel", "invalid date"},
		{"2026-11-18 soon " + server + " TestCancel", "invalid issue"},
		{"2026-11-18 " + server + " TestCancel", "malformed line"},
		{"2026-11-18 " + issue + " " + server + " TestCancel/twice", "invalid test"},
		{"2026-11-18 " + issue + " " + server + " TestCance", "unknown test"},
		{"2026-11-18 " + issue + " " + server + " TestOther", "unknown test"},
		{"2026-11-18 " + issue + " example.com/server TestCancel", "unknown test"},
		{"# 2026-11-18", ""},
		{"", ""},
	} {
		valid, problems := readQuarantine(repository(t, "# a comment", test.line), now)
		isTest := strings.Contains(test.line, "Test")
		if test.problem == "" {
			if len(problems) > 0 || isTest != (len(valid) == 1) {
				t.Errorf("%s: %v, %v; want a valid line", test.line, valid, problems)
			}
			continue
		}
		if len(valid) > 0 || len(problems) != 1 || !strings.Contains(problems[0], ".ci"+string(filepath.Separator)+"quarantine:2: "+test.problem) {
			t.Errorf("%s: %v, %q; want %q", test.line, valid, problems, test.problem)
		}
	}
}

func TestMissingQuarantineFileFails(t *testing.T) {
	if _, problems := readQuarantine(filepath.Join(t.TempDir(), "quarantine"), time.Now()); len(problems) != 1 {
		t.Errorf("problems: %q, want one", problems)
	}
}

// The file in the repository must be readable; whether its lines have expired depends on
// the day, and make test checks it.
func TestRepositoryQuarantineIsWellFormed(t *testing.T) {
	_, problems := readQuarantine("../../../.ci/quarantine", time.Now())
	problems = slices.DeleteFunc(problems, func(s string) bool { return strings.Contains(s, " expired on ") })
	for _, p := range problems {
		t.Error(p)
	}
}

func quarantine(pkg, test string) options {
	return options{quarantine: []quarantined{{date: time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC), issue: issue, pkg: pkg, test: test}}}
}

const flaky = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestB/s"}
{"Action":"output","Package":"p","Test":"TestB/s","Output":"    a_test.go:3: too late\n"}
{"Action":"fail","Package":"p","Test":"TestB/s","Elapsed":0}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p","Elapsed":0}
{"Action":"exit"}
`

func TestQuarantinedTestMayFail(t *testing.T) {
	var out bytes.Buffer
	ok, err := run(strings.NewReader(flaky), &out, quarantine("p", "TestB"))
	want := `    a_test.go:3: too late
QUAR  p  (tests: 3, 0.00s)

quarantined:
  p TestB (` + issue + `, until 2026-11-25)
  p TestB/s (` + issue + `, until 2026-11-25)
1 passed, 0 failed
`
	if !ok || err != nil || out.String() != want {
		t.Errorf("run = %v, %v, and the report is\n%s\nwant\n%s", ok, err, &out, want)
	}
}

func TestQuarantineCoversNothingElse(t *testing.T) {
	for name, o := range map[string]options{
		"another test":    quarantine("p", "TestA"),
		"another package": quarantine("q", "TestB"),
		"a prefix":        quarantine("p", "Test"),
	} {
		var out bytes.Buffer
		if ok, err := run(strings.NewReader(flaky), &out, o); ok || err != nil || !strings.HasSuffix(out.String(), "1 passed, 2 failed\n") {
			t.Errorf("%s: run = %v, %v, and the report is\n%s", name, ok, err, &out)
		}
	}
}

// Tests after a panic did not run, so the package has not passed.
func TestQuarantinedPanicFails(t *testing.T) {
	stream := strings.Replace(flaky, `{"Action":"output","Package":"p","Output":"FAIL\n"}`+"\n", "", 1)
	var out bytes.Buffer
	if ok, err := run(strings.NewReader(stream), &out, quarantine("p", "TestB")); ok || err != nil {
		t.Errorf("run = %v, %v, and the report is\n%s", ok, err, &out)
	}
}

func TestInvalidQuarantineFails(t *testing.T) {
	stream := `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}` + "\n" + `{"Action":"pass","Package":"p","Elapsed":0}` + "\n"
	var out bytes.Buffer
	ok, err := run(strings.NewReader(stream), &out, options{invalid: []string{"quarantine:2: expired"}})
	if ok || err != nil || !strings.HasSuffix(out.String(), "failed:\n  quarantine:2: expired\n1 passed, 1 failed\n") {
		t.Errorf("run = %v, %v, and the report is\n%s", ok, err, &out)
	}
}

func TestLeftOutTestsAreCounted(t *testing.T) {
	const skips = `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestB","Output":"    pgtest.go:3: left out: needs Postgres\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestC","Output":"    pgtest.go:3: left out: needs Postgres\n"}
{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":0}
`
	var out bytes.Buffer
	ok, err := run(strings.NewReader(skips), &out, options{without: []string{need.Postgres}, leftOut: []string{"package q"}})
	want := "ok    p  (tests: 3, 0.00s)\n\nleft out:\n  tests that need Postgres: 2\n  package q\n1 passed, 0 failed\n"
	if !ok || err != nil || out.String() != want {
		t.Errorf("run = %v, %v, and the report is\n%s\nwant\n%s", ok, err, &out, want)
	}
	out.Reset()
	ok, err = run(strings.NewReader(skips), &out, options{without: []string{need.Node}})
	if ok || err != nil || !strings.HasSuffix(out.String(), "1 passed, 2 failed\n") {
		t.Errorf("with Postgres: run = %v, %v, and the report is\n%s", ok, err, &out)
	}
}

func TestUnreportedFailureFails(t *testing.T) {
	const pass = `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}` + "\n" + `{"Action":"pass","Package":"p","Elapsed":0}` + "\n"
	for name, stream := range map[string]string{
		"only command":            pass + `{"Action":"exit"}` + "\n",
		"after a reported one":    flaky + pass + `{"Action":"exit"}` + "\n",
		"before any event at all": `{"Action":"exit"}` + "\n" + pass,
	} {
		var out bytes.Buffer
		ok, err := run(strings.NewReader(stream), &out, quarantine("p", "TestB"))
		if ok || err != nil || !strings.Contains(out.String(), "failed:\n  a command that reported no failure\n") {
			t.Errorf("%s: run = %v, %v, and the report is\n%s", name, ok, err, &out)
		}
	}
}
