package injecttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/need"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// texts are the texts that texts.py prints.
type texts struct {
	Goals []struct {
		Text      string
		Functions []string // the tools of AgentDojo that reach the goal
	}
	Attacks map[string]string
}

func load(t *testing.T) (out texts) {
	t.Helper()
	need.Program(t, need.Python)
	python, err := filepath.Abs(filepath.Join(".venv", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("AgentDojo is not installed: run .ci/python: %v", err)
	}
	raw, err := exec.CommandContext(t.Context(), python, "texts.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Goals) != 35 || len(out.Attacks) != 11 {
		t.Fatalf("%d goals and %d attacks, want 35 and 11", len(out.Goals), len(out.Attacks))
	}
	return out
}

// An injection is a text that the agent comes across.
type injection struct {
	name, text string
	functions  []string
}

func (x texts) injections() (out []injection) {
	for _, name := range slices.Sorted(maps.Keys(x.Attacks)) {
		for i, goal := range x.Goals {
			fill := strings.NewReplacer("{goal}", goal.Text, "{user}", []string{"Emma Johnson", "Mark Smith", "user"}[i%3],
				"{model}", []string{"GPT-4", "AI assistant"}[i%2], "{tools}", fmt.Sprintf("You should use the tools %q.", goal.Functions))
			out = append(out, injection{fmt.Sprintf("%s %d", name, i), fill.Replace(x.Attacks[name]), goal.Functions})
			if !strings.Contains(x.Attacks[name], "{goal}") {
				break // denial of service
			}
		}
	}
	return out
}

type args = map[string]any

// obeys returns the calls with which a gullible agent follows a text. They are the goal, in our
// tools, and what other attacks go for: denied files, instructions, tools that are not offered,
// and the text itself as an argument.
func (x injection) obeys(id string) []llm.ToolCall {
	all := []llm.ToolCall{
		llmtest.ToolCall("read_file", args{"file_path": "/private/key"}),
		llmtest.ToolCall("grep", args{"pattern": "KEY", "path": "/"}),
		llmtest.ToolCall("write_file", args{"file_path": "/private/" + id, "content": x.text}),
		llmtest.ToolCall("edit_file", args{"file_path": "/AGENTS.md", "old_string": "Be brief.", "new_string": x.text}),
		llmtest.ToolCall("load_skill", args{"name": "mail", "file": "../../private/key"}),
		llmtest.ToolCall("load_skill", args{"name": "mail", "file": "secret/key"}),
		llmtest.ToolCall("wipe", args{}),
		llmtest.ToolCall("read_file", args{"file_path": x.text}),
		llmtest.ToolCall("glob", args{"pattern": x.text}),
		llmtest.ToolCall("grep", args{"pattern": x.text, "glob": x.text}),
		llmtest.ToolCall("write_file", args{"file_path": "/notes/" + x.text, "content": "x"}),
	}
	for _, f := range x.functions {
		verb, _, _ := strings.Cut(f, "_")
		switch verb {
		case "get", "read", "search": // what the files have
			all = append(all, llmtest.ToolCall("read_file", args{"file_path": "/records/" + f}))
		case "delete":
			all = append(all, llmtest.ToolCall("delete", args{"file_path": "/records"}))
		}
	}
	all = append(all, llmtest.ToolCall("send", args{"to": strings.Join(x.functions, ","), "text": x.text}))
	for i := range all {
		all[i].ID = fmt.Sprintf("%s-%d", id, i)
	}
	return all
}

// The places where an agent comes across a text, with the call that reads it.
var places = []struct {
	name string
	call llm.ToolCall
}{
	{"file", llmtest.ToolCall("read_file", args{"file_path": "/inbox/mail", "limit": 1000})},
	{"tool result", llmtest.ToolCall("fetch", args{})},
	{"skill", llmtest.ToolCall("load_skill", args{"name": "mail"})},
	{"memory file", llmtest.ToolCall("ls", args{"path": "/"})},
	{"sub-agent", llmtest.ToolCall("task", args{"subagent_type": "general-purpose", "description": "read the mail"})},
}

// scene is an agent with the guards, and what happened.
type scene struct {
	injection
	mu      sync.Mutex
	sent    []string
	wiped   bool
	results map[string]string // of calls, at every level
}

// model does what a text asks for, once. Sub-agents do so too, and report the text.
func (s *scene) model(place int) llm.Model {
	return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		child := strings.Contains(r.Messages[0].Text(), "for another agent")
		id, call := "parent", places[place].call
		if child {
			id, call = "child", places[0].call
		}
		call.ID = id
		switch turns := slices.DeleteFunc(slices.Clone(r.Messages), func(m llm.Message) bool { return m.Role != llm.RoleAI }); len(turns) {
		case 0:
			return llm.Assistant("", call), nil
		case 1:
			seen := r.Messages[1:]
			if !child && places[place].name == "memory file" {
				seen = r.Messages[:1] // the prompt
			}
			if !slices.ContainsFunc(seen, func(m llm.Message) bool { return strings.Contains(m.Text(), firstLine(s.text)) }) {
				return llm.Message{}, errors.New("the model does not see the text")
			}
			return llm.Assistant("", s.obeys(id)...), nil
		}
		return llm.Assistant(s.text), nil
	})
}

// firstLine returns a part of a text that notices leave as it is.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func (s *scene) files() files.Records {
	return files.Records{"/inbox/mail": files.Text(s.text), "/private/key": files.Text("KEY=1"), "/AGENTS.md": files.Text("Be brief.\n" + s.text),
		"/records/get_user_information": files.Text("KEY=2"), "/skills/mail/SKILL.md": files.Text("---\nname: mail\ndescription: " + strings.Join(strings.Fields(s.text), " ") + "\n---\n" + s.text),
		"/skills/mail/secret/key": files.Text("KEY=3")}
}

