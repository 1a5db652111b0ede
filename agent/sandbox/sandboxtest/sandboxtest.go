// Package sandboxtest contains the suites that a sandbox must pass.
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/agent/sandbox"
)

// Open returns an empty sandbox with the given limits. It closes the sandbox at the end of
// the test.
type Open func(t *testing.T, limits sandbox.Limits) sandbox.Sandbox

// buffer collects output.
type buffer struct {
	mu      sync.Mutex
	text    strings.Builder
	onWrite func(all string)
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.text.Write(p)
	if b.onWrite != nil {
		b.onWrite(b.text.String())
	}
	return n, err
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// run runs a script and returns its output.
func run(t *testing.T, s sandbox.Sandbox, c sandbox.Command) (string, sandbox.Result) {
	t.Helper()
	var out buffer
	c.Stdout = &out
	r, err := s.Exec(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Script, err)
	}
	return out.String(), r
}

func want(t *testing.T, s sandbox.Sandbox, script, out string, code int) {
	t.Helper()
	if got, r := run(t, s, sandbox.Command{Script: script}); got != out || r != (sandbox.Result{Code: code}) {
		t.Errorf("%s: got %q and %+v, want %q and code %d", script, got, r, out, code)
	}
}

// fails checks that a script fails, and does not print a secret.
func fails(t *testing.T, s sandbox.Sandbox, script, secret string) {
	t.Helper()
	out, r := run(t, s, sandbox.Command{Script: script})
	if r.Code == 0 || secret != "" && strings.Contains(out, secret) {
		t.Errorf("%s: got %q and %+v, want a failure", script, out, r)
	}
}

