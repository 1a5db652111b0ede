package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/internal/words"
	"github.com/treadle-go/treadle/store"
)

const (
	// maxGroup is the maximum number of memories that a model compares in one call.
	maxGroup = 6
	// maxAbout is the maximum number of memories that a summary covers.
	maxAbout = 30
	// sameWords is the minimum share of its words, with rare words weighted more, that the
	// shorter of two memories must have in common with the other for the two to be
	// compared.
	sameWords = 0.5
	// commonWord is the maximum number of memories that may contain a word used to find
	// related memories. A word in more memories than this, and in more than a fifth of all
	// memories, says little.
	commonWord = 50
	// nearest is the limit of the semantic search for memories to compare with a memory.
	nearest = 8
	// searchesPerBatch limits the number of texts embedded in one batch.
	searchesPerBatch = 32
	// maxNotes is the largest limit of a search.
	maxNotes = 1 << 30
)

// note is a memory that may be consolidated.
type note struct {
	item  *store.Item
	doc   Document
	text  string
	fresh bool // written since the last consolidation
	words map[string]bool
	mass  float64 // total weight of its words
}

// sign returns a hash of the note's key, text, and validity.
func (n *note) sign() string { return signOf(n.item.Key, n.text, n.doc.Validity) }

func signOf(key, text string, v Validity) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", key, text, v.From.UnixMicro(), v.Until.UnixMicro()))
	return fmt.Sprintf("%x", sum[:16])
}

// signSet returns a hash of a set of signs. It sorts them.
func signSet(what string, signs ...string) string {
	slices.Sort(signs)
	sum := sha256.Sum256([]byte(what + "\n" + strings.Join(signs, "\n")))
	return fmt.Sprintf("%x", sum[:16])
}

func pairOf(a, b string) string { return signSet("pair", a, b) }

// group is a set of memories to decide about: near duplicates, or a topic.
type group struct {
	notes   []*note
	same    bool        // the notes have the same text
	topic   string      // for a summary
	summary *store.Item // the earlier summary, or nil
}

func (g *group) signs() []string {
	var out []string
	for _, n := range g.notes {
		out = append(out, n.sign())
	}
	return out
}

// sign returns a hash that identifies the group.
func (g *group) sign() string { return signSet("topic "+g.topic, g.signs()...) }

// records returns the keys of the records that prevent the group from being decided again:
// one for each pair of its memories, before and after the decision.
func (g *group) records(after []string) []string {
	if g.topic != "" {
		return []string{g.sign()}
	}
	signs := append(g.signs(), after...)
	slices.Sort(signs)
	signs = slices.Compact(signs)
	var out []string
	for i, a := range signs {
		for _, b := range signs[:i] {
			out = append(out, pairOf(a, b))
		}
	}
	return out
}

// notes returns the memories that may be consolidated, the existing summaries, and the
// newest version. It returns no memories if no version is later than seen.
func (c *consolidator) notes(ctx context.Context, seen int64) (notes []*note, summaries map[string]*store.Item, newest int64, err error) {
	items, err := c.store.Search(ctx, c.ns, &store.SearchOptions{Limit: 1, NoRefresh: true})
	if err != nil || len(items) == 0 || items[0].Version <= seen {
		return nil, nil, seen, err
	}
	// A single search, because pages would shift during concurrent writes.
	if items, err = c.store.Search(ctx, c.ns, &store.SearchOptions{Limit: maxNotes, NoRefresh: true}); err != nil {
		return nil, nil, 0, err
	}
	summaries = map[string]*store.Item{}
	now := time.Now()
	for _, item := range items {
		newest = max(newest, item.Version)
		if !slices.Equal(item.Namespace, c.ns) {
			continue
		}
		if summarizes(item) {
			summaries[item.Key] = item
			continue
		}
		n := &note{item: item, doc: DocumentOf(item), fresh: item.Version > seen}
		n.text = strings.TrimSpace(textOf(n.doc))
		if n.text == "" || !item.Expires.IsZero() || n.doc.Validity.ended(now) || slices.Contains(c.o.Pinned, item.Key) {
			continue
		}
		notes = append(notes, n)
	}
	slices.SortFunc(notes, func(a, b *note) int { return cmp.Compare(a.item.Key, b.item.Key) })
	return notes, summaries, newest, nil
}

func summarizes(item *store.Item) bool {
	var meta struct {
		Of []string `json:"summary_of"`
	}
	return item.DecodeMeta(&meta) == nil && meta.Of != nil
}

