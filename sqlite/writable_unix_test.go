//go:build linux || darwin || freebsd || netbsd || openbsd

package sqlite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user without rights: the modes of files mean nothing to root.
const nobody = 65534

const openAs = "TREADLE_TEST_OPEN"

// openAsNobody opens a file as the user nobody, in a process that TestMain started for it.
func openAsNobody(path string) {
	if os.Geteuid() == 0 {
		if err := syscall.Setuid(nobody); err != nil {
			fmt.Fprintln(os.Stdout, "setuid:", err)
			return
		}
	}
	db, err := Open(path, nil)
	if err == nil {
		err = db.Close()
		fmt.Fprintln(os.Stdout, "it opened:", err)
		return
	}
	fmt.Fprintln(os.Stdout, err)
}

// A file that can be read and not written is refused at once, with the reason
// that the system has, and not at the first put.
func TestOpenReportsWhyFileIsReadOnly(t *testing.T) {
	top := t.TempDir()
	for dir := top; dir != filepath.Dir(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o5 == 0o5 {
			continue
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	made := func(dir string, mode os.FileMode) string {
		path := filepath.Join(top, dir, "test.db")
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		newLine(t, db, "thread").add()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, inside := made("file", 0o644), made("dir", 0o666)
	if os.Geteuid() != 0 {
		for _, path := range []string{file, filepath.Dir(inside)} {
			if err := os.Chmod(path, 0o555); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := "permission denied"
	if os.Geteuid() != 0 {
		want = "" // the mode says it
	}
	for name, test := range map[string]struct{ path, want string }{
		"a file":               {file, want},
		"a directory":          {inside, "directory " + filepath.Dir(inside) + " not writable, but SQLite creates files there"},
		"a new file":           {filepath.Join(filepath.Dir(inside), "new.db"), "directory " + filepath.Dir(inside) + " not writable"},
		"a path under a file":  {filepath.Join(file, "x.db"), "not a directory"},
		"a file of the kernel": {"/proc/version", "/proc"},
	} {
		if _, err := os.Stat("/proc/version"); err != nil && strings.HasPrefix(test.path, "/proc") {
			continue // another kernel
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), openAs+"="+test.path)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "sqlite: open "+test.path) || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %s (%v), want %q in it", name, out, err, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(inside), "new.db")); !os.IsNotExist(err) {
		t.Errorf("a file that was refused is there: %v", err)
	}
}
