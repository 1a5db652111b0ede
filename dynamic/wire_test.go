package dynamic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/reduce"
)

// wires lists the ways to encode a stream.
var wires = []struct {
	name string
	wire dynamic.Wire
}{
	{"v1", dynamic.Wire{}},
	{"v1 several", dynamic.Wire{Version: 1, Several: true}},
	{"v1 subgraphs", dynamic.Wire{Version: 1, Subgraphs: true}},
	{"v1 several, subgraphs", dynamic.Wire{Version: 1, Several: true, Subgraphs: true}},
	{"v2", dynamic.Wire{Version: 2}},
}

var (
	uuid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hash128 = regexp.MustCompile(`"[0-9a-f]{32}"`)
)

// masked replaces IDs with their order of appearance: equality of IDs is part of
// the expected output, their values are not.
func masked(raw []byte) string {
	names := map[string]string{}
	name := func(id []byte) []byte {
		if names[string(id)] == "" {
			names[string(id)] = fmt.Sprintf("id-%d", len(names)+1)
		}
		return []byte(names[string(id)])
	}
	raw = uuid.ReplaceAllFunc(raw, name)
	raw = hash128.ReplaceAllFunc(raw, func(q []byte) []byte {
		return append(append([]byte{'"'}, name(q[1:len(q)-1])...), '"')
	})
	return string(raw)
}

