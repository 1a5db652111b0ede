package treadle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/reduce"
)

// saying is a message, or a piece of one.
type saying struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func (s saying) MessageID() string { return s.ID }

// sayings is a conversation.
type sayings struct {
	Chat reduce.List[saying] `json:"chat"`
}

// model simulates a model as the engine sees it: it reports its call, its words, and its
// response to the observer of ctx.
func model(ctx context.Context, id string, words ...string) saying {
	return modelCall(ctx, observe.Call{Name: "parrot"}, id, words...)
}

func modelCall(ctx context.Context, call observe.Call, id string, words ...string) saying {
	call.Kind = observe.Model
	_, span := observe.Begin(ctx, call)
	answer := saying{ID: id}
	for _, w := range words {
		span.Chunk(saying{id, w})
		answer.Text += w
	}
	span.End(answer, nil)
	return answer
}

// brief formats an event as one line, preceded by its namespace.
func brief(ev treadle.Event) string {
	at := ev.Where()
	line := func(format string, args ...any) string {
		if ns := nodesOf(at.Namespace); ns != "" {
			format = ns + ": " + format
		}
		return fmt.Sprintf(format, args...)
	}
	switch ev := ev.(type) {
	case treadle.Values:
		return line("values %s", ev.State)
	case treadle.Updated:
		return line("%s wrote %s", at.Node, ev.Update)
	case treadle.Custom:
		return line("%s emitted %v", at.Node, ev.Value)
	case treadle.Token:
		return line("%s said %v", at.Node, ev.Chunk)
	case treadle.Returned:
		return line("%s said %v", at.Node, ev.Message)
	case treadle.TaskStarted:
		return line("%s starts with %v", at.Node, ev.Input)
	case treadle.TaskFinished:
		if ev.Err != nil {
			return line("%s failed", at.Node)
		}
		return line("%s ends with %v", at.Node, ev.Result)
	case treadle.Checkpointed:
		return line("checkpoint %d %s, next %v", ev.Snapshot.Step, ev.Snapshot.State, ev.Snapshot.Next)
	case treadle.Lifecycle:
		return line("%s %s", ev.Event, ev.Name)
	case treadle.Finished[diary]:
		return "finished"
	}
	return fmt.Sprintf("%T", ev)
}

// heard reads a stream to its end: the events in brief, and the error.
func heard(seq iter.Seq2[treadle.Event, error]) (lines []string, failed error) {
	for ev, err := range seq {
		if failed != nil {
			lines = append(lines, "after the error")
		}
		if err != nil {
			failed = err
			if ev != nil {
				lines = append(lines, "an event together with the error")
			}
			continue
		}
		lines = append(lines, brief(ev))
	}
	return lines, failed
}

// wantEvents reads a stream of a run that ends well, but for its last event.
func wantEvents(t *testing.T, seq iter.Seq2[treadle.Event, error], want ...string) {
	t.Helper()
	got, err := heard(seq)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got); n == 0 || got[n-1] != "finished" {
		t.Errorf("the stream does not end with Finished: %v", got)
	} else {
		got = got[:n-1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// talk returns a graph of two nodes that use every mode.
func talk(t *testing.T) *treadle.Graph[diary, diary] {
	t.Helper()
	b := treadle.New[diary]("talk")
	treadle.AddNode(b, "a", func(ctx context.Context, _ diary) (page, error) {
		treadle.Emit(ctx, "hello from a")
		return did("a"), nil
	})
	treadle.AddNode(b, "b", func(ctx context.Context, _ diary) (page, error) {
		model(ctx, "m1", "good", "bye")
		return did("b"), nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	return weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
}

// Parity: 89.
func TestStreamModes(t *testing.T) {
	tasks := []string{
		`a starts with {"topic":"owls","log":[]}`, `a ends with {"log":["a"]}`,
		`b starts with {"topic":"owls","log":["a"]}`, `b ends with {"log":["b"]}`,
	}
	checkpoints := []string{
		`checkpoint -1 {"log":[]}, next [__start__]`,
		`checkpoint 0 {"topic":"owls","log":[]}, next [a]`,
		`checkpoint 1 {"topic":"owls","log":["a"]}, next [b]`,
		`checkpoint 2 {"topic":"owls","log":["a","b"]}, next []`,
	}
	for name, tt := range map[string]struct {
		modes []treadle.Mode
		want  []string
	}{
		"default":     {nil, []string{`a wrote {"log":["a"]}`, `b wrote {"log":["b"]}`}},
		"updates":     {[]treadle.Mode{treadle.ModeUpdates}, []string{`a wrote {"log":["a"]}`, `b wrote {"log":["b"]}`}},
		"values":      {[]treadle.Mode{treadle.ModeValues}, []string{`values {"topic":"owls","log":[]}`, `values {"topic":"owls","log":["a"]}`, `values {"topic":"owls","log":["a","b"]}`}},
		"custom":      {[]treadle.Mode{treadle.ModeCustom}, []string{`a emitted hello from a`}},
		"tokens":      {[]treadle.Mode{treadle.ModeMessages}, []string{`b said {m1 good}`, `b said {m1 bye}`}},
		"tasks":       {[]treadle.Mode{treadle.ModeTasks}, tasks},
		"checkpoints": {[]treadle.Mode{treadle.ModeCheckpoints}, checkpoints},
		"debug":       {[]treadle.Mode{treadle.ModeDebug}, []string{checkpoints[0], checkpoints[1], tasks[0], tasks[1], checkpoints[2], tasks[2], tasks[3], checkpoints[3]}},
		"all": {[]treadle.Mode{treadle.ModeValues, treadle.ModeUpdates, treadle.ModeCustom, treadle.ModeMessages, treadle.ModeTasks, treadle.ModeCheckpoints}, []string{
			checkpoints[0], `values {"topic":"owls","log":[]}`,
			checkpoints[1], tasks[0], `a emitted hello from a`, `a wrote {"log":["a"]}`, tasks[1], `values {"topic":"owls","log":["a"]}`,
			checkpoints[2], tasks[2], `b said {m1 good}`, `b said {m1 bye}`, `b wrote {"log":["b"]}`, tasks[3], `values {"topic":"owls","log":["a","b"]}`,
			checkpoints[3],
		}},
		"tasks and debug": {[]treadle.Mode{treadle.ModeTasks, treadle.ModeDebug}, []string{
			checkpoints[0], checkpoints[1], tasks[0], tasks[0], tasks[1], tasks[1], checkpoints[2], tasks[2], tasks[2], tasks[3], tasks[3], checkpoints[3],
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantEvents(t, talk(t).Thread("t").Stream(t.Context(), diary{Topic: "owls"}, treadle.Modes(tt.modes...)), tt.want...)
		})
	}
}

// Every event names its mode and its origin.
func TestEventsHaveOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		var tasks []string
		for ev, err := range talk(t).Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeUpdates, treadle.ModeTasks, treadle.ModeValues)) {
			if err != nil {
				t.Fatal(err)
			}
			at := ev.Where()
			same(t, "graph", "talk", at.Graph)
			if _, last := ev.(treadle.Finished[diary]); last {
				continue
			}
			if !at.Time.Equal(now) {
				t.Errorf("%v happened at %v, not at %v", brief(ev), at.Time, now)
			}
			switch ev.(type) {
			case treadle.Values:
				same(t, "values", treadle.Origin{Mode: treadle.ModeValues, Graph: "talk", Step: at.Step, Time: at.Time}, at)
			case treadle.Updated:
				tasks = append(tasks, fmt.Sprint(at.Mode, at.Step, at.Node))
				if at.TaskID == "" {
					t.Error("an update without a task ID")
				}
			}
		}
		same(t, "updates", []string{"updates 1a", "updates 2b"}, tasks)
	})
}

