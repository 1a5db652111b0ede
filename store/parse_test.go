package store

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestFiltersAreReadFromJSON(t *testing.T) {
	for raw, want := range map[string]Filter{
		`{}`:                                       And(),
		`{"a": 1}`:                                 Eq("a", 1),
		`{"a": null}`:                              Eq("a", nil),
		`{"a": {}}`:                                Eq("a", struct{}{}),
		`{"a": [1]}`:                               Eq("a", []int{1}),
		`{"a.b": 1}`:                               Eq(`a\.b`, 1),
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

func TestBadFiltersAreRefused(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a": {"$like": "x"}}`:   `at a: has an unknown operator "$like"`,
		`{"a": {"b": {"$x": 1}}}`: `at a.b: has an unknown operator "$x"`,
		`{"$nor": []}`:            `has an unknown operator "$nor"`,
		`{"$gt": 1}`:              `has $gt without a key to compare`,
		`{"a": {"$gt": true}}`:    `a gt compares with true: only numbers and texts have an order`,
		`{"a": {"$meta": {}}}`:    `at a: $meta is for the item as a whole`,
		`[]`:                      `is not a JSON object: it does not begin with {`,
		``:                        `is not a JSON object: it does not begin with {`,
		`{"$not": 1}`:             `is not a JSON object: it does not begin with {`,
		`{"a": {"$in": 1}}`:       `at a: $in needs an array: json: cannot unmarshal number into Go value of type []json.RawMessage`,
		`{"a": {"$exists": 1}}`:   `at a: $exists needs true or false: json: cannot unmarshal number into Go value of type bool`,
		`{"$or": {"a": 1}}`:       `$or needs an array of filters: json: cannot unmarshal object into Go value of type []json.RawMessage`,
	} {
		_, err := ParseFilter(json.RawMessage(raw))
		if err == nil || err.Error() != "store: filter "+want {
			t.Errorf("%s: the error is %v, want %s", raw, err, want)
		}
	}
}

// Whatever is read can be used.
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
