package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"

	"github.com/treadle-go/treadle/llm"
)

// piece is what a whole answer and a piece of a streamed one have in common.
type piece struct {
	content, refusal string
	calls            []callPiece
	finish           string
	usage            *llm.Usage
	meta             map[string]any
	reasoning        reasoning
	audio            *llm.Block
	err              error // what could not be understood
}

// callPiece is a tool call or a piece of one.
type callPiece struct {
	index          int64
	id, name, args string
	// content is extra_content, in which Gemini's compatible server puts its
	// signatures. It wants them back.
	content any
}

const extraContent = "extra_content"

// pieceOf is the whole answer as one piece.
func pieceOf(c *sdk.ChatCompletion) piece {
	choice := c.Choices[0]
	m := choice.Message
	p := piece{refusal: m.Refusal, finish: choice.FinishReason,
		meta: metadata(c.ID, c.Model, c.JSON.SystemFingerprint, string(c.ServiceTier)), reasoning: reasoningOf(m.JSON.ExtraFields)}
	p.addContent(m.Content, m.JSON.Content)
	p.addAudio(m.Audio.ID, m.Audio.Data, m.Audio.Transcript)
	for i, call := range m.ToolCalls {
		fn := call.AsFunction()
		p.calls = append(p.calls, callPiece{int64(i), call.ID,
			cmp.Or(call.Function.Name, call.Custom.Name),
			cmp.Or(arguments(call.Function.Arguments, call.Function.JSON.Arguments), call.Custom.Input),
			valueOf(fn.JSON.ExtraFields[extraContent])})
	}
	if c.JSON.Usage.Valid() {
		p.usage = usageOf(c.Usage)
	}
	p.keep("annotations", m.JSON.Annotations)
	p.keep("logprobs", choice.JSON.Logprobs)
	// A server that forgets the reason of a whole answer has nevertheless ended it.
	p.finish = cmp.Or(p.finish, "stop")
	return p
}

// chunkPiece is a piece of a streamed answer.
func chunkPiece(c sdk.ChatCompletionChunk) piece {
	p := piece{meta: metadata(c.ID, c.Model, c.JSON.SystemFingerprint, string(c.ServiceTier))}
	if c.JSON.Usage.Valid() {
		p.usage = usageOf(c.Usage)
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // the setting n asked for more answers; there is one
		}
		d := choice.Delta
		p.refusal += d.Refusal
		p.finish = cmp.Or(choice.FinishReason, p.finish)
		p.reasoning = reasoningOf(d.JSON.ExtraFields)
		p.addContent(d.Content, d.JSON.Content)
		p.addAudio(d.Audio.ID, d.Audio.Data, d.Audio.Transcript)
		p.keep("annotations", d.JSON.ExtraFields["annotations"])
		p.keep("logprobs", choice.JSON.Logprobs)
		for _, call := range d.ToolCalls {
			p.calls = append(p.calls, callPiece{call.Index, call.ID, call.Function.Name,
				arguments(call.Function.Arguments, call.Function.JSON.Arguments), valueOf(call.JSON.ExtraFields[extraContent])})
		}
	}
	return p
}

// addContent adds a text, or a list of parts: so Mistral sends what it thinks.
func (p *piece) addContent(text string, content respjson.Field) {
	if !strings.HasPrefix(content.Raw(), "[") {
		p.content += text
		return
	}
	type part struct {
		Type, Text string
		Thinking   []part
	}
	var parts []part
	if err := json.Unmarshal([]byte(content.Raw()), &parts); err != nil {
		p.err = fmt.Errorf("the content of the answer: %w", err)
	}
	for _, one := range parts {
		p.content += one.Text
		for _, t := range one.Thinking {
			p.reasoning.text += t.Text
		}
	}
}

// addAudio adds what the model speaks. Pieces of a stream are encoded one by one.
func (p *piece) addAudio(id, data, transcript string) {
	if id == "" && data == "" && transcript == "" {
		return
	}
	sound, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		p.err = fmt.Errorf("the audio of the answer: %w", err)
	}
	b := llm.Block{Type: llm.BlockAudio, ID: id, Index: new(audioIndex), Data: sound}
	if transcript != "" {
		b.Extra = map[string]any{"transcript": transcript}
	}
	p.audio = &b
}

// The places of the blocks that come in pieces, among those of a streamed answer.
const thoughtIndex, audioIndex = 0, 1

// arguments of a call are a text that holds JSON, or from some servers the JSON.
func arguments(text string, field respjson.Field) string {
	if raw := field.Raw(); strings.HasPrefix(raw, "{") {
		return raw
	}
	return text
}

