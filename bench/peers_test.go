package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each script has a table with one job per line.
func TestScriptsRunOrExplainEveryJob(t *testing.T) {
	for path, c := range map[string]struct {
		lacks map[string]string
		row   string
	}{
		"js/bench.mjs": {jsLacks, `{ name: "%s", `},
		"py/bench.py":  {pyLacks, `    Job("%s", `},
	} {
		script, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil {
			t.Fatal(err)
		}
		graphs, _ := apart(catalogue) // servers have no scripts
		for _, j := range graphs {
			does := bytes.Contains(script, fmt.Appendf(nil, c.row, j.name))
			if _, explains := c.lacks[j.name]; does == explains {
				t.Errorf("%s: %s: implemented %t, reason for omission %t", path, j.name, does, explains)
			}
		}
	}
}

// The script itself compares the final int and list, the messages, and the number
// of checkpoints with its table, and fails if they differ.
func TestLangGraphRunsJobs(t *testing.T) {
	p := pyPeer(io.Discard)
	if err := p.install(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	done := map[string]line{}
	graphs, _ := apart(catalogue)
	err := p.run(t.Context(), graphs, func(l line) error {
		done[l.Name] = l
		return nil
	}, "-once")
	if err != nil || len(done) != len(pyJobs) {
		t.Errorf("ran %d of %d jobs: %v", len(done), len(pyJobs), err)
	}
	if l := done["history500_sqlite"]; l.Turn10Ns == 0 || l.BytesPerOp <= l.RawBytes || !strings.Contains(l.Note, "DeltaChannel") {
		t.Errorf("conversation: %+v", l)
	}
}

// A script that loses an update must not look fast.
func TestLangGraphFailsAfterLostUpdate(t *testing.T) {
	p := pyPeer(io.Discard)
	if err := p.install(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.script = []string{venvPython, "-c", "import bench; bench.bump = lambda s: {'count': s['count'] + 1}; bench.chain.__defaults__ = (None, bench.bump); bench.main()"}
	jobs, err := selectJobs("chain10")
	if err != nil {
		t.Fatal(err)
	}
	err = p.run(t.Context(), jobs, func(line) error { return nil }, "-once")
	if err == nil || !strings.Contains(err.Error(), "want 10 of both") {
		t.Errorf("chain whose list stays empty: %v", err)
	}
}

// Without -strict, the other engines are still measured.
func TestUninstalledPeerGetsNote(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	jobs, err := selectJobs("chain10")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	b := bench{out: newPrinter(&out, true), progress: io.Discard}
	installed, err := b.install(t.Context(), false, jobs, jsPeer(io.Discard), pyPeer(io.Discard))
	if err != nil || len(installed) != 0 {
		t.Fatalf("installed %v, %v", installed, err)
	}
	for _, want := range []string{
		`"peer":"langgraph.js","note":"not measured: no langgraph.js: `,
		`"peer":"langgraph","note":"not measured: no langgraph: `,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %s, want %s", &out, want)
		}
	}
	if _, err := b.install(t.Context(), true, jobs, pyPeer(io.Discard)); err == nil {
		t.Error("-strict accepts a peer that cannot be installed")
	}
}

func TestMissingInterpreterIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for want, p := range map[string]*scriptPeer{
		"node was not found":    jsPeer(io.Discard),
		"python3 was not found": pyPeer(io.Discard),
	} {
		if err := p.install(t.Context(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

func TestScriptLinesMustMatchCatalog(t *testing.T) {
	jobs, err := selectJobs("chain10,loop1000")
	if err != nil {
		t.Fatal(err)
	}
	const chain, loop = `{"name":"chain10","n":10,"ns_per_op":1.5}`, `{"name":"loop1000","n":1000,"ns_per_op":2}`
	for name, c := range map[string]struct {
		printed string
		ok      bool
	}{
		"all":          {chain + "\n" + loop + "\n", true},
		"one missing":  {chain + "\n", false},
		"one twice":    {chain + "\n" + chain + "\n" + loop + "\n", false},
		"another size": {strings.Replace(chain, `"n":10`, `"n":11`, 1) + "\n" + loop + "\n", false},
		"no time":      {strings.Replace(chain, "1.5", "0", 1) + "\n" + loop + "\n", false},
		"no reason":    {`{"name":"chain10","n":10,"note":"none"}` + "\n" + loop + "\n", false},
		"reason":       {`{"name":"chain10","n":10,"note":"not measured: why"}` + "\n" + loop + "\n", true},
		"not JSON":     {"hello\n", false},
	} {
		err := jsPeer(io.Discard).read(strings.NewReader(c.printed), jobs, func(line) error { return nil })
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInstallRunsUntilItFinishes(t *testing.T) {
	dir := t.TempDir()
	pins, done := filepath.Join(dir, "pins"), filepath.Join(dir, "packages", "installed")
	if _, err := olderThan(done, pins); err == nil {
		t.Error("directory without pins was accepted")
	}
	check := func(when string, want bool) {
		t.Helper()
		if got, err := olderThan(done, pins); err != nil || got != want {
			t.Errorf("%s: needs install %t, %v", when, got, err)
		}
	}
	writeFile(t, pins)
	check("nothing installed", true)
	writeFile(t, done)
	check("installed", false)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(pins, later, later); err != nil {
		t.Fatal(err)
	}
	check("the pins changed", true)
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestFailedCommandShowsEndOfOutput(t *testing.T) {
	out := []byte(strings.Repeat("noise\n", 1000) + "the reason\n")
	err := commandError(t.Context(), "npm ci", errors.New("exit status 1"), out)
	if s := err.Error(); !strings.Contains(s, "npm ci: exit status 1") || !strings.HasSuffix(s, "the reason") || len(s) > 2100 {
		t.Errorf("error has %d characters: …%s", len(s), s[max(0, len(s)-80):])
	}
}

// The repository must not contain a registry address, and the pins must be exact.
func TestJSPinsAreExactWithoutRegistry(t *testing.T) {
	for _, dir := range []string{"js", filepath.Join("servers", "js")} {
		t.Run(dir, func(t *testing.T) { checkJSPins(t, dir) })
	}
}

func checkJSPins(t *testing.T, dir string) {
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error("package-lock.json contains a registry address")
	}
	var pkg struct{ Dependencies map[string]string }
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err := errors.Join(err, json.Unmarshal(raw, &pkg)); err != nil {
		t.Fatal(err)
	}
	for name, version := range pkg.Dependencies {
		if strings.ContainsAny(version, "^~*<>x ") {
			t.Errorf("%s is pinned to %q", name, version)
		}
	}
}

func TestPythonPinsAreExactWithoutRegistry(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("py", "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	pin := regexp.MustCompile(`^[a-z0-9-]+==[0-9.]+ \\$|^    --hash=sha256:[0-9a-f]{64}( \\)?$`)
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSuffix(line, "\n"); !pin.MatchString(line) {
			t.Errorf("%q is neither a pinned package nor a hash", line)
		}
	}
}
