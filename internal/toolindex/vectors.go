package toolindex

import (
	"context"
	"fmt"
	"math"

	"github.com/treadle-go/treadle/store"
)

// vectors are the vectors of the tools, which the first search computes.
type vectors struct {
	turn chan struct{} // held by the search that computes them
	all  [][]float32   // with length 1; nil until computed
}

func newVectors() *vectors { return &vectors{turn: make(chan struct{}, 1)} }

// semantic returns the similarity of each tool to a text.
func (x *Index) semantic(ctx context.Context, text string) ([]float64, error) {
	tools, err := x.embedded(ctx)
	if err != nil {
		return nil, err
	}
	embed := x.embedder.Embed
	if q, ok := x.embedder.(store.QueryEmbedder); ok {
		embed = q.EmbedQueries
	}
	query, err := x.embed(ctx, []string{text}, embed)
	if err != nil {
		return nil, err
	}
	near := make([]float64, len(tools))
	for i, v := range tools {
		for k, c := range v {
			near[i] += float64(c * query[0][k])
		}
		near[i] = max(0, near[i])
	}
	return near, nil
}

// maxBatch is the maximum number of texts that an embedder gets.
const maxBatch = 256

// embedded returns the vectors of the tools. After a failure, the next search tries again.
func (x *Index) embedded(ctx context.Context) ([][]float32, error) {
	v := x.vectors
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if v.all != nil {
		return v.all, nil
	}
	var texts []string
	at := map[string]int{}
	for _, t := range x.tools {
		text := meaning(t)
		if _, ok := at[text]; !ok {
			at[text] = len(texts)
			texts = append(texts, text)
		}
	}
	var made [][]float32
	for from := 0; from < len(texts); from += maxBatch {
		batch, err := x.embed(ctx, texts[from:min(from+maxBatch, len(texts))], x.embedder.Embed)
		if err != nil {
			return nil, err
		}
		made = append(made, batch...)
	}
	all := make([][]float32, len(x.tools))
	for i, t := range x.tools {
		all[i] = made[at[meaning(t)]]
	}
	v.all = all
	return all, nil
}

// embed returns vectors with length 1.
func (x *Index) embed(ctx context.Context, texts []string, embed func(context.Context, []string) ([][]float32, error)) ([][]float32, error) {
	made, err := embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	if len(made) != len(texts) {
		return nil, fmt.Errorf("%d vectors for %d texts", len(made), len(texts))
	}
	out := make([][]float32, len(made))
	for i, v := range made {
		if len(v) != x.embedder.Dimension() {
			return nil, fmt.Errorf("vector of %d numbers, want %d", len(v), x.embedder.Dimension())
		}
		var sum float64
		for _, c := range v {
			sum += float64(c) * float64(c)
		}
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return nil, fmt.Errorf("vector of %q has a number that is not finite", clip(texts[i], 100))
		}
		out[i] = make([]float32, len(v))
		if sum == 0 {
			continue
		}
		for k, c := range v {
			out[i][k] = c / float32(math.Sqrt(sum))
		}
	}
	return out, nil
}
