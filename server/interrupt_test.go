package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/a2a"

	"github.com/treadle-go/treadle"
	api "github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/reduce"
)

type askState struct {
	Questions int                 `json:"questions"`
	Typed     bool                `json:"typed"`
	Log       reduce.List[string] `json:"log"`
}

type askLog struct{ Log reduce.List[string] }

type verdict struct {
	OK   bool   `json:"ok"`
	Note string `json:"note,omitempty"`
}

// asking returns a graph with a node that raises several interrupts together, whose
// answers are verdicts or anything.
func asking() treadle.AnyGraph {
	b := treadle.New[askState]("asking")
	treadle.AddNode(b, "ask", func(ctx context.Context, s askState) (out askLog, err error) {
		for i := range s.Questions {
			q := treadle.Question{Value: fmt.Sprint("question ", i), Key: fmt.Sprint(i)}
			var answer any
			var asked error
			if s.Typed {
				answer, asked = treadle.Interrupt[verdict](ctx, q)
			} else {
				answer, asked = treadle.Interrupt[any](ctx, q)
			}
			if asked != nil {
				err = asked
			}
			out.Log = append(out.Log, fmt.Sprint(answer))
		}
		return out, err
	})
	b.Sequence(treadle.Start, "ask", treadle.End)
	return treadle.Must(b.Compile(nil))
}

// schemaIn returns the response schema of the only interrupt in a list; "absent" if it has
// no such key.
func schemaIn(t *testing.T, list json.RawMessage) string {
	t.Helper()
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(list, &all); err != nil || len(all) != 1 {
		t.Fatalf("interrupts %s: %v", list, err)
	}
	if schema, ok := all[0]["response_schema"]; ok {
		return string(schema)
	}
	return "absent"
}

// places returns the response schema of a thread's interrupt by the place where clients
// find it.
func (c *client) places(input string) map[string]string {
	c.t.Helper()
	got, id := map[string]string{}, c.thread()
	_, _, raw := c.do("POST", "/threads/"+id+"/runs/stream", `{"assistant_id":"asking","input":`+input+`,"stream_mode":["values","updates","tasks"]}`)
	for _, f := range frames(raw) {
		var data struct {
			Open       json.RawMessage `json:"__interrupt__"`
			Interrupts json.RawMessage `json:"interrupts"`
		}
		if err := json.Unmarshal([]byte(f.data), &data); err != nil {
			c.t.Fatal(err)
		}
		switch {
		case data.Open != nil:
			got[f.event] = schemaIn(c.t, data.Open)
		case data.Interrupts != nil:
			got[f.event] = schemaIn(c.t, data.Interrupts)
		}
	}
	var thread struct{ Interrupts map[string]json.RawMessage }
	c.ok("GET", "/threads/"+id, "", &thread)
	for _, list := range thread.Interrupts {
		got["thread"] = schemaIn(c.t, list)
	}
	var state struct {
		Interrupts json.RawMessage
		Tasks      []struct{ Interrupts json.RawMessage }
	}
	c.ok("GET", "/threads/"+id+"/state", "", &state)
	got["state"], got["task"] = schemaIn(c.t, state.Interrupts), schemaIn(c.t, state.Tasks[0].Interrupts)
	var values struct {
		Open json.RawMessage `json:"__interrupt__"`
	}
	c.ok("POST", "/threads/"+c.thread()+"/runs/wait", `{"assistant_id":"asking","input":`+input+`}`, &values)
	got["wait"] = schemaIn(c.t, values.Open)
	task := c.task("asking", `{"kind":"data","data":`+input+`}`, "")
	parts := task.Status.Message.Parts
	got["a2a"] = schemaIn(c.t, json.RawMessage(asJSON(c.t, parts[len(parts)-1].(a2a.DataPart).Data["interrupts"])))
	return got
}

func TestInterruptsCarryResponseSchema(t *testing.T) {
	c := startGraphs(t, newMemory(), nil, asking())
	for place, schema := range c.places(`{"questions":1,"typed":true}`) {
		if !strings.Contains(schema, `"ok"`) || !strings.Contains(schema, `"required"`) {
			t.Errorf("%s: the schema is %s", place, schema)
		}
	}
	// LangGraph's streams have the key always, its states only with a schema.
	want := map[string]string{"values": "null", "updates": "null", "tasks": "null", "wait": "null", "thread": "absent", "state": "absent", "task": "absent", "a2a": "absent"}
	got := c.places(`{"questions":1}`)
	if len(got) != len(want) {
		t.Errorf("the places are %v", got)
	}
	for place, schema := range got {
		if schema != want[place] {
			t.Errorf("%s: the schema of any answer is %s, want %s", place, schema, want[place])
		}
	}
}

