package schema_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/schema"
)

type checked struct {
	City  string             `json:"city"`
	Unit  string             `json:"unit,omitempty" enum:"celsius,fahrenheit"`
	Days  int8               `json:"days,omitempty"`
	Ratio float64            `json:"ratio,omitempty"`
	On    bool               `json:"on,omitempty"`
	Tags  []string           `json:"tags,omitempty"`
	By    map[string]uint    `json:"by,omitempty"`
	Near  *struct{ N int64 } `json:"near"`
	Any   any                `json:"any,omitempty"`
	Raw   json.RawMessage    `json:"raw,omitempty"`
}

var values = []string{
	`{"city":"x"}`, `{}`, `{"city":1}`, `{"city":"x","unit":"celsius"}`, `{"city":"x","unit":"kelvin"}`, `{"city":"x","unit":null}`, `{"city":null}`,
	`{"city":"x","days":3}`, `{"city":"x","days":3.0}`, `{"city":"x","days":3.5}`, `{"city":"x","days":128}`, `{"city":"x","days":-129}`, `{"city":"x","days":"3"}`,
	`{"city":"x","ratio":1}`, `{"city":"x","ratio":-1.5e3}`, `{"city":"x","ratio":1e400}`, `{"city":"x","on":true}`, `{"city":"x","on":0}`,
	`{"city":"x","tags":["a","b"]}`, `{"city":"x","tags":[1]}`, `{"city":"x","tags":{}}`, `{"city":"x","tags":[]}`, `{"city":"x","by":{"a":1,"b":2}}`, `{"city":"x","by":{"a":-1}}`,
	`{"city":"x","near":{"N":1}}`, `{"city":"x","near":{}}`, `{"city":"x","near":{"N":1,"M":2}}`, `{"city":"x","near":{"N":12345678901234567890}}`,
	`{"city":"x","any":{"a":[1,null,{"b":"\u00e9"}]},"raw":[]}`, `{"city":"x","city":1}`, `{"city":1,"city":"x"}`, `{"city":"x","other":1}`, `{"city":"x"} {}`, `[]`, `"x"`, `null`, ``,
	`{"city":"x","by":{"a":1,"a":-1}}`, `{"city":"x","days":-0}`, `{"city":"x","near":null}`,
}

func compareChecks(t *testing.T, raw string) {
	for _, o := range []schema.Options{{}, {Nulls: true}} {
		s, err := schema.Of(reflect.TypeFor[checked](), o)
		if err != nil {
			t.Fatal(err)
		}
		c := schema.NewChecker(s)
		if c == nil {
			t.Fatal("no checker for a schema of this package")
		}
		if _, ok := c.Fill(json.RawMessage(raw)); !ok {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Errorf("%q was accepted, but is not JSON: %v", raw, err)
			continue
		}
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(v); err != nil {
			t.Errorf("%q was accepted, but the validator returned %v", raw, err)
		}
	}
}

func TestCheckerNeverExceedsValidator(t *testing.T) {
	for _, raw := range values {
		compareChecks(t, raw)
	}
}

func FuzzChecker(f *testing.F) {
	for _, raw := range values {
		f.Add(raw)
	}
	f.Fuzz(compareChecks)
}

// Without this test, a checker that rejects everything would pass the tests above.
func TestPlainArgumentsPass(t *testing.T) {
	s, err := schema.Of(reflect.TypeFor[checked](), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := schema.NewChecker(s)
	for raw, want := range map[string]bool{
		values[0]: true, values[3]: true, values[7]: true, values[13]: true, values[18]: true, values[24]: true, values[28]: true,
		values[1]: false, values[4]: false, values[5]: false,
	} {
		if filled, ok := c.Fill(json.RawMessage(raw)); ok != want || ok && string(filled) != raw {
			t.Errorf("%s: %s (%v), want %v", raw, filled, ok, want)
		}
	}
}

func TestCheckerFillsDefaults(t *testing.T) {
	type inner struct {
		A int `json:"a" default:"1"`
	}
	type outer struct {
		N    int    `json:"n" default:"1"`
		Text string `json:"text,omitempty" default:"{}"`
		In   *inner `json:"in,omitempty"`
		Free any    `json:"free,omitempty"`
	}
	s, err := schema.Of(reflect.TypeFor[outer](), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := schema.NewChecker(s)
	for raw, want := range map[string]string{
		`{}`:                           `{"n":1,"text":"{}"}`,
		" { } \n":                      ` { "n":1,"text":"{}"}`,
		`{"n":2}`:                      `{"n":2,"text":"{}"}`,
		`{"text":"x","in":{"a":2} }`:   `{"text":"x","in":{"a":2} ,"n":1}`,
		`{"free":{},"text":"x","n":3}`: `{"free":{},"text":"x","n":3}`,
		`{"free":{}}`:                  `{"free":{},"n":1,"text":"{}"}`,
		`{"n":null}`:                   "",
		`{"n":2,"text":"x","in":{}}`:   "", // a validator fills in nested defaults
		`{"text":"x"} {}`:              "",
	} {
		got, ok := c.Fill(json.RawMessage(raw))
		if ok != (want != "") || string(got) != want {
			t.Errorf("%q becomes %q (%v), want %q", raw, got, ok, want)
		}
	}
}

func TestSchemasWithoutChecker(t *testing.T) {
	one := 1
	for name, s := range map[string]*jsonschema.Schema{
		"nil":                  nil,
		"a pattern":            {Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Type: "string", Pattern: "x"}}},
		"a choice":             {AnyOf: []*jsonschema.Schema{{Type: "object"}}},
		"a length":             {Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Type: "array", MinItems: &one}}},
		"numbers in an enum":   {Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Enum: []any{1}}}},
		"a required stranger":  {Type: "object", Required: []string{"a"}},
		"a reference":          {Ref: "#"},
		"an invalid default":   {Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Type: "string", Default: json.RawMessage("1")}}},
		"an unknown keyword":   {Type: "object", Extra: map[string]any{"x": 1}},
		"items with a pattern": {Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Pattern: "x"}}},
	} {
		if schema.NewChecker(s) != nil {
			t.Errorf("%s has a checker", name)
		}
	}
}
