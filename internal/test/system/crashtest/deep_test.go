package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A deep agent does what examples/deep does, and more: it searches a folder, gives each text to
// a sub-agent, which writes a file and changes it with an approval, then writes a report with an
// approval, changes a list in place, and deletes a directory. Processes that run it are killed
// at every tool call, and at random: more than 200 times in all.

// deepInput are the files before the run, and deepOutput those after it. An edit that is
// made twice adds "done" twice.
var (
	deepInput  = map[string]string{"in/a.txt": "about owls\n", "in/b.txt": "about bees\n", "list.txt": "todo\n", "tmp/1": "x", "tmp/2/3": "y"}
	deepOutput = map[string]string{"in/a.txt": "about owls\n", "in/b.txt": "about bees\n", "list.txt": "done todo\n",
		"out/a.md": "final: about owls\n", "out/b.md": "final: about bees\n", "report.md": "about owls, about bees"}
)

const (
	deepQuestions = 3
	deepTools     = 2 * 13 // before and after each call
)

// call returns a call with an ID that depends only on its place.
func call(id, name string, args map[string]any) llm.ToolCall {
	c := llmtest.ToolCall(name, args)
	c.ID = id
	return c
}

// The roles of agents.
const (
	roleDeep = "deep"
	roleCode = "code"
	// roleBackground is an agent with background tasks.
	roleBackground = "background"
)

// deepModel follows a plan: the response depends only on the number of responses so far.
var deepModel = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	var turn int
	var task, last string
	for _, m := range r.Messages {
		switch m.Role {
		case llm.RoleAI:
			turn++
		case llm.RoleHuman:
			task = m.Text()
		case llm.RoleTool:
			_, last, _ = strings.Cut(m.Text(), "@@\n")
		}
	}
	if task != "go" { // the name of an input
		out := "/out/" + task + ".md"
		switch turn {
		case 0:
			return llm.Assistant("", call(task+"0", "read_file", map[string]any{"file_path": "/in/" + task + ".txt"})), nil
		case 1:
			return llm.Assistant("", call(task+"1", "write_file", map[string]any{"file_path": out, "content": "draft: " + last + "\n"})), nil
		case 2:
			return llm.Assistant("", call(task+"2", "edit_file", map[string]any{"file_path": out, "old_string": "draft", "new_string": "final"})), nil
		}
		return llm.Assistant(map[string]string{"a": "about owls", "b": "about bees"}[task]), nil
	}
	var reports []string
	for _, m := range r.Messages {
		if m.Name == "task" {
			reports = append(reports, m.Text())
		}
	}
	switch turn {
	case 0:
		return llm.Assistant("", call("g", "glob", map[string]any{"path": "/in", "pattern": "*.txt"})), nil
	case 1:
		work := func(name string) llm.ToolCall {
			return call("t"+name, "task", map[string]any{"subagent_type": "general-purpose", "description": name})
		}
		return llm.Assistant("", work("a"), work("b")), nil
	case 2:
		return llm.Assistant("", call("r", "write_file", map[string]any{"file_path": "/report.md", "content": strings.Join(reports, ", ")}),
			call("l", "edit_file", map[string]any{"file_path": "/list.txt", "old_string": "todo", "new_string": "done todo"})), nil
	case 3:
		return llm.Assistant("", call("d", "delete", map[string]any{"file_path": "/tmp"}), call("w", "write_todos", map[string]any{"todos": []any{}})), nil
	}
	return llm.Assistant("done"), nil
})

// mortal counts the points at which the process can die.
type mortal struct {
	at, tool       int
	points, called atomic.Int64
	journal        *os.File
	answering      atomic.Pointer[[]string] // questions whose answers are not saved yet
}

// point kills the process at the n-th call.
func (m *mortal) point() {
	if m.at > 0 && m.points.Add(1) == int64(m.at) {
		die()
	}
}

func (m *mortal) wrap(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
	point := func() {
		if m.tool > 0 && m.called.Add(1) == int64(m.tool) {
			die()
		}
		m.point()
	}
	point()
	out, err := next(ctx, c)
	point()
	return out, err
}

// mortalSaver dies before and after saving.
type mortalSaver struct {
	checkpoint.Saver
	*mortal
}

