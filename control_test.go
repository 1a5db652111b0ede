package treadle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/reduce"
)

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// updatesOf runs a graph and returns the updates of its nodes, on the wire.
func updatesOf[S any](t *testing.T, g *treadle.Graph[S, S], in S, mode treadle.Mode) []string {
	t.Helper()
	var out []string
	for ev, err := range g.Stream(t.Context(), in, treadle.Modes(mode)) {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := dynamic.Wire{}.Encode(ev)
		if err != nil {
			t.Fatal(err)
		}
		if raw != nil {
			out = append(out, string(raw))
		}
	}
	return out
}

type words = reduce.List[string]

// say returns a node for a graph whose state is one list.
func say(mark string) func(context.Context, struct{}) (words, error) {
	return func(context.Context, struct{}) (words, error) { return words{mark}, nil }
}

// sayNumber returns a node that takes a number from a send.
func sayNumber(_ context.Context, n int) (words, error) { return words{fmt.Sprint("2|", n)}, nil }

// Parity: 14. A node reached by name and by Send runs for both, what follows
// it runs once.
func TestBranchAfterSends(t *testing.T) {
	b := treadle.New[words]("after")
	for _, n := range []string{"1", "3"} {
		treadle.AddNode(b, n, say(n))
	}
	two := treadle.AddNode(b, "2", func(context.Context, words) (words, error) { return words{"2"}, nil })
	b.Edge(treadle.Start, "1")
	treadle.AddBranch(b, "1", func(_ context.Context, s words) (treadle.Goto, error) {
		return append(treadle.To("2"), treadle.Send(two, s)...), nil
	})
	treadle.AddBranch(b, "2", func(context.Context, words) (treadle.Goto, error) { return treadle.To("3"), nil })
	out, err := ready(t, b, nil).Run(t.Context(), words{"0"})
	if got := strings.Join(out, ","); err != nil || got != "0,1,2,2,3" {
		t.Errorf("the output is %s, %v, want 0,1,2,2,3", got, err)
	}
}

// SendEach works in a branch and in a command, to a handle and to a name, and schedules
// nothing without items.
func TestSendEachSchedulesOneTaskPerItem(t *testing.T) {
	for _, items := range [][]int{{1, 2, 3}, {}, nil} {
		var branch, command words
		for _, n := range items {
			branch, command = append(branch, fmt.Sprint("2|", n)), append(command, fmt.Sprint("2|", n))
		}
		b := treadle.New[words]("each")
		two := treadle.AddNode(b, "2", sayNumber)
		treadle.AddNode(b, "1", func(context.Context, words) (treadle.Command[words], error) {
			return treadle.Command[words]{Goto: treadle.SendEach("2", items)}, nil
		}, treadle.Destinations("2"))
		b.Edge(treadle.Start, "1")
		treadle.AddBranch(b, treadle.Start, func(context.Context, words) (treadle.Goto, error) { return treadle.SendEach(two, items), nil }, "2")
		out, err := ready(t, b, nil).Run(t.Context(), words{"0"})
		if got, want := strings.Join(out, ","), strings.Join(slices.Concat(words{"0"}, branch, command), ","); err != nil || got != want {
			t.Errorf("%v: the output is %s, %v, want %s", items, got, err, want)
		}
	}
}

// Every function that takes a node accepts its handle, regardless of the input type, or
// its name.
func TestHandlesStandForNames(t *testing.T) {
	type note struct{ Log reduce.List[string] }
	type step string
	b := treadle.New[trail]("handles")
	one := treadle.AddNode(b, "one", func(context.Context, trail) (trod, error) { return trod{reduce.List[string]{"one"}}, nil })
	two := treadle.AddNode(b, "two", func(context.Context, note) (trod, error) { return trod{reduce.List[string]{"two"}}, nil })
	three := treadle.NewNode("three", func(context.Context, trail) (trod, error) { return trod{reduce.List[string]{"three"}}, nil })
	b.Add(three)
	four := treadle.AddNode(b, "four", func(context.Context, trail) (treadle.Goto, error) { return treadle.To(step("five")), nil }, treadle.Destinations(step("five")))
	five := treadle.AddNode(b, "five", func(context.Context, note) (trod, error) { return trod{reduce.List[string]{"five"}}, nil })
	b.Edge(treadle.Start, one)
	treadle.AddBranch(b, one, func(context.Context, trail) (treadle.Goto, error) { return treadle.To(two, three), nil }, two, three)
	b.Join([]any{two, three}, four)
	b.Sequence(five, treadle.End)
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory(), Before: []any{five}}).Thread("t", treadle.After(one))
	_, err := thread.Run(t.Context(), trail{})
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || !slices.Equal(stop.After, []string{"one"}) {
		t.Fatalf("the run ended with %v, want a stop after one", err)
	}
	if _, err = thread.Update(t.Context(), trod{reduce.List[string]{"edit"}}, treadle.AsNode(one)); err != nil {
		t.Fatal(err)
	}
	_, err = thread.Continue(t.Context())
	if stop, ok = errors.AsType[*treadle.InterruptError](err); !ok || !slices.Equal(stop.Before, []string{"five"}) {
		t.Fatalf("the run ended with %v, want a stop before five", err)
	}
	out, err := thread.Continue(t.Context())
	if got := strings.Join(out.Log, " "); err != nil || got != "one edit three two five" {
		t.Errorf("the trail is %q, %v", got, err)
	}
}