func TestModeNames(t *testing.T) {
	for mode, name := range map[treadle.Mode]string{
		treadle.ModeValues: "values", treadle.ModeUpdates: "updates", treadle.ModeCustom: "custom", treadle.ModeMessages: "messages",
		treadle.ModeTasks: "tasks", treadle.ModeCheckpoints: "checkpoints", treadle.ModeDebug: "debug", treadle.ModeEvents: "events",
	} {
		var got treadle.Mode
		if err := got.UnmarshalText([]byte(name)); got != mode || err != nil || mode.String() != name {
			t.Errorf("%s is %v, %v and prints as %s", name, got, err, mode)
		}
	}
	raw, err := json.Marshal(treadle.ModeValues | treadle.ModeMessages)
	var back treadle.Mode
	if err != nil || string(raw) != `"values|messages"` || json.Unmarshal(raw, &back) != nil || back != treadle.ModeValues|treadle.ModeMessages {
		t.Errorf("two modes are %s in JSON, %v, and read as %v", raw, err, back)
	}
	if raw, err := json.Marshal(treadle.Mode(0)); err == nil {
		t.Errorf("no mode is %s in JSON", raw)
	}
	var m treadle.Mode
	if err := m.UnmarshalText([]byte("tokens")); err == nil || !strings.Contains(err.Error(), `unknown stream mode "tokens": want one of values|updates`) {
		t.Errorf("a mode called tokens: %v", err)
	}
}

// Only the steps that change one of the fields are shown.
func TestStreamOutputKeys(t *testing.T) {
	g := talk(t)
	modes := treadle.Modes(treadle.ModeValues, treadle.ModeUpdates)
	for _, key := range []string{"log", "Log"} {
		wantEvents(t, g.Stream(t.Context(), diary{Topic: "owls"}, modes, treadle.OutputKeys(key)),
			`a wrote {"log":["a"]}`, `values {"log":["a"]}`, `b wrote {"log":["b"]}`, `values {"log":["a","b"]}`)
	}
	wantEvents(t, g.Stream(t.Context(), diary{Topic: "owls"}, modes, treadle.OutputKeys("topic")),
		`values {"topic":"owls"}`, `a wrote null`, `b wrote null`)
	_, err := heard(g.Stream(t.Context(), diary{}, treadle.OutputKeys("log", "lag")))
	if err == nil || !strings.Contains(err.Error(), `output key "lag": unknown field; the graph has log, topic`) {
		t.Errorf("got %v", err)
	}
}

// nested returns the graph top > mid > leaf, each with a node before the subgraph.
func nested(t *testing.T) *treadle.Graph[diary, diary] {
	t.Helper()
	level := func(name string, inner *treadle.Graph[diary, diary]) *treadle.Graph[diary, diary] {
		b := treadle.New[diary](name)
		treadle.AddNode(b, name+"1", func(ctx context.Context, _ diary) (page, error) {
			treadle.Emit(ctx, "from "+name)
			model(ctx, name, name)
			return did(name), nil
		})
		b.Edge(treadle.Start, name+"1")
		if inner != nil {
			treadle.AddGraph(b, "in", inner)
			b.Edge(name+"1", "in")
		}
		return weave(t, b, nil)
	}
	return level("top", level("mid", level("leaf", nil)))
}

// Values, updates and tasks of nested graphs are for those who ask; tokens and
// custom events reach the root in any case, with their own namespace.
//
// Parity: 40, 102.
func TestStreamNamespaces(t *testing.T) {
	g := nested(t)
	said := []string{
		`top1 emitted from top`, `top1 said {top top}`,
		`in: mid1 emitted from mid`, `in: mid1 said {mid mid}`,
		`in/in: leaf1 emitted from leaf`, `in/in: leaf1 said {leaf leaf}`,
	}
	wantEvents(t, g.Stream(t.Context(), diary{}), `top1 wrote {"log":["top"]}`, `in wrote [{"log":["mid"]},{"log":["leaf"]}]`)
	wantEvents(t, g.Stream(t.Context(), diary{}, treadle.Subgraphs()),
		`top1 wrote {"log":["top"]}`, `in: mid1 wrote {"log":["mid"]}`, `in/in: leaf1 wrote {"log":["leaf"]}`,
		`in: in wrote {"log":["leaf"]}`, `in wrote [{"log":["mid"]},{"log":["leaf"]}]`)
	for _, opts := range [][]treadle.StreamOption{{}, {treadle.Subgraphs()}} {
		wantEvents(t, g.Stream(t.Context(), diary{}, append(opts, treadle.Modes(treadle.ModeCustom, treadle.ModeMessages))...), said...)
	}
	wantEvents(t, g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeValues)),
		`values {"log":["top"]}`, `values {"log":["top","mid","leaf"]}`)
	wantEvents(t, g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeValues), treadle.Subgraphs()),
		`values {"log":["top"]}`,
		`in: values {"log":["top"]}`, `in: values {"log":["top","mid"]}`,
		`in/in: values {"log":["top","mid"]}`, `in/in: values {"log":["top","mid","leaf"]}`,
		`in: values {"log":["top","mid","leaf"]}`, `values {"log":["top","mid","leaf"]}`)
	wantEvents(t, g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeTasks), treadle.Subgraphs()),
		`top1 starts with {"log":[]}`, `top1 ends with {"log":["top"]}`,
		`in starts with {"log":["top"]}`,
		`in: mid1 starts with {"log":["top"]}`, `in: mid1 ends with {"log":["mid"]}`,
		`in: in starts with {"log":["top","mid"]}`,
		`in/in: leaf1 starts with {"log":["top","mid"]}`, `in/in: leaf1 ends with {"log":["leaf"]}`,
		`in: in ends with {"log":["leaf"]}`,
		`in ends with [{"log":["mid"]},{"log":["leaf"]}]`)
}

// A node that streams a graph itself sees that graph's events, and so do those
// who watch the node.
//
// Parity: 79, 102.
func TestStreamInsideNode(t *testing.T) {
	leaf := talk(t)
	var inside []string
	b := treadle.New[diary]("outer")
	treadle.AddNode(b, "watch", func(ctx context.Context, s diary) (page, error) {
		var err error
		inside, err = heard(leaf.Stream(ctx, s, treadle.Modes(treadle.ModeUpdates, treadle.ModeMessages)))
		return did("watched"), err
	}, treadle.Uses(leaf))
	b.Edge(treadle.Start, "watch")
	g := weave(t, b, nil)
	wantEvents(t, g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeMessages, treadle.ModeCustom)),
		"watch: a emitted hello from a", "watch: b said {m1 good}", "watch: b said {m1 bye}")
	same(t, "inside", []string{`watch: a wrote {"log":["a"]}`, "watch: b said {m1 good}", "watch: b said {m1 bye}", `watch: b wrote {"log":["b"]}`, "finished"}, inside)
}