// Run checks what every sandbox promises.
func Run(t *testing.T, open Open) {
	none := sandbox.Limits{}
	t.Run("Output", func(t *testing.T) {
		s := open(t, none)
		want(t, s, "echo 'a  b'; echo c", "a  b\nc\n", 0)
		want(t, s, "echo error >&2; exit 3", "error\n", 3)
		want(t, s, "kill -KILL $$", "", 137)
		want(t, s, "exit 255", "", 255)
		want(t, s, "nonexistent-command 2>/dev/null", "", 127)
		want(t, s, "printf '%s' 'größe \"$HOME\" `x`'", "größe \"$HOME\" `x`", 0)
		var out, errs buffer
		if r, err := s.Exec(t.Context(), sandbox.Command{Script: "echo out; echo err >&2", Stdout: &out, Stderr: &errs}); err != nil || r.Code != 0 || out.String() != "out\n" || errs.String() != "err\n" {
			t.Errorf("got %q, %q, %+v, %v", out.String(), errs.String(), r, err)
		}
		if r, err := s.Exec(t.Context(), sandbox.Command{Script: "echo out"}); err != nil || r.Code != 0 {
			t.Errorf("without writers: %+v, %v", r, err)
		}
		if text, r := run(t, s, sandbox.Command{Script: "head -c 512000 /dev/zero"}); len(text) != 512000 || r.Code != 0 {
			t.Errorf("%d bytes of large output, %+v", len(text), r)
		}
	})
	t.Run("Stdin", func(t *testing.T) {
		s := open(t, none)
		if out, _ := run(t, s, sandbox.Command{Script: "cat; echo end", Stdin: "given\n"}); out != "given\nend\n" {
			t.Errorf("got %q", out)
		}
		want(t, s, "cat; echo end", "end\n", 0) // no input is an empty input
		if out, r := run(t, s, sandbox.Command{Script: "echo ignored", Stdin: strings.Repeat("x", 1<<20)}); out != "ignored\n" || r.Code != 0 {
			t.Errorf("unread input: %q, %+v", out, r)
		}
	})
	t.Run("Streams", func(t *testing.T) {
		s := open(t, none)
		var out buffer
		out.onWrite = func(all string) {
			if all == "ready\n" { // the command continues only if its output arrives while it runs
				if err := s.Files().Write(t.Context(), "/go", nil, files.Any); err != nil {
					t.Error(err)
				}
			}
		}
		if r, err := s.Exec(t.Context(), sandbox.Command{Script: "echo ready; until test -e go; do sleep 0.01; done; echo done", Stdout: &out}); err != nil || r.Code != 0 || out.String() != "ready\ndone\n" {
			t.Errorf("got %q, %+v, %v", out.String(), r, err)
		}
	})
	t.Run("Files", func(t *testing.T) {
		s := open(t, none)
		if err := s.Files().Write(t.Context(), "/in/größe.txt", []byte("text\r\n"), files.Absent); err != nil {
			t.Fatal(err)
		}
		want(t, s, "cat in/größe.txt; pwd > where; mkdir -p out; printf '\\000\\377' > out/bytes", "text\r\n", 0)
		if raw, err := files.Read(t.Context(), s.Files(), "/out/bytes", 10); err != nil || string(raw) != "\x00\xff" {
			t.Errorf("got %q, %v", raw, err)
		}
		want(t, s, `test "$(cat where)" = "$(pwd)"`, "", 0) // the directory is the same for each command
	})
	t.Run("Links", func(t *testing.T) {
		s := open(t, none)
		want(t, s, "ln -s /etc link; ln -s /etc/passwd file; ln -s ../../../etc up", "", 0)
		for _, p := range []string{"/link/passwd", "/file", "/up/passwd"} {
			if f, err := s.Files().Open(t.Context(), p); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: got %v, %v", p, f, err)
			}
		}
		if err := s.Files().Write(t.Context(), "/link/x", []byte("x"), files.Any); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("write through a link: %v", err)
		}
	})
	t.Run("Timeout", func(t *testing.T) {
		for name, c := range map[string]sandbox.Command{
			"own":    {Script: "echo started; sleep 1000", Timeout: 300 * time.Millisecond},
			"longer": {Script: "echo started; trap '' TERM; sleep 1000", Timeout: time.Hour},
		} {
			if out, r := run(t, open(t, sandbox.Limits{Timeout: 500 * time.Millisecond}), c); r != (sandbox.Result{Code: -1, Stopped: sandbox.Timeout}) {
				t.Errorf("%s: %q, %+v", name, out, r)
			}
		}
	})
	t.Run("Cancel", func(t *testing.T) {
		s := open(t, none)
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("stop")
		out := buffer{onWrite: func(string) { cancel(reason) }}
		if r, err := s.Exec(ctx, sandbox.Command{Script: "echo started; sleep 1000", Stdout: &out}); !errors.Is(err, reason) {
			t.Errorf("got %+v, %v", r, err)
		}
		if _, err := s.Exec(ctx, sandbox.Command{Script: "echo never > never"}); !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
		want(t, s, "test -e never", "", 1)
	})
	t.Run("EndlessOutput", func(t *testing.T) {
		out, r := run(t, open(t, sandbox.Limits{Output: 1001}), sandbox.Command{Script: "yes & yes >&2"})
		if len(out) != 1001 || r != (sandbox.Result{Code: -1, Stopped: sandbox.Output}) {
			t.Errorf("%d bytes, %+v", len(out), r)
		}
	})
	t.Run("Environment", func(t *testing.T) {
		t.Setenv("TREADLE_TEST_SECRET", "geheim")
		if out, _ := run(t, open(t, none), sandbox.Command{Script: "env"}); strings.Contains(out, "geheim") || !strings.Contains(out, "PATH=") {
			t.Errorf("environment: %q", out)
		}
	})
	t.Run("Concurrent", func(t *testing.T) {
		s := open(t, none)
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				var out buffer
				if r, err := s.Exec(t.Context(), sandbox.Command{Script: fmt.Sprintf("echo %d | tee %d", i, i), Stdout: &out}); err != nil || r.Code != 0 || out.String() != fmt.Sprintf("%d\n", i) {
					t.Errorf("got %q, %+v, %v", out.String(), r, err)
				}
			})
		}
		all.Wait()
		want(t, s, "cat ? | sort | tr -d '\\n'", "01234", 0)
	})
	t.Run("InvalidCommands", func(t *testing.T) {
		s := open(t, none)
		for cause, c := range map[string]sandbox.Command{
			"empty script":    {Script: " \n"},
			"NUL character":   {Script: "echo \x00"},
			"write it to a":   {Script: "#" + strings.Repeat("x", sandbox.MaxScript)},
			"invalid Timeout": {Script: "true", Timeout: -1},
		} {
			if _, err := s.Exec(t.Context(), c); err == nil || !strings.Contains(err.Error(), cause) {
				t.Errorf("want %q, got %v", cause, err)
			}
		}
	})
}