// Parity: 15. Nodes come before sends, sends in the order of the nodes that
// sent them.
func TestSendsOfSeveralNodesKeepTheirOrder(t *testing.T) {
	b := treadle.New[words]("emit")
	for _, n := range []string{"1", "1.1", "3", "3.1"} {
		treadle.AddNode(b, n, say(n))
	}
	two := treadle.AddNode(b, "2", sayNumber)
	b.Edge(treadle.Start, "1")
	b.Edge(treadle.Start, "1.1")
	treadle.AddBranch(b, "1", func(context.Context, words) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(two, 1), treadle.Send(two, 2), treadle.To("3.1")), nil
	})
	treadle.AddBranch(b, "1.1", func(context.Context, words) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(two, 3), treadle.Send(two, 4)), nil
	})
	treadle.AddBranch(b, "2", func(context.Context, words) (treadle.Goto, error) { return treadle.To("3"), nil })
	out, err := ready(t, b, nil).Run(t.Context(), words{"0"})
	if got := strings.Join(out, ","); err != nil || got != "0,1,1.1,3.1,2|1,2|2,2|3,2|4,3" {
		t.Errorf("the output is %s, %v", got, err)
	}
}

// Parity: 16. A node started by a send sends again, in a list of commands that also
// contains plain updates.
func TestSendsCascade(t *testing.T) {
	b := treadle.New[words]("cascade")
	for _, n := range []string{"1", "1.1", "3", "3.1"} {
		treadle.AddNode(b, n, say(n))
	}
	var two treadle.Node[int]
	two = treadle.AddNode(b, "2", func(_ context.Context, n int) ([]treadle.Command[words], error) {
		wrote := treadle.Command[words]{Update: &words{fmt.Sprint("2|", n)}}
		if n >= 3 {
			return []treadle.Command[words]{wrote}, nil
		}
		return []treadle.Command[words]{{Goto: treadle.Send(two, n+2)}, wrote}, nil
	})
	b.Edge(treadle.Start, "1")
	b.Edge(treadle.Start, "1.1")
	treadle.AddBranch(b, "1", func(context.Context, words) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(two, 1), treadle.Send(two, 2), treadle.To("3.1")), nil
	})
	treadle.AddBranch(b, "1.1", func(context.Context, words) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(two, 3), treadle.Send(two, 4)), nil
	})
	treadle.AddBranch(b, "2", func(context.Context, words) (treadle.Goto, error) { return treadle.To("3"), nil })
	out, err := ready(t, b, nil).Run(t.Context(), words{"0"})
	if got := strings.Join(out, ","); err != nil || got != "0,1,1.1,3.1,2|1,2|2,2|3,2|4,3,2|3,2|4,3" {
		t.Errorf("the output is %s, %v", got, err)
	}
}

// A node reached by an edge and by a Send runs for each; the task of the Send receives
// only the sent input.
func TestNodeReachedByEdgeAndSend(t *testing.T) {
	type state struct {
		Log reduce.List[string]
		Tag string
	}
	type tagged struct{ Tag string }
	b := treadle.New[state]("both")
	treadle.AddNode(b, "a", func(context.Context, struct{}) (state2, error) {
		return state2{reduce.List[string]{"a"}, "state"}, nil
	})
	w := treadle.AddNode(b, "w", func(_ context.Context, in tagged) (trod, error) {
		return trod{reduce.List[string]{"w " + in.Tag}}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "w")
	treadle.AddBranch(b, "a", func(context.Context, state) (treadle.Goto, error) { return treadle.Send(w, tagged{"sent"}), nil }, "w")
	out, err := ready(t, b, nil).Run(t.Context(), state{})
	if got := strings.Join(out.Log, ", "); err != nil || got != "a, w state, w sent" {
		t.Errorf("the output is %s, %v", got, err)
	}
	if out.Tag != "state" {
		t.Errorf("the sent input became the state: %q", out.Tag)
	}
}

type state2 struct {
	Log reduce.List[string]
	Tag string
}

// For a join, all sends to a source count once.
func TestSendsCountOnceForJoin(t *testing.T) {
	b := trailOf("a", "s", "j")
	w := treadle.AddNode(b, "w", func(_ context.Context, n int) (trod, error) {
		return trod{reduce.List[string]{fmt.Sprint("w", n)}}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "s")
	treadle.AddBranch(b, "s", func(context.Context, trail) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(w, 1), treadle.Send(w, 2)), nil
	}, "w")
	b.Join([]any{"a", "w"}, "j")
	if got := walk(t, ready(t, b, nil)); got != "a s w1 w2 j" {
		t.Errorf("the trail is %q, want a s w1 w2 j", got)
	}
}

// A node may take what only Send supplies: a number, a struct, a pointer, an
// interface.
func TestSendInputType(t *testing.T) {
	type order struct {
		Item  string
		Count int
	}
	b := treadle.New[trail]("types")
	mark := func(s string) (trod, error) { return trod{reduce.List[string]{s}}, nil }
	number := treadle.AddNode(b, "number", func(_ context.Context, n int) (trod, error) { return mark(fmt.Sprint(n)) })
	structure := treadle.AddNode(b, "struct", func(_ context.Context, o order) (trod, error) { return mark(fmt.Sprint(o)) })
	pointer := treadle.AddNode(b, "pointer", func(_ context.Context, o *order) (trod, error) { return mark(fmt.Sprint(o.Count)) })
	face := treadle.AddNode(b, "interface", func(_ context.Context, s fmt.Stringer) (trod, error) { return mark(s.String()) })
	list := treadle.AddNode(b, "list", func(_ context.Context, l []string) (trod, error) { return mark(strings.Join(l, "+")) })
	anything := treadle.AddNode(b, "any", func(_ context.Context, v any) (trod, error) { return mark(fmt.Sprint(v)) })
	treadle.AddBranch(b, treadle.Start, func(context.Context, trail) (treadle.Goto, error) {
		return slices.Concat(
			treadle.Send(number, 7), treadle.Send(structure, order{"owl", 2}), treadle.Send(pointer, &order{"owl", 3}), treadle.Send[fmt.Stringer](face, 4*time.Second),
			treadle.Send(list, []string{"x", "y"}), treadle.Send("list", reduce.List[string]{"named", "type"}), treadle.Send[any](anything, "z"), treadle.Send[any](anything, nil),
		), nil
	})
	if got := walk(t, ready(t, b, nil)); got != "7 {owl 2} 3 4s x+y named+type z <nil>" {
		t.Errorf("the trail is %q", got)
	}
}

