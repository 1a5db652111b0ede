// Package browsertest drives web pages in a real Chromium, for tests.
//
// A Node.js script drives the pages with Playwright. It imports this package's kit.mjs,
// registers its checks, and runs them:
//
//	import { check, run, same } from "../internal/test/browsertest/kit.mjs";
//
//	check("the title is shown", async ({ page }) => {
//	  await page.goto(process.argv[2]);
//	  same(await page.title(), "Treadle");
//	});
//	await run();
//
// Each check gets a page in a separate browser profile. It also fails on an exception or a
// console error in the page. [Run] reports each check as a subtest:
//
//	func TestPages(t *testing.T) { browsertest.Run(t, "pages.mjs", server.URL) }
//
// If Chromium is missing, the test fails. It is never skipped.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/treadle-go/treadle/internal/test/need"
	"github.com/treadle-go/treadle/internal/test/scripttest"
)

// Run runs a Node.js script and reports each of its checks as a subtest. Pages use the
// light color scheme.
func Run(t *testing.T, script string, args ...string) {
	t.Helper()
	run(t, "light", script, args...)
}

// RunDark is like [Run], but uses the dark color scheme.
func RunDark(t *testing.T, script string, args ...string) {
	t.Helper()
	run(t, "dark", script, args...)
}

func run(t *testing.T, colors, script string, args ...string) {
	t.Helper()
	need.Program(t, need.Chromium)
	cmd, err := command(t.Context(), script, args...)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "TREADLE_TEST_COLORS="+colors)
	results, err := scripttest.Run(cmd)
	scripttest.Report(t, results, err)
}

// command returns the command that runs a script.
func command(ctx context.Context, script string, args ...string) (*exec.Cmd, error) {
	chromium, err := find(os.Getenv, exec.LookPath)
	if err != nil {
		return nil, err
	}
	kit, err := directory()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(installed(kit), installed(filepath.Dir(script))); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	// Chromium's sandbox does not work as root.
	cmd.Env = append(os.Environ(), "TREADLE_TEST_CHROMIUM="+chromium, "TREADLE_TEST_SANDBOX="+strconv.FormatBool(os.Getuid() != 0))
	return cmd, nil
}

// directory returns the directory of this package, searching upward from the working
// directory of the test.
func directory() (string, error) {
	here, err := os.Getwd()
	for err == nil {
		dir := filepath.Join(here, "internal", "test", "browsertest")
		if _, missing := os.Stat(filepath.Join(dir, "package.json")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(here) == here {
			return "", errors.New("these tests run below the directory of the module only")
		}
		here = filepath.Dir(here)
	}
	return "", err
}

// find returns the path of the Chromium executable.
func find(getenv func(string) string, lookPath func(string) (string, error)) (string, error) {
	if file := getenv("TREADLE_TEST_CHROMIUM"); file != "" {
		found, err := lookPath(file)
		if err != nil {
			return "", fmt.Errorf("TREADLE_TEST_CHROMIUM names no program: %w", err)
		}
		return found, nil
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} { // as in .ci/chromium
		if file, err := lookPath(name); err == nil {
			return file, nil
		}
	}
	return "", errors.New("this test needs Chromium, and it is not there: run .ci/chromium, or set TREADLE_TEST_CHROMIUM to the path of its program")
}

// installed returns an error if dir lacks the npm packages that its package.json lists.
func installed(dir string) error {
	if err := scripttest.Track(dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "package.json")); err != nil {
		return nil //nolint:nilerr // it needs none
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		return fmt.Errorf("this test needs packages from npm: %w: run .ci/npm", err)
	}
	return nil
}
