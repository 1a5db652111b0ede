package treadle_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A server knows no Go types: it opens threads of any graph and speaks JSON.
func ExampleAnyGraph() {
	type State struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
	type count struct{ Count int }

	b := treadle.New[State]("visits")
	treadle.AddNode(b, "visit", func(_ context.Context, s State) (count, error) { return count{s.Count + 1}, nil })
	b.Edge(treadle.Start, "visit")

	graphs := map[string]treadle.AnyGraph{
		"visits": treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})),
	}

	ctx := context.Background()
	thread := graphs["visits"].Open("ada")
	for _, input := range []string{`{"name": "Ada"}`, `{}`} {
		out, err := thread.RunJSON(ctx, json.RawMessage(input))
		fmt.Println(string(out), err)
	}
	_, err := thread.UpdateJSON(ctx, json.RawMessage(`{"count": 40}`))
	fmt.Println(err)
	snap, err := thread.State(ctx)
	fmt.Println(snap.Values, err)
	_, err = thread.RunJSON(ctx, json.RawMessage(`{"title": "Dr"}`))
	fmt.Println(err != nil)
	// Output:
	// {"name":"Ada","count":1} <nil>
	// {"name":"Ada","count":2} <nil>
	// <nil>
	// {"name":"Ada","count":40} <nil>
	// true
}

// The schemas tell a client what it may send and what it will get.
func ExampleGraph_Schemas() {
	type Question struct{ Text string }
	type Answer struct{ Words reduce.List[string] }
	type State struct {
		Text  string              `json:"text"`
		Words reduce.List[string] `json:"words"`
	}
	type User struct {
		Name string `json:"name"`
	}

	b := treadle.New[State]("split")
	treadle.ContextType[User](b)
	treadle.AddNode(b, "split", func(_ context.Context, q Question) (Answer, error) {
		return Answer{reduce.List[string]{q.Text}}, nil
	})
	b.Edge(treadle.Start, "split")
	g := treadle.Must(treadle.Compile[Question, Answer](b, nil))

	schemas, err := g.Schemas()
	fmt.Println(err)
	for _, s := range []*jsonschema.Schema{schemas.Input, schemas.Output, schemas.Context} {
		raw, err := json.Marshal(s)
		fmt.Println(string(raw), err)
	}
	// Output:
	// <nil>
	// {"type":"object","properties":{"text":{"type":"string"}}} <nil>
	// {"type":"object","properties":{"words":{"type":["null","array"],"items":{"type":"string"}}}} <nil>
	// {"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false} <nil>
}

// A server streams any graph and renders the events for its clients.
func ExampleAnyThread() {
	type State struct {
		Text string `json:"text"`
	}

	b := treadle.New[State]("echo")
	treadle.AddNode(b, "echo", func(ctx context.Context, s State) (State, error) {
		treadle.Emit(ctx, "listening")
		return State{s.Text + ", " + s.Text}, nil
	})
	b.Edge(treadle.Start, "echo")
	var g treadle.AnyGraph = treadle.Must(b.Compile(nil))

	// An empty thread id keeps nothing.
	modes := treadle.Modes(treadle.ModeCustom, treadle.ModeUpdates)
	for ev, err := range g.Open("").StreamJSON(context.Background(), json.RawMessage(`{"text": "hey"}`), modes) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if done, ok := ev.(treadle.Finished[json.RawMessage]); ok {
			fmt.Println("finished", string(done.Output))
			break
		}
		v1, err1 := treadle.Wire{Several: true}.Encode(ev)
		v2, err2 := treadle.Wire{Version: 2}.Encode(ev)
		fmt.Println(string(v1), string(v2), err1, err2)
	}
	// Output:
	// ["custom","listening"] {"data":"listening","ns":[],"type":"custom"} <nil> <nil>
	// ["updates",{"echo":{"text":"hey, hey"}}] {"data":{"echo":{"text":"hey, hey"}},"ns":[],"type":"updates"} <nil> <nil>
	// finished {"text":"hey, hey"}
}