// The reader has an event before the node that made it has ended.
//
// Parity: 41.
func TestCustomEventsArriveAtOnce(t *testing.T) {
	seen := make(chan any)
	g := single(t, func(ctx context.Context, _ diary) (page, error) {
		for i := range 3 {
			treadle.Emit(ctx, i)
			if got := <-seen; got != i {
				t.Errorf("the reader saw %v after %d was emitted", got, i)
			}
		}
		return did("done"), nil
	})
	n := 0
	for ev, err := range g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			n++
			seen <- c.Value
		}
	}
	same(t, "events", 3, n)
}

// Events of a subgraph arrive while sibling nodes run, and updates arrive in the order in
// which nodes end.
//
// Parity: 40.
func TestSubgraphEventsArriveWhileSiblingsRun(t *testing.T) {
	seen := make(chan struct{})
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, chain("child", "c"), nil))
	treadle.AddNode(b, "slow", func(ctx context.Context, _ diary) (page, error) {
		<-seen
		return did("slow"), nil
	})
	b.Edge(treadle.Start, "slow")
	b.Edge(treadle.Start, "sub")
	var got []string
	for ev, err := range weave(t, b, nil).Stream(t.Context(), diary{}, treadle.Subgraphs()) {
		if err != nil {
			t.Fatal(err)
		}
		line := brief(ev)
		got = append(got, line)
		if strings.HasPrefix(line, "sub wrote") {
			close(seen)
		}
	}
	same(t, "events", []string{`sub: c wrote {"log":["c"]}`, `sub wrote {"log":["c"]}`, `slow wrote {"log":["slow"]}`, "finished"}, got)
}

// Without a reader, events have no effect.
//
// Parity: 89.
func TestEmitWithoutReader(t *testing.T) {
	treadle.Emit(t.Context(), "without a reader")
	wantEvents(t, talk(t).Stream(t.Context(), diary{}), `a wrote {"log":["a"]}`, `b wrote {"log":["b"]}`)
	wantLog(t, talk(t), diary{}, "a", "b")
}

// Parity: 84, 85.
func TestTokenTagsAndMetadata(t *testing.T) {
	b := treadle.New[diary]("tagged")
	treadle.AddNode(b, "speak", func(ctx context.Context, _ diary) (page, error) {
		modelCall(ctx, observe.Call{Name: "parrot", Tags: []string{"call"}, Metadata: map[string]any{"ls_model_type": "chat"}}, "m1", "word")
		return page{}, nil
	}, treadle.Tags("node"), treadle.Metadata(map[string]any{"n": 1, "who": "node"}))
	b.Edge(treadle.Start, "speak")
	g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	tokens := func(thread *treadle.Thread[diary, diary]) (out []treadle.Token) {
		for ev, err := range thread.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeMessages)) {
			if err != nil {
				t.Fatal(err)
			}
			if tok, ok := ev.(treadle.Token); ok {
				out = append(out, tok)
			}
		}
		return out
	}
	got := tokens(g.Thread("t1", treadle.Tags("run"), treadle.Metadata(map[string]any{"r": 2, "who": "run"}), treadle.Context("a secret")))
	if len(got) != 1 {
		t.Fatalf("%d tokens", len(got))
	}
	same(t, "chunk", any(saying{"m1", "word"}), got[0].Chunk)
	same(t, "tags", []string{"run", "node", "call"}, got[0].Tags)
	task := got[0].TaskID
	same(t, "metadata", map[string]any{
		"r": 2, "n": 1, "who": "node", "ls_model_type": "chat", "thread_id": "t1",
		"langgraph_step": 1, "langgraph_node": "speak", "langgraph_triggers": []string{"branch:to:speak"},
		"langgraph_path": []any{"__pregel_pull", "speak"}, "langgraph_checkpoint_ns": "speak:" + task, "checkpoint_ns": "speak:" + task,
	}, got[0].Metadata)
	plain := tokens(g.Thread("t2"))
	same(t, "tags of a plain run", []string{"node", "call"}, plain[0].Tags)
}

// A task started by a send is marked as such.
//
// Parity: 84.
func TestTokenMetadataOfSend(t *testing.T) {
	b := treadle.New[diary]("sent")
	speak := treadle.AddNode(b, "speak", func(ctx context.Context, n int) (page, error) {
		model(ctx, fmt.Sprint(n), "word")
		return page{}, nil
	})
	treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
		return append(treadle.Send(speak, 1), treadle.Send(speak, 2)...), nil
	}, "speak")
	got := map[any]any{}
	for ev, err := range weave(t, b, nil).Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		if tok, ok := ev.(treadle.Token); ok {
			same(t, "triggers", any([]string{"__pregel_push"}), tok.Metadata["langgraph_triggers"])
			got[tok.Chunk.(saying).ID] = tok.Metadata["langgraph_path"]
		}
	}
	same(t, "paths", map[any]any{"1": []any{"__pregel_push", 0, false}, "2": []any{"__pregel_push", 1, false}}, got)
}

// speaker returns a graph of one node that converses.
func speaker[Out any](t *testing.T, fn func(context.Context, sayings) (Out, error), opts ...treadle.NodeOption) *treadle.Graph[sayings, sayings] {
	t.Helper()
	b := treadle.New[sayings]("speaker")
	treadle.AddNode(b, "speak", fn, opts...)
	b.Edge(treadle.Start, "speak")
	return weave(t, b, nil)
}

type spoken struct{ Chat reduce.List[saying] }

// wantTokens compares the messages that a run shows.
func wantTokens(t *testing.T, g *treadle.Graph[sayings, sayings], in sayings, want ...string) {
	t.Helper()
	var got []string
	for ev, err := range g.Stream(t.Context(), in, treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev.(type) {
		case treadle.Token, treadle.Returned:
			got = append(got, brief(ev))
		}
	}
	same(t, "tokens", want, got)
}

// Pieces of an answer are tokens; a whole message that a node returns is not.
func TestReturnedMessagesAreNotTokens(t *testing.T) {
	g := speaker(t, func(ctx context.Context, _ sayings) (spoken, error) {
		_, span := observe.Begin(ctx, observe.Call{Kind: observe.Model})
		span.Chunk(saying{"a1", "streamed"})
		span.End(nil, nil)
		return spoken{reduce.List[saying]{{"a1", "streamed"}, {"t1", "result"}}}, nil
	})
	var got []string
	for ev, err := range g.Stream(t.Context(), sayings{}, treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Token:
			got = append(got, fmt.Sprint("token ", ev.Chunk))
		case treadle.Returned:
			raw, err := dynamic.Wire{}.Encode(ev)
			if err != nil || !strings.HasPrefix(string(raw), `[{"id":"t1","text":"result"},{`) {
				t.Errorf("on the wire it is %s, %v; want an item of LangGraph's mode messages", raw, err)
			}
			got = append(got, fmt.Sprint(ev.Node, " returned ", ev.Message))
		}
	}
	same(t, "events", []string{"token {a1 streamed}", "speak returned {t1 result}"}, got)
}

func TestTokenText(t *testing.T) {
	for _, test := range []struct {
		chunk any
		want  string
	}{
		{"a word", "a word"}, {nil, ""}, {saying{"m1", "x"}, ""},
		{llm.Chunk{Content: "a", Blocks: []llm.Block{llm.Text("b"), llm.ImageURL("u")}}, "ab"},
		{llm.Assistant("whole"), "whole"},
		{llm.Chunk{ToolCalls: []llm.ToolCallChunk{{Name: "add", Args: "{"}}}, ""},
	} {
		same(t, fmt.Sprintf("%T", test.chunk), test.want, treadle.Token{Chunk: test.chunk}.Text())
	}
}

