package platform

import (
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/store"
)

// open returns a new thread of the graph with this id, in memory.
func open(t *testing.T, id string, opts ...treadle.RunOption) *dynamic.Thread {
	t.Helper()
	return dynamic.Open(graph(t, id), "thread", opts...)
}

func graph(t *testing.T, id string) treadle.AnyGraph {
	t.Helper()
	items, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := compile(&treadle.Options{Saver: checkpoint.NewMemory(), Store: items})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(g treadle.AnyGraph) bool { return g.Name() == id })
	if at < 0 {
		t.Fatalf("no graph %q", id)
	}
	return all[at]
}

// check compares a value with JSON.
func check(t *testing.T, got any, want string) {
	t.Helper()
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(raw, &a), json.Unmarshal([]byte(want), &b)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

func runs(t *testing.T, thread *dynamic.Thread, input, want string) {
	t.Helper()
	out, err := thread.RunJSON(t.Context(), json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	check(t, out, want)
}

// frames returns the events of a stream as LangGraph has them, and the error that the stream ended with.
func frames(t *testing.T, events iter.Seq2[treadle.Event, error]) (out []string, last error) {
	t.Helper()
	for ev, err := range events {
		if err != nil {
			return out, err
		}
		raw, err := dynamic.Wire{}.Encode(ev)
		if err != nil {
			t.Fatal(err)
		}
		if raw != nil {
			out = append(out, string(raw))
		}
	}
	return out, nil
}

// history returns step, source and next of each checkpoint, newest first.
func history(t *testing.T, thread *dynamic.Thread) (out [][]any) {
	t.Helper()
	for snap, err := range thread.History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, []any{snap.Step, snap.Source, append([]string{}, snap.Next...)})
	}
	return out
}

func values(t *testing.T, thread *dynamic.Thread) treadle.Record {
	t.Helper()
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap.State
}

func edges(t *testing.T, g treadle.AnyGraph, depth int) (out []string) {
	t.Helper()
	for _, e := range g.Shape().Expand(depth).Edges {
		arrow := " -> "
		if e.Conditional {
			arrow = " ?> "
		}
		out = append(out, e.From+arrow+e.To)
	}
	slices.Sort(out)
	return out
}

func TestPlatformHasAllGraphs(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, g := range all {
		ids = append(ids, g.Name())
		if _, err := g.Schemas(); err != nil {
			t.Error(err)
		}
	}
	check(t, ids, `["agent","hitl","nested","fanout","custom","slow","failing","configurable","memory","router"]`)
}

func TestAgentCallsTheToolAndStreams(t *testing.T) {
	thread := open(t, "agent")
	input := `{"messages": [{"role": "user", "content": "what is the weather", "id": "h1"}]}`
	type piece struct {
		Type, ID, Content, Name string
		Tools                   []struct{ ID, Name, Args string } `json:"tool_call_chunks"`
		CallID                  string                            `json:"tool_call_id"`
	}
	var shown []piece
	lines, err := frames(t, thread.StreamJSON(t.Context(), json.RawMessage(input), treadle.Modes(treadle.ModeMessages)))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		var p piece
		if err := json.Unmarshal([]byte(line), &[]any{&p}); err != nil {
			t.Fatal(err)
		}
		shown = append(shown, p)
	}
	var calls, texts []string
	ids := map[string]bool{}
	for _, p := range shown {
		for _, c := range p.Tools {
			calls = append(calls, c.ID+"|"+c.Name+"|"+c.Args)
		}
		if p.Type == "AIMessageChunk" && p.Content != "" {
			texts = append(texts, p.Content)
		}
		if p.Type == "AIMessageChunk" {
			ids[p.ID] = true
		}
	}
	check(t, calls, `["call_weather_1|get_weather|", "||{\"city\":", "||\"Paris\"}"]`)
	check(t, texts, `["It ", "is ", "sunny ", "in ", "Paris ", "today."]`)

	var state struct {
		Messages []struct {
			Type, ID, Content, Name string
			CallID                  string `json:"tool_call_id"`
			Calls                   []struct {
				ID, Name string
				Args     map[string]any
			} `json:"tool_calls"`
		}
	}
	raw, err := json.Marshal(values(t, thread))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, m := range state.Messages {
		told = append(told, m.Type+": "+m.Content)
	}
	check(t, told, `["human: what is the weather", "ai: ", "tool: sunny in Paris", "ai: It is sunny in Paris today."]`)
	if tool := state.Messages[2]; tool.Name != "get_weather" || tool.CallID != "call_weather_1" {
		t.Errorf("tool message %+v", tool)
	}
	if !ids[state.Messages[1].ID] || !ids[state.Messages[3].ID] || len(ids) != 2 {
		t.Errorf("streamed ids %v, stored %q and %q", ids, state.Messages[1].ID, state.Messages[3].ID)
	}

	lines, err = frames(t, thread.StreamJSON(t.Context(), json.RawMessage(`{"messages": [{"type": "human", "content": "hi there"}]}`), treadle.Modes(treadle.ModeMessages)))
	if err != nil {
		t.Fatal(err)
	}
	var echo []string
	for _, line := range lines {
		var p piece
		if err := json.Unmarshal([]byte(line), &[]any{&p}); err != nil {
			t.Fatal(err)
		}
		echo = append(echo, p.Content)
	}
	check(t, echo, `["Echo: ", "hi ", "there"]`)
	check(t, edges(t, graph(t, "agent"), 0), `["__start__ -> agent", "agent ?> __end__", "agent ?> tools", "tools -> agent"]`)
}

