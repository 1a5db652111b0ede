package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/agent/sandbox/sandboxtest"
	"github.com/treadle-go/treadle/internal/test/killtest"
)

func local(t *testing.T, dir string, o sandbox.LocalOptions) *sandbox.Local {
	t.Helper()
	s, err := sandbox.NewLocal(dir, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func confined(t *testing.T, limits sandbox.Limits) sandbox.Sandbox {
	return local(t, t.TempDir(), sandbox.LocalOptions{Limits: limits})
}

func unconfined(t *testing.T, limits sandbox.Limits) sandbox.Sandbox {
	return local(t, t.TempDir(), sandbox.LocalOptions{Limits: limits, Unconfined: true, Network: true})
}

func TestLocal(t *testing.T)           { sandboxtest.Run(t, confined) }
func TestLocalConfines(t *testing.T)   { sandboxtest.Confined(t, confined) }
func TestLocalUnconfined(t *testing.T) { sandboxtest.Run(t, unconfined) }

func TestLocalSnapshots(t *testing.T)           { sandboxtest.Snapshots(t, confined) }
func TestLocalUnconfinedSnapshots(t *testing.T) { sandboxtest.Snapshots(t, unconfined) }

// daemons leave the session and the process group of the command, and lose their parent.
const daemons = `exec 9>pipe; for i in 1 2 3; do (setsid sh -c 'trap "" TERM HUP; touch ready$0; sleep 1000 & sleep 1000' $i <&- >pipe 2>&1 9>&- &); done; ` +
	"until test -e ready1 -a -e ready2 -a -e ready3; do sleep 0.01; done; "

// pipe makes a named pipe and returns a channel that is closed when all processes that
// hold it have ended.
func pipe(t *testing.T, dir string) <-chan struct{} {
	t.Helper()
	p := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(p, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f, err := os.Open(p) // waits for the first process
		if err == nil {
			_, err = io.Copy(io.Discard, f)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
	}()
	return ended
}

func TestDaemonsEndWithCommand(t *testing.T) {
	for name, bare := range map[string]bool{"confined": false, "unconfined": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := local(t, dir, sandbox.LocalOptions{Unconfined: bare, Network: true})
			ended := pipe(t, dir)
			if r, err := s.Exec(t.Context(), sandbox.Command{Script: daemons}); err != nil || r.Code != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			<-ended
		})
	}
}

func TestCommandEndsWithProcess(t *testing.T) {
	for name, bare := range map[string]string{"confined": "", "unconfined": "1"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ended := pipe(t, dir)
			t.Setenv("TREADLE_SANDBOX_TEST_UNCONFINED", bare)
			killtest.Lines(t, killEnv+"="+dir, 1)
			<-ended
		})
	}
}

// A process is killed while it restores two snapshots in turn. Its successor finds one of them.
func TestKilledRestoreLeavesOneSnapshot(t *testing.T) {
	snapshots := t.TempDir()
	t.Setenv("TREADLE_SANDBOX_TEST_RESTORE", snapshots)
	var all [2][]byte
	for i := range all {
		from := t.TempDir()
		for n := range 50 {
			p := filepath.Join(from, fmt.Sprint(n+25*i), fmt.Sprint(i))
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		all[i] = saved(t, from)
		if err := os.WriteFile(filepath.Join(snapshots, fmt.Sprint(i)), all[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cut := 0
	for n := range 10 {
		dir := t.TempDir()
		killtest.Lines(t, killEnv+"="+dir, n+2)
		if _, err := os.Lstat(filepath.Join(dir, ".treadle-restore")); err == nil {
			cut++
		}
		if is := saved(t, dir); !bytes.Equal(is, all[0]) && !bytes.Equal(is, all[1]) {
			t.Errorf("killed after %d lines, it has %q", n+2, is)
		}
	}
	t.Logf("%d of 10 processes were killed during an exchange", cut)
}

// saved returns a snapshot of a directory.
func saved(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := local(t, dir, sandbox.LocalOptions{}).Snapshot(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestNetworkOnRequest(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nothing is accepted
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := local(t, t.TempDir(), sandbox.LocalOptions{Network: true})
	var out strings.Builder
	if r, err := s.Exec(t.Context(), sandbox.Command{Script: "bash -c 'echo x > /dev/tcp/127.0.0.1/" + port + "'", Stdout: &out}); err != nil || r.Code != 0 {
		t.Errorf("%q, %+v, %v", out.String(), r, err)
	}
}

func TestSharedDirectoriesAreReadOnly(t *testing.T) {
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "x"), []byte("tool"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := local(t, t.TempDir(), sandbox.LocalOptions{Share: []string{tools}, Env: []string{"TOOLS=" + tools, "HOME=/workspace"}})
	var out strings.Builder
	if r, err := s.Exec(t.Context(), sandbox.Command{Script: `cat $TOOLS/x; echo y > $TOOLS/x || echo " $HOME"`, Stdout: &out, Stderr: io.Discard}); err != nil || out.String() != "tool /workspace\n" {
		t.Errorf("%q, %+v, %v", out.String(), r, err)
	}
}
