package memory

import (
	"context"
	"slices"
	"time"

	"github.com/treadle-go/treadle/internal/words"
	"github.com/treadle-go/treadle/store"
)

// metaSupersedes is the name in an item's Meta for the key of the older memory that
// it probably replaces. It is on the newer memory: a note on the older one would make
// a new version of it, which would seem recent.
const metaSupersedes = "supersedes"

const (
	// sameFrame is the share of their words that two memories have in common if one
	// probably replaces the other: "Ann lives in Bonn" and "Ann lives in Rome".
	sameFrame = 0.6
	// minFrame is how many words these are at least.
	minFrame = 2
	// oldMemories is how many memories an insert is compared with.
	oldMemories = 10
)

// outdated is a search for memories that an insert may replace. It is by words, because
// superseded wants most words to be the same, and so needs no embedding.
func outdated(n store.Namespace, text string) store.SearchOp {
	return store.SearchOp{Prefix: n, SearchOptions: store.SearchOptions{Query: text, Ranking: store.Keyword, Limit: oldMemories, NoRefresh: true}}
}

// superseded returns the item that a new memory probably replaces, or nil: the first
// that says something else with much the same words. A memory that only adds to
// another one does not replace it.
func superseded(items []*store.Item, text string, now time.Time, gone map[string]bool) *store.Item {
	fresh := wordSet(text)
	for _, item := range items {
		d := DocumentOf(item)
		if gone[itemID(item)] || item.Key == defaultKey || d.Validity.ended(now) {
			continue
		}
		old := wordSet(textOf(d))
		shared := 0
		for w := range old {
			if fresh[w] {
				shared++
			}
		}
		least := min(len(old), len(fresh))
		if shared >= minFrame && shared < least && float64(shared) >= sameFrame*float64(least) {
			return item
		}
	}
	return nil
}

// wordSet returns the words of a text. Forms of one word, such as "lives" and "lived",
// are not something else; in other languages few words have such endings.
func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	words.Each(text, func(w string) { set[words.Stem(w)] = true })
	return set
}

// textOf returns the text of a memory, or "" if it is not a note: the fields of other
// kinds have the same names, so their words say little.
func textOf(d Document) string {
	var m Memory
	if d.Kind != memoryKind || d.Decode(&m) != nil {
		return ""
	}
	return m.Content
}

// supersedes returns the memories that inserts probably replace, by their index.
func (w *writer) supersedes(ctx context.Context, cs []ItemChange, known map[int]bool) (map[int]*store.Item, error) {
	var ops []store.Op
	var places []int
	var texts []string
	for i, c := range cs {
		text := textOf(Document{Kind: c.Kind, Content: c.After})
		if c.Op == Insert && !known[i] && text != "" {
			places, texts, ops = append(places, i), append(texts, text), append(ops, outdated(w.namespace, text))
		}
	}
	if ops == nil {
		return nil, nil
	}
	results, err := w.store.Batch(ctx, ops...)
	if err != nil {
		return nil, err
	}
	out := map[int]*store.Item{}
	for j, r := range results {
		if old := superseded(r.Items, texts[j], time.Now(), removed(cs)); old != nil && slices.Equal(old.Namespace, w.namespace) {
			out[places[j]] = old
		}
	}
	return out, nil
}
