package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/treadle-go/treadle/internal/toolindex"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// toolsUsage is printed for -help and for invalid arguments.
const toolsUsage = `usage: bench tools [flags] directory

Measures how well tool search finds the functions that answer the questions of BFCL v4. The
directory contains BFCL_v4_*.json and possible_answer, such as bfcl_eval/data in the wheel
of bfcl-eval. A question is asked over the functions of all questions, and its function must
be among the first 1, 5, and 10. Questions with several functions do not count.
`

func runTools(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var s locomoSettings
	flags := flag.NewFlagSet("bench tools", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, toolsUsage)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.embedder, "embedder", "none", "`none`, hash, uselite, or the URL of a server that maps a JSON list of texts to a list of vectors")
	flags.BoolVar(&s.fetch, "fetch", false, "fetch the weights of uselite ("+encoderParcel.size+") if they are missing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("tools: %d directories: pass one", flags.NArg())
	}
	tools, questions, err := readBFCL(flags.Arg(0))
	if err != nil {
		return err
	}
	embedder, err := locomoEmbedder(ctx, s, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "tools: %d functions, %d questions with one function\n", len(tools), len(questions))
	bm25, err := plainBM25(tools)
	if err != nil {
		return err
	}
	rankings := []toolRanking{
		{"BM25", bm25},
		{"keyword", indexed(ctx, toolindex.New(tools, nil))},
	}
	if embedder != nil {
		cosine, err := plainCosine(ctx, tools, embedder)
		if err != nil {
			return err
		}
		rankings = slices.Insert(rankings, 1, toolRanking{"cosine", cosine})
		rankings = append(rankings, toolRanking{"hybrid", indexed(ctx, toolindex.New(tools, embedder))})
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ranking\tquestions\tn\tR@1\tR@5\tR@10\ttime per question")
	for _, r := range rankings {
		if err := r.measure(table, questions); err != nil {
			return fmt.Errorf("tools: %s: %w", r.name, err)
		}
	}
	return table.Flush()
}

// toolRanking returns the names of the ten best tools for a text.
type toolRanking struct {
	name string
	find func(text string) ([]string, error)
}

// measure writes a row for each group of questions.
func (r toolRanking) measure(w io.Writer, questions []bfclQuestion) error {
	type recall struct{ n, at1, at5, at10 int }
	groups := map[string]*recall{}
	start := time.Now()
	for _, q := range questions {
		names, err := r.find(q.text)
		if err != nil {
			return err
		}
		at := slices.Index(names, q.gold)
		for _, group := range q.groups() {
			g := groups[group]
			if g == nil {
				g = &recall{}
				groups[group] = g
			}
			g.n++
			for limit, n := range map[int]*int{1: &g.at1, 5: &g.at5, 10: &g.at10} {
				if at >= 0 && at < limit {
					*n++
				}
			}
		}
	}
	each := shortTime(float64(time.Since(start).Nanoseconds()) / float64(len(questions)))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		g := groups[name]
		n := float64(g.n)
		fmt.Fprintf(w, "%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%s\n", r.name, name, g.n, float64(g.at1)/n, float64(g.at5)/n, float64(g.at10)/n, each)
	}
	return nil
}

// bfclQuestion is a question and the name of the function that answers it.
type bfclQuestion struct{ id, category, text, gold string }

// groups returns the groups of questions that a question belongs to. The weights of the
// index were chosen on half a.
func (q bfclQuestion) groups() []string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(q.id)) // never fails
	out := []string{" all", " half " + string("ab"[h.Sum32()%2]), q.category}
	if strings.HasPrefix(q.category, "simple_") {
		out = append(out, " simple_*")
	}
	return out
}

type bfclRow struct {
	ID       string
	Question [][]struct{ Role, Content string }
	Function []struct {
		Name, Description string
		Parameters        json.RawMessage
	}
	GroundTruth []json.RawMessage `json:"ground_truth"`
}

// readBFCL reads the functions of all questions, and the questions with one function. Of
// several functions with a name, the first counts.
func readBFCL(dir string) (tools []*llm.Tool, questions []bfclQuestion, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "BFCL_v4_*.json"))
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for _, file := range files {
		category := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "BFCL_v4_"), ".json")
		if category == "format_sensitivity" {
			continue
		}
		rows, err := readRows(file)
		if err != nil {
			return nil, nil, err
		}
		golds, err := readGolds(filepath.Join(dir, "possible_answer", filepath.Base(file)))
		if err != nil {
			return nil, nil, err
		}
		for _, row := range rows {
			for _, f := range row.Function {
				if known[f.Name] {
					continue
				}
				known[f.Name] = true
				t := &llm.Tool{Name: f.Name, Description: f.Description}
				if err := json.Unmarshal(f.Parameters, &t.Parameters); err != nil {
					return nil, nil, fmt.Errorf("tools: parameters of %s: %w", f.Name, err)
				}
				tools = append(tools, t)
			}
			if gold := golds[row.ID]; len(row.Function) > 0 && len(gold) == 1 && len(row.Question) > 0 {
				var said []string
				for _, m := range row.Question[0] {
					if m.Role == "user" {
						said = append(said, m.Content)
					}
				}
				questions = append(questions, bfclQuestion{row.ID, category, strings.Join(said, "\n"), gold[0]})
			}
		}
	}
	if len(tools) == 0 || len(questions) == 0 {
		return nil, nil, fmt.Errorf("tools: no functions or no questions in %s", dir)
	}
	return tools, questions, nil
}