// A message is streamed once, whether it was streamed, returned, or both. Messages in a
// node's input are not streamed.
//
// Parity: 90.
func TestEachMessageIsStreamedOnce(t *testing.T) {
	in := sayings{reduce.List[saying]{{"h1", "hi"}}}
	t.Run("returned", func(t *testing.T) {
		g := speaker(t, func(context.Context, sayings) (spoken, error) {
			return spoken{reduce.List[saying]{{"a1", "new"}}}, nil
		})
		wantTokens(t, g, in, "speak said {a1 new}")
	})
	t.Run("streamed and returned", func(t *testing.T) {
		g := speaker(t, func(ctx context.Context, _ sayings) (spoken, error) {
			return spoken{reduce.List[saying]{model(ctx, "a1", "a", "b")}}, nil
		})
		wantTokens(t, g, in, "speak said {a1 a}", "speak said {a1 b}")
	})
	t.Run("given and returned", func(t *testing.T) {
		g := speaker(t, func(_ context.Context, s sayings) (spoken, error) {
			return spoken{append(s.Chat, saying{"a1", "new"})}, nil
		})
		wantTokens(t, g, in, "speak said {a1 new}")
	})
	t.Run("without an ID", func(t *testing.T) {
		g := speaker(t, func(context.Context, sayings) (spoken, error) {
			return spoken{reduce.List[saying]{{"", "x"}, {"", "x"}}}, nil
		})
		wantTokens(t, g, in, "speak said { x}", "speak said { x}")
	})
	t.Run("by two nodes", func(t *testing.T) {
		b := treadle.New[sayings]("two")
		say := func(context.Context, sayings) (spoken, error) {
			return spoken{reduce.List[saying]{{"a1", "same"}}}, nil
		}
		treadle.AddNode(b, "one", say)
		treadle.AddNode(b, "two", say)
		b.Edge(treadle.Start, "one")
		b.Edge("one", "two")
		wantTokens(t, weave(t, b, nil), in, "one said {a1 same}")
	})
	t.Run("in a subgraph", func(t *testing.T) {
		child := speaker(t, func(ctx context.Context, _ sayings) (spoken, error) {
			return spoken{reduce.List[saying]{model(ctx, "a1", "streamed"), {"a2", "returned"}}}, nil
		})
		b := treadle.New[sayings]("parent")
		treadle.AddGraph(b, "sub", child)
		b.Edge(treadle.Start, "sub")
		wantTokens(t, weave(t, b, nil), in, "sub: speak said {a1 streamed}", "sub: speak said {a2 returned}")
	})
	t.Run("from a plain function", func(t *testing.T) {
		child := speaker(t, func(ctx context.Context, _ sayings) (spoken, error) {
			return spoken{reduce.List[saying]{model(ctx, "a1", "streamed")}}, nil
		})
		g := speaker(t, func(ctx context.Context, s sayings) (spoken, error) {
			out, err := child.Run(ctx, s)
			return spoken{out.Chat[len(s.Chat):]}, err
		})
		wantTokens(t, g, in, "speak: speak said {a1 streamed}")
	})
}

// Parity: 86.
func TestMessagesInCommandsAreStreamed(t *testing.T) {
	one, two := spoken{reduce.List[saying]{{"a1", "one"}}}, spoken{reduce.List[saying]{{"a2", "two"}}}
	t.Run("command", func(t *testing.T) {
		wantTokens(t, speaker(t, func(context.Context, sayings) (treadle.Command[spoken], error) {
			return treadle.Command[spoken]{Update: &one, Goto: treadle.To(treadle.End)}, nil
		}), sayings{}, "speak said {a1 one}")
	})
	t.Run("list", func(t *testing.T) {
		wantTokens(t, speaker(t, func(context.Context, sayings) ([]treadle.Command[spoken], error) {
			return []treadle.Command[spoken]{{Update: &one}, {Update: &two}}, nil
		}), sayings{}, "speak said {a1 one}", "speak said {a2 two}")
	})
	t.Run("parent", func(t *testing.T) {
		child := speaker(t, func(context.Context, sayings) (treadle.Command[spoken], error) {
			return treadle.Command[spoken]{Update: &one, Parent: true}, nil
		}, treadle.Handoff(treadle.End))
		b := treadle.New[sayings]("parent")
		treadle.AddGraph(b, "sub", child)
		b.Edge(treadle.Start, "sub")
		wantTokens(t, weave(t, b, nil), sayings{}, "sub said {a1 one}")
	})
}

// A model that does not stream is one token.
func TestModelWithoutStreaming(t *testing.T) {
	g := speaker(t, func(ctx context.Context, _ sayings) (struct{}, error) {
		_, span := observe.Begin(ctx, observe.Call{Kind: observe.Model, Name: "slow"})
		span.End(saying{"a1", "all at once"}, nil)
		_, span = observe.Begin(ctx, observe.Call{Kind: observe.Model, Name: "broken"})
		span.End(saying{"a2", "half of"}, errors.New("broken"))
		_, span = observe.Begin(ctx, observe.Call{Kind: observe.Tool, Name: "tool"})
		span.Chunk("no token")
		span.End("no token", nil)
		return struct{}{}, nil
	})
	wantTokens(t, g, sayings{}, "speak said {a1 all at once}")
}

// The tag keeps a model's tokens out, wherever it is put. A message that the
// node returns is news all the same.
func TestNoStream(t *testing.T) {
	quiet := func(call observe.Call) func(context.Context, sayings) (struct{}, error) {
		return func(ctx context.Context, _ sayings) (struct{}, error) {
			modelCall(ctx, call, "a1", "psst")
			return struct{}{}, nil
		}
	}
	wantTokens(t, speaker(t, quiet(observe.Call{})), sayings{}, "speak said {a1 psst}")
	wantTokens(t, speaker(t, quiet(observe.Call{Tags: []string{"nostream"}})), sayings{})
	wantTokens(t, speaker(t, quiet(observe.Call{NoStream: true})), sayings{})
	wantTokens(t, speaker(t, quiet(observe.Call{}), treadle.Tags("nostream")), sayings{})
	wantTokens(t, speaker(t, quiet(observe.Call{})).With(treadle.Tags("nostream")), sayings{})
	t.Run("inside a quiet call", func(t *testing.T) {
		inner := speaker(t, quiet(observe.Call{}))
		wantTokens(t, speaker(t, func(ctx context.Context, s sayings) (struct{}, error) {
			ctx, span := observe.Begin(ctx, observe.Call{Kind: observe.Tool, NoStream: true})
			defer span.End(nil, nil)
			modelCall(ctx, observe.Call{}, "a1", "psst")
			_, err := inner.Run(ctx, s)
			return struct{}{}, err
		}), sayings{})
	})
	t.Run("returned", func(t *testing.T) {
		wantTokens(t, speaker(t, func(ctx context.Context, _ sayings) (spoken, error) {
			return spoken{reduce.List[saying]{modelCall(ctx, observe.Call{NoStream: true}, "a1", "ps", "st")}}, nil
		}), sayings{}, "speak said {a1 psst}")
	})
}

