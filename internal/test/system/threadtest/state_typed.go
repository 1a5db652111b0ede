package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/dynamic"
)

// editedList is a field whose updates have a different type.
type (
	editedList []int
	listEdit   struct {
		Add []int `json:"add"`
	}
)

// Reduce appends the update.
func (l editedList) Reduce(u listEdit) editedList { return append(slices.Clip(l), u.Add...) }

// plainList is a field whose own type is assignable to the type of its updates.
type plainList []int

// Reduce appends the update.
func (l plainList) Reduce(u []int) plainList { return append(slices.Clip(l), u...) }

type (
	typedState struct {
		L editedList `json:"l"`
		P plainList  `json:"p"`
		N int        `json:"n"`
	}
	typedWrite struct{ L listEdit }
	typedInput struct {
		L listEdit
		N int
	}
)

// stateTypedInputs checks that an input is an update, whatever its type: it never
// replaces an accumulated value.
func stateTypedInputs(t *testing.T, open opener) {
	build := func() *treadle.Builder[typedState] {
		b := treadle.New[typedState]("typed")
		treadle.AddNode(b, "n", func(context.Context, typedState) (typedWrite, error) { return typedWrite{listEdit{[]int{0}}}, nil })
		b.Edge(treadle.Start, "n")
		return b
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		e, ok := errors.AsType[*treadle.UpdateError](err)
		if !ok || !strings.HasSuffix(strings.ToLower(e.Field), "l") || !strings.Contains(e.Msg, "listEdit") {
			t.Errorf("value of the state as an update gives %v", err)
		}
	}
	saver := open(t)
	g, err := build().Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	th := g.Thread("t")
	ended := func(t *testing.T, out typedState, err error, l ...int) {
		t.Helper()
		if err != nil || !slices.Equal(out.L, l) {
			t.Errorf("list: %v, %v; want %v", out.L, err, l)
		}
	}
	out, err := th.Run(t.Context(), typedState{N: 1})
	ended(t, out, err, 0)
	askUnchanged(t, saver, "an input that is refused", func() {
		_, err = th.Run(t.Context(), typedState{L: editedList{9}})
		refused(t, err)
		for _, err = range th.Stream(t.Context(), typedState{L: editedList{9}}) {
			if err != nil {
				refused(t, err)
			}
		}
		if err == nil {
			t.Error("stream takes it")
		}
		_, err = th.Update(t.Context(), typedState{L: editedList{9}})
		refused(t, err)
		_, err = th.Update(t.Context(), treadle.Update{"l": editedList{9}})
		refused(t, err)
		_, err = dynamic.Open(g, "t").RunJSON(t.Context(), json.RawMessage(`{"l":[9]}`))
		refused(t, err)
	})
	_, err = g.Run(t.Context(), typedState{L: editedList{9}})
	refused(t, err)
	// A zero value is not written, and a value that is assignable to an update is an
	// update.
	out, err = th.Run(t.Context(), typedState{P: plainList{5}})
	ended(t, out, err, 0, 0)
	out, err = th.Run(t.Context(), typedState{P: plainList{6}})
	ended(t, out, err, 0, 0, 0)
	if !slices.Equal(out.P, plainList{5, 6}) {
		t.Errorf("other list: %v", out.P)
	}

	// An input type of updates, through every entry point.
	in, err := treadle.Compile[typedInput, typedState](build(), &treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	out, err = in.Thread("t").Run(t.Context(), typedInput{L: listEdit{[]int{9}}})
	ended(t, out, err, 0, 0, 0, 9, 0)

	// A graph that is sent its state, and a graph that passes its additions to the
	// parent.
	b := treadle.New[typedState]("outer")
	sub := treadle.AddGraph(b, "sub", g)
	treadle.AddBranch(b, treadle.Start, func(_ context.Context, s typedState) (treadle.Goto, error) {
		if s.N == 0 {
			return treadle.Send(sub, typedState{L: editedList{9}}), nil
		}
		return append(treadle.Send(sub, typedState{}), treadle.To("sub")...), nil
	}, "sub")
	outer, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	_, err = outer.Thread("outer").Run(t.Context(), typedState{})
	refused(t, err)
	out, err = outer.Thread("outer").Run(t.Context(), typedState{N: 1})
	ended(t, out, err, 0, 0)
	out, err = outer.Thread("outer").Run(t.Context(), typedState{N: 1})
	ended(t, out, err, 0, 0, 0, 0)

	// A state that is itself such a value.
	r := treadle.New[editedList]("root")
	treadle.AddNode(r, "n", func(context.Context, editedList) (listEdit, error) { return listEdit{[]int{0}}, nil })
	r.Edge(treadle.Start, "n")
	root, err := r.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		l, err := root.Thread("root").Run(t.Context(), nil)
		if err != nil || len(l) != n+1 {
			t.Errorf("state: %v, %v", l, err)
		}
	}
	if _, err = root.Thread("root").Run(t.Context(), editedList{9}); err == nil || !strings.Contains(err.Error(), "listEdit") {
		t.Errorf("value of the state as an update gives %v", err)
	}
	if _, err = root.Thread("root").Update(t.Context(), editedList{9}); err == nil || !strings.Contains(err.Error(), "listEdit") {
		t.Errorf("value of the state as an update gives %v", err)
	}
}
