package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/agent/sandbox"
)

// populate creates files, directories, and links of all kinds, and describe lists them.
const (
	populate = `mkdir -p empty d/e locked && printf 'one\n' > a && printf 'two' > d/e/b && : > none && printf '\000\377' > 'odd ä -name' &&
printf x > "$(printf 'not-utf8-\377')" && printf '#!/bin/sh\necho ran\n' > run && printf secret > locked/kept && ln d/e/b hard &&
ln -s ../a d/up && ln -s nowhere dangling && ln -s /etc/passwd outside && ln -s d linked && printf x > .hidden &&
touch -d '2001-02-03 04:05:06' a empty && chmod 755 run && chmod 600 .hidden && chmod 444 none && chmod 1750 d && chmod 500 locked`
	describe = `find . -mindepth 1 | LC_ALL=C sort | while IFS= read -r p; do if [ -L "$p" ]; then echo "$p -> $(readlink "$p")"
elif [ -d "$p" ]; then stat -c '%n/ %a %Y' "$p"; else stat -c '%n %a %s %Y' "$p"; cksum < "$p"; fi; done`
	change = `chmod 700 locked d; rm -r a empty run locked; mkdir a run; echo changed > d/e/b; ln -sf /tmp dangling; chmod 777 .hidden; mkfifo pipe
mkdir -p later/more; echo x > later/more/x; chmod 500 later/more later; rm linked; echo file > linked; touch -d '2002-02-03 04:05:06' d`
)

// content describes the files of a sandbox.
func content(t *testing.T, s sandbox.Sandbox) string {
	t.Helper()
	out, r := run(t, s, sandbox.Command{Script: describe})
	if r != (sandbox.Result{}) {
		t.Fatalf("list of files: %+v\n%s", r, out)
	}
	return out
}