// tree renders lifecycle events with their data, indented by depth.
func tree(t *testing.T, seq iter.Seq2[treadle.Event, error]) []string {
	t.Helper()
	var got []string
	depth := map[string]int{}
	for ev, err := range seq {
		if err != nil {
			got = append(got, "error")
			continue
		}
		life, ok := ev.(treadle.Lifecycle)
		if !ok {
			continue
		}
		for i, p := range life.Parents {
			if d, ok := depth[p]; !ok || d != i {
				t.Errorf("%s %s: parent %d is not under way at that depth", life.Event, life.Name, i)
			}
		}
		depth[life.RunID] = len(life.Parents)
		line := strings.Repeat("  ", len(life.Parents)) + strings.TrimPrefix(life.Event, "on_") + " " + life.Name
		for _, part := range []struct {
			name string
			val  any
		}{{"in", life.Input}, {"chunk", life.Chunk}, {"out", life.Output}} {
			if part.val != nil {
				line += fmt.Sprintf(" %s=%v", part.name, part.val)
			}
		}
		if life.Err != nil {
			line += " failed"
		}
		got = append(got, line)
	}
	return got
}

// Graphs, nodes, models, tools and retrievers as they live, inside one another.
func TestLifecycleEvents(t *testing.T) {
	b := treadle.New[diary]("life")
	treadle.AddNode(b, "work", func(ctx context.Context, _ diary) (page, error) {
		tctx, tool := observe.Begin(ctx, observe.Call{Kind: observe.Tool, Name: "search", Input: "owls"})
		_, found := observe.Begin(tctx, observe.Call{Kind: observe.Retriever, Name: "index", Input: "query"})
		found.End("documents", nil)
		model(tctx, "m1", "a", "b")
		tool.End("found", nil)
		treadle.Emit(ctx, "progress")
		_, bad := observe.Begin(ctx, observe.Call{Kind: observe.Model, Name: "broken", Input: "x"})
		bad.End(nil, errors.New("no connection"))
		return did("work"), nil
	})
	b.Edge(treadle.Start, "work")
	g := weave(t, b, nil)
	same(t, "events", []string{
		`chain_start life in={owls []}`,
		`  chain_start work in={"topic":"owls","log":[]}`,
		`    tool_start search in=owls`,
		`      retriever_start index in=query`,
		`      retriever_end index in=query out=documents`,
		`      chat_model_start parrot`,
		`      chat_model_stream parrot chunk={m1 a}`,
		`      chat_model_stream parrot chunk={m1 b}`,
		`      chat_model_end parrot out={m1 ab}`,
		`    tool_end search in=owls out=found`,
		`  custom_event work out=progress`,
		`    chat_model_start broken in=x`,
		`    chat_model_error broken in=x failed`,
		`  chain_stream work chunk={"log":["work"]}`,
		`  chain_end work in={"topic":"owls","log":[]} out={"log":["work"]}`,
		`chain_stream life chunk=map[work:{"log":["work"]}]`,
		`chain_end life out={"topic":"owls","log":["work"]}`,
	}, tree(t, g.Stream(t.Context(), diary{Topic: "owls"}, treadle.Modes(treadle.ModeEvents))))
}

// The events of a tool call name the call; the events of calls inside it do not.
func TestLifecycleNamesToolCall(t *testing.T) {
	b := treadle.New[diary]("life")
	treadle.AddNode(b, "work", func(ctx context.Context, _ diary) (page, error) {
		tctx, tool := observe.Begin(ctx, observe.Call{Kind: observe.Tool, Name: "search", ToolCall: "c1"})
		model(tctx, "m1", "a")
		tool.End("found", nil)
		return page{}, nil
	})
	b.Edge(treadle.Start, "work")
	got := map[string]any{}
	for ev, err := range weave(t, b, nil).Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeEvents)) {
		if err != nil {
			t.Fatal(err)
		}
		if life, ok := ev.(treadle.Lifecycle); ok {
			got[life.Event] = life.Metadata["tool_call_id"]
		}
	}
	for event, want := range map[string]any{"on_tool_start": "c1", "on_tool_end": "c1", "on_chat_model_start": nil} {
		if id, ok := got[event]; !ok || id != want {
			t.Errorf("tool_call_id of %s: got %v, want %v", event, id, want)
		}
	}
}

// On request, the input and the writes of nodes appear as separate runs.
func TestLifecycleOfWrites(t *testing.T) {
	b := drawn("writes", "work")
	treadle.AddNode(b, "idle", func(context.Context, diary) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "work")
	b.Edge("work", "idle")
	same(t, "events", []string{
		`chain_start writes in={owls []}`,
		`  chain_start __start__ in={"topic":"owls"}`,
		`  chain_end __start__ in={"topic":"owls"} out={"topic":"owls"}`,
		`  chain_start work in={"topic":"owls","log":[]}`,
		`    chain_start ChannelWrite<work,log> in={"log":["work"]}`,
		`    chain_end ChannelWrite<work,log> in={"log":["work"]} out={"log":["work"]}`,
		`  chain_stream work chunk={"log":["work"]}`,
		`  chain_end work in={"topic":"owls","log":[]} out={"log":["work"]}`,
		`chain_stream writes chunk=map[work:{"log":["work"]}]`,
		`  chain_start idle in={"topic":"owls","log":["work"]}`,
		`  chain_stream idle chunk=null`,
		`  chain_end idle in={"topic":"owls","log":["work"]} out=null`,
		`chain_stream writes chunk=map[idle:null]`,
		`chain_end writes out={"topic":"owls","log":["work"]}`,
	}, tree(t, weave(t, b, nil).Stream(t.Context(), diary{Topic: "owls"}, treadle.Modes(treadle.ModeEvents, treadle.ModeWrites))))
}

// A nested graph lives inside the node that runs it, or the tool.
func TestLifecycleOfNestedGraphs(t *testing.T) {
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "c", func(ctx context.Context, _ diary) (page, error) {
		model(ctx, "m", "x")
		return did("c"), nil
	})
	cb.Edge(treadle.Start, "c")
	child := weave(t, cb, nil)
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", child)
	treadle.AddNode(b, "tool", func(ctx context.Context, _ diary) (page, error) {
		ctx, span := observe.Begin(ctx, observe.Call{Kind: observe.Tool, Name: "ask"})
		out, err := child.Run(ctx, diary{})
		span.End(out.Log[0], err)
		return did("tool"), err
	})
	b.Edge(treadle.Start, "sub")
	b.Edge("sub", "tool")
	same(t, "events", []string{
		`chain_start parent in={ []}`,
		`  chain_start sub in={"log":[]}`,
		`    chain_start child in={"log":[]}`,
		`      chain_start c in={"log":[]}`,
		`        chat_model_start parrot`,
		`        chat_model_stream parrot chunk={m x}`,
		`        chat_model_end parrot out={m x}`,
		`      chain_stream c chunk={"log":["c"]}`,
		`      chain_end c in={"log":[]} out={"log":["c"]}`,
		`    chain_end child in={"log":[]} out={"log":["c"]}`,
		`  chain_stream sub chunk={"log":["c"]}`,
		`  chain_end sub in={"log":[]} out={"log":["c"]}`,
		`chain_stream parent chunk=map[sub:{"log":["c"]}]`,
		`  chain_start tool in={"log":["c"]}`,
		`    tool_start ask`,
		`      chain_start child in={ []}`,
		`        chain_start c in={"log":[]}`,
		`          chat_model_start parrot`,
		`          chat_model_stream parrot chunk={m x}`,
		`          chat_model_end parrot out={m x}`,
		`        chain_stream c chunk={"log":["c"]}`,
		`        chain_end c in={"log":[]} out={"log":["c"]}`,
		`      chain_end child in={ []} out={"log":["c"]}`,
		`    tool_end ask out=c`,
		`  chain_stream tool chunk={"log":["tool"]}`,
		`  chain_end tool in={"log":["c"]} out={"log":["tool"]}`,
		`chain_stream parent chunk=map[tool:{"log":["tool"]}]`,
		`chain_end parent out={"log":["c","tool"]}`,
	}, tree(t, b2stream(t, b, treadle.ModeEvents)))
}

