package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// newDiary returns a store whose clock advances by a day with each note, and a function
// that writes a note.
func newDiary(t *testing.T) (*store.Store, func(key, text string)) {
	t.Helper()
	now := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	s := newStore(t, &store.Options{Now: func() time.Time { return now }})
	return s, func(key, text string) {
		t.Helper()
		now = now.AddDate(0, 0, 1)
		put(t, s, key, noteValue(text))
	}
}

func noteValue(text string) string {
	return fmt.Sprintf(`{"kind":"Memory","content":{"content":%q}}`, text)
}

func consolidated(t *testing.T, m *memory.StoreManager, o *memory.ConsolidateOptions) *memory.Consolidation {
	t.Helper()
	c, err := m.Consolidate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantAsleep expects that another consolidation does nothing.
func wantAsleep(t *testing.T, m *memory.StoreManager, o *memory.ConsolidateOptions) {
	t.Helper()
	if c := consolidated(t, m, o); len(c.Sets) != 0 || c.Tokens != 0 || c.Unaffordable+c.Conflicts != 0 {
		t.Errorf("a second consolidation does something: %+v", c)
	}
}

func merge(content string, ids ...string) llm.ToolCall {
	return llmtest.ToolCall("Merge", map[string]any{"ids": ids, "content": content})
}

func outdated(id, by string) llm.ToolCall {
	return llmtest.ToolCall("Outdated", map[string]any{"id": id, "by": by})
}

// compares expects the model to be shown a text.
func compares(text string) func(*llm.Request) error {
	return func(r *llm.Request) error {
		if got := r.Messages[1].Text(); !strings.Contains(got, text) {
			return fmt.Errorf("the model does not see %q: %s", text, got)
		}
		return nil
	}
}

func metaOf(t *testing.T, s *store.Store, key string) (meta struct {
	Merged     []string          `json:"merged"`
	Supersedes string            `json:"supersedes"`
	SummaryOf  []string          `json:"summary_of"`
	Noted      time.Time         `json:"noted"`
	Validity   memory.Validity   `json:"validity"`
	Provenance memory.Provenance `json:"provenance"`
}) {
	t.Helper()
	item, err := s.Get(t.Context(), memories, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := item.DecodeMeta(&meta); err != nil {
		t.Fatal(err)
	}
	return meta
}

func TestConsolidateMergesEqualNotes(t *testing.T) {
	s, note := newDiary(t)
	note("a", "Ann likes tea")
	note("b", "Bob is tall")
	note("c", "Ann  likes tea.")
	note("d", "Eve codes C++")
	note("e", "EVE CODES C")
	before := stored(t, s)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Say("They differ.")), memory.StoreManagerOptions{}) // about C and C++
	c := consolidated(t, m, nil)
	if len(c.Sets) != 1 || !slices.Equal(opsOf(c.Sets[0]), []string{"update", "delete"}) {
		t.Fatalf("the change sets are %+v", c.Sets)
	}
	wantStored(t, s, noteValue("Ann  likes tea."), tallItem, noteValue("Eve codes C++"), noteValue("EVE CODES C"))
	meta := metaOf(t, s, "c")
	if !slices.Equal(meta.Merged, []string{"a"}) || meta.Noted.Day() != 4 || meta.Provenance.Reason != "merged" {
		t.Errorf("the meta of the merged memory is %+v", meta)
	}
	if h, err := m.History(t.Context(), "a"); err != nil || len(h) != 2 || string(h[1].Item.Value) != teaItem {
		t.Errorf("%v: the history of the removed memory is %+v", err, h)
	}
	wantAsleep(t, m, nil)
	if _, err := m.Undo(t.Context(), c.Sets[0]...); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, before...)
	wantAsleep(t, m, nil) // an undone change is not repeated
}