// valueOf is a field that the SDK does not know, or nil.
func valueOf(f respjson.Field) (v any) {
	if raw := f.Raw(); raw == "" || raw == "null" || json.Unmarshal([]byte(raw), &v) != nil {
		return nil
	}
	return v
}

// keep adds to the metadata what is not empty.
func (p *piece) keep(name string, f respjson.Field) {
	v := valueOf(f)
	if list, ok := v.([]any); v == nil || ok && len(list) == 0 {
		return
	}
	p.meta[name] = v
}

// metadata is what the server says about its answer. The SDK calls the fingerprint
// deprecated; it is how local servers tell which they are.
func metadata(id, model string, fingerprint respjson.Field, tier string) map[string]any {
	meta := map[string]any{}
	mark, _ := valueOf(fingerprint).(string)
	for name, v := range map[string]string{"id": id, "model_name": model, "system_fingerprint": mark, "service_tier": tier} {
		if v != "" {
			meta[name] = v
		}
	}
	return meta
}

func usageOf(u sdk.CompletionUsage) *llm.Usage {
	out := llm.Usage{Input: int(u.PromptTokens), Output: int(u.CompletionTokens), Total: int(u.TotalTokens)}
	if out.Total == 0 {
		out.Total = out.Input + out.Output
	}
	in, gave := u.PromptTokensDetails, u.CompletionTokensDetails
	out.InputDetails = details(map[string]int64{llm.UsageCacheRead: in.CachedTokens, llm.UsageCacheCreation: in.CacheWriteTokens, llm.UsageAudio: in.AudioTokens})
	out.OutputDetails = details(map[string]int64{llm.UsageReasoning: gave.ReasoningTokens, llm.UsageAudio: gave.AudioTokens})
	return &out
}

// details are the counts that say something.
func details(counts map[string]int64) map[string]int {
	var out map[string]int
	for name, n := range counts {
		if n != 0 {
			if out == nil {
				out = map[string]int{}
			}
			out[name] = int(n)
		}
	}
	return out
}

// answer puts the pieces of an answer into the form of this module. What the
// server says last, or again with every piece, is kept for the last chunk.
type answer struct {
	calls   callTracker
	refused bool
	finish  string
	usage   *llm.Usage
	meta    map[string]any
	thought thought
}

// add is the chunk for a piece, if there is something to say.
func (a *answer) add(p piece) (chunk llm.Chunk, ok bool) {
	a.finish = cmp.Or(p.finish, a.finish)
	if p.usage != nil {
		a.usage = p.usage
	}
	if a.meta == nil {
		a.meta = map[string]any{"model_provider": provider}
	}
	for name, v := range p.meta {
		switch v := v.(type) {
		case string:
			a.meta[name] = v
		default: // a part of a whole: chunks add up
			if chunk.Metadata == nil {
				chunk.Metadata = map[string]any{}
			}
			chunk.Metadata[name] = v
		}
	}
	if b, ok := a.thought.add(p.reasoning); ok {
		chunk.Blocks = []llm.Block{b}
	}
	a.refused = a.refused || p.refusal != ""
	switch text := p.content + p.refusal; {
	case text != "" && len(chunk.Blocks) > 0: // Content would come before the blocks
		chunk.Blocks = append(chunk.Blocks, llm.Text(text))
	default:
		chunk.Content = text
	}
	if p.audio != nil {
		chunk.Blocks = append(chunk.Blocks, *p.audio)
	}
	chunk.ToolCalls = a.calls.add(p.calls)
	return chunk, chunk.Content != "" || len(chunk.Blocks) > 0 || len(chunk.ToolCalls) > 0 || chunk.Metadata != nil
}

// last is the chunk that ends the answer.
func (a *answer) last() llm.Chunk {
	chunk := llm.Chunk{Usage: a.usage, Metadata: a.meta}
	known := true
	switch a.finish {
	case "stop":
		chunk.Stop = llm.StopEnd
	case "tool_calls", "function_call":
		chunk.Stop = llm.StopTools
	case "length", "max_tokens", "model_length":
		chunk.Stop = llm.StopLength
	case "content_filter":
		chunk.Stop = llm.StopFilter
	default:
		chunk.Stop, known = llm.StopEnd, false
	}
	if !known {
		chunk.Metadata["stop_reason"] = a.finish
	}
	if chunk.Stop == llm.StopEnd {
		switch {
		case a.refused:
			chunk.Stop = llm.StopRefusal
		case len(a.calls.all) > 0: // so it is when a tool was forced, and always at some servers
			chunk.Stop = llm.StopTools
		}
	}
	if b, ok := a.thought.last(); ok {
		chunk.Blocks = []llm.Block{b}
	}
	return chunk
}
