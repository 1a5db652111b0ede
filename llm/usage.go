package llm

import "maps"

// Usage contains the token counts of a model call.
type Usage struct {
	// Input includes tokens read from or written to the provider's cache.
	Input int `json:"input_tokens"`
	// Output includes reasoning tokens.
	Output int `json:"output_tokens"`
	Total  int `json:"total_tokens"`
	// InputDetails and OutputDetails break down Input and Output by name, such as
	// [UsageCacheRead]. Their sum may differ from the total.
	InputDetails  map[string]int `json:"input_token_details,omitempty"`
	OutputDetails map[string]int `json:"output_token_details,omitempty"`
}

// Names of usage details. Providers may use others.
const (
	UsageCacheRead     = "cache_read"
	UsageCacheCreation = "cache_creation"
	UsageAudio         = "audio"
	UsageReasoning     = "reasoning"
)

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return u.each(v, func(a, b int) int { return a + b })
}

// Sub returns u minus v. No count becomes negative.
func (u Usage) Sub(v Usage) Usage {
	return u.each(v, func(a, b int) int { return max(0, a-b) })
}

func (u Usage) each(v Usage, op func(a, b int) int) Usage {
	return Usage{
		Input:         op(u.Input, v.Input),
		Output:        op(u.Output, v.Output),
		Total:         op(u.Total, v.Total),
		InputDetails:  eachDetail(u.InputDetails, v.InputDetails, op),
		OutputDetails: eachDetail(u.OutputDetails, v.OutputDetails, op),
	}
}

func eachDetail(a, b map[string]int, op func(a, b int) int) map[string]int {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	out := maps.Clone(a)
	if out == nil {
		out = make(map[string]int, len(b))
	}
	for name, n := range b {
		out[name] = op(a[name], n)
	}
	return out
}