// Sends with an invalid destination fail the sending node.
func TestSendErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		to   treadle.Goto
		want string
	}{
		{"to the end", treadle.Send(treadle.End, 1), `goto "__end__": cannot send to the end`},
		{"to the start", treadle.Send(treadle.Start, 1), `goto "__start__": start cannot be a target`},
		{"to nowhere", treadle.Send("", 1), `goto: target has no name`},
		{"to an unknown node", treadle.Send("c", 1), `goto "c": unknown node; the graph has a, b`},
		{"of another type", treadle.Send("b", "one"), `goto "b": Send of string, but the node takes int`},
		{"of nothing", treadle.Send[any]("b", nil), `goto "b": Send without an input, but the node takes int`},
		{"with a timeout of zero", treadle.Send("b", 1).Timeout(0), `goto "b": timeout of a Send must be positive`},
		{"with a negative timeout", treadle.Send("b", 1).Timeout(-time.Second), `goto "b": timeout of a Send must be positive`},
		{"timeout without a send", treadle.To("b").Timeout(time.Second), `goto "b": timeout without a Send: set treadle.Timeout on the node, or send to it`},
		{"timeout of the end", treadle.To(treadle.End).Timeout(time.Second), `goto "__end__": timeout without a Send: set treadle.Timeout on the node, or send to it`},
		{"timeout for all of a goto", slices.Concat(treadle.Send("b", 1), treadle.To("b")).Timeout(time.Second), `goto "b": timeout without a Send: set treadle.Timeout on the node, or send to it`},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := treadle.New[trail]("sends")
			treadle.AddNode(b, "a", func(context.Context, struct{}) (treadle.Goto, error) { return test.to, nil }, treadle.Destinations("b"))
			treadle.AddNode(b, "b", func(context.Context, int) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
			_, err := ready(t, b, nil).Run(t.Context(), trail{})
			wantText(t, err, `graph "sends": node "a" (step 1): `+test.want)
			if _, ok := errors.AsType[*treadle.GotoError](err); !ok {
				t.Errorf("%T holds no GotoError", err)
			}
		})
	}
}

// A finished task's goto is as invalid when it comes from the checkpoint.
func TestInvalidTimeoutSurvivesInterrupt(t *testing.T) {
	b := treadle.New[trail]("sends")
	treadle.AddNode(b, "a", func(context.Context, struct{}) (treadle.Goto, error) {
		return treadle.To("c").Timeout(time.Second), nil
	}, treadle.Destinations("c"))
	treadle.AddNode(b, "b", func(ctx context.Context, _ struct{}) (struct{}, error) {
		_, err := treadle.Interrupt[string](ctx, "go?")
		return struct{}{}, err
	})
	treadle.AddNode(b, "c", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("1")
	if _, err := thread.Run(t.Context(), trail{}); !treadle.IsPause(err) {
		t.Fatal(err)
	}
	_, err := thread.Resume(t.Context(), "yes")
	wantText(t, err, `graph "sends": node "a" (step 1): goto "c": timeout without a Send: set treadle.Timeout on the node, or send to it`)
}

// A Send may have its own timeout, shorter or longer than the node's. It limits each
// attempt.
//
// Parity: 185.
func TestSendTimeout(t *testing.T) {
	build := func(fail *atomic.Int32) *treadle.Builder[trail] {
		b := treadle.New[trail]("timeouts")
		treadle.AddNode(b, "slow", func(ctx context.Context, seconds int) (trod, error) {
			fail.Add(1)
			select {
			case <-time.After(time.Duration(seconds) * time.Second):
				return trod{reduce.List[string]{fmt.Sprint(seconds)}}, nil
			case <-ctx.Done():
				return trod{}, ctx.Err()
			}
		}, treadle.Timeout(10*time.Second), treadle.Retry(treadle.RetryPolicy{Attempts: 2, NoJitter: true}))
		return b
	}
	for _, test := range []struct {
		name string
		send treadle.Goto
		ran  string
		runs int32
		want string
	}{
		{"the node's", treadle.Send("slow", 9), "9", 1, ""},
		{"the node's is over", treadle.Send("slow", 11), "", 2, `graph "timeouts": node "slow" (step 1, attempt 2): timed out after 10s`},
		{"shorter", treadle.Send("slow", 9).Timeout(5 * time.Second), "", 2, `graph "timeouts": node "slow" (step 1, attempt 2): timed out after 5s`},
		{"longer", treadle.Send("slow", 30).Timeout(time.Minute), "30", 1, ""},
		{"as JSON", throughJSON(t, treadle.Send("slow", 30).Timeout(time.Minute)), "30", 1, ""},
		{"each its own", slices.Concat(treadle.Send("slow", 30).Timeout(time.Minute), treadle.Send("slow", 9)), "30 9", 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int32
				b := build(&runs)
				treadle.AddBranch(b, treadle.Start, func(context.Context, trail) (treadle.Goto, error) { return test.send, nil }, "slow")
				out, err := ready(t, b, nil).Run(t.Context(), trail{})
				if test.want == "" && err != nil {
					t.Error(err)
				}
				if test.want != "" {
					wantText(t, err, test.want)
					if _, ok := errors.AsType[*treadle.TimeoutError](err); !ok {
						t.Errorf("%T holds no TimeoutError", err)
					}
				}
				if got := strings.Join(out.Log, " "); got != test.ran || runs.Load() != test.runs {
					t.Errorf("the trail is %q after %d attempts, want %q after %d", got, runs.Load(), test.ran, test.runs)
				}
			})
		})
	}
}

