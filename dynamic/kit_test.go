package dynamic_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/reduce"
)

// TestMain checks that runs do not leak goroutines.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var updating = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *updating {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write the file with -update, and review it", err)
	}
	same(t, name, string(want), got)
}

// diary is the state of most tests. Its log lists the nodes that ran, in order.
type diary struct {
	Topic string              `json:"topic"`
	Log   reduce.List[string] `json:"log"`
}

// page is the update of a node.
type page struct{ Log reduce.List[string] }

func did(what ...string) page { return page{what} }

// does returns a node that logs what.
func does(what string) func(context.Context, diary) (page, error) {
	return func(context.Context, diary) (page, error) { return did(what), nil }
}

// chain returns a builder for a graph whose nodes run in sequence and log their names.
func chain(name string, nodes ...string) *treadle.Builder[diary] {
	b := treadle.New[diary](name)
	for _, n := range nodes {
		treadle.AddNode(b, n, does(n))
	}
	b.Edge(treadle.Start, nodes[0])
	b.Sequence(treadle.Nodes(nodes)...)
	return b
}

// weave compiles a graph.
func weave[S any](t *testing.T, b *treadle.Builder[S], o *treadle.Options) *treadle.Graph[S, S] {
	t.Helper()
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// same compares want and got.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantLog runs a graph and compares its log.
func wantLog(t *testing.T, g *treadle.Graph[diary, diary], in diary, want ...string) {
	t.Helper()
	out, err := g.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log", want, []string(out.Log))
}

// passing is a test error.
type passing struct{ what string }

func (p passing) Error() string { return p.what }

// single compiles a graph with one node.
func single(t *testing.T, fn func(context.Context, diary) (page, error), opts ...treadle.NodeOption) *treadle.Graph[diary, diary] {
	t.Helper()
	b := treadle.New[diary]("single")
	treadle.AddNode(b, "node", fn, opts...)
	b.Edge(treadle.Start, "node")
	return weave(t, b, nil)
}

// recovers logs the failure. It is an error handler.
func recovers(_ context.Context, in diary, failure *treadle.NodeError) (page, error) {
	return did(fmt.Sprintf("recovered %s of %q: %v", failure.Node, in.Topic, failure.Err)), nil
}

// saying is a message or a chunk of a message.
type saying struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

func (s saying) MessageID() string { return s.ID }

// sayings is a conversation.
type sayings struct {
	Chat reduce.List[saying] `json:"chat"`
}

type spoken struct{ Chat reduce.List[saying] }

// model reports a model call with a chunk per word to the observers of ctx.
func model(ctx context.Context, id string, words ...string) {
	modelCall(ctx, observe.Call{Name: "parrot"}, id, words...)
}

func modelCall(ctx context.Context, call observe.Call, id string, words ...string) saying {
	call.Kind = observe.Model
	_, span := observe.Begin(ctx, call)
	answer := saying{ID: id}
	for _, w := range words {
		span.Chunk(saying{id, w})
		answer.Text += w
	}
	span.End(answer, nil)
	return answer
}

// heard reads a stream to its end and returns its error.
func heard(events iter.Seq2[treadle.Event, error]) (failed error) {
	for _, err := range events {
		if err != nil {
			failed = err
		}
	}
	return failed
}

// talk compiles a graph whose two nodes emit events of every mode.
func talk(t *testing.T) *treadle.Graph[diary, diary] {
	t.Helper()
	b := treadle.New[diary]("talk")
	treadle.AddNode(b, "a", func(ctx context.Context, _ diary) (page, error) {
		treadle.Emit(ctx, "hello from a")
		return did("a"), nil
	})
	treadle.AddNode(b, "b", func(ctx context.Context, _ diary) (page, error) {
		model(ctx, "m1", "good", "bye")
		return did("b"), nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	return weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
}
