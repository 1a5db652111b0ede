package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/reduce"
)

// State is the state of all random graphs.
type State struct {
	Turn  int
	Round int // of the loop under way
	Log   reduce.List[string]
	Total reduce.Sum[int]
	Names reduce.Set[string]
}

// wrote is what the nodes write. What they add is a function of what they read,
// so a node that sees another state than it should gives itself away.
type wrote struct {
	Log   reduce.List[string]
	Total reduce.Sum[int]
	Names reduce.Set[string]
}

type round struct {
	wrote
	Round int
}

type item struct{ N int }

// A question is what nodes ask.
type question struct {
	Label string
	N     int
}

// reply returns the answer to an interrupt.
func (q question) reply() int { return fold(q.N*7 + len(q.Label)) }

// fold keeps numbers small.
func fold(n int) int { return n % 1_000_003 }

// An op is an operation of a node.
type op func(ctx context.Context, x int) (int, error)

// A gen generates a random graph.
type gen struct {
	rnd *rand.Rand
	w   *world
	n   int // names given so far

	// What may run twice at a time cannot keep its state for the thread: there
	// is one such state.
	crowded bool
}

// player plays one thread of a graph of any type.
type player struct {
	seed   uint64
	thread *dynamic.Thread
	run    func(ctx context.Context, turn int) error
	resume func(ctx context.Context, answers treadle.Answers) error
}

// durability returns the durability of a thread's runs. With Async, a crash may lose
// the last steps, which then run again: not all promises apply to them.
func durability(seed uint64) treadle.Durability {
	if seed%6 == 3 {
		return treadle.Async
	}
	return treadle.Sync
}

func threadName(seed uint64) string { return fmt.Sprintf("t%d", seed) }

// newPlayer returns the graph of a seed. The same seed produces the same graph.
func newPlayer(seed uint64, w *world, s checkpoint.Saver) (*player, error) {
	g := &gen{rnd: rand.New(rand.NewPCG(seed, 7)), w: w}
	opts := &treadle.Options{Saver: s, StepLimit: 100}
	if seed%5 == 4 { // a plain function
		ops := g.ops(4, 1, true)
		flow, err := treadle.NewWorkflow("flow", func(ctx context.Context, turn int) (int, error) {
			last, _ := treadle.PreviousFrom[int](ctx)
			return g.all(ops)(ctx, fold(last+turn+1))
		}, opts)
		if err != nil {
			return nil, err
		}
		return playerOf(seed, flow, func(turn int) int { return turn + 1 }), nil
	}
	graph, err := g.graph("root", 1+g.rnd.IntN(4)/3, true, opts)
	if err != nil {
		return nil, err
	}
	return playerOf(seed, graph, func(turn int) State { return State{Turn: turn + 1} }), nil
}

func playerOf[In, Out any](seed uint64, g *treadle.Graph[In, Out], input func(turn int) In) *player {
	thread := g.Thread(threadName(seed), durability(seed))
	return &player{seed: seed, thread: dynamic.Open(g, thread.ID(), durability(seed)),
		run: func(ctx context.Context, turn int) error {
			_, err := thread.Run(ctx, input(turn))
			return err
		},
		resume: func(ctx context.Context, answers treadle.Answers) error {
			_, err := thread.Resume(ctx, answers)
			return err
		},
	}
}

func (g *gen) name(kind string) string {
	g.n++
	return fmt.Sprintf("%s%d", kind, g.n)
}

// chance returns true in one of n cases.
func (g *gen) chance(n int) bool { return g.rnd.IntN(n) == 0 }