// throughJSON encodes and decodes a goto, as for a recorded task.
func throughJSON(t *testing.T, g treadle.Goto) (read treadle.Goto) {
	t.Helper()
	if err := json.Unmarshal([]byte(asJSON(t, g)), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// A target is JSON as LangGraph has it.
func TestGotoAsJSON(t *testing.T) {
	type in struct {
		N int `json:"n"`
	}
	g := slices.Concat(treadle.To("a"), treadle.Send("b", in{1}), treadle.Send[any]("c", nil).Timeout(1500*time.Millisecond))
	want := `["a",{"input":{"n":1},"node":"b"},{"input":null,"node":"c","timeout":1.5}]`
	same(t, "written", want, asJSON(t, g))
	same(t, "written again", want, asJSON(t, throughJSON(t, g)))
	for bad, want := range map[string]string{
		`[{"input":1}]`:                  `goto {"input":1}: want a node's name or {"node", "input"}`,
		`[{"node":"a","timeout":"1s"}]`:  `goto {"node":"a","timeout":"1s"}: want a node's name or {"node", "input"}`,
		`[{"node":"a","timeout":1e300}]`: `goto {"node":"a","timeout":1e300}: timeout: 1e+300 seconds overflow a duration`,
		`[{"node":"a","inptu":1}]`:       `goto {"node":"a","inptu":1}: want a node's name or {"node", "input"}`,
		`[["a","b"]]`:                    `goto ["a","b"]: want a node's name or {"node", "input"}`,
		`[null]`:                         `goto null: want a node's name or {"node", "input"}`,
	} {
		var g treadle.Goto
		wantText(t, json.Unmarshal([]byte(bad), &g), want)
	}
	if _, err := json.Marshal(treadle.To("a").Timeout(time.Second)); err == nil || !strings.Contains(err.Error(), `goto "a": timeout without a Send`) {
		t.Errorf("a timeout without a send is encoded: %v", err)
	}
}

// A tool or another package's function may return a command of any type.
func TestCommandAndUpdateOfAnyType(t *testing.T) {
	type writes struct {
		Log  reduce.List[string] `json:"log"`
		Note *string
		N    *int `json:"n"`
	}
	n := 3
	update := writes{Log: reduce.List[string]{"a"}, N: &n}
	c, ok := treadle.CommandOf(treadle.Command[writes]{Update: &update, Goto: treadle.To("b"), Parent: true})
	if !ok || c.Update == nil || !c.Parent {
		t.Fatalf("the command is %+v, %v", c, ok)
	}
	same(t, "goto", `["b"]`, asJSON(t, c.Goto))
	for name, given := range map[string]any{"the command's": *c.Update, "a pointer": &update} {
		got, err := treadle.UpdateOf(given)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, treadle.Update{"log": reduce.List[string]{"a"}, "n": 3}, got)
	}
	note := "x"
	got, err := treadle.UpdateOf(writes{Note: &note})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "without a JSON name", treadle.Update{"log": reduce.List[string](nil), "Note": "x"}, got)
	if got, err = treadle.UpdateOf(treadle.Update{"any": 1}); err != nil {
		t.Fatal(err)
	}
	same(t, "an update", treadle.Update{"any": 1}, got)
	_, err = treadle.UpdateOf(3)
	wantText(t, err, "invalid update int: want a struct of the fields to write")
	if c, ok = treadle.CommandOf(treadle.Command[writes]{}); !ok || c.Update != nil {
		t.Errorf("a command without an update is %+v, %v", c, ok)
	}
	for _, other := range []any{nil, update, treadle.To("b"), []treadle.Command[writes]{{}}} {
		if c, ok := treadle.CommandOf(other); ok {
			t.Errorf("%T is the command %+v", other, c)
		}
	}
}

// Sends are part of the checkpoint: a run that stopped before them continues with them,
// including inputs and timeouts.
func TestSendsSurviveStop(t *testing.T) {
	type order struct {
		Item string `json:"item"`
		N    int    `json:"n"`
	}
	synctest.Test(t, func(t *testing.T) {
		b := treadle.New[trail]("stop")
		treadle.AddNode(b, "top", tread("top"))
		w := treadle.AddNode(b, "w", func(ctx context.Context, o order) (trod, error) {
			deadline := treadle.InfoFrom(ctx).Node
			select {
			case <-time.After(time.Duration(o.N) * time.Second):
			case <-ctx.Done():
				return trod{}, ctx.Err()
			}
			return trod{reduce.List[string]{fmt.Sprint(deadline, " ", o.Item, o.N)}}, nil
		})
		b.Edge(treadle.Start, "top")
		treadle.AddBranch(b, "top", func(context.Context, trail) (treadle.Goto, error) {
			return slices.Concat(treadle.Send(w, order{"owl", 1}), treadle.Send(w, order{"cat", 5}).Timeout(2*time.Second)), nil
		}, "w")
		g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
		_, err := g.Thread("1", treadle.StepLimit(1)).Run(t.Context(), trail{})
		if e, ok := errors.AsType[*treadle.StepLimitError](err); !ok || !slices.Equal(e.Next, []string{"w", "w"}) {
			t.Fatalf("the run ended with %v, want the limit before w and w", err)
		}
		out, err := g.Thread("1").Continue(t.Context())
		wantText(t, err, `graph "stop": node "w" (step 2): timed out after 2s`)
		if got := strings.Join(out.Log, ", "); got != "top" {
			t.Errorf("the trail is %q", got)
		}
		snap, err := g.Thread("1").State(t.Context())
		if err != nil || len(snap.Tasks) != 2 {
			t.Fatalf("the state is %+v, %v", snap, err)
		}
		if got := snap.Tasks[0].Result.String(); got != `{"log":["w owl1"]}` {
			t.Errorf("the finished send left %s", got)
		}
		if !slices.Equal(snap.Next, []string{"w"}) || snap.Tasks[1].Error == "" {
			t.Errorf("the tasks are %+v", snap.Tasks)
		}
	})
}

