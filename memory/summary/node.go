package summary

import (
	"context"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// Input contains the state fields that [Node] and [ReplacingNode]
// read.
type Input struct {
	Messages llm.Messages
	Context  Context `json:"context"`
}

// Context is the field in which these nodes keep the summary between runs. If the
// state does not declare the field, it is private to the nodes.
type Context struct {
	Running Running `json:"running_summary,omitzero"`
}

// Output is the update that [Node] writes.
type Output struct {
	// SummarizedMessages is the shortened conversation. Its type has no reducer, so each
	// update replaces it.
	SummarizedMessages []llm.Message `json:"summarized_messages"`
	Context            *Context      `json:"context"`
}

// Node returns a node that writes the conversation, shortened by [Summarize], for
// the next node, and leaves the history unchanged. The node that calls the model reads
// SummarizedMessages instead of Messages:
//
//	treadle.AddNode(b, "summarize", summary.Node(opts))
//	treadle.AddNode(b, "call_model", func(ctx context.Context, in struct {
//		SummarizedMessages []llm.Message `json:"summarized_messages"`
//	}) (llm.Chat, error) {…})
//
// For fields with other names, call Summarize in your own node. If it fails, the node
// writes nothing.
func Node(opts *Options) func(context.Context, Input) (Output, error) {
	return func(ctx context.Context, in Input) (Output, error) {
		res, err := Summarize(ctx, in.Messages, in.Context.Running, opts)
		if err != nil {
			return Output{}, err
		}
		return Output{res.Messages, res.context()}, nil
	}
}

// context returns the summary for the update, or nil, which writes nothing, if there is no
// summary.
func (r *Result) context() *Context {
	if r.Running.IsZero() {
		return nil
	}
	return &Context{r.Running}
}

// Replacement is the update that [ReplacingNode] writes.
type Replacement struct {
	Messages *llm.Messages
	Context  *Context `json:"context"`
}

// ReplacingNode is like [Node], but replaces the history with the shortened
// conversation. If nothing needs to be summarized, it writes nothing, so running it again
// has no effect.
func ReplacingNode(opts *Options) func(context.Context, Input) (Replacement, error) {
	return func(ctx context.Context, in Input) (Replacement, error) {
		res, err := Summarize(ctx, in.Messages, in.Context.Running, opts)
		if err != nil {
			return Replacement{}, err
		}
		if slices.EqualFunc(res.Messages, in.Messages, sameTurn) {
			return Replacement{}, nil
		}
		all := slices.Concat(llm.Messages{llm.RemoveAll()}, res.Messages)
		return Replacement{&all, res.context()}, nil
	}
}

// sameTurn reports whether two messages are equal. It compares IDs, and for the summary,
// whose ID never changes, also the text.
func sameTurn(a, b llm.Message) bool { return a.ID == b.ID && (!isSummary(a) || a.Text() == b.Text()) }
