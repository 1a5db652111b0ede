package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// ratings returns the changes with the model's ratings.
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

func TestChangesIncludeRatings(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann likes tea"), doc(t, "b", "Bob is tall"), doc(t, "c", "Cy left")}
	for name, test := range map[string]struct {
		calls []llm.ToolCall
		want  []string
	}{
		"inserts": {[]llm.ToolCall{ratedNote("x", `"_confidence":0.5,"_importance":1`), ratedNote("y", `"_importance":0`), note("z")},
			[]string{`insert {"content":"x"} 0.5 1`, `insert {"content":"y"} - 0`, `insert {"content":"z"} - -`}},
		"patches": {[]llm.ToolCall{ratedPatch("m1", "Ann likes milk", `"_confidence":0.9,"_importance":0.1`), patch("m2", replace("/content", "Bob is small"))},
			[]string{`update {"content":"Ann likes milk"} 0.9 0.1`, `update {"content":"Bob is small"} - -`}},
		"null is not a rating": {[]llm.ToolCall{ratedNote("x", `"_confidence":null,"_importance":0.5`)}, []string{`insert {"content":"x"} - 0.5`}},
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

func TestInvalidRatingsAreRepaired(t *testing.T) {
	for _, bad := range []string{`"_confidence":1.1`, `"_importance":-0.1`, `"_confidence":"high"`, `"_importance":true`} {
		name, value, _ := strings.Cut(strings.ReplaceAll(bad, `"_`, `_`), `":`)
		complaint := llmtest.Asked("invalid " + name + " " + value + ": give a number from 0 to 1, or omit it")
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
			t.Errorf("%s: the error is %v, want the call's error", bad, err)
		}
	}
}

func TestRatingsAreOptIn(t *testing.T) {
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
		t.Errorf("the error is %v, want an unknown field error", err)
	}
}

func TestKindFieldsConflictWithRatings(t *testing.T) {
	type Sure struct {
		Text string  `json:"text"`
		Sure float64 `json:"_confidence"`
	}
	o := &memory.ManagerOptions{ExtractOptions: memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[Sure]("x")}}}
	newManager(t, llmtest.NewScript(), o)
	o.Rate = true
	if _, err := memory.NewManager(llmtest.NewScript(), o); err == nil || !strings.Contains(err.Error(), `field "_confidence" of kind Sure`) {
		t.Errorf("the error is %v", err)
	}
}

