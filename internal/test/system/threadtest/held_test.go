package threadtest_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/sqlite"
)

// batched is a database that counts the calls that store checkpoints.
type batched struct {
	*sqlite.DB
	puts, batches int
}

func (c *batched) Put(ctx context.Context, p *checkpoint.Put) error {
	c.puts++
	return c.DB.Put(ctx, p)
}

func (c *batched) PutAll(ctx context.Context, ps []*checkpoint.Put) error {
	c.batches++
	return c.DB.PutAll(ctx, ps)
}

type noted struct{ Log reduce.List[word] }

type added struct{ Log reduce.List[word] }

type word string

var errWord = errors.New("unacceptable")

// Validate refuses a bad word among others, unless that is allowed.
func (n noted) Validate() error {
	if len(n.Log) > 1 && slices.Contains(n.Log, "bad") && !slices.Contains(n.Log, "allowed") {
		return errWord
	}
	return nil
}

// repeating returns a graph whose node adds a word to the state.
func repeating(t *testing.T, s checkpoint.Saver, start func(*treadle.Builder[noted])) *treadle.Graph[noted, noted] {
	t.Helper()
	b := treadle.New[noted]("repeating")
	treadle.AddNode(b, "node", func(context.Context, noted) (added, error) { return added{Log: reduce.List[word]{"node"}}, nil })
	start(b)
	g, err := b.Compile(&treadle.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func plainStart(b *treadle.Builder[noted]) { b.Edge(treadle.Start, "node") }

func newBatched(t *testing.T) *batched {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &batched{DB: db}
}

func words(ws ...word) noted { return noted{Log: ws} }

// An input and the step that applies it are two checkpoints and one call of the saver.
// If a router comes first, or somebody reads the checkpoints as they are stored, the
// input is stored before.
func TestInputIsSavedWithStep(t *testing.T) {
	ctx := t.Context()
	s := newBatched(t)
	g := repeating(t, s, plainStart)
	for turn := 1; turn <= 2; turn++ { // the second one goes on from the cached head
		if _, err := g.Thread("plain").Run(ctx, words("hi")); err != nil {
			t.Fatal(err)
		}
		if s.puts != turn || s.batches != turn {
			t.Errorf("turn %d: %d puts and %d of two checkpoints, want %d of both", turn, s.puts, s.batches, turn)
		}
	}
	n := 0
	for _, err := range g.Thread("plain").History(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 6 {
		t.Errorf("history has %d checkpoints, want 6", n)
	}
	s.puts, s.batches = 0, 0
	for _, err := range g.Thread("read").Stream(ctx, words("hi"), treadle.Modes(treadle.ModeCheckpoints)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	routed := repeating(t, s, func(b *treadle.Builder[noted]) {
		treadle.AddBranch(b, treadle.Start, func(ctx context.Context, _ noted) (treadle.Goto, error) {
			if s.puts != 4 {
				t.Errorf("router runs after %d puts, want 4: three of the run before, and the input", s.puts)
			}
			return treadle.To("node"), nil
		}, "node")
	})
	if _, err := routed.Thread("routed").Run(ctx, words("hi")); err != nil {
		t.Fatal(err)
	}
	if s.puts != 6 || s.batches != 0 {
		t.Errorf("%d puts and %d of two checkpoints, want 6 and none", s.puts, s.batches)
	}
}

// An input whose step fails is stored all the same, so that the thread can be
// continued; on a thread that another process has continued, on top of its new head.
func TestInputIsSavedIfStepFails(t *testing.T) {
	ctx := t.Context()
	s := newBatched(t)
	here, there := repeating(t, s, plainStart), repeating(t, s, plainStart) // each has its own cached heads
	waits := func(thread string, want ...word) {
		t.Helper()
		snap, err := here.Thread(thread).State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got noted
		if err := snap.Read(&got); err != nil {
			t.Fatal(err)
		}
		if snap.Source != checkpoint.Input || !slices.Equal(snap.Next, []string{treadle.Start}) || !slices.Equal(got.Log, want) {
			t.Errorf("thread %s is at %s with %q, next %q; want an input with %q before it", thread, snap.Source, got.Log, snap.Next, want)
		}
	}
	run := func(g *treadle.Graph[noted, noted], thread string, input word) error {
		_, err := g.Thread(thread).Run(ctx, words(input))
		return err
	}
	if err := errors.Join(run(here, "own", "one"), run(here, "shared", "one"), run(there, "shared", "two"), run(there, "other", "one")); err != nil {
		t.Fatal(err)
	}
	for _, thread := range []string{"own", "shared", "other"} {
		if err := run(here, thread, "bad"); !errors.Is(err, errWord) {
			t.Fatal(thread, err)
		}
	}
	waits("own", "one", "node")
	waits("shared", "one", "node", "two", "node")
	waits("other", "one", "node")
}

// An input on a thread that another process has continued is applied to the state that
// it has now, even if it could not be applied to the one that this process remembers.
func TestInputAppliesToThreadState(t *testing.T) {
	ctx := t.Context()
	s := newBatched(t)
	here, there := repeating(t, s, plainStart), repeating(t, s, plainStart)
	var last noted
	for _, turn := range []struct {
		g     *treadle.Graph[noted, noted]
		input word
	}{{here, "one"}, {there, "allowed"}, {here, "bad"}, {there, "three"}, {here, "four"}} {
		var err error
		if last, err = turn.g.Thread("t").Run(ctx, words(turn.input)); err != nil {
			t.Fatalf("%s: %v", turn.input, err)
		}
	}
	if want := []word{"one", "node", "allowed", "node", "bad", "node", "three", "node", "four", "node"}; !slices.Equal(last.Log, want) {
		t.Errorf("state: %q, want %q", last.Log, want)
	}
}
