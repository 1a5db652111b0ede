package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// Migrations is the suite for threads that outlive a version of their graph.
var Migrations = Suite{
	{"AddedAndRemovedFields", concurrent, migrateFields},
	{"RenamedField", sequential, migrateRename},
	{"ChangedType", sequential, migrateType},
	{"ChangedTypeDeepInside", sequential, migrateDeep},
	{"ChangedTypeOfAResult", sequential, migrateResult},
	{"ChangedTypeOfAnInput", sequential, migrateInput},
	{"ListFromSomethingElse", sequential, migrateList},
	{"Topology", sequential, migrateNodes},
	{"PendingNodeIsGone", sequential, migrateGone},
	{"RenamedNodes", sequential, migrateNodeNames},
	{"RenamedSubgraphs", sequential, migrateSubgraphNames},
	{"RenamedWorkflow", sequential, migrateWorkflowName},
}

// migrateGraph returns a thread of a graph with one node, which logs "ran".
func migrateGraph[S any](t *testing.T, saver checkpoint.Saver) *treadle.Thread[S, S] {
	t.Helper()
	b := treadle.New[S]("versions")
	treadle.AddNode(b, "a", func(context.Context, kitLog) (kitLog, error) { return kitSay("ran"), nil })
	b.Edge(treadle.Start, "a")
	g, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("t")
}

type (
	migrateWide struct {
		N     int                 `json:"n"`
		Log   reduce.List[string] `json:"log"`
		Extra string              `json:"extra"`
	}
	migrateNarrow struct {
		Log reduce.List[string] `json:"log"`
	}
	migrateRenamed struct {
		Number int                 `json:"number" treadle:"was=n"`
		Log    reduce.List[string] `json:"log"`
	}
	migrateLost struct {
		Number int                 `json:"number"`
		Log    reduce.List[string] `json:"log"`
	}
	migrateText struct {
		N   string              `json:"n"`
		Log reduce.List[string] `json:"log"`
	}
)

func migrateFields(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	if _, err := migrateGraph[kitState](t, saver).Run(t.Context(), kitState{N: 7}); err != nil {
		t.Fatal(err)
	}
	// A new field is absent until it is written.
	wide := migrateGraph[migrateWide](t, saver)
	if snap := kitStateOf(t, wide); snap.Has("extra") || !snap.Has("n") {
		t.Errorf("fields %v, want n and log", snap.State.Names())
	}
	out, err := wide.Run(t.Context(), migrateWide{Extra: "x"})
	if err != nil || out.N != 7 || out.Extra != "x" || len(out.Log) != 2 {
		t.Errorf("with a field more: %+v, %v", out, err)
	}
	// A removed field is ignored.
	narrow, err := migrateGraph[migrateNarrow](t, saver).Run(t.Context(), migrateNarrow{})
	if err != nil || len(narrow.Log) != 3 {
		t.Errorf("with two fields less: %+v, %v", narrow, err)
	}
	// Fields that a version does not have survive its runs, edits, and forks.
	old := migrateGraph[migrateNarrow](t, saver)
	if _, err := old.Update(t.Context(), kitSay("edit")); err != nil {
		t.Fatal(err)
	}
	if _, err := old.At(kitAt(t, kitHistory(t, old), "a").ID).Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err = migrateGraph[migrateWide](t, saver).Run(t.Context(), migrateWide{})
	if err != nil || out.N != 7 || out.Extra != "x" {
		t.Errorf("back in the wide version: %+v, %v; want n=7 and extra=x", out, err)
	}
}

func migrateRename(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	if _, err := migrateGraph[kitState](t, saver).Run(t.Context(), kitState{N: 7}); err != nil {
		t.Fatal(err)
	}
	lost, err := migrateGraph[migrateLost](t, saver).State(t.Context())
	if err != nil || lost.Has("number") {
		t.Errorf("rename without a word: %v, %v; want the value to be lost", lost.State, err)
	}
	out, err := migrateGraph[migrateRenamed](t, saver).Run(t.Context(), migrateRenamed{})
	if err != nil || out.Number != 7 || len(out.Log) != 2 {
		t.Errorf("renamed: %+v, %v; want 7", out, err)
	}
	if out, err = migrateGraph[migrateRenamed](t, saver).Run(t.Context(), migrateRenamed{Number: 8}); err != nil || out.Number != 8 {
		t.Errorf("written under its new name: %+v, %v", out, err)
	}
	if out, err = migrateGraph[migrateRenamed](t, saver).Run(t.Context(), migrateRenamed{}); err != nil || out.Number != 8 {
		t.Errorf("read under its new name: %+v, %v; the new value counts", out, err)
	}
}

