package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"github.com/treadle-go/treadle/internal/backends"
	"github.com/treadle-go/treadle/store"
)

// ourStores is the part of the catalogue about stores. Backend by backend, so
// that one large store is there at a time.
var ourStores = slices.Concat(
	storeWorks(shelfAt{"memory", memoryShelf, asked}, 3),
	storeWorks(shelfAt{"sqlite", databaseShelf(backends.SQLite), asked}, 3),
	// Without pgvector a search by meaning reads all vectors from the server.
	storeWorks(shelfAt{"postgres", databaseShelf(backends.Postgres), 10}, 1),
)

func storeWorks(at shelfAt, trials int) []work {
	backend := at.backend
	return []work{
		newTrial("store_put_"+backend, "p50", trials, at.put),
		newTrial("store_get_"+backend, "p50", trials, at.get),
		newTrial("store_search_semantic_1k_"+backend, "p50", trials, at.semantic),
		newTrial("store_search_semantic_100k_"+backend, "p50", trials, at.semantic),
		newTrial("store_search_keyword_100k_"+backend, "p50", trials, at.keyword),
		newTrial("store_filter_100k_"+backend, "p50", trials, at.filter),
	}
}

// shelf is a store and how to be rid of it.
type shelf struct {
	*store.Store
	corpus   *corpus
	memories *memories               // of those that have them
	item     func(i int) store.PutOp // what is put as number i
	size     int                     // how many are in it
	close    func() error
}

type shelfOpener func(ctx context.Context, o *store.Options) (*store.Store, func() error, error)

func memoryShelf(_ context.Context, o *store.Options) (*store.Store, func() error, error) {
	s, err := store.NewMemory(o)
	return s, func() error { return nil }, err
}

// databaseShelf is in a database of its own.
func databaseShelf(b *backends.Backend) shelfOpener {
	return func(ctx context.Context, o *store.Options) (*store.Store, func() error, error) {
		_, db, closing, err := opened(ctx, b)
		if err != nil {
			return nil, nil, err
		}
		s, err := db.Store(o)
		return s, closing, err
	}
}

// library lends what takes long to make to the jobs that need the same: the
// largest corpus so far, and the last store that was filled with one.
type library struct {
	progress io.Writer
	fetch    bool // the encoder, if it is not there
	corpus   *corpus
	shelf    *shelf
	name     string // of the shelf
}

var books = &library{progress: os.Stderr}

// sentences are at least so many.
func (l *library) sentences(ctx context.Context, size int) (*corpus, error) {
	if l.corpus != nil && len(l.corpus.facts) >= size {
		return l.corpus, nil
	}
	c, err := newCorpus(ctx, size, l.fetch, l.progress)
	if err != nil {
		return nil, err
	}
	l.corpus = c
	return c, nil
}

// filled is the store of a name with so many items, which is not to be changed.
func (l *library) filled(ctx context.Context, name string, size int, empty func(ctx context.Context, size int) (*shelf, error)) (*shelf, error) {
	if l.shelf != nil && l.name == name && l.shelf.size == size {
		return l.shelf, nil
	}
	if err := l.close(); err != nil {
		return nil, err
	}
	s, err := empty(ctx, size)
	if err != nil {
		return nil, err
	}
	l.shelf, l.name = s, name
	if size == corpusSize {
		fmt.Fprintf(l.progress, "treadle: filling a store, %s\n", name)
	}
	return s, s.fill(ctx, size)
}

// close gives up the store.
func (l *library) close() error {
	if l.shelf == nil {
		return nil
	}
	s := l.shelf
	l.shelf = nil
	return s.close()
}

// shelfAt is a backend.
type shelfAt struct {
	backend   string
	open      shelfOpener
	questions int // how many a trial asks
}

// empty is a store for sentences of a corpus that has so many.
func (at shelfAt) empty(ctx context.Context, size int) (*shelf, error) {
	c, err := books.sentences(ctx, size)
	if err != nil {
		return nil, err
	}
	s, closing, err := at.open(ctx, &store.Options{Embedder: c, Fields: []string{"text"}})
	if err != nil {
		return nil, err
	}
	return &shelf{Store: s, corpus: c, item: func(i int) store.PutOp { return noteOp(c, i) }, close: closing}, nil
}

// note is what a shelf holds.
type note struct {
	Text string `json:"text"`
	N    int    `json:"n"`
	Kind string `json:"kind"`
}

// The notes of a hundred users, a thousandth of which has the same n.
const (
	users = 100
	ns    = 1000
)

