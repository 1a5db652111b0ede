package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/store"
)

// cranfieldUsage is printed for -help and for invalid arguments.
const cranfieldUsage = `usage: bench cranfield [flags] directory

Measures how well package retrieval finds the abstracts that answer the questions of the
Cranfield collection (1,400 abstracts, 225 questions). The directory contains cran.all.1400,
cran.qry, and cranqrel.
`

func runCranfield(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var s locomoSettings
	flags := flag.NewFlagSet("bench cranfield", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, cranfieldUsage)
		flags.PrintDefaults()
	}
	s.searchFlags(flags)
	flags.BoolVar(&s.json, "json", false, "print one JSON object per line instead of a table")
	flags.BoolVar(&s.english, "english", false, "set the store's option English")
	size := flags.Int("size", 3000, "maximum `characters` of a chunk")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("cranfield: %d directories: pass one", flags.NArg())
	}
	docs, questions, err := readCranfield(flags.Arg(0))
	if err != nil {
		return err
	}
	embedder, err := locomoEmbedder(ctx, s, stderr)
	if err != nil {
		return err
	}
	kept, err := store.NewMemory(&store.Options{Embedder: embedder, English: s.english, History: 1})
	if err != nil {
		return err
	}
	index, err := retrieval.New(kept, &retrieval.Options{Splitter: retrieval.Split(&retrieval.SplitOptions{Size: *size})})
	if err != nil {
		return err
	}
	report, err := index.Sync(ctx, retrieval.Documents(docs...), nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "cranfield: %v\n", report)
	reranker, err := s.openReranker()
	if err != nil {
		return err
	}
	var rankings []string
	measured := map[string]byCategory{}
	for _, c := range []struct {
		name    string
		ranking store.Ranking
		with    store.Reranker
	}{{"keyword", store.Keyword, nil}, {"semantic", store.Semantic, nil}, {hybridRanking, store.Hybrid, nil}, {rerankedHybrid, store.Hybrid, reranker}} {
		if embedder == nil && c.ranking != store.Keyword || c.name == rerankedHybrid && reranker == nil {
			continue
		}
		rankings = append(rankings, c.name)
		measured[c.name] = byCategory{}
		for _, q := range questions {
			start := time.Now()
			hits, err := index.Search(ctx, q.Query, &retrieval.SearchOptions{Limit: locomoTop, Ranking: c.ranking, Reranker: c.with})
			if err != nil {
				return err
			}
			took := time.Since(start)
			measured[c.name].add(allCategories, q.Sources, sourcesOf(hits), 0, took)
		}
	}
	if s.python != "" {
		group := searchGroup{}
		for _, d := range docs {
			group.Documents = append(group.Documents, searchDocument{d.ID, d.Text})
		}
		for _, q := range questions {
			group.Questions = append(group.Questions, q.Query)
		}
		searches, err := langchain(ctx, s.python, []searchGroup{group}, embedder, stderr)
		if err != nil {
			return err
		}
		for _, peer := range searches {
			rankings = append(rankings, peer.Name)
			measured[peer.Name] = byCategory{}
			for i, q := range questions {
				measured[peer.Name].add(allCategories, q.Sources, peer.Found[i], 0, 0)
			}
		}
	}
	best := hybridRanking
	if embedder == nil {
		best = "keyword"
	}
	return printLocomo(stdout, linesOf(rankings, measured, best), s.json)
}

// sourcesOf returns the sources of hits, each at its best rank.
func sourcesOf(hits []retrieval.Hit) (sources []string) {
	for _, h := range hits {
		if !slices.Contains(sources, h.Source) {
			sources = append(sources, h.Source)
		}
	}
	return sources
}

// readCranfield reads the abstracts, with their titles, and the questions. The judgments
// number the questions by their order.
func readCranfield(dir string) (docs []retrieval.Document, questions []retrieval.Question, err error) {
	texts, err := readFields(filepath.Join(dir, "cran.all.1400"))
	if err != nil {
		return nil, nil, err
	}
	for _, f := range texts {
		if text := strings.TrimSpace(f["W"]); text != "" {
			docs = append(docs, retrieval.Document{ID: f["I"], Text: text})
		}
	}
	asked, err := readFields(filepath.Join(dir, "cran.qry"))
	if err != nil {
		return nil, nil, err
	}
	relevant := make([][]string, len(asked))
	judgments, err := os.ReadFile(filepath.Join(dir, "cranqrel"))
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(string(judgments)) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[2], "-") {
			continue
		}
		n, err := strconv.Atoi(f[0])
		if err != nil || n < 1 || n > len(asked) {
			return nil, nil, fmt.Errorf("cranfield: judgment of question %q", f[0])
		}
		relevant[n-1] = append(relevant[n-1], f[1])
	}
	for i, q := range asked {
		if len(relevant[i]) > 0 {
			questions = append(questions, retrieval.Question{Query: strings.Join(strings.Fields(q["W"]), " "), Sources: relevant[i]})
		}
	}
	if len(docs) == 0 || len(questions) == 0 {
		return nil, nil, errors.New("cranfield: no abstracts or no questions")
	}
	return docs, questions, nil
}

// readFields reads records whose fields start with a line such as ".W". The first field of a
// record is its number, ".I".
func readFields(path string) (records []map[string]string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	field := ""
	for line := range strings.Lines(string(content)) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, ".I "):
			records = append(records, map[string]string{"I": strings.TrimSpace(line[3:])})
			field = ""
		case len(trimmed) == 2 && trimmed[0] == '.' && trimmed[1] >= 'A' && trimmed[1] <= 'Z':
			field = trimmed[1:]
		case field != "" && len(records) > 0:
			records[len(records)-1][field] += line
		}
	}
	return records, nil
}
