package treadle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A stream yields the writes of each node as they happen.
//
// Sample: A19.
func ExampleGraph_Stream() {
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
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), State{Topic: "ice cream"}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		switch ev := ev.(type) {
		case treadle.Updated:
			fmt.Println(ev.Node, ev.Update)
		case treadle.Finished[State]:
			fmt.Println("finished:", ev.Output.Joke)
		}
	}
	// Output:
	// refine_topic {"topic":"ice cream and cats"}
	// generate_joke {"joke":"This is a joke about ice cream and cats"}
	// finished: This is a joke about ice cream and cats
}

// Values events contain the whole state: after the input, and after each step.
//
// Sample: A20.
func ExampleGraph_Stream_values() {
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
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), State{Topic: "ice cream"}, treadle.Modes(treadle.ModeValues)) {
		if err != nil {
			fmt.Println(err)
		}
		if v, ok := ev.(treadle.Values); ok {
			fmt.Println(v.State)
		}
	}
	// Output:
	// {"topic":"ice cream"}
	// {"topic":"ice cream and cats"}
	// {"topic":"ice cream and cats","joke":"This is a joke about ice cream and cats"}
}

// A stream of several modes says with each event which mode it belongs to.
//
// Sample: A21.
func ExampleModes() {
	type State struct {
		Topic string `json:"topic"`
		Joke  string `json:"joke"`
	}
	type joke struct{ Joke string }

	b := treadle.New[State]("jokes")
	treadle.AddNode(b, "generate_joke", func(ctx context.Context, s State) (joke, error) {
		treadle.Emit(ctx, "thinking about "+s.Topic)
		return joke{"This is a joke about " + s.Topic}, nil
	})
	b.Edge(treadle.Start, "generate_joke")
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), State{Topic: "cats"}, treadle.Modes(treadle.ModeUpdates, treadle.ModeCustom)) {
		if err != nil {
			fmt.Println(err)
			break
		}
		mode := ev.Where().Mode
		switch chunk := ev.(type) {
		case treadle.Custom:
			fmt.Println(mode, chunk.Value)
		case treadle.Updated:
			fmt.Println(mode, chunk.Node, chunk.Update)
		}
	}
	// Output:
	// custom thinking about cats
	// updates generate_joke {"joke":"This is a joke about cats"}
}

// Subgraphs adds the events of subgraphs. The namespace identifies the graph: the nodes
// that lead to it, each with its task ID.
//
// Sample: A22.
func ExampleSubgraphs() {
	type SubgraphState struct {
		Foo string `json:"foo"` // shared with the parent
		Bar string `json:"bar"`
	}
	type State struct {
		Foo string `json:"foo"`
	}
	type foo struct{ Foo string }
	type bar struct{ Bar string }

	child := treadle.New[SubgraphState]("child")
	treadle.AddNode(child, "subgraph_node_1", func(context.Context, SubgraphState) (bar, error) {
		return bar{"bar"}, nil
	})
	treadle.AddNode(child, "subgraph_node_2", func(_ context.Context, s SubgraphState) (foo, error) {
		return foo{s.Foo + s.Bar}, nil
	})
	child.Sequence(treadle.Start, "subgraph_node_1", "subgraph_node_2")

	b := treadle.New[State]("parent")
	treadle.AddNode(b, "node_1", func(_ context.Context, s State) (State, error) {
		return State{"hi! " + s.Foo}, nil
	})
	treadle.AddGraph(b, "node_2", treadle.Must(child.Compile(nil)))
	b.Sequence(treadle.Start, "node_1", "node_2")
	g := treadle.Must(b.Compile(nil))

	id := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	for ev, err := range g.Stream(context.Background(), State{Foo: "foo"}, treadle.Subgraphs()) {
		if err != nil {
			fmt.Println(err)
		}
		if up, ok := ev.(treadle.Updated); ok {
			path := strings.Join(up.Namespace, "/")
			fmt.Printf("(%s) %s %s\n", id.ReplaceAllString(path, "id"), up.Node, up.Update)
		}
	}
	// Output:
	// () node_1 {"foo":"hi! foo"}
	// (node_2:id) subgraph_node_1 {"bar":"bar"}
	// (node_2:id) subgraph_node_2 {"foo":"hi! foobar"}
	// () node_2 {"foo":"hi! foobar"}
}

