package schema_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/schema"
)

type color struct{ R, G, B byte }

func (color) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: "^#"}
}

type anything struct{}

func (*anything) JSONSchema() *jsonschema.Schema { return &jsonschema.Schema{} }

type many[T any] []T

func (many[T]) JSONType() reflect.Type { return reflect.TypeFor[[]T]() }

type total int

func (total) JSONType() reflect.Type { return reflect.TypeFor[float64]() }

type paint struct {
	Tint color  `json:"tint" jsonschema:"what it looks like"`
	Kind string `json:"kind" enum:"oil,water"`
}

type tree struct {
	Name  string     `json:"name"`
	Below many[tree] `json:"below"`
}

func TestSchemaMatchesJSON(t *testing.T) {
	const strict = `,"additionalProperties":false}`
	for _, test := range []struct {
		name        string
		of          any
		want, nulls string // nulls: if it differs
	}{
		{name: "descriptions, enums and defaults", of: struct {
			A string   `json:"a" jsonschema:"the first"`
			B int      `json:"b" enum:"1,2" default:"2"`
			C []string `json:"c" enum:"x,y" default:"[\"x\"]"`
			D *string  `json:"d" enum:"x" jsonschema:"optional"`
			E string   `json:"e,omitempty" default:"yes"`
		}{},
			want: `{"type":"object","properties":{"a":{"type":"string","description":"the first"},"b":{"type":"integer","default":2,"enum":[1,2]},` +
				`"c":{"type":"array","items":{"type":"string","enum":["x","y"]},"default":["x"]},` +
				`"d":{"type":"string","description":"optional","enum":["x"]},"e":{"type":"string","default":"yes"}},"required":["a"]` + strict,
			nulls: `{"type":"object","properties":{"a":{"type":"string","description":"the first"},"b":{"type":"integer","default":2,"enum":[1,2]},` +
				`"c":{"type":["null","array"],"items":{"type":"string","enum":["x","y"]},"default":["x"]},` +
				`"d":{"type":["null","string"],"description":"optional","enum":["x",null]},"e":{"type":"string","default":"yes"}},"required":["a"]` + strict},
		{name: "types that have a schema, at any depth", of: struct {
			A color            `json:"a"`
			B *color           `json:"b"`
			C []color          `json:"c,omitempty"`
			D map[string]color `json:"d"`
			E *anything        `json:"e"`
		}{},
			want: `{"type":"object","properties":{"a":{"type":"string","pattern":"^#"},"b":{"type":"string","pattern":"^#"},` +
				`"c":{"type":"array","items":{"type":"string","pattern":"^#"}},"d":{"type":"object","additionalProperties":{"type":"string","pattern":"^#"}},` +
				`"e":true},"required":["a","d"]` + strict,
			nulls: `{"type":"object","properties":{"a":{"type":"string","pattern":"^#"},"b":{"type":["null","string"],"pattern":"^#"},` +
				`"c":{"type":["null","array"],"items":{"type":"string","pattern":"^#"}},"d":{"type":"object","additionalProperties":{"type":"string","pattern":"^#"}},` +
				`"e":true},"required":["a","d"]` + strict},
		{name: "types that have another type's schema, with its tags", of: struct {
			A map[string]many[paint] `json:"a"`
			B total                  `json:"b"`
		}{},
			want: `{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"array","items":{"type":"object","properties":{` +
				`"tint":{"type":"string","description":"what it looks like","pattern":"^#"},"kind":{"type":"string","enum":["oil","water"]}},"required":["tint","kind"],"additionalProperties":false}}},` +
				`"b":{"type":"number"}},"required":["a","b"]` + strict,
			nulls: `{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":["null","array"],"items":{"type":"object","properties":{` +
				`"tint":{"type":"string","description":"what it looks like","pattern":"^#"},"kind":{"type":"string","enum":["oil","water"]}},"required":["tint","kind"],"additionalProperties":false}}},` +
				`"b":{"type":"number"}},"required":["a","b"]` + strict},
		{name: "what encoding/json writes in its own way", of: struct {
			Raw    json.RawMessage      `json:"raw"`
			RawP   *json.RawMessage     `json:"rawp"`
			Number json.Number          `json:"number"`
			Bytes  []byte               `json:"bytes"`
			Text   netip.Addr           `json:"text"`
			Map    map[int]bool         `json:"map"`
			Keys   map[netip.Addr]uint8 `json:"keys"`
			Time   time.Time            `json:"time"`
			Any    any                  `json:"any"`
		}{},
			want: `{"type":"object","properties":{"raw":true,"rawp":true,"number":{"type":"number"},"bytes":{"type":"string","contentEncoding":"base64"},` +
				`"text":{"type":"string"},"map":{"type":"object","additionalProperties":{"type":"boolean"}},` +
				`"keys":{"type":"object","additionalProperties":{"type":"integer","minimum":0,"maximum":255}},"time":{"type":"string"},"any":true},` +
				`"required":["raw","number","bytes","text","map","keys","time","any"]` + strict},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.nulls == "" {
				test.nulls = test.want
			}
			for _, with := range []struct {
				schema.Options
				want string
			}{{schema.Options{}, test.want}, {schema.Options{Nulls: true}, test.nulls}} {
				s, err := schema.Of(reflect.TypeOf(test.of), with.Options)
				if err != nil {
					t.Fatal(err)
				}
				raw, err := json.Marshal(s)
				if err != nil || string(raw) != with.want {
					t.Errorf("%+v: the schema is\n%s (%v), want\n%s", with.Options, raw, err, with.want)
				}
			}
		})
	}
}

