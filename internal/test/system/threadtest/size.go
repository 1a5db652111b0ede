package threadtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Sizes is the suite for the warning about growing threads.
var Sizes = Suite{
	{"WarnsOncePerDoubling", sequential, sizeDoubles},
	{"WarnsOfALoadedThread", sequential, sizeLoaded},
	{"CanBeTurnedOff", sequential, sizeOff},
	{"CountsNestedGraphs", concurrent, sizeNested},
}

// sizeLog collects a logger's output.
type sizeLog struct{ bytes.Buffer }

var sizeLine = regexp.MustCompile(`level=WARN msg="treadle: large thread.*graph=sizes thread=t bytes=\d+ next_warning_at=(\d+)`)

// warned returns the sizes of the next warnings that the warnings so far have announced.
func (l *sizeLog) warned() (next []string) {
	for _, m := range sizeLine.FindAllStringSubmatch(l.String(), -1) {
		next = append(next, m[1])
	}
	return next
}

// sizeThread returns a thread of a graph that adds a kilobyte of text in every turn.
func sizeThread(t *testing.T, saver checkpoint.Saver, l *sizeLog, limit int64) *kitThread {
	t.Helper()
	b := treadle.New[kitState]("sizes")
	treadle.AddNode(b, "grow", func(context.Context, kitState) (kitLog, error) { return kitSay(strings.Repeat("x", 1000)), nil })
	b.Edge(treadle.Start, "grow")
	g, err := b.Compile(&treadle.Options{Saver: saver, SizeWarning: limit, Logger: slog.New(slog.NewTextHandler(l, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("t")
}

func sizeTurns(t *testing.T, th *kitThread, n int) {
	t.Helper()
	for range n {
		if _, err := th.Run(t.Context(), kitState{N: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

func sizeDoubles(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver, l := open(t), &sizeLog{}
	th := sizeThread(t, saver, l, 20_000)
	sizeTurns(t, th, 5)
	if got := l.warned(); len(got) > 0 {
		t.Errorf("small thread was warned of: %s", l)
	}
	sizeTurns(t, th, 100)
	size, err := saver.(checkpoint.Sizer).Size(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	var want []string // one for each doubling up to its size
	for next, text := range map[int64]string{40_000: "40000", 80_000: "80000", 160_000: "160000", 320_000: "320000"} {
		if size >= next/2+next/16 { // the warning may come that much later
			want = append(want, text)
		}
	}
	got := l.warned()
	if len(got) < len(want) || len(got) > len(want)+1 || len(got) < 3 || got[0] != "40000" || got[1] != "80000" || got[2] != "160000" {
		t.Errorf("of %d bytes the warnings are %q, want one for each doubling:\n%s", size, got, l)
	}
	if snap := kitStateOf(t, th); len(snap.Next) > 0 {
		t.Errorf("next: %v", snap.Next)
	}
}

// sizeLoaded checks that a process that loads a large thread warns once.
func sizeLoaded(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	sizeTurns(t, sizeThread(t, saver, &sizeLog{}, -1), 60)
	l := &sizeLog{}
	th := sizeThread(t, saver, l, 20_000)
	sizeTurns(t, th, 3)
	if got := l.warned(); len(got) != 1 {
		t.Errorf("warnings: %q, want one:\n%s", got, l)
	}
}

func sizeOff(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	l := &sizeLog{}
	sizeTurns(t, sizeThread(t, open(t), l, -1), 50)
	sizeTurns(t, sizeThread(t, open(t), l, 0), 50) // 64 MiB is far away
	if l.Len() > 0 {
		t.Errorf("there were warnings: %s", l)
	}
}

func sizeNested(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	inner := treadle.New[kitState]("inner")
	treadle.AddNode(inner, "grow", func(context.Context, kitState) (kitLog, error) { return kitSay(strings.Repeat("x", 30_000)), nil })
	inner.Edge(treadle.Start, "grow")
	nested, err := inner.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &sizeLog{}
	b := treadle.New[kitState]("sizes")
	treadle.AddGraph(b, "inner", nested)
	b.Edge(treadle.Start, "inner")
	g, err := b.Compile(&treadle.Options{Saver: open(t), SizeWarning: 20_000, Logger: slog.New(slog.NewTextHandler(l, nil)), After: []any{"inner"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Thread("t").Run(t.Context(), kitState{N: 1})
	if _, stopped := errors.AsType[*treadle.InterruptError](err); !stopped {
		t.Fatal(err)
	}
	if len(l.warned()) == 0 {
		t.Error("there was no warning")
	}
}

// sizeCounter counts the calls of Size.
type sizeCounter struct {
	*checkpoint.Memory
	asked int
}

func (s *sizeCounter) Size(ctx context.Context, thread string) (int64, error) {
	s.asked++
	return s.Memory.Size(ctx, thread)
}

// SizesAskRarely tests that a run queries the saver for a thread's size only
// occasionally, not at every step.
func SizesAskRarely(t *testing.T) {
	s := &sizeCounter{Memory: checkpoint.NewMemory()}
	th := sizeThread(t, s, &sizeLog{}, 1_000_000)
	sizeTurns(t, th, 100)
	if s.asked != 0 {
		t.Errorf("saver was asked %d times about a thread of a tenth of the limit, want not at all", s.asked)
	}
	th = sizeThread(t, s, &sizeLog{}, 20_000)
	sizeTurns(t, th, 200)
	if s.asked == 0 || s.asked > 25 {
		t.Errorf("saver was asked %d times in 200 turns, want at most 25", s.asked)
	}
}
