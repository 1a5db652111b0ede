package threadtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/reduce"
)

// quiz is the state of random graphs: the questions that were answered.
type (
	quiz     struct{ Log reduce.List[string] }
	quizMore struct{ Log reduce.List[string] }
)

// A quizPart is a random node: what it is and how much it asks.
type quizPart struct {
	kind  string
	asks  int
	keyed bool       // questions go by key
	sub   *quizGraph // of a node that is or calls a graph
}

// A quizGraph is a random graph: stages one after the other, each with nodes
// side by side.
type quizGraph struct{ stages [][]quizPart }

var (
	quizLeaves = []string{"plain", "node", "node", "tasks", "loop", "sends", "flow", "handler"}
	quizInner  = []string{"graph", "call"}
)

func drawQuiz(t *rapid.T, depth int) *quizGraph {
	g := &quizGraph{}
	for range rapid.IntRange(1, 2).Draw(t, "stages") {
		var stage []quizPart
		for range rapid.IntRange(1, 3).Draw(t, "nodes") {
			p := quizPart{asks: rapid.IntRange(1, 2).Draw(t, "asks"), keyed: rapid.Bool().Draw(t, "keyed")}
			kinds := quizLeaves
			if depth > 0 {
				kinds = slices.Concat(kinds, quizInner, quizInner)
			}
			p.kind = rapid.SampledFrom(kinds).Draw(t, "kind")
			if slices.Contains(quizInner, p.kind) {
				p.sub = drawQuiz(t, depth-1)
			}
			stage = append(stage, p)
		}
		g.stages = append(g.stages, stage)
	}
	return g
}

// quizWorld is what lies outside the process: how often each effect happened.
type quizWorld struct {
	mu      sync.Mutex
	effects map[string]int
}

func (w *quizWorld) effect(ctx context.Context, name string) error {
	_, err := treadle.Do(ctx, "effect", func(context.Context) (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.effects[name]++
		return true, nil
	})
	return err
}

// ask asks a question and checks that the answer is the one to it.
func (p quizPart) ask(ctx context.Context, question string) error {
	q := treadle.Question{Value: question}
	if p.keyed {
		q.Key = question
	}
	answer, err := treadle.Interrupt[string](ctx, q)
	if err != nil {
		return err
	}
	if answer != "re: "+question {
		return fmt.Errorf("question %q got the answer %q", question, answer)
	}
	return nil
}

// questions asks all that the part has to ask, one after the other.
func (p quizPart) questions(ctx context.Context, w *quizWorld, path string) (quizMore, error) {
	if err := w.effect(ctx, path); err != nil {
		return quizMore{}, err
	}
	var out quizMore
	for i := range p.asks {
		q := fmt.Sprintf("%s/%d", path, i)
		if err := p.ask(ctx, q); err != nil {
			return quizMore{}, err
		}
		out.Log = append(out.Log, q)
	}
	return out, nil
}

func (g *quizGraph) build(w *quizWorld, path string, o *treadle.Options) (*treadle.Graph[quiz, quiz], error) {
	b := treadle.New[quiz]("quiz")
	var before []string
	for i, stage := range g.stages {
		var names []string
		for j, part := range stage {
			name := fmt.Sprintf("s%dn%d", i, j)
			names = append(names, name)
			if err := part.add(b, w, name, path+"."+name); err != nil {
				return nil, err
			}
			if before == nil {
				b.Edge(treadle.Start, name)
			} else {
				b.Join(treadle.Nodes(before), name)
			}
		}
		before = names
	}
	return b.Compile(o)
}

var errQuiz = errors.New("fails on purpose")

