package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// fake responds by the text of the prompt, because concurrent calls arrive in any order.
var fake = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	prompt := r.Messages[len(r.Messages)-1].Text()
	switch {
	case strings.HasPrefix(prompt, "Reply"):
		return llm.Assistant("Sorry!"), nil
	case strings.HasSuffix(prompt, "bad"):
		return llm.Assistant("Yes."), nil
	}
	return llm.Assistant("No."), nil
})

func TestSplitSkipsEmptyLines(t *testing.T) {
	got, err := splitText(t.Context(), State{Text: "good\n\n  bad \n"})
	if want := []Review{{1, "good"}, {2, "bad"}}; err != nil || !slices.Equal(got.Reviews, want) {
		t.Errorf("got %v, %v, want %v", got.Reviews, err, want)
	}
}

func TestClassifyAsksModel(t *testing.T) {
	n := nodes{llmtest.Scripted(t, llmtest.Say("Yes, it is.", llmtest.Asked("too late")))}
	got, err := n.classify(t.Context(), reviewState{Review: Review{1, "too late"}})
	if err != nil || !got.Complaint {
		t.Errorf("got %+v, %v, want a complaint", got, err)
	}
}

func TestReviewRepliesToComplaints(t *testing.T) {
	g, err := newReview(fake)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string][]Reply{"good": nil, "bad": {{7, "Sorry!"}}} {
		out, err := g.Run(t.Context(), Review{7, body})
		if err != nil || !slices.Equal(out.Replies, want) {
			t.Errorf("%s: got %v, %v, want %v", body, out.Replies, err, want)
		}
	}
}

// newTest returns the graph. Strict turns warnings about the graph into errors.
func newTest(t *testing.T, model llm.Model) *treadle.Graph[State, State] {
	t.Helper()
	g, err := newGraph(model, &treadle.Options{Strict: true, Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestReport(t *testing.T) {
	for text, want := range map[string]string{
		"bad\ngood\nvery bad": "reviews: 3, words: 4, complaints: 2\nreply to 1: Sorry!\nreply to 3: Sorry!\n",
		"good":                "reviews: 1, words: 1, complaints: 0\n",
		"":                    "no reviews\n", // an empty fan-out
	} {
		out, err := newTest(t, fake).Run(t.Context(), State{Text: text})
		if err != nil || out.Report != want {
			t.Errorf("%q: got %q, %v, want %q", text, out.Report, err, want)
		}
	}
}

func TestProgress(t *testing.T) {
	var got []Progress
	for ev, err := range newTest(t, fake).Stream(t.Context(), State{Text: "good\nbad"}, treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			got = append(got, c.Value.(Progress))
		}
	}
	// The reviews run concurrently, so only the order within a review is fixed.
	slices.SortStableFunc(got, func(a, b Progress) int { return a.Number - b.Number })
	if want := []Progress{{1, "classify"}, {2, "classify"}, {2, "reply"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// On a thread, a failed run continues where it stopped, even within the subgraph.
func TestContinueAfterFailure(t *testing.T) {
	down, classified := true, 0
	model := llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
		if prompt := r.Messages[0].Text(); !strings.HasPrefix(prompt, "Reply") {
			classified++
		} else if down {
			return llm.Message{}, errors.New("model unavailable")
		}
		return fake(ctx, r)
	})
	thread := newTest(t, model).Thread("1")
	_, err := thread.Run(t.Context(), State{Text: "bad"})
	if failed, ok := errors.AsType[*treadle.NodeError](err); !ok || failed.Node != "review" {
		t.Fatalf("run ended with %v, want a failure of node review", err)
	}
	down = false
	out, err := thread.Continue(t.Context())
	if want := "reviews: 1, words: 1, complaints: 1\nreply to 1: Sorry!\n"; err != nil || out.Report != want {
		t.Errorf("got %q, %v, want %q", out.Report, err, want)
	}
	if classified != 1 {
		t.Errorf("classified %d times, want once", classified)
	}
}