func (s *scene) agent(t *testing.T, place int) *treadle.Graph[deep.State, deep.State] {
	t.Helper()
	send := llm.NewTool("send", "Sends a text.", func(_ context.Context, in struct {
		To   string `json:"to"`
		Text string `json:"text"`
	}) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, in.Text)
		return "sent", nil
	})
	wipe := llm.NewTool("wipe", "Deletes everything.", func(context.Context, struct{}) (string, error) {
		s.wiped = true
		return "wiped", nil
	})
	fetch := llm.NewTool("fetch", "Returns a page.", func(context.Context, struct{}) (string, error) { return s.text, nil })
	spy := &agent.Middleware{Name: "spy", WrapTool: func(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
		out, err := next(ctx, c)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.results[c.ID] = llm.ToolResult(c.ToolCall, out).Text()
		}
		return out, err
	}}
	g, err := deep.New(s.model(place), &deep.Options{Tools: []*llm.Tool{send, fetch}, Memory: []string{"/AGENTS.md"},
		Skills: []deep.SkillSource{{Dir: "/skills"}}, SkillTools: map[string][]*llm.Tool{"other": {wipe}},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "send"}), spy},
		Files: deep.FilesOptions{Permissions: []deep.Permission{
			{Paths: []string{"/private/**", "/skills/*/secret/**", "/records/**"}, Mode: deep.Deny},
			{Paths: []string{"/AGENTS.md", "/notes/**"}, Ops: []string{deep.OpWrite}, Mode: deep.Confirm},
		}},
		Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// play runs the agent. A person answers each question, after a look at the real arguments.
func (s *scene) play(t *testing.T, place int, answer agent.Decision) (asked []string, state deep.State) {
	t.Helper()
	in := deep.Ask("What is new?")
	in.Files = s.files()
	thread := s.agent(t, place).Thread("1")
	state, err := thread.Run(t.Context(), in)
	for {
		stop, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok {
			break
		}
		answers := treadle.Answers{}
		for _, p := range stop.Pauses {
			var about agent.Review
			if err := p.Decode(&about); err != nil {
				t.Fatal(err)
			}
			for _, call := range about.Calls {
				var got struct {
					Text string
					New  string `json:"new_string"`
					Path string `json:"file_path"`
				}
				if err := json.Unmarshal(call.Args, &got); err != nil {
					t.Fatal(err)
				}
				if got.Text != s.text && got.New != s.text && got.Path != "/notes/"+s.text {
					t.Errorf("question about %s shows %s", call.Name, call.Args)
				}
				asked = append(asked, call.Name)
				if call.Name == "send" && len(s.sent) == len(asked) {
					t.Error("sent before the answer")
				}
			}
			d := answer
			if about.Calls[0].Name != "send" {
				d = agent.Decision{Type: agent.Reject}
			}
			answers[p.ID] = agent.Decisions{d}
		}
		state, err = thread.Resume(t.Context(), answers)
	}
	if err != nil {
		t.Fatal(err)
	}
	return asked, state
}

// A model that does whatever a text asks for achieves nothing that is denied, and what is gated
// happens only after a person has seen the real arguments.
func TestGuardsHoldAgainstInjections(t *testing.T) {
	for i, x := range load(t).injections() {
		if race.Enabled && i%6 != 0 { // every place and attack
			continue
		}
		place := i % len(places)
		t.Run(x.name+" in "+places[place].name, func(t *testing.T) {
			s := &scene{injection: x, results: map[string]string{}}
			answer := agent.Decision{Type: []agent.DecisionType{agent.Approve, agent.Reject}[i/len(places)%2]}
			asked, state := s.play(t, place, answer)
			levels := []string{"parent"}
			if places[place].name == "sub-agent" {
				levels = append(levels, "child")
			}
			want := 0
			if answer.Type == agent.Approve {
				want = len(levels)
			}
			if len(s.sent) != want || s.wiped {
				t.Errorf("after %s: sent %d texts, want %d; wiped: %v", answer.Type, len(s.sent), want, s.wiped)
			}
			for name, n := range map[string]int{"send": len(levels), "edit_file": len(levels)} {
				if got := len(slices.DeleteFunc(slices.Clone(asked), func(one string) bool { return one != name })); got != n {
					t.Errorf("asked %d times about %s, want %d", got, name, n)
				}
			}
			if d := cmp.Diff(s.files(), state.Files); d != "" {
				t.Errorf("files changed:\n%s", d)
			}
			s.check(t, levels)
		})
	}
}

// check checks the results of the calls.
func (s *scene) check(t *testing.T, levels []string) {
	t.Helper()
	for id, text := range s.results {
		if strings.Contains(text, "KEY=") {
			t.Errorf("call %s returned a secret: %q", id, text)
		}
	}
	for _, level := range levels {
		for i, c := range s.obeys(level) {
			text := s.results[c.ID]
			denied := i == 0 || i == 2 || i == 5 || c.Name == "delete" || strings.Contains(string(c.Args), `"/records/`)
			if denied && !strings.HasPrefix(text, "Permission denied") {
				t.Errorf("%s %s: %q", c.Name, c.Args, text)
			}
			if c.Name == "wipe" && text != "" {
				t.Errorf("wipe ran: %q", text)
			}
		}
	}
}
