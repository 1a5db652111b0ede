package pregel

import (
	"encoding/json"
	"testing"
	"time"
)

func TestResultsAppendLikeEncodingJSON(t *testing.T) {
	for _, ran := range []ranJSON{
		{},
		{Node: `a "quoted" node`, Times: 3},
		{Node: "n", Writes: []wroteJSON{{Field: "f"}, {Field: "g", N: 2}, {Field: "h", Over: true}}},
		{Node: "n", Writes: []wroteJSON{{Field: "f", Value: json.RawMessage(`{"a":[1,null]}`)}, {Field: "g", Coded: []byte{1, 'x', 0xff}}}},
		{Node: "n", Tried: &Tried{Attempts: 2, Retries: []Retry{{Error: "e", Began: time.Unix(1, 0), Ended: time.Unix(2, 0)}}}},
	} {
		want, err := json.Marshal(ran)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ran.appendJSON(nil); err != nil || string(got) != string(want) {
			t.Errorf("%s (%v), want %s", got, err, want)
		}
	}
}
