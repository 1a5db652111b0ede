package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

func ratedNote(text, rating string) llm.ToolCall {
	return llmtest.ToolCall("Memory", fmt.Sprintf(`{"content":%q,%s}`, text, rating))
}

func ratedPatch(id, text, rating string) llm.ToolCall {
	return llmtest.ToolCall("PatchDoc", fmt.Sprintf(
		`{"json_doc_id":%q,"planned_edits":"as said","patches":[{"op":"replace","path":"/content","value":%q}],%s}`, id, text, rating))
}

// ratings are the changes with what the model says of them.
func ratings(cs memory.ChangeSet) []string {
	show := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	}
	var out []string
	for _, c := range cs {
		out = append(out, fmt.Sprintf("%s %s %s %s", c.Op, c.After, show(c.Confidence), show(c.Importance)))
	}
	return out
}

func TestRatingsComeWithTheChanges(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann likes tea"), doc(t, "b", "Bob is tall"), doc(t, "c", "Cy left")}
	for name, test := range map[string]struct {
		calls []llm.ToolCall
		want  []string
	}{
		"inserts": {[]llm.ToolCall{ratedNote("x", `"_confidence":0.5,"_importance":1`), ratedNote("y", `"_importance":0`), note("z")},
			[]string{`insert {"content":"x"} 0.5 1`, `insert {"content":"y"} - 0`, `insert {"content":"z"} - -`}},
		"patches": {[]llm.ToolCall{ratedPatch("m1", "Ann likes milk", `"_confidence":0.9,"_importance":0.1`), patch("m2", replace("/content", "Bob is small"))},
			[]string{`update {"content":"Ann likes milk"} 0.9 0.1`, `update {"content":"Bob is small"} - -`}},
		"null is no rating": {[]llm.ToolCall{ratedNote("x", `"_confidence":null,"_importance":0.5`)}, []string{`insert {"content":"x"} - 0.5`}},
		"the last word counts": {[]llm.ToolCall{ratedNote("x", `"_confidence":0.5,"_importance":1`), ratedPatch("m4", "y", `"_confidence":0.7`)},
			[]string{`insert {"content":"y"} 0.7 1`}},
		"what stays is not rated": {[]llm.ToolCall{ratedPatch("m1", "Ann likes tea", `"_confidence":1`),
			llmtest.ToolCall("PatchDoc", `{"json_doc_id":"m2","planned_edits":"","patches":[],"_confidence":1}`)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cs, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(test.calls...)), said("…"), existing, &memory.ExtractOptions{Rate: true})
			if d := cmp.Diff(test.want, ratings(cs.Changed())); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestRatingsThatAreNoneAreRepaired(t *testing.T) {
	for _, bad := range []string{`"_confidence":1.1`, `"_importance":-0.1`, `"_confidence":"high"`, `"_importance":true`} {
		name, value, _ := strings.Cut(strings.ReplaceAll(bad, `"_`, `_`), `":`)
		complaint := llmtest.Asked(name + " is " + value + ": give a number from 0 to 1, or leave it out")
		fix := llmtest.ToolCall("FixCall", fmt.Sprintf(`{"planned_edits":"in range","patches":[{"op":"replace","path":"/%s","value":1}]}`, name))
		for what, call := range map[string]llm.ToolCall{"insert": ratedNote("x", bad), "patch": ratedPatch("m1", "x", bad)} {
			model := llmtest.Scripted(t, llmtest.Ask(call), llmtest.Turn{Message: llm.Assistant("", fix), Expect: []func(*llm.Request) error{complaint}})
			cs, err := memory.Extract(t.Context(), model, said("…"), []memory.Document{doc(t, "a", "Ann likes tea")}, &memory.ExtractOptions{Rate: true})
			if changed := cs.Changed(); err != nil || len(changed) != 1 || string(changed[0].After) != `{"content":"x"}` {
				t.Errorf("%s of %s: got %v and %v", what, bad, lines(cs), err)
			}
		}
		_, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(ratedNote("x", bad))), said("…"), nil, &memory.ExtractOptions{Rate: true, Attempts: 1})
		if ce, ok := errors.AsType[*memory.CallError](err); !ok || ce.Tool != "Memory" {
			t.Errorf("%s: the error is %v, want that of the call", bad, err)
		}
	}
}

func TestModelsRateOnlyIfAsked(t *testing.T) {
	offers := func(rate bool) func(*llm.Request) error {
		return func(r *llm.Request) error {
			for _, tool := range r.Tools {
				writes := tool.Name == "Memory" || tool.Name == "PatchDoc"
				for _, name := range []string{"_confidence", "_importance"} {
					if got := tool.Parameters.Properties[name] != nil; got != (rate && writes) {
						return fmt.Errorf("%s has %s: %v", tool.Name, name, got)
					}
				}
			}
			return nil
		}
	}
	existing := []memory.Document{doc(t, "a", "Ann likes tea")}
	for _, rate := range []bool{true, false, true} { // the tools are not changed for good
		model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", done()), Expect: []func(*llm.Request) error{offers(rate)}})
		if _, err := memory.Extract(t.Context(), model, said("…"), existing, &memory.ExtractOptions{Rate: rate, Deletes: true}); err != nil {
			t.Error(err)
		}
	}
	_, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(ratedNote("x", `"_confidence":1`))), said("…"), nil, &memory.ExtractOptions{Attempts: 1})
	if ce, ok := errors.AsType[*memory.CallError](err); !ok || !strings.Contains(ce.Error(), "_confidence") {
		t.Errorf("the error is %v, want that of an unknown field", err)
	}
}

