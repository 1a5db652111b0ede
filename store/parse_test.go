package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseFilter(t *testing.T) {
	for raw, want := range map[string]Filter{
		`{}`:                                       And(),
		`{"a": 1}`:                                 Eq("a", 1),
		`{"a": null}`:                              Eq("a", nil),
		`{"a": {}}`:                                Eq("a", struct{}{}),
		`{"a": [1]}`:                               Eq("a", []int{1}),
		`{"a\\.b": 1}`:                             Eq(`a\.b`, 1),
		`{"x": {"a\\.b\\.c": {"$gt": 1}}}`:         Gt(`x.a\.b\.c`, 1),
		`{"b": "x", "a": true}`:                    And(Eq("a", true), Eq("b", "x")),
		`{"a": {"b": {"c": 1}}}`:                   Eq("a.b.c", 1),
		`{"a": {"b": 1, "c": 2}}`:                  And(Eq("a.b", 1), Eq("a.c", 2)),
		`{"a": {"$gt": 1, "$lte": 5}}`:             And(Gt("a", 1), Lte("a", 5)),
		`{"a": {"b": {"$ne": 1}}}`:                 Ne("a.b", 1),
		`{"a": {"$in": [1, "x"]}}`:                 In[any]("a", 1, "x"),
		`{"a": {"$in": []}}`:                       In[any]("a"),
		`{"a": {"$exists": true}}`:                 Exists("a"),
		`{"a": {"$exists": false}}`:                Not(Exists("a")),
		`{"a": {"$not": {"$gte": 3}}}`:             Not(Gte("a", 3)),
		`{"$or": [{"a": 1}, {"b": 2}]}`:            Or(Eq("a", 1), Eq("b", 2)),
		`{"$and": [{"a": 1}], "b": 2}`:             And(And(Eq("a", 1)), Eq("b", 2)),
		`{"$not": {"a": 1}}`:                       Not(Eq("a", 1)),
		`{"$meta": {"a": {"$lt": "x"}}}`:           Meta(Lt("a", "x")),
		`{"a": {"$eq": {"b": 1}}}`:                 Eq("a", map[string]int{"b": 1}),
		` { "a" : { "$eq" : 1e400 } } `:            Eq("a", json.Number("1e400")),
		`{"a": {"$or": [{"$lt": 1}, {"$gt": 2}]}}`: Or(Lt("a", 1), Gt("a", 2)),
	} {
		got, err := ParseFilter(json.RawMessage(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if _, err := compile(got); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Filter{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

func TestParseFilterRejectsInvalid(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a": {"$like": "x"}}`:   `at a: has an unknown operator "$like"`,
		`{"a": {"b": {"$x": 1}}}`: `at a.b: has an unknown operator "$x"`,
		`{"$nor": []}`:            `has an unknown operator "$nor"`,
		`{"$gt": 1}`:              `has $gt without a key to compare`,
		`{"a": {"$gt": true}}`:    `a gt compares with true: only numbers and strings are ordered`,
		`{"a.b": 1}`:              `has a key "a.b" with a dot: nest objects ({"a": {"b": …}}), or escape the dot with a backslash`,
		`{"x": {"a.b": 1}}`:       `at x: has a key "a.b" with a dot: nest objects ({"a": {"b": …}}), or escape the dot with a backslash`,
		`{"a": {"$meta": {}}}`:    `at a: $meta is allowed only at the top level`,
		`[]`:                      `is not a JSON object: want {`,
		``:                        `is not a JSON object: want {`,
		`{"$not": 1}`:             `is not a JSON object: want {`,
		`{"a": {"$in": 1}}`:       `at a: $in requires an array: json: cannot unmarshal number into Go value of type []json.RawMessage`,
		`{"a": {"$exists": 1}}`:   `at a: $exists requires true or false: json: cannot unmarshal number into Go value of type bool`,
		`{"$or": {"a": 1}}`:       `$or requires an array of filters: json: cannot unmarshal object into Go value of type []json.RawMessage`,
	} {
		_, err := ParseFilter(json.RawMessage(raw))
		if err == nil || err.Error() != "store: filter "+want {
			t.Errorf("%s: got error %v, want %s", raw, err, want)
		}
	}
}

func TestFilterMatchesWholeValues(t *testing.T) {
	value := json.RawMessage(`{"a":{"b":1,"c":2},"t":true,"n":1,"x.y":5,"x":{"y":6}}`)
	for raw, want := range map[string]bool{
		`{"a": {"b": 1}}`: true, `{"a": {"b": 2}}`: false, `{"t": true}`: true, `{"t": 1}`: false, `{"n": true}`: false,
		`{"x\\.y": 5}`: true, `{"x": {"y": 6}}`: true,
	} {
		f, err := ParseFilter(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		m, err := compile(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.match(value, nil); got != want {
			t.Errorf("%s: got match %v, want %v", raw, got, want)
		}
	}
}

// Every filter that parses can be used.
func FuzzParseFilter(f *testing.F) {
	f.Add([]byte(`{"a":{"$not":{"$in":[1,null]}},"$or":[{"b":{"c":[1]}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		filter, err := ParseFilter(raw)
		if err != nil {
			return
		}
		m, err := compile(filter)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		m.match(json.RawMessage(`{"a":1,"b":{"c":[1]}}`), nil)
	})
}

func TestParseFilterRejectsLargeQuickly(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	terms := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":1`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	for name, c := range map[string]struct{ raw, want string }{
		"nested objects":    {nested(5000), "is nested 5000 levels deep: the limit is 64"},
		"the deepest":       {nested(64), ""},
		"nested operators":  {strings.Repeat(`{"$not":`, 4000) + "{}" + strings.Repeat("}", 4000), "is nested 4001 levels deep"},
		"nested arrays":     {`{"a":{"$eq":` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + "}}", "is nested 4002 levels deep"},
		"brackets in texts": {`{"a":"` + strings.Repeat(`[{\"`, 4000) + `"}`, ""},
		"too many members":  {terms(1001), "has more than 1000 members and filters"},
		"many members":      {terms(1000), ""},
		"too many filters":  {`{"$or":[` + strings.Repeat(`{"a":1},`, 1000) + `{"a":1}]}`, "has more than 1000 members and filters"},
		"many values":       {`{"a":{"$in":[` + strings.Repeat(`"0123456789abcdef",`, 50_000) + `1]}}`, ""},
		"too long":          {`{"a":"` + strings.Repeat("x", 2<<20) + `"}`, "the limit is 1048576"},
		"not JSON":          {`{"a":`, "is not a JSON object: unexpected end of JSON input"},
	} {
		start := time.Now()
		f, err := ParseFilter(json.RawMessage(c.raw))
		if took := time.Since(start); took > time.Minute { // without limits, it takes minutes
			t.Errorf("%s: %v for %d bytes", name, took, len(c.raw))
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got error %v, want %s", name, err, c.want)
		case c.want == "":
			if _, err := compile(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestLongPathsAreRejectedQuickly(t *testing.T) {
	for _, path := range []string{strings.Repeat("{", 100_000) + strings.Repeat("}", 100_000), strings.Repeat("a.", 100_000) + "a"} {
		_, err := parsePath(path)
		if err == nil || !strings.Contains(err.Error(), "the limit is 1024") {
			t.Errorf("a path of %d bytes: %.100v", len(path), err)
		}
	}
	if _, err := New(NewMemoryBackend(), &Options{Fields: []string{strings.Repeat("a", 2000)}}); err == nil {
		t.Error("store accepted a field of 2000 bytes")
	}
}