// graph returns a chain of blocks. Each has one entry and one exit. depth limits the
// nesting of further subgraphs; asks controls whether nodes may interrupt.
func (g *gen) graph(name string, depth int, asks bool, o *treadle.Options) (*treadle.Graph[State, State], error) {
	b := treadle.New[State](name)
	blocks := []func(*treadle.Builder[State], int, bool) (in, out string, err error){
		g.plain, g.fan, g.sends, g.fork, g.loop, g.deferred, g.moody, g.command,
	}
	n := 1
	if depth > 0 {
		blocks = append(blocks, g.nested, g.nested, g.nested)
		n += 1 + g.rnd.IntN(2)
	}
	from := treadle.Start
	for range n {
		in, out, err := blocks[g.rnd.IntN(len(blocks))](b, depth, asks)
		if err != nil {
			return nil, err
		}
		b.Edge(from, in)
		from = out
	}
	return b.Compile(o)
}

// node adds a node that does some things.
func (g *gen) node(b *treadle.Builder[State], kind string, most, depth int, asks bool, opts ...treadle.NodeOption) string {
	name, do := g.name(kind), g.all(g.ops(most, depth, asks))
	treadle.AddNode(b, name, func(ctx context.Context, s State) (wrote, error) {
		x, err := do(ctx, read(s))
		return write(name, x), err
	}, opts...)
	return name
}

// read hashes everything that a node sees.
func read(s State) int {
	x := s.Turn + 3*s.Round + 5*s.Total.N + 11*len(s.Names)
	for _, line := range s.Log {
		for _, c := range []byte(line) {
			x = fold(x*31 + int(c))
		}
	}
	return fold(x)
}

func write(name string, x int) wrote {
	return wrote{Log: reduce.List[string]{fmt.Sprintf("%s=%d", name, x)}, Total: reduce.SumOf(x % 1000), Names: reduce.SetOf(name)}
}

func (g *gen) plain(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	name := g.node(b, "plain", 3, depth, asks)
	return name, name, nil
}

// slow adds a node that takes longer than its siblings.
func (g *gen) slow(b *treadle.Builder[State], depth int, asks bool) string {
	name, do := g.name("slow"), g.all(g.ops(2, depth, asks))
	treadle.AddNode(b, name, func(ctx context.Context, s State) (wrote, error) {
		g.w.linger()
		x, err := do(ctx, read(s))
		return write(name, x), err
	})
	return name
}

// fan runs several nodes side by side, one of them followed by another, and
// joins them. Perhaps one is slow.
func (g *gen) fan(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	in, out = g.node(b, "fan", 0, 0, false), g.node(b, "join", 1, 0, asks)
	var ends []string
	if g.chance(2) {
		name := g.slow(b, depth, asks)
		b.Edge(in, name)
		ends = append(ends, name)
	}
	for range 2 + g.rnd.IntN(2) {
		name := g.node(b, "arm", 2, depth, asks)
		b.Edge(in, name)
		ends = append(ends, name)
	}
	longer := g.node(b, "arm", 1, 0, asks)
	b.Edge(ends[0], longer)
	ends[0] = longer
	b.Join(treadle.Nodes(ends), out)
	return in, out, nil
}

// sends runs one node several times with separate inputs.
func (g *gen) sends(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	in, out = g.node(b, "spread", 1, 0, false), g.node(b, "gather", 0, 0, false)
	outside := g.crowded
	g.crowded = true
	name, do := g.name("worker"), g.all(g.ops(2, depth, asks))
	g.crowded = outside
	worker := treadle.AddNode(b, name, func(ctx context.Context, i item) (wrote, error) {
		x, err := do(ctx, i.N)
		return write(name, x), err
	})
	n := 1 + g.rnd.IntN(3)
	treadle.AddBranch(b, in, func(_ context.Context, s State) (treadle.Goto, error) {
		var to treadle.Goto
		for i := range n {
			to = append(to, treadle.Send(worker, item{fold(read(s) + i)})...)
		}
		return to, nil
	}, name)
	b.Edge(name, out)
	return in, out, nil
}