// groups returns the next groups to decide about: groups with equal texts if there are any,
// otherwise groups for a model to compare, otherwise topics.
func (c *consolidator) groups(ctx context.Context, notes []*note, summaries map[string]*store.Item) ([]*group, error) {
	having := weigh(notes)
	edges := equal(notes)
	groups, err := c.undecided(ctx, edges)
	if err != nil || len(groups) > 0 {
		for _, g := range groups {
			g.same = true
		}
		return groups, err
	}
	if edges, err = c.byMeaning(ctx, notes); err != nil {
		return nil, err
	}
	edges = append(edges, byWords(notes, having)...)
	if groups, err = c.undecided(ctx, append(edges, flagged(notes)...)); err != nil || len(groups) > 0 {
		return groups, err
	}
	return c.topics(ctx, notes, summaries, having)
}

// edge links two similar notes.
type edge struct {
	a, b   *note
	weight float64
}

// equal finds notes with the same text and validity, ignoring differences in white space
// and final periods.
func equal(notes []*note) (edges []edge) {
	first := map[string]*note{}
	for _, n := range notes {
		text := strings.TrimRight(strings.Join(strings.Fields(n.text), " "), ".") + "\n" + n.doc.Validity.text()
		if f := first[text]; f == nil {
			first[text] = n
		} else {
			edges = append(edges, edge{f, n, 1})
		}
	}
	return edges
}

// weigh sets the words of each note and their total weight, and returns the notes that
// contain each word.
func weigh(notes []*note) map[string][]*note {
	having := map[string][]*note{}
	for _, n := range notes {
		n.words = wordSet(n.text)
		for w := range n.words {
			having[w] = append(having[w], n)
		}
	}
	for _, n := range notes {
		n.mass = 0
		for w := range n.words {
			n.mass += rarity(len(notes), len(having[w]))
		}
	}
	return having
}

func rarity(all, having int) float64 { return math.Log1p(float64(all) / float64(having)) }

// byWords finds notes that share most of their words with a fresh note.
func byWords(notes []*note, having map[string][]*note) (edges []edge) {
	for _, n := range notes {
		if !n.fresh {
			continue
		}
		shared, count := map[*note]float64{}, map[*note]int{}
		for w := range n.words {
			if len(having[w]) > max(commonWord, len(notes)/5) {
				continue
			}
			for _, o := range having[w] {
				shared[o] += rarity(len(notes), len(having[w]))
				count[o]++
			}
		}
		for o, mass := range shared {
			if share := mass / min(n.mass, o.mass); o != n && count[o] >= minFrame && share >= sameWords {
				edges = append(edges, edge{n, o, share})
			}
		}
	}
	return edges
}

// flagged finds notes that were linked when they were written; see ItemChange.Supersedes.
func flagged(notes []*note) (edges []edge) {
	at := map[string]*note{}
	for _, n := range notes {
		at[n.item.Key] = n
	}
	for _, n := range notes {
		var meta struct {
			Supersedes string `json:"supersedes"`
		}
		if n.item.DecodeMeta(&meta) == nil && at[meta.Supersedes] != nil && n.fresh {
			edges = append(edges, edge{n, at[meta.Supersedes], 1})
		}
	}
	return edges
}

// byMeaning finds notes that are semantically similar to a fresh note.
func (c *consolidator) byMeaning(ctx context.Context, notes []*note) (edges []edge, err error) {
	if !c.store.Embeds() {
		return nil, nil
	}
	at := map[string]*note{}
	var fresh []*note
	for _, n := range notes {
		at[itemID(n.item)] = n
		if n.fresh {
			fresh = append(fresh, n)
		}
	}
	for some := range slices.Chunk(fresh, searchesPerBatch) {
		var ops []store.Op
		for _, n := range some {
			// Search for the stored value, because that is the text that was embedded.
			ops = append(ops, store.SearchOp{Prefix: c.ns, SearchOptions: store.SearchOptions{Query: string(n.item.Value), Document: true,
				Ranking: store.Semantic, Limit: nearest, NoRefresh: true}})
		}
		results, err := c.store.Batch(ctx, ops...)
		if err != nil {
			return nil, err
		}
		for i, r := range results {
			for _, item := range r.Items {
				if o := at[itemID(item)]; o != nil && o != some[i] && item.Score >= c.o.Similar {
					edges = append(edges, edge{some[i], o, item.Score})
				}
			}
		}
	}
	return edges, nil
}

