package ledger

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestObjectDecodingMatchesJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n) + strings.Repeat("]}", n) }
	for _, raw := range []string{
		`{}`, ` { } `, `{"a":1,"a":2}`, `{"a":"x","b":null,"c":true,"d":false,"e":[],"f":{},"g":[1,[2,{"h":"i"}]]}`,
		`{"n":[0,-0,1.50,1e400,12345678901234567890,-1E+2]}`, `{"":""}`, `{"\u0061":"b","a":"c"}`, `{"é":"\u00e9\n\"\ud83d\ude00 \ud83d"}`,
		"{\"a\":\"\xff\"}", `{ "a" : [ 1 , 2 ] , "b" : { "c" : "d" } }`, deep(20), deep(100), `null`,
		`{"a":01}`, `{"a":+1}`, `{"a":.5}`, `{"a":1.}`, `{"a":tru}`, `{"a":nul}`, `{"a":nullx}`, `{"a"}`, `{"a":1,}`, `{,}`, `{"a":[1,]}`, `{"a":"b`, `{"a":1`, `[1]`, `"a"`, `1`, `{"a":}`, "{\"a\":\"\n\"}", `{a:1}`, `{"a":1}x`,
	} {
		var got Object
		gotErr := json.Unmarshal([]byte(raw), &got)
		d := json.NewDecoder(strings.NewReader(raw))
		d.UseNumber()
		var want map[string]any
		wantErr := d.Decode(&want)
		if wantErr == nil && d.More() {
			continue // json.Unmarshal finds what follows
		}
		if (gotErr == nil) != (wantErr == nil) {
			t.Errorf("%s: got error %v, want %v", raw, gotErr, wantErr)
		}
		if wantErr == nil && !reflect.DeepEqual(map[string]any(got), want) {
			t.Errorf("%s decodes as %v, want %v", raw, got, want)
		}
	}
}

func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",null,{"b":true}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // UnmarshalJSON never receives invalid JSON
		}
		var got Object
		err := got.UnmarshalJSON(raw)
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		var want map[string]any
		if wantErr := d.Decode(&want); (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: got error %v, want %v", raw, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(map[string]any(got), want) {
			t.Fatalf("%s decodes as %v, want %v", raw, got, want)
		}
	})
}
