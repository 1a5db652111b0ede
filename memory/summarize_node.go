package memory

import (
	"context"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// SummaryInput contains the state fields that [SummaryNode] and [ReplacingSummaryNode]
// read.
type SummaryInput struct {
	Messages llm.Messages
	Context  SummaryContext `json:"context"`
}

// SummaryContext is the field in which these nodes keep the summary between runs. If the
// state does not declare the field, it is private to the nodes.
type SummaryContext struct {
	Running RunningSummary `json:"running_summary,omitzero"`
}

// SummaryOutput is the update that [SummaryNode] writes.
type SummaryOutput struct {
	// SummarizedMessages is the shortened conversation. Its type has no reducer, so each
	// update replaces it.
	SummarizedMessages []llm.Message   `json:"summarized_messages"`
	Context            *SummaryContext `json:"context"`
}

// SummaryNode returns a node that writes the conversation, shortened by [Summarize], for
// the next node, and leaves the history unchanged. The node that calls the model reads
// SummarizedMessages instead of Messages:
//
//	treadle.AddNode(b, "summarize", memory.SummaryNode(o))
//	treadle.AddNode(b, "call_model", func(ctx context.Context, in struct {
//		SummarizedMessages []llm.Message `json:"summarized_messages"`
//	}) (llm.Chat, error) {…})
//
// For fields with other names, call Summarize in your own node. If it fails, the node
// writes nothing.
func SummaryNode(o *SummaryOptions) func(context.Context, SummaryInput) (SummaryOutput, error) {
	return func(ctx context.Context, in SummaryInput) (SummaryOutput, error) {
		res, err := Summarize(ctx, in.Messages, in.Context.Running, o)
		if err != nil {
			return SummaryOutput{}, err
		}
		return SummaryOutput{res.Messages, res.context()}, nil
	}
}

// context returns the summary for the update, or nil, which writes nothing, if there is no
// summary.
func (r *SummaryResult) context() *SummaryContext {
	if r.Running.IsZero() {
		return nil
	}
	return &SummaryContext{r.Running}
}

// SummaryReplacement is the update that [ReplacingSummaryNode] writes.
type SummaryReplacement struct {
	Messages *llm.Messages
	Context  *SummaryContext `json:"context"`
}

// ReplacingSummaryNode is like [SummaryNode], but replaces the history with the shortened
// conversation. If nothing needs to be summarized, it writes nothing, so running it again
// has no effect.
func ReplacingSummaryNode(o *SummaryOptions) func(context.Context, SummaryInput) (SummaryReplacement, error) {
	return func(ctx context.Context, in SummaryInput) (SummaryReplacement, error) {
		res, err := Summarize(ctx, in.Messages, in.Context.Running, o)
		if err != nil {
			return SummaryReplacement{}, err
		}
		if slices.EqualFunc(res.Messages, in.Messages, sameTurn) {
			return SummaryReplacement{}, nil
		}
		all := slices.Concat(llm.Messages{llm.RemoveAll()}, res.Messages)
		return SummaryReplacement{&all, res.context()}, nil
	}
}

// sameTurn reports whether two messages are equal. It compares IDs, and for the summary,
// whose ID never changes, also the text.
func sameTurn(a, b llm.Message) bool { return a.ID == b.ID && (!isSummary(a) || a.Text() == b.Text()) }