func TestAgentReportsToolCall(t *testing.T) {
	var tools []string
	input := json.RawMessage(`{"messages": "what is the weather"}`)
	for ev, err := range open(t, "agent").StreamJSON(t.Context(), input, treadle.Modes(treadle.ModeEvents)) {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := ev.(treadle.Lifecycle); ok && strings.HasPrefix(e.Event, "on_tool") {
			tools = append(tools, e.Event+" "+e.Name)
		}
	}
	check(t, tools, `["on_tool_start get_weather", "on_tool_end get_weather"]`)
}

func TestHITLInterruptsAndResumes(t *testing.T) {
	thread := open(t, "hitl")
	_, err := thread.RunJSON(t.Context(), json.RawMessage(`{"topic": "cats"}`))
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatal(err)
	}
	check(t, stop.Pauses[0].Value, `{"question": "approve?", "topic": "cats"}`)
	check(t, values(t, thread), `{"topic": "cats", "log": ["proposed:cats"]}`)
	if _, err := frames(t, thread.CommandJSON(t.Context(), json.RawMessage(`{"resume": {"ok": true}}`))); err != nil {
		t.Fatal(err)
	}
	check(t, values(t, thread), `{"topic": "cats", "approval": {"ok": true}, "log": ["proposed:cats", "reviewed:{\"ok\":true}", "finished"]}`)
	check(t, history(t, thread), `[[3, "loop", []], [2, "loop", ["finish"]], [1, "loop", ["review"]], [0, "loop", ["propose"]], [-1, "input", ["__start__"]]]`)
}

func TestListTakesOneStringAsAnUpdate(t *testing.T) {
	thread := open(t, "hitl", treadle.Before("propose"))
	var stop *treadle.InterruptError
	if _, err := thread.RunJSON(t.Context(), json.RawMessage(`{"topic": "cats", "log": "one"}`)); !errors.As(err, &stop) {
		t.Fatal(err)
	}
	check(t, values(t, thread), `{"topic": "cats", "log": ["one"]}`)
}

func TestNestedRunsSubgraph(t *testing.T) {
	runs(t, open(t, "nested"), `{"value": "s"}`, `{"value": "s>before>c1>c2>after"}`)

	thread := open(t, "nested")
	_, err := thread.RunJSON(t.Context(), json.RawMessage(`{"value": "pause"}`))
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatal(err)
	}
	check(t, stop.Pauses[0].Value, `"child paused"`)
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check(t, snap.Tasks[0].Graph.State, `{"value": "pause>before>c1", "steps": ["child_one"]}`)
	if ns := snap.Tasks[0].Graph.Namespace; len(ns) != 1 || ns[0] != "child:"+snap.Tasks[0].ID {
		t.Errorf("namespace %q of task %s", ns, snap.Tasks[0].ID)
	}
	if _, err := frames(t, thread.CommandJSON(t.Context(), json.RawMessage(`{"resume": "go"}`))); err != nil {
		t.Fatal(err)
	}
	check(t, values(t, thread), `{"value": "pause>before>c1>c2(go)>after"}`)

	check(t, edges(t, graph(t, "nested"), 1), `["__start__ -> before", "after -> __end__", "before -> child:child_one",
		"child:child_one -> child:child_two", "child:child_two -> after"]`)
}

func TestFanoutSendsItemsInOrder(t *testing.T) {
	runs(t, open(t, "fanout"), `{"items": ["z", "b"]}`, `{"items": ["z", "b"], "results": ["Z", "B"], "summary": "B,Z"}`)

	thread := open(t, "fanout")
	lines, err := frames(t, thread.StreamJSON(t.Context(), json.RawMessage(`{}`), treadle.Modes(treadle.ModeUpdates)))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 5 {
		t.Errorf("%d updates: %v", len(lines), lines)
	}
	check(t, values(t, thread), `{"items": ["a", "b", "c"], "results": ["A", "B", "C"], "summary": "A,B,C"}`)
	check(t, history(t, thread), `[[3, "loop", []], [2, "loop", ["reduce"]], [1, "loop", ["worker", "worker", "worker"]], [0, "loop", ["plan"]], [-1, "input", ["__start__"]]]`)
	more := `{"goto": [{"node": "worker", "input": {"item": "q"}}, {"node": "worker", "input": {"item": "p"}}]}`
	if _, err := frames(t, thread.CommandJSON(t.Context(), json.RawMessage(more))); err != nil {
		t.Fatal(err)
	}
	check(t, values(t, thread), `{"items": ["a", "b", "c"], "results": ["A", "B", "C", "Q", "P"], "summary": "A,B,C,P,Q"}`)
	check(t, edges(t, graph(t, "fanout"), 0), `["__start__ -> plan", "plan ?> worker", "reduce -> __end__", "worker -> reduce"]`)
}