// Finished sends do not run again after a sibling has failed.
//
// Parity: 118.
func TestFinishedSendsDoNotRunAgain(t *testing.T) {
	var runs [4]atomic.Int32
	b := treadle.New[trail]("dedupe")
	treadle.AddNode(b, "top", tread("top"))
	w := treadle.AddNode(b, "w", func(_ context.Context, n int) (trod, error) {
		if runs[n].Add(1) == 1 && n == 3 {
			return trod{}, errors.New("not yet")
		}
		return trod{reduce.List[string]{fmt.Sprint("w", n)}}, nil
	})
	treadle.AddNode(b, "z", tread("z"))
	b.Edge(treadle.Start, "top")
	treadle.AddBranch(b, "top", func(context.Context, trail) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(w, 1), treadle.Send(w, 2), treadle.Send(w, 3), treadle.To("z")), nil
	})
	b.Edge("w", "z")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory(), MaxConcurrency: 1}).Thread("1")
	_, err := thread.Run(t.Context(), trail{})
	wantText(t, err, `graph "dedupe": node "w" (step 2): not yet`)
	snap, err := thread.State(t.Context())
	if err != nil || !slices.Equal(snap.Next, []string{"w"}) {
		t.Fatalf("next is %v, %v, want the failed w", snap.Next, err)
	}
	out, err := thread.Continue(t.Context())
	if got := strings.Join(out.Log, " "); err != nil || got != "top z w1 w2 w3 z" {
		t.Errorf("the trail is %q, %v", got, err)
	}
	for n, want := range []int32{0, 1, 1, 2} {
		if got := runs[n].Load(); got != want {
			t.Errorf("send %d ran %d times, want %d", n, got, want)
		}
	}
}

// Untracked fields are sent but never saved. Only fields of the input itself are omitted,
// not fields of the values inside.
//
// Parity: 107.
func TestSendWithUntrackedField(t *testing.T) {
	type inner struct {
		Conn string `json:"conn"`
	}
	type state struct {
		Log   reduce.List[string] `json:"log"`
		Conn  chan string         `json:"conn" treadle:"untracked"`
		Inner inner               `json:"inner"`
	}
	type sent struct {
		Conn  chan string
		Inner inner
	}
	saver := checkpoint.NewMemory()
	b := treadle.New[state]("untracked")
	treadle.AddNode(b, "top", func(context.Context, struct{}) (struct{ Conn chan string }, error) {
		c := make(chan string, 2)
		c <- "hello"
		return struct{ Conn chan string }{c}, nil
	})
	fails := true
	w := treadle.AddNode(b, "w", func(_ context.Context, in sent) (trod, error) {
		if in.Conn == nil {
			return trod{reduce.List[string]{"no connection, " + in.Inner.Conn}}, nil
		}
		if fails {
			return trod{}, errors.New("once")
		}
		return trod{reduce.List[string]{<-in.Conn + ", " + in.Inner.Conn}}, nil
	})
	b.Edge(treadle.Start, "top")
	treadle.AddBranch(b, "top", func(_ context.Context, s state) (treadle.Goto, error) {
		return treadle.Send(w, sent{s.Conn, inner{"kept"}}), nil
	}, "w")
	g := ready(t, b, &treadle.Options{Saver: saver})

	fails = false
	out, err := g.Thread("1").Run(t.Context(), state{})
	if err != nil || !slices.Equal(out.Log, words{"hello, kept"}) {
		t.Errorf("in one run the log is %v, %v", out.Log, err)
	}
	for cp, err := range saver.List(t.Context(), checkpoint.Query{Thread: "1"}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := cp.Values["conn"]; ok {
			t.Errorf("checkpoint %d holds the untracked field", cp.Step)
		}
		if cp.Step == 1 && !strings.Contains(string(cp.Control), `"input":{"Inner":{"conn":"kept"}}`) {
			t.Errorf("the input was saved as %s", cp.Control)
		}
	}

	// After a stop, the untracked part is gone, and the rest remains.
	fails = true
	if _, err := g.Thread("2").Run(t.Context(), state{}); err == nil {
		t.Fatal("the run does not fail")
	}
	out, err = g.Thread("2").Continue(t.Context())
	if err != nil || !slices.Equal(out.Log, words{"no connection, kept"}) {
		t.Errorf("continued, the log is %v, %v", out.Log, err)
	}
}

// What a dynamic node was sent has the types of the fields again when it comes
// out of a checkpoint.
func TestDynamicSendKeepsItsTypes(t *testing.T) {
	b := treadle.New[treadle.Update]("dynamic")
	treadle.AddField[reduce.List[string]](b, "log")
	treadle.AddField[int](b, "n")
	treadle.AddNode(b, "top", func(context.Context, treadle.Update) (treadle.Update, error) { return nil, nil })
	treadle.AddNode(b, "w", func(_ context.Context, in treadle.Update) (treadle.Update, error) {
		return treadle.Update{"log": reduce.List[string]{fmt.Sprintf("%T %T %T", in["n"], in["log"], in["other"])}}, nil
	})
	b.Edge(treadle.Start, "top")
	treadle.AddBranch(b, "top", func(context.Context, treadle.Update) (treadle.Goto, error) {
		return treadle.Send("w", treadle.Update{"n": 3, "log": reduce.List[string]{"x"}, "other": "text"}), nil
	}, "w")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	if _, err := g.Thread("1", treadle.StepLimit(1)).Run(t.Context(), treadle.Update{}); err == nil {
		t.Fatal("a limit of 1 is enough")
	}
	out, err := g.Thread("1").Continue(t.Context())
	if want := "int reduce.List[string] string"; err != nil || out["log"].(reduce.List[string])[0] != want {
		t.Errorf("the node received %v, %v, want %s", out["log"], err, want)
	}
}

