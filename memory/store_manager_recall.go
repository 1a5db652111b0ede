package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// envelope is the stored value of a memory, in LangMem's format.
type envelope struct {
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"`
}

// DocumentOf returns a stored memory as a document, whose ID is the item's key. A value
// without a kind was written by a tool: a text becomes a [Memory], and any other value
// becomes a document without a kind. For a nil item, it returns an empty document.
func DocumentOf(item *store.Item) Document {
	if item == nil {
		return Document{}
	}
	d, _ := readItem(item)
	return d
}

// readItem returns the document of an item, and a function that returns the item's value
// with new content.
func readItem(item *store.Item) (Document, func(content json.RawMessage) any) {
	var v struct {
		Kind    *string         `json:"kind"`
		Content json.RawMessage `json:"content"`
	}
	d := Document{ID: item.Key, Content: item.Value, Validity: validityOf(item)}
	if item.Decode(&v) != nil || v.Content == nil {
		return d, func(content json.RawMessage) any { return content }
	}
	d.Content = v.Content
	if v.Kind != nil {
		d.Kind = *v.Kind
		return d, func(content json.RawMessage) any { return valueWith(item, v.Kind, content) }
	}
	var s string
	if json.Unmarshal(v.Content, &s) != nil {
		return d, func(content json.RawMessage) any { return valueWith(item, nil, content) }
	}
	if raw, err := encodeAny(Memory{Content: s}); err == nil {
		d.Kind, d.Content = memoryKind, raw
	}
	return d, func(content json.RawMessage) any {
		kind := memoryKind
		return valueWith(item, &kind, content)
	}
}

// valueWith returns the value of an item with its content replaced. Other fields belong to
// other programs and are kept.
func valueWith(item *store.Item, kind *string, content json.RawMessage) any {
	var fields map[string]json.RawMessage
	_ = item.Decode(&fields) // it was decoded before
	delete(fields, "kind")
	delete(fields, "content")
	if len(fields) == 0 && kind != nil {
		return envelope{*kind, content}
	}
	value := map[string]any{"content": content}
	if kind != nil {
		value["kind"] = *kind
	}
	for name, v := range fields {
		value[name] = v
	}
	return value
}

// validityOf returns the validity in an item's Meta.
func validityOf(item *store.Item) Validity {
	var meta struct {
		Validity Validity `json:"validity"`
	}
	_ = item.DecodeMeta(&meta) // Meta is user-writable, so values of another form are ignored
	return meta.Validity
}

// recollection contains the memories that a manager works on. An item is nil for the
// default, which is not stored yet.
type recollection struct {
	items   []*store.Item
	initial Document
}

// documents returns the memories as documents. Their IDs are indexes, because items in
// different namespaces may have the same key.
func (r *recollection) documents() []Document {
	var out []Document
	for i, item := range r.items {
		d := r.initial
		if item != nil {
			d = DocumentOf(item)
		}
		d.ID = placeID(i)
		out = append(out, d)
	}
	return out
}

func placeID(i int) string { return fmt.Sprintf("recalled %d", i) }

// recall finds the memories for the messages, in one batch.
func (m *StoreManager) recall(ctx context.Context, s *store.Store, n store.Namespace, messages []llm.Message) (*recollection, error) {
	ops, err := m.queries(ctx, s, n, messages)
	if err != nil {
		return nil, err
	}
	initial, ok, err := m.first(ctx)
	if err != nil {
		return nil, err
	}
	// The newest memories fill the places that queries leave free: a profile must be
	// recalled regardless of the conversation.
	ops = append(ops, store.SearchOp{Prefix: n, SearchOptions: store.SearchOptions{Limit: m.o.Limit}}, store.GetOp{Namespace: n, Key: defaultKey})
	results, err := s.Batch(ctx, ops...)
	if err != nil {
		return nil, err
	}
	found := results[:len(results)-2]
	newest := slices.Clone(results[len(results)-2].Items)
	slices.Reverse(newest)
	r := &recollection{initial: initial}
	if item := results[len(results)-1].Item; item != nil && ok {
		r.items = append(r.items, item) // the profile always comes first
	}
	r.items = best(append(r.items, slices.Concat(shares(found), newest)...), m.o.Limit)
	if err := m.migrate(r.items...); err != nil {
		return nil, err
	}
	if len(r.items) == 0 && ok {
		r.items = []*store.Item{nil}
	}
	return r, nil
}