// The confidence comes from the last change. The importance is kept until it changes, and
// so are values in the meta from other writers.
func TestStoreManagerStoresRatingsInMeta(t *testing.T) {
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
	o := memory.StoreManagerOptions{}
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

// validities returns the changes with their validity.
func validities(cs memory.ChangeSet) (out []string) {
	for _, c := range cs {
		line := string(c.Op) + " " + string(c.After)
		if !c.Validity.From.IsZero() {
			line += " from " + c.Validity.From.Format(time.RFC3339)
		}
		if !c.Validity.Until.IsZero() {
			line += " until " + c.Validity.Until.Format(time.RFC3339)
		}
		out = append(out, line)
	}
	return out
}

func TestModelSetsValidity(t *testing.T) {
	away := doc(t, "a", "Ann is away")
	away.Validity.Until = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		calls []llm.ToolCall
		want  []string
	}{
		"not at all": {[]llm.ToolCall{ratedNote("x", `"_confidence":1`)},
			[]string{`keep {"content":"Ann is away"} until 2026-02-01T00:00:00Z`, `insert {"content":"x"}`}},
		"with a document": {[]llm.ToolCall{ratedNote("x", `"_valid_from":"2026-03-01","_valid_until":"2026-03-08T12:00:00+02:00"`)},
			[]string{`keep {"content":"Ann is away"} until 2026-02-01T00:00:00Z`, `insert {"content":"x"} from 2026-03-01T00:00:00Z until 2026-03-08T10:00:00Z`}},
		"in several calls": {[]llm.ToolCall{ratedNote("x", `"_valid_until":"2026-04-01"`), ratedPatch("m2", "y", `"_valid_from":"2026-03-15"`)},
			[]string{`keep {"content":"Ann is away"} until 2026-02-01T00:00:00Z`, `insert {"content":"y"} from 2026-03-15T00:00:00Z until 2026-04-01T00:00:00Z`}},
		"an edit leaves it": {[]llm.ToolCall{ratedPatch("m1", "Ann is in Rome", `"_confidence":1`)},
			[]string{`update {"content":"Ann is in Rome"} until 2026-02-01T00:00:00Z`}},
		"null takes it back": {[]llm.ToolCall{ratedPatch("m1", "Ann is gone for good", `"_valid_until":null`)},
			[]string{`update {"content":"Ann is gone for good"}`}},
		"an empty edit changes it alone": {[]llm.ToolCall{llmtest.ToolCall("PatchDoc", `{"json_doc_id":"m1","planned_edits":"longer","patches":[],"_valid_until":"2026-05-01"}`)},
			[]string{`update {"content":"Ann is away"} until 2026-05-01T00:00:00Z`}},
		"told again for another time": {[]llm.ToolCall{ratedNote("Ann is away", `"_valid_from":"2026-06-01","_valid_until":"2026-07-01"`)},
			[]string{`update {"content":"Ann is away"} from 2026-06-01T00:00:00Z until 2026-07-01T00:00:00Z`}},
	} {
		t.Run(name, func(t *testing.T) {
			model := llmtest.Scripted(t, llmtest.Ask(c.calls...))
			cs, err := memory.Extract(t.Context(), model, said("…"), []memory.Document{away}, &memory.ExtractOptions{Rate: true})
			if d := cmp.Diff(c.want, validities(cs)); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
			if shown := model.Requests()[0].Messages[0].Text(); !strings.Contains(shown, `<document id="m1" kind="Memory" valid_until="2026-02-01">`) {
				t.Errorf("the model is shown %s", shown)
			}
		})
	}
	for bad, complaint := range map[string]string{
		`"_valid_from":"soon"`: `invalid _valid_from "soon": give a date such as 2026-03-01`,
		`"_valid_until":3`:     `invalid _valid_until 3: give a date`,
		`"_valid_from":"2026-03-01","_valid_until":"2026-03-01"`: "validity would be from 2026-03-01 until 2026-03-01: correct _valid_from or _valid_until",
	} {
		for _, call := range []llm.ToolCall{ratedNote("x", bad), ratedPatch("m1", "x", bad)} {
			_, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(call)), said("…"), []memory.Document{doc(t, "a", "y")}, &memory.ExtractOptions{Rate: true, Attempts: 1})
			if err == nil || !strings.Contains(err.Error(), complaint) {
				t.Errorf("%s: the error is %v, want one with %q", bad, err, complaint)
			}
		}
	}
}

type Retired struct{}

func TestKindWithoutFieldsCanBeRated(t *testing.T) {
	cs, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("Retired", `{"_confidence":0.5}`))), said("I do not work any more"), nil,
		&memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[Retired]("The user is retired.")}, Rate: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"insert {} 0.5 -"}, ratings(cs)); d != "" {
		t.Error(d)
	}
}

