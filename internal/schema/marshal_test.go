package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

func TestMarshalWritesNoBooleanSchemas(t *testing.T) {
	type inner struct {
		Value any `json:"value"`
	}
	type state struct {
		Name   string                  `json:"name"`
		Extra  any                     `json:"extra"`
		Raw    json.RawMessage         `json:"raw" jsonschema:"anything"`
		List   []any                   `json:"list"`
		Map    map[string]any          `json:"map"`
		Deep   map[string][]inner      `json:"deep"`
		Number map[int]json.RawMessage `json:"number"`
		On     bool                    `json:"on" default:"true" enum:"true,false"`
	}
	s, err := Of(reflect.TypeFor[state](), Options{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{"name":{"type":"string"},"extra":{},"raw":{"description":"anything"},"list":{"type":"array","items":{}},` +
		`"map":{"type":"object","additionalProperties":{}},"deep":{"type":"object","additionalProperties":{"type":"array","items":{"type":"object","properties":{"value":{}},"required":["value"],"additionalProperties":false}}},` +
		`"number":{"type":"object","additionalProperties":{}},"on":{"type":"boolean","default":true,"enum":[true,false]}},"required":["name","extra","raw","list","map","deep","number"],"additionalProperties":false}`
	if string(raw) != want {
		t.Errorf("got\n%s\nwant\n%s", raw, want)
	}
}

func TestMarshalReplacesAllBooleans(t *testing.T) {
	for in, want := range map[string]string{
		`true`:  `{}`,
		`false`: `{"not":{}}`,
		`{"properties":{"a":true,"true":false},"additionalProperties":true,"const":true}`:                                            `{"properties":{"a":{},"true":{"not":{}}},"additionalProperties":{},"const":true}`,
		`{"items":[true,{"items":true}],"additionalItems":false}`:                                                                    `{"items":[{},{"items":{}}],"additionalItems":false}`,
		`{"anyOf":[true,{"type":"string"}],"allOf":[true],"oneOf":[false],"prefixItems":[true],"unevaluatedItems":false}`:            `{"anyOf":[{},{"type":"string"}],"allOf":[{}],"oneOf":[{"not":{}}],"prefixItems":[{}],"unevaluatedItems":false}`,
		`{"$defs":{"a":true},"patternProperties":{"^x":true},"dependentSchemas":{"c":true}}`:                                         `{"$defs":{"a":{}},"patternProperties":{"^x":{}},"dependentSchemas":{"c":{}}}`,
		`{"definitions":{"b":true},"dependencies":{"c":true,"d":["e"]}}`:                                                             `{"definitions":{"b":{}},"dependencies":{"c":{},"d":["e"]}}`,
		`{"if":true,"then":true,"else":true,"contains":true,"propertyNames":true,"contentSchema":true,"unevaluatedProperties":true}`: `{"if":{},"then":{},"else":{},"contains":{},"propertyNames":{},"contentSchema":{},"unevaluatedProperties":{}}`,
		`{"type":"boolean","default":true,"enum":[true,false],"readOnly":true,"uniqueItems":true,"x-items":true}`:                    `{"type":"boolean","default":true,"enum":[true,false],"readOnly":true,"uniqueItems":true,"x-items":true}`,
	} {
		var s jsonschema.Schema
		if err := json.Unmarshal([]byte(in), &s); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		raw, err := Marshal(&s)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if !sameJSON(t, raw, want) {
			t.Errorf("%s: got %s, want %s", in, raw, want)
		}
	}
	if raw, err := Marshal(nil); string(raw) != "null" || err != nil {
		t.Errorf("nil: %s, %v", raw, err)
	}
}

func sameJSON(t *testing.T, raw []byte, want string) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(a, b)
}

// What Marshal writes means the same, and has no booleans where schemas are.
func FuzzMarshal(f *testing.F) {
	f.Add(`{"properties":{"a":true,"b":{"not":{}},"true":{"items":[true,false]}},"additionalProperties":false}`)
	f.Add(`{"anyOf":[true,{"$ref":"#/$defs/x"}],"$defs":{"x":false},"enum":[true]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var s jsonschema.Schema
		if json.Unmarshal([]byte(text), &s) != nil {
			return
		}
		before, err := json.Marshal(&s)
		if err != nil {
			return
		}
		raw, err := Marshal(&s)
		if err != nil {
			t.Fatalf("%s: %v", before, err)
		}
		var again jsonschema.Schema
		if err := json.Unmarshal(raw, &again); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		after, err := json.Marshal(&again)
		if err != nil || string(after) != string(before) {
			t.Errorf("%s became %s, which means %s (%v)", before, raw, after, err)
		}
		if twice, err := Marshal(&again); err != nil || string(twice) != string(raw) {
			t.Errorf("%s, then %s (%v)", raw, twice, err)
		}
		if s := strings.TrimSpace(string(raw)); s[0] != '{' {
			t.Errorf("a boolean: %s", raw)
		}
	})
}
