package llmtest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Environment variables of the process that testReasoningAfterKill starts: the URL of
// the parent's server, and the file for the history.
const (
	killedURL     = "TREADLE_LLMTEST_URL"
	killedHistory = "TREADLE_LLMTEST_HISTORY"
)

// killWithin is the time that the process has to reach the turn in which it is
// killed.
const killWithin = 2 * time.Minute

// testReasoningAfterKill checks that reasoning survives the death of a process: a
// process that saves the history after each turn is killed during the third turn,
// and this process continues with the saved history.
func testReasoningAfterKill(t *testing.T, r *rig) {
	if url := os.Getenv(killedURL); url != "" {
		loopUntilKilled(t, newLoop(r.p.Open(t, url)), os.Getenv(killedHistory))
		return
	}
	const killedTurn = 2
	for turn := range killedTurn {
		r.will(r.reply(loopReply(turn)))
	}
	waiting := make(chan struct{})
	r.will(func(_ http.ResponseWriter, req *http.Request, _ Received) {
		close(waiting)
		<-req.Context().Done()
	})
	file := filepath.Join(t.TempDir(), "history.json")
	runKilled(t, waiting, killedURL+"="+r.url, killedHistory+"="+file)

	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l := newLoop(r.model)
	l.history = nil
	if err := json.Unmarshal(raw, &l.history); err != nil {
		t.Fatal(err)
	}
	if l.turns() != killedTurn {
		t.Fatalf("the killed process saved %d turns, want %d:\n%s", l.turns(), killedTurn, raw)
	}
	l.finish(t, r)
}

// loopUntilKilled saves the history after each turn. It does not return before all
// turns are over, which the parent prevents.
func loopUntilKilled(t *testing.T, l *loop, file string) {
	for l.turns() < loopTurns {
		l.next(t)
		raw, err := json.Marshal(l.history)
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the process was not killed")
}

// runKilled runs this test in another process, and kills it once ready is closed. The
// process ends in any case: it fails if its server does.
func runKilled(t *testing.T, ready <-chan struct{}, env ...string) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run="+onlyTest(t.Name()), "-test.count=1", "-test.timeout="+(2*killWithin).String())
	cmd.Env = append(os.Environ(), env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = cmd.Wait()
	}()
	timeout := time.NewTimer(killWithin)
	defer timeout.Stop()
	failed := ""
	select {
	case <-ready:
	case <-ended:
		failed = "the process ended before it was killed"
	case <-timeout.C:
		failed = "the process did not send its requests within " + killWithin.String()
	}
	_ = cmd.Process.Kill() // fails if the process has ended
	<-ended
	if failed != "" || err == nil {
		t.Fatalf("%s (%v):\n%s", failed, err, &output)
	}
}

// onlyTest returns the pattern for -test.run that matches a test alone.
func onlyTest(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