func TestClientReadsResponseSchema(t *testing.T) {
	c := startGraphs(t, newMemory(), nil, asking())
	remote, err := api.New(c.base, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := c.thread()
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"asking","input":{"questions":1,"typed":true}}`, nil)
	state, err := remote.Threads.State(t.Context(), id, nil)
	if err != nil || len(state.Interrupts) != 1 || !strings.Contains(string(state.Interrupts[0].Schema), `"ok"`) {
		t.Errorf("interrupts %+v, %v", state.Interrupts, err)
	}
}

// refusal resumes a thread strictly and returns the class of the run's error, "" if the run
// succeeds, and its log.
func (c *client) refusal(thread, resume, more string) (class string, log []string) {
	c.t.Helper()
	var out struct {
		Log   []string
		Error struct{ Error string } `json:"__error__"`
	}
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"asking","command":{"resume":`+resume+`}`+more+`}`, &out)
	return out.Error.Error, out.Log
}

func TestStrictResumeRejectsUnmatchedAnswers(t *testing.T) {
	const strict, unknown = `,"strict_resume":true`, `"0123456789abcdef0123456789abcdef":1`
	c := startGraphs(t, newMemory(), nil, asking())
	var info struct{ Flags map[string]bool }
	c.ok("GET", "/info", "", &info)
	if !info.Flags["strict_resume"] {
		t.Errorf("/info does not report strict_resume: %v", info.Flags)
	}
	var state struct{ Interrupts []struct{ ID string } }
	ask := func(questions int) (thread string) {
		thread = c.thread()
		c.ok("POST", "/threads/"+thread+"/runs/wait", fmt.Sprintf(`{"assistant_id":"asking","input":{"questions":%d}}`, questions), nil)
		c.ok("GET", "/threads/"+thread+"/state", "", &state)
		return thread
	}
	id := ask(2)
	first, second := state.Interrupts[0].ID, state.Interrupts[1].ID
	for _, resume := range []string{`{` + unknown + `}`, fmt.Sprintf(`{%q:"a",%q:"b",%s}`, first, second, unknown), `{}`, `"a"`} {
		if class, _ := c.refusal(id, resume, strict); class != "UnknownInterruptError" {
			t.Errorf("resume %s: the error is %q", resume, class)
		}
		c.ok("GET", "/threads/"+id+"/state", "", &state)
		var thread struct {
			Status     string
			Interrupts map[string][]struct{ ID string }
		}
		c.ok("GET", "/threads/"+id, "", &thread)
		if len(state.Interrupts) != 2 || len(thread.Interrupts) != 1 {
			t.Fatalf("resume %s: the thread has changed to %+v, %+v", resume, state, thread)
		}
	}
	if class, _ := c.refusal(id, `{`+unknown+`}`, ""); class != "" {
		t.Errorf("a lenient resume of an unknown interrupt: %q", class)
	}
	if class, log := c.refusal(id, fmt.Sprintf(`{%q:"a",%q:"b"}`, first, second), strict); class != "" || fmt.Sprint(log) != "[a b]" {
		t.Errorf("answers to both: %q, %v", class, log)
	}
	if class, _ := c.refusal(id, fmt.Sprintf(`{%q:"a"}`, first), strict); class != "UnknownInterruptError" {
		t.Errorf("a second answer: %q", class)
	}
	// A single value resumes a breakpoint as well, so it needs no open question.
	if class, _ := c.refusal(id, `"a"`, strict); class != "" {
		t.Errorf("a value without a question: %q", class)
	}
}

func TestStrictResumeAllowsReplay(t *testing.T) {
	c := startGraphs(t, newMemory(), nil, asking())
	id := c.thread()
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"asking","input":{"questions":1}}`, nil)
	var state struct {
		Checkpoint json.RawMessage
		Interrupts []struct{ ID string }
	}
	c.ok("GET", "/threads/"+id+"/state", "", &state)
	at := `,"strict_resume":true,"checkpoint":` + string(state.Checkpoint)
	if class, log := c.refusal(id, `"a"`, at); class != "" || fmt.Sprint(log) != "[a]" {
		t.Errorf("the answer at the last checkpoint: %q, %v", class, log)
	}
	// The thread has moved past the checkpoint, so an answer that was given may be replayed.
	if class, _ := c.refusal(id, `{"0123456789abcdef0123456789abcdef":1}`, at); class != "" {
		t.Errorf("an answer at a checkpoint in the past: %q", class)
	}
}
