package crashtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
)

// quickOnes is the number of siblings that finish immediately.
const quickOnes = 5

// siblingGraphs are steps with several tasks, of which the one named "slow"
// does not return until it may.
var siblingGraphs = map[string]func(do func(ctx context.Context, name string) (wrote, error), s checkpoint.Saver) (*treadle.Graph[State, State], error){
	"nodes": func(do func(context.Context, string) (wrote, error), s checkpoint.Saver) (*treadle.Graph[State, State], error) {
		return siblingNodes(do).Compile(&treadle.Options{Saver: s})
	},
	"sends": func(do func(context.Context, string) (wrote, error), s checkpoint.Saver) (*treadle.Graph[State, State], error) {
		b := treadle.New[State]("sends")
		worker := treadle.AddNode(b, "worker", func(ctx context.Context, name string) (wrote, error) { return do(ctx, name) })
		treadle.AddBranch(b, treadle.Start, func(context.Context, State) (treadle.Goto, error) {
			return treadle.SendEach(worker, siblingNames()), nil
		}, "worker")
		return b.Compile(&treadle.Options{Saver: s})
	},
	"nested": func(do func(context.Context, string) (wrote, error), s checkpoint.Saver) (*treadle.Graph[State, State], error) {
		inner, err := siblingNodes(do).Compile(nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[State]("nest")
		treadle.AddGraph(b, "inner", inner)
		b.Edge(treadle.Start, "inner")
		return b.Compile(&treadle.Options{Saver: s})
	},
}

func siblingNodes(do func(context.Context, string) (wrote, error)) *treadle.Builder[State] {
	b := treadle.New[State]("nodes")
	for _, name := range siblingNames() {
		treadle.AddNode(b, name, func(ctx context.Context, _ State) (wrote, error) { return do(ctx, name) })
		b.Edge(treadle.Start, name)
	}
	return b
}

func siblingNames() []string {
	names := []string{"slow"}
	for i := range quickOnes {
		names = append(names, fmt.Sprint("quick", i))
	}
	return names
}

// ahead counts the results that are stored before their step is over.
type ahead struct {
	checkpoint.Saver
	results chan int
}

func (a *ahead) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	err := a.Saver.PutWrites(ctx, at, fence, ws)
	if err == nil {
		a.results <- len(ws)
	}
	return err
}

// runSiblings runs a step or continues it in a child process. If the order is to
// hang, the process dies as soon as all results except the slow one are saved.
func runSiblings(o order, db backends.Database) error {
	journal, err := os.OpenFile(o.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer journal.Close()
	s := &ahead{db, make(chan int, quickOnes+1)}
	g, err := siblingGraphs[o.Graph](func(_ context.Context, name string) (wrote, error) {
		if _, err := journal.WriteString(name + "\n"); err != nil {
			return wrote{}, err
		}
		if name == "slow" && o.Hang {
			for n := 0; n < quickOnes; {
				n += <-s.results
			}
			die()
		}
		return write(name, 1), nil
	}, s)
	if err != nil {
		return err
	}
	ctx, thread := context.Background(), g.Thread(o.Thread)
	if o.Hang {
		_, err = thread.Run(ctx, State{Turn: 1})
	} else {
		_, err = thread.Continue(ctx)
	}
	return err
}

// A process is killed while one task of a step hangs. The next one runs that
// task and none of those that had finished.
func TestKilledStepRerunsOnlyUnfinishedTasks(t *testing.T) {
	onEach(t, func(t *testing.T, b *backends.Backend, address string) {
		for graph := range siblingGraphs {
			t.Run(graph, func(t *testing.T) {
				o := order{Role: "sibling", Backend: b.Name, Address: address, Thread: graph, Graph: graph, Journal: filepath.Join(t.TempDir(), "journal")}
				o.Hang = true
				if !start(t, o).end(t) {
					t.Fatal("first process was not killed")
				}
				o.Hang = false
				if start(t, o).end(t) {
					t.Fatal("second process was killed")
				}
				want := append(siblingNames(), "slow")
				if diff := cmp.Diff(slices.Sorted(slices.Values(want)), ranSiblings(t, o.Journal)); diff != "" {
					t.Errorf("tasks that ran (-want +got):\n%s", diff)
				}
				wantLog(t, o)
			})
		}
	})
}

// ranSiblings returns the tasks that ran in all processes, sorted.
func ranSiblings(t *testing.T, journal string) []string {
	t.Helper()
	raw, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(strings.Fields(string(raw))))
}

// wantLog wants every sibling's result on the thread, once.
func wantLog(t *testing.T, o order) {
	t.Helper()
	db, err := o.open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	g, err := siblingGraphs[o.Graph](nil, db)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread(o.Thread).State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got State
	if err := snap.Read(&got); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range siblingNames() {
		want = append(want, name+"=1")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(got.Log))); diff != "" || len(snap.Next) > 0 {
		t.Errorf("next is %v, and the log (-want +got):\n%s", snap.Next, diff)
	}
}
