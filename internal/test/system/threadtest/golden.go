package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A golden file records the saver calls of one version of the engine, so that any saver
// can be brought to hold the same threads. It is written once, when its version of the
// format is new, and never again: threads of that version exist, and every later version
// must continue them.

// goldenOp is one saver call.
type goldenOp struct {
	Put    *checkpoint.Put    `json:"put,omitempty"`
	At     checkpoint.Key     `json:"at,omitzero"`
	Writes []checkpoint.Write `json:"writes,omitempty"`
}

// goldenTape is a saver that records its calls.
type goldenTape struct {
	*checkpoint.Memory

	mu    sync.Mutex // results may be saved while a step runs
	ops   []goldenOp
	after int // number of puts until it fails; 0 means never
}

var errTapeEnds = errors.New("the tape ends here")

func (g *goldenTape) Put(ctx context.Context, p *checkpoint.Put) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.after == 1 {
		return errTapeEnds
	}
	g.after = max(g.after-1, 0)
	g.ops = append(g.ops, goldenOp{Put: p})
	return g.Memory.Put(ctx, p)
}

func (g *goldenTape) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ops = append(g.ops, goldenOp{At: at, Writes: ws})
	return g.Memory.PutWrites(ctx, at, fence, ws)
}

type (
	goldenState struct {
		Title  string                  `json:"title"`
		Count  int                     `json:"count"`
		Done   bool                    `json:"done"`
		When   time.Time               `json:"when"`
		Plan   *goldenPlan             `json:"plan"`
		Log    reduce.List[string]     `json:"log"`
		Notes  reduce.List[goldenPlan] `json:"notes"`
		Scores reduce.Map[string, int] `json:"scores"`
		Total  reduce.Sum[int]         `json:"total"`
		Brief  string                  `json:"brief" treadle:"ephemeral"`
	}
	goldenPlan struct {
		Goal  string         `json:"goal"`
		Parts []int          `json:"parts"`
		Sub   *goldenPlan    `json:"sub,omitempty"`
		Tags  map[int]string `json:"tags"`
	}
	goldenPlanned struct {
		Title string
		Count int
		When  time.Time
		Plan  *goldenPlan
		Log   reduce.List[string]
		Brief string
		To    treadle.Goto
	}
	goldenJob  struct{ N int }
	goldenWork struct {
		Log    reduce.List[string]
		Notes  reduce.List[goldenPlan]
		Scores reduce.Map[string, int]
		Total  reduce.Sum[int]
	}
	goldenEnd struct {
		Done bool
		Log  reduce.List[string]
	}
	goldenInner struct {
		Log    reduce.List[string] `json:"log"`
		Doubts int                 `json:"doubts"`
	}
	goldenThought struct {
		Log    reduce.List[string]
		Doubts int
	}
)

