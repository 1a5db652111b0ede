package treadle_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A thread keeps its state. Each run continues from the state of the previous run.
func ExampleGraph_Thread() {
	type State struct {
		Said  string
		Heard reduce.List[string]
	}
	type heard struct{ Heard reduce.List[string] }

	b := treadle.New[State]("listen")
	treadle.AddNode(b, "listen", func(_ context.Context, s State) (heard, error) {
		return heard{reduce.List[string]{s.Said}}, nil
	})
	b.Edge(treadle.Start, "listen")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("ada")
	fmt.Println(thread.Run(ctx, State{Said: "hello"}))
	fmt.Println(thread.Run(ctx, State{Said: "again"}))
	fmt.Println(g.Thread("bob").Run(ctx, State{Said: "hi"})) // another thread, another state
	// Output:
	// {hello [hello]} <nil>
	// {again [hello again]} <nil>
	// {hi [hi]} <nil>
}

// A snapshot contains the state of a thread and the nodes that run next.
func ExampleThread_State() {
	type State struct{ Draft, Review string }
	type draft struct{ Draft string }
	type review struct{ Review string }

	b := treadle.New[State]("essay")
	treadle.AddNode(b, "write", func(context.Context, State) (draft, error) { return draft{"Owls are birds."}, nil })
	treadle.AddNode(b, "review", func(context.Context, State) (review, error) { return review{}, errors.New("out of ink") })
	b.Sequence(treadle.Start, "write", "review")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("essay-7")
	_, err := thread.Run(ctx, State{})
	fmt.Println(err)

	snap, err := thread.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	var d draft
	err = snap.Read(&d)
	fmt.Println(d.Draft, snap.Has("Review"), err)
	fmt.Println("step", snap.Step, "next", snap.Next, "failed:", snap.Tasks[0].Error != "")
	// Output:
	// graph "essay": node "review" (step 2): out of ink
	// Owls are birds. false <nil>
	// step 1 next [review] failed: true
}

// What finished is kept, so Continue runs only what did not.
func ExampleThread_Continue() {
	type State struct{ Log reduce.List[string] }
	type entry struct{ Log reduce.List[string] }
	down := true

	b := treadle.New[State]("resilient")
	treadle.AddNode(b, "fetch", func(context.Context, State) (entry, error) {
		fmt.Println("fetching")
		return entry{reduce.List[string]{"fetched"}}, nil
	})
	treadle.AddNode(b, "store", func(context.Context, State) (entry, error) {
		if down {
			return entry{}, errors.New("database is down")
		}
		return entry{reduce.List[string]{"stored"}}, nil
	})
	b.Sequence(treadle.Start, "fetch", "store")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("job-1")
	fmt.Println(thread.Run(ctx, State{}))
	down = false
	fmt.Println(thread.Continue(ctx)) // perhaps in another process
	// Output:
	// fetching
	// {[fetched]} graph "resilient": node "store" (step 2): database is down
	// {[fetched stored]} <nil>
}

// The history of a thread, newest first: one checkpoint for each step.
func ExampleThread_History() {
	type State struct {
		N int `json:"n"`
	}

	b := treadle.New[State]("count")
	for _, name := range []string{"one", "two"} {
		treadle.AddNode(b, name, func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	}
	b.Sequence(treadle.Start, "one", "two")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("t")
	fmt.Println(thread.Run(ctx, State{N: 5}))
	for snap, err := range thread.History(ctx, nil) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(snap.Step, snap.Source, snap.State, snap.Next)
	}
	// Output:
	// {7} <nil>
	// 2 loop {"n":7} []
	// 1 loop {"n":6} [two]
	// 0 loop {"n":5} [one]
	// -1 input {} [__start__]
}

