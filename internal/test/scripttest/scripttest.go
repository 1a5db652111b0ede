// Package scripttest runs test scripts written in other languages and reports each of
// their checks as a subtest.
//
// A script prints a line of JSON, a [Result], for each check, and exits with status 1 if
// a check failed.
package scripttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Result is the line that a script prints for a check.
type Result struct {
	Name  string
	OK    bool
	Error string
	// Covers lists the request fields that the check used, by endpoint. Only some scripts
	// report it.
	Covers map[string][]string
}

// Run runs a script and returns its results. A failed check is not an error. When the
// context of cmd ends, the script is interrupted, and killed if it keeps running.
func Run(cmd *exec.Cmd) ([]Result, error) {
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, failed, readErr := read(bufio.NewScanner(stdout))
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 && failed {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return results, errors.Join(readErr, err)
}

func read(lines *bufio.Scanner) (results []Result, failed bool, err error) {
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r Result
		if bad := json.Unmarshal(lines.Bytes(), &r); bad != nil || r.Name == "" {
			err = errors.Join(err, fmt.Errorf("not the result of a check: %s", lines.Bytes()))
			continue
		}
		results, failed = append(results, r), failed || !r.OK
	}
	return results, failed, errors.Join(err, lines.Err())
}

// Track stats the files in dir and below, except installed packages. The go command
// records the files that a test accesses and does not reuse the cached test result if one
// of them has changed.
func Track(dir string) error {
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "node_modules" || d.Name() == ".venv" || d.Name() == "__pycache__" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		_, err = os.Stat(file)
		return err
	})
}

// Report reports each result as a subtest. It fails the test if err is not nil or if
// there are no results.
func Report(t *testing.T, results []Result, err error) {
	t.Helper()
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if !r.OK {
				t.Error(r.Error)
			}
		})
	}
	if err != nil {
		t.Error(err)
	}
	if len(results) == 0 {
		t.Error("script made no checks")
	}
}
