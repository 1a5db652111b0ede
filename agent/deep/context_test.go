package deep_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// chars counts characters, so that limits are exact.
func chars(_ context.Context, ms []llm.Message) (int, error) {
	n := 0
	for _, m := range ms {
		n += len(m.Text())
		for _, c := range m.ToolCalls {
			n += len(c.Args)
		}
	}
	return n, nil
}

// small returns a context of 1,000 characters.
func small(summary llm.Model) deep.ContextOptions {
	return deep.ContextOptions{Tokens: 1000, Trigger: 1, Keep: 0.2, ClearAt: 1, Count: chars, Model: summary}
}

// Above the limit, a summary takes the place of the older messages for the model. The
// thread keeps all of them, and the archive is a file in which the agent finds them.
func TestConversationIsCompacted(t *testing.T) {
	var summarized []string
	summary := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		summarized = append(summarized, r.Messages[1].Text())
		return llm.Assistant(fmt.Sprintf("summary %d", len(summarized))), nil
	})
	var seen []string // the first message of each request
	script := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		last := r.Messages[len(r.Messages)-1]
		seen = append(seen, r.Messages[1].Text())
		if strings.HasPrefix(last.Text(), "find") {
			return llm.Assistant("", llmtest.ToolCall("grep", args{"pattern": "turn 0 ", "path": "/conversation_history"})), nil
		}
		return llm.Assistant("answer to " + last.Text()[:7]), nil
	})
	th := made(t, script, &deep.Options{Context: small(summary)})
	for i := range 5 {
		if _, err := th.Run(t.Context(), deep.Ask(fmt.Sprintf("turn %d %s", i, strings.Repeat("x", 300)))); err != nil {
			t.Fatal(err)
		}
	}
	out, err := th.Run(t.Context(), deep.Ask("find the first turn"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(out.Messages); n != 14 {
		t.Errorf("the thread has %d messages, want all 14", n)
	}
	if len(summarized) < 1 || len(out.Files) != 1 {
		t.Fatalf("%d summaries, %d files", len(summarized), len(out.Files))
	}
	contains(t, summarized[0], "turn 0", "answer to turn 0")
	contains(t, seen[len(seen)-1], fmt.Sprintf("summary %d", len(summarized)), "/conversation_history/session_")
	contains(t, toolResults(out)[0].Text(), "/conversation_history/session_")
	if len(summarized) > 1 {
		contains(t, summarized[1], "summary 1")
		lacks(t, summarized[1], "turn 0")
	}
}

// Calls stay with their results, and the user's request survives in a long turn.
func TestCompactionKeepsCallsWithResults(t *testing.T) {
	summary := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) { return llm.Assistant("short"), nil })
	var turns []llmtest.Turn
	for range 6 {
		turns = append(turns, llmtest.Ask(llmtest.ToolCall("say", args{"text": strings.Repeat("y", 150)}), llmtest.ToolCall("say", args{"text": "z"})))
	}
	o := &deep.Options{Tools: []*llm.Tool{echo("say")}, Context: small(summary)}
	turns = append(turns, llmtest.Say("done", func(r *llm.Request) error {
		if !strings.Contains(r.Messages[1].Text(), "the original request") {
			return errors.New("the request is lost")
		}
		return nil
	}))
	if _, err := made(t, llmtest.Scripted(t, turns...), o).Run(t.Context(), deep.Ask("the original request")); err != nil {
		t.Fatal(err)
	}
}

// Old results are hidden first, which often makes a summary unnecessary.
func TestOldResultsAreHiddenFirst(t *testing.T) {
	var turns []llmtest.Turn
	for range 6 {
		turns = append(turns, llmtest.Ask(llmtest.ToolCall("say", args{"text": strings.Repeat("y", 200)})))
	}
	turns = append(turns, llmtest.Say("done", func(r *llm.Request) error {
		if r.Messages[3].Text() != "[cleared]" || r.Messages[len(r.Messages)-1].Text() == "[cleared]" {
			return errors.New("old results are not hidden, or new ones are")
		}
		return nil
	}))
	o := &deep.Options{Tools: []*llm.Tool{echo("say")}, Context: small(llmtest.Scripted(t))}
	o.Context.Tokens, o.Context.ClearAt = 2200, 0.5
	if _, err := made(t, llmtest.Scripted(t, turns...), o).Run(t.Context(), deep.Ask("go")); err != nil {
		t.Fatal(err)
	}
}

func TestOverflowIsRecovered(t *testing.T) {
	over := &llm.ContextError{Limit: 10, Used: 20, Err: errors.New("too long")}
	summary := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) { return llm.Assistant("short"), nil })
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("say", args{"text": strings.Repeat("y", 9000)})), llmtest.Fail(over),
		llmtest.Say("recovered", func(r *llm.Request) error {
			if n, _ := chars(t.Context(), r.Messages[1:]); n > 15_000 {
				return fmt.Errorf("the second request has %d characters", n)
			}
			return llmtest.Asked("[shortened: 9000 characters]")(r)
		}), llmtest.Say("next", func(r *llm.Request) error {
			if !strings.Contains(r.Messages[1].Text(), "short") {
				return errors.New("the conversation was not compacted afterward")
			}
			return nil
		}))
	th := made(t, model, &deep.Options{Tools: []*llm.Tool{echo("say")}, Context: deep.ContextOptions{Model: summary}})
	if _, err := th.Run(t.Context(), deep.Ask("go")); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Run(t.Context(), deep.Ask("again")); err != nil {
		t.Fatal(err)
	}
	// A second overflow is an error.
	_, err := made(t, llmtest.Scripted(t, llmtest.Fail(over), llmtest.Fail(over)), nil).Run(t.Context(), deep.Ask("go"))
	if _, ok := errors.AsType[*llm.ContextError](err); !ok {
		t.Errorf("got error %v", err)
	}
}

