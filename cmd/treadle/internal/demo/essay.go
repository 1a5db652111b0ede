package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// The state of the essay writer. The researcher shares Topic and Notes.
type (
	essay struct {
		Topic string               `json:"topic"`
		Notes reduce.List[string]  `json:"notes"`
		Draft string               `json:"draft"`
		Round reduce.Sum[int]      `json:"round"`
		Lines reduce.List[verdict] `json:"lines"`
	}
	research struct {
		Topic string              `json:"topic"`
		Notes reduce.List[string] `json:"notes"`
	}
	noted   struct{ Notes reduce.List[string] }
	drafted struct {
		Draft string
		Round reduce.Sum[int]
	}
	reviewed struct{ Lines reduce.List[verdict] }
	verdict  string
)

// newEssay returns a graph with everything that diagrams can show: a subgraph, loops, and
// labeled branches.
func newEssay(saver checkpoint.Saver) (treadle.AnyGraph, error) {
	const (
		revise = "revise"
		accept = "accept"
	)
	inner := treadle.New[research]("research")
	treadle.AddNode(inner, "search", func(_ context.Context, s research) (noted, error) {
		return noted{reduce.List[string]{fmt.Sprintf("found: %s, page %d", s.Topic, len(s.Notes)/2+1)}}, nil
	})
	treadle.AddNode(inner, "read", func(_ context.Context, s research) (noted, error) {
		return noted{reduce.List[string]{strings.Replace(s.Notes[len(s.Notes)-1], "found", "read", 1)}}, nil
	})
	inner.Edge(treadle.Start, "search")
	inner.Edge("search", "read")
	treadle.AddBranch(inner, "read", func(_ context.Context, s research) (treadle.Goto, error) {
		if len(s.Notes) < 4 {
			return treadle.To("search"), nil
		}
		return treadle.To(treadle.End), nil
	}, treadle.Label(treadle.End, "enough"), treadle.Label("search", "more"))
	researcher, err := inner.Compile(nil)
	if err != nil {
		return nil, err
	}

	b := treadle.New[essay]("essay")
	treadle.AddGraph(b, "research", researcher)
	treadle.AddNode(b, "draft", func(_ context.Context, s essay) (drafted, error) {
		return drafted{fmt.Sprintf("On %s, with %d notes, draft %d.", s.Topic, len(s.Notes), s.Round.N+1), reduce.SumOf(1)}, nil
	})
	treadle.AddNode(b, "review", func(_ context.Context, s essay) (reviewed, error) {
		if s.Round.N < 2 {
			return reviewed{reduce.List[verdict]{revise}}, nil
		}
		return reviewed{reduce.List[verdict]{accept}}, nil
	})
	treadle.AddNode(b, "publish", func(_ context.Context, s essay) (struct{ Draft string }, error) {
		return struct{ Draft string }{"Published: " + s.Draft}, nil
	})
	b.Sequence(treadle.Start, "research", "draft", "review")
	treadle.AddBranch(b, "review", func(_ context.Context, s essay) (treadle.Goto, error) {
		if s.Lines[len(s.Lines)-1] == accept {
			return treadle.To("publish"), nil
		}
		return treadle.To("draft"), nil
	}, treadle.Label("draft", revise), treadle.Label("publish", accept))
	b.Edge("publish", treadle.End)
	return b.Compile(&treadle.Options{Saver: saver})
}
