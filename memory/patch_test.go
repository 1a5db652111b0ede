package memory

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPatchEditsDocuments(t *testing.T) {
	tests := []struct{ name, doc, patch, want string }{
		{"replaces a member", `{"a":1}`, `[{"op":"replace","path":"/a","value":2}]`, `{"a":2}`},
		{"adds a member", `{"a":1}`, `[{"op":"add","path":"/b","value":[]}]`, `{"a":1,"b":[]}`},
		{"removes a member", `{"a":1,"b":2}`, `[{"op":"remove","path":"/a"}]`, `{"b":2}`},
		{"appends to a list", `{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2}]`, `{"a":[1,2]}`},
		{"inserts into a list", `{"a":[1,3]}`, `[{"op":"add","path":"/a/1","value":2}]`, `{"a":[1,2,3]}`},
		{"adds at the end of a list", `{"a":[1]}`, `[{"op":"add","path":"/a/1","value":2}]`, `{"a":[1,2]}`},
		{"replaces in a list", `{"a":[{"b":1}]}`, `[{"op":"replace","path":"/a/0/b","value":2}]`, `{"a":[{"b":2}]}`},
		{"removes from a list", `{"a":[1,2,3]}`, `[{"op":"remove","path":"/a/1"}]`, `{"a":[1,3]}`},
		{"appends to a text", `{"a":"tea"}`, `[{"op":"add","path":"/a/-","value":" time"}]`, `{"a":"tea time"}`},
		{"unescapes names", `{"a/b":1,"c~d":2}`, `[{"op":"remove","path":"/a~1b"},{"op":"replace","path":"/c~0d","value":3}]`, `{"c~d":3}`},
		{"reads ~01 as ~1", `{"~1":1}`, `[{"op":"replace","path":"/~01","value":2}]`, `{"~1":2}`},
		{"replaces the whole", `{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		{"keeps digits", `{"a":12345678901234567890,"b":0}`, `[{"op":"replace","path":"/b","value":1.10}]`, `{"a":12345678901234567890,"b":1.10}`},
		{"takes null as a value", `{"a":1}`, `[{"op":"replace","path":"/a","value":null}]`, `{"a":null}`},
		{"does nothing", `{"a":1}`, `[]`, `{"a":1}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var ops []PatchOp
			if err := json.Unmarshal([]byte(test.patch), &ops); err != nil {
				t.Fatal(err)
			}
			got, err := applyPatch(json.RawMessage(test.doc), ops)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestPatchRejectsInvalidPaths(t *testing.T) {
	tests := []struct{ patch, want string }{
		{`{"op":"replace","path":"/x","value":1}`, `no member "x"`},
		{`{"op":"remove","path":"/x"}`, `no member "x"`},
		{`{"op":"add","path":"/x/y","value":1}`, `no member "x"`},
		{`{"op":"remove","path":"/list/2"}`, "no element 2"},
		{`{"op":"replace","path":"/list/-","value":1}`, "not an array index"},
		{`{"op":"add","path":"/list/01","value":1}`, "not an array index"},
		{`{"op":"add","path":"/list/9","value":1}`, "no element 9"},
		{`{"op":"add","path":"/text/-","value":1}`, "in a text"},
		{`{"op":"replace","path":"/text/-","value":"x"}`, "in a text"},
		{`{"op":"add","path":"/none/x","value":1}`, "in null"},
		{`{"op":"move","path":"/text"}`, "unknown operation"},
		{`{"op":"add","path":"/text"}`, "missing value"},
		{`{"op":"remove","path":""}`, "cannot remove the whole document"},
		{`{"op":"remove","path":"text"}`, "does not start with /"},
	}
	doc := json.RawMessage(`{"list":[1,2],"text":"a","none":null}`)
	for _, test := range tests {
		var op PatchOp
		if err := json.Unmarshal([]byte(test.patch), &op); err != nil {
			t.Fatal(err)
		}
		if _, err := applyPatch(doc, []PatchOp{op}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want one with %q", test.patch, err, test.want)
		}
	}
}

func TestParsePatchesFromModels(t *testing.T) {
	tests := []struct {
		in   string
		want int
	}{
		{`[{"op":"remove","path":"/a"},{"op":"remove","path":"/b"}]`, 2},
		{`{"op":"remove","path":"/a"}`, 1},
		{`"[{\"op\":\"remove\",\"path\":\"/a\"}]"`, 1},
		{`"Here [as asked]: [{\"op\":\"remove\",\"path\":\"/a\"}] done"`, 1},
		{`null`, 0},
		{``, 0},
		{`[]`, 0},
	}
	for _, test := range tests {
		if got, err := readPatches(json.RawMessage(test.in)); err != nil || len(got) != test.want {
			t.Errorf("%s: got %v and %v, want %d operations", test.in, got, err, test.want)
		}
	}
	for _, bad := range []string{`7`, `"nothing"`, `"[broken"`} {
		if got, err := readPatches(json.RawMessage(bad)); err == nil {
			t.Errorf("%s: got %v, want an error", bad, got)
		}
	}
}

// Adding and removing a field leaves the document unchanged.
func TestPatchAddThenRemove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Int())).Draw(t, "doc")
		name := rapid.String().Filter(func(s string) bool { _, there := doc[s]; return !there }).Draw(t, "name")
		raw, err := encodeAny(doc)
		if err != nil {
			t.Fatal(err)
		}
		path := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		got, err := applyPatch(raw, []PatchOp{{Op: "add", Path: path, Value: json.RawMessage("1")}, {Op: "remove", Path: path}})
		if err != nil {
			t.Fatal(err)
		}
		if !sameJSON(got, raw) {
			t.Fatalf("%s became %s", raw, got)
		}
	})
}
