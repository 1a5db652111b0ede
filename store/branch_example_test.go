package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/store"
)

// With Options.Branches, a run from an older checkpoint sees the store as of
// that checkpoint. Its writes stay in a branch until the branch is merged or
// discarded.
func ExampleStore_Branch() {
	type State struct{ Fact string }
	ctx, facts := context.Background(), store.Namespace{"facts"}
	s := treadle.Must(store.NewMemory(&store.Options{Branches: true}))

	b := treadle.New[State]("learn")
	treadle.AddNode(b, "learn", func(ctx context.Context, in State) (State, error) {
		return in, treadle.StoreFrom(ctx).Put(ctx, facts, in.Fact, map[string]any{}, nil)
	})
	b.Edge(treadle.Start, "learn")
	thread := treadle.Must(b.Compile(&treadle.Options{Store: s, Saver: checkpoint.NewMemory()})).Thread("1")

	show := func(s *store.Store) {
		items, err := s.Search(ctx, facts, nil)
		for _, item := range items {
			fmt.Print(item.Key, "; ")
		}
		fmt.Println(err)
	}
	_, err := thread.Run(ctx, State{"owls fly"})
	first, stateErr := thread.State(ctx)
	_, err2 := thread.Run(ctx, State{"owls hunt at night"})
	_, err3 := thread.At(first.ID).Run(ctx, State{"owls see well"}) // a fork
	fmt.Println(errors.Join(err, stateErr, err2, err3))

	branches, err := s.Branches(ctx)
	fmt.Println(len(branches), branches[0].Thread, branches[0].State, err)
	fork, err := s.Branch(ctx, branches[0].Name)
	if err != nil {
		fmt.Println(err)
		return
	}
	show(s)
	show(fork)
	diff, err := s.Diff(ctx, fork)
	for _, d := range diff {
		fmt.Println(d.Key, "| trunk:", d.A != nil, "| branch:", d.B != nil)
	}
	fmt.Println(err, fork.Merge(ctx, nil))
	show(s)
	// Output:
	// <nil>
	// 1 1 open <nil>
	// owls fly; owls hunt at night; <nil>
	// owls fly; owls see well; <nil>
	// owls hunt at night | trunk: true | branch: false
	// owls see well | trunk: false | branch: true
	// <nil> <nil>
	// owls fly; owls hunt at night; owls see well; <nil>
}