// fork takes one of two ways.
func (g *gen) fork(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	in, out = g.node(b, "fork", 1, 0, asks), g.node(b, "meet", 0, 0, false)
	odd, even := g.node(b, "odd", 2, depth, asks), g.node(b, "even", 2, depth, asks)
	treadle.AddBranch(b, in, func(_ context.Context, s State) (treadle.Goto, error) {
		if s.Total.N%2 == 1 {
			return treadle.To(odd), nil
		}
		return treadle.To(even), nil
	}, odd, even)
	b.Edge(odd, out)
	b.Edge(even, out)
	return in, out, nil
}

// loop runs a node some times over.
func (g *gen) loop(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	in, out = g.name("enter"), g.node(b, "leave", 0, 0, false)
	body, do := g.name("body"), g.all(g.ops(2, depth, asks))
	rounds := 2 + g.rnd.IntN(2)
	treadle.AddNode(b, in, func(context.Context, State) (struct{ Round int }, error) { return struct{ Round int }{}, nil })
	treadle.AddNode(b, body, func(ctx context.Context, s State) (round, error) {
		x, err := do(ctx, read(s))
		return round{write(body, x), s.Round + 1}, err
	})
	b.Edge(in, body)
	treadle.AddBranch(b, body, func(_ context.Context, s State) (treadle.Goto, error) {
		if s.Round < rounds {
			return treadle.To(body), nil
		}
		return treadle.To(out), nil
	}, body, out)
	return in, out, nil
}

// deferred ends in a node that waits for the longer of two ways.
func (g *gen) deferred(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	in, out = g.node(b, "part", 0, 0, false), g.node(b, "last", 1, 0, asks, treadle.Defer())
	short := g.node(b, "short", 1, depth, asks)
	long, longer := g.node(b, "long", 1, 0, asks), g.node(b, "longer", 1, 0, asks)
	b.Edge(in, short)
	b.Edge(in, long)
	b.Edge(short, out)
	b.Edge(long, longer)
	b.Edge(longer, out)
	return in, out, nil
}

var errMood = errors.New("not at the first try")

// moody fails once each time it runs, after it has done something.
func (g *gen) moody(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	name, do := g.name("moody"), g.all(g.ops(2, depth, asks))
	treadle.AddNode(b, name, func(ctx context.Context, s State) (wrote, error) {
		x, err := do(ctx, read(s))
		if err == nil && treadle.InfoFrom(ctx).Attempt == 1 {
			err = errMood
		}
		return write(name, x), err
	}, treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, On: func(err error) bool { return errors.Is(err, errMood) }}))
	return name, name, nil
}

// command goes on by what its node returns: to one node that reads the state
// and to another with an input of its own.
func (g *gen) command(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	in, out = g.name("command"), g.node(b, "obeyed", 0, 0, false)
	do, heard := g.all(g.ops(2, depth, asks)), g.node(b, "heard", 1, 0, asks)
	told, tell := g.name("told"), g.all(g.ops(1, 0, asks))
	node := treadle.AddNode(b, told, func(ctx context.Context, i item) (wrote, error) {
		x, err := tell(ctx, i.N)
		return write(told, x), err
	})
	treadle.AddNode(b, in, func(ctx context.Context, s State) (treadle.Command[wrote], error) {
		x, err := do(ctx, read(s))
		update := write(in, x)
		return treadle.Command[wrote]{Update: &update, Goto: append(treadle.To(heard), treadle.Send(node, item{x})...)}, err
	}, treadle.Destinations(heard, told))
	b.Join([]any{heard, told}, out)
	return in, out, nil
}

// nested adds a subgraph. With PerThread, it continues where it stopped in the
// previous turn.
func (g *gen) nested(b *treadle.Builder[State], depth int, asks bool) (in, out string, err error) {
	name := g.name("graph")
	var opts []treadle.NodeOption
	switch k := g.rnd.IntN(4); {
	case k == 0 && !g.crowded:
		opts = append(opts, treadle.PerThread())
	case k == 1:
		asks, opts = false, append(opts, treadle.NoCheckpoints())
	}
	inner, err := g.graph(name, depth-1, asks, nil)
	if err != nil {
		return "", "", err
	}
	treadle.AddGraph(b, name, inner, opts...)
	return name, name, nil
}

