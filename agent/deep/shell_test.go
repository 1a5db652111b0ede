package deep_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// box is a sandbox that records scripts instead of running them.
type box struct {
	dir  *files.Dir
	exec func(ctx context.Context, c sandbox.Command) (sandbox.Result, error)

	mu  sync.Mutex
	ran []string
}

func newBox(t *testing.T, exec func(context.Context, sandbox.Command) (sandbox.Result, error)) *box {
	t.Helper()
	return &box{dir: disk(t, t.TempDir()), exec: exec}
}

func (b *box) Files() files.Backend { return b.dir }

func (b *box) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	b.mu.Lock()
	b.ran = append(b.ran, c.Script)
	b.mu.Unlock()
	if b.exec != nil {
		return b.exec(ctx, c)
	}
	_, err := fmt.Fprintln(c.Stdout, "ran "+c.Script)
	return sandbox.Result{}, err
}

func (b *box) scripts() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.ran, "|")
}

func execute(command string) llm.ToolCall {
	return llmtest.ToolCall("execute", args{"command": command})
}

func TestCommandRuns(t *testing.T) {
	b := newBox(t, nil)
	out, _ := results(t, &deep.Options{Shell: deep.ShellOptions{Sandbox: b}}, nil, execute("ls"),
		llmtest.ToolCall("write_file", args{"file_path": "/a.txt", "content": "x"}))
	if got := out[0].Text(); got != "ran ls\n[exit code 0]" || out[0].Status == llm.StatusError {
		t.Errorf("got %q", got)
	}
	if raw, err := files.Read(t.Context(), b.dir, "/a.txt", 10); err != nil || string(raw) != "x" {
		t.Errorf("the file tools do not use the sandbox: %q, %v", raw, err)
	}
}

func TestCommandOutcomes(t *testing.T) {
	for want, exec := range map[string]func(context.Context, sandbox.Command) (sandbox.Result, error){
		"[exit code 3]": func(context.Context, sandbox.Command) (sandbox.Result, error) { return sandbox.Result{Code: 3}, nil },
		"part\n[stopped: timeout limit]": func(_ context.Context, c sandbox.Command) (sandbox.Result, error) {
			_, err := c.Stdout.Write([]byte("part"))
			return sandbox.Result{Code: -1, Stopped: sandbox.Timeout}, err
		},
		"Error: closed": func(context.Context, sandbox.Command) (sandbox.Result, error) {
			return sandbox.Result{}, sandbox.ErrClosed
		},
		"\uFFFD\n[exit code 0]": func(_ context.Context, c sandbox.Command) (sandbox.Result, error) {
			_, err := c.Stdout.Write([]byte("\xff"))
			return sandbox.Result{}, err
		},
		"ab\n… (996 bytes omitted)\nba\n[exit": func(_ context.Context, c sandbox.Command) (sandbox.Result, error) {
			_, err := c.Stdout.Write([]byte("ab" + strings.Repeat("x", 996) + "ba"))
			return sandbox.Result{}, err
		},
	} {
		o := deep.ShellOptions{Sandbox: newBox(t, exec), OutputLimit: 4}
		contains(t, one(t, &deep.Options{Shell: o}, nil, "execute", args{"command": "x", "timeout": 5}), want)
	}
}

func TestLargeOutputGoesToFile(t *testing.T) {
	b := newBox(t, func(_ context.Context, c sandbox.Command) (sandbox.Result, error) {
		for range 3000 {
			if _, err := c.Stdout.Write([]byte(strings.Repeat("x", 999) + "\n")); err != nil {
				return sandbox.Result{}, err
			}
		}
		return sandbox.Result{}, nil
	})
	out, state := results(t, &deep.Options{Shell: deep.ShellOptions{Sandbox: b}}, nil, execute("yes"))
	contains(t, out[0].Text(), "too large", "/large_tool_results/", "[exit code 0]")
	for _, f := range state.Files {
		if n := len(f.Content); n < 900_000 || n > 1_000_100 {
			t.Errorf("file has %d bytes", n)
		}
		contains(t, string(f.Content), "bytes omitted")
	}
}