func TestTypesWithoutSchemaFail(t *testing.T) {
	type bad struct {
		Limit int `json:"limit" default:"many"`
	}
	type worse struct {
		In []bad `json:"in"`
	}
	type odd struct {
		Kind int `json:"kind" enum:"1,two"`
	}
	for _, test := range []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[chan int](), "no schema for chan int: "},
		{reflect.TypeFor[tree](), "it contains itself"},
		{reflect.TypeFor[worse](), `schema_test.worse.In[].Limit: default: "many" is not JSON`},
		{reflect.TypeFor[odd](), `schema_test.odd.Kind: enum: "two" is not JSON`},
	} {
		if _, err := schema.Of(test.of, schema.Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: the error is %v, want one with %q", test.of, err, test.want)
		}
	}
	if _, err := schema.Of(reflect.TypeFor[func()](), schema.Options{SkipInvalid: true}); err == nil {
		t.Error("a function has a schema")
	}
}

func TestFillAddsMissingDefaults(t *testing.T) {
	type item struct {
		Name  string `json:"name"`
		Count int    `json:"count" default:"1"`
	}
	type order struct {
		Items []item          `json:"items"`
		By    map[string]item `json:"by,omitempty"`
		Note  string          `json:"note" default:"none"`
		First *item           `json:"first"`
	}
	s, err := schema.Of(reflect.TypeFor[order](), schema.Options{Nulls: true})
	if err != nil || !schema.HasDefaults(s) {
		t.Fatal(s, err)
	}
	for in, want := range map[string]string{
		`{"items":[{"name":"a"},{"name":"b","count":2}]}`: `{"items":[{"count":1,"name":"a"},{"count":2,"name":"b"}],"note":"none"}`,
		`{"note":"x", "big":12345678901234567890}`:        `{"note":"x", "big":12345678901234567890}`,
		`{"first":null,"by":{"k":{}}}`:                    `{"by":{"k":{"count":1}},"first":null,"note":"none"}`,
		`null`:                                            `null`,
	} {
		if got, err := schema.Fill(s, json.RawMessage(in)); err != nil || string(got) != want {
			t.Errorf("%s becomes %s (%v), want %s", in, got, err, want)
		}
	}
}