func b2stream(t *testing.T, b *treadle.Builder[diary], modes ...treadle.Mode) iter.Seq2[treadle.Event, error] {
	t.Helper()
	return weave(t, b, nil).Stream(t.Context(), diary{}, treadle.Modes(modes...))
}

// A failure ends every life it reaches; a command for the parent fails none.
func TestLifecycleOfFailuresAndCommands(t *testing.T) {
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "bad", func(context.Context, diary) (page, error) { return page{}, errors.New("boom") })
	cb.Edge(treadle.Start, "bad")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	same(t, "failure", []string{
		`chain_start parent in={ []}`,
		`  chain_start sub in={"log":[]}`,
		`    chain_start child in={"log":[]}`,
		`      chain_start bad in={"log":[]}`,
		`      chain_error bad in={"log":[]} failed`,
		`    chain_error child in={"log":[]} out={"log":[]} failed`,
		`  chain_error sub in={"log":[]} failed`,
		`chain_error parent out={"log":[]} failed`,
		`error`,
	}, tree(t, b2stream(t, b, treadle.ModeEvents)))

	cb = treadle.New[diary]("child")
	treadle.AddNode(cb, "away", func(context.Context, diary) (handOff, error) {
		up := did("up")
		return handOff{Update: &up, Parent: true}, nil
	}, treadle.Handoff(treadle.End))
	cb.Edge(treadle.Start, "away")
	b = treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	same(t, "command", []string{
		`chain_start parent in={ []}`,
		`  chain_start sub in={"log":[]}`,
		`    chain_start child in={"log":[]}`,
		`      chain_start away in={"log":[]}`,
		`      chain_end away in={"log":[]}`,
		`    chain_end child in={"log":[]} out={"log":[]}`,
		`  chain_stream sub chunk={"log":["up"]}`,
		`  chain_end sub in={"log":[]} out={"log":["up"]}`,
		`chain_stream parent chunk=map[sub:{"log":["up"]}]`,
		`chain_end parent out={"log":["up"]}`,
	}, tree(t, b2stream(t, b, treadle.ModeEvents)))
}

// The root's run ID is the run's; tags and metadata come from the run and the node.
func TestLifecycleTagsAndMetadata(t *testing.T) {
	b := treadle.New[diary]("tagged")
	treadle.AddNode(b, "node", does("x"), treadle.Tags("n"), treadle.Metadata(map[string]any{"a": 1}))
	b.Edge(treadle.Start, "node")
	g := weave(t, b, nil).With(treadle.RunID("run-1"), treadle.Tags("r"), treadle.Metadata(map[string]any{"b": 2}))
	for ev, err := range g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeEvents)) {
		if err != nil {
			t.Fatal(err)
		}
		life, ok := ev.(treadle.Lifecycle)
		if !ok {
			continue
		}
		if life.Name == "tagged" {
			same(t, "graph", []any{"run-1", []string(nil), []string{"r"}, map[string]any{"b": 2}}, []any{life.RunID, life.Parents, life.Tags, life.Metadata})
			continue
		}
		same(t, "node's tags", []string{"r", "n", "graph:step:1"}, life.Tags)
		same(t, "node's parents", []string{"run-1"}, life.Parents)
		same(t, "node's metadata", []any{1, 2, "node", 1}, []any{life.Metadata["a"], life.Metadata["b"], life.Metadata["langgraph_node"], life.Metadata["langgraph_step"]})
	}
}