// Confined checks that a command cannot leave a sandbox, nor use more than its share. The
// sandbox must run on this machine, whose processes and files must be unreachable for it.
func Confined(t *testing.T, open Open) {
	t.Run("Processes", func(t *testing.T) {
		for _, script := range []string{"b() { b | b; }; b", "for i in $(seq 300); do sleep 1000 & done; wait"} {
			if out, r := run(t, open(t, sandbox.Limits{Processes: 60}), sandbox.Command{Script: script}); r != (sandbox.Result{Code: -1, Stopped: sandbox.Processes}) {
				t.Errorf("%s: %.200q, %+v", script, out, r)
			}
		}
	})
	t.Run("Memory", func(t *testing.T) {
		limits := sandbox.Limits{Memory: 40 << 20}
		fails(t, open(t, limits), "tail /dev/zero", "")
		// No process exceeds the limit, but all together do.
		limits.Memory = 100 << 20
		script := "for i in 1 2 3 4 5 6 7 8; do (x=$(head -c 20000000 /dev/zero | tr '\\000' x); sleep 1000) & done; wait"
		if out, r := run(t, open(t, limits), sandbox.Command{Script: script}); r.Stopped != sandbox.Memory {
			t.Errorf("%.200q, %+v", out, r)
		}
	})
	t.Run("MemoryOfTemporaryFiles", func(t *testing.T) {
		s := open(t, sandbox.Limits{Memory: 20 << 20, FileSize: -1})
		for _, dir := range []string{"/tmp", "/dev/shm"} {
			script := "head -c 40000000 /dev/zero > " + dir + "/x; sleep 1000"
			if out, r := run(t, s, sandbox.Command{Script: script}); r.Stopped != sandbox.Memory {
				t.Errorf("%s: %.200q, %+v", dir, out, r)
			}
		}
	})
	t.Run("FileSize", func(t *testing.T) {
		s := open(t, sandbox.Limits{FileSize: 100_000})
		fails(t, s, "head -c 200000 /dev/zero > big", "")
		want(t, s, "wc -c < big", "100000\n", 0)
		fails(t, s, "head -c 100000 /dev/zero > /tmp/1 && head -c 100000 /dev/zero > /tmp/2 && head -c 100000 /dev/zero > /dev/shm/3 && head -c 100000 /dev/zero > /dev/shm/4", "")
	})
	t.Run("CPU", func(t *testing.T) {
		if out, r := run(t, open(t, sandbox.Limits{CPU: time.Second}), sandbox.Command{Script: "while :; do :; done"}); r.Code <= 128 {
			t.Errorf("%q, %+v", out, r)
		}
	})
	t.Run("Network", func(t *testing.T) {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // nothing is accepted
		_, port, _ := net.SplitHostPort(l.Addr().String())
		s := open(t, sandbox.Limits{})
		fails(t, s, "bash -c 'echo x > /dev/tcp/127.0.0.1/"+port+"'", "")
		fails(t, s, "bash -c 'echo x > /dev/udp/192.0.2.1/53'", "")
		fails(t, s, "getent hosts example.com", "")
	})
	t.Run("Outside", func(t *testing.T) {
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte("geheim"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TREADLE_TEST_SECRET", "geheim")
		s := open(t, sandbox.Limits{})
		for _, script := range []string{"cat /proc/[0-9]*/environ; false", "cat " + secret, "cat ../../../../.." + secret, "cat /proc/1/root" + secret, "cat /proc/1/cwd/../.." + secret,
			"touch /usr/x", "touch /etc/x", "touch /x", "touch /bin/x", "mkdir /root", "ls /home", "ls /var", "ls /run", "ls /sys", "test -s /etc/shadow",
			"mount -o remount,rw /usr", "mount -t tmpfs x /usr", "umount /proc", "unshare -r true", "unshare -rm sh -c 'mount -o remount,bind,rw /usr && touch /usr/x'",
			"mknod x b 8 0 && cat x", "kill -0 " + fmt.Sprint(os.Getpid())} {
			fails(t, s, script, "geheim")
		}
		want(t, s, "kill -9 1; kill -9 -1 2>/dev/null; echo alive", "alive\n", 0)
	})
	t.Run("SwappedLinks", func(t *testing.T) {
		outside := t.TempDir()
		if err := os.WriteFile(filepath.Join(outside, "f"), []byte("geheim"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, sandbox.Limits{})
		out := buffer{}
		started := make(chan struct{})
		out.onWrite = func(all string) {
			if all == "ready\n" {
				close(started)
			}
		}
		var swaps sync.WaitGroup
		swaps.Go(func() {
			r, err := s.Exec(t.Context(), sandbox.Command{Script: "echo ready; until test -e stop; do mkdir d; echo ok > d/f; rm -r d; ln -s " + outside + " d; rm d; done", Stdout: &out})
			if err != nil || r.Stopped != "" {
				t.Errorf("%+v, %v", r, err)
			}
		})
		<-started
		for range 300 {
			if f, err := s.Files().Open(t.Context(), "/d/f"); err == nil {
				raw, _ := io.ReadAll(f)
				_ = f.Close() // only read
				if strings.Contains(string(raw), "geheim") {
					t.Error("read a file outside")
				}
			}
			_ = s.Files().Write(t.Context(), "/d/g", []byte("x"), files.Any) // may fail
		}
		if err := s.Files().Write(t.Context(), "/stop", nil, files.Any); err != nil {
			t.Error(err)
		}
		swaps.Wait()
		if _, err := os.Stat(filepath.Join(outside, "g")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("wrote a file outside")
		}
	})
}