// goldenGraph returns a graph that uses everything a checkpoint can contain. It does not
// change: features of a later version of the format belong in a graph of that version.
//
//	plan ─ work ×3 (sent)
//	     ─ left ──────────────┐
//	     ─ right? ─ again? ───┴ join: think (a graph: muse ─ doubt?) ─ end
func goldenGraph(t *testing.T, w *kitWorld, saver checkpoint.Saver) *treadle.Graph[goldenState, goldenState] {
	t.Helper()
	say := func(name string, asks bool) func(context.Context, kitLog) (kitLog, error) {
		return func(ctx context.Context, _ kitLog) (kitLog, error) {
			if err := w.enter(ctx, name); err != nil {
				return kitLog{}, err
			}
			if !asks {
				return kitSay(name), nil
			}
			answer, err := treadle.Interrupt[string](ctx, name+"?")
			return kitSay(name + "=" + answer), err
		}
	}
	inner := treadle.New[goldenInner]("inner")
	treadle.AddNode(inner, "muse", func(ctx context.Context, _ goldenInner) (goldenThought, error) {
		return goldenThought{reduce.List[string]{"muse"}, 3}, w.enter(ctx, "muse")
	})
	treadle.AddNode(inner, "doubt", say("doubt", true))
	inner.Sequence(treadle.Start, "muse", "doubt")
	think, err := inner.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := treadle.New[goldenState]("golden")
	treadle.AddNode(b, "plan", func(ctx context.Context, s goldenState) (goldenPlanned, error) {
		out := goldenPlanned{Title: s.Title + "!", Count: s.Count + 1, When: time.Date(2024, 2, 29, 12, 30, 0, 5, time.FixedZone("", 3600)),
			Plan: &goldenPlan{"goal", []int{1, 2}, &goldenPlan{Goal: "sub"}, map[int]string{7: "seven", -1: "é\x00"}},
			Log:  reduce.List[string]{"plan"}, Brief: "brief"}
		for i := range 3 {
			out.To = append(out.To, treadle.Send("work", goldenJob{i + 1})...)
		}
		return out, w.enter(ctx, "plan")
	}, treadle.Additive())
	treadle.AddNode(b, "work", func(ctx context.Context, job goldenJob) (goldenWork, error) {
		name := fmt.Sprint("work", job.N)
		paid := job.N
		if job.N == 3 { // only one of them records something, because records are in order of time
			var err error
			paid, err = treadle.Do(ctx, "pay", func(ctx context.Context) (int, error) { return 20, w.enter(ctx, "pay") })
			if err != nil {
				return goldenWork{}, err
			}
		}
		return goldenWork{reduce.List[string]{name}, reduce.List[goldenPlan]{{Goal: name}}, reduce.Map[string, int]{name: job.N}, reduce.SumOf(paid)}, w.enter(ctx, name)
	})
	treadle.AddNode(b, "left", say("left", false))
	treadle.AddNode(b, "right", say("right", true))
	treadle.AddNode(b, "again", say("again", true))
	treadle.AddGraph(b, "think", think)
	treadle.AddNode(b, "end", func(ctx context.Context, _ goldenState) (goldenEnd, error) {
		return goldenEnd{true, reduce.List[string]{"end"}}, w.enter(ctx, "end")
	})
	b.Sequence(treadle.Start, "plan", "left")
	b.Sequence("plan", "right", "again")
	b.Join([]any{"left", "again"}, "think")
	b.Sequence("think", "end")
	g, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// goldenThreads lists where the threads of a golden file have stopped and how to finish
// them.
var goldenThreads = []struct {
	name    string
	stop    string   // the interrupt, error, or end where it stopped
	answers []string // given before the file was written
	rest    []string // still to be given
	next    []string
	ran     []string // nodes that run until the end
}{
	{"start", errTapeEnds.Error(), nil, []string{"1", "2", "3"}, []string{treadle.Start},
		[]string{"again", "again", "doubt", "doubt", "end", "left", "muse", "pay", "plan", "right", "right", "work1", "work2", "work3"}},
	{"asks", "right?", nil, []string{"1", "2", "3"}, []string{"right"}, []string{"again", "again", "doubt", "doubt", "end", "muse", "right", "right"}},
	{"failed", errKit.Error(), nil, []string{"1", "2", "3"}, []string{"right", "work"},
		[]string{"again", "again", "doubt", "doubt", "end", "muse", "right", "right", "work3"}},
	{"joins", "again?", []string{"1"}, []string{"2", "3"}, []string{"again"}, []string{"again", "again", "doubt", "doubt", "end", "muse"}},
	{"nested", "doubt?", []string{"1", "2"}, []string{"3"}, []string{"think"}, []string{"doubt", "doubt", "end"}},
	{"done", "", []string{"1", "2", "3"}, nil, nil, nil},
}

// WriteGolden runs the graph on a tape and writes the recorded calls to path. It fails
// the test if the file exists.
func WriteGolden(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		t.Fatalf("%s is there: a golden file is never written again", path)
	}
	var lines []string
	for _, op := range goldenRun(t) {
		raw, err := json.Marshal(op)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(raw))
	}
	if err := os.WriteFile(path, []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func goldenRun(t *testing.T) []goldenOp {
	t.Helper()
	tape := &goldenTape{Memory: checkpoint.NewMemory()}
	for _, stop := range goldenThreads {
		w := &kitWorld{}
		switch stop.name {
		case "start":
			tape.after = 2
		case "failed":
			w.fail("work3", errKit)
		}
		th := goldenGraph(t, w, tape).With(treadle.RunID("run-"+stop.name), treadle.MaxConcurrency(1), treadle.Metadata(map[string]any{"user": "ada"})).Thread(stop.name)
		_, err := th.Run(t.Context(), goldenState{Title: "title", Notes: reduce.List[goldenPlan]{{Goal: "given"}}})
		for _, a := range stop.answers {
			_, err = th.Resume(t.Context(), a)
		}
		if stop.stop == "" && err != nil || stop.stop != "" && (err == nil || !strings.Contains(err.Error(), stop.stop)) {
			t.Fatalf("thread %s stopped with %v, want %q", stop.name, err, stop.stop)
		}
		tape.after = 0
	}
	return tape.ops
}

func readGolden(t *testing.T, path string) (ops []goldenOp) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &ops)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

