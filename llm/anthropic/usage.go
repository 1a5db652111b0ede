package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/treadle-go/treadle/llm"
)

// counts are tokens as Anthropic counts them: input excludes tokens read from and
// written to the cache, and output includes thinking.
type counts struct{ input, read, written, output, thought int64 }

func countsOf(u sdk.Usage) counts {
	return counts{u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens}
}

// update applies a stream's cumulative counts, some of which may be missing.
func (c *counts) update(u sdk.MessageDeltaUsage) {
	if u.JSON.InputTokens.Valid() {
		c.input = u.InputTokens
	}
	if u.JSON.CacheReadInputTokens.Valid() {
		c.read = u.CacheReadInputTokens
	}
	if u.JSON.CacheCreationInputTokens.Valid() {
		c.written = u.CacheCreationInputTokens
	}
	if u.JSON.OutputTokens.Valid() {
		c.output = u.OutputTokens
	}
	if u.OutputTokensDetails.JSON.ThinkingTokens.Valid() {
		c.thought = u.OutputTokensDetails.ThinkingTokens
	}
}

func (c counts) usage() llm.Usage {
	u := llm.Usage{Input: int(c.input + c.read + c.written), Output: int(c.output)}
	u.Total = u.Input + u.Output
	u.InputDetails = details(map[string]int64{llm.UsageCacheRead: c.read, llm.UsageCacheCreation: c.written})
	u.OutputDetails = details(map[string]int64{llm.UsageReasoning: c.thought})
	return u
}

// details returns the nonzero counts.
func details(all map[string]int64) map[string]int {
	var out map[string]int
	for name, n := range all {
		if n == 0 {
			continue
		}
		if out == nil {
			out = make(map[string]int, len(all))
		}
		out[name] = int(n)
	}
	return out
}