func TestConsolidateMergesAndEndsNotes(t *testing.T) {
	s, note := newDiary(t)
	note("bonn", "Ann lives in Bonn")
	note("rome", "Ann lives in Rome")
	note("via", "Ann lives in Rome, Via Appia")
	note("tall", "Bob is tall")
	before := stored(t, s)
	model := llmtest.Scripted(t, turn([]llm.ToolCall{merge("Ann lives in Via Appia, Rome", "m2", "m3"), outdated("m1", "m2")},
		compares("m1, noted on 2026-01-02: Ann lives in Bonn\nm2, noted on 2026-01-03: Ann lives in Rome\nm3"), omits("Bob is tall")))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
	c := consolidated(t, m, nil)
	if len(c.Sets) != 1 || c.Tokens == 0 {
		t.Fatalf("the result is %+v", c)
	}
	wantStored(t, s, noteValue("Ann lives in Bonn"), noteValue("Ann lives in Via Appia, Rome"), tallItem)
	via, bonn := metaOf(t, s, "via"), metaOf(t, s, "bonn")
	if !slices.Equal(via.Merged, []string{"rome"}) || via.Supersedes != "bonn" || !via.Noted.Equal(time.Date(2026, 1, 4, 9, 0, 0, 0, time.UTC)) {
		t.Errorf("the meta of the merged memory is %+v", via)
	}
	if !bonn.Validity.Until.Equal(time.Date(2026, 1, 3, 9, 0, 0, 0, time.UTC)) || bonn.Provenance.Reason != "outdated by via" {
		t.Errorf("the meta of the outdated memory is %+v", bonn)
	}
	r, err := memory.NewRecaller(&memory.RecallerOptions{Store: s, Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Recall(t.Context(), llm.User("Where does Ann live?"))
	if err != nil || !slices.Equal(recalledKeys(got), []string{"via"}) || !strings.Contains(got.Block, "- 2026-01-04: Ann lives in Via Appia, Rome") {
		t.Errorf("%v: recalled is %s", err, got.Block)
	}
	wantAsleep(t, m, nil)
	if _, err := m.Undo(t.Context(), c.Sets[0]...); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, before...)
	if v := metaOf(t, s, "bonn").Validity; v != (memory.Validity{}) {
		t.Errorf("after the undo its validity is %+v", v)
	}
	wantAsleep(t, m, nil)
}

// omits expects the model not to be shown a text.
func omits(text string) func(*llm.Request) error {
	return func(r *llm.Request) error {
		if got := r.Messages[1].Text(); strings.Contains(got, text) {
			return fmt.Errorf("the model sees %q: %s", text, got)
		}
		return nil
	}
}

// A new note is compared with the old ones, and only with those.
func TestConsolidateComparesOnlyNewNotes(t *testing.T) {
	s, note := newDiary(t)
	note("tea", "Ann likes green tea")
	note("cake", "Ann likes green tea cake")
	model := llmtest.Scripted(t, llmtest.Say("Both stay."),
		turn([]llm.ToolCall{merge("Bob is very tall", "m1", "m2")}, compares("Bob is tall"), omits("tea")))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
	if c := consolidated(t, m, nil); len(c.Sets) != 0 || c.Tokens == 0 {
		t.Errorf("the result is %+v", c)
	}
	wantAsleep(t, m, nil)
	note("tall", "Bob is tall")
	note("very", "Bob is very tall")
	if c := consolidated(t, m, nil); len(c.Sets) != 1 {
		t.Errorf("the result is %+v", c)
	}
	wantAsleep(t, m, nil)
}

// sameTopic is an embedder that treats texts with the word "home" as identical.
type sameTopic struct{}

func (sameTopic) Model() string  { return "same topic" }
func (sameTopic) Dimension() int { return 2 }
func (sameTopic) Embed(_ context.Context, texts []string) (out [][]float32, _ error) {
	for _, text := range texts {
		if strings.Contains(text, "home") {
			out = append(out, []float32{1, 0})
		} else {
			out = append(out, []float32{0, 1})
		}
	}
	return out, nil
}

func TestConsolidateFindsSimilarNotes(t *testing.T) {
	s := newStore(t, &store.Options{Embedder: sameTopic{}})
	put(t, s, "a", noteValue("Her home is Bonn"))
	put(t, s, "b", noteValue("calls the Rhine capital home"))
	put(t, s, "c", noteValue("tall"))
	model := llmtest.Scripted(t, turn([]llm.ToolCall{merge("At home in Bonn", "m1", "m2")}, omits("tall")))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
	consolidated(t, m, nil)
	wantStored(t, s, noteValue("At home in Bonn"), noteValue("tall"))
	wantAsleep(t, m, nil)
}

func TestConsolidateHonorsTokenLimit(t *testing.T) {
	s, note := newDiary(t)
	note("a", "Ann lives in Bonn")
	note("b", "Ann lives in Bonn on the Rhine")
	note("c", "Bob plays chess every Monday")
	note("d", "Bob plays chess every Monday evening")
	model := llmtest.Scripted(t, llmtest.Ask(merge("Ann lives in Bonn on the Rhine", "m1", "m2")), llmtest.Ask(merge("Bob plays chess every Monday evening", "m1", "m2")))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
	small := &memory.ConsolidateOptions{Tokens: 50}
	if c := consolidated(t, m, small); c.Unaffordable != 2 || c.Tokens != 0 || len(model.Requests()) != 0 {
		t.Errorf("with 50 tokens the result is %+v", c)
	}
	enough := &memory.ConsolidateOptions{Tokens: 800}
	c := consolidated(t, m, enough)
	if c.Unaffordable != 1 || len(c.Sets) != 1 || c.Tokens > 800 || c.Tokens == 0 {
		t.Errorf("with 800 tokens the result is %+v", c)
	}
	if r := model.Requests()[0]; r.MaxTokens == 0 || r.MaxTokens > 800 {
		t.Errorf("the answer may have %d tokens", r.MaxTokens)
	}
	if c := consolidated(t, m, enough); c.Unaffordable != 0 || len(c.Sets) != 1 {
		t.Errorf("the next time the result is %+v", c)
	}
	wantAsleep(t, m, enough)
}

func TestConsolidateSkipsOtherItems(t *testing.T) {
	s := newStore(t, nil)
	ctx := t.Context()
	for key, o := range map[string]*store.PutOptions{
		"default": nil, "pin": nil, "lives": {TTL: time.Hour}, "ended": {Meta: map[string]any{"validity": memory.Validity{Until: time.Unix(1, 0)}}},
		"later": {Meta: map[string]any{"validity": memory.Validity{From: time.Unix(1, 0)}}},
	} {
		if err := s.Put(ctx, memories, key, json.RawMessage(teaItem), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []store.Namespace{{"memories", "below"}, {"other"}} {
		if err := s.Put(ctx, n, "a", json.RawMessage(teaItem), nil); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "profile1", `{"kind":"Profile","content":{"name":"Ann"}}`)
	put(t, s, "profile2", `{"kind":"Profile","content":{"name":"Ann"}}`)
	put(t, s, "a", teaItem)
	before := stored(t, s)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Say("For different times.")), memory.StoreManagerOptions{}) // a and later
	o := &memory.ConsolidateOptions{Pinned: []string{"default", "pin"}}
	if c := consolidated(t, m, o); len(c.Sets) != 0 {
		t.Errorf("the changes are %+v", c.Sets)
	}
	wantStored(t, s, before...)
	wantAsleep(t, m, o)
}

func TestConsolidateDetectsConflicts(t *testing.T) {
	s, note := newDiary(t)
	note("a", "Ann lives in Bonn")
	note("b", "Ann lives in Bonn on the Rhine")
	model := llmtest.Scripted(t,
		turn([]llm.ToolCall{merge("Ann lives in Bonn on the Rhine", "m1", "m2")}, changing(s, "a", "Ann lives in Rome")),
		turn(nil, compares("Ann lives in Rome")))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
	if c := consolidated(t, m, nil); c.Conflicts != 1 || len(c.Sets) != 0 {
		t.Errorf("the result is %+v", c)
	}
	wantStored(t, s, noteValue("Ann lives in Rome"), noteValue("Ann lives in Bonn on the Rhine"))
}

func TestConsolidateRejectsInvalidDecisions(t *testing.T) {
	for want, calls := range map[string][]llm.ToolCall{
		`unknown memory "m7"`:                            {merge("x", "m1", "m7")},
		"two decisions about m1":                         {merge("x", "m1", "m2"), outdated("m1", "m2")},
		"merge requires two or more memories":            {merge("x", "m1")},
		"two or more memories and a content":             {merge(" ", "m1", "m2")},
		"two decisions about m2":                         {outdated("m2", "m2")},
		"unknown tool Erase":                             {llmtest.ToolCall("Erase", `{}`)},
		"arguments of Merge":                             {llmtest.ToolCall("Merge", `{"ids":"m1"}`)},
		`"b" both supersedes a memory and is superseded`: {outdated("m1", "m2"), outdated("m2", "m1")},
		`invalid decision about ["a" "b"]`:               {outdated("m0", "m1")},
	} {
		s, note := newDiary(t)
		note("a", "Ann lives in Bonn")
		note("b", "Ann lives in Bonn on the Rhine")
		before := stored(t, s)
		m := newStoreManager(t, s, loose(calls), memory.StoreManagerOptions{})
		c, err := m.Consolidate(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(c.Sets) != 0 || c.Tokens == 0 {
			t.Errorf("the result is %+v, %v; want the error %s", c, err, want)
		}
		wantStored(t, s, before...)
	}
}

// loose returns a model that makes calls whether or not they are valid.
func loose(calls []llm.ToolCall) llm.Model {
	return llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) { return llm.Assistant("Done.", calls...), nil })
}

