package memory_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/memory"
)

type Home struct {
	City   string `json:"city"`
	Street string `json:"street"`
}

type Person struct {
	Name  string   `json:"name"`
	Home  Home     `json:"home"`
	Likes []string `json:"likes"`
	Tone  string   `json:"tone" default:"friendly"`
}

const annItem = `{"name":"Ann","home":{"city":"Bonn","street":"Am Hof"},"likes":["tea"],"tone":"dry"}`

// LangMem's update replaces a memory with the model's recollection of it.
//
// Defect: §3.3 an update overwrites the whole memory.
func TestManageToolMergesFields(t *testing.T) {
	for name, test := range map[string]struct{ update, want string }{
		"a field":              {`{"name":"Anna"}`, `{"name":"Anna","home":{"city":"Bonn","street":"Am Hof"},"likes":["tea"],"tone":"dry"}`},
		"a field of an object": {`{"home":{"city":"Rome"}}`, `{"name":"Ann","home":{"city":"Rome","street":"Am Hof"},"likes":["tea"],"tone":"dry"}`},
		"a list as a whole":    {`{"likes":["milk"]}`, `{"name":"Ann","home":{"city":"Bonn","street":"Am Hof"},"likes":["milk"],"tone":"dry"}`},
		"a zero":               {`{"name":"","likes":[]}`, `{"name":"","home":{"city":"Bonn","street":"Am Hof"},"likes":[],"tone":"dry"}`},
		"null is left out":     {`{"name":null,"home":{"city":null},"tone":"warm"}`, `{"name":"Ann","home":{"city":"Bonn","street":"Am Hof"},"likes":["tea"],"tone":"warm"}`},
		"nothing":              {`{}`, annItem},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			put(t, s, "default", `{"kind":"Person","content":`+annItem+`}`)
			put(t, s, "b", `{"content":`+annItem+`}`)
			tool := manageTool[Person](t, memory.ToolOptions{Store: s, Merge: true})
			for _, key := range []string{"default", "b"} {
				if out, err := call(t, tool, `{"action":"update","id":"`+key+`","content":`+test.update+`}`); err != nil || out != "updated memory "+key {
					t.Fatalf("got %v and %v", out, err)
				}
			}
			wantStored(t, s, `{"kind":"Person","content":`+test.want+`}`, `{"content":`+test.want+`}`)
		})
	}
}

func TestManageToolMergesFieldsOfAnyName(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", `{"content":{"city":"Bonn","pets":{"cats":2}}}`)
	tool := manageTool[map[string]any](t, memory.ToolOptions{Store: s, Merge: true})
	if _, err := call(t, tool, `{"action":"update","id":"a","content":{"city":null,"pets":{"dogs":1},"age":40}}`); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, `{"content":{"age":40,"city":"Bonn","pets":{"cats":2,"dogs":1}}}`)
}

func TestManageToolValidatesMergedMemory(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "text", `{"content":"Ann likes tea"}`)
	put(t, s, "fact", `{"kind":"Triple","content":{"subject":"A","predicate":"b","object":"C"}}`)
	put(t, s, "profile", `{"content":{"name":"Ann","age":40,"likes":[],"tone":""}}`)
	person := manageTool[Person](t, memory.ToolOptions{Store: s, Merge: true})
	profile := manageTool[Profile](t, memory.ToolOptions{Store: s, Merge: true})
	before := stored(t, s)
	for _, test := range []struct {
		tool       string
		args, want string
	}{
		{"person", `{"content":{"name":"Ann"}}`, "home"},
		{"person", `{"action":"update","id":"text","content":{"name":"Ann"}}`, "memory text would be invalid"},
		{"person", `{"action":"update","id":"fact","content":{"name":"Ann"}}`, "memory fact is a Triple: a Person cannot replace it"},
		{"person", `{"action":"update","id":"gone","content":{"name":"Ann"}}`, "unknown memory gone"},
		{"person", `{"action":"update","id":"text","content":{"first":"Ann"}}`, "first"},
		{"profile", `{"action":"update","id":"profile","content":{"age":-1}}`, "an age is not negative"},
	} {
		tool := person
		if test.tool == "profile" {
			tool = profile
		}
		if out, err := call(t, tool, test.args); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v and %v, want an error with %q", test.args, out, err, test.want)
		}
	}
	wantStored(t, s, before...)
	if out, err := call(t, person, `{"content":{"name":"Bob","home":{"city":"Rome","street":"x"},"likes":[]}}`); err != nil || !strings.HasPrefix(out.(string), "created memory ") {
		t.Errorf("got %v and %v", out, err)
	}
	wantStored(t, s, append(before, `{"content":{"name":"Bob","home":{"city":"Rome","street":"x"},"likes":[],"tone":"friendly"}}`)...)
}

// An update that omits fields is rejected unless merging is enabled, so that the schema
// stays the same.
func TestManageToolReplacesByDefault(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", `{"content":`+annItem+`}`)
	plain, merging := manageTool[Person](t, memory.ToolOptions{Store: s}), manageTool[Person](t, memory.ToolOptions{Store: s, Merge: true})
	if out, err := call(t, plain, `{"action":"update","id":"a","content":{"name":"Anna"}}`); err == nil || !strings.Contains(err.Error(), "home") {
		t.Errorf("got %v and %v, want an error about the fields that are missing", out, err)
	}
	if _, err := call(t, plain, `{"action":"update","id":"a","content":{"name":"Bob","home":{"city":"","street":""},"likes":[]}}`); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, `{"content":{"name":"Bob","home":{"city":"","street":""},"likes":[],"tone":"friendly"}}`)
	if d := cmp.Diff([]string{"name", "home", "likes"}, plain.Parameters.Properties["content"].Required); d != "" {
		t.Error(d)
	}
	if content := merging.Parameters.Properties["content"]; content.Required != nil || content.Properties["home"].Required != nil || content.Properties["tone"].Default != nil {
		t.Errorf("the schema of an update is %v", content)
	}
	if _, err := memory.ManageTool[string](&memory.ToolOptions{Merge: true}); err == nil || !strings.Contains(err.Error(), "Merge requires memories with fields") {
		t.Errorf("the error is %v", err)
	}
}

func TestManageToolValidatesContent(t *testing.T) {
	s := newStore(t, nil)
	tool := manageTool[Profile](t, memory.ToolOptions{Store: s})
	if out, err := call(t, tool, `{"content":{"name":"Ann","age":-1,"likes":[]}}`); err == nil || !strings.Contains(err.Error(), "an age is not negative") {
		t.Errorf("got %v and %v", out, err)
	}
	wantStored(t, s)
}