// GoldenIsPresent tests that this version writes the same calls as path. Virtual time
// keeps a slow machine from saving results ahead of their step.
func GoldenIsPresent(t *testing.T, path string) {
	synctest.Test(t, func(t *testing.T) {
		if d := cmp.Diff(goldenText(readGolden(t, path)), goldenText(goldenRun(t))); d != "" {
			t.Errorf("format has changed (-then +now):\n%s", d)
		}
	})
}

// GoldenGoesOn tests that threads written by some version can be continued. path is a
// golden file.
func GoldenGoesOn(t *testing.T, path string, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	for i, op := range readGolden(t, path) {
		var err error
		if op.Put != nil {
			err = saver.Put(t.Context(), op.Put)
		} else {
			err = saver.PutWrites(t.Context(), op.At, 0, op.Writes)
		}
		if err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
	want := goldenState{Title: "title!", Count: 1, Done: true, When: time.Date(2024, 2, 29, 11, 30, 0, 5, time.UTC),
		Plan:   &goldenPlan{"goal", []int{1, 2}, &goldenPlan{Goal: "sub"}, map[int]string{7: "seven", -1: "é\x00"}},
		Log:    reduce.List[string]{"plan", "left", "right=1", "work1", "work2", "work3", "again=2", "muse", "doubt=3", "end"},
		Notes:  reduce.List[goldenPlan]{{Goal: "given"}, {Goal: "work1"}, {Goal: "work2"}, {Goal: "work3"}},
		Scores: reduce.Map[string, int]{"work1": 1, "work2": 2, "work3": 3}, Total: reduce.SumOf(23)}
	for _, stop := range goldenThreads {
		t.Run(stop.name, func(t *testing.T) {
			w := &kitWorld{}
			th := goldenGraph(t, w, saver).Thread(stop.name)
			snap, err := th.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if next := slices.Compact(slices.Sorted(slices.Values(snap.Next))); !slices.Equal(next, stop.next) {
				t.Errorf("next is %q, want %q", next, stop.next)
			}
			for snap, err := range th.History(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				if snap.Metadata["user"] != "ada" || snap.RunID != "run-"+stop.name {
					t.Errorf("%s has the metadata %v and run %q", snap.ID, snap.Metadata, snap.RunID)
				}
			}
			out, err := th.Continue(t.Context())
			for _, a := range stop.rest {
				// Another process answers two of the three.
				if a != "1" {
					th = goldenGraph(t, w, saver).Thread(stop.name)
				}
				if _, asked := errors.AsType[*treadle.InterruptError](err); !asked {
					t.Fatalf("before answer %s: %v, want a question", a, err)
				}
				out, err = th.Resume(t.Context(), a)
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, out); d != "" {
				t.Errorf("state in the end (-want +got):\n%s", d)
			}
			if ran := w.ran(); !slices.Equal(ran, stop.ran) {
				t.Errorf("these nodes ran: %q, want %q", ran, stop.ran)
			}
			// Another turn.
			if _, err := th.Run(t.Context(), goldenState{Title: "more"}); err == nil {
				t.Error("second turn asks nothing")
			}
			if snap, err = th.State(t.Context()); err != nil {
				t.Fatal(err)
			}
			if title, _ := snap.State.Get("title"); title != "more!" {
				t.Errorf("title of the second turn: %v", title)
			}
		})
	}
}

var goldenID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}`)

// goldenText returns a readable form of a tape in which IDs are replaced with numbers, in
// order of appearance.
func goldenText(ops []goldenOp) string {
	var b strings.Builder
	writes := func(ws []checkpoint.Write) {
		for _, w := range ws {
			fmt.Fprintf(&b, "  write %s %s %s\n", w.Task, w.Kind, w.Data)
		}
	}
	for _, op := range ops {
		if op.Put == nil {
			fmt.Fprintf(&b, "writes at %s %q %s\n", op.At.Thread, op.At.Namespace, op.At.ID)
			writes(op.Writes)
			continue
		}
		p := op.Put
		fmt.Fprintf(&b, "put %s %q %s parent %s head %s step %d %s run %s %s\n  control %s\n", p.Thread, p.Namespace, p.ID, p.Parent, p.Head, p.Step, p.Source, p.RunID, p.Metadata, p.Control)
		for _, c := range p.Changes {
			fmt.Fprintf(&b, "  %s version %d data %q list %v drop %d items %q clear %v\n", c.Channel, c.Version, c.Data, c.List, c.Drop, c.Items, c.Clear)
		}
		writes(p.Pending)
	}
	ids := map[string]string{}
	return goldenID.ReplaceAllStringFunc(b.String(), func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprint("#", len(ids))
		}
		return ids[id]
	})
}
