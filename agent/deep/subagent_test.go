package deep_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func task(who, what string) llm.ToolCall {
	return llmtest.ToolCall("task", args{"subagent_type": who, "description": what})
}

// child returns a sub-agent with a scripted model.
func child(t *testing.T, name string, turns ...llmtest.Turn) deep.Subagent {
	return deep.Subagent{Name: name, Description: "works", Prompt: "You are " + name + ".", Model: llmtest.Scripted(t, turns...)}
}

func TestTaskReturnsOnlyReport(t *testing.T) {
	worker := child(t, "worker", llmtest.Turn{Message: llm.Assistant("thinking", llmtest.ToolCall("ls", args{"path": "/"})),
		Expect: []func(*llm.Request) error{func(r *llm.Request) error {
			if len(r.Messages) != 2 || r.Messages[1].Text() != "count files" || !strings.Contains(r.Messages[0].Text(), "You are worker.") {
				return errors.New("the sub-agent sees more than its task")
			}
			return nil
		}}}, llmtest.Say("three files"))
	model := llmtest.Scripted(t, llmtest.Ask(task("worker", "count files")), llmtest.Say("done", llmtest.Asked("three files")))
	out, err := made(t, model, &deep.Options{Subagents: []deep.Subagent{worker}}).Run(t.Context(), deep.Ask("a secret of the user"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(out.Messages); n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
}

// An agent whose last message is empty has a report all the same; an agent without any
// text has none.
func TestTaskReport(t *testing.T) {
	type answer struct {
		N int `json:"n"`
	}
	structured := child(t, "x", llmtest.Say("text"), llmtest.Ask(llmtest.ToolCall("answer", answer{7})))
	structured.Response = agent.NewResponse[answer]("", nil)
	for name, c := range map[string]struct {
		agent deep.Subagent
		want  string
	}{
		"empty end": {child(t, "x", llmtest.Turn{Message: llm.Assistant("found it", llmtest.ToolCall("ls", args{"path": "/"}))}, llmtest.Say(" ")), "found it"},
		"nothing":   {child(t, "x", llmtest.Ask(llmtest.ToolCall("ls", args{"path": "/"})), llmtest.Say(" ")), "without an answer"},
		"structure": {structured, `{"n":7}`},
		"failure":   {child(t, "x", llmtest.Fail(errors.New("quota exceeded"))), "quota exceeded"},
		"unknown":   {child(t, "y"), `unknown agent "x". The agents are general-purpose, y.`},
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := results(t, &deep.Options{Subagents: []deep.Subagent{c.agent}}, nil, task("x", "go"))
			contains(t, out[0].Text(), c.want)
		})
	}
}

// Parallel tasks share the files of the thread as they were, and their changes are merged.
func TestTasksShareFiles(t *testing.T) {
	write := func(p string) llmtest.Turn {
		return llmtest.Ask(llmtest.ToolCall("write_file", args{"file_path": p, "content": "by a sub-agent"}))
	}
	a := child(t, "a", llmtest.Ask(llmtest.ToolCall("read_file", args{"file_path": "/in"})), write("/a"), llmtest.Say("a is done"))
	b := child(t, "b", write("/b"), llmtest.Ask(llmtest.ToolCall("delete", args{"file_path": "/old"})), llmtest.Say("b is done"))
	model := llmtest.Scripted(t, llmtest.Ask(task("a", "x"), task("b", "y")), llmtest.Say("done"))
	in := deep.Ask("go")
	in.Files = files.Records{"/in": files.Text("input"), "/old": files.Text("x")}
	out, err := made(t, model, &deep.Options{Subagents: []deep.Subagent{a, b}}).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for p := range out.Files {
		got = append(got, p)
	}
	if d := cmp.Diff([]string{"/a", "/b", "/in"}, got, sortStrings); d != "" {
		t.Error(d)
	}
	if len(out.Messages) != 5 || len(out.Todos) != 0 {
		t.Errorf("state of a sub-agent leaked: %d messages", len(out.Messages))
	}
}