// Parity: 200.
func TestTaskEventsCarryTagsAndMetadata(t *testing.T) {
	type meta = map[string]any
	for name, tt := range map[string]struct {
		node []treadle.NodeOption
		run  []treadle.RunOption
		tags []string
		meta meta
		wire string
	}{
		"none":     {wire: `none`},
		"node":     {node: []treadle.NodeOption{treadle.Tags("n"), treadle.Metadata(meta{"a": 1})}, tags: []string{"n"}, meta: meta{"a": 1}, wire: `{"a":1,"tags":["n"]}`},
		"run":      {run: []treadle.RunOption{treadle.Tags("r"), treadle.Metadata(meta{"a": 1})}, tags: []string{"r"}, meta: meta{"a": 1}, wire: `{"a":1,"tags":["r"]}`},
		"tags":     {run: []treadle.RunOption{treadle.Tags("r", "s"), treadle.Tags("t")}, tags: []string{"r", "s", "t"}, wire: `{"tags":["r","s","t"]}`},
		"metadata": {node: []treadle.NodeOption{treadle.Metadata(meta{"a": 1}), treadle.Metadata(meta{"b": 2})}, meta: meta{"a": 1, "b": 2}, wire: `{"a":1,"b":2}`},
		"the node's metadata wins": {
			node: []treadle.NodeOption{treadle.Tags("n"), treadle.Metadata(meta{"a": "node"})},
			run:  []treadle.RunOption{treadle.Tags("r"), treadle.Metadata(meta{"a": "run", "b": 2})},
			tags: []string{"r", "n"}, meta: meta{"a": "node", "b": 2}, wire: `{"a":"node","b":2,"tags":["r","n"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := single(t, does("x"), tt.node...).With(tt.run...)
			starts := 0
			for ev, err := range g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeTasks)) {
				if err != nil {
					t.Fatal(err)
				}
				if start, ok := ev.(treadle.TaskStarted); ok {
					starts++
					same(t, "tags and metadata", []any{tt.tags, tt.meta}, []any{start.Tags, start.Metadata})
					raw, err := dynamic.Wire{}.Encode(start)
					if err != nil {
						t.Fatal(err)
					}
					if _, wire, ok := strings.Cut(string(raw), `"metadata":`); !ok && tt.wire != "none" || ok && !strings.HasPrefix(wire, tt.wire) {
						t.Errorf("on the wire: %s", raw)
					}
				}
			}
			same(t, "starts", 1, starts)
		})
	}
}

// Hidden nodes and tasks run, but are not reported.
func TestHiddenNodesAndTasksAreNotStreamed(t *testing.T) {
	note := treadle.NewTask("note", func(context.Context, string) (string, error) { return "noted", nil }, treadle.Tags(treadle.TagHidden))
	b := treadle.New[diary]("hiding")
	treadle.AddNode(b, "hidden", does("hidden"), treadle.Tags(treadle.TagHidden))
	treadle.AddNode(b, "shown", func(ctx context.Context, _ diary) (page, error) {
		text, err := note.Run(ctx, "x")
		return did(text), err
	})
	b.Edge(treadle.Start, "hidden")
	b.Edge("hidden", "shown")
	wantEvents(t, b2stream(t, b, treadle.ModeTasks, treadle.ModeUpdates, treadle.ModeValues),
		`values {"log":["hidden"]}`,
		`shown starts with {"log":["hidden"]}`,
		`shown wrote {"log":["noted"]}`,
		`shown ends with {"log":["noted"]}`,
		`values {"log":["hidden","noted"]}`)
}

// A failed task has an end and no update. Tasks that its failure cancels have neither.
func TestFailedTasksInStreams(t *testing.T) {
	boom := errors.New("boom")
	b := treadle.New[diary]("failing")
	begun := make(chan struct{})
	treadle.AddNode(b, "bad", func(context.Context, diary) (page, error) {
		<-begun
		return did("lost"), boom
	})
	treadle.AddNode(b, "good", func(ctx context.Context, _ diary) (page, error) {
		close(begun)
		<-ctx.Done()
		return page{}, ctx.Err()
	})
	b.Edge(treadle.Start, "bad")
	b.Edge(treadle.Start, "good")
	got, err := heard(b2stream(t, b, treadle.ModeTasks, treadle.ModeUpdates, treadle.ModeValues))
	if !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	same(t, "events", []string{`bad starts with {"log":[]}`, `good starts with {"log":[]}`, "bad failed"}, got)
}

// A run that ends at its limit has said everything before.
func TestStepLimitStreamsLastCheckpoint(t *testing.T) {
	b := chain("limited", "a", "b")
	g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	got, err := heard(g.Thread("t", treadle.StepLimit(1)).Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeCheckpoints)))
	if _, ok := errors.AsType[*treadle.StepLimitError](err); !ok {
		t.Errorf("got %v", err)
	}
	same(t, "events", []string{
		`checkpoint -1 {"log":[]}, next [__start__]`,
		`checkpoint 0 {"log":[]}, next [a]`,
		`checkpoint 1 {"log":["a"]}, next [b]`,
	}, got)
}

// The stream of a continued run starts with the state that it continues from.
func TestContinuedStreamStartsWithState(t *testing.T) {
	g := weave(t, chain("continued", "a", "b"), &treadle.Options{Saver: checkpoint.NewMemory()})
	if _, err := g.Thread("t", treadle.StepLimit(1)).Run(t.Context(), diary{Topic: "owls"}); err == nil {
		t.Fatal("the run did not reach its limit")
	}
	wantEvents(t, g.Thread("t").ContinueStream(t.Context(), treadle.Modes(treadle.ModeValues, treadle.ModeUpdates)),
		`values {"topic":"owls","log":["a"]}`, `b wrote {"log":["b"]}`, `values {"topic":"owls","log":["a","b"]}`)
}

// No event follows an error, regardless of its cause.
func TestNothingFollowsError(t *testing.T) {
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		seq  func(t *testing.T) iter.Seq2[treadle.Event, error]
		want []string
	}{
		"node": {func(t *testing.T) iter.Seq2[treadle.Event, error] {
			b := chain("bad", "a", "b")
			treadle.AddNode(b, "c", func(context.Context, diary) (page, error) { return page{}, boom })
			b.Edge("b", "c")
			return b2stream(t, b, treadle.ModeUpdates)
		}, []string{`a wrote {"log":["a"]}`, `b wrote {"log":["b"]}`}},
		"output key": {func(t *testing.T) iter.Seq2[treadle.Event, error] {
			return talk(t).Stream(t.Context(), diary{}, treadle.OutputKeys("x"))
		}, nil},
		"context": {func(t *testing.T) iter.Seq2[treadle.Event, error] {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return talk(t).Stream(ctx, diary{})
		}, nil},
		"no saver": {func(t *testing.T) iter.Seq2[treadle.Event, error] {
			return single(t, does("x")).Thread("t").Stream(t.Context(), diary{})
		}, nil},
		"no thread": {func(t *testing.T) iter.Seq2[treadle.Event, error] {
			return talk(t).Thread("").ContinueStream(t.Context())
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := heard(tt.seq(t))
			if err == nil {
				t.Error("got no error")
			}
			same(t, "events", tt.want, got)
			for _, err := range tt.seq(t) { // leaving at the first pair is fine too
				_ = err
				break
			}
		})
	}
}

// Regardless of how the loop is left, the run is canceled and waited for.
//
// Parity: 116, 123.
func TestLeavingLoopCancelsAndWaits(t *testing.T) {
	left := func(leave func(iter.Seq2[treadle.Event, error])) func(*testing.T) {
		return func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cause error
				cleaned := false
				b := treadle.New[diary]("left")
				treadle.AddNode(b, "busy", func(ctx context.Context, _ diary) (page, error) {
					treadle.Emit(ctx, "now")
					<-ctx.Done()
					cause = ctx.Err()
					<-time.After(time.Minute) // cleaning up takes its time
					treadle.Emit(ctx, "too late")
					cleaned = true
					return page{}, ctx.Err()
				})
				treadle.AddNode(b, "never", func(context.Context, diary) (page, error) {
					t.Error("the run continued")
					return page{}, nil
				})
				b.Edge(treadle.Start, "busy")
				b.Edge("busy", "never")
				g := weave(t, b, nil)
				took := timed(func() { leave(g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeCustom))) })
				same(t, "took, cleaned up", []any{time.Minute, true}, []any{took, cleaned})
				if !errors.Is(cause, context.Canceled) {
					t.Errorf("the node's context ended with %v", cause)
				}
			})
		}
	}
	t.Run("break", left(func(seq iter.Seq2[treadle.Event, error]) {
		for range seq {
			break
		}
	}))
	t.Run("panic", left(func(seq iter.Seq2[treadle.Event, error]) {
		defer func() { _ = recover() }()
		for range seq {
			panic("out")
		}
	}))
	t.Run("goexit", left(func(seq iter.Seq2[treadle.Event, error]) {
		done := make(chan struct{})
		go func() { // as t.Fatal does
			defer close(done)
			for range seq {
				runtime.Goexit()
			}
		}()
		<-done
	}))
	t.Run("pull", left(func(seq iter.Seq2[treadle.Event, error]) {
		next, stop := iter.Pull2(seq)
		_, _, _ = next()
		stop()
	}))
}

// Tasks that had finished when the reader left are saved, and the thread continues from
// there.
//
// Parity: 116.
func TestThreadAfterReaderLeft(t *testing.T) {
	stuck := true
	b := treadle.New[diary]("left")
	treadle.AddNode(b, "a", does("a"))
	treadle.AddNode(b, "quick", does("quick"))
	treadle.AddNode(b, "stuck", func(ctx context.Context, _ diary) (page, error) {
		if stuck {
			<-ctx.Done()
			return page{}, ctx.Err()
		}
		return did("free"), nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "quick")
	b.Edge("a", "stuck")
	g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	for ev, err := range g.Thread("t").Stream(t.Context(), diary{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Where().Node == "quick" {
			break
		}
	}
	snap, err := g.Thread("t").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "values", `{"log":["a","quick"]}`, snap.State.String())
	same(t, "next", []string{"stuck"}, snap.Next)
	stuck = false
	out, err := g.Thread("t").Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log", reduce.List[string]{"a", "quick", "free"}, out.Log)
}

// Cancelling the context ends a stream with the error, not silently.
//
// Parity: 195.
func TestCanceledStreamEndsWithError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := single(t, func(ctx context.Context, _ diary) (page, error) {
		treadle.Emit(ctx, "now")
		<-ctx.Done()
		return page{}, ctx.Err()
	})
	var got []string
	for ev, err := range g.Stream(ctx, diary{}, treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			got = append(got, fmt.Sprint("canceled: ", errors.Is(err, context.Canceled)))
			continue
		}
		got = append(got, brief(ev))
		cancel()
	}
	same(t, "stream", []string{"node emitted now", "canceled: true"}, got)
}

// A reader that is slow makes the run wait; nothing is lost.
func TestSlowReaderLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		emitted := 0
		g := single(t, func(ctx context.Context, _ diary) (page, error) {
			for i := range n {
				treadle.Emit(ctx, i)
				emitted = i + 1
			}
			return page{}, nil
		})
		read := 0
		for ev, err := range g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeCustom)) {
			if err != nil {
				t.Fatal(err)
			}
			c, ok := ev.(treadle.Custom)
			if !ok {
				continue
			}
			if c.Value != read {
				t.Fatalf("event %d is %v", read, c.Value)
			}
			if read == 0 {
				synctest.Wait() // the run is as far ahead as it gets
				if emitted >= n {
					t.Errorf("the run did not wait for its reader: it emitted %d", emitted)
				}
			}
			read++
		}
		same(t, "read", n, read)
	})
}

// A stream ends with the result of Run, and its last values are the same.
func TestRunAndStreamAgree(t *testing.T) {
	fan := func() *treadle.Builder[diary] {
		b := treadle.New[diary]("fan")
		work := treadle.AddNode(b, "work", func(_ context.Context, n int) (page, error) { return did(fmt.Sprint(n)), nil })
		treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
			var all treadle.Goto
			for i := range 20 {
				all = append(all, treadle.Send(work, i)...)
			}
			return all, nil
		}, "work")
		return b
	}
	for name, g := range map[string]*treadle.Graph[diary, diary]{
		"chain":  talk(t),
		"nested": nested(t),
		"sends":  weave(t, fan(), nil),
	} {
		t.Run(name, func(t *testing.T) {
			in := diary{Topic: "owls", Log: reduce.List[string]{"in"}}
			want, err := g.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			var last treadle.Record
			finished := 0
			for ev, err := range g.Stream(t.Context(), in, treadle.Modes(treadle.ModeValues, treadle.ModeUpdates, treadle.ModeTasks)) {
				if err != nil {
					t.Fatal(err)
				}
				switch ev := ev.(type) {
				case treadle.Values:
					last = ev.State
				case treadle.Finished[diary]:
					finished++
					same(t, "output", want, ev.Output)
				}
			}
			same(t, "finished", 1, finished)
			var values diary
			if err := last.Read(&values); err != nil {
				t.Fatal(err)
			}
			same(t, "last values", want, values)
		})
	}
	t.Run("failure", func(t *testing.T) {
		boom := errors.New("boom")
		g := single(t, func(context.Context, diary) (page, error) { return page{}, boom })
		_, runErr := g.Run(t.Context(), diary{})
		_, streamErr := heard(g.Stream(t.Context(), diary{}))
		same(t, "error", runErr.Error(), streamErr.Error())
	})
}

// Updates of a step arrive as tasks end, regardless of their order in the state.
//
// Parity: 40.
func TestUpdatesArriveInCompletionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := treadle.New[diary]("order")
		for i, n := range []string{"a", "b", "c"} {
			treadle.AddNode(b, n, func(ctx context.Context, _ diary) (page, error) {
				return did(n), sleepy(ctx, time.Duration(3-i)*time.Second)
			})
			b.Edge(treadle.Start, n)
		}
		g := weave(t, b, nil)
		wantEvents(t, g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeUpdates, treadle.ModeValues)),
			`c wrote {"log":["c"]}`, `b wrote {"log":["b"]}`, `a wrote {"log":["a"]}`, `values {"log":["a","b","c"]}`)
	})
}

// OutputKeys can select the value of a single-channel graph.
func TestStreamOfRootState(t *testing.T) {
	b := treadle.New[reduce.List[string]]("root")
	treadle.AddNode(b, "a", func(context.Context, reduce.List[string]) (reduce.List[string], error) {
		return reduce.List[string]{"a"}, nil
	})
	b.Edge(treadle.Start, "a")
	got, err := heard(weave(t, b, nil).Stream(t.Context(), reduce.List[string]{"in"}, treadle.Modes(treadle.ModeUpdates, treadle.ModeValues)))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "events", []string{`values ["in"]`, `a wrote ["a"]`, `values ["in","a"]`}, slices.DeleteFunc(got, func(l string) bool { return strings.Contains(l, "Finished") }))
}

// An unknown mode is rejected before the run starts, instead of yielding an empty stream.
func TestUnknownStreamModesAreRejected(t *testing.T) {
	ran := false
	b := treadle.New[diary]("modes")
	treadle.AddNode(b, "node", func(context.Context, diary) (page, error) { ran = true; return page{}, nil })
	b.Edge(treadle.Start, "node")
	g := weave(t, b, nil)
	var parsed treadle.Mode
	_ = parsed.UnmarshalText([]byte("update"))
	for _, tt := range []struct {
		modes []treadle.Mode
		want  string
	}{
		{[]treadle.Mode{parsed}, "<nil> treadle: unknown stream mode 0: want a combination of values|updates|custom|messages|tasks|"},
		{[]treadle.Mode{treadle.ModeValues, 1 << 15}, "<nil> treadle: unknown stream mode 32768: want a combination of values|updates|custom|messages|tasks|"},
	} {
		var got []string
		for ev, err := range g.Stream(t.Context(), diary{}, treadle.Modes(tt.modes...)) {
			got = append(got, fmt.Sprint(ev, " ", err))
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
			t.Errorf("stream is %q, want one error that starts with %q", got, tt.want)
		}
	}
	if ran {
		t.Error("the node ran")
	}
	for ev, err := range g.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeValues|treadle.ModeUpdates)) {
		if err != nil {
			t.Errorf("got %v, %v", ev, err)
		}
	}
}

// A retriever of the user's own is one in streams of events.
func TestRetrieversAreEvents(t *testing.T) {
	b := treadle.New[diary]("search")
	treadle.AddNode(b, "node", func(ctx context.Context, s diary) (page, error) {
		docs, err := llm.Retrieve(ctx, "papers", s.Topic, func(_ context.Context, query string) ([]string, error) {
			if query == "" {
				return nil, errors.New("no query")
			}
			return []string{"on " + query}, nil
		})
		return page{docs}, err
	})
	b.Edge(treadle.Start, "node")
	g := weave(t, b, nil)
	events := func(topic string) (got []string) {
		for ev := range g.Stream(t.Context(), diary{Topic: topic}, treadle.Modes(treadle.ModeEvents)) {
			if l, ok := ev.(treadle.Lifecycle); ok && l.Name == "papers" {
				got = append(got, fmt.Sprint(l.Event, " ", l.Input, " ", l.Output, " ", l.Err))
			}
		}
		return got
	}
	same(t, "found", []string{"on_retriever_start map[query:owls] <nil> <nil>", "on_retriever_end map[query:owls] [on owls] <nil>"}, events("owls"))
	same(t, "failed", []string{"on_retriever_start map[query:] <nil> <nil>", "on_retriever_error map[query:] <nil> no query"}, events(""))
	wantLog(t, g, diary{Topic: "owls"}, "on owls")
}
