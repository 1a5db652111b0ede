package langgraphimport

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
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

// plainNumbers returns a value with equal numbers in the same form.
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

func TestValuesOfThePythonSerializer(t *testing.T) {
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

func TestValuesThatCannotBeReadSayWhy(t *testing.T) {
	deep := strings.Repeat("\x91", 2000) + "\xc0"
	for _, test := range []struct{ kind, data, want string }{
		{"msgpack", "", "the data is cut off"},
		{"msgpack", "\x93\x01", "the data is cut off"},
		{"msgpack", "\xdd\xff\xff\xff\xff", "the data is cut off"},
		{"msgpack", "\xc1", "byte 0xc1 begins no value"},
		{"msgpack", "\x01\x02", "1 bytes follow the value"},
		{"msgpack", "\xa1\xff", "a text is not UTF-8"},
		{"msgpack", deep, "the value nests deeper than 1000 levels"},
		{"msgpack", "\xd4\x05\xc0", "extension 5 does not have the form of LangGraph's"},
		{"msgpack", "\xd4\x05\xc1", "extension 5: byte 0xc1 begins no value"},
		{"json", `{"a": `, "the data is cut off"},
		{"json", `[1] 2`, "more follows the JSON value"},
		{"json", strings.Repeat("[", 2000), "the value nests deeper than 1000 levels"},
		{"pickle", "x", "it is a pickle, which only Python can read: store it in another form and import again"},
		{"msgpack+aes", "x", "it is encrypted (aes): copy the threads with a saver that has no EncryptedSerializer and import that"},
		{"yaml", "x", `it has the unknown serialization type "yaml"`},
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
		t.Errorf("an extension of another serializer: %s, %q", raw, problems)
	}
}

func TestIDsAreHashedAsXXHashDoes(t *testing.T) {
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

// A decoded value always has JSON, whatever the bytes were.
func FuzzLoad(f *testing.F) {
	for _, r := range recordedValues(f) {
		if len(r.Data) < 4096 {
			f.Add(r.Type, r.Data)
		}
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		v, err := load(kind, data)
		if err != nil {
			return
		}
		if raw, _ := toJSON(v); !json.Valid(raw) {
			t.Errorf("%s %s: %s", kind, base64.StdEncoding.EncodeToString(data), raw)
		}
	})
}

// A checkpoint that was changed at any place is converted or reported.
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
			t.Errorf("%d of 2 checkpoints are converted, and nothing is reported", len(puts))
		}
		for _, p := range puts {
			if !json.Valid(p.Control) {
				t.Errorf("control %s", p.Control)
			}
		}
	})
}
