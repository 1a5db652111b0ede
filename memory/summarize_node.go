package memory

import (
	"context"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// SummaryInput is what the nodes of this package that summarise read.
type SummaryInput struct {
	Messages llm.Messages
	Context  SummaryContext `json:"context"`
}

// SummaryContext is where they keep the summary from one run to the next. The
// state may have the field; otherwise it is private to the nodes.
type SummaryContext struct {
	Running RunningSummary `json:"running_summary,omitzero"`
}

// SummaryOutput is what [SummaryNode] writes.
type SummaryOutput struct {
	// SummarizedMessages is the conversation for the model. It is of no type that
	// merges: each time it is written anew.
	SummarizedMessages []llm.Message   `json:"summarized_messages"`
	Context            *SummaryContext `json:"context"`
}

// SummaryNode is a node that gives the next one a shortened conversation, with
// [Summarize], and leaves the history as it is. The node that calls the model
// reads SummarizedMessages, not Messages:
//
//	treadle.AddNode(b, "summarize", memory.SummaryNode(o))
//	treadle.AddNode(b, "call_model", func(ctx context.Context, in struct {
//		SummarizedMessages []llm.Message `json:"summarized_messages"`
//	}) (llm.Chat, error) {…})
//
// For fields of other names call Summarize in a node of your own. If it fails
// nothing is written.
func SummaryNode(o *SummaryOptions) func(context.Context, SummaryInput) (SummaryOutput, error) {
	return func(ctx context.Context, in SummaryInput) (SummaryOutput, error) {
		res, err := Summarize(ctx, in.Messages, in.Context.Running, o)
		if err != nil {
			return SummaryOutput{}, err
		}
		return SummaryOutput{res.Messages, res.context()}, nil
	}
}

// context is the summary as it is written: not at all if there is none.
func (r *SummaryResult) context() *SummaryContext {
	if r.Running.IsZero() {
		return nil
	}
	return &SummaryContext{r.Running}
}

// SummaryReplacement is what [ReplacingSummaryNode] writes.
type SummaryReplacement struct {
	Messages *llm.Messages
	Context  *SummaryContext `json:"context"`
}

// ReplacingSummaryNode is [SummaryNode] for those who do not want to keep the
// history: the shortened conversation takes its place. Where nothing is to be
// summarised it writes nothing, so running it again changes nothing.
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

// sameTurn reports whether two messages are the same: but for the summary's, the
// id says it.
func sameTurn(a, b llm.Message) bool { return a.ID == b.ID && (!isSummary(a) || a.Text() == b.Text()) }
