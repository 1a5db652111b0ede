// Package killtest lets a test kill a process with SIGKILL and inspect what it had
// acknowledged by then. The process is the test binary itself: its TestMain checks an
// environment variable and does the work instead of running tests.
package killtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Lines starts this binary with the environment variable env, kills it after it has
// written n lines, and returns all lines written by then. The test fails if the process
// writes to standard error or exits by itself.
func Lines(t testing.TB, env string, n int) (lines []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), env)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe() // see EndWithParent
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // Wait may have closed it
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	for {
		if len(lines) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		text, err := r.ReadString('\n')
		if err != nil {
			if len(lines) < n {
				_ = cmd.Wait()
				t.Fatalf("process ended by itself after %d lines: %v\n%s", len(lines), err, stderr.String())
			}
			break // an incomplete line was not acknowledged
		}
		lines = append(lines, strings.TrimSuffix(text, "\n"))
	}
	if err := cmd.Wait(); err == nil || stderr.Len() > 0 {
		t.Fatalf("process was not killed but ended with %v\n%s", err, stderr.String())
	}
	return lines
}

// EndWithParent exits this process when the test that started it ends for any reason. It
// does not return; call it in a goroutine.
func EndWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3) //nolint:forbidigo // the process of a test that was to be killed
}
