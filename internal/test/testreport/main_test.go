package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

var update = flag.Bool("update", false, "rewrite the reports in testdata")

// Each stream in testdata was recorded from go test -race -json and then edited: no timestamps, relative paths, stacks
// cut short, one address for all, and in pass.json one of two cached packages made a timed one. Beside it stands the
// report that it gives.
func TestReport(t *testing.T) {
	for _, test := range []struct {
		stream string
		ok     bool
	}{
		{"pass", true},
		{"fail", false},
		{"skip", false},
		{"build", false},
		{"setup", false},
		{"panic", false},
		{"timeout", false},
		{"exit", false},
	} {
		t.Run(test.stream, func(t *testing.T) {
			in, err := os.Open(filepath.Join("testdata", test.stream+".json"))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			var out bytes.Buffer
			ok, err := run(in, &out, options{})
			if ok != test.ok || err != nil {
				t.Errorf("run = %v, %v; want %v and no error", ok, err, test.ok)
			}
			golden := filepath.Join("testdata", test.stream+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != string(want) {
				t.Errorf("report:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// go test that is killed leaves packages without a verdict, though each test that had its turn passed.
func TestCutStreamFails(t *testing.T) {
	stream := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
`
	var out bytes.Buffer
	ok, err := run(strings.NewReader(stream), &out, options{})
	want := `the stream ended before p did
FAIL  p  (tests: 1, 0.00s)

failed:
  p (outside its tests)
1 passed, 1 failed
`
	if ok || err != nil || out.String() != want {
		t.Errorf("run = %v, %v, and the report:\n%s\nwant:\n%s", ok, err, &out, want)
	}
}

func TestStreamWithoutTestsFails(t *testing.T) {
	for name, stream := range map[string]string{
		"empty":         "",
		"no test files": `{"Action":"start","Package":"p"}` + "\n" + `{"Action":"skip","Package":"p","Elapsed":0}` + "\n",
	} {
		var out bytes.Buffer
		ok, err := run(strings.NewReader(stream), &out, options{})
		if ok || err != nil || !strings.HasSuffix(out.String(), "failed:\n  no test ran\n0 passed, 1 failed\n") {
			t.Errorf("%s: run = %v, %v, and the report is\n%s", name, ok, err, &out)
		}
	}
}

// A failed build may not be attributed to a package, so that the stream contains
// nothing else about it.
func TestUnclaimedBuildFailureFails(t *testing.T) {
	stream := `{"ImportPath":"x","Action":"build-output","Output":"x.go:1:1: no\n"}
{"ImportPath":"x","Action":"build-fail"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":0}
`
	var out bytes.Buffer
	ok, err := run(strings.NewReader(stream), &out, options{})
	want := "x.go:1:1: no\nok    p  (tests: 1, 0.00s)\n\nfailed:\n  build of x\n1 passed, 1 failed\n"
	if ok || err != nil || out.String() != want {
		t.Errorf("run = %v, %v, and the report:\n%s\nwant:\n%s", ok, err, &out, want)
	}
}

func TestOtherLinesPassThrough(t *testing.T) {
	stream := "go: warning: something\n" +
		`{"Action":"run","Package":"p","Test":"TestA"}` + "\n" +
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}` + "\n" +
		`{"Action":"pass","Package":"p","Elapsed":0.5}` + "\n" +
		"the end, without a newline"
	var out bytes.Buffer
	ok, err := run(strings.NewReader(stream), &out, options{})
	want := "go: warning: something\nok    p  (tests: 1, 0.50s)\nthe end, without a newline\n1 passed, 0 failed\n"
	if !ok || err != nil || out.String() != want {
		t.Errorf("run = %v, %v, and the report:\n%s\nwant:\n%s", ok, err, &out, want)
	}
}

// A package's line is there as soon as the package is done, not when the stream is.
func TestReportIsWrittenAsTheStreamArrives(t *testing.T) {
	in, feed := io.Pipe()
	report, out := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := run(in, out, options{})
		out.Close()
		done <- err
	}()
	const events = `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":0}
`
	if _, err := io.WriteString(feed, events); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 100)
	n, err := report.Read(line)
	if got := string(line[:n]); got != "ok    p  (tests: 1, 0.00s)\n" || err != nil {
		t.Errorf("while the stream is open the report is %q, %v", got, err)
	}
	feed.Close()
	rest, err := io.ReadAll(report)
	if string(rest) != "1 passed, 0 failed\n" || err != nil {
		t.Errorf("after the stream the report is %q, %v", rest, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestUnreadableStreamFails(t *testing.T) {
	broken := errors.New("broken pipe")
	good := `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}` + "\n" + `{"Action":"pass","Package":"p","Elapsed":0}` + "\n"
	ok, err := run(io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken)), io.Discard, options{})
	if ok || !errors.Is(err, broken) {
		t.Errorf("run = %v, %v; want false, %v", ok, err, broken)
	}
}