// A sub-agent fails after it has changed files.
func TestFailedTaskKeepsFiles(t *testing.T) {
	write := llmtest.Ask(llmtest.ToolCall("write_file", args{"file_path": "/a", "content": "done so far"}))
	remove := llmtest.Ask(llmtest.ToolCall("delete", args{"file_path": "/old"}))
	failing := child(t, "failing", write, remove, llmtest.Fail(errors.New("quota exceeded")))
	nowhere := deep.Subagent{Name: "nowhere", Description: "fails", Graph: unreachable{}}
	model := llmtest.Scripted(t, llmtest.Ask(task("failing", "x"), task("nowhere", "y")), llmtest.Say("done"))
	in := deep.Ask("go")
	in.Files = files.Records{"/in": files.Text("input"), "/old": files.Text("x")}
	out, err := made(t, model, &deep.Options{Subagents: []deep.Subagent{failing, nowhere}}).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range toolResults(out) {
		contains(t, r.Text(), []string{"quota exceeded", "no route"}[i])
	}
	if len(out.Files) != 2 || string(out.Files["/a"].Content) != "done so far" || out.Files["/in"] == nil {
		t.Errorf("got files %v", out.Files)
	}
}

// unreachable is an agent on a server that cannot be reached.
type unreachable struct{}

func (unreachable) Run(context.Context, deep.State) (deep.State, error) {
	return deep.State{}, errors.New("no route")
}

// counted returns a tool that counts its calls by text.
func counted(calls *sync.Map) *llm.Tool {
	return llm.NewTool("effect", "Has an effect.", func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		n, _ := calls.LoadOrStore(in.Text, &atomic.Int32{})
		n.(*atomic.Int32).Add(1)
		return "ok", nil
	})
}

func effect(text string) llm.ToolCall { return llmtest.ToolCall("effect", args{"text": text}) }

// A question three levels down reaches the caller, and the answer comes back. A sibling that
// has finished does not run again.
func TestQuestionFromThirdLevel(t *testing.T) {
	var calls sync.Map
	tools := []*llm.Tool{counted(&calls)}
	third := child(t, "third", llmtest.Ask(effect("third")), llmtest.Ask(llmtest.ToolCall("write_file", args{"file_path": "/report", "content": "x"})), llmtest.Say("third is done"))
	second := child(t, "second", llmtest.Ask(effect("second")), llmtest.Ask(task("third", "deeper")), llmtest.Say("second: third is done", llmtest.Asked("third is done")))
	second.Subagents = []deep.Subagent{third}
	sibling := child(t, "sibling", llmtest.Ask(effect("sibling")), llmtest.Say("sibling is done"))
	o := rules(askWrite)
	o.Tools, o.Subagents = tools, []deep.Subagent{second, sibling}
	th := made(t, llmtest.Scripted(t, llmtest.Ask(effect("first")), llmtest.Ask(task("second", "x"), task("sibling", "y")), llmtest.Say("all done")), o)
	_, err := th.Run(t.Context(), deep.Ask("go"))
	p := asked(t, err, 1)[0]
	contains(t, review(t, p).Description, "write_file changes /report")
	if path := strings.Join(p.Namespace, "/"); strings.Count(path, "tools:") != 2 || strings.Count(path, "task:") != 1 {
		t.Errorf("question comes from %s", path)
	}
	out, err := th.Resume(t.Context(), approve)
	if err != nil {
		t.Fatal(err)
	}
	if deep.Answer(out) != "all done" || string(out.Files["/report"].Content) != "x" {
		t.Errorf("%q, %v", deep.Answer(out), out.Files)
	}
	for _, name := range []string{"first", "second", "third", "sibling"} {
		if n, ok := calls.Load(name); !ok || n.(*atomic.Int32).Load() != 1 {
			t.Errorf("effect of %s: %v", name, n)
		}
	}
}

// A sub-agent may do no more than the agent that it works for.
func TestSubagentPermissionsOnlyNarrow(t *testing.T) {
	worker := child(t, "worker", llmtest.Ask(llmtest.ToolCall("read_file", args{"file_path": "/secret/.key"})),
		llmtest.Ask(llmtest.ToolCall("read_file", args{"file_path": "/open/a"})), llmtest.Say("done"))
	worker.Permissions = []deep.Permission{{Paths: []string{"/secret/**"}, Mode: deep.Allow}, {Paths: []string{"/open/**"}, Mode: deep.Deny}}
	var seen []string
	worker.Middleware = []*agent.Middleware{{Name: "spy", WrapTool: func(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
		out, err := next(ctx, c)
		seen = append(seen, llm.ToolResult(c.ToolCall, out).Text())
		return out, err
	}}}
	o := rules(denySecret)
	o.Subagents = []deep.Subagent{worker}
	results(t, o, secretFiles, task("worker", "x"))
	if len(seen) != 2 {
		t.Fatalf("%q", seen)
	}
	for _, text := range seen {
		contains(t, text, "Permission denied")
	}
}

