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

// partBlock is the type of blocks for parts that package llm has no type for. The
// part's JSON is in the block's Extra, under partField.
const (
	partBlock = "gemini_part"
	partField = "part"
)

// madePrefix marks the IDs of calls for which the API sent none.
const madePrefix = "gemini-"

func madeHere(id string) bool { return strings.HasPrefix(id, madePrefix) }

// answer converts responses to chunks.
type answer struct {
	provider string
	serial   bool // keep only the first call

	id       string // of the response
	model    string
	calls    int
	blocks   int  // the number of blocks started
	thinking bool // the last block is a thought that may continue
	finish   genai.FinishReason
	blocked  genai.BlockedReason
	usage    *genai.GenerateContentResponseUsageMetadata
	meta     map[string]any
}

// isUnknown reports whether an event has none of a response's fields. The SDK drops all
// other fields, so the names of these are not known.
func isUnknown(resp *genai.GenerateContentResponse) bool {
	return len(resp.Candidates) == 0 && resp.PromptFeedback == nil && resp.UsageMetadata == nil && resp.ResponseID == "" && resp.ModelVersion == ""
}

// add returns the chunks for a response. In a stream, each event is a response.
func (a *answer) add(resp *genai.GenerateContentResponse) []llm.Chunk {
	a.id, a.model = cmp.Or(a.id, resp.ResponseID), cmp.Or(a.model, resp.ModelVersion)
	if resp.UsageMetadata != nil {
		a.usage = resp.UsageMetadata // cumulative in every event
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

// note keeps further data about the response; in a stream, the last value wins.
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

// part returns a chunk for a part, unless the part is empty.
func (a *answer) part(p *genai.Part) (llm.Chunk, bool) {
	goesOn := a.thinking
	a.thinking = p.Thought && p.FunctionCall == nil
	if other := otherPart(p); other != nil {
		a.thinking = false
		return one(llm.Block{Type: partBlock, Index: a.next(), Extra: map[string]any{partField: other}}), true
	}
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
	return llm.Chunk{}, false // an empty text
}

// otherPart returns the JSON of a part that package llm has no type for, such as the
// output of a tool that the API runs, including its signature; nil for other parts.
func otherPart(p *genai.Part) map[string]any {
	if p.Text != "" || p.FunctionCall != nil || p.InlineData != nil || p.FileData != nil {
		return nil
	}
	plain, err := plainJSON[map[string]any](p)
	if err != nil {
		return nil
	}
	for name := range plain {
		if name != "thought" && name != "thoughtSignature" {
			return plain
		}
	}
	return nil
}

// next returns the index of a new block.
func (a *answer) next() *int {
	a.blocks++
	return new(a.blocks - 1)
}

func one(b llm.Block) llm.Chunk { return llm.Chunk{Blocks: []llm.Block{b}} }

// signed returns the Extra with a part's signature, or nil.
func signed(p *genai.Part) map[string]any {
	if len(p.ThoughtSignature) == 0 {
		return nil
	}
	return map[string]any{signatureField: base64.StdEncoding.EncodeToString(p.ThoughtSignature)}
}

// call returns a function call, which is never streamed in pieces.
func (a *answer) call(f *genai.FunctionCall, sign map[string]any) (llm.Chunk, bool) {
	if a.serial && a.calls > 0 {
		return llm.Chunk{}, false
	}
	args, err := json.Marshal(f.Args)
	if err != nil || f.Args == nil {
		args = []byte("{}") // cannot fail otherwise, because the arguments came as JSON
	}
	id := f.ID
	if id == "" {
		a.id = cmp.Or(a.id, rand.Text())
		id = fmt.Sprintf("%s%s-%d", madePrefix, a.id, a.calls)
	}
	a.calls++
	return llm.Chunk{ToolCalls: []llm.ToolCallChunk{{Index: new(a.calls - 1), ID: id, Name: f.Name, Args: string(args), Extra: sign}}}, true
}

// last returns the final chunk.
func (a *answer) last() (llm.Chunk, error) {
	stop, err := a.stop()
	if err != nil {
		return llm.Chunk{}, err
	}
	meta := map[string]any{"model_provider": a.provider}
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
	// The other reasons mean that the model aborted the response. Returned as a
	// message, it would be empty and end a conversation without a word.
	return "", &llm.Error{Provider: a.provider, Code: string(a.finish), Message: "response aborted by the model", Cut: true}
}

// usageOf converts the token counts. The API counts thoughts separately.
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