// all does one thing after the other.
func (g *gen) all(ops []op) op {
	return func(ctx context.Context, x int) (int, error) {
		for _, do := range ops {
			var err error
			if x, err = do(ctx, x); err != nil {
				return 0, err
			}
		}
		return x, nil
	}
}

// ops returns up to most operations of a node. A plain effect comes first, if any,
// because it uses the node's own key.
func (g *gen) ops(most, depth int, asks bool) []op {
	var ops []op
	if most == 0 {
		return nil
	}
	if g.chance(3) {
		label := g.name("bare")
		ops = append(ops, func(ctx context.Context, x int) (int, error) { return x + 1, g.w.effect(ctx, label, x) })
	}
	for range 1 + g.rnd.IntN(most) {
		kinds := []func(int, bool) op{g.effect, g.effect, g.tasks, g.deepTask}
		if asks {
			kinds = append(kinds, g.ask)
		}
		if depth > 0 && g.chance(2) {
			kinds = append(kinds, g.call, g.flow)
		}
		ops = append(ops, kinds[g.rnd.IntN(len(kinds))](depth, asks))
	}
	return ops
}

// effect returns an operation with a recorded effect.
func (g *gen) effect(int, bool) op {
	label := g.name("do")
	return func(ctx context.Context, x int) (int, error) {
		return treadle.Do(ctx, label, func(ctx context.Context) (int, error) { return fold(x*3 + 1), g.w.effect(ctx, label, x) })
	}
}

// tasks returns an operation that runs two concurrent tasks.
func (g *gen) tasks(int, bool) op {
	label := g.name("task")
	task := treadle.NewTask(label, func(ctx context.Context, x int) (int, error) { return fold(x*5 + 2), g.w.effect(ctx, label, x) })
	return func(ctx context.Context, x int) (int, error) {
		a, b := task.Go(ctx, x), task.Go(ctx, x+1)
		n, err := a.Wait()
		m, err2 := b.Wait()
		return fold(n + 2*m), errors.Join(err, err2)
	}
}

// deepTask returns a task with a separately recorded effect and perhaps an interrupt.
func (g *gen) deepTask(depth int, asks bool) op {
	inner := g.effect(0, false)
	if asks && g.chance(3) {
		inner = g.all([]op{inner, g.ask(0, true)})
	}
	label := g.name("deep")
	task := treadle.NewTask(label, func(ctx context.Context, x int) (int, error) {
		if err := g.w.effect(ctx, label, x); err != nil {
			return 0, err
		}
		return inner(ctx, x)
	})
	return task.Run
}

func (g *gen) ask(int, bool) op {
	label := g.name("ask")
	return func(ctx context.Context, x int) (int, error) {
		return treadle.Interrupt[int](ctx, question{label, x})
	}
}

// call runs a graph inside a node, perhaps twice.
func (g *gen) call(depth int, asks bool) op {
	name := g.name("called")
	var opts []treadle.RunOption
	switch k := g.rnd.IntN(4); {
	case k == 0 && !g.crowded:
		opts = append(opts, treadle.PerThread())
	case k == 1:
		asks, opts = false, append(opts, treadle.NoCheckpoints())
	}
	graph, err := g.graph(name, depth-1, asks, nil)
	times := 1 + g.rnd.IntN(2)
	return func(ctx context.Context, x int) (int, error) {
		if err != nil {
			return 0, err
		}
		for range times {
			out, err := graph.With(opts...).Run(ctx, State{Turn: x + 1})
			if err != nil {
				return 0, err
			}
			x = read(out)
		}
		return x, nil
	}
}

// flow runs a plain function as a graph inside a node.
func (g *gen) flow(_ int, asks bool) op {
	flow, err := treadle.NewWorkflow(g.name("flow"), g.all(g.ops(2, 0, asks)), nil)
	return func(ctx context.Context, x int) (int, error) {
		if err != nil {
			return 0, err
		}
		return flow.Run(ctx, x)
	}
}