// add adds the part as a node.
func (p quizPart) add(b *treadle.Builder[quiz], w *quizWorld, name, path string) error {
	switch p.kind {
	case "plain":
		treadle.AddNode(b, name, func(ctx context.Context, _ quiz) (quizMore, error) {
			return quizMore{reduce.List[string]{path}}, w.effect(ctx, path)
		})
	case "node":
		treadle.AddNode(b, name, func(ctx context.Context, _ quiz) (quizMore, error) { return p.questions(ctx, w, path) })
	case "handler":
		treadle.AddNode(b, name, func(ctx context.Context, _ quiz) (quizMore, error) {
			if err := w.effect(ctx, path+" node"); err != nil {
				return quizMore{}, err
			}
			if err := p.ask(ctx, path+" before"); err != nil {
				return quizMore{}, err
			}
			return quizMore{}, errQuiz
		}, treadle.OnError(func(ctx context.Context, _ quiz, _ *treadle.NodeError) (quizMore, error) {
			return p.questions(ctx, w, path)
		}))
	case "tasks":
		treadle.AddNode(b, name, func(ctx context.Context, _ quiz) (quizMore, error) {
			task := treadle.NewTask("task", func(ctx context.Context, path string) (quizMore, error) { return p.questions(ctx, w, path) })
			var futures []*treadle.Future[quizMore]
			for i := range 2 {
				futures = append(futures, task.Go(ctx, fmt.Sprintf("%s task %d", path, i)))
			}
			var out quizMore
			var errs []error
			for _, f := range futures {
				more, err := f.Wait()
				out.Log, errs = append(out.Log, more.Log...), append(errs, err)
			}
			return out, errors.Join(errs...)
		})
	case "flow":
		flow, err := treadle.NewWorkflow("flow", func(ctx context.Context, path string) (quizMore, error) { return p.questions(ctx, w, path) }, nil)
		if err != nil {
			return err
		}
		treadle.AddNode(b, name, func(ctx context.Context, _ quiz) (quizMore, error) { return flow.Run(ctx, path) })
	case "loop", "sends":
		inner := treadle.New[quiz](p.kind)
		if p.kind == "loop" {
			rounds := func(s quiz) (n int) {
				for _, q := range s.Log {
					if strings.HasPrefix(q, path+" round") {
						n++
					}
				}
				return n
			}
			treadle.AddNode(inner, "round", func(ctx context.Context, s quiz) (quizMore, error) {
				q := fmt.Sprintf("%s round %d", path, rounds(s))
				return quizMore{reduce.List[string]{q}}, errors.Join(p.ask(ctx, q))
			})
			inner.Edge(treadle.Start, "round")
			treadle.AddBranch(inner, "round", func(_ context.Context, s quiz) (treadle.Goto, error) {
				if rounds(s) > p.asks {
					return treadle.To(treadle.End), nil
				}
				return treadle.To("round"), nil
			}, "round", treadle.End)
		} else {
			work := treadle.AddNode(inner, "work", func(ctx context.Context, n int) (quizMore, error) {
				return p.questions(ctx, w, fmt.Sprintf("%s send %d", path, n))
			})
			treadle.AddBranch(inner, treadle.Start, func(context.Context, quiz) (treadle.Goto, error) {
				return slices.Concat(treadle.Send(work, 1), treadle.Send(work, 2)), nil
			}, "work")
		}
		g, err := inner.Compile(nil)
		if err != nil {
			return err
		}
		treadle.AddGraph(b, name, g)
	case "graph", "call":
		g, err := p.sub.build(w, path, nil)
		if err != nil {
			return err
		}
		if p.kind == "graph" {
			treadle.AddGraph(b, name, g)
			return nil
		}
		treadle.AddNode(b, name, func(ctx context.Context, _ quiz) (quizMore, error) {
			out, err := g.Run(ctx, quiz{})
			return quizMore(out), err
		}, treadle.Uses(g))
	}
	return nil
}

