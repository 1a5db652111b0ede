//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the path of the installed command, built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(buildDir, "treadle")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", file, ".").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out) + err.Error())
	}
	return file, nil
})

// command returns the command as a process that ends no later than the test.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, file, args...)
}

// masked hides the times, which a real process does not control.
func masked(s string) string {
	return regexp.MustCompile(`\d+\.\ds`).ReplaceAllString(s, "0.0s")
}

// ended waits for a process and returns its exit code.
func ended(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode()
}

func TestProcessWithoutTerminal(t *testing.T) {
	for _, test := range []struct {
		args string
		env  string
		want result
	}{
		{"jokes", "TERM=xterm-256color", result{Stdout: demoLines}},
		{"jokes", "NO_COLOR=1", result{Stdout: demoLines}},
		{"nosuch", "", result{"", "treadle: unknown command \"nosuch\" for \"treadle\"\nRun 'treadle -h' for usage.\n", 2}},
		{"draw -o /nosuch/file", "", result{"", "treadle: open /nosuch/file: no such file or directory\n", 1}},
	} {
		t.Run(test.args+" "+test.env, func(t *testing.T) {
			cmd := command(t, strings.Fields(test.args)...)
			cmd.Env = append(os.Environ(), test.env)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr // without Stdin it reads /dev/null, a device that is not a terminal
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			code := ended(t, cmd)
			diff(t, result{masked(stdout.String()), stderr.String(), code}, test.want)
		})
	}
}

func TestProcessEndsOnSIGINT(t *testing.T) {
	cmd := command(t, "jokes", "--pace", "1h")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for !strings.Contains(got.String(), "gophers\n\n") { // the run has started
		buf := make([]byte, 1024)
		n, err := stdout.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(buf[:n])
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := got.ReadFrom(stdout); err != nil {
		t.Fatal(err)
	}
	code := ended(t, cmd)
	// The first task may or may not have started by then.
	head, rest, _ := strings.Cut(masked(got.String()), "\n\n")
	if rest != "" && rest != "  step 1: brainstorm: failed after 0.0s\n" {
		t.Errorf("unexpected output %q", rest)
	}
	diff(t, result{head, stderr.String(), code}, result{"Writing jokes about gophers", "treadle: interrupted\n", 130})
}