// undecided joins edges without an earlier decision into groups. Notes with the strongest
// edges are joined first, because group size is limited.
func (c *consolidator) undecided(ctx context.Context, edges []edge) ([]*group, error) {
	if len(edges) == 0 {
		return nil, nil
	}
	slices.SortFunc(edges, func(x, y edge) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.a.item.Key, y.a.item.Key), cmp.Compare(x.b.item.Key, y.b.item.Key))
	})
	var records []string
	for _, e := range edges {
		records = append(records, pairOf(e.a.sign(), e.b.sign()))
	}
	decided, err := c.decided(ctx, records)
	if err != nil {
		return nil, err
	}
	in := map[*note]*group{}
	of := func(n *note) *group {
		if in[n] == nil {
			in[n] = &group{notes: []*note{n}}
		}
		return in[n]
	}
	for i, e := range edges {
		if decided[records[i]] {
			continue
		}
		a, b := of(e.a), of(e.b)
		if a == b || len(a.notes)+len(b.notes) > maxGroup {
			continue
		}
		a.notes = append(a.notes, b.notes...)
		for _, n := range b.notes {
			in[n] = a
		}
	}
	var groups []*group
	for _, e := range edges {
		if g := in[e.a]; g != nil && len(g.notes) > 1 && !slices.Contains(groups, g) {
			slices.SortFunc(g.notes, func(x, y *note) int {
				return cmp.Or(notedAt(x.item).Compare(notedAt(y.item)), cmp.Compare(x.item.Key, y.item.Key))
			})
			groups = append(groups, g)
		}
	}
	return slices.DeleteFunc(groups, func(g *group) bool { return c.failed[g.sign()] }), nil
}

// decided reports which records exist.
func (c *consolidator) decided(ctx context.Context, records []string) (map[string]bool, error) {
	out := map[string]bool{}
	var ops []store.Op
	for _, r := range records {
		ops = append(ops, store.GetOp{Namespace: sleepOf(c.ns), Key: r})
	}
	results, err := c.store.Batch(ctx, ops...)
	for i, r := range results {
		out[records[i]] = r.Item != nil
	}
	return out, err
}

// topics returns a group for each topic whose memories have changed since its summary. A
// topic is a word that enough memories share and that is not too frequent. Each memory
// belongs to one topic.
func (c *consolidator) topics(ctx context.Context, notes []*note, summaries map[string]*store.Item, having map[string][]*note) ([]*group, error) {
	if c.o.Topic == 0 {
		return nil, nil
	}
	var names []string
	for w, of := range having {
		if len([]rune(w)) >= minTopicWord && len(of) >= c.o.Topic && len(of) <= max(2*c.o.Topic, len(notes)/2) && !words.Function([]string{w, "what", "-"})[w] {
			names = append(names, w)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(having[b]), len(having[a])), cmp.Compare(a, b)) })
	taken := map[*note]bool{}
	var groups []*group
	var records []string
	for _, w := range names {
		g := &group{topic: w, summary: summaries[summaryKey(w)]}
		for _, n := range having[w] {
			if !taken[n] && len(g.notes) < maxAbout {
				g.notes = append(g.notes, n)
			}
		}
		if len(g.notes) < c.o.Topic {
			continue
		}
		for _, n := range g.notes {
			taken[n] = true
		}
		groups, records = append(groups, g), append(records, g.sign())
	}
	if groups == nil {
		return nil, nil
	}
	decided, err := c.decided(ctx, records)
	return slices.DeleteFunc(groups, func(g *group) bool { return decided[g.sign()] || c.failed[g.sign()] }), err
}

// minTopicWord is the minimum number of letters in a topic.
const minTopicWord = 3

func summaryKey(topic string) string { return "summary of " + topic }

// mergedKeys returns the keys of the memories already merged into an item.
func mergedKeys(item *store.Item) []string {
	var meta struct {
		Merged []string `json:"merged"`
	}
	if item.DecodeMeta(&meta) != nil {
		return nil // Meta is user-writable, so values of another form are ignored
	}
	return meta.Merged
}

// noteContent returns the content of a note with its text replaced. Other fields are kept.
func noteContent(before json.RawMessage, text string) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if before != nil {
		if err := json.Unmarshal(before, &fields); err != nil {
			return nil, err
		}
	}
	content, err := encodeAny(text)
	if err != nil {
		return nil, err
	}
	fields["content"] = content
	return encodeAny(fields)
}
