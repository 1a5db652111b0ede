// Package v1 contains the graph that is in production.
package v1

import (
	"context"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Essay is the state.
type Essay struct {
	Title  string `json:"title"`
	Text   string `json:"text"`
	Length string `json:"length"` // number of words
	Mood   string `json:"mood"`
}

type drafted struct{ Text, Length, Mood string }

func draft(_ context.Context, e Essay) (drafted, error) {
	text := "All about " + e.Title + "."
	return drafted{text, strconv.Itoa(len(strings.Fields(text))), "calm"}, nil
}

type published struct{ Text string }

func review(ctx context.Context, e Essay) (published, error) {
	sign, err := treadle.Interrupt[string](ctx, "Sign "+e.Title+"?")
	return published{e.Text + " " + sign}, err
}

// New returns the graph: draft, then review.
func New(saver checkpoint.Saver) (*treadle.Graph[Essay, Essay], error) {
	b := treadle.New[Essay]("essay")
	treadle.AddNode(b, "draft", draft)
	treadle.AddNode(b, "review", review)
	b.Sequence(treadle.Start, "draft", "review", treadle.End)
	return b.Compile(&treadle.Options{Saver: saver})
}