func (s mortalSaver) Put(ctx context.Context, p *checkpoint.Put) error {
	s.point()
	defer s.point()
	return s.Saver.Put(ctx, p)
}

func (s mortalSaver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	s.point()
	defer s.point()
	err := s.Saver.PutWrites(ctx, at, fence, ws)
	if err == nil && slices.ContainsFunc(ws, func(w checkpoint.Write) bool { return w.Kind == checkpoint.Answers }) {
		if ids := s.answering.Swap(nil); ids != nil {
			_, err = fmt.Fprint(s.journal, "answered ", strings.Join(*ids, "\nanswered "), "\n")
		}
	}
	return err
}

// Threads implements [checkpoint.ThreadLister].
func (s mortalSaver) Threads(ctx context.Context) iter.Seq2[checkpoint.Thread, error] {
	return s.Saver.(checkpoint.ThreadLister).Threads(ctx)
}

// mortalFiles dies before and after each effect, and writes down what it has done.
type mortalFiles struct {
	files.Backend
	*mortal
}

func (f mortalFiles) Write(ctx context.Context, p string, content []byte, old files.Version) error {
	f.point()
	defer f.point()
	return f.note(p, f.Backend.Write(ctx, p, content, old))
}

func (f mortalFiles) Delete(ctx context.Context, p string, old files.Version) error {
	f.point()
	defer f.point()
	return f.note(p, f.Backend.Delete(ctx, p, old))
}

func (f mortalFiles) note(p string, err error) error {
	if err == nil {
		_, err = fmt.Fprintln(f.journal, "effect", p)
	}
	return err
}