// play runs a thread to its end, answering what choose picks of the open
// questions, with a restart between every two calls.
func (g *quizGraph) play(t *rapid.T, saver checkpoint.Saver, thread string, durable treadle.Durability, choose func([]treadle.Pause) []treadle.Pause) (log []string, effects map[string]int) {
	w := &quizWorld{effects: map[string]int{}}
	restarted := func() *treadle.Thread[quiz, quiz] {
		built, err := g.build(w, "q", &treadle.Options{Saver: saver})
		if err != nil {
			t.Fatal(err)
		}
		return built.Thread(thread, durable)
	}
	ctx := context.Background()
	out, err := restarted().Run(ctx, quiz{})
	asked := map[string]string{} // question → id
	for range 1000 {
		stop, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok {
			break
		}
		if len(stop.Pauses) == 0 {
			t.Fatalf("run waits for nothing: %v", err)
		}
		snap, err2 := restarted().State(ctx)
		if err2 != nil {
			t.Fatal(err2)
		}
		if diff := cmp.Diff(stop.Pauses, snap.Pauses); diff != "" {
			t.Fatalf("state shows other questions than the run (-run +state):\n%s", diff)
		}
		questions := map[string]string{} // id → question
		for _, p := range stop.Pauses {
			var q string
			if err := p.Decode(&q); err != nil {
				t.Fatal(err)
			}
			if was, ok := asked[q]; ok && was != p.ID {
				t.Fatalf("%q has the id %s, it had %s", q, p.ID, was)
			}
			asked[q] = p.ID
			questions[p.ID] = q
		}
		if len(questions) != len(stop.Pauses) {
			t.Fatalf("questions share ids: %v", stop.Pauses)
		}
		answers := treadle.Answers{}
		for _, p := range choose(stop.Pauses) {
			answers[p.ID] = "re: " + questions[p.ID]
		}
		if len(stop.Pauses) == 1 && len(answers) == 1 {
			out, err = restarted().Resume(ctx, answers[stop.Pauses[0].ID])
		} else {
			out, err = restarted().Resume(ctx, answers)
		}
	}
	if err != nil {
		t.Fatalf("run failed: %v", err)
	}
	return out.Log, w.effects
}

// Questions of random graphs are answered in a random order, some at a time and
// with a restart in between. The result is that of answering all at once, and
// every answer reached its own question.
func TestAnswersMatchInterruptsInAnyOrder(t *testing.T) {
	t.Run("memory", func(t *testing.T) { answersInAnyOrder(t, memory) })
	t.Run("sqlite", func(t *testing.T) { answersInAnyOrder(t, emptied(t, backends.SQLite)) })
}

func answersInAnyOrder(t *testing.T, open func(*testing.T) checkpoint.Saver) {
	saver, n, most := open(t), 0, 25
	_, inMemory := saver.(*checkpoint.Memory)
	switch {
	case inMemory && !race.Enabled:
		most = math.MaxInt
	case !inMemory && race.Enabled:
		most = 3
	}
	rapid.Check(t, func(t *rapid.T) {
		g := drawQuiz(t, 2)
		if n++; n > most {
			return
		}
		want, once := g.play(t, saver, fmt.Sprint("all ", n), treadle.Sync, func(ps []treadle.Pause) []treadle.Pause { return ps })
		for name, count := range once {
			if count != 1 {
				t.Fatalf("effect %q happened %d times", name, count)
			}
		}
		if sorted := slices.Sorted(slices.Values(want)); len(slices.Compact(sorted)) != len(want) {
			t.Fatalf("question counts twice: %q", want)
		}
		durable := rapid.SampledFrom([]treadle.Durability{treadle.Sync, treadle.Sync, treadle.Async, treadle.Exit}).Draw(t, "durable")
		got, effects := g.play(t, saver, fmt.Sprint("some ", n), durable, func(ps []treadle.Pause) []treadle.Pause {
			ps = rapid.Permutation(ps).Draw(t, "order")
			return ps[:rapid.IntRange(0, len(ps)).Draw(t, "count")]
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("result depends on the order of the answers (-all at once +one by one):\n%s", diff)
		}
		if !maps.Equal(once, effects) {
			t.Fatalf("effects %v, want %v", effects, once)
		}
	})
}