func TestConsolidateCallsGuard(t *testing.T) {
	s, note := newDiary(t)
	note("a", "Ann likes tea")
	note("b", "Ann likes tea.")
	before := stored(t, s)
	no := errors.New("no")
	var asked []string
	m := newStoreManager(t, s, llmtest.Scripted(t), memory.StoreManagerOptions{Guard: func(_ context.Context, c *memory.ItemChange) error {
		asked = append(asked, string(c.Op)+" "+c.Key)
		if c.Op == memory.Delete {
			return no
		}
		return nil
	}})
	if _, err := m.Consolidate(t.Context(), nil); !errors.Is(err, no) || !strings.Contains(err.Error(), `Guard rejected the delete of "a"`) {
		t.Errorf("the error is %v", err)
	}
	if d := cmp.Diff([]string{"update b", "delete a"}, asked); d != "" {
		t.Error(d)
	}
	wantStored(t, s, before...)
}

func TestConsolidateSummarizesTopics(t *testing.T) {
	s, note := newDiary(t)
	note("a", "Miso is a grey cat")
	note("b", "Miso sleeps a lot, mostly by day")
	note("c", "The vet gave Miso a vaccination yesterday")
	note("d", "Bob is tall")
	note("e", "Cy swims")
	note("f", "Dee sings")
	model := llmtest.Scripted(t, llmtest.Say("Miso is a sleepy grey cat.", compares("vaccination"), omits("Bob")), llmtest.Say("Miso has moved to Rome.", compares("Rome")))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
	o := &memory.ConsolidateOptions{Topic: 3}
	c := consolidated(t, m, o)
	if len(c.Sets) != 1 || !slices.Equal(opsOf(c.Sets[0]), []string{"insert"}) {
		t.Fatalf("the result is %+v", c)
	}
	meta := metaOf(t, s, "summary of miso")
	if !slices.Equal(meta.SummaryOf, []string{"a", "b", "c"}) || meta.Noted.Day() != 4 {
		t.Errorf("the meta of the summary is %+v", meta)
	}
	wantAsleep(t, m, o)
	note("g", "She took Miso along to Rome in spring")
	c = consolidated(t, m, o)
	if len(c.Sets) != 1 || !slices.Equal(opsOf(c.Sets[0]), []string{"update"}) {
		t.Fatalf("with a new note the result is %+v", c)
	}
	if d, err := m.Get(t.Context(), "summary of miso"); err != nil || string(d.Content) != `{"content":"Miso has moved to Rome."}` {
		t.Errorf("%v: the summary is %s", err, d.Content)
	}
	if _, err := m.Undo(t.Context(), c.Sets[0]...); err != nil {
		t.Fatal(err)
	}
	wantAsleep(t, m, o)
}