func noteSpace(i int) store.Namespace { return store.Namespace{"users", strconv.Itoa(i % users)} }

func noteOp(c *corpus, i int) store.PutOp {
	return store.PutOp{Namespace: noteSpace(i), Key: strconv.Itoa(i), Value: note{c.facts[i], i % ns, "note"}}
}

func (s *shelf) fill(ctx context.Context, size int) error {
	const page = 500
	for s.size < size {
		ops := make([]store.Op, min(page, size-s.size))
		for i := range ops {
			ops[i] = s.item(s.size + i)
		}
		if _, err := s.Batch(ctx, ops...); err != nil {
			return err
		}
		s.size += len(ops)
	}
	return nil
}

// put stores one note after the other.
func (at shelfAt) put(ctx context.Context, j job) (l line, err error) {
	s, err := at.empty(ctx, j.want+1)
	if err != nil {
		return line{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return medianOf(j.want, 1, func(i int) error {
		op := s.item(i)
		return s.Put(ctx, op.Namespace, op.Key, op.Value, nil)
	})
}

// get reads notes by their keys.
func (at shelfAt) get(ctx context.Context, j job) (line, error) {
	s, err := books.filled(ctx, at.backend, j.want, at.empty)
	if err != nil {
		return line{}, err
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	l, err := medianOf(5000, 1, func(int) error {
		i := rnd.IntN(j.want)
		item, err := s.Get(ctx, noteSpace(i), strconv.Itoa(i), nil)
		if err == nil && item.Key != strconv.Itoa(i) {
			err = fmt.Errorf("key %d gave the item %s", i, item.Key)
		}
		return err
	})
	l.Note = fmt.Sprintf("of %d", j.want)
	return l, err
}

// search times a search for each of some questions of the corpus, among the notes of all
// users, and returns what the searches found.
func (at shelfAt) search(ctx context.Context, j job, options func(question string) *store.SearchOptions) (*shelf, [][]note, line, error) {
	s, err := books.filled(ctx, at.backend, j.want, at.empty)
	if err != nil {
		return nil, nil, line{}, err
	}
	answers := make([][]*store.Item, at.questions)
	l, err := medianOf(at.questions, 1, func(i int) (err error) {
		i %= at.questions
		answers[i], err = s.Search(ctx, store.Namespace{"users"}, options(s.corpus.questions[i]))
		return err
	})
	if err != nil {
		return nil, nil, line{}, err
	}
	found := make([][]note, at.questions)
	for i, items := range answers {
		for _, item := range items {
			var n note
			if err := item.Decode(&n); err != nil {
				return nil, nil, line{}, err
			}
			found[i] = append(found[i], n)
		}
	}
	return s, found, l, nil
}

func (at shelfAt) semantic(ctx context.Context, j job) (line, error) {
	s, found, l, err := at.search(ctx, j, func(question string) *store.SearchOptions { return &store.SearchOptions{Query: question} })
	if err != nil {
		return line{}, err
	}
	sum := 0.0
	for i, notes := range found {
		sum += s.corpus.recall(i, j.want, notes)
	}
	l.Recall = math.Round(sum/float64(at.questions)*1e4) / 1e4
	l.Note = fmt.Sprintf("recall@10 %.3f against exact search, without embedding the query; %s", l.Recall, s.corpus.note)
	return l, nil
}

func (at shelfAt) keyword(ctx context.Context, j job) (line, error) {
	s, found, l, err := at.search(ctx, j, func(question string) *store.SearchOptions {
		return &store.SearchOptions{Query: question, Ranking: store.Keyword}
	})
	if err != nil {
		return line{}, err
	}
	for i, notes := range found {
		if len(notes) == 0 {
			return line{}, fmt.Errorf("%s: nothing has a word of %q", j.name, s.corpus.questions[i])
		}
	}
	return l, nil
}

func (at shelfAt) filter(ctx context.Context, j job) (line, error) {
	const n = 7
	_, found, l, err := at.search(ctx, j, func(string) *store.SearchOptions { return &store.SearchOptions{Filter: store.Eq("n", n)} })
	if err != nil {
		return line{}, err
	}
	want := min(10, (j.want-n+ns-1)/ns)
	for _, notes := range found {
		if len(notes) != want || slices.ContainsFunc(notes, func(o note) bool { return o.N != n }) {
			return line{}, fmt.Errorf("%s: found %v, want %d notes with n %d", j.name, notes, want, n)
		}
	}
	l.Note = fmt.Sprintf("the newest 10 of those that one in %d passes", ns)
	return l, nil
}
