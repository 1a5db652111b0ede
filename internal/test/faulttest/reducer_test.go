package faulttest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A frailList is a list whose reducer is the user's own. Its method frailty panics.
type frailList []string

var frailty string

func (l frailList) Reduce(u frailList) frailList { return append(slices.Clip(l), u...) }

func (frailList) Reducer() reduce.Reducer { return frailReducer{} }

type frailReducer struct {
	reduce.Appending[frailList, string]
}

func mayFail(method string) {
	if frailty == method {
		panic("in " + method)
	}
}

func (r frailReducer) Reduce(val, acc, update any, claim bool) (any, any, error) {
	mayFail("Reduce")
	return r.Appending.Reduce(val, acc, update, claim)
}

func (r frailReducer) Start() (any, bool) {
	mayFail("Start")
	return r.Appending.Start()
}

func (r frailReducer) Len(val any) int {
	mayFail("Len")
	return r.Appending.Len(val)
}

func (r frailReducer) At(val any, i int) any {
	mayFail("At")
	return r.Appending.At(val, i)
}

func (r frailReducer) Build(n int, fill func(int, any) error) (any, error) {
	mayFail("Build")
	return r.Appending.Build(n, fill)
}

func (frailReducer) Kept(was, _ any) int {
	mayFail("Kept")
	if frailty == "a wrong Kept" {
		return 7
	}
	return len(was.(frailList))
}

// Whatever method of a user's reducer panics, in a run, when a stored thread is
// read or when it is edited, the caller gets an error that says where, and the
// thread is as it was.
func TestReducerPanicsAreErrors(t *testing.T) {
	type state struct{ L frailList }
	build := func(saver checkpoint.Saver) (*treadle.Graph[state, state], error) {
		b := treadle.New[state]("frail")
		type wrote struct{ L frailList }
		for _, name := range []string{"one", "two"} {
			treadle.AddNode(b, name, func(context.Context, state) (wrote, error) { return wrote{frailList{name}}, nil })
			b.Edge(treadle.Start, name)
		}
		return b.Compile(&treadle.Options{Saver: saver})
	}
	for _, method := range []string{"Reduce", "Start", "Len", "At", "Build", "Kept", "a wrong Kept"} {
		t.Run(method, func(t *testing.T) {
			frailty = ""
			saver := checkpoint.NewMemory()
			g, err := build(saver)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Thread("t").Run(t.Context(), state{L: frailList{"in"}}); err != nil {
				t.Fatal(err)
			}
			frailty = method
			defer func() { frailty = "" }()
			again, err := build(saver) // another process, which has nothing in memory
			errs := []error{err}
			if err == nil {
				_, runErr := again.Thread("new").Run(t.Context(), state{L: frailList{"in"}})
				_, stateErr := again.Thread("t").State(t.Context())
				_, editErr := again.Thread("t").Update(t.Context(), state{L: frailList{"edit"}}, treadle.AsNode("one"))
				errs = append(errs, runErr, stateErr, editErr)
			}
			want := "in " + method
			if method == "a wrong Kept" {
				want = "reducer's Kept returned 7"
			}
			told := 0
			for _, err := range errs {
				if err != nil {
					told++
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %v does not contain %q", err, want)
					}
				}
			}
			if told == 0 {
				t.Error("nothing failed")
			}
			frailty = ""
			snap, err := g.Thread("t").State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(snap.State); got != `{"L":["in","one","two"]}` {
				t.Errorf("thread state: %s", got)
			}
		})
	}
}

type onlyReducer []string

func (onlyReducer) Reducer() reduce.Reducer { return reduce.Appending[onlyReducer, string]{} }

type nilReducer []string

func (l nilReducer) Reduce(nilReducer) nilReducer { return l }
func (nilReducer) Reducer() reduce.Reducer        { return nil }

type wrongStart []string

func (l wrongStart) Reduce(wrongStart) wrongStart { return l }
func (wrongStart) Reducer() reduce.Reducer        { return reduce.Appending[[]string, string]{} }

// A reducer that cannot work is found by Compile.
func TestInvalidReducersAreRejected(t *testing.T) {
	for want, compile := range map[string]func() error{
		"method Reducer without a method Reduce":                                       compiles[onlyReducer],
		"method Reducer returns nil":                                                   compiles[nilReducer],
		"reducer starts with a value of type []string, want faulttest_test.wrongStart": compiles[wrongStart],
	} {
		if err := compile(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func compiles[T any]() error {
	type state struct{ L T }
	b := treadle.New[state]("odd")
	treadle.AddNode(b, "n", func(context.Context, state) (treadle.Goto, error) { return nil, nil })
	b.Edge(treadle.Start, "n")
	_, err := b.Compile(nil)
	return err
}