// wireStreams lists runs that together emit every type of event.
var wireStreams = []struct {
	name string
	run  func(t *testing.T) iter.Seq2[treadle.Event, error]
}{
	{"modes", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		thread := talk(t).Thread("t1", treadle.RunID("run-1"), treadle.Metadata(map[string]any{"user": "ada"}), treadle.Tags("demo"))
		return thread.Stream(t.Context(), diary{Topic: "owls"}, everything)
	}},
	{"subgraphs", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		cb := treadle.New[diary]("child")
		treadle.AddNode(cb, "c", func(ctx context.Context, _ diary) (page, error) {
			treadle.Emit(ctx, map[string]any{"progress": 0.5})
			model(ctx, "m1", "hoo")
			return did("c"), nil
		}, treadle.Tags("quiet"))
		cb.Edge(treadle.Start, "c")
		b := treadle.New[diary]("parent")
		treadle.AddGraph(b, "sub", weave(t, cb, nil))
		b.Edge(treadle.Start, "sub")
		g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
		return g.Thread("t1").Stream(t.Context(), diary{Topic: "owls"}, everything, treadle.Subgraphs())
	}},
	{"fan_out", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		type query struct {
			Word string `json:"word"`
		}
		b := treadle.New[diary]("fan_out")
		look := treadle.AddNode(b, "look", func(_ context.Context, q query) (page, error) { return did("found " + q.Word), nil })
		treadle.AddNode(b, "plan", func(context.Context, diary) ([]treadle.Command[page], error) {
			one, two := did("plan"), did("b")
			return []treadle.Command[page]{
				{Update: &one},
				{Update: &two, Goto: append(treadle.Send(look, query{"x"}), treadle.Send(look, query{"y"})...)},
			}, nil
		}, treadle.Destinations("look"))
		treadle.AddNode(b, "silent", func(context.Context, diary) (struct{}, error) { return struct{}{}, nil })
		treadle.AddNode(b, "last", func(context.Context, diary) (cleared, error) {
			return cleared{treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{"only"}}}, nil
		})
		b.Edge(treadle.Start, "plan")
		b.Edge(treadle.Start, "silent")
		b.Edge("look", "last")
		// One worker makes the order of events deterministic.
		g := weave(t, b, &treadle.Options{MaxConcurrency: 1})
		return g.Stream(t.Context(), diary{Topic: "owls"}, everything)
	}},
	{"cached", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		g := single(t, does("slow"), treadle.Cache(0))
		wantLog(t, g, diary{}, "slow")
		return g.Stream(t.Context(), diary{}, everything)
	}},
	{"handled", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		g := single(t, func(context.Context, diary) (page, error) { return page{}, passing{"boom"} }, treadle.OnError(recovers))
		return g.Stream(t.Context(), diary{}, everything)
	}},
	{"failed", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		g := single(t, func(context.Context, diary) (page, error) { return page{}, passing{"boom"} })
		return g.Stream(t.Context(), diary{}, everything)
	}},
	{"one_channel", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		type words = reduce.List[string]
		b := treadle.New[words]("one_channel")
		treadle.AddNode(b, "once", func(context.Context, words) (words, error) { return words{"a"}, nil })
		treadle.AddNode(b, "twice", func(context.Context, words) ([]treadle.Command[words], error) {
			return []treadle.Command[words]{{Update: &words{"b"}}, {Update: &words{"c"}}}, nil
		})
		b.Edge(treadle.Start, "once")
		b.Edge("once", "twice")
		return weave(t, b, nil).Stream(t.Context(), words{"in"}, everything)
	}},
	{"tokens", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		b := treadle.New[sayings]("tokens")
		treadle.AddNode(b, "speak", func(ctx context.Context, _ sayings) (spoken, error) {
			return spoken{reduce.List[saying]{modelCall(ctx, observe.Call{Name: "parrot", Tags: []string{"joke"}}, "a1", "ha", "ha"), {"a2", "a note"}}}, nil
		})
		b.Edge(treadle.Start, "speak")
		return weave(t, b, nil).Stream(t.Context(), sayings{reduce.List[saying]{{"h1", "hi"}}}, treadle.Modes(treadle.ModeMessages, treadle.ModeUpdates))
	}},
	{"events", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		b := treadle.New[diary]("events")
		treadle.AddNode(b, "work", func(ctx context.Context, _ diary) (page, error) {
			tctx, tool := observe.Begin(ctx, observe.Call{Kind: observe.Tool, Name: "search", Input: map[string]any{"q": "owls"}})
			_, found := observe.Begin(tctx, observe.Call{Kind: observe.Retriever, Name: "index", Input: "owls"})
			found.End([]string{"page"}, nil)
			tool.End("found", nil)
			model(ctx, "m1", "hoo")
			treadle.Emit(ctx, "progress")
			return did("work"), nil
		}, treadle.Tags("t"), treadle.Metadata(map[string]any{"k": "v"}))
		treadle.AddNode(b, "bad", func(context.Context, diary) (page, error) { return page{}, passing{"boom"} })
		b.Edge(treadle.Start, "work")
		b.Edge("work", "bad")
		return weave(t, b, nil).Stream(t.Context(), diary{Topic: "owls"}, treadle.Modes(treadle.ModeEvents))
	}},
	{"paused", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		b := treadle.New[diary]("paused")
		treadle.AddNode(b, "ask", func(ctx context.Context, _ diary) (page, error) {
			name, err := treadle.Interrupt[string](ctx, map[string]string{"question": "who?"})
			return did(name), err
		})
		b.Edge(treadle.Start, "ask")
		g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
		return g.Thread("t1").Stream(t.Context(), diary{Topic: "owls"}, everything)
	}},
	{"breakpoint", func(t *testing.T) iter.Seq2[treadle.Event, error] {
		g := weave(t, chain("breakpoint", "a", "b"), &treadle.Options{Saver: checkpoint.NewMemory()})
		return g.Thread("t1", treadle.Before("b")).Stream(t.Context(), diary{}, everything)
	}},
}

type cleared struct {
	Log treadle.Overwrite[reduce.List[string]]
}

// everything lists all modes except lifecycle events.
var everything = treadle.Modes(treadle.ModeValues, treadle.ModeUpdates, treadle.ModeCustom, treadle.ModeMessages,
	treadle.ModeTasks, treadle.ModeCheckpoints, treadle.ModeDebug)

