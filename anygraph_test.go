package treadle_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// shelf has a field of every kind that accumulates, and some that do not.
type shelf struct {
	Title string                  `json:"title"`
	Price *float64                `json:"price"`
	Tags  reduce.List[string]     `json:"tags"`
	Seen  reduce.Set[int]         `json:"seen"`
	Count reduce.Sum[int]         `json:"count"`
	Best  reduce.Max[float64]     `json:"best"`
	Notes reduce.Map[string, any] `json:"notes"`
	Extra any                     `json:"extra"`
}

// Parity: 5.
func TestSchemas(t *testing.T) {
	type ask struct{ Title string }
	type answer struct{ Tags reduce.List[string] }
	type user struct {
		Name string `json:"name"`
	}
	b := treadle.New[shelf]("shelves")
	treadle.AddNode(b, "node", func(context.Context, shelf) (answer, error) { return answer{}, nil })
	b.Edge(treadle.Start, "node")
	treadle.ContextType[user](b)
	g, err := treadle.Compile[ask, answer](b, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := treadle.New[reduce.List[int]]("root")
	treadle.AddNode(root, "node", func(context.Context, reduce.List[int]) (reduce.List[int], error) { return nil, nil })
	root.Edge(treadle.Start, "node")
	dynamic := treadle.New[treadle.Update]("dynamic")
	treadle.AddField[int](dynamic, "n")
	treadle.AddNode(dynamic, "node", func(context.Context, treadle.Update) (treadle.Update, error) { return nil, nil })
	dynamic.Edge(treadle.Start, "node")
	flow, err := treadle.NewFinalWorkflow("flow", func(context.Context, ask) (treadle.Final[int, string], error) {
		return treadle.Final[int, string]{}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := `{"type":"object","properties":{"n":{"type":"integer"}}}`
	for name, tt := range map[string]struct {
		g                             treadle.AnyGraph
		input, output, state, context string
	}{
		"struct": {
			g:      g,
			input:  `{"type":"object","properties":{"title":{"type":"string"}}}`,
			output: `{"type":"object","properties":{"tags":{"type":["null","array"],"items":{"type":"string"}}}}`,
			state: `{"type":"object","properties":{"title":{"type":"string"},"price":{"type":["null","number"]},` +
				`"tags":{"type":["null","array"],"items":{"type":"string"}},"seen":{"type":["null","array"],"items":{"type":"integer"}},` +
				`"count":{"type":"integer"},"best":{"type":"number"},"notes":{"type":"object","additionalProperties":true},"extra":true}}`,
			context: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`,
		},
		"one channel": {g: weave(t, root, nil), input: `{"type":["null","array"],"items":{"type":"integer"}}`,
			output: `{"type":["null","array"],"items":{"type":"integer"}}`, state: `{"type":["null","array"],"items":{"type":"integer"}}`},
		"dynamic": {g: weave(t, dynamic, nil), input: n, output: n, state: n},
		"workflow": {g: flow, input: `{"type":"object","properties":{"Title":{"type":"string"}},"required":["Title"],"additionalProperties":false}`,
			output: `{"type":"integer"}`, state: `{"type":"integer"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := tt.g.Schemas()
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []struct {
				name   string
				schema any
				want   string
			}{{"input", s.Input, tt.input}, {"output", s.Output, tt.output}, {"state", s.State, tt.state}} {
				raw, err := json.Marshal(part.schema)
				if err != nil {
					t.Fatal(err)
				}
				same(t, part.name, part.want, string(raw))
			}
			if tt.context == "" {
				if s.Context != nil {
					t.Errorf("a context schema without a declaration: %v", s.Context)
				}
				return
			}
			raw, err := json.Marshal(s.Context)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "context", tt.context, string(raw))
		})
	}
}

// Tags describe the fields of a graph's schemas. The tags of the input's own type take
// precedence over the state's.
func TestTagsDescribeFields(t *testing.T) {
	type state struct {
		City string              `json:"city" jsonschema:"where it is"`
		Unit string              `json:"unit" enum:"celsius,fahrenheit" default:"celsius"`
		Tags reduce.List[string] `json:"tags" enum:"rain,wind" jsonschema:"the weather"`
	}
	type ask struct {
		City string `jsonschema:"where to look"`
		Unit string
	}
	type answer struct{ Tags reduce.List[string] }
	b := treadle.New[state]("weather")
	treadle.AddNode(b, "node", func(context.Context, ask) (answer, error) { return answer{}, nil })
	b.Edge(treadle.Start, "node")
	g, err := treadle.Compile[ask, answer](b, nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := g.Schemas()
	if err != nil {
		t.Fatal(err)
	}
	unit := `"unit":{"type":"string","default":"celsius","enum":["celsius","fahrenheit"]}`
	tags := `"tags":{"type":["null","array"],"items":{"type":"string","enum":["rain","wind"]},"description":"the weather"}`
	for _, part := range []struct {
		name   string
		schema any
		want   string
	}{
		{"input", schemas.Input, `{"type":"object","properties":{"city":{"type":"string","description":"where to look"},` + unit + `}}`},
		{"state", schemas.State, `{"type":"object","properties":{"city":{"type":"string","description":"where it is"},` + unit + `,` + tags + `}}`},
		{"output", schemas.Output, `{"type":"object","properties":{` + tags + `}}`},
	} {
		raw, err := json.Marshal(part.schema)
		if err != nil {
			t.Fatal(err)
		}
		same(t, part.name, part.want, string(raw))
	}
	bad := treadle.New[struct {
		N int `json:"n" default:"many"`
	}]("bad")
	treadle.AddNode(bad, "node", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	bad.Edge(treadle.Start, "node")
	if _, err := weave(t, bad, nil).Schemas(); err == nil || !strings.Contains(err.Error(), `graph "bad": field n: default: "many" is not JSON`) {
		t.Errorf("a wrong default is %v", err)
	}
}
