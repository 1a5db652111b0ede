package threads_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// State is the state of the graph in these examples.
type State struct {
	Foo string              `json:"foo"` // the last value wins
	Bar reduce.List[string] `json:"bar"` // updates append
}

// input is the input of a run, and foobar contains the writes of a node.
type (
	input  struct{ Foo string }
	foobar struct {
		Foo string
		Bar reduce.List[string]
	}
)

// letters returns a graph of two nodes, each of which writes its letter.
func letters() *treadle.Graph[input, State] {
	b := treadle.New[State]("letters")
	for _, letter := range []string{"a", "b"} {
		treadle.AddNode(b, "node_"+letter, func(context.Context, State) (foobar, error) {
			return foobar{letter, reduce.List[string]{letter}}, nil
		})
	}
	b.Sequence(treadle.Start, "node_a", "node_b", treadle.End)
	return treadle.Must(treadle.Compile[input, State](b, &treadle.Options{Saver: checkpoint.NewMemory()}))
}

// history reads all checkpoints of a thread, newest first.
func history[In, Out any](ctx context.Context, thread *treadle.Thread[In, Out]) ([]*treadle.Snapshot, error) {
	var all []*treadle.Snapshot
	for snap, err := range thread.History(ctx, nil) {
		if err != nil {
			return nil, err
		}
		all = append(all, snap)
	}
	return all, nil
}

// A run of two nodes makes four checkpoints: one with the input, one after it is applied,
// and one after each node. Fields that were never written are missing.
//
// Sample: B1.
func Example_fourCheckpoints() {
	ctx := context.Background()
	thread := letters().Thread("1")
	_, err := thread.Run(ctx, input{Foo: ""})
	if err != nil {
		fmt.Println(err)
		return
	}

	all, err := history(ctx, thread)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, snap := range all {
		fmt.Println(snap.Source, snap.Step, snap.State, "next", snap.Next)
		for _, task := range snap.Tasks {
			fmt.Printf("  task %s, error %q, questions %d\n", task.Name, task.Error, len(task.Pauses))
		}
		first := i == len(all)-1
		fmt.Println("  follows the one below:", !first && snap.Parent == all[i+1].ID, "- dated:", !snap.CreatedAt.IsZero())
	}
	// Output:
	// loop 2 {"foo":"b","bar":["a","b"]} next []
	//   follows the one below: true - dated: true
	// loop 1 {"foo":"a","bar":["a"]} next [node_b]
	//   task node_b, error "", questions 0
	//   follows the one below: true - dated: true
	// loop 0 {"foo":"","bar":[]} next [node_a]
	//   task node_a, error "", questions 0
	//   follows the one below: true - dated: true
	// input -1 {"bar":[]} next [__start__]
	//   task __start__, error "", questions 0
	//   follows the one below: false - dated: true
}

// State reads the latest checkpoint of a thread, or the checkpoint that At names.
//
// Sample: B2.
func Example_latestAndEarlierState() {
	ctx := context.Background()
	thread := letters().Thread("1")
	if _, err := thread.Run(ctx, input{}); err != nil {
		fmt.Println(err)
		return
	}

	latest, err := thread.State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("latest:", latest.State, latest.Next, latest.Source, latest.Step)

	earlier, err := thread.At(latest.Parent).State(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	var s State
	err = earlier.Read(&s) // into your own struct
	fmt.Println("before:", s.Foo, s.Bar, earlier.Next, err)
	// Output:
	// latest: {"foo":"b","bar":["a","b"]} [] loop 2
	// before: a [a] [node_b] <nil>
}
