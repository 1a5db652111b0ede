package plainjson_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/internal/plainjson"
)

type kind string

type part struct {
	Kind  kind    `json:"kind"`
	Ratio float64 `json:"ratio,omitempty"`
}

type whole struct {
	ID     string           `json:"id"`
	Text   string           `json:"text"`
	N      int              `json:"n"`
	Small  int8             `json:"small"`
	Size   uint16           `json:"size"`
	On     bool             `json:"on"`
	Short  float32          `json:"short"`
	Tags   []string         `json:"tags"`
	Part   part             `json:"part"`
	Parts  []part           `json:"parts,omitempty"`
	Maybe  *int             `json:"maybe"`
	Rest   *part            `json:"rest"`
	Raw    json.RawMessage  `json:"raw"`
	Far    *json.RawMessage `json:"far"`
	Counts map[kind]int     `json:"counts"`
	At     time.Time        `json:"at,omitzero"`
	Below  []whole          `json:"below,omitempty"`
	Bare   int
	hidden int    //nolint:unused // decoding must leave it alone
	Left   string `json:"-"`
}

var cases = []string{
	`{}`, `null`, ` { } `, `[]`, `"x"`, `{"id":"a","text":"b","n":1}`, `{"ID":"a"}`, `{"id":null}`, `{"id":"a","id":"b"}`,
	`{"text":"a\nb\t\"\\\/\b\f\r"}`, `{"text":"\u00e9\ud83d\ude00\ud800"}`, "{\"text\":\"\xff\"}", "{\"text\":\"é😀\"}", "{\"text\":\"a\nb\"}",
	`{"text":"\x"}`, `{"text":"a`, `{"text":"a\`, `{"n":1.0}`, `{"n":1e2}`, `{"n":-0}`, `{"n":01}`, `{"n":-}`, `{"n":99999999999999999999}`,
	`{"small":128}`, `{"small":-128}`, `{"size":-1}`, `{"size":65536}`, `{"on":true}`, `{"on":false}`, `{"on":tru}`, `{"on":0}`,
	`{"short":1e39}`, `{"short":0.1}`, `{"tags":[]}`, `{"tags":["a","b",]}`, `{"tags":["a" "b"]}`, `{"tags":null}`, `{"tags":["a",null]}`,
	`{"tags":["a","b","c","d","e","f","g","h","i"]}`, `{"part":{"kind":"x","ratio":-1.5e-3}}`, `{"part":{}}`, `{"part":[]}`,
	`{"parts":[{"kind":"x"},{"ratio":1}]}`, `{"maybe":3}`, `{"maybe":null}`, `{"rest":{"kind":"y"}}`, `{"Bare":1}`, `{"bare":1}`,
	`{"raw": {"a" : [1, "\\u00e9", null]} , "n":1}`, `{"raw":null}`, `{"far":null}`, `{"far":[null]}`, `{"raw":"\\u00g0"}`, `{"raw":[1,]}`, `{"counts":{"a":1,"b":2,"a":3}}`, `{"counts":{}}`,
	`{"counts":{"\u0061":1}}`, `{"counts":{"é":1}}`, `{"a":{"kind":"x"},"a":{"ratio":1}}`,
	`{"hidden":1}`, `{"Left":"x"}`, `{"-":"x"}`, `{"id":"a"} x`, `{"id":"a"}{"id":"b"}`, `{"id":"a",}`, `{,"id":"a"}`, `{"id" "a"}`, `{"id":}`,
	`{"id":"a","at":"2026-11-17T08:00:00Z"}`, `{"at":"yesterday"}`, `{"at":null}`, `{"below":[{"id":"b"}],"id":"a"}`, `{"below":[]}`,
	"\t{\r\n\"id\" : \"a\" , \"n\" : 2 }\n", `{"unknown":{"a":[1,2,{"b":null}]},"id":"a"}`, `{"id":"a"`, ``, ` `, `{"tags":["a"]]`, `{"\u0069d":"a"}`,
}

func compare[T any](t *testing.T, raw string) {
	t.Helper()
	var got, want T
	ok := plainjson.Unmarshal([]byte(raw), &got)
	err := json.Unmarshal([]byte(raw), &want)
	if !ok {
		if !reflect.ValueOf(&got).Elem().IsZero() {
			t.Errorf("%q into %T: it gave up and left %+v", raw, got, got)
		}
		return
	}
	if err != nil {
		t.Errorf("%q into %T: it was read as %+v, and encoding/json says %v", raw, got, got, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q into %T is not what encoding/json reads (-json +got):\n%s", raw, got, cmp.Diff(want, got, cmp.AllowUnexported(whole{})))
	}
}

func compareAll(t *testing.T, raw string) {
	compare[whole](t, raw)
	compare[[]whole](t, raw)
	compare[*part](t, raw)
	compare[string](t, raw)
	compare[int](t, raw)
	compare[float64](t, raw)
	compare[[]string](t, raw)
	compare[[][]bool](t, raw)
	compare[map[string]part](t, raw)
	compare[json.RawMessage](t, raw)
}

func TestUnmarshalMatchesEncodingJSON(t *testing.T) {
	for _, raw := range cases {
		compareAll(t, raw)
		compareAll(t, "["+raw+"]")
	}
}

// Strings are scanned eight bytes at a time, so each byte must be detected at every
// position.
func TestEveryByteIsDetectedAnywhere(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for _, b := range []byte("\x00\x1f !\"#[\\]\x7f\x80\xc3\xff") {
				text := []byte(strings.Repeat("x", length))
				text[at] = b
				compare[string](t, `"`+string(text)+`"`)
				compare[[]string](t, `["`+string(text)+`","é"]`)
			}
		}
	}
}

func TestListDecoderMatchesUnmarshal(t *testing.T) {
	var d plainjson.ListDecoder
	var got, want []whole
	for i := range 200 { // some blocks of short strings
		for _, raw := range cases {
			var a, b whole
			if d.Unmarshal([]byte(raw), &a) != plainjson.Unmarshal([]byte(raw), &b) {
				t.Fatalf("%q is read by one and not by the other", raw)
			}
			got, want = append(got, a), append(want, b)
		}
		var a, b string
		raw := []byte(strconv.Quote(strings.Repeat("s", i)))
		if !d.Unmarshal(raw, &a) || !plainjson.Unmarshal(raw, &b) || a != b {
			t.Fatalf("%s is read as %q, want %q", raw, a, b)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(whole{})); diff != "" {
		t.Errorf("later values changed earlier ones (-want +got):\n%s", diff)
	}
}

func TestListDecoderSeparatesStrings(t *testing.T) {
	var d plainjson.ListDecoder
	got := make([]string, 1000)
	for i := range got {
		if !d.Unmarshal([]byte(strconv.Quote(strings.Repeat(string(rune('a'+i%26)), i))), &got[i]) {
			t.Fatalf("a string of %d bytes is not read", i)
		}
	}
	for i, s := range got {
		if s != strings.Repeat(string(rune('a'+i%26)), i) {
			t.Fatalf("a string of %d bytes is %q after others were read", i, s)
		}
	}
}

func TestListDecoderSharesShortStrings(t *testing.T) {
	for _, raw := range []string{
		`{"id":"0123456789abcdef","text":"short","part":{"kind":"k"}}`,
		`{"id":"0123456789abcdef","text":"` + strings.Repeat("a text ", 50) + `"}`,
	} {
		data := []byte(raw)
		allocs := testing.AllocsPerRun(100, func() {
			var d plainjson.ListDecoder
			for range 100 {
				var v whole
				d.Unmarshal(data, &v)
			}
		})
		if allocs > 120 { // v itself, and a block for every 40 names or 11 texts
			t.Errorf("100 values like %.70s take %v allocations, want at most 120", raw, allocs)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, raw := range cases {
		f.Add(raw)
	}
	f.Fuzz(compareAll)
}

// Without this the tests above would pass for a package that never reads a thing.
func TestPlainValuesAreRead(t *testing.T) {
	var v whole
	if !plainjson.Unmarshal([]byte(`{"id":"a","text":"say \"hi\"\n","n":-3,"size":7,"on":true,"tags":["x"],"part":{"kind":"k","ratio":0.5},"maybe":1}`), &v) {
		t.Error("a plain struct was not read")
	}
	// Fields of other types do not matter if they are optional and absent.
	type optional struct {
		ID    string      `json:"id"`
		At    time.Time   `json:"at,omitzero"`
		Below []*optional `json:"below,omitempty"`
	}
	var o optional
	if !plainjson.Unmarshal([]byte(`{"id":"a"}`), &o) || o.ID != "a" {
		t.Error("a struct without its optional fields was not read")
	}
	if o = (optional{}); plainjson.Unmarshal([]byte(`{"id":"a","at":"2026-11-17T08:00:00Z"}`), &o) || o.ID != "" {
		t.Errorf("a time was read: %+v", o)
	}
	var ns []int
	if !plainjson.Unmarshal([]byte(` [1, 2] `), &ns) {
		t.Error("a plain list was not read")
	}
}

func TestTypesLeftToEncodingJSON(t *testing.T) {
	type tree struct{ Below []*tree }
	type embeds struct{ part }
	type quoted struct {
		N int `json:"n,string"`
	}
	type twice struct {
		A int `json:"B"`
		B int
	}
	for _, v := range []any{new(time.Time), new(json.Number), new([]byte), new(map[int]int), new(any), new([2]int),
		new(tree), new(embeds), new(quoted), new(twice), &whole{ID: "not zero"}, nil, whole{}, (*whole)(nil)} {
		if plainjson.Unmarshal([]byte(`{}`), v) {
			t.Errorf("%T was read", v)
		}
	}
}

func FuzzRaw(f *testing.F) {
	for _, raw := range cases {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r := plainjson.NewReader([]byte(raw))
		got := r.Raw()
		if !r.Done() {
			return
		}
		var want json.RawMessage
		if err := json.Unmarshal([]byte(raw), &want); err != nil || string(got) != string(want) {
			t.Errorf("%q has the value %q, and encoding/json says %q, %v", raw, got, want, err)
		}
	})
}