func TestCommandPermissions(t *testing.T) {
	rules := []deep.CommandPermission{
		{Commands: []string{"rm *", "git push *"}, Mode: deep.Deny},
		{Commands: []string{"git *", "ls *", "echo"}, Mode: deep.Allow},
		{Commands: []string{"make *"}, Mode: deep.Confirm},
	}
	for command, want := range map[string]deep.Mode{
		"git status": deep.Allow, "git": deep.Allow, "ls -l 'a b'": deep.Allow, "git log | ls && echo": deep.Allow, "g'i't \"log\"": deep.Allow,
		"git log; rm x": deep.Deny, "rm -rf /": deep.Deny, "git push": deep.Deny, "git  push\torigin": deep.Deny, "r\\m x": deep.Deny, "git log\nrm x": deep.Deny, "$(rm x)": deep.Deny,
		"ls & rm x": deep.Deny, "(rm x)": deep.Deny, "\"rm\" x": deep.Deny, "`rm x`": deep.Deny, "ls $(rm x)": deep.Deny,
		"make": deep.Confirm, "gitx": deep.Confirm, "echo a": deep.Confirm, "unknown": deep.Confirm, "git log > f": deep.Confirm, "git log $X": deep.Confirm,
		"X=1 git log": deep.Confirm, "ls \"$(x)\"": deep.Confirm, "git 'log": deep.Confirm, "git log # x": deep.Confirm, "if ls; then ls; fi": deep.Confirm, "ls ~": deep.Confirm,
		"ls {a,b}": deep.Confirm, "g\\\nit log": deep.Confirm, "ls\r": deep.Confirm, "! ls": deep.Confirm,
	} {
		b := newBox(t, nil)
		thread := made(t, llmtest.NewScript(llmtest.Ask(execute(command)), llmtest.Say("done")), &deep.Options{Shell: deep.ShellOptions{Sandbox: b, Permissions: rules}})
		out, err := thread.Run(t.Context(), deep.Ask("go"))
		got := deep.Confirm
		if err == nil {
			if got = deep.Deny; b.scripts() == command {
				got = deep.Allow
			} else {
				contains(t, toolResults(out)[0].Text(), "Permission denied")
			}
		}
		if got != want || want != deep.Allow && b.scripts() != "" {
			t.Errorf("%q: %s, want %s; ran %q", command, got, want, b.scripts())
		}
	}
	all := []deep.CommandPermission{{Commands: []string{"rm *"}, Mode: deep.Deny}, {Commands: []string{"*"}, Mode: deep.Allow}}
	b := newBox(t, nil)
	results(t, &deep.Options{Shell: deep.ShellOptions{Sandbox: b, Permissions: all}}, nil, execute("for i in *; do echo $i > x; done"), execute("ls; rm x"))
	if got := b.scripts(); got != "for i in *; do echo $i > x; done" {
		t.Errorf("ran %q", got)
	}
	for _, command := range []string{
		"if true; then rm x; fi", "while rm x; do :; done", "for i in *; do rm $i; done", "! rm x", "{ rm x; }", "f() { rm x; }; f", "time rm x",
		"X=1 rm x", "X=1 Y='a b' rm x", ">f rm x", "> f rm x", "2>f rm x", "2>&1 rm x", ">&2 rm x", ">|f rm x", "<f >>g rm x", "rm>f x", "rm 2>f x",
		"X=1 >f rm x", "if X=1 >f rm x; then :; fi", "echo \"$(rm x)\"", "echo \"a `rm x` b\"", "case a in a) rm x;; esac",
	} {
		b := newBox(t, nil)
		out, _ := results(t, &deep.Options{Shell: deep.ShellOptions{Sandbox: b, Permissions: all}}, nil, execute(command))
		if b.scripts() != "" || !strings.Contains(out[0].Text(), "Permission denied") {
			t.Errorf("%q was not denied", command)
		}
	}
}