func migrateType(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	if _, err := migrateGraph[kitState](t, saver).Run(t.Context(), kitState{N: 7}); err != nil {
		t.Fatal(err)
	}
	text := migrateGraph[migrateText](t, saver)
	before := kitHistory(t, migrateGraph[kitState](t, saver))
	_, err := text.Run(t.Context(), migrateText{})
	_, contErr := text.Continue(t.Context())
	_, stateErr := text.State(t.Context())
	_, editErr := text.Update(t.Context(), kitSay("edit"))
	for _, err := range []error{err, contErr, stateErr, editErr} {
		misfit, ok := errors.AsType[*treadle.StoredValueError](err)
		if !ok {
			t.Fatalf("%v, want a StoredValueError", err)
		}
		want := treadle.StoredValueError{
			Graph:      "versions",
			Thread:     "t",
			Checkpoint: before[0].ID,
			Field:      "n",
			Stored:     "a JSON number",
			Want:       "string",
		}
		if d := cmp.Diff(want, *misfit, cmpopts.IgnoreFields(want, "Err")); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			t.Errorf("%v does not wrap what encoding/json said", err)
		}
	}
	kitAppended(t, migrateGraph[kitState](t, saver), before)
	// The thread is unchanged.
	if out, err := migrateGraph[kitState](t, saver).Run(t.Context(), kitState{}); err != nil || out.N != 7 || len(out.Log) != 2 {
		t.Errorf("in the version that wrote it: %+v, %v", out, err)
	}
}

func migrateDeep(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	type (
		inner[T any] struct{ Size T }
		outer[T any] struct {
			Deep inner[T]            `json:"deep"`
			Log  reduce.List[string] `json:"log"`
		}
	)
	saver := open(t)
	if _, err := migrateGraph[outer[int]](t, saver).Run(t.Context(), outer[int]{Deep: inner[int]{3}}); err != nil {
		t.Fatal(err)
	}
	_, err := migrateGraph[outer[[]string]](t, saver).State(t.Context())
	if e, ok := errors.AsType[*treadle.StoredValueError](err); !ok || e.Field != "deep.Size" || e.Stored != "a JSON number" || e.Want != "[]string" {
		t.Errorf("%v, want it to name deep.Size and both types", err)
	}
}

// migrateAsk returns a thread of a graph in which one node finishes and another
// interrupts.
func migrateAsk[N any](t *testing.T, w *kitWorld, saver checkpoint.Saver, n N) *treadle.Thread[struct{ N N }, struct{ N N }] {
	t.Helper()
	type state = struct{ N N }
	type sent struct{ In N }
	b := treadle.New[state]("versions")
	treadle.AddNode(b, "begin", func(context.Context, state) (treadle.Goto, error) { return treadle.Send("take", sent{n}), nil })
	treadle.AddNode(b, "write", func(ctx context.Context, _ state) (state, error) { return state{n}, w.enter(ctx, "write") })
	treadle.AddNode(b, "ask", func(ctx context.Context, _ struct{}) (struct{}, error) {
		_, err := treadle.Interrupt[string](ctx, "ask?")
		return struct{}{}, err
	})
	treadle.AddNode(b, "take", func(ctx context.Context, _ sent) (struct{}, error) { return struct{}{}, w.enter(ctx, "take") })
	b.Edge(treadle.Start, "write")
	b.Edge(treadle.Start, "ask")
	b.Sequence("ask", "begin")
	g, err := b.Compile(&treadle.Options{Saver: saver, Before: []any{"take"}})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("t")
}

// migrateResult checks that a finished task does not run again even if its result can no
// longer be decoded.
func migrateResult(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	w := &kitWorld{}
	if _, err := migrateAsk(t, w, saver, 7).Run(t.Context(), struct{ N int }{}); err == nil {
		t.Fatal("nothing was asked")
	}
	w.ran()
	text := migrateAsk(t, w, saver, "seven")
	_, err := text.Resume(t.Context(), "x")
	_, contErr := text.Continue(t.Context())
	for _, err := range []error{err, contErr} {
		if e, ok := errors.AsType[*treadle.StoredValueError](err); !ok || e.Field != "N" || e.Want != "string" {
			t.Errorf("%v, want a StoredValueError of N", err)
		}
	}
	if ran := w.ran(); len(ran) > 0 {
		t.Errorf("%q ran", ran)
	}
	// The answer was not saved: the interrupt is still pending.
	if snap := kitStateOf(t, migrateAsk(t, w, saver, 7)); len(snap.Pauses) != 1 {
		t.Errorf("open questions: %v, want one", snap.Pauses)
	}
}