func TestConsolidateRejectsInvalidOptions(t *testing.T) {
	m := newStoreManager(t, newStore(t, nil), llmtest.Scripted(t), memory.StoreManagerOptions{})
	for want, o := range map[string]*memory.ConsolidateOptions{
		"Tokens -1": {Tokens: -1}, "Similar 2": {Similar: 2}, "Topic 2: want 3 or more": {Topic: 2},
	} {
		if _, err := m.Consolidate(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	wantAsleep(t, m, nil) // there is nothing at all
	if err := m.ForgetAll(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestForgetAllForgetsConsolidations(t *testing.T) {
	s, note := newDiary(t)
	note("a", "Ann likes tea")
	note("b", "Ann likes tea.")
	m := newStoreManager(t, s, llmtest.Scripted(t), memory.StoreManagerOptions{})
	consolidated(t, m, nil)
	if err := m.ForgetAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Namespaces(t.Context(), nil); err != nil || len(left) != 0 {
		t.Errorf("%v: there still are %v", err, left)
	}
}

// A memory that is rewritten later is as recent as the rewrite.
func TestRewriteResetsNotedTime(t *testing.T) {
	s, note := newDiary(t)
	note("a", "Ann likes tea")
	note("b", "Ann likes tea.")
	model := llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/content", "Ann likes rum"))))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
	consolidated(t, m, nil)
	if metaOf(t, s, "b").Noted.IsZero() {
		t.Error("the merged memory has no noted time")
	}
	if _, err := m.Reflect(t.Context(), llm.User("rum!")); err != nil {
		t.Fatal(err)
	}
	if meta := metaOf(t, s, "b"); !meta.Noted.IsZero() || !slices.Equal(meta.Merged, []string{"a"}) {
		t.Errorf("the meta is %+v", meta)
	}
}

// Two concurrent consolidations and a concurrent write lose nothing.
func TestConcurrentConsolidationsLoseNothing(t *testing.T) {
	s := newStore(t, nil)
	for i := range 10 {
		put(t, s, fmt.Sprint("a", i), noteValue(fmt.Sprint("fact number", i)))
		put(t, s, fmt.Sprint("b", i), noteValue(fmt.Sprint("fact number", i, ".")))
	}
	m := newStoreManager(t, s, loose(nil), memory.StoreManagerOptions{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := m.Consolidate(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 10 {
		put(t, s, fmt.Sprint("a", i), noteValue(fmt.Sprint("new fact", i)))
	}
	wg.Wait()
	all := strings.Join(stored(t, s), "\n")
	for i := range 10 {
		for _, text := range []string{fmt.Sprint("fact number", i), fmt.Sprint("new fact", i)} {
			if !strings.Contains(all, text) {
				t.Errorf("%q is lost", text)
			}
		}
	}
}

// sameEmbedder embeds all texts alike.
type sameEmbedder struct{}

func (sameEmbedder) Model() string  { return "same" }
func (sameEmbedder) Dimension() int { return 1 }
func (sameEmbedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	return slices.Repeat([][]float32{{1}}, len(texts)), nil
}

// Only the model merges notes that differ in one sign.
func TestConsolidateKeepsDifferentSigns(t *testing.T) {
	for first, second := range map[string]string{
		"Ann takes 3.5 mg of warfarin":    "Ann takes 35 mg of warfarin",
		"Ann programs in C++":             "Ann programs in C#",
		"It is -5 degrees at Ann's place": "It is 5 degrees at Ann's place",
		"Ann feels 😀":                     "Ann feels 😭",
		"Ann said: I love him!":           "Ann said: I love him?",
		"Ann likes Polish food":           "Ann likes polish food",
		"Ann's code is 12-3":              "Ann's code is 1-23",
		"Ann's resume":                    "Ann's résumé",
		"Die Maße sind gut":               "Die Masse sind gut",
		"Ann owes Bob 5 €":                "Ann owes Bob 5 $",
		"Ann lives at 1/2 Main Street":    "Ann lives at 12 Main Street",
		"Ann bought shares > 5":           "Ann bought shares < 5",
	} {
		s := newStore(t, &store.Options{Embedder: sameEmbedder{}})
		m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Say("They differ.")), memory.StoreManagerOptions{})
		for key, text := range map[string]string{"a": first, "b": second} {
			if err := m.Put(t.Context(), key, memory.Memory{Content: text}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.Consolidate(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		wantStored(t, s, noteValue(first), noteValue(second))
	}
}