// The history can be filtered: the newest checkpoints, those before a checkpoint, or those
// of a run.
func ExampleHistoryOptions() {
	type State struct{ N int }

	b := treadle.New[State]("count")
	treadle.AddNode(b, "inc", func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	b.Edge(treadle.Start, "inc")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	for _, user := range []string{"ada", "bob"} {
		by := treadle.Metadata(map[string]any{"user": user})
		if _, err := g.Thread("t", by).Run(ctx, State{N: 10}); err != nil {
			fmt.Println(err)
		}
	}

	thread := g.Thread("t")
	newest, err := thread.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(title string, o *treadle.HistoryOptions) {
		for snap, err := range thread.History(ctx, o) {
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(title, snap.Step, snap.Metadata["user"])
		}
	}
	show("newest", &treadle.HistoryOptions{Limit: 1})
	show("before it", &treadle.HistoryOptions{Before: newest.ID, Limit: 2})
	show("ada's", &treadle.HistoryOptions{Metadata: map[string]any{"user": "ada"}})
	// Output:
	// newest 4 bob
	// before it 3 bob
	// before it 2 bob
	// ada's 1 ada
	// ada's 0 ada
	// ada's -1 ada
}

// An update edits the state as if a node had written it, and the thread continues from
// there.
func ExampleThread_Update() {
	type State struct{ Draft, Final string }
	type draft struct{ Draft string }
	type final struct{ Final string }

	b := treadle.New[State]("edit")
	treadle.AddNode(b, "write", func(context.Context, State) (draft, error) { return draft{"Owls is birds."}, nil })
	treadle.AddNode(b, "publish", func(_ context.Context, s State) (final, error) { return final{s.Draft}, nil })
	b.Sequence(treadle.Start, "write", "publish")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("essay")
	fmt.Println(thread.Run(ctx, State{}))
	_, err := thread.Update(ctx, draft{"Owls are birds."}, treadle.AsNode("write"))
	fmt.Println(err)
	fmt.Println(thread.Continue(ctx)) // publish runs again
	// Output:
	// {Owls is birds. Owls is birds.} <nil>
	// <nil>
	// {Owls are birds. Owls are birds.} <nil>
}

// A thread streams like a graph. ContinueStream continues a run whose stream ended with an
// error.
func ExampleThread_ContinueStream() {
	type State struct{ N int }
	fails := true

	b := treadle.New[State]("stream")
	treadle.AddNode(b, "inc", func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	treadle.AddNode(b, "double", func(_ context.Context, s State) (State, error) {
		if fails {
			return State{}, errors.New("not yet")
		}
		return State{s.N * 2}, nil
	})
	b.Sequence(treadle.Start, "inc", "double")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	thread := g.Thread("t")
	for ev, err := range thread.Stream(ctx, State{N: 1}) {
		if err != nil {
			fmt.Println(errors.Unwrap(err))
		} else {
			fmt.Println(ev.Where().Node, ev.(treadle.Updated).Update)
		}
	}
	fails = false
	for ev, err := range thread.ContinueStream(ctx) {
		switch ev := ev.(type) {
		case nil:
			fmt.Println(err)
		case treadle.Updated:
			fmt.Println(ev.Node, ev.Update)
		case treadle.Finished[State]:
			fmt.Println("finished", ev.Output)
		}
	}
	// Output:
	// inc {"N":2}
	// not yet
	// double {"N":4}
	// finished {4}
}

// A thread without a checkpoint cannot be continued.
func ExampleThread_Continue_nothing() {
	type State struct{ N int }

	b := treadle.New[State]("fresh")
	treadle.AddNode(b, "inc", func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	b.Edge(treadle.Start, "inc")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	_, err := g.Thread("new").Continue(context.Background())
	fmt.Println(errors.Is(err, treadle.ErrNothingToContinue))
	// Output:
	// true
}

// A long import can save its steps while it runs, or once at the end.
func ExampleDurability() {
	type State struct{ Rows reduce.Sum[int] }
	type rows struct{ Rows reduce.Sum[int] }

	b := treadle.New[State]("import")
	read := func(context.Context, State) (rows, error) { return rows{reduce.SumOf(100)}, nil }
	treadle.AddNode(b, "first", read)
	treadle.AddNode(b, "second", read)
	b.Sequence(treadle.Start, "first", "second")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	for _, when := range []treadle.Durability{treadle.Sync, treadle.Async, treadle.Exit} {
		thread := g.With(when).Thread(fmt.Sprint(when))
		out, err := thread.Run(ctx, State{})
		saved := 0
		for range thread.History(ctx, nil) {
			saved++
		}
		fmt.Println(out.Rows.N, err, saved)
	}
	// Output:
	// 200 <nil> 4
	// 200 <nil> 4
	// 200 <nil> 1
}

// A conversation from another system becomes the history of a thread, with one checkpoint
// per step.
func ExampleThread_BulkUpdate() {
	type State struct{ Lines reduce.List[string] }
	type lines struct{ Lines reduce.List[string] }

	b := treadle.New[State]("chat")
	say := func(line string) func(context.Context, State) (lines, error) {
		return func(context.Context, State) (lines, error) { return lines{reduce.List[string]{line}}, nil }
	}
	treadle.AddNode(b, "greet", say("Hello."))
	treadle.AddNode(b, "part", say("Goodbye."))
	b.Sequence(treadle.Start, "greet", "part")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("old")

	ctx := context.Background()
	_, err := thread.BulkUpdate(ctx,
		[]treadle.Edit{{Values: lines{reduce.List[string]{"Good morning."}}, As: "greet"}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	snap, err := thread.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("next:", snap.Next)
	fmt.Println(thread.Continue(ctx))
	// Output:
	// next: [part]
	// {[Good morning. Goodbye.]} <nil>
}
