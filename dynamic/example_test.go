package dynamic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
)

// Open runs any graph with JSON input and output.
func ExampleOpen() {
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
	thread := dynamic.Open(graphs["visits"], "ada")
	for _, input := range []string{`{"name": "Ada"}`, `{}`} {
		out, err := thread.RunJSON(ctx, json.RawMessage(input))
		fmt.Println(string(out), err)
	}
	_, err := thread.UpdateJSON(ctx, json.RawMessage(`{"count": 40}`))
	fmt.Println(err)
	snap, err := thread.State(ctx)
	fmt.Println(snap.State, err)
	_, err = thread.RunJSON(ctx, json.RawMessage(`{"title": "Dr"}`))
	fmt.Println(err != nil)
	// Output:
	// {"name":"Ada","count":1} <nil>
	// {"name":"Ada","count":2} <nil>
	// <nil>
	// {"name":"Ada","count":40} <nil>
	// true
}

// A server streams any graph and encodes the events for its clients.
func ExampleThread_StreamJSON() {
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

	// With an empty ID, nothing is saved.
	modes := treadle.Modes(treadle.ModeCustom, treadle.ModeUpdates)
	for ev, err := range dynamic.Open(g, "").StreamJSON(context.Background(), json.RawMessage(`{"text": "hey"}`), modes) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if done, ok := ev.(treadle.Finished[json.RawMessage]); ok {
			fmt.Println("finished", string(done.Output))
			break
		}
		v1, err1 := dynamic.Wire{Several: true}.Encode(ev)
		v2, err2 := dynamic.Wire{Version: 2}.Encode(ev)
		fmt.Println(string(v1), string(v2), err1, err2)
	}
	// Output:
	// ["custom","listening"] {"data":"listening","ns":[],"type":"custom"} <nil> <nil>
	// ["updates",{"echo":{"text":"hey, hey"}}] {"data":{"echo":{"text":"hey, hey"}},"ns":[],"type":"updates"} <nil> <nil>
	// finished {"text":"hey, hey"}
}

// Wire encodes events as LangGraph's streams do. The debug mode reports checkpoints, tasks,
// and their results.
//
// Sample: A23.
func ExampleWire() {
	type State struct {
		Topic string `json:"topic"`
		Joke  string `json:"joke"`
	}
	type topic struct{ Topic string }
	type joke struct{ Joke string }

	b := treadle.New[State]("jokes")
	treadle.AddNode(b, "refine_topic", func(_ context.Context, s State) (topic, error) {
		return topic{s.Topic + " and cats"}, nil
	})
	treadle.AddNode(b, "generate_joke", func(_ context.Context, s State) (joke, error) {
		return joke{"This is a joke about " + s.Topic}, nil
	})
	b.Sequence(treadle.Start, "refine_topic", "generate_joke", treadle.End)
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	// IDs and times differ from run to run.
	ids := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT[^"]+`)
	configs := regexp.MustCompile(`\{"configurable":\{[^}]*}}`)
	for ev, err := range g.Thread("1").Stream(context.Background(), State{Topic: "ice cream"}, treadle.Modes(treadle.ModeDebug)) {
		if err != nil {
			fmt.Println(err)
			break
		}
		raw, err := dynamic.Wire{}.Encode(ev)
		if raw == nil {
			continue // Finished is not sent
		}
		raw = ids.ReplaceAll(raw, []byte("ID"))
		raw = times.ReplaceAll(raw, []byte("TIME"))
		fmt.Println(string(configs.ReplaceAll(raw, []byte("CONFIG"))), err)
	}
	// Output:
	// {"payload":{"config":CONFIG,"metadata":{"parents":{},"source":"input","step":-1},"next":["__start__"],"parent_config":null,"tasks":[{"id":"ID","interrupts":[],"name":"__start__","state":null}],"values":{}},"step":-1,"timestamp":"TIME","type":"checkpoint"} <nil>
	// {"payload":{"config":CONFIG,"metadata":{"parents":{},"source":"loop","step":0},"next":["refine_topic"],"parent_config":CONFIG,"tasks":[{"id":"ID","interrupts":[],"name":"refine_topic","state":null}],"values":{"topic":"ice cream"}},"step":0,"timestamp":"TIME","type":"checkpoint"} <nil>
	// {"payload":{"id":"ID","input":{"topic":"ice cream"},"name":"refine_topic","triggers":["branch:to:refine_topic"]},"step":1,"timestamp":"TIME","type":"task"} <nil>
	// {"payload":{"error":null,"id":"ID","interrupts":[],"name":"refine_topic","result":{"topic":"ice cream and cats"}},"step":1,"timestamp":"TIME","type":"task_result"} <nil>
	// {"payload":{"config":CONFIG,"metadata":{"parents":{},"source":"loop","step":1},"next":["generate_joke"],"parent_config":CONFIG,"tasks":[{"id":"ID","interrupts":[],"name":"generate_joke","state":null}],"values":{"topic":"ice cream and cats"}},"step":1,"timestamp":"TIME","type":"checkpoint"} <nil>
	// {"payload":{"id":"ID","input":{"topic":"ice cream and cats"},"name":"generate_joke","triggers":["branch:to:generate_joke"]},"step":2,"timestamp":"TIME","type":"task"} <nil>
	// {"payload":{"error":null,"id":"ID","interrupts":[],"name":"generate_joke","result":{"joke":"This is a joke about ice cream and cats"}},"step":2,"timestamp":"TIME","type":"task_result"} <nil>
	// {"payload":{"config":CONFIG,"metadata":{"parents":{},"source":"loop","step":2},"next":[],"parent_config":CONFIG,"tasks":[],"values":{"topic":"ice cream and cats","joke":"This is a joke about ice cream and cats"}},"step":2,"timestamp":"TIME","type":"checkpoint"} <nil>
}
