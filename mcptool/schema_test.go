package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/reduce"
)

type Trip struct {
	City    string                        `json:"city" jsonschema:"where to go"`
	Unit    string                        `json:"unit" enum:"celsius,fahrenheit" default:"celsius"`
	Days    *int                          `json:"days" enum:"1,2,3"`
	Tags    reduce.List[string]           `json:"tags,omitempty" enum:"rain,wind"`
	Stops   reduce.Map[string, leg]       `json:"stops,omitempty"`
	Said    llm.Messages                  `json:"said,omitempty" jsonschema:"the conversation so far"`
	Last    *llm.Message                  `json:"last,omitempty"`
	Extra   json.RawMessage               `json:"extra,omitempty" jsonschema:"any other data"`
	Visited map[string]reduce.Set[string] `json:"visited,omitempty"`
}

type leg struct {
	Hours reduce.Sum[float64] `json:"hours" default:"1.5" jsonschema:"how long it takes"`
}

// A type has one schema, wherever it is used. Graphs and responses also allow null
// for pointers and slices, because their JSON may contain it.
func TestTypeHasSameSchemaEverywhere(t *testing.T) {
	ctx := t.Context()
	tool := llm.NewTool("trip", "", func(context.Context, Trip) (string, error) { return "", nil })
	want := plainSchema(t, tool.Parameters)
	answer := llmtest.Say(`{"city":"Oslo"}`)
	seen := func(into **jsonschema.Schema, of func(*llm.Request) *jsonschema.Schema) llmtest.Turn {
		turn := answer
		turn.Expect = append(turn.Expect, func(r *llm.Request) error {
			*into = of(r)
			return nil
		})
		return turn
	}
	output := func(r *llm.Request) *jsonschema.Schema { return r.Output.Schema }
	for name, get := range map[string]func(*testing.T) (*jsonschema.Schema, error){
		"Object": func(t *testing.T) (s *jsonschema.Schema, err error) {
			script := llmtest.Scripted(t, seen(&s, output))
			script.NativeOutput = true
			_, err = llm.Object[Trip](ctx, script, llm.User("where?"))
			return s, err
		},
		"agent response": func(t *testing.T) (s *jsonschema.Schema, err error) {
			script := llmtest.Scripted(t, llmtest.Say("Oslo"), seen(&s, output))
			script.NativeOutput = true
			g, err := agent.New(script, &agent.Options{Response: agent.NewResponse[Trip]("", nil)})
			if err != nil {
				return nil, err
			}
			_, err = g.Run(ctx, agent.Ask("where?"))
			return s, err
		},
		"memory kind": func(t *testing.T) (s *jsonschema.Schema, err error) {
			turn := seen(&s, func(r *llm.Request) *jsonschema.Schema {
				i := slices.IndexFunc(r.Tools, func(t *llm.Tool) bool { return t.Name == "Trip" })
				return r.Tools[i].Parameters
			})
			_, err = memory.Extract(ctx, llmtest.Scripted(t, turn), []llm.Message{llm.User("Oslo!")}, nil,
				&memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[Trip]("a trip")}})
			return s, err
		},
		"workflow input": func(t *testing.T) (*jsonschema.Schema, error) {
			s, err := tripFlow(t).Schemas()
			return s.Input, err
		},
		"workflow as a tool": func(t *testing.T) (*jsonschema.Schema, error) {
			return graphTool(t, tripFlow(t)).Parameters, nil
		},
		"tool over MCP": func(t *testing.T) (*jsonschema.Schema, error) {
			return offer(t, tool)["trip"].Parameters, nil
		},
		"state field": func(t *testing.T) (*jsonschema.Schema, error) {
			type state struct {
				Trip Trip `json:"trip"`
			}
			s, err := tripGraph[state](t).Schemas()
			if err != nil {
				return nil, err
			}
			return s.State.Properties["trip"], nil
		},
		"state, where nothing is required": func(t *testing.T) (*jsonschema.Schema, error) {
			s, err := tripGraph[Trip](t).Schemas()
			if err != nil {
				return nil, err
			}
			s.State.Required, s.State.AdditionalProperties = tool.Parameters.Required, tool.Parameters.AdditionalProperties
			return s.State, nil
		},
		"run context": func(t *testing.T) (*jsonschema.Schema, error) {
			type state struct{ N int }
			b := treadle.New[state]("trips")
			treadle.ContextType[Trip](b)
			treadle.AddNode(b, "n", func(_ context.Context, s state) (state, error) { return s, nil })
			b.Edge(treadle.Start, "n")
			s, err := treadle.Must(b.Compile(nil)).Schemas()
			return s.Context, err
		},
		"an answer": func(t *testing.T) (s *jsonschema.Schema, err error) {
			w, err := treadle.NewWorkflow("ask", func(ctx context.Context, _ string) (Trip, error) {
				return treadle.Interrupt[Trip](ctx, "where?")
			}, &treadle.Options{Saver: checkpoint.NewMemory()})
			if err != nil {
				return nil, err
			}
			_, err = w.Thread("1").Run(ctx, "")
			paused, ok := errors.AsType[*treadle.InterruptError](err)
			if !ok {
				return nil, err
			}
			return s, json.Unmarshal(paused.Pauses[0].Schema, &s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := get(t)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, plainSchema(t, s)); d != "" {
				t.Errorf("schema differs from the tool's (-tool +here):\n%s", d)
			}
		})
	}
}

func tripFlow(t *testing.T) treadle.AnyGraph {
	t.Helper()
	w, err := treadle.NewWorkflow("trips", func(_ context.Context, in Trip) (Trip, error) { return in, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func tripGraph[S any](t *testing.T) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[S]("trips")
	treadle.AddNode(b, "n", func(context.Context, S) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "n")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// plainSchema removes null from the alternatives and enums of a schema.
func plainSchema(t *testing.T, s *jsonschema.Schema) any {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	var strip func(v any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, in := range v {
				list, ok := in.([]any)
				switch {
				case ok && k == "type" && len(list) == 2 && list[0] == "null":
					in = list[1]
				case ok && k == "enum":
					in = slices.DeleteFunc(list, func(e any) bool { return e == nil })
				}
				v[k] = strip(in)
			}
		case []any:
			for i := range v {
				v[i] = strip(v[i])
			}
		}
		return v
	}
	return strip(v)
}
