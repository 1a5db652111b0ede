package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// folderUsage is printed for -help and for invalid arguments.
const folderUsage = `usage: bench folder [flags]

Measures package retrieval with a large folder: it writes one of made-up texts, indexes it in
SQLite, syncs it again without a change, and searches. A chunk has about 100 words.
`

// folder is a made-up folder of texts.
type folder struct {
	dir           string
	files, chunks int // chunks are those of all files
}

const folderFiles = 1000

func runFolder(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("bench folder", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, folderUsage)
		flags.PrintDefaults()
	}
	f := folder{files: folderFiles}
	keep := flags.String("dir", "", "a `directory` for the folder and its index; a later run reuses them (default a temporary one)")
	flags.IntVar(&f.chunks, "chunks", corpusSize, "number of chunks, in 1,000 files, or in one file each if there are fewer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 0 || f.chunks < 1 {
		return errors.New("folder: unexpected arguments: pass only -dir and -chunks, at least 1")
	}
	f.files = min(f.files, f.chunks)
	dir := *keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "treadle-bench-folder"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	f.dir = filepath.Join(dir, "texts")
	queries, err := f.write()
	if err != nil {
		return err
	}
	db, err := sqlite.Open(filepath.Join(dir, "index.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	index, err := retrieval.Open(db, &retrieval.Options{Embedder: &meaning{store.NewHashEmbedder(dimension)}})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "work\ttime\tprocessor time\tgreatest memory\tnote")
	for _, what := range []string{"first sync", "unchanged sync"} {
		if err := f.sync(ctx, index, what, table); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		what    string
		ranking store.Ranking
		filter  store.Filter
	}{
		{"hybrid", store.Hybrid, store.Filter{}},
		{"hybrid, filter that matches one file", store.Hybrid, store.Eq("source", f.name(f.files/2))},
		{"hybrid, filter that matches half of each file", store.Hybrid, store.Lt("number", f.chunks/f.files/2)},
		{"keyword", store.Keyword, store.Filter{}},
		{"semantic", store.Semantic, store.Filter{}},
	} {
		if err := f.search(ctx, index, queries, s.what, &retrieval.SearchOptions{Limit: 10, Ranking: s.ranking, Filter: s.filter}, table); err != nil {
			return err
		}
	}
	return table.Flush()
}

// meaning is an embedder whose vectors are treated as those of a model.
type meaning struct{ store.Embedder }

func (f *folder) name(i int) string { return fmt.Sprintf("%05d.txt", i) }

// write writes the files and returns queries for their chunks.
func (f *folder) write() (queries []string, err error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, err
	}
	s, talk := newSentences(), newSmallTalk()
	for _, q := range s.take("question", asked) {
		queries = append(queries, talk.drawOut(q, 5, 15))
	}
	facts := s.take("fact", f.chunks)
	for i := range f.files {
		if err := f.writeFile(i, facts[i*f.chunks/f.files:(i+1)*f.chunks/f.files], talk); err != nil {
			return nil, err
		}
	}
	return queries, nil
}

func (f *folder) writeFile(i int, facts []string, talk *smallTalk) (err error) {
	out, err := os.Create(filepath.Join(f.dir, f.name(i)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriter(out)
	for _, fact := range facts {
		// Two paragraphs are longer than the chunks of the default splitter.
		if _, err := fmt.Fprintf(w, "%s\n\n", talk.drawOut(fact, 100, 130)); err != nil {
			return err
		}
	}
	return w.Flush()
}

// sync syncs the folder and checks the report.
func (f *folder) sync(ctx context.Context, index *retrieval.Index, what string, w io.Writer) error {
	var greatest float64
	progress := func(retrieval.Progress) {
		if used, err := rss(); err == nil {
			greatest = max(greatest, used)
		}
	}
	before, err := cpu()
	if err != nil {
		return err
	}
	start := time.Now()
	report, err := index.Sync(ctx, retrieval.Dir(f.dir, nil), &retrieval.SyncOptions{Progress: progress})
	if err != nil {
		return err
	}
	took := time.Since(start)
	after, err := cpu()
	if err != nil {
		return err
	}
	if report.Added+report.Unchanged != f.files {
		return fmt.Errorf("folder: %s: %v", what, report)
	}
	_, err = fmt.Fprintf(w, "%s\t%s\t%s\t%.0f MB\t%v\n", what, shortTime(float64(took.Nanoseconds())), shortTime(float64((after - before).Nanoseconds())), greatest/1e6, report)
	return err
}

// search times searches, after a few that fill caches.
func (f *folder) search(ctx context.Context, index *retrieval.Index, queries []string, what string, opts *retrieval.SearchOptions, w io.Writer) error {
	const warm = 10
	var took []time.Duration
	var found int
	var before time.Duration
	for i, q := range append(queries[:min(warm, len(queries)):min(warm, len(queries))], queries...) {
		if i == warm {
			var err error
			if before, err = cpu(); err != nil {
				return err
			}
		}
		start := time.Now()
		hits, err := index.Search(ctx, q, opts)
		if err != nil {
			return err
		}
		if i >= warm {
			took, found = append(took, time.Since(start)), found+len(hits)
		}
	}
	after, err := cpu()
	if err != nil {
		return err
	}
	used, err := rss()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\tp50 %s, p95 %s\t%s\t%.0f MB\t%.1f hits\n", what, shortTime(percentile(took, 50)), shortTime(percentile(took, 95)),
		shortTime(float64((after-before).Nanoseconds())/float64(len(took))), used/1e6, float64(found)/float64(len(took)))
	return err
}
