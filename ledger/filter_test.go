package ledger_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// object decodes an object.
func object(t testing.TB, text string) ledger.Object {
	t.Helper()
	var o ledger.Object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// contained lists pairs of metadata and whether one contains the other, as in
// Postgres.
var contained = []struct {
	have, want string
	ok         bool
}{
	{`{}`, `{}`, true},
	{`{"a":1}`, `{}`, true},
	{`{}`, `{"a":1}`, false},
	{`{"a":1,"b":2}`, `{"a":1}`, true},
	{`{"a":1}`, `{"a":2}`, false},
	{`{"a":1}`, `{"a":"1"}`, false},
	{`{"a":1}`, `{"a":1.0}`, true},
	{`{"a":100}`, `{"a":1e2}`, true},
	{`{"a":0.1}`, `{"a":10e-2}`, true},
	{`{"a":-0}`, `{"a":0}`, true},
	{`{"a":-1}`, `{"a":1}`, false},
	{`{"a":12345678901234567890123}`, `{"a":12345678901234567890123.0}`, true},
	{`{"a":12345678901234567890123}`, `{"a":12345678901234567890124}`, false},
	{`{"a":1e999999999999999999999}`, `{"a":1}`, false},
	{`{"a":true}`, `{"a":true}`, true},
	{`{"a":true}`, `{"a":1}`, false},
	{`{"a":null}`, `{"a":null}`, true},
	{`{}`, `{"a":null}`, false},
	{`{"a":""}`, `{"a":null}`, false},
	{`{"a":{"b":1,"c":{"d":"x"}}}`, `{"a":{"c":{"d":"x"}}}`, true},
	{`{"a":{"b":1}}`, `{"a":{}}`, true},
	{`{"a":[1]}`, `{"a":{}}`, false},
	{`{"a":{"b":1}}`, `{"b":1}`, false},
	{`{"a":[1,2,3]}`, `{"a":[3,1]}`, true},
	{`{"a":[1]}`, `{"a":[1,1.0]}`, true},
	{`{"a":[1,2]}`, `{"a":[]}`, true},
	{`{"a":[1,2]}`, `{"a":[4]}`, false},
	{`{"a":[1,2]}`, `{"a":1}`, false},
	{`{"a":1}`, `{"a":[1]}`, false},
	{`{"a":[[1,2],[3]]}`, `{"a":[[2]]}`, true},
	{`{"a":[[1,2],[3]]}`, `{"a":[[1,3]]}`, false},
	{`{"a":[{"b":1,"c":2}]}`, `{"a":[{"b":1}]}`, true},
	{`{"a":[{"b":1},{"c":2}]}`, `{"a":[{"b":1,"c":2}]}`, false},
	{`{"a.b":1}`, `{"a":{"b":1}}`, false},
}

func TestMatchIsContainment(t *testing.T) {
	for _, c := range contained {
		f := &ledger.Filter{Contains: object(t, c.want)}
		if got := f.Match(object(t, c.have)); got != c.ok {
			t.Errorf("%s contains %s: got %v, want %v", c.have, c.want, got, c.ok)
		}
	}
}

// A search finds exactly what Match accepts, even if the metadata contains more
// scalars than the limit on terms.
func TestSearchAgreesWithMatch(t *testing.T) {
	var padding string
	for i := range 100 {
		padding += fmt.Sprintf(`"padding %d":%d,`, i, i)
	}
	for _, c := range contained {
		for _, large := range []bool{false, true} {
			have := c.have
			if large {
				have = "{" + padding + `"end":0,` + have[1:]
				if c.have == "{}" {
					have = "{" + padding + `"end":0}`
				}
			}
			l := ledger.New(ledger.NewMemory(), nil)
			thread := &ledger.Thread{Metadata: object(t, have)}
			if err := l.CreateThread(t.Context(), thread); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := l.CreateThread(t.Context(), &ledger.Thread{Metadata: ledger.Object{"other": "x"}}); err != nil {
					t.Fatal(err)
				}
			}
			found, total, err := l.Threads(t.Context(), &ledger.ThreadQuery{Filter: ledger.Filter{Contains: object(t, c.want)}})
			if err != nil || total != len(found) {
				t.Fatalf("found %d of %d, %v", len(found), total, err)
			}
			ok := false
			for _, f := range found {
				ok = ok || f.ID == thread.ID
			}
			if ok != c.ok {
				t.Errorf("%s (large: %v) found for %s: %v, want %v", c.have, large, c.want, ok, c.ok)
			}
		}
	}
}

func TestAuthConditions(t *testing.T) {
	metadata := object(t, `{"owner":"ann","n":1.0,"team":["a","b"],"null":null}`)
	for _, c := range []struct {
		condition ledger.Condition
		ok        bool
	}{
		{ledger.Condition{Key: "owner", Values: []any{"ann"}}, true},
		{ledger.Condition{Key: "owner", Values: []any{"bob"}}, false},
		{ledger.Condition{Key: "nobody", Values: []any{"ann"}}, false},
		{ledger.Condition{Key: "nobody", Values: []any{nil}}, false},
		{ledger.Condition{Key: "null", Values: []any{nil}}, true},
		{ledger.Condition{Key: "owner"}, false},
		{ledger.Condition{Key: "n", Values: []any{1}}, true},
		{ledger.Condition{Key: "n", Values: []any{1.0}}, true},
		{ledger.Condition{Key: "team", Values: []any{[]string{"a", "b"}}}, true},
		{ledger.Condition{Key: "team", Values: []any{"a"}}, false},
		{ledger.Condition{Key: "team", Contains: true, Values: []any{"b"}}, true},
		{ledger.Condition{Key: "team", Contains: true, Values: []any{"b", "a"}}, true},
		{ledger.Condition{Key: "team", Contains: true, Values: []any{"b", "c"}}, false},
		{ledger.Condition{Key: "owner", Contains: true, Values: []any{"ann"}}, false},
	} {
		f := ledger.Filter{Auth: []ledger.Condition{c.condition}}
		if got := f.Match(metadata); got != c.ok {
			t.Errorf("%+v: %v, want %v", c.condition, got, c.ok)
		}
		l := ledger.New(ledger.NewMemory(), nil)
		if err := l.CreateThread(t.Context(), &ledger.Thread{Metadata: metadata}); err != nil {
			t.Fatal(err)
		}
		if found, _, err := l.Threads(t.Context(), &ledger.ThreadQuery{Filter: f}); (len(found) == 1) != c.ok || err != nil {
			t.Errorf("%+v: got %d threads, %v", c.condition, len(found), err)
		}
	}
	if !(*ledger.Filter)(nil).Match(nil) {
		t.Error("nil filter rejects an object")
	}
}

// Terms are stored, so their hashes must never change.
func TestTermsAreStable(t *testing.T) {
	b := ledger.NewMemory()
	l := ledger.New(b, nil)
	id := uuid.UUID{1}
	thread := &ledger.Thread{ID: id, Status: ledger.Failed, Metadata: object(t, `{"a":"x","b":{"c":[1.0,true,false,null]}}`)}
	if err := l.CreateThread(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(t.Context(), ledger.Threads, id)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%x", r.Terms)
	const want = "[1af04fd96d101f96 be97af2ec8ff575 10c1b4076e3216d3 10c1b9076e321f52 10c1ba076e322105 1413a16d7e918ff0]"
	if got != want {
		t.Errorf("got terms %s, want %s", got, want)
	}
}
