package crashtest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A command in a sandbox writes its start and its end to a file. If there is a pipe "alive", it keeps that open, and
// waits for the file "go". Whenever a process is killed, the command starts at most once, ends with the process,
// and the model learns the result, or that it is unknown.
const shellCommand = "echo started >> log; if [ -e alive ]; then exec 3> alive; while [ ! -e go ]; do sleep 0.01; done; fi; echo ended >> log; echo ok"

const roleShell = "shell"

// shellModel calls the command once, and then repeats what it has read.
var shellModel = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	if last := r.Messages[len(r.Messages)-1]; last.Role == llm.RoleTool {
		return llm.Assistant("read: " + strings.ReplaceAll(last.Text(), "\n", " ")), nil
	}
	return llm.Assistant("", call("x", "execute", map[string]any{"command": shellCommand})), nil
})

// runShell starts or continues the agent in a child process, and appends its last message to the journal.
func runShell(o order, db backends.Database) (err error) {
	box, err := sandbox.NewLocal(o.Dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	g, err := deep.New(shellModel, &deep.Options{Shell: deep.ShellOptions{Sandbox: box},
		Graph: treadle.Options{Saver: mortalSaver{db, &mortal{at: o.AtPut}}}})
	if err != nil {
		return err
	}
	ctx, thread := context.Background(), g.Thread("shell")
	snap, err := thread.State(ctx)
	if err != nil {
		return err
	}
	var out deep.State
	if snap.ID.IsZero() {
		out, err = thread.Run(ctx, deep.Ask("go"))
	} else if len(snap.Next) > 0 {
		out, err = thread.Continue(ctx)
	} else {
		err = snap.Read(&out)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(o.Journal, []byte(out.Messages[len(out.Messages)-1].Text()), 0o600)
}

func newShellOrder(t *testing.T) order {
	t.Helper()
	b := backends.SQLite
	return order{Role: roleShell, Backend: b.Name, Address: b.Unsynced(b.Address(t)), Dir: t.TempDir(), Journal: filepath.Join(t.TempDir(), "journal")}
}

// told returns the lines of the log and the last message.
func (o order) told(t *testing.T) (log, last string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(o.Dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	said, err := os.ReadFile(o.Journal)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(raw), "\n", " "), string(said)
}

func TestCommandKilledAtPuts(t *testing.T) {
	for at := 1; ; at++ {
		o := newShellOrder(t)
		o.AtPut = at
		killed := start(t, o).end(t)
		o.AtPut = 0
		if killed && start(t, o).end(t) {
			t.Fatal("second process was killed")
		}
		log, last := o.told(t)
		switch {
		case strings.Contains(last, "outcome of this command is unknown") && (log == "" || log == "started ended "):
		case last == "read: ok [exit code 0]" && log == "started ended ":
		default:
			t.Errorf("killed at point %d: log %q, last message %q", at, log, last)
		}
		if !killed {
			if at < 5 {
				t.Errorf("only %d points", at-1)
			}
			return
		}
	}
}

func TestCommandEndsWithKilledProcess(t *testing.T) {
	o := newShellOrder(t)
	alive := filepath.Join(o.Dir, "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	first := start(t, o)
	pipe, err := os.Open(alive) // until the command opens it
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !first.end(t) {
		t.Fatal("the process was not killed")
	}
	if _, err := io.Copy(io.Discard, pipe); err != nil { // until the command has ended
		t.Fatal(err)
	}
	if err := errors.Join(pipe.Close(), os.Remove(alive), os.WriteFile(filepath.Join(o.Dir, "go"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if start(t, o).end(t) {
		t.Fatal("second process was killed")
	}
	if log, last := o.told(t); log != "started " || !strings.Contains(last, "outcome of this command is unknown") {
		t.Errorf("log %q, last message %q", log, last)
	}
}
