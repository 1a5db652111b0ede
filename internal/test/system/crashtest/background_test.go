package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// An agent starts three background tasks. While they work, it updates the first, cancels the
// second, and checks the third, which needs an approval. Then it sleeps until it has heard the
// results of the first and the third.

// backgroundInput are the files before the run. Each task edits the file that its text names
// last: an edit that is made twice adds "done" twice.
var backgroundInput = map[string]string{"a.txt": "todo\n", "a2.txt": "todo\n", "b.txt": "todo\n", "c.txt": "todo\n"}

const backgroundTools = 2 * (3 + 4 + 2) // before and after each call that is made in any case

const noticeMark = "[notice, not from the user]"

// backgroundParent follows a plan: the response depends only on the messages.
var backgroundParent = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	var tasks []any
	turn := 0
	for _, m := range r.Messages {
		if id, ok := strings.CutPrefix(m.Text(), "Started task "); ok {
			tasks = append(tasks, strings.TrimSuffix(id, "."))
		}
		if m.Role == llm.RoleAI {
			turn++
		}
	}
	start := func(name string) llm.ToolCall {
		return call("s"+name, "start_async_task", map[string]any{"subagent_type": "worker", "description": "Edit /" + name + ".txt"})
	}
	switch turn {
	case 0:
		return llm.Assistant("", start("a"), start("b"), start("c")), nil
	case 1:
		return llm.Assistant("",
			call("u", "update_async_task", map[string]any{"task_id": tasks[0], "message": "Edit /a2.txt"}),
			call("x", "cancel_async_task", map[string]any{"task_id": tasks[1]}),
			call("c", "check_async_task", map[string]any{"task_id": tasks[2]}),
			call("l", "list_async_tasks", map[string]any{})), nil
	}
	return llm.Assistant("I wait."), nil
})

// backgroundWorker edits the file that its task names last, and reports it.
var backgroundWorker = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == llm.RoleTool {
		return llm.Assistant("report: " + last.Text()), nil
	}
	text := last.Text()
	file := strings.Fields(text[strings.LastIndex(text, "Edit ")+len("Edit "):])[0]
	return llm.Assistant("", call("e"+file, "edit_file", map[string]any{"file_path": file, "old_string": "todo", "new_string": "done todo"})), nil
})

// background is the agent with its tasks, in one process.
type background struct {
	*mortal
	tasks  *deep.Local
	parent *treadle.Graph[deep.State, deep.State]
	dir    *files.Dir
}

func newBackground(o order, db checkpoint.Saver, m *mortal) (*background, error) {
	dir, err := files.NewDir(o.Dir)
	if err != nil {
		return nil, err
	}
	b := &background{mortal: m, dir: dir}
	spy := func() []*agent.Middleware { return []*agent.Middleware{{Name: "mortal", WrapTool: m.wrap}} }
	ask := deep.Permission{Paths: []string{"/c.txt"}, Ops: []string{"edit_file"}, Mode: deep.Confirm}
	worker, err := deep.New(backgroundWorker, &deep.Options{Name: "worker", Middleware: spy(), NoGeneral: true,
		Files: deep.FilesOptions{Backend: mortalFiles{dir, m}, Permissions: []deep.Permission{ask}}})
	if err == nil {
		b.tasks, err = deep.NewLocal("tasks", worker, &treadle.Options{Saver: mortalSaver{db, m}})
	}
	if err == nil {
		b.parent, err = deep.New(backgroundParent, &deep.Options{Name: "parent", Middleware: spy(), NoGeneral: true, Graph: treadle.Options{Saver: mortalSaver{db, m}},
			Background: []deep.BackgroundAgent{{Name: "worker", Description: "edits files", Runner: b.tasks}}})
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return b, nil
}

// run starts or continues the parent, and answers questions until it has heard both results.
func (b *background) run(ctx context.Context) error {
	thread := b.parent.Thread("p")
	snap, err := thread.State(ctx)
	switch {
	case err != nil:
		return err
	case snap.ID.IsZero():
		_, err = thread.Run(ctx, deep.Ask("go"))
	case len(snap.Next) > 0 && len(snap.Pauses) == 0:
		_, err = thread.Continue(ctx)
	}
	if err != nil && !treadle.IsPause(err) {
		return err
	}
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	for {
		snap, err := thread.State(ctx)
		if err != nil {
			return err
		}
		var state deep.State
		if err := snap.Read(&state); err != nil {
			return err
		}
		notices, asking := []string{}, ""
		for _, m := range state.Messages {
			if strings.HasPrefix(m.Text(), noticeMark) {
				notices = append(notices, strings.ReplaceAll(m.Text(), "\n", " "))
			}
			if id, ok := strings.CutPrefix(m.Text(), "Started task "); ok {
				asking = strings.TrimSuffix(id, ".") // the last
			}
		}
		if len(snap.Next) == 0 {
			_, err := fmt.Fprintf(b.journal, "notice %s\n", strings.Join(notices, "\nnotice "))
			return err
		}
		if err := b.answer(ctx, asking); err != nil {
			return err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answer answers the question of a task, if it asks one.
func (b *background) answer(ctx context.Context, task string) error {
	o, err := b.tasks.Check(ctx, task)
	if err != nil || o.Status != deep.TaskWaiting {
		return err
	}
	ids := []string{"c"}
	if _, err := fmt.Fprintln(b.journal, "question", ids[0], "edit"); err != nil {
		return err
	}
	b.answering.Store(&ids)
	return b.tasks.Resume(ctx, task, agent.Decisions{{Type: agent.Approve}})
}

// runBackground runs the agent in a child process.
func runBackground(o order, db backends.Database) (err error) {
	journal, err := os.OpenFile(o.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	b, err := newBackground(o, db, &mortal{at: o.AtPut, tool: o.AtEffect, journal: journal})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.dir.Close()) }()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- b.tasks.Serve(ctx, b.parent) }()
	err = b.run(ctx)
	stop()
	return errors.Join(err, <-served)
}

// checkBackground checks the files, the notices, and the questions.
func (c deepCase) checkBackground() {
	c.Helper()
	for name, must := range map[string]bool{"a.txt": false, "a2.txt": true, "b.txt": false, "c.txt": true} {
		raw, err := os.ReadFile(filepath.Join(c.Dir, name))
		if got := string(raw); err != nil || got != "done todo\n" && (must || got != "todo\n") {
			c.Errorf("%s is %q, %v", name, got, err)
		}
	}
	raw, err := os.ReadFile(c.Journal)
	if err != nil {
		c.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		kind, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case kind == "question" && seen["answered"] > 0:
			c.Error("a question was asked again after the answer was saved")
		case kind == "notice":
			for _, file := range []string{"/a.txt", "/a2.txt", "/b.txt", "/c.txt"} {
				if strings.Contains(what, "ended: success") && strings.Contains(what, file) {
					seen[file]++
				}
			}
		case kind == "effect":
			seen[line]++
			if seen[line] > 1 {
				c.Errorf("%s was changed %d times", what, seen[line])
			}
			continue
		}
		seen[kind]++
	}
	if seen["notice"] != 2 || seen["/a2.txt"] != 1 || seen["/c.txt"] != 1 || seen["answered"] != 1 {
		c.Errorf("journal:\n%s", raw)
	}
}

// A process is killed before or after a tool call of the agent or of a task, and the next one
// finishes the work.
func TestBackgroundKilledAtToolCalls(t *testing.T) {
	killAtToolCalls(t, roleBackground, backgroundTools)
}

func TestBackgroundKilledAtRandom(t *testing.T) { killAtRandom(t, roleBackground, 60) }
