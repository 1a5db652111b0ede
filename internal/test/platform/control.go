package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
)

type review struct {
	Topic    string          `json:"topic"`
	Approval json.RawMessage `json:"approval"`
	Log      list            `json:"log"`
}

type logged struct {
	Log list `json:"log"`
}

type reviewed struct {
	Approval json.RawMessage `json:"approval"`
	Log      list            `json:"log"`
}

type question struct {
	Question string `json:"question"`
	Topic    string `json:"topic"`
}

// newHITL returns a graph that asks a person between two steps ("human in the loop").
func newHITL(opts *treadle.Options) (treadle.AnyGraph, error) {
	b := treadle.New[review]("hitl")
	treadle.AddNode(b, "propose", func(_ context.Context, s review) (logged, error) {
		return logged{list{"proposed:" + s.Topic}}, nil
	})
	treadle.AddNode(b, "review", func(ctx context.Context, s review) (reviewed, error) {
		answer, err := treadle.Interrupt[json.RawMessage](ctx, question{"approve?", s.Topic})
		if err != nil {
			return reviewed{}, err
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, answer); err != nil {
			return reviewed{}, err
		}
		return reviewed{answer, list{"reviewed:" + compact.String()}}, nil
	})
	treadle.AddNode(b, "finish", func(context.Context, review) (logged, error) {
		return logged{list{"finished"}}, nil
	})
	b.Edge(treadle.Start, "propose")
	b.Edge("propose", "review")
	b.Edge("review", "finish")
	return compiled(b, opts)
}

type travel struct {
	Value string `json:"value"`
}

// stay is the state of the subgraph. It shares the field value with the parent graph, by
// name.
type stay struct {
	Value string `json:"value"`
	Steps list   `json:"steps"`
}

type stayed struct {
	Value string `json:"value"`
	Steps list   `json:"steps"`
}

// newNested returns a graph with a subgraph that interrupts if the value starts with
// "pause".
func newNested(opts *treadle.Options) (treadle.AnyGraph, error) {
	child, err := newChild()
	if err != nil {
		return nil, err
	}
	b := treadle.New[travel]("nested")
	treadle.AddNode(b, "before", func(_ context.Context, s travel) (travel, error) {
		return travel{s.Value + ">before"}, nil
	})
	treadle.AddGraph(b, "child", child)
	treadle.AddNode(b, "after", func(_ context.Context, s travel) (travel, error) {
		return travel{s.Value + ">after"}, nil
	})
	b.Edge(treadle.Start, "before")
	b.Edge("before", "child")
	b.Edge("child", "after")
	return compiled(b, opts)
}

func newChild() (*treadle.Graph[stay, stay], error) {
	b := treadle.New[stay]("child")
	treadle.AddNode(b, "child_one", func(_ context.Context, s travel) (stayed, error) {
		return stayed{s.Value + ">c1", list{"child_one"}}, nil
	})
	treadle.AddNode(b, "child_two", func(ctx context.Context, s travel) (stayed, error) {
		mark := ">c2"
		if strings.HasPrefix(s.Value, "pause") {
			answer, err := treadle.Interrupt[any](ctx, "child paused")
			if err != nil {
				return stayed{}, err
			}
			mark = fmt.Sprintf(">c2(%v)", answer)
		}
		return stayed{s.Value + mark, list{"child_two"}}, nil
	})
	b.Edge(treadle.Start, "child_one")
	b.Edge("child_one", "child_two")
	return b.Compile(nil)
}

type batch struct {
	Items   []string `json:"items"`
	Results list     `json:"results"`
	Summary string   `json:"summary"`
}

type planned struct {
	Items []string `json:"items"`
}

type job struct {
	Item string `json:"item"`
}

type done struct {
	Results list `json:"results"`
}

type summed struct {
	Summary string `json:"summary"`
}

// newFanout returns a graph that sends each item to a worker; all workers run in one
// step.
func newFanout(opts *treadle.Options) (treadle.AnyGraph, error) {
	b := treadle.New[batch]("fanout")
	treadle.AddNode(b, "plan", func(_ context.Context, s batch) (planned, error) {
		if s.Items == nil {
			return planned{[]string{"a", "b", "c"}}, nil
		}
		return planned{s.Items}, nil
	})
	worker := treadle.AddNode(b, "worker", func(_ context.Context, j job) (done, error) {
		return done{list{strings.ToUpper(j.Item)}}, nil
	})
	treadle.AddNode(b, "reduce", func(_ context.Context, s batch) (summed, error) {
		return summed{strings.Join(slices.Sorted(slices.Values(s.Results)), ",")}, nil
	})
	b.Edge(treadle.Start, "plan")
	treadle.AddBranch(b, "plan", func(_ context.Context, s batch) (next treadle.Goto, _ error) {
		for _, item := range s.Items {
			next = append(next, treadle.Send(worker, job{item})...)
		}
		return next, nil
	}, "worker")
	b.Edge("worker", "reduce")
	return compiled(b, opts)
}

type trip struct {
	Target string `json:"target"`
	X      any    `json:"x"`
	Path   list   `json:"path"`
}

type visited struct {
	Path list `json:"path"`
}

// newRouter returns a graph with a node that chooses the next node with a command.
func newRouter(opts *treadle.Options) (treadle.AnyGraph, error) {
	visit := func(node string) func(context.Context, trip) (visited, error) {
		return func(context.Context, trip) (visited, error) { return visited{list{node}}, nil }
	}
	b := treadle.New[trip]("router")
	treadle.AddNode(b, "route", func(_ context.Context, s trip) (treadle.Command[visited], error) {
		next := "left"
		if s.Target == "right" {
			next = "right"
		}
		return treadle.Command[visited]{Update: &visited{list{"route"}}, Goto: treadle.To(next)}, nil
	}, treadle.Destinations("left", "right"))
	treadle.AddNode(b, "left", visit("left"))
	treadle.AddNode(b, "right", visit("right"))
	b.Edge(treadle.Start, "route")
	return compiled(b, opts)
}