func TestKindsMayNotHaveTheFieldsOfRatings(t *testing.T) {
	type Sure struct {
		Text string  `json:"text"`
		Sure float64 `json:"_confidence"`
	}
	o := &memory.ManagerOptions{ExtractOptions: memory.ExtractOptions{Kinds: []memory.Kind{memory.KindOf[Sure]("x")}}}
	newManager(t, llmtest.NewScript(), o)
	o.Rate = true
	if _, err := memory.NewManager(llmtest.NewScript(), o); err == nil || !strings.Contains(err.Error(), `the kind Sure has a field "_confidence"`) {
		t.Errorf("the error is %v", err)
	}
}

// The confidence is that of the last change; the importance stays until there is
// another, as does what others have put into the meta.
func TestStoreManagerKeepsRatingsInTheMeta(t *testing.T) {
	s := newStore(t, nil)
	type meta struct {
		Importance float64
		Own        string
		Provenance struct{ Confidence *float64 }
	}
	stored := func() string {
		t.Helper()
		items, err := s.Search(t.Context(), memories, nil)
		if err != nil || len(items) != 1 {
			t.Fatalf("got %v and %v, want one item", items, err)
		}
		m := meta{Importance: -1}
		if err := items[0].DecodeMeta(&m); err != nil {
			t.Fatal(err)
		}
		confidence := "-"
		if m.Provenance.Confidence != nil {
			confidence = fmt.Sprint(*m.Provenance.Confidence)
		}
		return fmt.Sprintf("%s confidence %s, importance %v, own %q", memory.DocumentOf(items[0]).Content, confidence, m.Importance, m.Own)
	}
	if err := s.Put(t.Context(), memories, "a", map[string]string{"content": "Ann likes tea"}, &store.PutOptions{Meta: map[string]any{"own": "x"}}); err != nil {
		t.Fatal(err)
	}
	o := memory.StoreOptions{}
	o.Rate = true
	for _, step := range []struct {
		call llm.ToolCall
		want string
	}{
		{ratedPatch("m1", "1", `"_confidence":0.5`), `{"content":"1"} confidence 0.5, importance -1, own "x"`},
		{ratedPatch("m1", "2", `"_confidence":0.25,"_importance":0.75`), `{"content":"2"} confidence 0.25, importance 0.75, own "x"`},
		{ratedPatch("m1", "3", `"_confidence":1`), `{"content":"3"} confidence 1, importance 0.75, own "x"`},
		{patch("m1", replace("/content", "4")), `{"content":"4"} confidence -, importance 0.75, own "x"`},
		{ratedPatch("m1", "5", `"_importance":0`), `{"content":"5"} confidence -, importance 0, own "x"`},
	} {
		if _, err := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(step.call)), o).Reflect(t.Context(), llm.User("…")); err != nil {
			t.Fatal(err)
		}
		if got := stored(); got != step.want {
			t.Errorf("stored is %s, want %s", got, step.want)
		}
	}
}

func TestModelsSayWhenAMemoryHolds(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann is away")}
	model := llmtest.Scripted(t, llmtest.Ask(
		ratedPatch("m1", "Ann is in Rome", `"_valid_from":"2026-03-01","_valid_until":"2026-03-08T12:00:00+02:00"`),
		ratedNote("x", `"_valid_until":null,"_valid_from":""`), ratedNote("y", `"_valid_until":"2026-04-01"`), ratedPatch("m3", "z", `"_valid_from":"2026-03-15"`)))
	cs, err := memory.Extract(t.Context(), model, said("…"), existing, &memory.ExtractOptions{Rate: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range cs {
		got = append(got, string(c.After)+c.Validity.String())
	}
	want := []string{`{"content":"Ann is in Rome"}, from 2026-03-01 until 2026-03-08`, `{"content":"x"}`, `{"content":"z"}, from 2026-03-15 until 2026-04-01`}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if u := cs[0].Validity.Until; u.Hour() != 10 {
		t.Errorf("it holds until %v, want the time in UTC", u)
	}
	for bad, complaint := range map[string]string{
		`"_valid_from":"soon"`: `_valid_from is \"soon\": give a date such as 2026-03-01`,
		`"_valid_until":3`:     `_valid_until is 3: give a date`,
		`"_valid_from":"2026-03-01","_valid_until":"2026-03-01"`: "_valid_from is not before _valid_until",
	} {
		_, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(ratedNote("x", bad))), said("…"), nil, &memory.ExtractOptions{Rate: true, Attempts: 1})
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `"`, `\"`), complaint) {
			t.Errorf("%s: the error is %v, want one with %q", bad, err, complaint)
		}
	}
}
