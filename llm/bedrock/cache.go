package bedrock

import (
	"time"

	"github.com/treadle-go/treadle/llm"
)

// maxPoints is the number of cache points that the API accepts in a request.
const maxPoints = 4

// cache adds cache points to a request: after the tools, the system prompt, the
// newest turn, and the turn before it, whose entry the next request finds if the
// newest one has expired. Cache points from Extra come first. If too few are left
// for all places, the system prompt and the newest turn matter most.
func (r *request) cache(h *history, tools object, req *llm.Request) {
	if req.PromptCache == 0 || !r.family.caches() {
		return
	}
	point := object{"type": "default"}
	if req.PromptCache > 5*time.Minute && r.family.claude() {
		point["ttl"] = "1h"
	}
	list, _ := tools["tools"].([]object)
	left := maxPoints - points(list) - points(h.system)
	for _, t := range h.turns {
		left -= points(t.Content)
	}
	place := func(blocks []object) []object {
		if left <= 0 || !r.cacheable(blocks) {
			return blocks
		}
		left--
		return append(blocks, object{"cachePoint": point})
	}
	h.system = place(h.system)
	newest := len(h.turns) - 1
	h.turns[newest].Content = place(h.turns[newest].Content)
	if len(list) > 0 && !r.family.nova() {
		tools["tools"] = place(list)
	}
	if newest > 0 {
		h.turns[newest-1].Content = place(h.turns[newest-1].Content)
	}
}

// cacheable reports whether a cache point may follow blocks: not another cache
// point, not reasoning, and for Nova no tool calls and results.
func (r *request) cacheable(blocks []object) bool {
	if len(blocks) == 0 {
		return false
	}
	last := blocks[len(blocks)-1]
	if last["cachePoint"] != nil || last["reasoningContent"] != nil {
		return false
	}
	for _, b := range blocks {
		if r.family.nova() && (b["toolUse"] != nil || b["toolResult"] != nil) {
			return false
		}
	}
	return true
}

// points counts the cache points among blocks or tools.
func points(blocks []object) (n int) {
	for _, b := range blocks {
		if b["cachePoint"] != nil {
			n++
		}
	}
	return n
}
