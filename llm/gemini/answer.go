package gemini

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/llm"
)

// partBlock is the type of blocks for parts that llm has no type for: the part's
// JSON stands in the field of Extra.
const (
	partBlock = "gemini_part"
	partField = "part"
)

// madePrefix marks the ids of calls that the API gave none.
const madePrefix = "gemini-"

func madeHere(id string) bool { return strings.HasPrefix(id, madePrefix) }

// answer makes chunks of responses.
type answer struct {
	serial bool // the first call is the only one

	id       string // of the response
	model    string
	calls    int
	blocks   int  // that have begun
	thinking bool // the last block is a thought that may go on
	finish   genai.FinishReason
	blocked  genai.BlockedReason
	usage    *genai.GenerateContentResponseUsageMetadata
	meta     map[string]any
}

// add is what a response says. Of a stream each event is one.
func (a *answer) add(resp *genai.GenerateContentResponse) []llm.Chunk {
	a.id, a.model = cmp.Or(a.id, resp.ResponseID), cmp.Or(a.model, resp.ModelVersion)
	if resp.UsageMetadata != nil {
		a.usage = resp.UsageMetadata // the sum so far, with every event
	}
	if f := resp.PromptFeedback; f != nil {
		a.blocked = cmp.Or(f.BlockReason, a.blocked)
		a.note("safety_ratings", f.SafetyRatings, len(f.SafetyRatings) > 0)
	}
	if len(resp.Candidates) == 0 || resp.Candidates[0] == nil {
		return nil
	}
	c := resp.Candidates[0]
	if c.FinishReason != genai.FinishReasonUnspecified {
		a.finish = cmp.Or(c.FinishReason, a.finish)
	}
	a.note("safety_ratings", c.SafetyRatings, len(c.SafetyRatings) > 0)
	a.note("citation_metadata", c.CitationMetadata, c.CitationMetadata != nil)
	a.note("grounding_metadata", c.GroundingMetadata, c.GroundingMetadata != nil)
	a.note("url_context_metadata", c.URLContextMetadata, c.URLContextMetadata != nil)
	a.note("logprobs_result", c.LogprobsResult, c.LogprobsResult != nil)
	if c.Content == nil {
		return nil
	}
	var out []llm.Chunk
	for _, p := range c.Content.Parts {
		if p == nil {
			continue
		}
		if chunk, ok := a.part(p); ok {
			out = append(out, chunk)
		}
	}
	return out
}

// note keeps what else is said about the answer; of a stream the last word counts.
func (a *answer) note(name string, v any, there bool) {
	if !there {
		return
	}
	if a.meta == nil {
		a.meta = map[string]any{}
	}
	if plain, err := plainJSON[any](v); err == nil {
		a.meta[name] = plain
	}
}

// part is a chunk for a part, if it says something.
func (a *answer) part(p *genai.Part) (llm.Chunk, bool) {
	goesOn := a.thinking
	a.thinking = p.Thought && p.FunctionCall == nil
	switch sign := signed(p); {
	case p.FunctionCall != nil:
		return a.call(p.FunctionCall, sign)
	case p.Thought && (p.Text != "" || sign != nil):
		if !goesOn {
			a.blocks++
		}
		return one(llm.Block{Type: llm.BlockReasoning, Index: new(a.blocks - 1), Reasoning: p.Text, Extra: sign}), true
	case p.InlineData != nil || p.FileData != nil:
		b := mediaBlock(p)
		b.Index, b.Extra = a.next(), sign
		return one(b), true
	case p.Text != "" && sign == nil:
		return llm.Chunk{Content: p.Text}, true
	case p.Text != "" || sign != nil:
		return one(llm.Block{Type: llm.BlockText, Index: a.next(), Text: p.Text, Extra: sign}), true
	}
	plain, err := plainJSON[map[string]any](p)
	if err != nil || len(plain) == 0 {
		return llm.Chunk{}, false // an empty text
	}
	return one(llm.Block{Type: partBlock, Index: a.next(), Extra: map[string]any{partField: plain}}), true
}

