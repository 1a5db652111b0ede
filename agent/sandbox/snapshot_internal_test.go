package sandbox

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(dir+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// tree lists the files in a directory with their content.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var raw []byte
			raw, err = os.ReadFile(filepath.Join(dir, p))
			fmt.Fprintf(&b, "%s=%s\n", p, raw)
		} else {
			fmt.Fprintf(&b, "%s/\n", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func open(t *testing.T, dir string) *workspace {
	t.Helper()
	w, err := newWorkspace(dir, Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// A Restore stops after any number of moves, before the first, or while it unpacks. The next
// sandbox for the directory finds either all previous files or all of the snapshot.
func TestStoppedRestoreIsFinished(t *testing.T) {
	from := t.TempDir()
	fill(t, from, "both", "dir/new", "file/inside", "only-new")
	var saved bytes.Buffer
	if err := open(t, from).Snapshot(t.Context(), &saved); err != nil {
		t.Fatal(err)
	}
	want := tree(t, from)
	const moves = 5 + 4
	for n := -2; n <= moves; n++ {
		dir := t.TempDir()
		fill(t, dir, "both", "dir/old", "dir/older", "file", "only-old", "z")
		before := tree(t, dir)
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		u := &unpacking{ctx: t.Context(), root: root, token: rand.Text(), limit: -1, dirs: map[string]bool{".": true}, top: map[string]string{}}
		if err := u.unpack(bytes.NewReader(saved.Bytes())); err != nil {
			t.Fatal(err)
		}
		if n >= -1 {
			plan, err := u.plan()
			if err != nil || len(plan) != moves {
				t.Fatalf("%d moves, %v", len(plan), err)
			}
			if err := u.commit(plan); err != nil {
				t.Fatal(err)
			}
			for _, m := range plan[:max(n, 0)] {
				if err := m.apply(root); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := root.Close(); err != nil {
			t.Fatal(err)
		}
		expect := want
		if n < -1 {
			expect = before
		}
		open(t, dir)
		if got := tree(t, dir); got != expect {
			t.Errorf("after %d moves: got\n%s\nwant\n%s", n, got, expect)
		}
	}
}

// A Restore that fails halfway keeps commands away until another one succeeds.
func TestTornDirectoryIsReported(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "a")
	w := open(t, dir)
	var saved bytes.Buffer
	if err := w.Snapshot(t.Context(), &saved); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(unfinished, `[{"From": "YQ==", "To": "eC95"}]`) // from a to x/y
	for range 2 {
		if err := w.Snapshot(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "remove .treadle-restore") {
			t.Errorf("got error %v", err)
		}
		if err := w.Restore(t.Context(), strings.NewReader("damaged")); err == nil {
			t.Error("no error")
		}
		if _, err := w.enter(t.Context(), false); err != errTorn { //nolint:errorlint // it is not wrapped
			t.Errorf("got error %v", err)
		}
		if _, err := newWorkspace(dir, Limits{}); err == nil || !strings.Contains(err.Error(), "finish the restore") {
			t.Errorf("got error %v", err)
		}
	}
	if err := w.Restore(t.Context(), bytes.NewReader(saved.Bytes())); err != nil {
		t.Fatal(err)
	}
	leave, err := w.enter(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	if got := tree(t, dir); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
	// What a command writes there does not matter if it is no plan.
	write(unfinished, "nonsense")
	write(oldPrefix+"x", "")
	open(t, dir)
	if got := tree(t, dir); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
}

// A restored directory has the same snapshot.
func TestSnapshotsAreReproducible(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "a", "b/c/d", "b/e")
	w := open(t, dir)
	var first, second bytes.Buffer
	if err := w.Snapshot(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, "b/c/f")
	if err := w.Restore(t.Context(), bytes.NewReader(first.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := w.Snapshot(t.Context(), &second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("the snapshots differ, %v", err)
	}
}
