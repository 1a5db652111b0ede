package parity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

type over struct {
	Log treadle.Overwrite[reduce.List[string]]
}

func overwrites(entry string) func(context.Context, logState) (over, error) {
	return func(context.Context, logState) (over, error) {
		return over{treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{entry}}}, nil
	}
}

type keepOf struct{ Keep string }
type briefOf struct{ Brief string }

// brief builds the graph that looks at a short-lived field after one step and
// after two.
func brief[S any](keep func(S) string, look func(S) string) build {
	return graphOf(func(b *treadle.Builder[S]) {
		looks := func(name string) func(context.Context, S) (keepOf, error) {
			return func(_ context.Context, s S) (keepOf, error) {
				seen := look(s)
				if seen == "" {
					seen = "none"
				}
				return keepOf{fmt.Sprintf("%s|%s:%s", keep(s), name, seen)}, nil
			}
		}
		treadle.AddNode(b, "a", func(context.Context, S) (briefOf, error) { return briefOf{"x"}, nil })
		treadle.AddNode(b, "b", looks("b"))
		treadle.AddNode(b, "c", looks("c"))
		b.Sequence(start, "a", "b", "c")
	})
}

type ephemeralState struct {
	Keep  string `json:"keep"`
	Brief string `json:"brief" treadle:"ephemeral"`
}

type untrackedState struct {
	Keep  string `json:"keep"`
	Brief string `json:"brief" treadle:"untracked"`
}

// namedState insists on a name.
type namedState struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

func (s namedState) Validate() error {
	if s.Name == "" {
		return errors.New("name is missing")
	}
	return nil
}

type nameOf struct{ Name string }
type countOf struct{ Count int }

