package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/store"
)

// ourStores returns the store jobs, ordered by backend, so that only one large
// store exists at a time.
var ourStores = slices.Concat(
	storeWorks(storeJobs{"memory", openMemoryStore, asked}, 3),
	storeWorks(storeJobs{"sqlite", openDatabaseStore(backends.SQLite), asked}, 3),
	storeWorks(storeJobs{"postgres", openDatabaseStore(backends.Postgres), asked}, 3),
)

func storeWorks(at storeJobs, trials int) []work {
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

// filledStore is a store with the items of a corpus.
type filledStore struct {
	*store.Store
	corpus   *corpus
	memories *memories               // of memory_recall_100k; otherwise nil
	item     func(i int) store.PutOp // the put of item i
	size     int                     // the number of items so far
	settle   func(ctx context.Context) error
	close    func() error
}

// storeOpener opens a store. The result has no corpus and no items.
type storeOpener func(ctx context.Context, o *store.Options) (*filledStore, error)

func openMemoryStore(_ context.Context, o *store.Options) (*filledStore, error) {
	s, err := store.NewMemory(o)
	return &filledStore{Store: s, settle: func(context.Context) error { return nil }, close: func() error { return nil }}, err
}

// openDatabaseStore opens a store in a new database.
func openDatabaseStore(b *backends.Backend) storeOpener {
	return func(ctx context.Context, o *store.Options) (*filledStore, error) {
		address, db, closing, err := opened(ctx, b)
		if err != nil {
			return nil, err
		}
		s, err := db.Store(o)
		if err != nil {
			return nil, errors.Join(err, closing())
		}
		settle := func(context.Context) error { return nil }
		if b == backends.Postgres {
			settle = func(ctx context.Context) error { return settlePostgres(ctx, address) }
		}
		return &filledStore{Store: s, settle: settle, close: closing}, nil
	}
}

// settlePostgres does what Postgres does by itself a few minutes after a load: it collects
// statistics, empties the pending lists of indexes, and writes changed pages to disk. Without
// it, the first searches do some of this work or compete with it.
func settlePostgres(ctx context.Context, address string) (err error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, statement := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// storeCache keeps expensive objects for the jobs that share them: the largest
// corpus so far, and the last filled store.
type storeCache struct {
	progress io.Writer
	fetch    bool // download the encoder if it is missing
	corpus   *corpus
	store    *filledStore
	name     string // of the filledStore
}

var stores = &storeCache{progress: os.Stderr}

// sentences returns a corpus of at least size sentences.
func (l *storeCache) sentences(ctx context.Context, size int) (*corpus, error) {
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

// filled returns the named store with size items, which must not be changed.
func (l *storeCache) filled(ctx context.Context, name string, size int, empty func(ctx context.Context, size int) (*filledStore, error)) (*filledStore, error) {
	if l.store != nil && l.name == name && l.store.size == size {
		return l.store, nil
	}
	if err := l.close(); err != nil {
		return nil, err
	}
	s, err := empty(ctx, size)
	if err != nil {
		return nil, err
	}
	l.store, l.name = s, name
	if size == corpusSize {
		fmt.Fprintf(l.progress, "treadle: filling a store, %s\n", name)
	}
	if err := s.fill(ctx, size); err != nil {
		return nil, err
	}
	return s, s.settle(ctx)
}

// close closes the store.
func (l *storeCache) close() error {
	if l.store == nil {
		return nil
	}
	s := l.store
	l.store = nil
	return s.close()
}

// storeJobs implements the jobs for one backend.
type storeJobs struct {
	backend   string
	open      storeOpener
	questions int // the number of searches of a trial
}

// empty returns an empty store for a corpus of size sentences.
func (at storeJobs) empty(ctx context.Context, size int) (*filledStore, error) {
	c, err := stores.sentences(ctx, size)
	if err != nil {
		return nil, err
	}
	s, err := at.open(ctx, &store.Options{Embedder: c, Fields: []string{"text"}})
	if err != nil {
		return nil, err
	}
	s.corpus, s.item = c, func(i int) store.PutOp { return noteOp(c, i) }
	return s, nil
}

// note is the value of an item.
type note struct {
	Text string `json:"text"`
	N    int    `json:"n"`
	Kind string `json:"kind"`
}

// The notes belong to a hundred users, and one in a thousand has the same n.
const (
	users = 100
	ns    = 1000
)

func noteSpace(i int) store.Namespace { return store.Namespace{"users", strconv.Itoa(i % users)} }

func noteOp(c *corpus, i int) store.PutOp {
	return store.PutOp{Namespace: noteSpace(i), Key: strconv.Itoa(i), Value: note{c.facts[i], i % ns, "note"}}
}

func (s *filledStore) fill(ctx context.Context, size int) error {
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
func (at storeJobs) put(ctx context.Context, j job) (l line, err error) {
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

// get reads notes by key.
func (at storeJobs) get(ctx context.Context, j job) (line, error) {
	s, err := stores.filled(ctx, at.backend, j.want, at.empty)
	if err != nil {
		return line{}, err
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	l, err := medianOf(5000, 1, func(int) error {
		i := rnd.IntN(j.want)
		item, err := s.Get(ctx, noteSpace(i), strconv.Itoa(i), nil)
		if err == nil && item.Key != strconv.Itoa(i) {
			err = fmt.Errorf("key %d: item %s", i, item.Key)
		}
		return err
	})
	l.Note = fmt.Sprintf("of %d", j.want)
	return l, err
}

// search times a search for each of some questions of the corpus, among the notes
// of all users, and returns the notes found.
func (at storeJobs) search(ctx context.Context, j job, options func(question string) *store.SearchOptions) (*filledStore, [][]note, line, error) {
	s, err := stores.filled(ctx, at.backend, j.want, at.empty)
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

func (at storeJobs) semantic(ctx context.Context, j job) (line, error) {
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

func (at storeJobs) keyword(ctx context.Context, j job) (line, error) {
	s, found, l, err := at.search(ctx, j, func(question string) *store.SearchOptions {
		return &store.SearchOptions{Query: question, Ranking: store.Keyword}
	})
	if err != nil {
		return line{}, err
	}
	// In a small store, as in the tests, no item may contain a word of a question.
	if !slices.ContainsFunc(found, func(notes []note) bool { return len(notes) > 0 }) {
		return line{}, fmt.Errorf("%s: no item contains a word of %q", j.name, s.corpus.questions)
	}
	return l, nil
}

func (at storeJobs) filter(ctx context.Context, j job) (line, error) {
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
	l.Note = fmt.Sprintf("the newest 10 matches of a filter that one in %d items passes", ns)
	return l, nil
}