// readGolds returns the functions that answer each question. Some files have no answers.
func readGolds(file string) (map[string][]string, error) {
	rows, err := readRows(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	golds := map[string][]string{}
	for _, row := range rows {
		names := map[string]bool{}
		for _, raw := range row.GroundTruth {
			var call map[string]json.RawMessage
			if json.Unmarshal(raw, &call) != nil {
				continue // the calls of a conversation
			}
			for name := range call {
				names[name] = true
			}
		}
		golds[row.ID] = slices.Sorted(maps.Keys(names))
	}
	return golds, err
}

func readRows(file string) (rows []bfclRow, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		var row bfclRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			if !bytes.Contains(lines.Bytes(), []byte(`"function"`)) && !bytes.Contains(lines.Bytes(), []byte(`"ground_truth"`)) {
				continue // a conversation without functions
			}
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		rows = append(rows, row)
	}
	return rows, lines.Err()
}

// indexed returns the ranking of an index.
func indexed(ctx context.Context, x *toolindex.Index) func(string) ([]string, error) {
	return func(text string) ([]string, error) {
		found, err := x.Search(ctx, text, 10, nil)
		names := make([]string, len(found))
		for i, t := range found {
			names[i] = t.Name
		}
		return names, err
	}
}

// bestTools returns the names of the ten tools with the highest scores.
func bestTools(tools []*llm.Tool, scores []float64) []string {
	order := make([]int, len(tools))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(tools[a].Name, tools[b].Name))
	})
	var names []string
	for _, i := range order[:min(10, len(order))] {
		names = append(names, tools[i].Name)
	}
	return names
}

var (
	camelCase = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	plainWord = regexp.MustCompile(`[\pL\pN]+`)
)

func plainWords(text string) []string {
	return plainWord.FindAllString(strings.ToLower(camelCase.ReplaceAllString(text, "$1 $2")), -1)
}

// plainBM25 ranks by BM25 with its usual constants over all words of a function.
func plainBM25(tools []*llm.Tool) (func(string) ([]string, error), error) {
	const k1, b = 1.2, 0.75
	counts := make([]map[string]float64, len(tools))
	lengths := make([]float64, len(tools))
	having := map[string]float64{}
	total := 0.0
	for i, t := range tools {
		raw, err := json.Marshal(t.Parameters)
		if err != nil {
			return nil, err
		}
		var s bfclSchema
		_ = json.Unmarshal(raw, &s) // a schema without fields is true
		counts[i] = map[string]float64{}
		for _, w := range plainWords(strings.Join(append(s.texts(), t.Name, t.Description), " ")) {
			if counts[i][w]++; counts[i][w] == 1 {
				having[w]++
			}
			lengths[i]++
			total++
		}
	}
	n := float64(len(tools))
	return func(text string) ([]string, error) {
		scores := make([]float64, len(tools))
		for _, w := range plainWords(text) {
			rarity := math.Log1p((n - having[w] + 0.5) / (having[w] + 0.5))
			for i := range tools {
				if tf := counts[i][w]; tf > 0 {
					scores[i] += rarity * tf * (k1 + 1) / (tf + k1*(1-b+b*lengths[i]*n/total))
				}
			}
		}
		return bestTools(tools, scores), nil
	}, nil
}

// bfclSchema is the part of a schema that plain BM25 reads.
type bfclSchema struct {
	Description string
	Properties  map[string]*bfclSchema
	Items       *bfclSchema
}

// texts returns the names and descriptions of arguments.
func (s *bfclSchema) texts() (out []string) {
	if s == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		out = append(out, name)
		if p := s.Properties[name]; p != nil {
			out = slices.Concat(out, []string{p.Description}, p.texts(), p.Items.texts())
		}
	}
	return out
}

// plainCosine ranks by the similarity of names and descriptions.
func plainCosine(ctx context.Context, tools []*llm.Tool, e store.Embedder) (func(string) ([]string, error), error) {
	var texts []string
	for _, t := range tools {
		texts = append(texts, t.Name+" "+t.Description)
	}
	vectors, err := e.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	return func(text string) ([]string, error) {
		query, err := e.Embed(ctx, []string{text})
		if err != nil {
			return nil, err
		}
		scores := make([]float64, len(tools))
		for i, v := range vectors {
			length := 0.0
			for k, c := range v {
				scores[i] += float64(c * query[0][k])
				length += float64(c * c)
			}
			scores[i] /= max(math.Sqrt(length), 1e-9)
		}
		return bestTools(tools, scores), nil
	}, nil
}
