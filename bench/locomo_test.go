package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// original has the form of the authors' file.
const original = `[{"sample_id":"conv-1","conversation":{"speaker_a":"Ann","speaker_b":"Bob",
"session_1_date_time":"1:56 pm on 8 May, 2023","session_1":[
 {"speaker":"Ann","dia_id":"D1:1","text":"I adopted a ferret."},
 {"speaker":"Bob","dia_id":"D1:2","text":"Look!","blip_caption":"a photo of a boat"}],
"session_2_date_time":"9:05 am on 20 June, 2023","session_2":[{"speaker":"Ann","dia_id":"D2:1","text":"Kayaks are fun."}]},
"qa":[{"question":"Which ferret did Ann adopt?","evidence":["D1:1"],"category":4},
 {"question":"Who has a boat or kayaks?","evidence":["D1:2; D2:1"],"category":1},
 {"question":"Nothing says this","evidence":["D9:9"],"category":5}]}]`

func locomoFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "locomo.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLocomoReadsOriginalFile(t *testing.T) {
	all, err := readLocomo(locomoFile(t, original))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	c := all[0]
	if len(c.Memories) != 3 || c.Memories[1].Text != "Bob: Look! [shares an image: a photo of a boat]" || c.Memories[1].Time.Format("2006-01-02 15:04:05") != "2023-05-08 13:56:20" {
		t.Errorf("memories: %+v", c.Memories)
	}
	if !c.Now.Equal(c.Memories[2].Time) {
		t.Errorf("now: %v", c.Now)
	}
	if len(c.Questions) != 2 || c.Questions[0].Category != "single" || !slices.Equal(c.Questions[1].Gold, []string{"D1:2", "D2:1"}) {
		t.Errorf("questions: %+v", c.Questions)
	}
}

func TestLocomoMeasuresEachRanking(t *testing.T) {
	vectors := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var texts []string
		if err := json.NewDecoder(r.Body).Decode(&texts); err != nil {
			t.Error(err)
		}
		out := make([][]float32, len(texts))
		for i, text := range texts {
			out[i] = []float32{1, float32(len(text) % 7)}
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
	defer vectors.Close()
	file := locomoFile(t, original)
	for embedder, rankings := range map[string]int{vectors.URL: 4, "hash": 4, "none": 2} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"locomo", "-json", "-embedder", embedder, file}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3*rankings { // all, multi, single
			t.Fatalf("%s: %d lines\n%s", embedder, len(lines), &out)
		}
		var first locomoLine
		if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.Ranking != "recaller" || first.Category != "all" || first.Questions != 2 ||
			first.At10 != 1 || first.Tokens == 0 {
			t.Errorf("%s: %s, %v", embedder, lines[0], err)
		}
	}
}

func TestLocomoReranksSearches(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Documents []string `json:"documents"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		var results []map[string]any
		for i, text := range asked.Documents {
			results = append(results, map[string]any{"index": i, "relevance_score": len(text)}) // the longest first
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"results": results}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	var out bytes.Buffer
	args := []string{"-json", "-embedder", "hash", "-reranker", server.URL + " m", "-rankings", "hybrid,recaller", locomoFile(t, original)}
	if err := runLocomo(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	lines := map[string]locomoLine{}
	for d := json.NewDecoder(&out); d.More(); {
		var l locomoLine
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if l.Category == allCategories {
			lines[l.Ranking] = l
		}
	}
	// The longest turn answers the second question.
	if l := lines[rerankedHybrid]; l.MRR != 0.75 || l.Base != "hybrid" || l.MRRVs == nil || math.Abs(l.MRRVs.Mean-(l.MRR-lines["hybrid"].MRR)) > 1e-9 {
		t.Errorf("hybrid, reranked: %+v %v", l, l.MRRVs)
	}
	if lines["hybrid"].Base != recallerRanking || lines[rerankedRanking].Base != recallerRanking || lines[recallerRanking].Base != "" {
		t.Errorf("bases: %+v", lines)
	}
}

func TestPairedIntervalNarrowsWithQuestions(t *testing.T) {
	better, base := make([]float64, 400), make([]float64, 400)
	for i := range better {
		base[i] = float64(i % 2)
		better[i] = base[i]
		if i%10 == 0 {
			better[i]++
		}
	}
	few, many := paired(better[:40], base[:40]), paired(better, base)
	if math.Abs(many.Mean-0.1) > 1e-9 || many.Low < 0.06 || many.Low > 0.08 || many.High < 0.12 || many.High > 0.14 || few.High-few.Low < 2*(many.High-many.Low) {
		t.Errorf("%v and %v", few, many)
	}
	if none := paired(base, base); none.Low != 0 || none.High != 0 || paired(nil, nil) != nil {
		t.Errorf("equal results have the interval %v", none)
	}
}

func TestLocomoCountsFoundMemories(t *testing.T) {
	var a answers
	a.add([]string{"x", "y"}, []string{"n", "x", "n", "n", "n", "y"}, 10, 1)
	a.add([]string{"z"}, []string{"n"}, 20, 2)
	l := a.line("r", "c")
	if l.At1 != 0 || l.At5 != 0.25 || l.At10 != 0.5 || l.MRR != 0.25 || math.Abs(l.Tokens-15) > 1e-9 {
		t.Errorf("%+v", l)
	}
}

func TestLocomoRejectsInvalidArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"0 files":                {},
		"unknown ranking":        {"-rankings", "best", "x.json"},
		"want five numbers":      {"-weights", "1,2", "x.json"},
		"no such file":           {"missing.json"},
		"unknown embedder":       {"-embedder", "magic", locomoFile(t, original)},
		"has no questions":       {"-embedder", "none", locomoFile(t, `[{"user":"a","memories":[]}]`)},
		"cannot unmarshal":       {locomoFile(t, `{}`)},
		"session_1: parsing tim": {locomoFile(t, strings.Replace(original, "1:56 pm on", "noon of", 1))},
	} {
		err := run(t.Context(), append([]string{"locomo"}, args...), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

func TestUpdatesMeasuresOutdatedMemories(t *testing.T) {
	var out bytes.Buffer
	file := filepath.Join("..", "memory", "testdata", "updates.txt")
	if err := run(t.Context(), []string{"updates", "-embedder", "none", file}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "of 62\n") || !strings.Contains(out.String(), "of 72\n") {
		t.Errorf("printed %s", &out)
	}
	for want, text := range map[string]string{"has no people": "", "unexpected": "fact a b", "unknown fact": "person a\nask x y", "unknown": "person a\nfoo a b"} {
		if err := run(t.Context(), []string{"updates", "-embedder", "none", locomoFile(t, text)}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