func TestCompactTool(t *testing.T) {
	summary := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) { return llm.Assistant("short"), nil })
	compact := llmtest.Ask(llmtest.ToolCall("compact_conversation", args{}))
	model := llmtest.Scripted(t, compact, llmtest.Say("too early", llmtest.Asked("still short")), compact,
		llmtest.Say("done", func(r *llm.Request) error {
			if !strings.Contains(r.Messages[1].Text(), "short") {
				return errors.New("not compacted")
			}
			return nil
		}))
	o := &deep.Options{Context: small(summary)}
	th := made(t, model, o)
	if _, err := th.Run(t.Context(), deep.Ask("go")); err != nil {
		t.Fatal(err)
	}
	if _, err := th.Run(t.Context(), deep.Ask(strings.Repeat("x", 600))); err != nil {
		t.Fatal(err)
	}
}

// If the summary fails, the run fails and the thread is unchanged; a compaction that the
// agent asked for is not important enough.
func TestFailedSummary(t *testing.T) {
	failing := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) { return llm.Message{}, errors.New("quota") })
	th := made(t, llmtest.Scripted(t), &deep.Options{Context: small(failing)})
	in := deep.Ask("one")
	in.Messages = append(in.Messages, llm.Assistant("two"), llm.User(strings.Repeat("x", 1200)))
	if _, err := th.Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), "summarize") {
		t.Errorf("got error %v", err)
	}
}

func TestCompactInPlainAgent(t *testing.T) {
	for noArchive, ok := range map[bool]bool{true: true, false: false} {
		_, err := agent.New(llmtest.Scripted(t), &agent.Options{Middleware: []*agent.Middleware{deep.Compact(&deep.ContextOptions{NoArchive: noArchive})}})
		if (err == nil) != ok {
			t.Errorf("NoArchive %v: %v", noArchive, err)
		}
	}
	for _, o := range []deep.ContextOptions{{Trigger: 2}, {Keep: 0.9}, {Tokens: -1}, {ClearAt: -1}} {
		o.NoArchive = true
		if _, err := agent.New(llmtest.Scripted(t), &agent.Options{Middleware: []*agent.Middleware{deep.Compact(&o)}}); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
}

func TestShareOfWindowDecides(t *testing.T) {
	summary := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) { return llm.Assistant("short"), nil })
	model := llm.WithInfo(llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		return llm.Assistant(r.Messages[1].Text()[:7]), nil
	}), llm.Info{Window: 1000})
	th := made(t, model, &deep.Options{Context: deep.ContextOptions{Count: chars, Model: summary}})
	in := deep.Ask("before")
	in.Messages = append(in.Messages, llm.Assistant("two"), llm.User(strings.Repeat("x", 900)))
	out, err := th.Run(t.Context(), in)
	if err != nil || deep.Answer(out) != "Summary" {
		t.Errorf("%q, %v", deep.Answer(out), err)
	}
}

// Providers cache the start of a request: the tools and the prompt are the same in every call of a
// thread, and each request starts with the one before. A run has many steps.
func TestRequestsStartWithEarlierOnes(t *testing.T) {
	var before *llm.Request
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		if before != nil {
			var a, b []string
			for _, tool := range before.Tools {
				a = append(a, tool.Name+tool.Description)
			}
			for _, tool := range r.Tools {
				b = append(b, tool.Name+tool.Description)
			}
			for i, m := range before.Messages {
				a, b = append(a, m.Text()), append(b, r.Messages[i].Text())
			}
			if d := cmp.Diff(a, b); d != "" {
				return llm.Message{}, errors.New(d)
			}
		}
		before = r
		if len(r.Messages) > 120 {
			return llm.Assistant("done"), nil
		}
		return llm.Assistant("", llmtest.ToolCall("ls", args{"path": "/"})), nil
	})
	o := &deep.Options{Tools: []*llm.Tool{echo("b"), echo("a")}, Memory: []string{"/AGENTS.md"}, Skills: []deep.SkillSource{{FS: skillFS(map[string]string{"review/SKILL.md": review1})}},
		SkillTools: map[string][]*llm.Tool{"x": {echo("x")}, "y": {echo("y")}}}
	in := deep.Ask("go")
	in.Files = files.Records{"/AGENTS.md": files.Text("Use tabs.")}
	th := made(t, model, o)
	for range 2 {
		if out, err := th.Run(t.Context(), in); err != nil || deep.Answer(out) != "done" {
			t.Fatal(deep.Answer(out), err)
		}
	}
}

func TestMiddlewareReplacesPart(t *testing.T) {
	own := deep.Files(&deep.FilesOptions{Tools: []string{"read_file"}})
	model := llmtest.Scripted(t, llmtest.Say("done", llmtest.Offered("read_file", "write_todos", "compact_conversation", "extra")))
	th := made(t, model, &deep.Options{NoGeneral: true, Middleware: []*agent.Middleware{{Name: "mine", Tools: []*llm.Tool{echo("extra")}}, own}})
	if _, err := th.Run(t.Context(), deep.Ask("go")); err != nil {
		t.Fatal(err)
	}
}

// The files of a run without a thread live as long as the run.
func TestRunWithoutThread(t *testing.T) {
	g, err := deep.New(llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "x"})), llmtest.Say("done")), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Run(t.Context(), deep.Ask("go"))
	if err != nil || string(out.Files["/f"].Content) != "x" {
		t.Errorf("%v, %v", out.Files, err)
	}
}
