package langgraphimport

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordedValue is a value that LangGraph's serializer has written.
type recordedValue struct {
	Name    string          `json:"name"`
	Type    string          `json:"type"`
	Data    []byte          `json:"data"`
	Want    json.RawMessage `json:"want"`
	Problem string          `json:"problem"`
}

func recordedValues(t testing.TB) []recordedValue {
	t.Helper()
	raw, err := os.ReadFile("testdata/values.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []recordedValue
	if err := json.Unmarshal(raw, &all); err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	return all
}

func parsed(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return plainNumbers(v)
}

// plainNumbers returns v with numbers normalized, so that equal numbers compare equal.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return fmt.Sprint(f)
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

func TestPythonValuesConvert(t *testing.T) {
	for _, r := range recordedValues(t) {
		t.Run(r.Name, func(t *testing.T) {
			v, err := load(r.Type, r.Data)
			if err != nil {
				t.Fatal(err)
			}
			raw, problems := toJSON(v)
			if d := cmp.Diff(parsed(t, r.Want), parsed(t, raw)); d != "" {
				t.Errorf("recorded (-), converted (+):\n%s", d)
			}
			if got := strings.Join(problems, "; "); got != r.Problem {
				t.Errorf("problems %q, want %q", got, r.Problem)
			}
		})
	}
}

// constructed returns the JSON in which LangGraph 0.1 and 0.2 wrote objects.
func constructed(path, method, args, kwargs string) string {
	return fmt.Sprintf(`{"lc": 2, "type": "constructor", "id": [%s], "method": %s, "args": %s, "kwargs": %s}`, path, method, args, kwargs)
}

func TestOldJSONValuesConvert(t *testing.T) {
	delta := constructed(`"datetime", "timedelta"`, "null", "[0, 7200, 0]", "{}")
	for _, test := range []struct{ data, want, problem string }{
		{constructed(`"datetime", "datetime"`, `"fromisoformat"`, `["2024-01-02T03:04:05"]`, "{}"), `"2024-01-02T03:04:05"`, ""},
		{constructed(`"datetime", "date"`, "null", "[2024, 1, 2]", "{}"), `"2024-01-02"`, ""},
		{constructed(`"datetime", "time"`, "null", "[1, 2, 3, 4, null]", `{"fold": 0}`), `"01:02:03.000004"`, ""},
		{constructed(`"datetime", "time"`, "null", "[1, 2, 3, 0, "+constructed(`"datetime", "timezone"`, "null", "["+delta+"]", "{}")+"]", `{"fold": 0}`), `"01:02:03+02:00"`, ""},
		{delta, "7200", ""},
		{constructed(`"datetime", "timedelta"`, "null", "[-1, 86399, 999999]", "{}"), "-0.000001", ""},
		{constructed(`"datetime", "timedelta"`, "null", "[999999999, 86399, 999999]", "{}"), "86399999999999.999999", ""},
		{constructed(`"m", "Color"`, "null", `["red"]`, "{}"), `"red"`, ""},
		{constructed(`"builtins", "bytes"`, `"fromhex"`, `["00ff"]`, "{}"), `"AP8="`, ""},
		{constructed(`"builtins", "bytearray"`, `"fromhex"`, `["6162"]`, "{}"), `"YWI="`, ""},
		{constructed(`"builtins", "bytes"`, `"fromhex"`, `["0"]`, "{}"), "null", `bytes "0" is not hexadecimal`},
		{constructed(`"builtins", "set"`, "null", "[[]]", "{}"), "[]", ""},
		{constructed(`"m", "Empty"`, "null", "[]", "{}"), "{}", ""},
		{constructed(`"m", "Model"`, `[null, "construct"]`, "[]", `{"a": 1}`), `{"a":1}`, ""},
		{constructed(`"m", "Odd"`, "null", "[1]", `{"a": 1}`), `{"a":1}`, "unnamed arguments of the object of class m.Odd omitted"},
		{constructed(`"re", "compile"`, "null", `["a", 48]`, "{}"), `"(?s)a"`, ""},
		{constructed(`"re", "compile"`, "null", `["a", 32]`, "{}"), `"a"`, ""},
		{constructed(`"re", "compile"`, "null", `["a", 354]`, "{}"), `"(?i)a"`, "flags 320 of the regular expression omitted"},
		{`[NaN, "NaN \" Infinity", -Infinity, Infinity]`, `[null,"NaN \" Infinity",null,null]`,
			"[0]: NaN has no JSON form; [2]: -Inf has no JSON form; [3]: +Inf has no JSON form"},
		{`{"a": {"1": "x", "1": "y"}}`, `{"a":{"1":"y"}}`, `a: duplicate key "1": only its last value is imported`},
		{`{"lc": 1, "type": "not_implemented", "id": ["m", "Model"], "repr": "Model()"}`, "null", "LangChain did not save the object of class m.Model"},
		{`{"lc": 1, "type": "secret", "id": ["KEY"]}`, "null", "LangChain does not save the secret KEY: it reads it from the environment"},
		{`{"lc": 1, "type": "other", "id": ["KEY"]}`, `{"lc":1,"type":"other","id":["KEY"]}`, ""},
	} {
		v, err := load("json", []byte(test.data))
		if err != nil {
			t.Errorf("%s: %v", test.data, err)
			continue
		}
		raw, problems := toJSON(v)
		if string(raw) != test.want || strings.Join(problems, "; ") != test.problem {
			t.Errorf("%s : %s with %q, want %s with %q", test.data, raw, problems, test.want, test.problem)
		}
	}
}

func TestEqualKeysAreListed(t *testing.T) {
	for _, test := range []struct {
		keys          []any
		want, problem string
	}{
		{[]any{int64(1), "1"}, `{"1":1}`, `keys 1 and "1" are equal in JSON: value of the first omitted`},
		{[]any{"1", int64(1)}, `{"1":0}`, `keys 1 and "1" are equal in JSON: value of the first omitted`},
		{[]any{true, "true"}, `{"true":1}`, `keys True and "true" are equal in JSON: value of the first omitted`},
		{[]any{nil, "null"}, `{"null":1}`, `keys None and "null" are equal in JSON: value of the first omitted`},
		{[]any{1.0, "1.0"}, `{"1.0":1}`, `keys 1.0 and "1.0" are equal in JSON: value of the first omitted`},
		{[]any{1e16, 1e-7, 2.5, math.Inf(-1)}, `{"1e+16":0,"1e-07":1,"2.5":2,"-Infinity":3}`, ""},
		{[]any{[]byte("a"), "YQ=="}, `{"YQ==":1}`, `keys "YQ==" and "YQ==" are equal in JSON: value of the first omitted`},
		{[]any{&object{module: "datetime", class: "date", args: []any{int64(2024), int64(1), int64(2)}}}, `{"2024-01-02":0}`, ""},
		{[]any{[]any{int64(1)}, "a"}, `{"a":1}`, "value omitted: key of type tuple has no JSON form"},
	} {
		d := &dict{keys: test.keys}
		for i := range test.keys {
			d.values = append(d.values, int64(i))
		}
		raw, problems := toJSON(d)
		if string(raw) != test.want || strings.Join(problems, "; ") != test.problem {
			t.Errorf("%v : %s with %q, want %s with %q", test.keys, raw, problems, test.want, test.problem)
		}
	}
}

func TestUnreadableValueErrors(t *testing.T) {
	deep := strings.Repeat("\x91", 2000) + "\xc0"
	for _, test := range []struct{ kind, data, want string }{
		{"msgpack", "", "truncated data"},
		{"msgpack", "\x93\x01", "truncated data"},
		{"msgpack", "\xdd\xff\xff\xff\xff", "truncated data"},
		{"msgpack", "\xc1", "invalid first byte 0xc1 of a value"},
		{"msgpack", "\x01\x02", "1 bytes follow the value"},
		{"msgpack", "\xa1\xff", "string is not UTF-8"},
		{"msgpack", deep, "nesting exceeds 1000 levels"},
		{"msgpack", "\xd4\x05\xc0", "invalid LangGraph extension 5"},
		{"msgpack", "\xd4\x05\xc1", "extension 5: invalid first byte 0xc1 of a value"},
		{"json", `{"a": `, "truncated data"},
		{"json", `[1] 2`, "data after the JSON value"},
		{"json", strings.Repeat("[", 2000), "nesting exceeds 1000 levels"},
		{"pickle", "x", "pickle, which only Python can read: store it in another format and import again"},
		{"msgpack+aes", "x", "encrypted (aes): copy the threads with a saver without EncryptedSerializer and import the copy"},
		{"yaml", "x", `unknown serialization type "yaml"`},
	} {
		if _, err := load(test.kind, []byte(test.data)); err == nil || err.Error() != test.want {
			t.Errorf("%s %.20q: %v, want %s", test.kind, test.data, err, test.want)
		}
	}
	v, err := load("msgpack", []byte("\xd4\x40\xc0"))
	if err != nil {
		t.Fatal(err)
	}
	if raw, problems := toJSON(v); string(raw) != "null" || len(problems) != 1 || !strings.Contains(problems[0], "msgpack extension 64 is not LangGraph's") {
		t.Errorf("extension of another serializer: %s, %q", raw, problems)
	}
}

func TestHash128MatchesXXHash(t *testing.T) {
	raw, err := os.ReadFile("testdata/xxh3.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var n int
		var want string
		if _, err := fmt.Sscan(line, &n, &want); err != nil {
			t.Fatal(err)
		}
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(i*7 + i/13)
		}
		if got := hash128(in); got != want {
			t.Fatalf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

// A decoded value always has a JSON form, whatever the bytes were.
func FuzzLoad(f *testing.F) {
	for _, r := range recordedValues(f) {
		if len(r.Data) < 4096 {
			f.Add(r.Type, r.Data)
		}
	}
	f.Add("json", []byte(constructed(`"builtins", "bytes"`, `"fromhex"`, `["00ff"]`, "{}")))
	f.Add("json", []byte(`{"1": NaN, "1": -Infinity, "a\"b": [Infinity]}`))
	f.Add("msgpack", []byte("\x82\x01\xa1a\xa11\xa1b"))
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		v, err := load(kind, data)
		if err != nil {
			return
		}
		raw, _ := toJSON(v)
		if !json.Valid(raw) {
			t.Errorf("%s %s: %s", kind, base64.StdEncoding.EncodeToString(data), raw)
		}
		if name, ok := repeated(json.NewDecoder(bytes.NewReader(raw))); ok {
			t.Errorf("%s %s: key %q occurs twice in %s", kind, base64.StdEncoding.EncodeToString(data), name, raw)
		}
	})
}

// repeated returns a key that occurs twice in an object of valid JSON.
func repeated(d *json.Decoder) (string, bool) {
	var objects []map[string]bool // nil for an array
	isKey := false
	for {
		token, err := d.Token()
		if err != nil {
			return "", false
		}
		name, isText := token.(string)
		inObject := len(objects) > 0 && objects[len(objects)-1] != nil
		switch {
		case token == json.Delim('{'):
			objects, isKey = append(objects, map[string]bool{}), true
			continue
		case token == json.Delim('['):
			objects, isKey = append(objects, nil), false
			continue
		case token == json.Delim('}'), token == json.Delim(']'):
			objects = objects[:len(objects)-1]
			inObject = len(objects) > 0 && objects[len(objects)-1] != nil
			isKey = inObject
			continue
		case inObject && isKey && isText:
			if objects[len(objects)-1][name] {
				return name, true
			}
			objects[len(objects)-1][name] = true
			isKey = false
			continue
		}
		isKey = inObject
	}
}

// versionFile returns a file that package parity has recorded with a LangGraph version.
func versionFile(t testing.TB, version string) string {
	t.Helper()
	return unpackedFile(t, "../../test/system/parity/fixtures/import/versions/"+version+".sqlite.gz")
}

// A checkpoint of an old version with any change is converted or reported, with
// valid control data.
func FuzzConvertOld(f *testing.F) {
	for _, version := range []string{"0.1.19", "0.2.20", "0.2.60"} {
		threads := recordedThreads(f, versionFile(f, version))
		for _, name := range []string{"before", "join_half", "sends", "sub", "deep", "then", "raise_later", "ask_sub", "flow"} {
			for _, p := range threads[name] {
				var w rawWrite
				if len(p.writes) > 0 {
					w = p.writes[0]
				}
				f.Add(p.old, p.ns, p.id, p.parent, p.body.kind, p.body.data, p.meta, w.task, w.channel, w.value.data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, old bool, ns, id, parent, kind string, body, meta []byte, task, channel string, value []byte) {
		writes := []rawWrite{{task: task, channel: channel, value: typed{kind, value}}}
		p := &rawPoint{ns: ns, id: id, parent: parent, old: old, body: typed{kind, body}, meta: meta, writes: writes}
		root := &rawPoint{id: firstID, old: old, body: p.body, meta: p.meta, writes: writes}
		puts, problems := convert("t", []*rawPoint{p, root})
		if len(puts) < 2 && len(problems) == 0 && (ns != "" || id != root.id) {
			t.Errorf("%d of 2 checkpoints converted without a problem", len(puts))
		}
		for _, p := range puts {
			if !json.Valid(p.Control) {
				t.Errorf("control %s", p.Control)
			}
		}
	})
}

// A checkpoint with any change is converted or reported.
func FuzzConvert(f *testing.F) {
	threads := recordedThreads(f, recorded(f))
	for _, name := range []string{"messages@1", "interrupt_nested_deep@1", "interrupt_sends@1", "func_two_questions@2", "nested_turns_lasting@1"} {
		for _, p := range threads[name] {
			f.Add(p.ns, p.id, p.parent, p.body.data, p.meta, "__interrupt__", "~__pregel_pull, ask", []byte("\x90"))
		}
	}
	f.Fuzz(func(t *testing.T, ns, id, parent string, body, meta []byte, channel, path string, value []byte) {
		p := &rawPoint{ns: ns, id: id, parent: parent, body: typed{"msgpack", body}, meta: meta,
			writes: []rawWrite{{task: "1", path: path, channel: channel, value: typed{"msgpack", value}}}}
		root := &rawPoint{id: "1f1e1d6d-7232-6f33-bfff-f573312f7504", body: p.body, meta: p.meta, writes: p.writes}
		puts, problems := convert("t", []*rawPoint{p, root})
		if len(puts) < 2 && len(problems) == 0 && (ns != "" || id != root.id) {
			t.Errorf("%d of 2 checkpoints converted without a problem", len(puts))
		}
		for _, p := range puts {
			if !json.Valid(p.Control) {
				t.Errorf("control %s", p.Control)
			}
		}
	})
}