// migrate converts items to the current shapes of the manager's kinds.
func (m *StoreManager) migrate(items ...*store.Item) error {
	return migrateItems(m.manager.extract.Kinds, "", items...)
}

// ranked returns the items of several searches, best first.
func ranked(results []store.Result) []*store.Item {
	var items []*store.Item
	for _, r := range results {
		items = append(items, r.Items...)
	}
	slices.SortStableFunc(items, func(a, b *store.Item) int { return cmp.Compare(b.Score, a.Score) })
	return items
}

// shares interleaves the items of several searches: the best of each, then the second of
// each, and so on. This gives each topic of a conversation its share, even a topic with low
// scores.
func shares(results []store.Result) []*store.Item {
	var items []*store.Item
	for i, more := 0, true; more; i++ {
		more = false
		for _, r := range results {
			if i < len(r.Items) {
				items, more = append(items, r.Items[i]), true
			}
		}
	}
	return items
}

// best returns the first limit items without duplicates, or all of them if limit is 0.
func best(items []*store.Item, limit int) []*store.Item {
	seen := map[string]bool{}
	var out []*store.Item
	for _, item := range items {
		id := itemID(item)
		if !seen[id] && (limit == 0 || len(out) < limit) {
			out = append(out, item)
		}
		seen[id] = true
	}
	return out
}

// queries returns the searches for the messages.
func (m *StoreManager) queries(ctx context.Context, s *store.Store, n store.Namespace, messages []llm.Message) ([]store.Op, error) {
	var ops []store.Op
	ranking := store.Keyword
	if s.Embeds() {
		ranking = store.Hybrid // a new fact often mentions the same things as the outdated one
	}
	if m.o.QueryModel != nil && len(messages) > 0 {
		asked, err := askQueries(ctx, m.o.QueryModel, queryInstructions, messages)
		if err != nil {
			return nil, err
		}
		for _, a := range asked {
			op, err := a.op(n)
			if err != nil {
				return nil, err
			}
			op.Limit, op.Offset, op.Ranking = m.o.Limit, 0, ranking
			ops = append(ops, op)
		}
	}
	if len(ops) > 0 {
		return ops, nil
	}
	for _, q := range topics(messages, m.o.Limit) {
		ops = append(ops, store.SearchOp{Prefix: n, SearchOptions: store.SearchOptions{Query: q, Limit: m.o.Limit, Ranking: ranking}})
	}
	return ops, nil
}

// maxTopics limits the number of search queries for a long conversation.
const maxTopics = 16

// topics returns search queries for a whole conversation: its end, each user message,
// latest first, and each sentence of these. Without them, a change that was mentioned early
// or in passing would be stored alongside the memory that it contradicts.
func topics(messages []llm.Message, limit int) []string {
	out := windows(messages, limit)
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" && !slices.Contains(out, text) && len(out) < maxTopics {
			out = append(out, text)
		}
	}
	var sentences []string
	for _, msg := range slices.Backward(messages) {
		if msg.Role == llm.RoleHuman {
			add(msg.Text())
			sentences = append(sentences, sentencesOf(msg.Text())...)
		}
	}
	for _, s := range sentences {
		add(s)
	}
	return out
}

// minSentence is the minimum number of words for a sentence to be a topic.
const minSentence = 3

// sentencesOf splits a text into its sentences, without very short ones. It returns nil for
// a single sentence.
func sentencesOf(text string) []string {
	sentences := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(".!?;\n。！？", r) })
	if len(sentences) < 2 {
		return nil
	}
	return slices.DeleteFunc(sentences, func(s string) bool {
		return len(strings.Fields(s)) < minSentence && len([]rune(s)) < 4*minSentence
	})
}

// windows returns search queries: the last message, the last two, the last four, and so on.
// It returns up to one query per four memories to recall, and at least one unless the
// messages have no text.
func windows(messages []llm.Message, limit int) []string {
	var texts []string
	for _, msg := range messages {
		if text := strings.TrimSpace(msg.Text()); text != "" && msg.Role != llm.RoleSystem {
			texts = append(texts, text)
		}
	}
	var out []string
	for size := 1; len(out) < max(1, limit/4) && len(texts) > 0; size *= 2 {
		out = append(out, strings.Join(texts[max(0, len(texts)-size):], "\n"))
		if size >= len(texts) {
			break
		}
	}
	return out
}
