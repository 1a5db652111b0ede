package draw

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write the file with -update, and review it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestDiagramsMatchGoldenFiles(t *testing.T) {
	for _, s := range gallery() {
		t.Run(s.Name, func(t *testing.T) {
			name := s.Name
			if strings.Contains(name, " ") {
				name = "names"
			}
			js, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".mmd", s.Mermaid())
			golden(t, name+".plain.mmd", s.MermaidPlain())
			golden(t, name+".dot", s.DOT())
			golden(t, name+".json", string(js)+"\n")
			golden(t, name+".txt", s.Text())
			golden(t, name+".ascii.txt", s.ASCII())
			golden(t, name+".svg", s.SVG())
		})
	}
}

// This is the format that LangGraph's tools and documentation pages read.
func TestMermaidMatchesLangGraph(t *testing.T) {
	one := shape("work", "__start__ -> one\none -> __end__")
	s := shape("", "__start__ -> plan\nplan .> work\nwork -> __end__\nplan .> plan : again")
	s.at("plan").Metadata = map[string]any{"defer": true}
	s.at("work").Graph = &one
	want := strings.Join([]string{
		"---", "config:", "  flowchart:", "    curve: linear", "---", "graph TD;",
		"\t__start__([<p>__start__</p>]):::first",
		"\tplan(plan<hr/><small><em>defer = True</em></small>)",
		"\t__end__([<p>__end__</p>]):::last",
		"\t__start__ --> plan;",
		"\tplan -.-> work\\3aone;",
		"\twork\\3aone --> __end__;",
		"\tplan -. &nbsp;again&nbsp; .-> plan;",
		"\tsubgraph work",
		"\twork\\3aone(one)",
		"\tend",
		"\tclassDef default fill:#f2f0ff,line-height:1.2",
		"\tclassDef first fill-opacity:0",
		"\tclassDef last fill:#bfb6fc",
		"",
	}, "\n")
	if diff := cmp.Diff(want, s.Expand(-1).Mermaid()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMermaidMarksUniqueFirstAndLastNode(t *testing.T) {
	got := shape("", "__start__ -> a\na -> __end__\nloose").Mermaid()
	for _, want := range []string{"\t__start__(<p>__start__</p>)\n", "\t__end__(<p>__end__</p>)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestMermaidBreaksLabelsEveryNineWords(t *testing.T) {
	got := shape("", "a -> b : 1 2 3 4 5 6 7 8 9 10 11").MermaidPlain()
	want := "graph TD;\n\ta -- &nbsp;1 2 3 4 5 6 7 8 9&nbsp<br>&nbsp10 11&nbsp; --> b;\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMermaidSeparatesSameNamedSubgraphs(t *testing.T) {
	s := shape("", "a:w:x -> a:w:y\nb:w:x -> b:w:y")
	got := s.MermaidPlain()
	for _, want := range []string{"\tsubgraph w\n", "\tsubgraph b\\3aw [w]\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("want one %q in:\n%s", want, got)
		}
	}
	if a, b := strings.Count(got, "subgraph "), strings.Count(got, "\tend\n"); a != b {
		t.Errorf("got %d subgraphs and %d ends", a, b)
	}
}

func TestMermaidEscapesKeywords(t *testing.T) {
	for id, want := range map[string]string{
		"end": `\65nd`, "graph-x": `\67raph-x`, "a--b": `a-\2db`, "ending": "ending", "größe": `gr\f6\dfe`,
	} {
		if got := safeID(id); got != want {
			t.Errorf("safeID(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestJSONMatchesLangGraph(t *testing.T) {
	s := shape("", "__start__ -> a\na .> __end__ : done")
	s.at("a").Metadata = map[string]any{"defer": true}
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"nodes":[{"id":"__start__"},` +
		`{"id":"a","type":"runnable","data":{"id":["treadle","Node"],"name":"a"},"metadata":{"defer":true}},` +
		`{"id":"__end__"}],` +
		`"edges":[{"source":"__start__","target":"a"},{"source":"a","target":"__end__","data":"done","conditional":true}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := json.Marshal(Shape{}); err != nil || string(got) != `{"nodes":[],"edges":[]}` {
		t.Errorf("empty shape: %s, %v", got, err)
	}
}

func TestDiagramsAreDeterministic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		s := random(r, 12, 20)
		s.Nodes[0].Metadata = map[string]any{"a": 1, "b": map[string]int{"x": 1, "y": 2}, "c": &struct{ N int }{3}}
		all := func() string { return s.Mermaid() + s.DOT() + s.Text() + s.SVG() }
		first := all()
		for range 3 {
			if diff := cmp.Diff(first, all()); diff != "" {
				t.Fatalf("diagrams differ:\n%s", diff)
			}
		}
	}
}

// svgPaths parses an SVG and returns "from -> to" of each of its edges.
func svgPaths(t *testing.T, svg string) map[string]int {
	t.Helper()
	got := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		el, ok := tok.(xml.StartElement)
		if !ok || el.Name.Local != "path" {
			continue
		}
		attr := map[string]string{}
		for _, a := range el.Attr {
			attr[a.Name.Local] = a.Value
		}
		if strings.HasPrefix(attr["class"], "edge") {
			got[fmt.Sprintf("%s -> %s %v", attr["data-from"], attr["data-to"], strings.Contains(attr["class"], "conditional"))]++
			if !strings.HasPrefix(attr["d"], "M") {
				t.Errorf("edge without a path: %v", attr)
			}
		}
	}
}

func TestSVGHasOnePathPerEdge(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	shapes := gallery()
	for range 100 {
		shapes = append(shapes, random(r, 1+r.IntN(20), r.IntN(40)))
	}
	for _, s := range shapes {
		want := map[string]int{}
		for _, e := range s.Edges {
			want[fmt.Sprintf("%s -> %s %v", e.From, e.To, e.Conditional)]++
		}
		if diff := cmp.Diff(want, svgPaths(t, s.SVG())); diff != "" {
			t.Errorf("%s (-edges +paths):\n%s", s.Name, diff)
		}
	}
}

func TestBrokenShapesAreDrawn(t *testing.T) {
	self := Shape{Nodes: []Node{{ID: "__start__"}, {ID: "me"}, {ID: "__end__"}}}
	self.Nodes[1].Graph = &self
	self.Edges = []Edge{{From: "__start__", To: "me"}, {From: "me", To: "__end__"}}
	for _, s := range []Shape{
		{},
		{Edges: []Edge{{From: "a", To: "b"}, {}}},
		{Nodes: []Node{{}, {}, {ID: "a"}, {ID: "a"}}},
		{Nodes: []Node{{ID: ":"}, {ID: "::"}, {ID: "a:"}, {ID: ":a"}}, Edges: []Edge{{From: ":", To: "a:"}, {From: "a:", To: ":a"}}},
		{Nodes: []Node{{ID: "a"}, {ID: "a:b"}}, Edges: []Edge{{From: "a", To: "a:b"}, {From: "a:b", To: "a"}}},
		{Nodes: []Node{{ID: strings.Repeat("x:", 500) + "y"}}},
		{Nodes: []Node{{ID: "\xff\x00\u0301\u202e"}}, Edges: []Edge{{From: "\xff\x00\u0301\u202e", To: "\xff", Label: "\x00\xfe \n"}}},
		{Nodes: []Node{{ID: "a", Metadata: map[string]any{"f": func() {}, "c": make(chan int)}}}},
		self,
	} {
		for _, s := range []Shape{s, s.Expand(-1), s.Expand(1)} {
			_ = s.Mermaid()
			_ = s.MermaidPlain()
			_ = s.DOT()
			_ = s.ASCII()
			if text := s.Text(); strings.ContainsRune(text, 0) {
				t.Errorf("control characters in %q", text)
			}
			svgPaths(t, s.SVG())
		}
	}
}

func TestTextListsEdgesOfLargeShapes(t *testing.T) {
	s := shape("fan", fan("a", "b", 900)+"a .> b : at once\nloose")
	lines := strings.Split(s.Text(), "\n")
	if n := len(lines); n != 1803 || lines[0] != "loose" || lines[1] != "a ──▶ w0" || lines[1801] != "a ╌╌▶ b  at once" {
		t.Errorf("got %d lines, the first %q", n, lines[:2])
	}
}

func chain(n int) Shape {
	s := Shape{Name: "chain"}
	for i := range n {
		s.Nodes = append(s.Nodes, Node{ID: fmt.Sprint("n", i)})
		if i > 0 {
			s.Edges = append(s.Edges, Edge{From: fmt.Sprint("n", i-1), To: fmt.Sprint("n", i)})
		}
	}
	s.Edges = append(s.Edges, Edge{From: fmt.Sprint("n", n-1), To: "n0"})
	return s
}

func TestLargeShapesAreDrawnQuickly(t *testing.T) {
	// A busy machine with the race detector takes ten times as long as an idle
	// one. Quadratic or slower code still exceeds the limit.
	const limit = time.Minute
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		name string
		draw func()
	}{
		{"10,000 nodes as Mermaid and DOT", func() { s := chain(10_000); _, _ = s.Mermaid(), s.DOT() }},
		{"10,000 nodes expanded", func() { chain(10_000).Expand(-1) }},
		{"10,000 nodes as text", func() { chain(10_000).Text() }},
		{"500 random nodes", func() { s := random(r, 500, 700); _, _ = s.Text(), s.SVG() }},
		{"500 parallel nodes", func() { s := shape("fan", fan("a", "b", 500)); _, _ = s.Text(), s.SVG() }},
	} {
		begin := time.Now()
		c.draw()
		if took := time.Since(begin); took > limit {
			t.Errorf("%s took %v", c.name, took)
		} else {
			t.Logf("%s took %v", c.name, took)
		}
	}
}
