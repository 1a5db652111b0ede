package platform

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/store"
)

type emission struct {
	N    int  `json:"n"`
	Done bool `json:"done"`
}

type emitted struct {
	Done bool `json:"done"`
}

type progress struct {
	Type  string `json:"type"`
	Step  int    `json:"step"`
	Total int    `json:"total"`
}

// newCustom returns a graph that reports its progress to the stream.
func newCustom(opts *treadle.Options) (treadle.AnyGraph, error) {
	b := treadle.New[emission]("custom")
	treadle.AddNode(b, "emit", func(ctx context.Context, s emission) (emitted, error) {
		for step := range s.N {
			treadle.Emit(ctx, progress{"progress", step, s.N})
		}
		return emitted{true}, nil
	})
	b.Edge(treadle.Start, "emit")
	return compiled(b, opts)
}

// clock uses pointers where a missing value differs from zero.
type clock struct {
	Count   *int    `json:"count"`
	DelayMS *int    `json:"delay_ms"`
	Label   *string `json:"label"`
	Ticks   list    `json:"ticks"`
	I       int     `json:"i"`
}

type ticked struct {
	Ticks list `json:"ticks"`
	I     int  `json:"i"`
}

type counted struct {
	I int `json:"i"`
}

// newSlow returns a graph that ticks for a while, one step per tick, and can be canceled
// at any time.
func newSlow(opts *treadle.Options) (treadle.AnyGraph, error) {
	b := treadle.New[clock]("slow")
	// A field with a reducer is present from the start, with its zero value.
	treadle.Reduce(b, "I", func(_, update int) int { return update })
	treadle.AddNode(b, "reset", func(context.Context, clock) (counted, error) { return counted{0}, nil })
	treadle.AddNode(b, "tick", func(ctx context.Context, s clock) (ticked, error) {
		wait := time.NewTimer(time.Duration(*cmp.Or(s.DelayMS, new(200))) * time.Millisecond)
		defer wait.Stop()
		select {
		case <-ctx.Done():
			return ticked{}, context.Cause(ctx)
		case <-wait.C:
		}
		return ticked{list{*cmp.Or(s.Label, new("t")) + strconv.Itoa(s.I)}, s.I + 1}, nil
	})
	b.Edge(treadle.Start, "reset")
	b.Edge("reset", "tick")
	treadle.AddBranch(b, "tick", func(_ context.Context, s clock) (treadle.Goto, error) {
		if s.I < *cmp.Or(s.Count, new(3)) {
			return treadle.To("tick"), nil
		}
		return treadle.To(treadle.End), nil
	}, treadle.Label(treadle.End, "false"), treadle.Label("tick", "true"))
	return compiled(b, opts)
}

type attempt struct {
	Message  string `json:"message"`
	Prepared bool   `json:"prepared"`
}

type prepared struct {
	Prepared bool `json:"prepared"`
}

// newFailing returns a graph that fails in its second node.
func newFailing(opts *treadle.Options) (treadle.AnyGraph, error) {
	b := treadle.New[attempt]("failing")
	treadle.AddNode(b, "prepare", func(context.Context, attempt) (prepared, error) { return prepared{true}, nil })
	treadle.AddNode(b, "boom", func(_ context.Context, s attempt) (prepared, error) {
		return prepared{}, errors.New("boom: " + s.Message)
	})
	b.Edge(treadle.Start, "prepare")
	b.Edge("prepare", "boom")
	return compiled(b, opts)
}

type sight struct {
	Note string         `json:"note"`
	Seen map[string]any `json:"seen"`
}

type shown struct {
	Seen map[string]any `json:"seen"`
}

// runContext is the context of a run, which clients send with its input.
type runContext struct {
	Tier   *string `json:"tier,omitempty"`
	Region *string `json:"region,omitempty"`
}

// newConfigurable returns a graph that shows the configuration and context of its run.
func newConfigurable(opts *treadle.Options) (treadle.AnyGraph, error) {
	b := treadle.New[sight]("configurable")
	treadle.ContextType[runContext](b)
	treadle.AddNode(b, "show", func(ctx context.Context, _ sight) (shown, error) {
		c := config(ctx)
		given, _ := c["configurable"].(map[string]any)
		rc, _ := treadle.ContextFrom[runContext](ctx)
		return shown{map[string]any{
			"model":        given["model"],
			"header":       given["x-harness"],
			"api_key":      given["x-api-key"], // always nil: the server does not pass this header on
			"thread_id":    given["thread_id"],
			"run_id":       given["run_id"],
			"graph_id":     given["graph_id"],
			"assistant_id": given["assistant_id"],
			"tier":         rc.Tier,
			"region":       rc.Region,
			"tags":         c["tags"],
		}}, nil
	})
	b.Edge(treadle.Start, "show")
	return compiled(b, opts)
}

type remembering struct {
	User     string   `json:"user"`
	Fact     string   `json:"fact"`
	Recalled []string `json:"recalled"`
}

type recalled struct {
	Recalled []string `json:"recalled"`
}

type fact struct {
	Text string `json:"text"`
}

// newMemory returns a graph that keeps facts about users in the store and recalls them on
// any thread.
func newMemory(opts *treadle.Options) (treadle.AnyGraph, error) {
	b := treadle.New[remembering]("memory")
	treadle.AddNode(b, "remember", func(ctx context.Context, s remembering) (recalled, error) {
		memories, about := treadle.StoreFrom(ctx), store.Namespace{"harness_memories", s.User}
		if s.Fact != "" {
			if err := memories.Put(ctx, about, "fact", fact{s.Fact}, nil); err != nil {
				return recalled{}, err
			}
		}
		found, err := memories.Search(ctx, about, &store.SearchOptions{Limit: 10})
		if err != nil {
			return recalled{}, err
		}
		texts := []string{}
		for _, item := range found {
			var f fact
			if err := item.Decode(&f); err != nil {
				return recalled{}, err
			}
			texts = append(texts, f.Text)
		}
		slices.Sort(texts)
		return recalled{texts}, nil
	})
	b.Edge(treadle.Start, "remember")
	return compiled(b, opts)
}