// Expired memories are not recalled: they must not displace valid ones.
func TestOtherValidityIsNotDuplicate(t *testing.T) {
	for name, test := range map[string]struct {
		stored, told string // the rating
		want         []string
	}{
		"the same time":            {`"_valid_until":"2026-03-01"`, `"_valid_until":"2026-03-01"`, nil},
		"a later time":             {`"_valid_until":"2026-03-01"`, `"_valid_until":"2026-12-01"`, []string{"insert"}},
		"for good, after an end":   {`"_valid_until":"2026-03-01"`, `"_confidence":1`, []string{"insert"}},
		"no time, after a start":   {`"_valid_from":"2026-03-01"`, `"_confidence":1`, nil},
		"an end, after no time":    {`"_confidence":1`, `"_valid_until":"2026-12-01"`, []string{"insert"}},
		"no time, and none before": {`"_confidence":1`, `"_confidence":1`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			o := memory.StoreManagerOptions{Limit: 1} // so that it is not recalled
			o.Rate = true
			m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(ratedNote("Ann is in Rome", test.stored)), llmtest.Ask(ratedNote("Ann is in Rome", test.told))), o)
			if _, err := m.Reflect(t.Context(), llm.User("…")); err != nil {
				t.Fatal(err)
			}
			put(t, s, "tea", teaItem)
			changes, err := m.Reflect(t.Context(), llm.User("Tea!"))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, opsOf(changes)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestNoUpdatesKeepsValidity(t *testing.T) {
	rome := doc(t, "a", "Ann is in Rome")
	rome.Validity.Until = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	cs, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(
		ratedNote("Ann is in Rome", `"_valid_until":"2026-12-01"`), ratedNote("Ann is in Rome", `"_valid_until":"2026-12-24"`))), said("I am in Rome until Christmas"),
		[]memory.Document{rome}, &memory.ExtractOptions{NoUpdates: true, Rate: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`keep {"content":"Ann is in Rome"} until 2026-03-01T00:00:00Z`, `insert {"content":"Ann is in Rome"} until 2026-12-24T00:00:00Z`}
	if d := cmp.Diff(want, validities(cs)); d != "" {
		t.Error(d)
	}
}

// A time zone can move the last representable day into a year that JSON cannot represent.
func TestUnrepresentableYearsAreRetried(t *testing.T) {
	s := newStore(t, nil)
	var o memory.StoreManagerOptions
	o.Rate = true
	m := newStoreManager(t, s, llmtest.Scripted(t,
		llmtest.Ask(ratedNote("Ann is in Rome", `"_valid_until":"9999-12-31T23:59:59-05:00"`), note("Ann likes tea")),
		llmtest.Say("", llmtest.Asked("_valid_until"))), o)
	changes, err := m.Reflect(t.Context(), llm.User("…"))
	if e, ok := errors.AsType[*memory.CallError](err); !ok || !strings.Contains(e.Error(), "9999-12-31T23:59:59-05:00") {
		t.Errorf("the error is %v, want one of the call", err)
	}
	if d := cmp.Diff([]string{"insert"}, opsOf(changes)); d != "" {
		t.Error(d)
	}
	wantStored(t, s, teaItem)
}

func TestTimesInAllZonesRoundTrip(t *testing.T) {
	west, east := time.FixedZone("", -4*3600), time.FixedZone("", 2*3600)
	for name, test := range map[string]struct {
		until time.Time
		want  string
	}{
		"a day of UTC, in the west": {time.Date(2026, 5, 31, 20, 0, 0, 0, west), `valid_until="2026-06-01"`},
		"a day of UTC, in the east": {time.Date(2026, 6, 1, 2, 0, 0, 0, east), `valid_until="2026-06-01"`},
		"a day of the east":         {time.Date(2026, 6, 1, 0, 0, 0, 0, east), `valid_until="2026-05-31T22:00:00Z"`},
	} {
		t.Run(name, func(t *testing.T) {
			rome := doc(t, "a", "Ann is in Rome")
			rome.Validity.Until = test.until
			model := llmtest.Scripted(t, llmtest.Ask(done()))
			if _, err := memory.Extract(t.Context(), model, said("…"), []memory.Document{rome}, nil); err != nil {
				t.Fatal(err)
			}
			var shown strings.Builder
			for _, m := range model.Requests()[0].Messages {
				shown.WriteString(m.Text())
			}
			if !strings.Contains(shown.String(), test.want) {
				t.Errorf("the model is shown %s, want %s", shown.String(), test.want)
			}
		})
	}
}
