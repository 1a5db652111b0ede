package retrieval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/store"
)

// Options configures an [Index]. A nil *Options means the defaults.
type Options struct {
	// Embedder enables semantic search in the store that [Open] opens; nil disables it. All
	// stores of a database need the same one.
	Embedder store.Embedder
	// Namespace contains the index; nil means {"documents"}. Each index needs its own.
	Namespace store.Namespace
	// Splitter splits documents into chunks; nil means [Split].
	Splitter *Splitter
}

// An Index finds chunks of documents in a store. [Index.Sync] makes it match a folder or
// another source. It is safe for concurrent use, including by several processes.
//
// A store with an embedder also supports semantic search. Give the store a History of 1, because
// an index does not need the earlier versions of its items.
type Index struct {
	store    *store.Store
	root     store.Namespace
	splitter *Splitter
}

// A Database opens stores. The DB of packages sqlite and postgres is one.
type Database interface {
	Store(opts *store.Options) (*store.Store, error)
}

// Open returns the index in a database. It opens a store with Options.Embedder, whose vectors
// it caches (see [store.CacheEmbedder]), so that a text is embedded once even if it moves to
// another place.
func Open(db Database, opts *Options) (*Index, error) {
	if db == nil {
		return nil, errors.New("retrieval: open index: nil database")
	}
	o := &store.Options{History: 1}
	var in Options
	if opts != nil {
		in = *opts
	}
	if in.Embedder != nil {
		plain, err := db.Store(&store.Options{History: 1})
		if err != nil {
			return nil, fmt.Errorf("retrieval: open index: %w", err)
		}
		if o.Embedder, err = store.CacheEmbedder(in.Embedder, plain, nil); err != nil {
			return nil, fmt.Errorf("retrieval: open index: %w", err)
		}
	}
	s, err := db.Store(o)
	if err != nil {
		return nil, fmt.Errorf("retrieval: open index: %w", err)
	}
	in.Embedder = nil
	return New(s, &in)
}

// New returns the index in a store of any kind, which determines the Embedder.
func New(s *store.Store, opts *Options) (*Index, error) {
	switch {
	case s == nil:
		return nil, errors.New("retrieval: open index: nil store")
	case opts != nil && opts.Embedder != nil:
		return nil, errors.New("retrieval: open index: Options.Embedder is only for Open: set the embedder of the store")
	}
	x := &Index{store: s, root: store.Namespace{"documents"}}
	if opts != nil {
		x.splitter = opts.Splitter
		if opts.Namespace != nil {
			x.root = slices.Clone(opts.Namespace)
		}
	}
	if len(x.root) == 0 {
		return nil, errors.New("retrieval: open index: empty namespace: use at least one segment")
	}
	x.splitter = cmp.Or(x.splitter, Split(nil))
	return x, nil
}

