// Package prices contains the prices of models. A [Table] computes the cost of a
// response from the token counts that the provider reports, for agent.Budget and
// for traces:
//
//	agent.Budget(&agent.BudgetOptions{RunCost: 0.50, Cost: prices.Default().Cost})
//
// Prices change, contracts differ, and the package's table is only valid for its
// date. Read your own table with [Read], or add to a table. The cost of a model
// that is not in the table is unknown, not zero.
package prices

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// Table contains the prices of models. Set its fields before the first use.
type Table struct {
	// Date is the day of the prices, such as "2025-11-01".
	Date string `json:"date"`
	// Models maps model names, as the provider reports them, to prices. A name with
	// a provider prefix, "openai:gpt-4o", applies only to that provider and is
	// looked up first. A name also covers its dated versions: "gpt-4o" covers
	// "gpt-4o-2024-08-06", but not "gpt-4o-mini".
	Models map[string]Price `json:"models"`
}

// Price is the price of a million tokens of a model, in US dollars or in any other
// unit that the whole table uses.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"` // including reasoning
	// CacheRead and CacheCreation are the prices of input tokens that the provider
	// read from or wrote to its cache. Nil means the price of Input.
	CacheRead     *float64 `json:"cache_read,omitempty"`
	CacheCreation *float64 `json:"cache_creation,omitempty"`
	// Long is the price of calls with a long input; nil means the same price.
	Long *Long `json:"long,omitempty"`
}

// Long is the price of all tokens of a call whose input has more tokens than Above.
type Long struct {
	Above         int      `json:"above"`
	Input         float64  `json:"input"`
	Output        float64  `json:"output"`
	CacheRead     *float64 `json:"cache_read,omitempty"`
	CacheCreation *float64 `json:"cache_creation,omitempty"`
}

//go:embed prices.json
var published []byte

// Default returns a table of the list prices that OpenAI, Anthropic, and Google had
// published by its Date, in US dollars. Each call returns a new table, so the
// caller may change it.
func Default() *Table {
	t, err := Read(bytes.NewReader(published))
	if err != nil {
		panic(err) // a test ensures that it is valid
	}
	return t
}

// Read decodes a table from JSON, whose fields are those of [Table] and [Price]. It
// returns an error if a field is unknown, the date is missing or invalid, or a
// price is negative.
func Read(r io.Reader) (*Table, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	t := &Table{}
	if err := d.Decode(t); err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	if _, err := time.Parse(time.DateOnly, t.Date); err != nil {
		return nil, fmt.Errorf("prices: date is %q: want the day of the prices, such as 2025-11-01", t.Date)
	}
	for name, p := range t.Models {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("prices: model %q: %w", name, err)
		}
	}
	return t, nil
}

func (p Price) check() error {
	numbers := map[string]*float64{"input": &p.Input, "output": &p.Output, "cache_read": p.CacheRead, "cache_creation": p.CacheCreation}
	if l := p.Long; l != nil {
		if l.Above <= 0 {
			return fmt.Errorf("long.above is %d: want the number of tokens that is not long yet", l.Above)
		}
		maps.Copy(numbers, map[string]*float64{"long.input": &l.Input, "long.output": &l.Output, "long.cache_read": l.CacheRead, "long.cache_creation": l.CacheCreation})
	}
	for name, n := range numbers {
		if n != nil && *n < 0 {
			return fmt.Errorf("%s is %v: want 0 or more", name, *n)
		}
	}
	return nil
}

// Cost returns the cost of a response, based on the model named in its Metadata and
// on its Usage. It returns NaN if the response has no model name or usage, or if
// the table does not contain the model. agent.Budget fails the run if the cost is
// NaN.
func (t *Table) Cost(answer llm.Message) float64 {
	provider, _ := answer.Metadata["model_provider"].(string)
	model, _ := answer.Metadata["model_name"].(string)
	if answer.Usage == nil {
		return math.NaN()
	}
	cost, ok := t.Of(provider, model, *answer.Usage)
	if !ok {
		return math.NaN()
	}
	return cost
}

// Of returns the cost of a call. It reports false if the table does not contain the
// model. The provider may be empty.
func (t *Table) Of(provider, model string, u llm.Usage) (cost float64, known bool) {
	p, ok := t.find(provider, model)
	if !ok {
		return 0, false
	}
	l := Long{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheCreation: p.CacheCreation}
	if p.Long != nil && u.Input > p.Long.Above {
		l = *p.Long
	}
	read, made := u.InputDetails[llm.UsageCacheRead], u.InputDetails[llm.UsageCacheCreation]
	plain := max(0, u.Input-read-made)
	sum := float64(plain)*l.Input + float64(read)*or(l.CacheRead, l.Input) + float64(made)*or(l.CacheCreation, l.Input) + float64(u.Output)*l.Output
	return sum / 1e6, true
}

func or(price *float64, otherwise float64) float64 {
	if price == nil {
		return otherwise
	}
	return *price
}

// version matches the version suffix of a model name.
var version = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|\d{3}|latest)$`)

// find returns the price of a model by its name, or by its name without the
// version.
func (t *Table) find(provider, model string) (Price, bool) {
	if t == nil || model == "" {
		return Price{}, false
	}
	short := version.ReplaceAllString(model, "")
	for _, name := range []string{provider + ":" + model, model, provider + ":" + short, short} {
		if p, ok := t.Models[name]; ok {
			return p, true
		}
	}
	return Price{}, false
}
