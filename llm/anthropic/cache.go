package anthropic

import (
	"slices"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/treadle-go/treadle/llm"
)

// maxMarks is the number of cache marks that the API accepts in a request.
const maxMarks = 4

// setCache marks the places up to which the prompt is cached: the tools, the system
// prompt, the newest message, and the message before it, whose entry the next
// request finds if the newest one has expired. Marks in Extra come first. If too few
// are left for all places, the system prompt and the newest message matter most.
func setCache(body *sdk.MessageNewParams, req *llm.Request) error {
	if req.PromptCache == 0 {
		return nil
	}
	mark := sdk.NewCacheControlEphemeralParam()
	if req.PromptCache > 5*time.Minute {
		mark.TTL = sdk.CacheControlEphemeralTTLTTL1h
	}
	left := maxMarks - marks(body, req)
	place := func(at *sdk.CacheControlEphemeralParam) {
		if at != nil && left > 0 && param.IsOmitted(*at) {
			*at = mark
			left--
		}
	}
	if n := len(body.System); n > 0 {
		place(&body.System[n-1].CacheControl)
	}
	newest := len(body.Messages) - 1
	place(lastMark(body.Messages[newest]))
	if n := len(req.Tools); n > 0 && left > 0 && req.Tools[n-1].Extra["cache_control"] == nil {
		described, err := describe(req.Tools[n-1], mark)
		if err != nil {
			return err
		}
		body.Tools[n-1] = described
		left--
	}
	if newest > 0 {
		place(lastMark(body.Messages[newest-1]))
	}
	return nil
}

// lastMark returns the mark of the last block that can have one, or nil.
func lastMark(m sdk.MessageParam) *sdk.CacheControlEphemeralParam {
	for _, b := range slices.Backward(m.Content) {
		if at := b.GetCacheControl(); at != nil {
			return at
		}
	}
	return nil
}

// marks counts the marks of the request.
func marks(body *sdk.MessageNewParams, req *llm.Request) int {
	n := 0
	for _, t := range req.Tools {
		if t.Extra["cache_control"] != nil {
			n++
		}
	}
	for _, b := range body.System {
		if !param.IsOmitted(b.CacheControl) {
			n++
		}
	}
	for _, m := range body.Messages {
		for _, b := range m.Content {
			if at := b.GetCacheControl(); at != nil && !param.IsOmitted(*at) {
				n++
			}
		}
	}
	return n
}