// A Chunk is a part of a document. Its JSON is the value of its item in the store, so
// filters can use these names, such as store.Eq("source", "guide.md") and
// store.Eq("meta.author", "Ada").
type Chunk struct {
	// Source is the name of the source, and Document the ID of the document in it.
	Source   string `json:"source"`
	Document string `json:"document,omitempty"`
	// Number counts the chunks of the source from 0.
	Number int `json:"number"`
	// Text is the text of the document from byte Start up to End.
	Text  string `json:"text"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	// Line is the line of the source where the chunk starts, and Page its page, counting
	// from 1; 0 if unknown.
	Line int `json:"line,omitempty"`
	Page int `json:"page,omitempty"`
	// Headings are the headings above the chunk, outermost first.
	Headings []string `json:"headings,omitempty"`
	// Meta is the document's Meta. Each chunk repeats it.
	Meta map[string]any `json:"meta,omitempty"`
}

// Place returns the place of the chunk for people, such as "guide.md:12" or
// "report.pdf, page 3".
func (c *Chunk) Place() string {
	switch {
	case c.Page > 0:
		return fmt.Sprintf("%s, page %d", c.Source, c.Page)
	case c.Line > 0:
		return fmt.Sprintf("%s:%d", c.Source, c.Line)
	case c.Document != "":
		return c.Source + ", " + c.Document
	}
	return c.Source
}

// sources returns the namespace of the source records.
func (x *Index) sources() store.Namespace { return append(slices.Clone(x.root), "sources") }
func (x *Index) chunks() store.Namespace  { return append(slices.Clone(x.root), "chunks") }

// idOf returns the key of a source. Names may be longer than keys.
func idOf(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:16])
}

func keyOf(source string, number int) string { return fmt.Sprintf("%s/%d", idOf(source), number) }

// chunksOf splits the documents of a source, whose Meta have the given sizes.
func (x *Index) chunksOf(source string, docs []Document, sizes []int) ([]Chunk, error) {
	var out []Chunk
	left := maxRepeated
	for i := range docs {
		d := &docs[i]
		line, counted := d.Line, 0
		for _, s := range x.splitter.Split(d) {
			left -= sizes[i]
			for _, h := range s.Headings {
				left -= len(h)
			}
			if left < 0 {
				return nil, fmt.Errorf("headings and meta that all chunks repeat exceed %d bytes", maxRepeated)
			}
			if line > 0 {
				// Where a chunk starts with blank lines, its text starts below them.
				at := s.Start + leadingSpace(d.Text[s.Start:s.End])
				if at < counted {
					line -= strings.Count(d.Text[at:counted], "\n")
				} else {
					line += strings.Count(d.Text[counted:at], "\n")
				}
				counted = at
			}
			page, _ := slices.BinarySearch(d.Pages, s.Start+1)
			out = append(out, Chunk{
				Source: source, Document: d.ID, Number: len(out), Text: d.Text[s.Start:s.End], Start: s.Start, End: s.End,
				Line: line, Page: page, Headings: s.Headings, Meta: d.Meta,
			})
		}
	}
	return out, nil
}

// Sources lists the names of the sources in the index, in order.
func (x *Index) Sources(ctx context.Context) ([]string, error) {
	records, err := x.records(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for name, r := range records {
		if r.Skipped == "" && r.Hash != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Text returns the text of a document from byte start up to end, as indexed. It
// returns an error matching [store.ErrNotFound] if the index does not contain it.
func (x *Index) Text(ctx context.Context, source, document string, start, end int) (string, error) {
	chunks, err := x.document(ctx, source, document, start, end)
	if err != nil {
		return "", err
	}
	text, at := join(chunks)
	if start < at || end > at+len(text) || start > end {
		return "", fmt.Errorf("retrieval: bytes %d to %d of %q: %w", start, end, source, store.ErrNotFound)
	}
	return text[start-at : end-at], nil
}

// document returns the chunks of a document that contain the bytes from start up to end.
func (x *Index) document(ctx context.Context, source, document string, start, end int) ([]Chunk, error) {
	const step = 64
	var found []Chunk
	for from := 0; ; from += step {
		chunks, err := x.get(ctx, source, from, from+step)
		if err != nil {
			return nil, err
		}
		for _, c := range chunks {
			if c.Document == document && c.Start < end && start < c.End {
				found = append(found, c)
			}
		}
		if len(chunks) < step || len(found) > 0 && found[len(found)-1].End >= end {
			return found, nil
		}
	}
}

// get returns the chunks of a source with the numbers from lo up to hi that exist.
func (x *Index) get(ctx context.Context, source string, lo, hi int) ([]Chunk, error) {
	var ops []store.Op
	for n := max(0, lo); n < hi; n++ {
		ops = append(ops, store.GetOp{Namespace: x.chunks(), Key: keyOf(source, n)})
	}
	if len(ops) == 0 {
		return nil, nil
	}
	results, err := x.store.Batch(ctx, ops...)
	if err != nil {
		return nil, fmt.Errorf("retrieval: read chunks of %q: %w", source, err)
	}
	var chunks []Chunk
	for _, r := range results {
		if r.Item == nil {
			continue
		}
		var c Chunk
		if err := r.Item.Decode(&c); err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// join returns the text that consecutive chunks of a document cover, and its start. A gap,
// which a concurrent sync may leave for a moment, ends it.
func join(chunks []Chunk) (text string, start int) {
	if len(chunks) == 0 {
		return "", 0
	}
	start = chunks[0].Start
	var b strings.Builder
	for _, c := range chunks {
		covered := start + b.Len()
		if c.Start > covered {
			break
		}
		if c.End > covered {
			b.WriteString(c.Text[covered-c.Start:])
		}
	}
	return b.String(), start
}