// A node can send anything to the stream while it works.
//
// Sample: A24.
func ExampleEmit() {
	type State struct{ Query, Answer string }
	type answer struct{ Answer string }

	b := treadle.New[State]("custom")
	treadle.AddNode(b, "node", func(ctx context.Context, s State) (answer, error) {
		treadle.Emit(ctx, map[string]string{"custom_key": "Generating custom data inside node"})
		return answer{"some data"}, nil
	})
	b.Edge(treadle.Start, "node")
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), State{Query: "example"}, treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			fmt.Println(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			fmt.Println(c.Value)
		}
	}
	// Output:
	// map[custom_key:Generating custom data inside node]
}

// Code without a dependency on graphs can receive a function to write to.
//
// Sample: A24.
func ExampleEmit_writer() {
	type State struct{ Topic, Joke string }
	type joke struct{ Joke string }

	generateJoke := func(topic string, write func(any)) string {
		write(map[string]string{"custom_key": "Streaming custom data while generating a joke"})
		return "This is a joke about " + topic
	}

	b := treadle.New[State]("writer")
	treadle.AddNode(b, "generate_joke", func(ctx context.Context, s State) (joke, error) {
		write := func(v any) { treadle.Emit(ctx, v) }
		return joke{generateJoke(s.Topic, write)}, nil
	})
	b.Edge(treadle.Start, "generate_joke")
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), State{Topic: "ice cream"}, treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			fmt.Println(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			fmt.Println(c.Value)
		}
	}
	// Output:
	// map[custom_key:Streaming custom data while generating a joke]
}

// Any model client can be streamed, here one that yields its response in pieces.
//
// Sample: A25.
func ExampleEmit_model() {
	type State struct{ Topic, Result string }
	type result struct{ Result string }
	type piece struct {
		Chunk string `json:"custom_llm_chunk"`
	}
	client := func(topic string) func(yield func(string) bool) { // an iter.Seq[string]
		return strings.SplitAfterSeq("All about "+topic, " ")
	}

	b := treadle.New[State]("any model")
	treadle.AddNode(b, "call_arbitrary_model", func(ctx context.Context, s State) (result, error) {
		for chunk := range client(s.Topic) {
			treadle.Emit(ctx, piece{chunk})
		}
		return result{"completed"}, nil
	})
	b.Edge(treadle.Start, "call_arbitrary_model")
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), State{Topic: "cats"}, treadle.Modes(treadle.ModeCustom)) {
		switch ev := ev.(type) {
		case nil:
			fmt.Println(err)
		case treadle.Custom:
			fmt.Printf("%+v\n", ev.Value)
		case treadle.Finished[State]:
			fmt.Println(ev.Output.Result)
		}
	}
	// Output:
	// {Chunk:All }
	// {Chunk:about }
	// {Chunk:cats}
	// completed
}

// Leaving the loop cancels the run and waits for it.
func ExampleGraph_Stream_break() {
	type State struct{ N int }

	b := treadle.New[State]("counter")
	treadle.AddNode(b, "count", func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	b.Edge(treadle.Start, "count")
	b.Edge("count", "count") // forever
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), State{}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if up, ok := ev.(treadle.Updated); ok && ev.Where().Step == 3 {
			fmt.Println(up.Update)
			break
		}
	}
	// Output:
	// {"N":3}
}

// OutputKeys leaves only the named fields in values and updates.
func ExampleOutputKeys() {
	type State struct {
		Draft string `json:"draft"`
		Words int    `json:"words"`
	}

	b := treadle.New[State]("essay")
	treadle.AddNode(b, "write", func(context.Context, State) (State, error) {
		return State{Draft: "It was a dark and stormy night.", Words: 7}, nil
	})
	b.Edge(treadle.Start, "write")
	g := treadle.Must(b.Compile(nil))

	for ev, err := range g.Stream(context.Background(), State{}, treadle.OutputKeys("words")) {
		if err != nil {
			fmt.Println(err)
		}
		if up, ok := ev.(treadle.Updated); ok {
			fmt.Println(up.Node, up.Update)
		}
	}
	// Output:
	// write {"words":7}
}

