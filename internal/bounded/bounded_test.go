package bounded_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/bounded"
)

func parse(t *testing.T, raw string) *jsonschema.Schema {
	t.Helper()
	s, err := bounded.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func value(t *testing.T, raw string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func nested(n int, open, middle, end string) string {
	return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
}

// doubling returns a schema whose references double at every level.
func doubling(steps int) string {
	var defs strings.Builder
	for k := 1; k <= steps; k++ {
		fmt.Fprintf(&defs, `,"x%d":{"allOf":[{"$ref":"#/$defs/x%d"},{"$ref":"#/$defs/x%d"}]}`, k, k-1, k-1)
	}
	return fmt.Sprintf(`{"$defs":{"x0":{"type":"object"}%s},"$ref":"#/$defs/x%d"}`, defs.String(), steps)
}

func TestEndlessSchemasAreRejected(t *testing.T) {
	for name, raw := range map[string]string{
		"itself":              `{"$ref":"#"}`,
		"in allOf":            `{"allOf":[{"$ref":"#"}]}`,
		"in anyOf":            `{"anyOf":[{"type":"string"},{"$ref":"#"}]}`,
		"in not":              `{"not":{"$ref":"#"}}`,
		"in then":             `{"if":{"type":"object"},"then":{"$ref":"#"}}`,
		"in dependentSchemas": `{"dependentSchemas":{"a":{"$ref":"#"}}}`,
		"in dependencies":     `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":{"$ref":"#"}}}`,
		"two":                 `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		"by anchor":           `{"$ref":"#a","$defs":{"x":{"$anchor":"a","allOf":[{"$ref":"#a"}]}}}`,
		"by id":               `{"$id":"https://e.example/s","$ref":"s"}`,
		"by dynamic anchor":   `{"$dynamicAnchor":"n","allOf":[{"$dynamicRef":"#n"}]}`,
		"below a property":    `{"properties":{"a":{"$ref":"#/properties/a"}}}`,
		"escaped":             `{"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"$ref":"#/$defs/a~1b%20c"}}}`,
		"deep":                nested(400, `{"not":`, `{}`, `}`),
		"a huge pattern":      `{"pattern":"` + strings.Repeat("(a{1,900}){1,1}", 20) + `"}`,
		"nowhere":             `{"$ref":"#/$defs/none"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := bounded.Resolve(parse(t, raw), nil)
			if err == nil {
				t.Fatalf("accepted: %v", s.Validate(map[string]any{"a": 1}))
			}
			if len(err.Error()) > 3000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			t.Log(err)
		})
	}
	loop := &jsonschema.Schema{}
	loop.Not = loop
	if _, err := bounded.Resolve(loop, nil); err == nil {
		t.Error("a schema that holds itself was accepted")
	}
	if _, err := bounded.Resolve(nil, nil); err == nil {
		t.Error("nil was accepted")
	}
}

func TestExpensiveValuesAreRejected(t *testing.T) {
	twice := `{"$defs":{"t":{"allOf":[{"properties":{"c":{"$ref":"#/$defs/t"}}},{"properties":{"c":{"$ref":"#/$defs/t"}}}]}},"$ref":"#/$defs/t"}`
	tree := `{"type":"object","properties":{"c":{"$ref":"#"}}}`
	for name, test := range map[string]struct{ schema, value string }{
		"doubling references": {doubling(40), `{}`},
		"doubling by depth":   {twice, nested(60, `{"c":`, `{}`, `}`)},
		"a deep value":        {tree, nested(2000, `{"c":`, `{}`, `}`)},
		"long text and pattern": {`{"properties":{"s":{"pattern":"` + strings.Repeat("(a|b)*", 300) + `"}}}`,
			`{"s":"` + strings.Repeat("ab", 500_000) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := bounded.Resolve(parse(t, test.schema), nil)
			if err != nil {
				t.Fatal(err)
			}
			v := value(t, test.value)
			begin := time.Now()
			err = s.Validate(v)
			if err == nil {
				t.Error("accepted")
			}
			// It would take minutes or forever.
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestRecursiveSchemasKeepWorking(t *testing.T) {
	expression := `{"$ref":"#/$defs/e","$defs":{"e":{"oneOf":[
		{"type":"object","required":["num"],"properties":{"num":{"type":"number"}},"additionalProperties":false}`
	for op := range strings.FieldsSeq("add sub mul div mod pow min max") {
		expression += fmt.Sprintf(`,{"type":"object","properties":{"op":{"const":%q},"l":{"$ref":"#/$defs/e"},"r":{"$ref":"#/$defs/e"}},"required":["op","l","r"],"additionalProperties":false}`, op)
	}
	expression += `]}}}`
	leaf, sum := `{"num":1}`, `{"num":1}`
	for range 4 {
		sum = `{"op":"add","l":` + sum + `,"r":` + leaf + `}`
	}
	for name, test := range map[string]struct {
		schema, good, bad string
	}{
		"a tree": {`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["v"]}}}`,
			nested(200, `{"v":1,"kids":[`, `{"v":1}`, `]}`), `{"v":1,"kids":[{"v":"x"}]}`},
		"a list":        {`{"type":"object","properties":{"next":{"$ref":"#"}}}`, nested(400, `{"next":`, `{}`, `}`), `{"next":{"next":1}}`},
		"any JSON":      {`{"$ref":"#/$defs/j","$defs":{"j":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"array","items":{"$ref":"#/$defs/j"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/j"}}]}}}`, nested(40, `{"a":[1,`, `"x"`, `]}`), nested(40, `{"a":[1,`, `null`, `]}`)},
		"an expression": {expression, sum, strings.Replace(sum, `"num":1`, `"num":"x"`, 1)},
		"draft 7":       {`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"type":"object","properties":{"n":{"$ref":"#/definitions/n"}}}},"$ref":"#/definitions/n"}`, `{"n":{"n":{}}}`, `{"n":{"n":1}}`},
		"dynamic":       {`{"$id":"https://e.example/t","$dynamicAnchor":"n","type":"object","properties":{"n":{"$dynamicRef":"#n"}}}`, `{"n":{"n":{}}}`, `{"n":{"n":1}}`},
		"ids":           {`{"$id":"https://e.example/t","type":"object","properties":{"n":{"$ref":"n.json"}},"$defs":{"x":{"$id":"n.json","type":"object","properties":{"up":{"$ref":"t"},"me":{"$ref":"#"}}}}}`, `{"n":{"up":{"n":{"me":{}}}}}`, `{"n":{"up":{"n":{"me":1}}}}`},
		"a large value": {`{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}}}}}`,
			`{"rows":[` + strings.TrimSuffix(strings.Repeat(`{"a":1,"b":"some text"},`, 20_000), ",") + `]}`, `{"rows":[{"a":"1"}]}`},
		"doubling, a little": {doubling(8), `{}`, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := bounded.Resolve(parse(t, test.schema), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(value(t, test.good)); err != nil {
				t.Errorf("the good value: %v", err)
			}
			err = s.Validate(value(t, test.bad))
			if err == nil {
				t.Error("the bad value was accepted")
			} else if len(err.Error()) > 3000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// Package jsonschema prints null as "<invalid reflect.Value>".
func TestErrorsNameNull(t *testing.T) {
	s, err := bounded.Resolve(parse(t, `{"type":"array"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate(value(t, `null`))
	if want := `validating root: type: null has type "null", want "array"`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestExpensiveSchemasAreRejected(t *testing.T) {
	for name, raw := range map[string]string{
		"deep":          nested(5000, `{"not":`, `{}`, `}`),
		"long and deep": nested(200, `{"not":`, `{"title":"`+strings.Repeat("a", 1<<20)+`"}`, `}`),
		"long":          `{"title":"` + strings.Repeat("a", 20<<20) + `"}`,
		"null":          `null`,
		"a number":      `1`,
		"not JSON":      `{`,
	} {
		if _, err := bounded.Parse([]byte(raw)); err == nil {
			t.Error(name, "was accepted")
		}
	}
}

func TestDepthOfJSON(t *testing.T) {
	for raw, deep := range map[string]bool{
		nested(bounded.MaxDepth, "[", "", "]"):                   false,
		nested(bounded.MaxDepth+1, "[", "", "]"):                 true,
		nested(100_000, `{"a":`, "1", "}"):                       true,
		`"` + strings.Repeat("[", 1000) + `"`:                    false,
		`["\"` + strings.Repeat("[", 1000) + `"]`:                false,
		strings.Repeat("[],", 1000):                              false,
		`{"a\\":` + nested(bounded.MaxDepth, "[", "", "]") + `}`: true,
	} {
		if err := bounded.JSON([]byte(raw)); (err != nil) != deep {
			t.Errorf("%.20s… (%d bytes): %v", raw, len(raw), err)
		}
	}
}

func FuzzSchemas(f *testing.F) {
	f.Add(`{"$ref":"#"}`, `{}`)
	f.Add(doubling(5), `{"a":[1,null,"x"]}`)
	f.Add(`{"$dynamicAnchor":"n","properties":{"n":{"$dynamicRef":"#n"}}}`, `{"n":{}}`)
	f.Fuzz(func(t *testing.T, rawSchema, rawValue string) {
		s, err := bounded.Parse([]byte(rawSchema))
		var v any
		if err != nil || json.Unmarshal([]byte(rawValue), &v) != nil {
			return
		}
		if b, err := bounded.Resolve(s, nil); err == nil {
			_ = b.Validate(v)
		}
	})
}