var channelCases = map[string]build{
	"private_channel": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Shown string `json:"shown"`
		}
		type private struct {
			Hidden string `json:"hidden"`
		}
		type both struct{ Shown, Hidden string }
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(context.Context, state) (both, error) { return both{"a", "secret"}, nil })
		treadle.AddNode(b, "b", func(_ context.Context, s private) (state, error) { return state{"b saw " + s.Hidden}, nil })
		treadle.AddNode(b, "c", func(_ context.Context, s state) (state, error) { return state{s.Shown + "; c sees shown"}, nil })
		b.Sequence(start, "a", "b", "c")
		return b.Compile(o)
	},
	"input_output_schema": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Question string              `json:"question"`
			Answer   string              `json:"answer"`
			Steps    reduce.List[string] `json:"steps"`
		}
		type in struct{ Question string }
		type out struct{ Answer string }
		type step struct{ Steps reduce.List[string] }
		type answered struct {
			Answer string
			Steps  reduce.List[string]
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "think", func(context.Context, state) (step, error) { return step{reduce.List[string]{"thought"}}, nil })
		treadle.AddNode(b, "answer", func(_ context.Context, s state) (answered, error) {
			return answered{s.Question + " because", reduce.List[string]{"answered"}}, nil
		})
		b.Sequence(start, "think", "answer", end)
		return treadle.Compile[in, out](b, o)
	},
	"overwrite": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		treadle.AddNode(b, "b", overwrites("b"))
		add(b, "c")
		b.Sequence(start, "a", "b", "c")
	}),
	"overwrite_map_form": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", func(context.Context, logState) (treadle.Update, error) {
			return treadle.Update{"log": json.RawMessage(`{"__overwrite__":["a"]}`)}, nil
		})
		b.Edge(start, "a")
	}),
	"overwrite_parallel": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		treadle.AddNode(b, "b", overwrites("b"))
		add(b, "c", "d")
		b.Sequence(start, "a", "b", "d")
		b.Sequence("a", "c", "d")
	}),
	"overwrite_twice": logGraph(func(b *treadle.Builder[logState]) {
		for _, name := range []string{"a", "b"} {
			treadle.AddNode(b, name, overwrites(name))
			b.Edge(start, name)
		}
	}),
	"overwrite_last_value": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			V int `json:"v"`
		}
		type out struct{ V treadle.Overwrite[int] }
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(context.Context, state) (out, error) { return out{treadle.Overwrite[int]{Value: 5}}, nil })
		b.Edge(start, "a")
		return b.Compile(o)
	},
	"root_list": graphOf(func(b *treadle.Builder[rootList]) {
		treadle.AddNode(b, "a", says("a"))
		treadle.AddNode(b, "b", silent[rootList])
		treadle.AddNode(b, "c", func(context.Context, rootList) (rootList, error) { return rootList{"c1", "c2"}, nil })
		b.Sequence(start, "a", "b", "c", end)
	}),
	"root_number": graphOf(func(b *treadle.Builder[int]) {
		treadle.AddNode(b, "inc", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		treadle.AddNode(b, "double", func(_ context.Context, n int) (int, error) { return n * 2, nil })
		b.Sequence(start, "inc", "double")
	}),
	"returns_none": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		treadle.AddNode(b, "silent", silent[logState])
		add(b, "b")
		b.Sequence(start, "a", "silent", "b")
	}),
	"returns_empty": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", func(context.Context, logState) (treadle.Update, error) { return treadle.Update{}, nil })
		treadle.AddNode(b, "b", func(context.Context, logState) (treadle.Update, error) { return treadle.Update{"unknown": 1}, nil })
		treadle.AddNode(b, "c", writes[logState]())
		b.Sequence(start, "a", "b", "c")
	}),
	"returns_hidden_key": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Out   string `json:"out"`
			Inner string `json:"inner"`
		}
		type out struct{ Out string }
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(context.Context, state) (struct{ Inner string }, error) { return struct{ Inner string }{"x"}, nil })
		treadle.AddNode(b, "b", func(_ context.Context, s state) (out, error) { return out{s.Out + s.Inner}, nil })
		b.Sequence(start, "a", "b")
		return treadle.Compile[state, out](b, o)
	},
	"returns_invalid": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", func(context.Context, logState) (string, error) { return "oops", nil })
		b.Edge(start, "a")
	}),
	"nothing_written": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			V string `json:"v"`
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", silent[state])
		b.Edge(start, "a")
		return b.Compile(o)
	},
	"ephemeral": brief(func(s ephemeralState) string { return s.Keep }, func(s ephemeralState) string { return s.Brief }),
	"untracked": brief(func(s untrackedState) string { return s.Keep }, func(s untrackedState) string { return s.Brief }),
	"managed_values": logGraph(func(b *treadle.Builder[logState]) {
		look := func(name string) func(context.Context, logState) (entries, error) {
			return func(ctx context.Context, _ logState) (entries, error) {
				left := treadle.InfoFrom(ctx).RemainingSteps
				return logged(fmt.Sprintf("%s left=%d last=%v", name, left, left == 1)), nil
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			treadle.AddNode(b, name, look(name))
		}
		b.Sequence(start, "a", "b", "c")
	}),
	"managed_loop": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", func(ctx context.Context, _ logState) (entries, error) {
			if treadle.InfoFrom(ctx).RemainingSteps == 1 {
				return logged("stopping"), nil
			}
			return logged("work"), nil
		})
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", func(_ context.Context, s logState) (treadle.Goto, error) {
			if s.Log[len(s.Log)-1] == "stopping" {
				return treadle.To(end), nil
			}
			return treadle.To("a"), nil
		}, "a", end)
	}),
	"reducer_sees_input_first": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Total reduce.Sum[int] `json:"total"`
		}
		type out struct{ Total reduce.Sum[int] }
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(context.Context, state) (out, error) { return out{reduce.SumOf(2)}, nil })
		treadle.AddNode(b, "b", func(_ context.Context, s state) (out, error) { return out{reduce.SumOf(s.Total.N * 10)}, nil })
		b.Sequence(start, "a", "b")
		return b.Compile(o)
	},
	"struct_state": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Name  string              `json:"name"`
			Count int                 `json:"count"`
			Log   reduce.List[string] `json:"log"`
		}
		type out struct {
			Count int
			Log   reduce.List[string]
		}
		// The whole state cannot be returned, because log would be added to
		// itself; this has the same fields.
		type whole struct {
			Name  string
			Count int
			Log   reduce.List[string]
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(_ context.Context, s state) (out, error) {
			return out{s.Count + 1, reduce.List[string]{s.Name}}, nil
		})
		treadle.AddNode(b, "b", func(_ context.Context, s state) (whole, error) { return whole{Name: s.Name + "!"}, nil })
		b.Sequence(start, "a", "b")
		return b.Compile(o)
	},
	"validated_state": graphOf(func(b *treadle.Builder[namedState]) {
		treadle.AddNode(b, "a", func(_ context.Context, s namedState) (countOf, error) { return countOf{s.Count + 1}, nil })
		treadle.AddNode(b, "b", func(_ context.Context, s namedState) (nameOf, error) { return nameOf{s.Name + "!"}, nil })
		b.Sequence(start, "a", "b")
	}),
	"node_input_schema": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			X   int                 `json:"x"`
			Y   int                 `json:"y"`
			Log reduce.List[string] `json:"log"`
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", writes[struct{ X int }]("a:x"))
		treadle.AddNode(b, "b", writes[state]("b:log,x,y"))
		b.Sequence(start, "a", "b")
		return b.Compile(o)
	},
}
