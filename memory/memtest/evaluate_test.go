package memtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/memory/memtest"
	"github.com/treadle-go/treadle/store"
)

// story returns a case from JSON. Its name is its own.
func story(t *testing.T, src string) memtest.Case {
	t.Helper()
	c := memtest.Case{}
	if err := json.Unmarshal([]byte(src), &c); err != nil {
		t.Fatal(err)
	}
	c.Name = "story"
	return c
}

const (
	tea   = `"given":[{"key":"a","text":"Ann likes tea"}]`
	hello = `"messages":["Hello."]`
	noted = `"answers":[{"role":"assistant","tool_calls":[{"name":"Memory","args":{"content":"Ann is here"}}]}]`
	idle  = `"answers":[{"role":"assistant","tool_calls":[{"name":"Done","args":{}}]}]`
)

func TestEvaluateReportsProblems(t *testing.T) {
	for _, test := range []struct {
		name, story string
		want        []string
	}{
		{"a memory is missing", `{` + tea + `,"then":{"contains":[{"kind":"Memory","text":"milk"}]}}`,
			[]string{`story: in the end: 0 memories match {kind Memory, text "milk"}, want one or more; the memories are:`, `a: Memory {"content":"Ann likes tea"}`}},
		{"a memory is there", `{` + tea + `,"then":{"lacks":[{"text":"tea"}]}}`, []string{`1 memories match {text "tea"}, want 0`}},
		{"a memory is there too often", `{` + tea + `,"then":{"contains":[{"content":{"content":"Ann likes tea"},"count":2}]}}`,
			[]string{`1 memories match {content {"content":"Ann likes tea"}}, want 2`}},
		{"there are more memories", `{` + tea + `,"then":{"total":0}}`, []string{"got 1 memories, want 0"}},
		{"there are none", `{"then":{"total":1}}`, []string{"got 0 memories, want 1: none"}},
		{"the past was another", `{` + tea + `,"then":{"as_of":[{"at":"2026-01-01T00:00:00Z","contains":[{"key":"a"}]}]}}`,
			[]string{"as of 2026-01-01T00:00:00Z: 0 memories match {key a}"}},
		{"the history is another", `{` + tea + `,"then":{"history":[{"key":"a","versions":["milk"]}]}}`,
			[]string{`history of "a", newest first:`, "2026-01-05T09:01:00Z Ann likes tea", "milk"}},
		{"the history is longer", `{` + tea + `,"then":{"history":[{"of":{"text":"tea"},"versions":[]}]}}`, []string{`history of "a", newest first`}},
		{"the history of nobody", `{` + tea + `,"then":{"history":[{"of":{"text":"milk"},"versions":[]}]}}`, []string{`history of {text "milk"}: 0 memories match`}},
		{"it is not recalled", `{` + tea + `,"then":{"recall":[{"query":"tea","finds":[{"text":"milk"}],"k":1}]}}`,
			[]string{`recall of "tea": {text "milk"} is not among the first 1`}},
		{"it is recalled", `{` + tea + `,"then":{"recall":[{"messages":["tea"],"omits":[{"key":"a"}]}]}}`, []string{`recall of "tea": {key a} is recalled, at rank 1`}},
		{"it has no room", `{` + tea + `,"then":{"recall":[{"query":"tea","finds":[{"key":"a"}],"tokens":5}]}}`, []string{"{key a} is not among the first 0"}},
		{"other changes", `{"sessions":[{` + hello + `,` + noted + `,"changes":["update"]}]}`, []string{`session 1: changes are ["insert"], want ["update"]`, "Ann is here"}},
		{"any change", `{"sessions":[{` + hello + `,` + noted + `,"changes":[]}]}`, []string{`changes are ["insert"], want []`}},
		{"no error", `{"sessions":[{` + hello + `,` + idle + `,"error":"conflict"}]}`, []string{`session 1: succeeded, want an error with "conflict"`}},
		{"another error", `{"sessions":[{` + hello + `,"failure":"the provider is down","error":"conflict"}]}`,
			[]string{`want an error with "conflict"`, "the provider is down"}},
		{"an error", `{"sessions":[{` + hello + `,"failure":"the provider is down"}]}`, []string{"session 1: failed: ", "the provider is down"}},
		{"too many answers", `{"sessions":[{` + hello + `,"answers":[{"role":"assistant","content":"No."},{"role":"assistant","content":"No."}]}]}`,
			[]string{"1 of the 2 answers were not requested"}},
		{"too few answers", `{"sessions":[{` + hello + `,"answers":[{"role":"assistant","tool_calls":[{"name":"Memory","args":{}}]}]}]}`,
			[]string{"more model calls than answers (1)", "Correct this call only"}},
		{"a model that does not fail", `{"sessions":[{` + hello + `,` + idle + `,"failure":"the provider is down","error":"down"}]}`,
			[]string{`model was not called after its answers, so it could not fail with "the provider is down"`}},
		{"no answers", `{"sessions":[{` + hello + `}]}`, []string{"session without answers: add answers, or set Options.Model"}},
		{"the model does not see it", `{` + tea + `,"sessions":[{` + hello + `,` + idle + `,"shows":["milk"]}]}`, []string{`model request lacks "milk":`, "Ann likes tea"}},
		{"the model sees it", `{` + tea + `,"sessions":[{` + hello + `,` + idle + `,"hides":["tea"]}]}`, []string{`model request contains "tea"`}},
		{"an answer about nothing", `{` + tea + `,"sessions":[{` + hello + `,"answers":[{"role":"assistant","tool_calls":[{"name":"RemoveDoc","args":{"json_doc_id":"~milk"}}]}]}]}`,
			[]string{`answer 1, call 1: 0 of the memories in the model request contain "milk", want one:`, "m1: Ann likes tea"}},
		{"a session that spoils the next", `{"sessions":[{` + hello + `,` + noted + `,"then":{"total":0}},{` + hello + `}]}`, []string{"session 1: got 1 memories, want 0"}},
		{"a time that is over", `{` + tea + `,"sessions":[{` + hello + `,` + idle + `,"at":"2025-01-01T00:00:00Z"}]}`,
			[]string{"2025-01-01T00:00:00Z is before 2026-01-05T09:01:00Z"}},
		{"a memory of two forms", `{"given":[{"key":"a","text":"x","value":{"a":1}}]}`, []string{`given "a": want a text`}},
		{"a kind without a content", `{"given":[{"key":"a","text":"x","kind":"Memory"}]}`, []string{`given "a": want a text`}},
		{"a memory of no form", `{"given":[{"key":"a"}]}`, []string{`given "a": want a text`}},
		{"an empty pattern", `{"then":{"lacks":[{}]}}`, []string{"empty pattern"}},
		{"a past without a time", `{"then":{"as_of":[{"total":0}]}}`, []string{"in the end: as_of check without a time"}},
		{"a recall about nothing", `{` + tea + `,"then":{"recall":[{"omits":[{"text":"tea"}]}]}}`, []string{`recall without a query: set query or messages`}},
		{"other changes than none", `{"sessions":[{` + hello + `,` + idle + `,"changes":["delete"]}]}`, []string{`changes are [], want ["delete"]: none was written`}},
		{"a session of two kinds", `{"sessions":[{` + hello + `,"do":"move"}]}`, []string{"session 1: failed: session must have one of messages, consolidate, edits, and do"}},
		{"a deed that nobody knows", `{"sessions":[{"do":"dance"}]}`, []string{`unknown do "dance": want erase, move, or look`}},
		{"an erasure in a branch", `{"sessions":[{"do":"erase","branch":"b"}]}`, []string{`"erase" requires a session without a branch`}},
		{"an edit that is refused", `{"blocks":[{"label":"user"}],"sessions":[{"edits":[{"label":"user","new":"x"},{"label":"task","new":"y"}]}]}`,
			[]string{`session 1: failed: edit 2: `, `block "task": unknown block`}},
		{"blocks that cannot be edited", `{"blocks":[{"label":"user","read_only":true}],"sessions":[{"edits":[{"label":"user","new":"x"}]}]}`,
			[]string{"all blocks are read-only"}},
		{"edits without blocks", `{"sessions":[{"edits":[{"label":"user","new":"x"}]}]}`, []string{"no blocks: set"}},
		{"another block", `{"blocks":[{"label":"user","text":"x"}],"then":{"blocks":{"user":"y","task":"z"}}}`,
			[]string{`in the end: block "user" is "x", want "y"`, `block "task": unknown block`}},
		{"a block without blocks", `{"then":{"blocks":{"user":"y"}}}`, []string{"no blocks: set"}},
		{"a setup that nobody knows", `{"setup":"mine"}`, []string{`manager: case requires setup "mine": set Options.Manager`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report, err := memtest.Evaluate(t.Context(), []memtest.Case{story(t, test.story)}, nil)
			if err == nil || report.Failed != 1 {
				t.Fatalf("got %v and %d failed, want an error and one", err, report.Failed)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error has no %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestEvaluateRejectsInvalidPatterns(t *testing.T) {
	for what, p := range map[string]memtest.Pattern{
		"content of {content {": {Content: json.RawMessage("{")},
		"value of {value {":     {Value: json.RawMessage("{")},
		"meta of {meta {":       {Meta: json.RawMessage("{")},
	} {
		recall := []memtest.Recall{{Query: "x", Omits: []memtest.Pattern{p}}}
		for _, then := range []memtest.Checks{{Lacks: []memtest.Pattern{p}}, {History: []memtest.History{{Of: p}}}, {Recall: recall}} {
			if _, err := memtest.Evaluate(t.Context(), []memtest.Case{{Name: "x", Then: then}}, nil); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("the error is %v, want one with %q", err, what)
			}
		}
	}
}

func TestEvaluateLimitsListedMemories(t *testing.T) {
	c := memtest.Case{Name: "x", Then: memtest.Checks{Total: new(1)}}
	for i := range 30 {
		c.Given = append(c.Given, memtest.Given{Key: fmt.Sprint(i), Text: "x"})
	}
	if _, err := memtest.Evaluate(t.Context(), []memtest.Case{c}, nil); err == nil || !strings.Contains(err.Error(), "… and 10 more") {
		t.Errorf("the error is %v", err)
	}
}

func TestPatternsFitParts(t *testing.T) {
	const given = `"given":[{"key":"p","kind":"Profile","content":{"name":"Ann","home":{"city":"Bonn","zip":53111},"tags":["a","b"],"n":1.0},"meta":{"by":"x","at":{"y":1}}}]`
	for pattern, fits := range map[string]bool{
		`{"key":"p"}`:                                              true,
		`{"key":"q"}`:                                              false,
		`{"kind":"Profile"}`:                                       true,
		`{"kind":"Memory"}`:                                        false,
		`{"content":{"home":{"city":"Bonn"}}}`:                     true,
		`{"content":{"home":{"city":"Rome"}}}`:                     false,
		`{"content":{"home":"Bonn"}}`:                              false,
		`{"content":{"home":{"zip":53111.0}}}`:                     true,
		`{"content":{"n":1}}`:                                      true,
		`{"content":{"n":2}}`:                                      false,
		`{"content":{"n":"1.0"}}`:                                  false,
		`{"content":{"tags":["a","b"]}}`:                           true,
		`{"content":{"tags":["a"]}}`:                               false,
		`{"content":{"tags":["b","a"]}}`:                           false,
		`{"content":{"diet":null}}`:                                true,
		`{"content":{"name":null}}`:                                false,
		`{"text":"Bonn"}`:                                          true,
		`{"text":"city"}`:                                          false, // a name is no text
		`{"text":"53111"}`:                                         true,
		`{"value":{"kind":"Profile","content":{"name":"Ann"}}}`:    true,
		`{"value":{"name":"Ann"}}`:                                 false,
		`{"meta":{"at":{"y":1}}}`:                                  true,
		`{"meta":{"by":"z"}}`:                                      false,
		`{"key":"p","text":"Ann","meta":{"by":"z"}}`:               false,
		`{"kind":"Profile","content":{"name":"Ann"},"text":"Ann"}`: true,
	} {
		want := 0
		if !fits {
			want = 1
		}
		report, err := memtest.Evaluate(t.Context(), []memtest.Case{story(t, `{`+given+`,"then":{"contains":[`+pattern+`]}}`)}, nil)
		if report.Failed != want {
			t.Errorf("%s: got %v, want it to fit: %v", pattern, err, fits)
		}
	}
}

func TestEvaluateMeasures(t *testing.T) {
	c := story(t, `{"given":[{"key":"a","text":"Ann likes tea"},{"key":"b","text":"Bob is tall"},{"key":"c","text":"Cy has a canoe"}],
		"sessions":[{`+hello+`,`+noted+`}],
		"then":{"recall":[{"query":"tea","finds":[{"key":"a"},{"key":"zzz"}],"k":1},{"query":"Bob is tall","finds":[{"key":"b"}]}]}}`)
	report, err := memtest.Evaluate(t.Context(), []memtest.Case{c}, nil)
	if err == nil {
		t.Fatal("a missing memory was recalled")
	}
	if d := cmp.Diff([]int{1, 0, 1}, report.Ranks); d != "" {
		t.Errorf("the ranks are others (-want +got):\n%s", d)
	}
	if got := report.RecallAt(1); got != 2.0/3 {
		t.Errorf("recall@1 is %v, want two thirds", got)
	}
	if report.Cases != 1 || report.Failed != 1 || report.Requests != 1 || report.RequestTokens < 100 ||
		len(report.Tokens) != 2 || len(report.Recalls) != 2 || len(report.Reflects) != 1 {
		t.Errorf("the report is %+v", report)
	}
}

func TestReportTable(t *testing.T) {
	r := memtest.Report{Cases: 3, Failed: 1, Ranks: []int{1, 2, 4, 0}, Tokens: []int{10, 30, 20}, Requests: 7, RequestTokens: 900,
		Recalls: []time.Duration{4, 2, 3, 1}, Reflects: []time.Duration{time.Millisecond}}
	want := strings.Join([]string{
		"cases                      3, 1 failed",
		"recall@1, @3, @5, @10      0.250, 0.500, 0.750, 0.750 of 4",
		"tokens per recall          p50 20, p95 30, 3 recalls",
		"recall                     p50 2ns, p95 4ns",
		"reflect without the model  p50 1ms, p95 1ms, 1 sessions",
		"requests of the model      7 with 900 tokens", ""}, "\n")
	if d := cmp.Diff(want, r.String()); d != "" {
		t.Errorf("the table is another (-want +got):\n%s", d)
	}
	if got := (&memtest.Report{}).RecallAt(1); got != 1 {
		t.Errorf("the recall of nothing is %v, want 1", got)
	}
}

func TestSessionsWithoutAnswersUseModel(t *testing.T) {
	calls := t.TempDir()
	c := story(t, `{"sessions":[{`+hello+`,"changes":["insert"]}],"then":{"contains":[{"text":"Ann is here"}]}}`)
	call := llmtest.ToolCall("Memory", `{"content":"Ann is here"}`)
	provider := llmtest.Scripted(t, llmtest.Ask(call))
	for _, model := range []llm.Model{llmtest.NewCassette(calls, provider), llmtest.NewCassette(calls, nil)} { // recorded, and replayed
		if _, err := memtest.Evaluate(t.Context(), []memtest.Case{c}, &memtest.Options{Model: model}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestManagersMustUseCaseStore(t *testing.T) {
	own, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = memtest.Evaluate(t.Context(), []memtest.Case{story(t, `{`+tea+`}`)}, &memtest.Options{
		Manager: func(_ *memtest.Case, model llm.Model, _ *store.Store) (*memory.StoreManager, error) {
			return memory.NewStoreManager(model, &memory.StoreManagerOptions{Store: own})
		}})
	if err == nil || !strings.Contains(err.Error(), "does not use the given store") {
		t.Errorf("the error is %v", err)
	}
}

func TestShownChecksRequireModelCall(t *testing.T) {
	o := memory.StoreManagerOptions{}
	o.NoInserts, o.NoUpdates, o.Deletes = true, true, true // without memories there is nothing to ask for
	_, err := memtest.Evaluate(t.Context(), []memtest.Case{story(t, `{"sessions":[{`+hello+`,"hides":["tea"]}]}`)}, &memtest.Options{
		Manager: func(_ *memtest.Case, model llm.Model, s *store.Store) (*memory.StoreManager, error) {
			o.Store = s
			return memory.NewStoreManager(model, &o)
		}})
	if err == nil || !strings.Contains(err.Error(), "model was not asked what to remember") {
		t.Errorf("the error is %v", err)
	}
}

func TestOptionErrorsFailCase(t *testing.T) {
	down := errors.New("no room")
	_, err := memtest.Evaluate(t.Context(), []memtest.Case{{Name: "x"}}, &memtest.Options{
		Store: func(*memtest.Case, func() time.Time) (*store.Store, error) { return nil, down }})
	if !errors.Is(err, down) {
		t.Errorf("the error is %v, want %v", err, down)
	}
	_, err = memtest.Evaluate(t.Context(), []memtest.Case{story(t, `{`+tea+`,"then":{"recall":[{"query":"tea"}]}}`)},
		&memtest.Options{Recall: &memory.RecallerOptions{Limit: -1}})
	if err == nil || !strings.Contains(err.Error(), "Limit -1") {
		t.Errorf("the error is %v, want the recaller's", err)
	}
}

func TestCasesHaveNames(t *testing.T) {
	for _, cases := range [][]memtest.Case{{{}}, {{Name: "a"}, {Name: "a"}}} {
		report, err := memtest.Evaluate(t.Context(), cases, nil)
		if err == nil || !strings.Contains(err.Error(), "is empty or taken") {
			t.Errorf("the error is %v", err)
		}
		if report == nil || report.Cases != 0 {
			t.Errorf("the report is %v, want one of no cases", report)
		}
	}
}

func TestLoadRejectsInvalidCases(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct{ name, src, want string }{
		{"unknown", `[{"name":"a"},{"name":"b","has":[]}]`, `case 2: json: unknown field "has"`},
		{"nested", `[{"name":"a","then":{"contains":[{"tekst":"x"}]}}]`, `unknown field "tekst"`},
		{"nameless", `[{"name":"a"},{}]`, "case 2 has no name"},
		{"broken", `[{"name":"a"},{]`, "case 2: invalid character"},
		{"open", `[{"name":"a"}`, "after case 1: "},
		{"single", `{"name":"a"}`, "not an array of cases"},
		{"more", `[] []`, "unexpected data after the array"},
	} {
		file := filepath.Join(dir, test.name+".json")
		if err := os.WriteFile(file, []byte(test.src), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := memtest.Load(file); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.name+".json") {
			t.Errorf("%s: the error is %v, want one with %q", test.name, err, test.want)
		}
	}
	if _, err := memtest.Load(filepath.Join(dir, "*.yaml")); err == nil || !strings.Contains(err.Error(), "no file matches") {
		t.Errorf("the error is %v", err)
	}
}

func TestLoadNamesCasesAfterTheirFile(t *testing.T) {
	dir := t.TempDir()
	for name, src := range map[string]string{"b.json": `[{"name":"one"},{"name":"two"}]`, "a.json": `[{"name":"one"}]`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases, err := memtest.Load(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
	}
	if d := cmp.Diff([]string{"a/one", "b/one", "b/two"}, names); d != "" {
		t.Errorf("the names are others (-want +got):\n%s", d)
	}
}