func TestGeneralAgentHasSameTools(t *testing.T) {
	offered := map[string][]string{}
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		who := "parent"
		if strings.Contains(r.Messages[0].Text(), "for another agent") {
			who = "general"
		}
		for _, tool := range r.Tools {
			if !slices.Contains(offered[who], tool.Name) {
				offered[who] = append(offered[who], tool.Name)
			}
		}
		if who == "general" || r.Messages[len(r.Messages)-1].Role == llm.RoleTool {
			return llm.Assistant("done"), nil
		}
		return llm.Assistant("", task("general-purpose", "x")), nil
	})
	if _, err := made(t, model, &deep.Options{Tools: []*llm.Tool{echo("mine")}}).Run(t.Context(), deep.Ask("go")); err != nil {
		t.Fatal(err)
	}
	want := []string{"mine", "ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep", "task", "write_todos", "compact_conversation"}
	if d := cmp.Diff(want, offered["parent"]); d != "" {
		t.Error(d)
	}
	want = slices.DeleteFunc(want, func(name string) bool { return name == "task" })
	if d := cmp.Diff(want, offered["general"]); d != "" {
		t.Error(d)
	}
}

// Events of a sub-agent are in the stream of its parent, with their path.
func TestSubagentStreams(t *testing.T) {
	worker := child(t, "worker", llmtest.Say("from the worker"))
	th := made(t, llmtest.Scripted(t, llmtest.Ask(task("worker", "x")), llmtest.Say("from the parent")), &deep.Options{Subagents: []deep.Subagent{worker}})
	texts := map[string]string{}
	for ev, err := range th.Stream(t.Context(), deep.Ask("go"), treadle.Modes(treadle.ModeMessages), treadle.Subgraphs()) {
		if err != nil {
			t.Fatal(err)
		}
		if tok, ok := ev.(treadle.Token); ok {
			texts[tok.Graph+" "+map[bool]string{true: "nested"}[len(tok.Namespace) > 0]] += tok.Text()
		}
	}
	if d := cmp.Diff(map[string]string{"worker nested": "from the worker", "deep ": "from the parent"}, texts); d != "" {
		t.Error(d)
	}
}

// The usage of sub-agents counts toward the budget of the parent, once.
func TestSubagentUsageCounts(t *testing.T) {
	used := func(turn llmtest.Turn, tokens int) llmtest.Turn {
		turn.Message.Usage = &llm.Usage{Total: tokens}
		return turn
	}
	for limit, fits := range map[int]bool{1230: true, 1205: false} {
		third := child(t, "third", used(llmtest.Say("x"), 1000))
		worker := child(t, "worker", used(llmtest.Ask(task("third", "y")), 100), used(llmtest.Say("y"), 100))
		worker.Subagents = []deep.Subagent{third}
		turns := []llmtest.Turn{used(llmtest.Ask(task("worker", "x")), 10)}
		if fits {
			turns = append(turns, used(llmtest.Ask(llmtest.ToolCall("ls", args{"path": "/"})), 10), used(llmtest.Say("done"), 5))
		}
		model := llmtest.Scripted(t, turns...)
		o := &deep.Options{Subagents: []deep.Subagent{worker}, Middleware: []*agent.Middleware{agent.Budget(&agent.BudgetOptions{RunTokens: limit})}}
		out, err := made(t, model, o).Run(t.Context(), deep.Ask("go"))
		if err != nil {
			t.Fatal(err)
		}
		if done := deep.Answer(out) == "done"; done != fits {
			t.Errorf("budget %d: %s", limit, deep.Answer(out))
		}
	}
}

func TestSubagentMistakes(t *testing.T) {
	ok := child(t, "a")
	for want, o := range map[string]*deep.Options{
		`duplicate sub-agent "a"`: {Subagents: []deep.Subagent{ok, ok}},
		`invalid name "a b"`:      {Subagents: []deep.Subagent{{Name: "a b", Description: "x"}}},
		`"a" has no description`:  {Subagents: []deep.Subagent{{Name: "a"}}},
		`invalid mode ""`:         {Subagents: []deep.Subagent{{Name: "a", Description: "x", Permissions: []deep.Permission{{Paths: []string{"/a"}}}}}},
	} {
		_, err := deep.New(llmtest.Scripted(t), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
