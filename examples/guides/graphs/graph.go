package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/reduce"
)

// State is the state of the graph.
type State struct {
	Text    string             // the input, with one review per line
	Reviews []Review           // an update replaces the value
	Words   int                // in all reviews
	Replies reduce.List[Reply] // an update appends
	Report  string
}

// A Review is the input of the subgraph.
type Review struct {
	Number int
	Body   string
}

// A Reply answers a complaint.
type Reply struct {
	Number int // of the review
	Text   string
}

// reviewState is the state of the subgraph. The field Replies is also a field of State.
type reviewState struct {
	Review    // its fields are fields of the state
	Complaint bool
	Replies   reduce.List[Reply]
}

// Progress is the value that nodes send while they run.
type Progress struct {
	Number int // of the review
	Doing  string
}

// A node returns a struct with the fields that it writes.
type (
	listed     struct{ Reviews []Review }
	counted    struct{ Words int }
	classified struct{ Complaint bool }
	replied    struct{ Replies reduce.List[Reply] }
	reported   struct{ Report string }
)

func splitText(_ context.Context, s State) (listed, error) {
	var out listed
	for line := range strings.Lines(s.Text) {
		if body := strings.TrimSpace(line); body != "" {
			out.Reviews = append(out.Reviews, Review{len(out.Reviews) + 1, body})
		}
	}
	return out, nil
}

func countWords(_ context.Context, s State) (counted, error) {
	return counted{len(strings.Fields(s.Text))}, nil
}

func writeReport(_ context.Context, s State) (reported, error) {
	if len(s.Reviews) == 0 {
		return reported{"no reviews\n"}, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "reviews: %d, words: %d, complaints: %d\n", len(s.Reviews), s.Words, len(s.Replies))
	for _, r := range s.Replies {
		fmt.Fprintf(&b, "reply to %d: %s\n", r.Number, r.Text)
	}
	return reported{b.String()}, nil
}

// nodes contains the nodes that call the model.
type nodes struct{ model llm.Model }

func (n nodes) classify(ctx context.Context, s reviewState) (classified, error) {
	treadle.Emit(ctx, Progress{s.Number, "classify"})
	m, err := llm.Generate(ctx, n.model, llm.User("Is this review a complaint, yes or no? "+s.Body))
	return classified{strings.HasPrefix(strings.ToLower(m.Text()), "yes")}, err
}

func (n nodes) reply(ctx context.Context, s reviewState) (replied, error) {
	treadle.Emit(ctx, Progress{s.Number, "reply"})
	m, err := llm.Generate(ctx, n.model, llm.User("Reply to this complaint: "+s.Body))
	return replied{reduce.List[Reply]{{s.Number, m.Text()}}}, err
}

// newReview returns the subgraph, which replies to a review if it is a complaint.
func newReview(model llm.Model) (*treadle.Graph[Review, reviewState], error) {
	n := nodes{model}
	b := treadle.New[reviewState]("review")
	classify := treadle.AddNode(b, "classify", n.classify, treadle.Retry())
	reply := treadle.AddNode(b, "reply", n.reply, treadle.Retry())

	b.Edge(treadle.Start, classify)
	treadle.AddBranch(b, classify, func(_ context.Context, s reviewState) (treadle.Goto, error) {
		if s.Complaint {
			return treadle.To(reply), nil
		}
		return treadle.To(treadle.End), nil
	}, reply, treadle.End)
	return treadle.Compile[Review, reviewState](b, nil)
}

// newGraph returns the graph, which handles all reviews concurrently and writes a report.
func newGraph(model llm.Model, opts *treadle.Options) (*treadle.Graph[State, State], error) {
	subgraph, err := newReview(model)
	if err != nil {
		return nil, err
	}
	b := treadle.New[State]("reviews")
	split := treadle.AddNode(b, "split", splitText)
	count := treadle.AddNode(b, "count", countWords)
	review := treadle.AddGraph(b, "review", subgraph)
	report := treadle.AddNode(b, "report", writeReport)

	b.Edge(treadle.Start, split)
	b.Edge(treadle.Start, count)
	treadle.AddBranch(b, split, func(_ context.Context, s State) (treadle.Goto, error) {
		if len(s.Reviews) == 0 {
			return treadle.To(report), nil // without a task, the join would never run
		}
		return treadle.SendEach(review, s.Reviews), nil
	}, review, report)
	b.Join([]any{count, review}, report)
	return b.Compile(opts)
}