func migrateInput(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	w := &kitWorld{}
	th := migrateAsk(t, w, saver, 7)
	if _, err := th.Run(t.Context(), struct{ N int }{}); err == nil {
		t.Fatal("nothing was asked")
	}
	if _, err := th.Resume(t.Context(), "x"); err == nil { // stops before take
		t.Fatal("there was no breakpoint")
	}
	type state struct{ N int }
	type sent struct{ In string }
	b := treadle.New[state]("versions")
	treadle.AddNode(b, "begin", func(context.Context, state) (treadle.Goto, error) { return treadle.Send("take", sent{}), nil })
	treadle.AddNode(b, "take", func(ctx context.Context, _ sent) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "begin")
	g, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Thread("t").Continue(t.Context())
	if e, ok := errors.AsType[*treadle.StoredValueError](err); !ok || e.Field != "input of take.In" || e.Want != "string" {
		t.Errorf("%v, want a StoredValueError of the input of take", err)
	}
}

// migrateList checks that a list that was saved as a plain slice, or under another name,
// is saved as a whole when it first grows.
func migrateList(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	type (
		slice struct {
			Old []string            `json:"old"`
			Log reduce.List[string] `json:"log"`
		}
		list struct {
			Old reduce.List[string] `json:"old"`
			Log reduce.List[string] `json:"log"`
		}
		renamed struct {
			New reduce.List[string] `json:"new" treadle:"was=old"`
			Log reduce.List[string] `json:"log"`
		}
	)
	saver := open(t)
	if _, err := migrateGraph[slice](t, saver).Run(t.Context(), slice{Old: []string{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	for i, more := range []string{"c", "d"} {
		if _, err := migrateGraph[list](t, saver).Run(t.Context(), list{Old: reduce.List[string]{more}}); err != nil {
			t.Fatal(err)
		}
		out, err := migrateGraph[list](t, saver).Continue(t.Context())
		if want := []string{"a", "b", "c", "d"}[:3+i]; err != nil || !slices.Equal(out.Old, want) {
			t.Errorf("as a list: %q, %v; want %q", out.Old, err, want)
		}
	}
	for i, more := range []string{"e", "f"} {
		if _, err := migrateGraph[renamed](t, saver).Run(t.Context(), renamed{New: reduce.List[string]{more}}); err != nil {
			t.Fatal(err)
		}
		out, err := migrateGraph[renamed](t, saver).Continue(t.Context())
		if want := []string{"a", "b", "c", "d", "e", "f"}[:5+i]; err != nil || !slices.Equal(out.New, want) {
			t.Errorf("renamed: %q, %v; want %q", out.New, err, want)
		}
	}
	out, err := migrateGraph[slice](t, saver).Run(t.Context(), slice{})
	if want := []string{"a", "b", "c", "d"}; err != nil || !slices.Equal(out.Old, want) {
		t.Errorf("as a slice again: %q, %v; want %q", out.Old, err, want)
	}
}

// migrateNodes checks that a finished thread accepts any graph, and an unfinished thread
// any graph that still has the next nodes.
func migrateNodes(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	w := &kitWorld{}
	kitRun(t, kitChain("a", "b")(t, w, saver).Thread("t"), kitState{}, "a", "b")
	kitRun(t, kitChain("x", "y")(t, w, saver).Thread("t"), kitState{}, "a", "b", "x", "y")
	w.fail("y", errKit)
	if _, err := kitChain("x", "y")(t, w, saver).Thread("t").Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
		t.Fatal(err)
	}
	w.fail("y", nil)
	kitContinue(t, kitChain("y", "new")(t, w, saver).Thread("t"), "a", "b", "x", "y", "x", "y", "new")
}

func migrateGone(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	w := &kitWorld{}
	_, err := kitChain("a", "ask?")(t, w, saver).Thread("t").Run(t.Context(), kitState{})
	kitAsked(t, err, "ask?")
	other := kitChain("a", "renamed?")(t, w, saver).Thread("t")
	before := kitHistory(t, kitChain("a", "ask?")(t, w, saver).Thread("t"))
	_, contErr := other.Continue(t.Context())
	_, resErr := other.Resume(t.Context(), "x")
	for _, err := range []error{contErr, resErr} {
		if gone, ok := errors.AsType[*treadle.GotoError](err); !ok || gone.To != "ask" {
			t.Errorf("%v, want a GotoError to ask", err)
		}
	}
	// Nothing has changed: the old version continues, and the new one accepts new input.
	kitAppended(t, kitChain("a", "ask?")(t, w, saver).Thread("t"), before)
	_, err = other.Run(t.Context(), kitState{})
	kitAsked(t, err, "renamed?")
	kitResume(t, other, "x", "a", "a", "renamed=x")
}
