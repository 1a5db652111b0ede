package llm

import "fmt"

// Price is the price of a million tokens of a model, in US dollars or another unit.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"` // including reasoning
	// CacheRead and CacheCreation are the prices of input tokens that the provider
	// read from or wrote to its cache. Nil means the price of Input.
	CacheRead     *float64 `json:"cache_read,omitempty"`
	CacheCreation *float64 `json:"cache_creation,omitempty"`
	// Long is the price of calls with a long input; nil means the same price.
	Long *LongPrice `json:"long,omitempty"`
}

// LongPrice is the price of all tokens of a call whose input has more tokens than
// Above.
type LongPrice struct {
	Above         int      `json:"above"`
	Input         float64  `json:"input"`
	Output        float64  `json:"output"`
	CacheRead     *float64 `json:"cache_read,omitempty"`
	CacheCreation *float64 `json:"cache_creation,omitempty"`
}

// Cost returns the cost of a call.
func (p *Price) Cost(u Usage) float64 {
	l := LongPrice{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheCreation: p.CacheCreation}
	if p.Long != nil && u.Input > p.Long.Above {
		l = *p.Long
	}
	read, written := u.InputDetails[UsageCacheRead], u.InputDetails[UsageCacheCreation]
	plain := max(0, u.Input-read-written)
	sum := float64(plain)*l.Input + float64(read)*priceOr(l.CacheRead, l.Input) + float64(written)*priceOr(l.CacheCreation, l.Input) + float64(u.Output)*l.Output
	return sum / 1e6
}

func priceOr(price *float64, otherwise float64) float64 {
	if price == nil {
		return otherwise
	}
	return *price
}

// Check returns an error if a price is negative.
func (p *Price) Check() error {
	numbers := []struct {
		name string
		n    *float64
	}{{"input", &p.Input}, {"output", &p.Output}, {"cache_read", p.CacheRead}, {"cache_creation", p.CacheCreation}}
	if l := p.Long; l != nil {
		if l.Above <= 0 {
			return fmt.Errorf("invalid long.above %d: want the largest number of tokens at the normal price", l.Above)
		}
		numbers = append(numbers, []struct {
			name string
			n    *float64
		}{{"long.input", &l.Input}, {"long.output", &l.Output}, {"long.cache_read", l.CacheRead}, {"long.cache_creation", l.CacheCreation}}...)
	}
	for _, each := range numbers {
		if each.n != nil && *each.n < 0 {
			return fmt.Errorf("invalid %s %v: want 0 or more", each.name, *each.n)
		}
	}
	return nil
}