// deepAgent returns the agent and what to close after it.
func deepAgent(o order, db checkpoint.Saver, m *mortal) (*treadle.Graph[deep.State, deep.State], *files.Dir, error) {
	dir, err := files.NewDir(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	spy := func() *agent.Middleware { return &agent.Middleware{Name: "mortal", WrapTool: m.wrap} }
	ask := deep.Permission{Paths: []string{"/report.md", "/out/**"}, Ops: []string{"edit_file"}, Mode: deep.Confirm}
	report := deep.Permission{Paths: []string{"/report.md"}, Ops: []string{"write_file"}, Mode: deep.Confirm}
	var model llm.Model = deepModel
	own := []*agent.Middleware{spy()}
	if o.Role == roleCode {
		model, own = codeModel, append(own, code.Mode(nil))
	}
	g, err := deep.New(model, &deep.Options{Middleware: own,
		Subagents: []deep.Subagent{{Name: "general-purpose", Description: "works", Middleware: []*agent.Middleware{spy()}}},
		Files:     deep.FilesOptions{Backend: mortalFiles{dir, m}, Permissions: []deep.Permission{ask, report}},
		Graph:     treadle.Options{Saver: mortalSaver{db, m}}})
	return g, dir, err
}

// runDeep starts or continues the agent in a child process, and answers its interrupts.
func runDeep(o order, db backends.Database) (err error) {
	journal, err := os.OpenFile(o.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	m := &mortal{at: o.AtPut, tool: o.AtEffect, journal: journal}
	g, dir, err := deepAgent(o, db, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	ctx, thread := context.Background(), g.Thread("deep")
	snap, err := thread.State(ctx)
	switch {
	case err != nil:
		return err
	case snap.ID.IsZero():
		_, err = thread.Run(ctx, deep.Ask("go"))
	case len(snap.Next) > 0:
		_, err = thread.Continue(ctx)
	}
	for {
		stop, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok {
			return err
		}
		answers, ids := treadle.Answers{}, []string{}
		for _, p := range stop.Pauses {
			var about agent.Review
			if err := p.Decode(&about); err != nil {
				return err
			}
			title, _, _ := strings.Cut(about.Calls[0].Description, "\n")
			if _, err := fmt.Fprintln(journal, "question", p.ID, title); err != nil {
				return err
			}
			answers[p.ID], ids = agent.Decisions{{Type: agent.Approve}}, append(ids, p.ID)
		}
		m.answering.Store(&ids)
		_, err = thread.Resume(ctx, answers)
	}
}

// deepCase is a run of the agent by processes that die.
type deepCase struct {
	*testing.T
	order
}

func newDeepCase(t *testing.T, role string) deepCase {
	t.Helper()
	b := backends.SQLite
	dir := t.TempDir()
	input := deepInput
	if role == roleBackground {
		input = backgroundInput
	}
	for name, content := range input {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return deepCase{t, order{Role: role, Backend: b.Name, Address: b.Unsynced(b.Address(t)), Dir: dir, Journal: filepath.Join(t.TempDir(), "journal")}}
}

// play runs a process that dies at a point, and reports whether it did.
func (c deepCase) play(atTool, atPoint int) (killed bool) {
	c.Helper()
	o := c.order
	o.AtEffect, o.AtPut = atTool, atPoint
	return start(c.T, o).end(c.T)
}

// check checks the files, the effects, and the questions.
func (c deepCase) check() {
	c.Helper()
	if c.Role == roleBackground {
		c.checkBackground()
		return
	}
	got := map[string]string{}
	err := filepath.WalkDir(c.Dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".treadle-") {
			return err
		}
		raw, err := os.ReadFile(p)
		name, _ := filepath.Rel(c.Dir, p) // p is below it
		got[filepath.ToSlash(name)] = string(raw)
		return err
	})
	if d := cmp.Diff(deepOutput, got); err != nil || d != "" {
		c.Errorf("%v; files (-want +got):\n%s", err, d)
	}
	raw, err := os.ReadFile(c.Journal)
	if err != nil {
		c.Fatal(err)
	}
	asked, answered, effects := map[string]string{}, map[string]int{}, map[string]int{} // the question about a call has one ID
	for line := range strings.Lines(string(raw)) {
		kind, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, title, _ := strings.Cut(what, " ")
		switch kind {
		case "effect":
			effects[what]++
		case "answered":
			answered[what]++
		case "question":
			if was := asked[title]; was != "" && was != id {
				c.Errorf("%q was asked as %s and as %s", title, was, id)
			}
			asked[title] = id
			if answered[id] > 0 {
				c.Errorf("%q was asked again after the answer was saved", title)
			}
		}
	}
	for p, n := range effects {
		most := 1
		if strings.HasPrefix(p, "/out/") {
			most = 2 // written, then edited
		}
		if n > most {
			c.Errorf("%s was changed %d times", p, n)
		}
	}
	for title, id := range asked {
		if answered[id] != 1 {
			c.Errorf("%q was answered %d times", title, answered[id])
		}
	}
	if len(asked) != deepQuestions || len(answered) != deepQuestions {
		c.Errorf("questions %q, answers %v, want %d", asked, answered, deepQuestions)
	}
}

// A process is killed before or after a tool call, and the next one finishes the work.
func TestDeepAgentKilledAtToolCalls(t *testing.T) { killAtToolCalls(t, roleDeep, deepTools) }

// killAtToolCalls kills a process at each of the points, of which there are more than least.
func killAtToolCalls(t *testing.T, role string, least int) {
	t.Helper()
	step := 1
	if race.Enabled && os.Getenv(soakEnv) == "" {
		step = 4 // see enough
	}
	for at := 1; ; at += step {
		c := newDeepCase(t, role)
		killed := c.play(at, 0)
		if killed && c.play(0, 0) {
			t.Fatal("second process was killed")
		}
		c.check()
		if t.Failed() {
			t.Fatalf("killed at point %d", at)
		}
		if !killed {
			// Calls that wait for an answer are made again, so there are more points.
			if at <= least {
				t.Errorf("only %d points", at-1)
			}
			return
		}
	}
}

// Processes are killed at random points, again and again, until one finishes the work.
func TestDeepAgentKilledAtRandom(t *testing.T) { killAtRandom(t, roleDeep, 200) }

func killAtRandom(t *testing.T, role string, most int) {
	t.Helper()
	switch {
	case os.Getenv(soakEnv) != "":
		most *= 10
	case race.Enabled:
		most = 12 // see enough
	}
	random := rand.New(rand.NewPCG(1, 2))
	for kills := 0; kills < most; {
		c := newDeepCase(t, role)
		var at []int
		for {
			at = append(at, 1+random.IntN(70))
			if !c.play(0, at[len(at)-1]) {
				break
			}
			kills++
		}
		c.check()
		if t.Failed() {
			t.Fatalf("killed at points %v", at)
		}
	}
}