// A record can be read into a struct, by field, or as JSON. It distinguishes a zero value
// from a field that was never written.
func ExampleRecord() {
	type State struct {
		Topic string `json:"topic"`
		Stars int    `json:"stars"`
		Joke  string `json:"joke"`
	}
	type rating struct{ Stars int }

	b := treadle.New[State]("rate")
	treadle.AddNode(b, "rate", func(context.Context, State) (rating, error) { return rating{0}, nil })
	b.Edge(treadle.Start, "rate")
	g := treadle.Must(b.Compile(nil))

	for ev := range g.Stream(context.Background(), State{Topic: "owls"}, treadle.Modes(treadle.ModeValues)) {
		v, ok := ev.(treadle.Values)
		if !ok || v.Step == 0 {
			continue
		}
		var r rating
		err := v.State.Read(&r)
		topic, _ := v.State.Get("topic")
		fmt.Println(r.Stars, topic, err)
		fmt.Println(v.State.Names(), v.State.Has("stars"), v.State.Has("joke"))
		raw, err := json.Marshal(v.State)
		fmt.Println(string(raw), err)
	}
	// Output:
	// 0 owls <nil>
	// [topic stars] true false
	// {"topic":"owls","stars":0} <nil>
}

// Task events report the start and end of each node.
func ExampleTaskFinished() {
	type State struct{ Log reduce.List[string] }
	type entry struct{ Log reduce.List[string] }

	b := treadle.New[State]("tasks")
	treadle.AddNode(b, "only", func(context.Context, State) (entry, error) { return entry{reduce.List[string]{"done"}}, nil })
	b.Edge(treadle.Start, "only")
	g := treadle.Must(b.Compile(nil))

	for ev := range g.Stream(context.Background(), State{}, treadle.Modes(treadle.ModeTasks)) {
		switch ev := ev.(type) {
		case treadle.TaskStarted:
			fmt.Println("start", ev.Node, ev.Input)
		case treadle.TaskFinished:
			fmt.Println("end", ev.Node, ev.Result, ev.Err)
		}
	}
	// Output:
	// start only {"Log":[]}
	// end only {"Log":["done"]} <nil>
}

// Lifecycle events match LangChain's event stream: everything that runs, with its tags and
// metadata.
func ExampleLifecycle() {
	type State struct{ N int }

	b := treadle.New[State]("count")
	treadle.AddNode(b, "inc", func(ctx context.Context, s State) (State, error) {
		treadle.Emit(ctx, "half way")
		return State{s.N + 1}, nil
	}, treadle.Tags("arithmetic"))
	b.Edge(treadle.Start, "inc")
	g := treadle.Must(b.Compile(nil))

	for ev := range g.Stream(context.Background(), State{}, treadle.Modes(treadle.ModeEvents)) {
		if l, ok := ev.(treadle.Lifecycle); ok {
			fmt.Println(l.Event, l.Name, l.Tags)
		}
	}
	// Output:
	// on_chain_start count []
	// on_chain_start inc [arithmetic graph:step:1]
	// on_custom_event inc [arithmetic graph:step:1]
	// on_chain_stream inc [arithmetic graph:step:1]
	// on_chain_end inc [arithmetic graph:step:1]
	// on_chain_stream count []
	// on_chain_end count []
}

// Modes have the names that clients of LangGraph's API use.
func ExampleMode_UnmarshalText() {
	var mode treadle.Mode
	err := mode.UnmarshalText([]byte("messages"))
	fmt.Println(mode == treadle.ModeMessages, err, treadle.ModeValues)
	// Output:
	// true <nil> values
}

// Each checkpoint of a thread can be observed as it is saved.
func ExampleCheckpointed() {
	type State struct {
		N int `json:"n"`
	}

	b := treadle.New[State]("count")
	treadle.AddNode(b, "inc", func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	b.Edge(treadle.Start, "inc")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	for ev := range g.Thread("t").Stream(context.Background(), State{N: 1}, treadle.Modes(treadle.ModeCheckpoints)) {
		if c, ok := ev.(treadle.Checkpointed); ok {
			fmt.Println(c.Snapshot.Step, c.Snapshot.Source, c.Snapshot.State, c.Snapshot.Next)
		}
	}
	// Output:
	// -1 input {} [__start__]
	// 0 loop {"n":1} [inc]
	// 1 loop {"n":2} []
}
