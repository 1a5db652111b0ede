package threadtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Migrations is the suite of threads that outlive a version of their graph.
func Migrations(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	t.Run("AddedAndRemovedFields", func(t *testing.T) { migrateFields(t, open) })
	t.Run("RenamedField", func(t *testing.T) { migrateRename(t, open) })
	t.Run("ChangedType", func(t *testing.T) { migrateType(t, open) })
	t.Run("Topology", func(t *testing.T) { migrateNodes(t, open) })
	t.Run("PendingNodeIsGone", func(t *testing.T) { migrateGone(t, open) })
}

// migrateGraph has one node, which writes "ran" into the log.
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
		N     int                  `json:"n"`
		Log   treadle.List[string] `json:"log"`
		Extra string               `json:"extra"`
	}
	migrateNarrow struct {
		Log treadle.List[string] `json:"log"`
	}
	migrateRenamed struct {
		Number int                  `json:"number" treadle:"was=n"`
		Log    treadle.List[string] `json:"log"`
	}
	migrateLost struct {
		Number int                  `json:"number"`
		Log    treadle.List[string] `json:"log"`
	}
	migrateText struct {
		N   string               `json:"n"`
		Log treadle.List[string] `json:"log"`
	}
)

func migrateFields(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	if _, err := migrateGraph[kitState](t, saver).Run(t.Context(), kitState{N: 7}); err != nil {
		t.Fatal(err)
	}
	// A field that is new is absent until it is written.
	wide := migrateGraph[migrateWide](t, saver)
	if snap := kitStateOf(t, wide); snap.Has("extra") || !snap.Has("n") {
		t.Errorf("fields %v, want n and log", snap.Values.Names())
	}
	out, err := wide.Run(t.Context(), migrateWide{Extra: "x"})
	if err != nil || out.N != 7 || out.Extra != "x" || len(out.Log) != 2 {
		t.Errorf("with a field more: %+v, %v", out, err)
	}
	// One that is gone is ignored.
	narrow, err := migrateGraph[migrateNarrow](t, saver).Run(t.Context(), migrateNarrow{})
	if err != nil || len(narrow.Log) != 3 {
		t.Errorf("with two fields less: %+v, %v", narrow, err)
	}
	// What a version does not know survives its runs, edits and forks.
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
		t.Errorf("a rename without a word: %v, %v; want the value to be lost", lost.Values, err)
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
	_, err := text.Run(t.Context(), migrateText{})
	_, stateErr := text.State(t.Context())
	for _, err := range []error{err, stateErr} {
		if err == nil || !strings.Contains(err.Error(), "field n") || !strings.Contains(err.Error(), `thread "t"`) {
			t.Errorf("%v, want it to name the field and the thread", err)
		}
	}
	// The thread is as it was.
	if out, err := migrateGraph[kitState](t, saver).Run(t.Context(), kitState{}); err != nil || out.N != 7 || len(out.Log) != 2 {
		t.Errorf("in the version that wrote it: %+v, %v", out, err)
	}
}

// A thread at its end takes any graph; one that is under way takes any in
// which what is next still exists.
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
	// Nothing happened: the old version goes on, the new one takes new input.
	kitAppended(t, kitChain("a", "ask?")(t, w, saver).Thread("t"), before)
	_, err = other.Run(t.Context(), kitState{})
	kitAsked(t, err, "renamed?")
	kitResume(t, other, "x", "a", "a", "renamed=x")
}