// Parity: 3. Commands alone lead through a graph without edges.
func TestCommandsLeadWithoutEdges(t *testing.T) {
	type state struct {
		Foo string `json:"foo"`
		Bar string `json:"bar"`
	}
	type foo struct{ Foo string }
	type bar struct{ Bar string }
	b := treadle.New[state]("commands")
	treadle.AddNode(b, "a", func(context.Context, state) (treadle.Command[foo], error) {
		return treadle.Command[foo]{Update: &foo{"bar"}, Goto: treadle.To("b")}, nil
	}, treadle.Destinations("b"))
	treadle.AddNode(b, "b", func(context.Context, state) (treadle.Command[bar], error) {
		return treadle.Command[bar]{Update: &bar{"baz"}, Goto: treadle.To(treadle.End)}, nil
	}, treadle.Destinations(treadle.End))
	b.Edge(treadle.Start, "a")
	out, err := ready(t, b, nil).Run(t.Context(), state{})
	if err != nil || out != (state{"bar", "baz"}) {
		t.Errorf("the output is %+v, %v", out, err)
	}
}

// Goto, a struct with a field of type Goto, and Command are three ways to say
// the same.
func TestThreeWaysToGo(t *testing.T) {
	type moved struct {
		Log  reduce.List[string]
		Next treadle.Goto
	}
	for name, add := range map[string]func(*treadle.Builder[trail]){
		"goto": func(b *treadle.Builder[trail]) {
			treadle.AddNode(b, "a", func(context.Context, trail) (treadle.Goto, error) { return treadle.To("c"), nil }, treadle.Destinations("c"))
		},
		"field": func(b *treadle.Builder[trail]) {
			treadle.AddNode(b, "a", func(context.Context, trail) (moved, error) {
				return moved{reduce.List[string]{"a"}, treadle.To("c")}, nil
			}, treadle.Destinations("c"))
		},
		"pointer": func(b *treadle.Builder[trail]) {
			treadle.AddNode(b, "a", func(context.Context, trail) (*moved, error) {
				return &moved{reduce.List[string]{"a"}, treadle.To("c")}, nil
			}, treadle.Destinations("c"))
		},
		"command": func(b *treadle.Builder[trail]) {
			treadle.AddNode(b, "a", func(context.Context, trail) (treadle.Command[trod], error) {
				return treadle.Command[trod]{Update: &trod{reduce.List[string]{"a"}}, Goto: treadle.To("c")}, nil
			}, treadle.Destinations(treadle.Label("c", "on")))
		},
	} {
		b := trailOf("c")
		add(b)
		b.Edge(treadle.Start, "a")
		want := "a c"
		if name == "goto" {
			want = "c"
		}
		if got := walk(t, ready(t, b, nil)); got != want {
			t.Errorf("%s: the trail is %q, want %q", name, got, want)
		}
	}
}

// A goto adds to the edges: both run. To the end it adds nothing, to where an
// edge leads anyway it adds nothing either.
func TestGotoAddsToEdges(t *testing.T) {
	for _, test := range []struct {
		to   treadle.Goto
		want string
	}{
		{nil, "a b"},
		{treadle.To("c"), "a b c"},
		{treadle.To(treadle.End), "a b"},
		{treadle.To("b"), "a b"},
		{treadle.To("c", "c", treadle.End), "a b c"},
		{treadle.To("a"), "a a b b"}, // a runs again alongside b, once
	} {
		b := trailOf("b", "c")
		first := true
		treadle.AddNode(b, "a", func(context.Context, struct{}) (treadle.Command[trod], error) {
			c := treadle.Command[trod]{Update: &trod{reduce.List[string]{"a"}}}
			if first {
				c.Goto = test.to
			}
			first = false
			return c, nil
		}, treadle.Destinations("a", "b", "c", treadle.End), treadle.Additive())
		b.Edge(treadle.Start, "a")
		b.Edge("a", "b")
		if got := walk(t, ready(t, b, nil)); got != test.want {
			t.Errorf("a goto to %v gives the trail %q, want %q", test.to, got, test.want)
		}
	}
}

// A goto goes to several nodes and sends in one.
func TestGotoSeveral(t *testing.T) {
	b := trailOf("b", "c")
	treadle.AddNode(b, "w", func(_ context.Context, n int) (trod, error) {
		return trod{reduce.List[string]{fmt.Sprint("w", n)}}, nil
	})
	treadle.AddNode(b, "a", func(context.Context, struct{}) (treadle.Command[trod], error) {
		return treadle.Command[trod]{Update: &trod{reduce.List[string]{"a"}}, Goto: append(treadle.To("c", "b"), treadle.Send("w", 1)...)}, nil
	}, treadle.Destinations("b", "c", "w"))
	b.Edge(treadle.Start, "a")
	if got := walk(t, ready(t, b, nil)); got != "a b c w1" {
		t.Errorf("the trail is %q, want a b c w1", got)
	}
}