func TestCommandQuestions(t *testing.T) {
	rules := []deep.CommandPermission{{Commands: []string{"rm *"}, Mode: deep.Deny}}
	for _, c := range []struct {
		answer      agent.Decision
		ran, result string
	}{
		{agent.Decision{Type: agent.Approve}, "make x\u202e", "ran make"},
		{agent.Decision{Type: agent.Reject, Message: "no"}, "", "reason: no"},
		{agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: "execute", Args: []byte(`{"command":"make y"}`)}}, "make y", "A person changed the arguments"},
		{agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: "execute", Args: []byte(`{"command":"rm y"}`)}}, "", "Permission denied"},
		{agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: "execute", Args: []byte(`{"command":1}`)}}, "", "arguments edited by the person"},
	} {
		b := newBox(t, nil)
		thread := made(t, llmtest.Scripted(t, llmtest.Ask(execute("make x\u202e")), llmtest.Say("done")), &deep.Options{Shell: deep.ShellOptions{Sandbox: b, Permissions: rules}})
		_, err := thread.Run(t.Context(), deep.Ask("go"))
		contains(t, review(t, asked(t, err, 1)[0]).Description, `"make x\u202e"`)
		if b.scripts() != "" {
			t.Error("ran before the answer")
		}
		out, err := thread.Resume(t.Context(), agent.Decisions{c.answer})
		if err != nil {
			t.Fatal(err)
		}
		contains(t, toolResults(out)[0].Text(), c.result)
		if b.scripts() != c.ran {
			t.Errorf("%s: ran %q, want %q", c.answer.Type, b.scripts(), c.ran)
		}
	}
}

// A command can reach every file of the sandbox, whatever the path rules say.
func TestPathRulesMakeCommandsAsk(t *testing.T) {
	for path, want := range map[string]int{"/private/**": 1, "/code/private/**": 1, "/**/key": 1, "/memories/**": 0} {
		b := newBox(t, nil)
		backend, err := files.Mount(files.Thread{}, map[string]files.Backend{"/code": b.dir})
		if err != nil {
			t.Fatal(err)
		}
		o := &deep.Options{Shell: deep.ShellOptions{Sandbox: b, At: "/code"}, Files: deep.FilesOptions{Backend: backend, Permissions: []deep.Permission{{Paths: []string{path}, Mode: deep.Deny}}}}
		if path == "/private/**" {
			o.Files.Backend, o.Shell.At = nil, ""
		}
		_, err = made(t, llmtest.NewScript(llmtest.Ask(execute("ls")), llmtest.Say("done")), o).Run(t.Context(), deep.Ask("go"))
		if want == 1 {
			asked(t, err, 1)
		} else if err != nil || b.scripts() != "ls" {
			t.Errorf("%s: %v, ran %q", path, err, b.scripts())
		}
	}
}

func TestSubagentInheritsShell(t *testing.T) {
	b := newBox(t, nil)
	o := &deep.Options{Shell: deep.ShellOptions{Sandbox: b, Permissions: []deep.CommandPermission{{Commands: []string{"ls"}, Mode: deep.Allow}, {Commands: []string{"*"}, Mode: deep.Deny}}},
		Subagents: []deep.Subagent{{Name: "worker", Description: "works", Model: llmtest.Scripted(t, llmtest.Ask(execute("ls"), execute("rm x")), llmtest.Say("report"))}}}
	results(t, o, nil, llmtest.ToolCall("task", args{"subagent_type": "worker", "description": "x"}))
	if b.scripts() != "ls" {
		t.Errorf("ran %q", b.scripts())
	}
}

// A process is killed while a command runs: what it had saved is continued by another process.
func TestInterruptedCommandIsNotRepeated(t *testing.T) {
	saver := checkpoint.NewMemory()
	began, release := make(chan struct{}), make(chan struct{})
	first := newBox(t, func(context.Context, sandbox.Command) (sandbox.Result, error) {
		close(began)
		<-release
		return sandbox.Result{}, errors.New("killed")
	})
	second := newBox(t, nil)
	start := func(b *box, model llm.Model) thread {
		return made(t, model, &deep.Options{Shell: deep.ShellOptions{Sandbox: b}, Graph: treadle.Options{Saver: saver}})
	}
	dead := make(chan struct{})
	killed := start(first, llmtest.NewScript(llmtest.Ask(execute("deploy")), llmtest.Say("unused")))
	go func() {
		defer close(dead)
		_, _ = killed.Run(context.WithoutCancel(t.Context()), deep.Ask("go")) // its outcome does not matter
	}()
	<-began
	out, err := start(second, llmtest.Scripted(t, llmtest.Say("I look first."))).Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	contains(t, toolResults(out)[0].Text(), "outcome of this command is unknown", "not run again")
	if second.scripts() != "" {
		t.Errorf("ran %q again", second.scripts())
	}
	close(release)
	<-dead
}

