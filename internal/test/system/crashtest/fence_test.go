package crashtest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/reduce"
)

// leased puts with a lease, as a worker of a server does.
type leased struct {
	checkpoint.Saver
	epoch uint64
}

func (l *leased) Put(ctx context.Context, p *checkpoint.Put) error {
	p.Fence = l.epoch
	return l.Saver.Put(ctx, p)
}

func (l *leased) PutWrites(ctx context.Context, at checkpoint.Key, _ uint64, ws []checkpoint.Write) error {
	return l.Saver.PutWrites(ctx, at, l.epoch, ws)
}

func TestFencedWorkerSavesNothing(t *testing.T) { onEach(t, fenced) }

// fenced has a worker lose its lease, to one with a connection of its own,
// while it runs a node.
func fenced(t *testing.T, b *backends.Backend, address string) {
	old, other := b.Opened(t, address), b.Opened(t, address)
	ctx := t.Context()
	graph := func(s checkpoint.Saver, inNode func(context.Context) error) *treadle.Thread[shared, shared] {
		b := treadle.New[shared]("fenced")
		treadle.AddNode(b, "work", func(ctx context.Context, _ shared) (echo, error) {
			return echo{reduce.List[string]{"worked"}}, inNode(ctx)
		})
		b.Edge(treadle.Start, "work")
		g, err := b.Compile(&treadle.Options{Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread("t")
	}
	if err := old.Fence(ctx, "t", 1); err != nil {
		t.Fatal(err)
	}
	stale := graph(&leased{old, 1}, func(ctx context.Context) error { return other.Fence(ctx, "t", 2) })
	if _, err := stale.Run(ctx, shared{Inputs: reduce.List[string]{"a"}}); !errors.Is(err, checkpoint.ErrFenced) {
		t.Fatalf("run that lost its lease: %v, want %v", err, checkpoint.ErrFenced)
	}
	head, err := other.Get(ctx, checkpoint.Key{Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}

	next := func(fence uint64) *checkpoint.Put {
		p := &checkpoint.Put{Key: head.Key, Parent: head.ID, Head: head.ID, Fence: fence, Step: head.Step + 1, Source: checkpoint.Loop, Control: head.Control}
		p.ID = checkpoint.NewID(p.Step, head.ID)
		return p
	}
	write := []checkpoint.Write{{Task: "x", Kind: checkpoint.Failed, Data: []byte(`{}`)}}
	for name, try := range map[string]func() error{
		"a put with the old lease":     func() error { return old.Put(ctx, next(1)) },
		"a put without a lease":        func() error { return old.Put(ctx, next(0)) },
		"a write with the old lease":   func() error { return old.PutWrites(ctx, head.Key, 1, write) },
		"taking the old lease again":   func() error { return old.Fence(ctx, "t", 1) },
		"taking the new lease as well": func() error { return old.Fence(ctx, "t", 2) },
		"the old worker's next run": func() error {
			_, err := stale.Run(ctx, shared{Inputs: reduce.List[string]{"b"}})
			return err
		},
	} {
		if err := try(); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("%s: %v, want %v", name, err, checkpoint.ErrFenced)
		}
	}
	after, err := other.Get(ctx, checkpoint.Key{Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(head, after); diff != "" {
		t.Errorf("rejected writes changed the thread (-before +after):\n%s", diff)
	}

	out, err := graph(&leased{other, 2}, func(context.Context) error { return nil }).Continue(ctx)
	want := shared{Inputs: reduce.List[string]{"a"}, Echoes: reduce.List[string]{"worked"}}
	if diff := cmp.Diff(want, out); err != nil || diff != "" {
		t.Errorf("new worker: %v (-want +got):\n%s", err, diff)
	}
}
