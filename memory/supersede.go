package memory

import (
	"context"
	"slices"
	"time"

	"github.com/treadle-go/treadle/internal/words"
	"github.com/treadle-go/treadle/store"
)

// metaSupersedes is the field name in an item's Meta for the key of the older memory that
// it probably replaces. It is set on the newer memory: changing the older one would create
// a new version of it, which would seem recent.
const metaSupersedes = "supersedes"

const (
	// sameFrame is the minimum share of an outdated memory's words in a text that says that
	// it is over.
	sameFrame = 0.6
	// minFrame is the minimum number of words in common.
	minFrame = 2
	// oldMemories is the maximum number of memories that an insert is compared with.
	oldMemories = 20
)

// outdated returns a keyword search for memories that an insert may replace. Keywords
// suffice, because superseded requires the same subject, and no embedding is needed.
func outdated(n store.Namespace, text string) store.SearchOp {
	return store.SearchOp{Prefix: n, SearchOptions: store.SearchOptions{Query: text, Ranking: store.Keyword, Limit: oldMemories, NoRefresh: true}}
}

// superseded returns the first item that a new memory replaces with confidence, or nil; see
// supersedesText. A memory that only adds to another does not replace it.
func superseded(items []*store.Item, text string, now time.Time, gone map[string]bool) *store.Item {
	for _, item := range items {
		d := DocumentOf(item)
		if gone[itemID(item)] || item.Key == defaultKey || d.Validity.ended(now) {
			continue
		}
		if supersedesText(textOf(d), text) {
			return item
		}
	}
	return nil
}

// supersededBy returns the key of the memory that an item probably replaces, or "".
func supersededBy(item *store.Item) string {
	var meta struct {
		Supersedes string `json:"supersedes"`
	}
	_ = item.DecodeMeta(&meta) // Meta is user-writable, so values of another form are ignored
	return meta.Supersedes
}

// wordSet returns the stemmed words of a text. With stemming, forms of a word such as
// "lives" and "lived" do not count as a difference. Few words in other languages have such
// endings.
func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	words.Each(text, func(w string) { set[words.Stem(w)] = true })
	return set
}

// textOf returns the text of a note, or "" for other kinds. Memories of another kind share
// their field names, so their words say little.
func textOf(d Document) string {
	var m Memory
	if d.Kind != memoryKind || d.Decode(&m) != nil {
		return ""
	}
	return m.Content
}

// supersedes returns the memories that inserts probably replace, by the index of the
// insert.
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
