package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/reduce"
)

// shared is the state of a thread that many write to.
type shared struct {
	Inputs reduce.List[string]
	Echoes reduce.List[string]
}

type echo struct{ Echoes reduce.List[string] }

func sharedGraph(s checkpoint.Saver) (*treadle.Graph[shared, shared], error) {
	b := treadle.New[shared]("shared")
	treadle.AddNode(b, "echo", func(_ context.Context, s shared) (echo, error) {
		return echo{reduce.List[string]{s.Inputs[len(s.Inputs)-1]}}, nil
	})
	b.Edge(treadle.Start, "echo")
	return b.Compile(&treadle.Options{Saver: s})
}

// writeAll runs many writers in a child process, each with one input for the thread.
func writeAll(o order, db backends.Database) error {
	g, err := sharedGraph(db)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, o.Writers)
	for i := range o.Writers {
		wg.Go(func() { errs[i] = writeOne(g.Thread(o.Thread), fmt.Sprint("input ", o.From+i)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// writeOne runs the thread with an input until it is in. A writer who lost the
// race for a later step finds its input there, and must not give it again.
func writeOne(thread *treadle.Thread[shared, shared], input string) error {
	ctx := context.Background()
	for tries := 0; ; tries++ {
		_, err := thread.Run(ctx, shared{Inputs: reduce.List[string]{input}})
		if !errors.Is(err, checkpoint.ErrConflict) {
			return err
		}
		snap, err := thread.State(ctx)
		if err != nil {
			return err
		}
		var s shared
		if err := snap.Read(&s); err != nil {
			return err
		}
		if slices.Contains(s.Inputs, input) {
			return nil
		}
		// As any client would, it gives the others a little time. Without it
		// the test would end as well, after many more lost races.
		<-time.After(rand.N(8 * time.Millisecond << min(tries, 6)))
	}
}

// Inputs from many writers are all there, once each, on a line without forks.
func TestManyWritersMakeOneLine(t *testing.T) { onEach(t, manyWriters) }

func manyWriters(t *testing.T, b *backends.Backend, address string) {
	const processes, writers = 3, 50
	db := b.Opened(t, address) // the schema is there before they meet
	var children []*child
	for i := range processes {
		children = append(children, start(t, order{Role: "writer", Backend: b.Name, Address: address, Thread: "shared", From: i * writers, Writers: writers}))
	}
	for _, c := range children {
		if c.end(t) {
			t.Fatalf("writer was killed:\n%s", c.stderr)
		}
	}
	g, err := sharedGraph(db)
	if err != nil {
		t.Fatal(err)
	}
	var newer, parent checkpoint.ID // the checkpoint seen before, and its parent
	var newest shared
	count := 0
	for snap, err := range g.Thread("shared").History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if count == 0 {
			if err := snap.Read(&newest); err != nil {
				t.Fatal(err)
			}
		} else if snap.ID != parent {
			t.Fatalf("checkpoint %s comes after %s and has the parent %s: the line forks", newer, snap.ID, parent)
		}
		newer, parent = snap.ID, snap.Parent
		count++
	}
	if !parent.IsZero() {
		t.Errorf("first checkpoint has the parent %s", parent)
	}
	var want []string
	for i := range processes * writers {
		want = append(want, fmt.Sprint("input ", i))
	}
	slices.Sort(want)
	got := slices.Sorted(slices.Values(newest.Inputs))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputs on the thread (-want +got):\n%s", diff)
	}
	t.Logf("%d checkpoints, %d inputs reached their node at once", count, len(newest.Echoes))
}