// The test encodes every type of event in every format of LangGraph's streams.
//
// Parity: 28, 106, 130, 200, 202.
func TestWire(t *testing.T) {
	types := map[string]bool{}
	for _, tt := range wireStreams {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []treadle.Event
				for ev, err := range tt.run(t) {
					if err == nil {
						name, _, _ := strings.Cut(fmt.Sprintf("%T", ev), "[")
						types[name] = true
						events = append(events, ev)
					}
				}
				out := &bytes.Buffer{}
				out.WriteString("{")
				for i, w := range wires {
					if i > 0 {
						out.WriteString(",")
					}
					fmt.Fprintf(out, "\n%q: [", w.name)
					sep := "\n"
					for _, ev := range events {
						raw, err := w.wire.Encode(ev)
						if err != nil {
							t.Fatal(err)
						}
						if raw != nil {
							fmt.Fprintf(out, "%s%s", sep, raw)
							sep = ",\n"
						}
					}
					out.WriteString("\n]")
				}
				out.WriteString("\n}\n")
				if !json.Valid(out.Bytes()) {
					t.Fatalf("not JSON: %s", out)
				}
				golden(t, "wire/"+tt.name+".json", masked(out.Bytes()))
			})
		})
	}
	for _, name := range []string{"Values", "Updated", "Custom", "Token", "TaskStarted", "TaskFinished", "Checkpointed", "Lifecycle", "Interrupted", "Finished"} {
		if !types["treadle."+name] {
			t.Errorf("no run emits a %s", name)
		}
	}
}

// The test frames each mode by hand.
//
// Parity: 202.
func TestWireFraming(t *testing.T) {
	ns := []string{"sub:1", "leaf:2"}
	custom := treadle.Custom{Origin: treadle.Origin{Mode: treadle.ModeCustom, Namespace: ns}, Value: "x"}
	for _, tt := range []struct {
		wire dynamic.Wire
		ev   treadle.Event
		want string
	}{
		{dynamic.Wire{}, custom, `"x"`},
		{dynamic.Wire{Version: 1}, custom, `"x"`},
		{dynamic.Wire{Several: true}, custom, `["custom","x"]`},
		{dynamic.Wire{Subgraphs: true}, custom, `[["sub:1","leaf:2"],"x"]`},
		{dynamic.Wire{Several: true, Subgraphs: true}, custom, `[["sub:1","leaf:2"],"custom","x"]`},
		{dynamic.Wire{Version: 2}, custom, `{"data":"x","ns":["sub:1","leaf:2"],"type":"custom"}`},
		{dynamic.Wire{Version: 2, Several: true, Subgraphs: true}, custom, `{"data":"x","ns":["sub:1","leaf:2"],"type":"custom"}`},
		{dynamic.Wire{Subgraphs: true}, treadle.Custom{Origin: treadle.Origin{Mode: treadle.ModeCustom}}, `[[],null]`},
		{dynamic.Wire{Version: 2}, treadle.Values{Origin: treadle.Origin{Mode: treadle.ModeValues}}, `{"data":null,"interrupts":[],"ns":[],"type":"values"}`},
		{dynamic.Wire{}, treadle.Token{Chunk: "w"}, `["w",{}]`},
		{dynamic.Wire{}, treadle.Token{Origin: &treadle.Origin{Mode: treadle.ModeMessages, Tags: []string{"t"}}, Chunk: "w"}, `["w",{"tags":["t"]}]`},
		{dynamic.Wire{}, treadle.Finished[diary]{}, ``},
		{dynamic.Wire{Version: 2}, treadle.Finished[diary]{}, ``},
	} {
		raw, err := tt.wire.Encode(tt.ev)
		if err != nil {
			t.Errorf("%+v: %v", tt.wire, err)
		}
		same(t, fmt.Sprintf("%+v", tt.wire), tt.want, string(raw))
	}
}

func TestWireErrors(t *testing.T) {
	custom := treadle.Custom{Origin: treadle.Origin{Mode: treadle.ModeCustom}, Value: 1}
	for _, version := range []int{-1, 3} {
		if _, err := (dynamic.Wire{Version: version}).Encode(custom); err == nil {
			t.Errorf("version %d was accepted", version)
		}
	}
	custom.Value = func() {}
	if _, err := (dynamic.Wire{}).Encode(custom); err == nil {
		t.Error("function was encoded as JSON")
	} else if _, ok := errors.AsType[*json.UnsupportedTypeError](err); !ok {
		t.Errorf("got %v", err)
	}
}
