package threads_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// chain returns a graph whose nodes run one after another and write their names; the node
// "ask" waits for an answer first.
func chain(saver checkpoint.Saver, nodes ...string) *treadle.Graph[Trail, Trail] {
	b := treadle.New[Trail]("chain")
	for _, name := range nodes {
		treadle.AddNode(b, name, func(ctx context.Context, _ Trail) (visited, error) {
			if name != "ask" {
				return visited{reduce.List[string]{name}}, nil
			}
			answer, err := treadle.Interrupt[string](ctx, "well?")
			return visited{reduce.List[string]{answer}}, err
		})
	}
	b.Sequence(treadle.Nodes(append([]string{treadle.Start}, nodes...))...)
	return treadle.Must(b.Compile(&treadle.Options{Saver: saver}))
}

// Trail lists the nodes that have run.
type Trail struct{ Names reduce.List[string] }

// visited contains the writes of a node of a chain.
type visited struct{ Names reduce.List[string] }

// A finished thread works with any new version of the graph: nodes may be added, removed
// and renamed. Its history stays.
//
// Sample: B32.
func Example_migrateFinishedThread() {
	ctx := context.Background()
	saver := checkpoint.NewMemory()
	fmt.Println(chain(saver, "a", "b").Thread("1").Run(ctx, Trail{}))
	thread := chain(saver, "x", "y", "z").Thread("1")
	fmt.Println(thread.Run(ctx, Trail{}))

	all, err := history(ctx, thread)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("before b ran:", all[6].State, all[6].Next)
	// Output:
	// {[a b]} <nil>
	// {[a b x y z]} <nil>
	// before b ran: {"Names":["a"]} [b]
}

// A waiting thread continues in a new version with more nodes. The node that waits must
// still exist; otherwise the thread can only be read, edited and given a new input.
//
// Sample: B32.
func Example_migrateInterruptedThread() {
	ctx := context.Background()
	saver := checkpoint.NewMemory()
	_, err := chain(saver, "a", "ask", "b").Thread("1").Run(ctx, Trail{})
	_, waits := errors.AsType[*treadle.InterruptError](err)
	fmt.Println("waits:", waits)

	_, err = chain(saver, "a", "b").Thread("1").Resume(ctx, "here")
	gone, ok := errors.AsType[*treadle.GotoError](err)
	fmt.Println(ok, gone.To)
	fmt.Println(err)

	fmt.Println(chain(saver, "new", "a", "ask", "newer", "b").Thread("1").Resume(ctx, "here"))

	_, err = chain(saver, "a", "ask", "b").Thread("2").Run(ctx, Trail{})
	_, waits = errors.AsType[*treadle.InterruptError](err)
	fmt.Println("waits:", waits)
	fmt.Println(chain(saver, "a", "b").Thread("2").Run(ctx, Trail{})) // the pending interrupt is abandoned
	// Output:
	// waits: true
	// true ask
	// graph "chain": goto "ask": scheduled by the checkpoint, but no longer in the graph: if it was renamed, list its old name with treadle.Was; the graph has a, b
	// {[a here newer b]} <nil>
	// waits: true
	// {[a a b]} <nil>
}

// keep returns a graph of any state that changes nothing.
func keep[S any](saver checkpoint.Saver) *treadle.Graph[S, S] {
	b := treadle.New[S]("keep")
	treadle.AddNode(b, "node", func(context.Context, S) (treadle.Update, error) { return nil, nil })
	b.Edge(treadle.Start, "node")
	return treadle.Must(b.Compile(&treadle.Options{Saver: saver}))
}

// Fields may be added and removed. A renamed field loses its value, unless its tag has the
// old name.
//
// Sample: B32.
func Example_migrateFields() {
	type First struct{ Title, Text, Draft string }
	type Added struct{ Title, Text, Draft, Author string }
	type Removed struct{ Title, Text string }
	type Renamed struct{ Title, Body string }
	type RenamedWithTag struct {
		Title string
		Body  string `treadle:"was=Text"`
	}

	ctx := context.Background()
	saver := checkpoint.NewMemory()
	if _, err := keep[First](saver).Thread("1").Run(ctx, First{"Owls", "They fly.", "rough"}); err != nil {
		fmt.Println(err)
	}
	show := func(what string, thread interface {
		State(context.Context) (*treadle.Snapshot, error)
	}) {
		snap, err := thread.State(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(what, snap.State)
	}
	show("first:  ", keep[First](saver).Thread("1"))
	show("added:  ", keep[Added](saver).Thread("1"))
	show("removed:", keep[Removed](saver).Thread("1"))
	show("renamed:", keep[Renamed](saver).Thread("1"))
	show("tagged: ", keep[RenamedWithTag](saver).Thread("1"))
	// Output:
	// first:   {"Title":"Owls","Text":"They fly.","Draft":"rough"}
	// added:   {"Title":"Owls","Text":"They fly.","Draft":"rough"}
	// removed: {"Title":"Owls","Text":"They fly."}
	// renamed: {"Title":"Owls"}
	// tagged:  {"Title":"Owls","Body":"They fly."}
}

// If a field's new type does not match the saved value, the error names the field, and the
// thread does not change.
//
// Sample: B32.
func Example_migrateType() {
	type Words struct{ Length string }
	type Numbers struct{ Length int }

	ctx := context.Background()
	saver := checkpoint.NewMemory()
	fmt.Println(keep[Words](saver).Thread("1").Run(ctx, Words{"long"}))

	_, err := keep[Numbers](saver).Thread("1").Run(ctx, Numbers{7})
	misfit, ok := errors.AsType[*treadle.StoredValueError](err)
	fmt.Println(ok, misfit.Thread, misfit.Field, misfit.Stored, misfit.Want)
	fmt.Println(misfit.Err)

	fmt.Println(keep[Words](saver).Thread("1").Continue(ctx))
	// Output:
	// {long} <nil>
	// true 1 Length a JSON string int
	// json: cannot unmarshal string into Go value of type int
	// {long} <nil>
}
