package openai_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/llm"
)

// sentFormat returns the response_format for a schema.
func sentFormat(t *testing.T, schema string) (strict bool, sent string) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	body, err := bodyOf(t, own, []llm.Option{&llm.Output{Description: "the wanted value", Schema: &s}}, llm.User("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	var req struct {
		ResponseFormat struct {
			JSONSchema struct {
				Name, Description string
				Strict            bool
				Schema            json.RawMessage
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatal(err)
	}
	got := req.ResponseFormat.JSONSchema
	same(t, "name and description", "answer the wanted value", got.Name+" "+got.Description)
	after, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the caller's own schema", string(before), string(after))
	return got.Strict, string(got.Schema)
}

// objectWith returns the schema of an object with the property x.
func objectWith(x, required string) string {
	return `{"type":"object","properties":{"x":` + x + `},"required":[` + required + `],"additionalProperties":false}`
}

func TestStrictSchemas(t *testing.T) {
	for name, test := range map[string]struct{ given, want string }{
		"kept":                    {`{"type":"array","items":{"type":"string","format":"date","pattern":"^2"},"minItems":1,"maxItems":2}`, ""},
		"limits of numbers":       {`{"type":"integer","minimum":1,"maximum":9,"exclusiveMinimum":0,"exclusiveMaximum":10,"multipleOf":2}`, ""},
		"alternatives":            {`{"anyOf":[{"type":"string"},{"type":"null"}]}`, ""},
		"explicit null":           {`{"type":["string","null"]}`, ""},
		"a constant":              {`{"const":"owl"}`, ""},
		"lengths":                 {`{"type":"string","minLength":1,"maxLength":9,"format":"uri","default":"a","examples":["b"]}`, `{"type":"string"}`},
		"an open object":          {`{"type":"object","properties":{"y":{"type":"string"}},"required":["y"]}`, `{"type":"object","required":["y"],"properties":{"y":{"type":"string"}},"additionalProperties":false}`},
		"optional in alternative": {`{"anyOf":[{"type":"object","properties":{"y":{"type":"string"}}}]}`, `{"anyOf":[{"type":"object","required":["y"],"properties":{"y":{"type":["string","null"]}},"additionalProperties":false}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := test.want
			if want == "" {
				want = test.given
			}
			strict, sent := sentFormat(t, objectWith(test.given, `"x"`))
			if !strict {
				t.Error("it was sent as a hint, want strict")
			}
			sameJSON(t, objectWith(want, `"x"`), sent)
		})
	}
}

// A property that may be absent may be null.
func TestStrictSchemasMakeOptionalNullable(t *testing.T) {
	for given, want := range map[string]string{
		`{"type":"string","description":"d"}`: `{"type":["string","null"],"description":"d"}`,
		`{"type":["string","integer"]}`:       `{"type":["string","integer","null"]}`,
		`{"type":["string","null"]}`:          `{"type":["string","null"]}`,
		`{"type":"string","enum":["a","b"]}`:  `{"type":["string","null"],"enum":["a","b",null]}`,
		`{"anyOf":[{"type":"string"}]}`:       `{"anyOf":[{"type":"string"},{"type":"null"}]}`,
		`{"const":"owl","description":"d"}`:   `{"description":"d","anyOf":[{"const":"owl"},{"type":"null"}]}`,
	} {
		strict, sent := sentFormat(t, objectWith(given, ""))
		if !strict {
			t.Errorf("%s was sent as a hint, want strict", given)
		}
		sameJSON(t, objectWith(want, `"x"`), sent)
	}
	strict, sent := sentFormat(t, `{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}`)
	next := `{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}`
	node := `{"type":"object","properties":{"next":` + next + `},"required":["next"],"additionalProperties":false}`
	if !strict {
		t.Error("a schema that refers to itself was sent as a hint, want strict")
	}
	sameJSON(t, strings.TrimSuffix(node, "}")+`,"$defs":{"node":`+node+`}}`, sent)
}

// Schemas beyond strict mode are sent unchanged, except that anything is {} and not true.
func TestSchemasBeyondStrictModeAreHints(t *testing.T) {
	for _, given := range []string{
		`true`, `{"type":"object"}`, `{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"array"}`,
		`{"type":"object","properties":{"y":{"type":"string"}},"additionalProperties":true}`,
		`{"allOf":[{"type":"string"}],"type":"string"}`, `{"oneOf":[{"type":"string"}],"type":"string"}`, `{"type":"string","not":{"const":"a"}}`,
		`{"type":"string","if":{"const":"a"}}`, `{"type":"object","properties":{},"patternProperties":{"a":{"type":"string"}}}`,
		`{"type":"object","properties":{},"propertyNames":{"type":"string"}}`, `{"type":"array","items":{"type":"string"},"prefixItems":[{"type":"string"}]}`,
		`{"type":"array","items":{"type":"string"},"contains":{"type":"string"}}`, `{"type":"array","items":true}`, `{"anyOf":[true]}`,
		`{"type":"object","properties":{},"dependentRequired":{"a":["b"]}}`, `{"type":"object","properties":{},"dependentSchemas":{"a":{"type":"object"}}}`,
	} {
		whole := objectWith(given, `"x"`)
		strict, sent := sentFormat(t, whole)
		if strict {
			t.Errorf("%s was sent as strict, want a hint", given)
		}
		sameJSON(t, strings.ReplaceAll(whole, "true", "{}"), sent)
	}
	if strict, _ := sentFormat(t, `{"type":"string"}`); strict {
		t.Error("a schema of no object was sent as strict")
	}
}

func sameJSON(t *testing.T, want, got string) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	same(t, "the schema", w, g)
}

// Providers reject the boolean schema true, so an any field is {}.
func TestAnyParametersAreObjects(t *testing.T) {
	keep := llm.NewTool("keep", "", func(context.Context, struct {
		One  any             `json:"one"`
		Raw  json.RawMessage `json:"raw"`
		List []any           `json:"list"`
	}) (string, error) {
		return "", nil
	})
	body, err := bodyOf(t, own, []llm.Option{llm.Tools(keep)}, llm.User("Hi"))
	if err != nil || !strings.Contains(string(body), `"one":{}`) || !strings.Contains(string(body), `"items":{}`) || strings.Contains(string(body), `"raw":true`) {
		t.Errorf("the request is %s, %v", body, err)
	}
}