// Destinations serve drawings and checks; they restrict nothing. Without them
// every node can be reached.
//
// Parity: 87.
func TestDestinationsDoNotRestrict(t *testing.T) {
	b := trailOf("b", "c")
	treadle.AddNode(b, "a", func(context.Context, trail) (treadle.Goto, error) { return treadle.To("c"), nil }, treadle.Destinations("b"))
	b.Edge(treadle.Start, "a")
	b.Edge("b", "c")
	if got := walk(t, ready(t, b, nil)); got != "c" {
		t.Errorf("the trail is %q, want c", got)
	}
	free := trailOf("b", "c")
	treadle.AddNode(free, "a", func(context.Context, trail) (treadle.Goto, error) { return treadle.To("c"), nil })
	free.Edge(treadle.Start, "a")
	if got := walk(t, ready(t, free, nil)); got != "c" {
		t.Errorf("without destinations the trail is %q, want c", got)
	}
}

// A goto to an unknown node fails.
func TestGotoUnknownNode(t *testing.T) {
	b := treadle.New[trail]("lost")
	treadle.AddNode(b, "a", func(context.Context, trail) (treadle.Goto, error) { return treadle.To("ghost"), nil })
	b.Edge(treadle.Start, "a")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("1")
	_, err := thread.Run(t.Context(), trail{N: 3})
	wantText(t, err, `graph "lost": node "a" (step 1): goto "ghost": unknown node; the graph has a`)
	e, ok := errors.AsType[*treadle.GotoError](err)
	if !ok || e.Graph != "lost" || e.To != "ghost" {
		t.Errorf("the error is %+v", e)
	}
	snap, err := thread.State(t.Context())
	if err != nil || snap.Step != 0 || !slices.Equal(snap.Next, []string{"a"}) {
		t.Errorf("the thread is at step %d with %v next, %v, want the step undone", snap.Step, snap.Next, err)
	}
}

// Parity: 59, 68, 106. A list of commands is applied in order, gotos and
// updates. In streams the updates of one field are a list; a task folds them.
func TestListOfCommands(t *testing.T) {
	type both struct {
		Log *reduce.List[string]
		N   *int
	}
	seven := 7
	log := func(s string) *reduce.List[string] { return &reduce.List[string]{s} }
	build := func() *treadle.Builder[trail] {
		b := trailOf("b")
		treadle.AddNode(b, "a", func(context.Context, trail) ([]treadle.Command[both], error) {
			return []treadle.Command[both]{
				{Update: &both{Log: log("one")}, Goto: treadle.To("b")},
				{Update: &both{Log: log("two"), N: &seven}},
				{Update: &both{Log: log("three")}},
			}, nil
		}, treadle.Destinations("b"))
		b.Edge(treadle.Start, "a")
		return b
	}
	g := ready(t, build(), nil)
	out, err := g.Run(t.Context(), trail{})
	if err != nil || !slices.Equal(out.Log, words{"one", "two", "three", "b"}) || out.N != 7 {
		t.Errorf("the output is %+v, %v", out, err)
	}
	want := []string{`{"a":[{"log":["one"]},{"log":["two"]},{"n":7},{"log":["three"]}]}`, `{"b":{"log":["b"]}}`}
	if diff := cmp.Diff(want, updatesOf(t, g, trail{}, treadle.ModeUpdates)); diff != "" {
		t.Errorf("the updates differ (-want +got):\n%s", diff)
	}
	for ev, err := range g.Stream(t.Context(), trail{}, treadle.Modes(treadle.ModeTasks)) {
		if err != nil {
			t.Fatal(err)
		}
		done, ok := ev.(treadle.TaskFinished)
		if !ok || done.Node != "a" {
			continue
		}
		raw, err := dynamic.Wire{}.Encode(ev)
		if err != nil {
			t.Fatal(err)
		}
		var shown struct{ Result json.RawMessage }
		if err := json.Unmarshal(raw, &shown); err != nil {
			t.Fatal(err)
		}
		if want := `{"log":{"$writes":[["one"],["two"],["three"]]},"n":7}`; string(shown.Result) != want {
			t.Errorf("the task's result is %s, want %s", shown.Result, want)
		}
	}
}

// Parity: 59, 68. The same in a graph whose state is one value.
func TestListOfCommandsOnOneValue(t *testing.T) {
	b := treadle.New[words]("root")
	treadle.AddNode(b, "a", func(context.Context, words) ([]treadle.Command[words], error) {
		return []treadle.Command[words]{{Update: &words{"one"}}, {Update: &words{"two"}}, {Goto: treadle.To("b"), Update: &words{"three"}}}, nil
	})
	treadle.AddNode(b, "b", say("b"))
	b.Edge(treadle.Start, "a")
	g := ready(t, b, nil)
	out, err := g.Run(t.Context(), words{"in"})
	if err != nil || !slices.Equal(out, words{"in", "one", "two", "three", "b"}) {
		t.Errorf("the output is %v, %v", out, err)
	}
	want := []string{`{"a":[["one"],["two"],["three"]]}`, `{"b":["b"]}`}
	if diff := cmp.Diff(want, updatesOf(t, g, words{"in"}, treadle.ModeUpdates)); diff != "" {
		t.Errorf("the updates differ (-want +got):\n%s", diff)
	}
}

// Two commands that write a field which holds one value are a conflict with
// oneself.
func TestCommandListWithDuplicateWrite(t *testing.T) {
	type n struct{ N int }
	b := treadle.New[trail]("twice")
	treadle.AddNode(b, "a", func(context.Context, trail) ([]treadle.Command[n], error) {
		return []treadle.Command[n]{{Update: &n{1}}, {Update: &n{2}}}, nil
	}, treadle.Destinations(treadle.End))
	b.Edge(treadle.Start, "a")
	_, err := ready(t, b, nil).Run(t.Context(), trail{})
	wantText(t, err, `graph "twice": node "a" (step 1): field n: written twice by a in one step without a reducer: give its type a Reduce method`)
}

