// Package catalog contains published facts about the models of OpenAI, Anthropic,
// Google, and Amazon Bedrock: context windows, limits, abilities, and list prices.
// The adapters complete the [llm.Info] of their models from it. A [Table] also
// computes the cost of a response from the token counts that the provider reports,
// for agent.Budget and for traces:
//
//	agent.Budget(&agent.BudgetOptions{RunCost: 0.50, Cost: catalog.Default().Cost})
//
// Facts change, contracts differ, and the package's table is only valid for its
// date. Read your own table with [Read], add to a table, or use [llm.WithInfo]. The
// cost of a model that is not in the table is unknown, not zero.
package catalog

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// Table contains facts about models. Set its fields before the first use.
type Table struct {
	// Date is the day of the facts, such as "2025-11-01".
	Date string `json:"date"`
	// Source names where the facts come from.
	Source string `json:"source,omitempty"`
	// Models maps model names, as the provider reports them, to facts. A name with
	// a provider prefix, "openai:gpt-4o", applies only to that provider and is
	// looked up first. A name also covers its dated versions: "gpt-4o" covers
	// "gpt-4o-2024-08-06", but not "gpt-4o-mini".
	Models map[string]llm.Info `json:"models"`
}

//go:generate python3 generate.py
//go:embed catalog.json
var published []byte

// Default returns the package's table; its Date and Source name its origin. Prices
// are in US dollars. Each call returns a new table, so the caller may change it.
func Default() *Table {
	t, err := Read(bytes.NewReader(published))
	if err != nil {
		panic(err) // a test ensures that it is valid
	}
	return t
}

// Read decodes a table from JSON, whose fields are those of [Table], [llm.Info], and
// [llm.Price]. It returns an error if a field is unknown, the date is missing or
// invalid, or a number is negative.
func Read(r io.Reader) (*Table, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	t := &Table{}
	if err := d.Decode(t); err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	if _, err := time.Parse(time.DateOnly, t.Date); err != nil {
		return nil, fmt.Errorf("catalog: invalid date %q: want the day of the facts, such as 2025-11-01", t.Date)
	}
	for name, info := range t.Models {
		if info.Window < 0 || info.MaxOutput < 0 {
			return nil, fmt.Errorf("catalog: model %q: negative window or max_output", name)
		}
		if info.Price == nil {
			continue
		}
		if err := info.Price.Check(); err != nil {
			return nil, fmt.Errorf("catalog: model %q: price: %w", name, err)
		}
	}
	return t, nil
}

// Cost returns the cost of a response, based on the model named in its Metadata and
// on its Usage. It returns NaN if the response has no model name or usage, or if
// the table does not contain the model's price. agent.Budget fails the run if the
// cost is NaN.
func (t *Table) Cost(answer llm.Message) float64 {
	provider, _ := answer.Metadata["model_provider"].(string)
	model, _ := answer.Metadata["model_name"].(string)
	info, _ := t.Find(provider, model)
	if answer.Usage == nil || info.Price == nil {
		return math.NaN()
	}
	return info.Price.Cost(*answer.Usage)
}

// version matches the version suffix of a model name.
var version = regexp.MustCompile(`(-(\d{4}-\d{2}-\d{2}|\d{8}|\d{3}|latest)|@[\w-]+)$`)

// Find returns the facts about a model, by its name or by its name without the
// version. The provider may be empty. It reports false if the table does not contain
// the model.
func (t *Table) Find(provider, model string) (llm.Info, bool) {
	if t == nil || model == "" {
		return llm.Info{}, false
	}
	short := model
	if at := version.FindStringIndex(model); at != nil {
		short = model[:at[0]]
	}
	for _, name := range []string{provider + ":" + model, provider + ":" + short, model, short} {
		if info, ok := t.Models[name]; ok {
			info.Provider, info.Model = provider, model
			return info, true
		}
	}
	return llm.Info{}, false
}

var shared = sync.OnceValue(Default)

// Complete returns info with its empty fields set to the facts of the package's
// table, if the table contains the model. Adapters use it to describe their models.
// The result shares nothing with the table, so the caller may change it.
func Complete(info llm.Info) llm.Info {
	found, _ := shared().Find(info.Provider, info.Model)
	for _, list := range []*[]string{&found.Inputs, &found.Outputs, &found.Efforts} {
		*list = slices.Clone(*list)
	}
	if found.Price = clone(found.Price); found.Price != nil {
		p := found.Price
		p.CacheRead, p.CacheCreation, p.Long = clone(p.CacheRead), clone(p.CacheCreation), clone(p.Long)
		if p.Long != nil {
			p.Long.CacheRead, p.Long.CacheCreation = clone(p.Long.CacheRead), clone(p.Long.CacheCreation)
		}
	}
	return info.Or(found)
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