// next is the place of a new block.
func (a *answer) next() *int {
	a.blocks++
	return new(a.blocks - 1)
}

func one(b llm.Block) llm.Chunk { return llm.Chunk{Blocks: []llm.Block{b}} }

// signed is the Extra with a part's signature, or nil.
func signed(p *genai.Part) map[string]any {
	if len(p.ThoughtSignature) == 0 {
		return nil
	}
	return map[string]any{signatureField: base64.StdEncoding.EncodeToString(p.ThoughtSignature)}
}

// call is a function call, which always comes whole.
func (a *answer) call(f *genai.FunctionCall, sign map[string]any) (llm.Chunk, bool) {
	if a.serial && a.calls > 0 {
		return llm.Chunk{}, false
	}
	args, err := json.Marshal(f.Args)
	if err != nil || f.Args == nil {
		args = []byte("{}") // the arguments came as JSON, so there is no other way
	}
	id := f.ID
	if id == "" {
		a.id = cmp.Or(a.id, rand.Text())
		id = fmt.Sprintf("%s%s-%d", madePrefix, a.id, a.calls)
	}
	a.calls++
	return llm.Chunk{ToolCalls: []llm.ToolCallChunk{{Index: new(a.calls - 1), ID: id, Name: f.Name, Args: string(args), Extra: sign}}}, true
}

// last is the end of the answer.
func (a *answer) last() (llm.Chunk, error) {
	stop, err := a.stop()
	if err != nil {
		return llm.Chunk{}, err
	}
	meta := map[string]any{"model_provider": provider}
	for name, v := range map[string]string{"model_name": a.model, "id": a.id, "finish_reason": string(a.finish), "block_reason": string(a.blocked)} {
		if v != "" {
			meta[name] = v
		}
	}
	maps.Copy(meta, a.meta)
	return llm.Chunk{Stop: stop, Usage: usageOf(a.usage), Metadata: meta}, nil
}

func (a *answer) stop() (llm.StopReason, error) {
	switch a.finish {
	case "":
		if a.blocked != "" {
			return llm.StopFilter, nil
		}
		return "", errNoEnd
	case genai.FinishReasonStop:
		if a.calls > 0 {
			return llm.StopTools, nil
		}
		return llm.StopEnd, nil
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation:
		return llm.StopLength, nil
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent, genai.FinishReasonSPII, genai.FinishReasonImageSafety,
		genai.FinishReasonImageProhibitedContent, genai.FinishReasonImageRecitation:
		return llm.StopFilter, nil
	}
	// What is left says that the answer broke off on the model's side. As an answer
	// it would be an empty one, and end a conversation without a word.
	return "", &llm.Error{Provider: provider, Code: string(a.finish), Message: "the model did not finish its answer", Cut: true}
}

// usageOf counts what the model read and wrote. The API counts thoughts apart.
func usageOf(u *genai.GenerateContentResponseUsageMetadata) *llm.Usage {
	if u == nil {
		return nil
	}
	out := &llm.Usage{
		Input:         int(u.PromptTokenCount + u.ToolUsePromptTokenCount),
		Output:        int(u.CandidatesTokenCount + u.ThoughtsTokenCount),
		Total:         int(u.TotalTokenCount),
		InputDetails:  details(u.CachedContentTokenCount, llm.UsageCacheRead, u.PromptTokensDetails),
		OutputDetails: details(u.ThoughtsTokenCount, llm.UsageReasoning, u.CandidatesTokensDetails),
	}
	out.Total = cmp.Or(out.Total, out.Input+out.Output)
	return out
}

func details(n int32, name string, kinds []*genai.ModalityTokenCount) map[string]int {
	out := map[string]int{}
	if n > 0 {
		out[name] = int(n)
	}
	for _, k := range kinds {
		if k != nil && k.Modality == genai.MediaModalityAudio && k.TokenCount > 0 {
			out[llm.UsageAudio] += int(k.TokenCount)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