// An empty command, and an empty list of them, say nothing: the edges lead on.
//
// Quirk B6: an empty Command is fine.
func TestEmptyCommandSaysNothing(t *testing.T) {
	b := trailOf("c")
	treadle.AddNode(b, "a", func(context.Context, trail) (treadle.Command[trod], error) { return treadle.Command[trod]{}, nil }, treadle.Additive())
	treadle.AddNode(b, "b", func(context.Context, trail) ([]treadle.Command[trod], error) { return nil, nil }, treadle.Additive())
	b.Edge(treadle.Start, "a")
	b.Sequence("a", "b", "c")
	if got := walk(t, ready(t, b, nil)); got != "c" {
		t.Errorf("the trail is %q, want c", got)
	}
}

// Parity: 60. What a command updates may be any struct of fields, an Update, or
// a pointer that is optional.
func TestCommandUpdateTypes(t *testing.T) {
	type full struct {
		Log reduce.List[string]
		N   *int
	}
	b := treadle.New[trail]("updates")
	treadle.AddNode(b, "a", func(context.Context, trail) (treadle.Command[full], error) {
		return treadle.Command[full]{Update: &full{Log: reduce.List[string]{"a"}}, Goto: treadle.To("b")}, nil
	}, treadle.Destinations("b"))
	treadle.AddNode(b, "b", func(context.Context, trail) (treadle.Command[treadle.Update], error) {
		return treadle.Command[treadle.Update]{Update: &treadle.Update{"log": reduce.List[string]{"b"}}}, nil
	}, treadle.Destinations(treadle.End))
	b.Edge(treadle.Start, "a")
	out, err := ready(t, b, nil).Run(t.Context(), trail{N: 4})
	if err != nil || !slices.Equal(out.Log, words{"a", "b"}) || out.N != 4 {
		t.Errorf("the output is %+v, %v", out, err)
	}
}

// A command for the parent needs one.
func TestCommandWithoutParent(t *testing.T) {
	b := treadle.New[trail]("alone")
	treadle.AddNode(b, "a", func(context.Context, trail) (treadle.Command[trod], error) {
		return treadle.Command[trod]{Goto: treadle.To("b"), Parent: true}, nil
	}, treadle.Handoff("b"))
	b.Edge(treadle.Start, "a")
	_, err := ready(t, b, nil).Run(t.Context(), trail{})
	wantText(t, err, `node "a" sent a command to the parent graph, but its graph does not run inside another graph`)
}

// Parity: 62. A planner that goes to one or several next nodes.
func TestPlannerLoop(t *testing.T) {
	type state struct {
		Plan [][]string          `json:"plan"`
		Log  reduce.List[string] `json:"log"`
	}
	type planned struct {
		Plan [][]string
		Log  reduce.List[string]
	}
	b := treadle.New[state]("planner")
	treadle.AddNode(b, "planner", func(_ context.Context, s state) (treadle.Command[planned], error) {
		if len(s.Plan) == 0 {
			return treadle.Command[planned]{Update: &planned{Log: reduce.List[string]{"done"}}, Goto: treadle.To(treadle.End)}, nil
		}
		return treadle.Command[planned]{Update: &planned{s.Plan[1:], reduce.List[string]{"plan"}}, Goto: treadle.To(treadle.Nodes(s.Plan[0])...)}, nil
	})
	b.Edge(treadle.Start, "planner")
	for _, n := range []string{"one", "two", "three", "four"} {
		treadle.AddNode(b, n, tread(n))
		b.Edge(n, "planner")
	}
	out, err := ready(t, b, nil).Run(t.Context(), state{Plan: [][]string{{"one"}, {"two", "three"}, {"four"}}})
	if got := strings.Join(out.Log, " "); err != nil || got != "plan one plan three two plan four done" {
		t.Errorf("the trail is %q, %v", got, err)
	}
}

// A command on a new thread is applied once, and its targets run next. Quirk B5.
func TestCommandOnNewThreadAppliesOnce(t *testing.T) {
	b := trailOf("a", "b")
	treadle.AddBranch(b, treadle.Start, func(context.Context, trail) (treadle.Goto, error) { return treadle.To("a"), nil }, "a", "b")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("1")
	_, err := thread.Update(t.Context(), treadle.Command[trod]{Update: &trod{reduce.List[string]{"edit"}}, Goto: treadle.To("b")})
	if err != nil {
		t.Fatal(err)
	}
	out, err := thread.Continue(t.Context())
	if got := strings.Join(out.Log, " "); err != nil || got != "edit a b" {
		t.Errorf("the trail is %q, %v, want edit a b", got, err)
	}
}

// Parity: 120. A hundred sends from a command are limited like those from a branch.
func TestMaxConcurrencyBoundsCommandSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		b := treadle.New[trail]("many")
		many := treadle.AddNode(b, "many", func(_ context.Context, i int) (trod, error) {
			if at := now.Add(1); at > most.Load() {
				most.Store(at)
			}
			defer now.Add(-1)
			<-time.After(time.Second)
			return trod{reduce.List[string]{fmt.Sprint(i)}}, nil
		})
		treadle.AddNode(b, "top", func(context.Context, trail) (treadle.Command[trod], error) {
			var to treadle.Goto
			for i := range 100 {
				to = append(to, treadle.Send(many, i)...)
			}
			return treadle.Command[trod]{Goto: to}, nil
		}, treadle.Destinations("many"))
		b.Edge(treadle.Start, "top")
		out, err := ready(t, b, nil).With(treadle.MaxConcurrency(10)).Run(t.Context(), trail{})
		if err != nil || most.Load() != 10 || len(out.Log) != 100 {
			t.Fatalf("%d concurrent calls, %d results, %v", most.Load(), len(out.Log), err)
		}
		for i, s := range out.Log {
			if s != fmt.Sprint(i) {
				t.Fatalf("result %d is %s", i, s)
			}
		}
	})
}