func TestCanceledCommandIsNotRepeated(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := newBox(t, func(ctx context.Context, _ sandbox.Command) (sandbox.Result, error) {
		cancel()
		return sandbox.Result{}, ctx.Err()
	})
	thread := made(t, llmtest.Scripted(t, llmtest.Ask(execute("deploy")), llmtest.Say("I look first.")), &deep.Options{Shell: deep.ShellOptions{Sandbox: b}})
	if _, err := thread.Run(ctx, deep.Ask("go")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	out, err := thread.Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	contains(t, toolResults(out)[0].Text(), "unknown")
	if b.scripts() != "deploy" {
		t.Errorf("ran %q", b.scripts())
	}
}

// A finished command does not run again because another call of the message asks a question.
func TestFinishedCommandIsReplayed(t *testing.T) {
	b := newBox(t, nil)
	rules := []deep.CommandPermission{{Commands: []string{"ls"}, Mode: deep.Allow}}
	thread := made(t, llmtest.Scripted(t, llmtest.Ask(execute("ls"), execute("make")), llmtest.Say("done")), &deep.Options{Shell: deep.ShellOptions{Sandbox: b, Permissions: rules}})
	_, err := thread.Run(t.Context(), deep.Ask("go"))
	asked(t, err, 1)
	if _, err := thread.Resume(t.Context(), approve); err != nil || b.scripts() != "ls|make" {
		t.Errorf("%v, ran %q", err, b.scripts())
	}
}

func TestSkillScriptsAreCopiedToSandbox(t *testing.T) {
	b := newBox(t, nil)
	large := strings.Repeat("x", 2<<20)
	skills := fstest.MapFS{"pdf/SKILL.md": {Data: []byte("---\nname: pdf\ndescription: d\n---\nUse it.")}, "pdf/scripts/run.sh": {Data: []byte("echo pdf")},
		"pdf/data": {Data: []byte(large)}, "other/x": {Data: []byte("x")}}
	in := files.Records{}
	for _, source := range []deep.SkillSource{{FS: skills}, {Dir: "/skills"}} {
		o := &deep.Options{Shell: deep.ShellOptions{Sandbox: b}, Skills: []deep.SkillSource{source}}
		if source.Dir != "" {
			o.Files = deep.FilesOptions{Backend: files.Thread{}, Permissions: []deep.Permission{{Paths: []string{"/skills/pdf/secret"}, Mode: deep.Deny}}}
			in = files.Records{"/skills/pdf/SKILL.md": files.Text("---\nname: pdf\ndescription: d\n---\nUse it."), "/skills/pdf/secret": files.Text("key"), "/skills/pdf/scripts/run.sh": files.Text("echo 2")}
		}
		text := one(t, o, in, "load_skill", args{"name": "pdf"})
		contains(t, text, "Use it.", "directory ./.skills/pdf of the sandbox")
		if source.FS != nil {
			contains(t, text, "1 files could not be copied")
		}
		raw, err := files.Read(t.Context(), b.dir, "/.skills/pdf/scripts/run.sh", 100)
		if want := map[bool]string{true: "echo 2", false: "echo pdf"}[source.Dir != ""]; err != nil || string(raw) != want {
			t.Errorf("got %q, %v, want %q", raw, err, want)
		}
		if _, err := files.Read(t.Context(), b.dir, "/.skills/pdf/secret", 100); err == nil {
			t.Error("a denied file was copied")
		}
	}
}

func TestShellMistakes(t *testing.T) {
	b := newBox(t, nil)
	for want, o := range map[string]deep.ShellOptions{
		"set ShellOptions.Sandbox":            {OutputLimit: 1},
		"invalid OutputLimit -1":              {Sandbox: b, OutputLimit: -1},
		`command permission 0: invalid mode`:  {Sandbox: b, Permissions: []deep.CommandPermission{{Commands: []string{"x"}}}},
		`command permission 0: no commands`:   {Sandbox: b, Permissions: []deep.CommandPermission{{Mode: deep.Deny}}},
		`command permission 0: empty pattern`: {Sandbox: b, Permissions: []deep.CommandPermission{{Commands: []string{" "}, Mode: deep.Deny}}},
		`".." is not supported`:               {Sandbox: b, At: "../x"},
	} {
		if _, err := deep.New(llmtest.Scripted(t), &deep.Options{Shell: o}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