func TestCustomReportsProgress(t *testing.T) {
	thread := open(t, "custom")
	lines, err := frames(t, thread.StreamJSON(t.Context(), json.RawMessage(`{"n": 2}`), treadle.Modes(treadle.ModeCustom)))
	if err != nil {
		t.Fatal(err)
	}
	check(t, json.RawMessage("["+strings.Join(lines, ",")+"]"), `[{"type": "progress", "step": 0, "total": 2}, {"type": "progress", "step": 1, "total": 2}]`)
	check(t, values(t, thread), `{"n": 2, "done": true}`)
}

func TestSlowTicksStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thread := open(t, "slow")
		began := time.Now()
		runs(t, thread, `{}`, `{"ticks": ["t0", "t1", "t2"], "i": 3}`)
		if took := time.Since(began); took != 600*time.Millisecond {
			t.Errorf("three ticks took %v", took)
		}
		runs(t, thread, `{"count": 1, "delay_ms": 0, "label": "x"}`, `{"count": 1, "delay_ms": 0, "label": "x", "ticks": ["t0", "t1", "t2", "x0"], "i": 1}`)
		if took := time.Since(began); took != 600*time.Millisecond {
			t.Errorf("tick without a delay took %v", took-600*time.Millisecond)
		}
	})
}

func TestSlowStopsWhenCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thread := open(t, "slow")
		began := time.Now()
		for ev, err := range thread.StreamJSON(t.Context(), json.RawMessage(`{"delay_ms": 1000}`), treadle.Modes(treadle.ModeUpdates)) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Where().Node == "tick" {
				break // leaving the loop cancels the run and waits for it
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("stopped after %v", took)
		}
		check(t, values(t, thread), `{"delay_ms": 1000, "ticks": ["t0"], "i": 1}`)
	})
}

func TestSlowBeginsAtZero(t *testing.T) {
	thread := open(t, "slow", treadle.Before("reset"))
	var stop *treadle.InterruptError
	if _, err := thread.RunJSON(t.Context(), json.RawMessage(`{"count": 0}`)); !errors.As(err, &stop) {
		t.Fatal(err)
	}
	check(t, values(t, thread), `{"count": 0, "ticks": [], "i": 0}`)
}

func TestFailingFailsInSecondNode(t *testing.T) {
	thread := open(t, "failing")
	_, err := thread.RunJSON(t.Context(), json.RawMessage(`{"message": "m"}`))
	failed, ok := errors.AsType[*treadle.NodeError](err)
	if !ok || failed.Node != "boom" || failed.Err.Error() != "boom: m" {
		t.Errorf("error %v", err)
	}
	check(t, values(t, thread), `{"message": "m", "prepared": true}`)
}

func TestConfigurableShowsTheContext(t *testing.T) {
	nothing := `"model": null, "header": null, "api_key": null, "thread_id": null, "run_id": null, "graph_id": null, "assistant_id": null, "tags": null`
	runs(t, open(t, "configurable"), `{"note": "n"}`, `{"note": "n", "seen": {"tier": null, "region": null, `+nothing+`}}`)
	gold := treadle.Context(runContext{Tier: new("gold")})
	runs(t, open(t, "configurable", gold), `{}`, `{"seen": {"tier": "gold", "region": null, `+nothing+`}}`)
}

func TestMemoryRemembersAcrossThreads(t *testing.T) {
	g := graph(t, "memory")
	runs(t, dynamic.Open(g, "one"), `{"user": "ada", "fact": "likes tea"}`, `{"user": "ada", "fact": "likes tea", "recalled": ["likes tea"]}`)
	runs(t, dynamic.Open(g, "two"), `{"user": "ada"}`, `{"user": "ada", "recalled": ["likes tea"]}`)
	runs(t, dynamic.Open(g, "three"), `{"user": "bob"}`, `{"user": "bob", "recalled": []}`)
}

func TestRouterFollowsTarget(t *testing.T) {
	runs(t, open(t, "router"), `{"target": "right"}`, `{"target": "right", "path": ["route", "right"]}`)
	thread := open(t, "router")
	runs(t, thread, `{"x": {"deep": [1]}}`, `{"x": {"deep": [1]}, "path": ["route", "left"]}`)
	check(t, history(t, thread), `[[2, "loop", []], [1, "loop", ["left"]], [0, "loop", ["route"]], [-1, "input", ["__start__"]]]`)
	check(t, edges(t, graph(t, "router"), 0), `["__start__ -> route", "left -> __end__", "right -> __end__", "route ?> left", "route ?> right"]`)
}
