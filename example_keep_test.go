package treadle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
)

// Lines is a list that updates extend or shorten.
type Lines []string

// Edit is an update of Lines. Its form is up to you.
type Edit struct {
	Add  []string `json:"add,omitempty"`
	Keep *Range   `json:"keep,omitempty"`
}

// Range is a part of a list; negative positions count from the end.
type Range struct {
	From int  `json:"from"`
	To   *int `json:"to,omitempty"` // nil: to the end
}

// Reduce applies an edit. It returns a new list, because others still hold the
// old one.
func (l Lines) Reduce(e Edit) (Lines, error) {
	if e.Keep != nil {
		from, to := position(e.Keep.From, len(l)), len(l)
		if e.Keep.To != nil {
			to = position(*e.Keep.To, len(l))
		}
		if from > to {
			return nil, fmt.Errorf("keep %d to %d of %d lines", from, to, len(l))
		}
		l = l[from:to]
	}
	return slices.Concat(l, e.Add), nil
}

func position(i, n int) int {
	if i < 0 {
		i += n
	}
	return min(max(i, 0), n)
}

// MarshalJSON writes no lines as an empty list.
func (l Lines) MarshalJSON() ([]byte, error) { return json.Marshal(append([]string{}, l...)) }

// A field decides with its Reduce method what its updates look like. This list
// takes edits: what to add, or which part to keep.
//
// Sample: A15.
func ExampleReduce_keep() {
	type State struct {
		MyList Lines `json:"my_list"`
	}
	type update struct{ MyList Edit }

	b := treadle.New[State]("editing")
	treadle.AddNode(b, "add", func(context.Context, State) (update, error) {
		return update{Edit{Add: []string{"six", "seven"}}}, nil
	})
	treadle.AddNode(b, "trim", func(context.Context, State) (update, error) {
		return update{Edit{Keep: &Range{From: -5}}}, nil // the last five
	})
	b.Sequence(treadle.Start, "add", "trim")
	g := treadle.Must(treadle.Compile[update, State](b, nil))

	in := update{Edit{Add: []string{"one", "two", "three", "four", "five"}}}
	for ev, err := range g.Stream(context.Background(), in, treadle.Modes(treadle.ModeValues)) {
		if err != nil {
			fmt.Println(err)
		}
		if v, ok := ev.(treadle.Values); ok {
			fmt.Println(v.State)
		}
	}
	// Output:
	// {"my_list":["one","two","three","four","five"]}
	// {"my_list":["one","two","three","four","five","six","seven"]}
	// {"my_list":["three","four","five","six","seven"]}
}
