package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle/llm"
)

// Queries is the part of a graph's state that [Rewrite] writes and [Index.Retrieve] reads.
type Queries struct{ Queries []string }

// Hits is the part of a graph's state that [Index.Retrieve] writes.
type Hits struct{ Hits []Hit }

// Asked is the part of a graph's state that [Rewrite] reads: a conversation that ends with a
// question.
type Asked struct{ Messages llm.Messages }

// RewriteOptions configures [Rewrite]. A nil *RewriteOptions means the defaults.
type RewriteOptions struct {
	// Queries is the maximum number of queries; 0 means 1. With more, the first is the
	// original question, and the model phrases the others.
	Queries int
	// Prompt tells the model what to write; empty means a prompt that resolves references
	// to earlier messages.
	Prompt string
}

// Rewrite returns a node that writes search queries for the last question of a
// conversation. The model replaces references to earlier messages, so that "and how do they
// sleep?" becomes "how do owls sleep". If the response contains no query, the question
// itself is the query.
func Rewrite(model llm.Model, opts *RewriteOptions) func(context.Context, Asked) (Queries, error) {
	var o RewriteOptions
	if opts != nil {
		o = *opts
	}
	n := max(1, o.Queries)
	prompt := cmp.Or(o.Prompt, fmt.Sprintf("Write at most %d search queries that find passages which answer the last question of the user. "+
		"Each must be understandable without the conversation: replace pronouns and other references. "+
		"Write one query per line and nothing else.", max(1, n-1)))
	return func(ctx context.Context, in Asked) (Queries, error) {
		if model == nil {
			return Queries{}, errors.New("retrieval: rewrite query: nil model")
		}
		last := ""
		for _, m := range slices.Backward(in.Messages) {
			if m.Role == llm.RoleHuman {
				last = m.Text()
				break
			}
		}
		if strings.TrimSpace(last) == "" {
			return Queries{}, errors.New("retrieval: rewrite query: the conversation contains no question")
		}
		answer, err := llm.Generate(ctx, model, append([]llm.Message{llm.System(prompt)}, in.Messages...)...)
		if err != nil {
			return Queries{}, fmt.Errorf("retrieval: rewrite query: %w", err)
		}
		var queries []string
		if n > 1 {
			queries = []string{last}
		}
		for line := range strings.Lines(answer.Text()) {
			if q := withoutBullet(line); q != "" && len(queries) < n && !slices.Contains(queries, q) {
				queries = append(queries, q)
			}
		}
		if queries == nil {
			queries = []string{last}
		}
		return Queries{queries}, nil
	}
}

// withoutBullet removes the white space around a line of a list, and its number or bullet.
func withoutBullet(line string) string {
	line = strings.TrimLeft(strings.TrimSpace(line), "-*• ")
	if rest := strings.TrimLeftFunc(line, unicode.IsDigit); rest != line && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")) {
		line = strings.TrimSpace(rest[2:])
	}
	return strings.Trim(line, `"`)
}

// Retrieve returns a node that searches the index for the queries in the state; see
// [Index.SearchAll].
func (x *Index) Retrieve(opts *SearchOptions) func(context.Context, Queries) (Hits, error) {
	return func(ctx context.Context, in Queries) (Hits, error) {
		hits, err := x.SearchAll(ctx, in.Queries, opts)
		return Hits{hits}, err
	}
}