func snapshot(t *testing.T, s sandbox.Snapshotter) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Snapshot(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rejects checks that a sandbox rejects a snapshot and keeps its files.
func rejects(t *testing.T, s sandbox.Snapshotter, files, what string, r io.Reader) {
	t.Helper()
	if err := s.Restore(t.Context(), r); err == nil {
		t.Errorf("%s: accepted", what)
	}
	if now := content(t, s); now != files {
		t.Errorf("%s: files were\n%s\nand are\n%s", what, files, now)
	}
}

// Snapshots checks what every [sandbox.Snapshotter] promises. Commands need the programs
// find, stat, cksum, and truncate.
func Snapshots(t *testing.T, open Open) {
	start := func(t *testing.T, limits sandbox.Limits, script string) sandbox.Snapshotter {
		t.Helper()
		s, ok := open(t, limits).(sandbox.Snapshotter)
		if !ok {
			t.Fatal("the sandbox is no Snapshotter")
		}
		want(t, s, script, "", 0)
		t.Cleanup(func() { // permits removing the directory
			if _, err := s.Exec(context.WithoutCancel(t.Context()), sandbox.Command{Script: "chmod -R u+w ."}); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	none := sandbox.Limits{}
	t.Run("RoundTrip", func(t *testing.T) {
		s := start(t, none, populate)
		was, saved := content(t, s), snapshot(t, s)
		if again := content(t, s); again != was {
			t.Errorf("Snapshot changed the files:\n%s\nto\n%s", was, again)
		}
		for _, script := range []string{change, "chmod -R 700 .; rm -rf ./* ./.hidden", ":"} {
			if _, r := run(t, s, sandbox.Command{Script: script}); r.Code != 0 {
				t.Fatalf("%s: %+v", script, r)
			}
			if err := s.Restore(t.Context(), bytes.NewReader(saved)); err != nil {
				t.Fatal(err)
			}
			if is := content(t, s); is != strings.ReplaceAll(was, "d/ 1750", "d/ 750") {
				t.Errorf("after %s, restored\n%s\nwant\n%s", script, is, was)
			}
		}
		want(t, s, "./run; echo more >> a; cat d/up; cat linked/e/b; rm linked/e/b; ls -A empty locked", "ran\none\nmore\ntwoempty:\n\nlocked:\nkept\n", 0)
		other := start(t, none, "echo x > only-here")
		if err := other.Restore(t.Context(), bytes.NewReader(saved)); err != nil {
			t.Fatal(err)
		}
		want(t, other, "cat a; test -e only-here", "one\n", 1)
		if raw, err := files.Read(t.Context(), other.Files(), "/d/e/b", 10); err != nil || string(raw) != "two" {
			t.Errorf("got %q, %v", raw, err)
		}
	})
	t.Run("Empty", func(t *testing.T) {
		s := start(t, none, "mkfifo pipe")
		saved := snapshot(t, s)
		want(t, s, "touch a", "", 0)
		if err := s.Restore(t.Context(), bytes.NewReader(saved)); err != nil {
			t.Fatal(err)
		}
		want(t, s, "ls -A", "", 0)
	})
	t.Run("Damaged", func(t *testing.T) {
		s := start(t, none, populate)
		saved := snapshot(t, s)
		want(t, s, "echo new > new; rm a", "", 0)
		changed := content(t, s)
		broken := errors.New("connection lost")
		for n := 0; n < len(saved)-1; n += 512 {
			if err := s.Restore(t.Context(), bytes.NewReader(saved[:n])); err == nil {
				t.Errorf("accepted %d of %d bytes", n, len(saved))
			}
			if err := s.Restore(t.Context(), io.MultiReader(bytes.NewReader(saved[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
				t.Errorf("got error %v", err)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(broken)
		if err := s.Restore(ctx, bytes.NewReader(saved)); !errors.Is(err, broken) {
			t.Errorf("got error %v", err)
		}
		if err := s.Snapshot(ctx, io.Discard); !errors.Is(err, broken) {
			t.Errorf("got error %v", err)
		}
		rejects(t, s, changed, "text", strings.NewReader(strings.Repeat("This is no snapshot. ", 500)))
	})
	t.Run("Hostile", func(t *testing.T) {
		s := start(t, none, "echo mine > file; mkdir d; ln -s d inner")
		was, outside := content(t, s), t.TempDir()
		file := func(name string) *tar.Header {
			return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1}
		}
		link := func(name, to string) *tar.Header {
			return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
		}
		dir := &tar.Header{Typeflag: tar.TypeDir, Name: "dir/", Mode: 0o755}
		for what, entries := range map[string][]*tar.Header{
			"parent":              {file("../x")},
			"parent inside":       {dir, file("dir/../../x")},
			"harmless parent":     {dir, file("dir/../x")},
			"absolute":            {file(filepath.Join(outside, "x"))},
			"double slash":        {file("//x")},
			"dot":                 {file(".")},
			"parent as file":      {file("..")},
			"parent as directory": {{Typeflag: tar.TypeDir, Name: "../", Mode: 0o777}},
			"without name":        {file("")},
			"link to outside":     {link("out", outside), file("out/x")},
			"link to parent":      {link("up", "../.."), file("up/x")},
			"link inside":         {dir, link("l", "dir"), file("l/x")},
			"link for directory":  {dir, link("dir", outside), file("dir/x")},
			"present link":        {file("inner/x")},
			"present directory":   {file("d/x")},
			"file for directory":  {file("f"), file("f/x")},
			"same name twice":     {file("f"), file("f")},
			"hard link":           {{Typeflag: tar.TypeLink, Name: "h", Linkname: "/etc/passwd"}},
			"hard link inside":    {file("f"), {Typeflag: tar.TypeLink, Name: "h", Linkname: "f"}},
			"device":              {{Typeflag: tar.TypeChar, Name: "null", Mode: 0o666, Devmajor: 1, Devminor: 3}},
			"block device":        {{Typeflag: tar.TypeBlock, Name: "disk", Mode: 0o666, Devmajor: 8}},
			"pipe":                {{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o666}},
			"after a valid file":  {file("fine"), file("../x")},
			"too long name":       {file(strings.Repeat("x", 300))},
		} {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range entries {
				if err := w.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
				if h.Size > 0 {
					if _, err := w.Write([]byte("x")); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			rejects(t, s, was, what, &b)
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Errorf("outside: %v, %v", left, err)
		}
	})
	t.Run("Size", func(t *testing.T) {
		large := snapshot(t, start(t, none, "head -c 30000 /dev/zero > large"))
		s := start(t, sandbox.Limits{Snapshot: 20_000}, "echo small > small")
		saved := snapshot(t, s)
		rejects(t, s, content(t, s), "large snapshot", bytes.NewReader(large))
		for _, script := range []string{"head -c 30000 /dev/zero > large", "truncate -s 50M large", "mkdir many; cd many; i=0; while [ $i -lt 50 ]; do : > $i; i=$((i+1)); done"} {
			want(t, s, script, "", 0)
			if err := s.Snapshot(t.Context(), io.Discard); err == nil {
				t.Errorf("%s: no error", script)
			}
			if err := s.Restore(t.Context(), bytes.NewReader(saved)); err != nil {
				t.Fatal(err)
			}
			want(t, s, "ls -A", "small\n", 0)
		}
	})
	t.Run("WaitsForCommands", func(t *testing.T) {
		s := start(t, none, ":")
		out := buffer{}
		started := make(chan struct{})
		out.onWrite = func(all string) {
			if all == "ready\n" {
				close(started)
			}
		}
		ended := make(chan error, 1)
		go func() {
			_, err := s.Exec(t.Context(), sandbox.Command{Script: "echo ready; until test -e go; do sleep 0.01; done; echo last > last", Stdout: &out})
			ended <- err
		}()
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := s.Snapshot(ctx, io.Discard); !errors.Is(err, context.DeadlineExceeded) { // the command cannot end before
			t.Errorf("got error %v", err)
		}
		want(t, s, "touch go", "", 0) // nobody waits anymore
		saved := snapshot(t, s)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want(t, s, "rm last", "", 0)
		if err := s.Restore(t.Context(), bytes.NewReader(saved)); err != nil {
			t.Fatal(err)
		}
		want(t, s, "cat last", "last\n", 0)
	})
}
