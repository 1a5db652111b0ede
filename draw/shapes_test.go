package draw

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// shape builds a Shape from lines such as "a -> b" (plain), "a .> b : label"
// (conditional), and "a" (an unconnected node). Nodes are in order of mention,
// with the end last.
func shape(name, text string) Shape {
	s := Shape{Name: name}
	seen := map[string]bool{}
	node := func(id string) string {
		id = strings.TrimSpace(id)
		if !seen[id] && id != end {
			s.Nodes = append(s.Nodes, Node{ID: id, Name: id})
		}
		seen[id] = true
		return id
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		for _, arrow := range []string{" -> ", " .> "} {
			from, rest, ok := strings.Cut(line, arrow)
			if !ok {
				continue
			}
			to, label, _ := strings.Cut(rest, " : ")
			s.Edges = append(s.Edges, Edge{node(from), node(to), strings.TrimSpace(label), arrow == " .> "})
			line = ""
		}
		if line != "" {
			node(line)
		}
	}
	if seen[end] {
		s.Nodes = append(s.Nodes, Node{ID: end, Name: end})
	}
	return s
}

// at returns the node with the given ID, for the caller to modify.
func (s Shape) at(id string) *Node {
	for i := range s.Nodes {
		if s.Nodes[i].ID == id {
			return &s.Nodes[i]
		}
	}
	panic("missing node " + id)
}

func nested() Shape {
	fetch := shape("fetch", "__start__ -> get\nget .> parse : ok\nget .> get : again\nparse -> __end__")
	work := shape("work", "__start__ -> fetch\nfetch -> sum\nsum .> fetch : more\nsum .> __end__ : enough")
	work.at("fetch").Graph = &fetch
	s := shape("nested", "__start__ -> plan\nplan -> work\nplan .> ask\nask -> work\nwork -> report\nreport .> plan : redo\nreport .> __end__")
	s.at("work").Graph = &work
	return s
}

// gallery returns the shapes of the golden files.
func gallery() []Shape {
	meta := shape("metadata", "__start__ -> a\na -> b\nb -> __end__")
	meta.at("a").Metadata = map[string]any{"defer": true, "__interrupt": "before,after"}
	meta.at("b").Metadata = map[string]any{"retries": 3, "cached": false, "owner": nil, "tags": []string{"x", "y"}}
	names := Shape{Name: `"odd" <names>`, Nodes: []Node{
		{ID: "__start__"}, {ID: "with space"}, {ID: `say "hi"`}, {ID: "<b>&amp;"}, {ID: "größe"},
		{ID: "検索 エンジン"}, {ID: "back\\slash"}, {ID: "(round) [square] {curly} | ;"}, {ID: "*star*"}, {ID: "two\nlines"}, {ID: "a:b"}, {ID: "end"},
	}, Edges: []Edge{
		{From: "__start__", To: "with space"}, {From: "with space", To: `say "hi"`, Label: `if "x" < y & -- z .-> q`, Conditional: true},
		{From: "with space", To: "<b>&amp;", Label: "größer; 検索", Conditional: true}, {From: `say "hi"`, To: "größe"},
		{From: "<b>&amp;", To: "検索 エンジン"}, {From: "検索 エンジン", To: "back\\slash"}, {From: "größe", To: "back\\slash"},
		{From: "back\\slash", To: "(round) [square] {curly} | ;"}, {From: "back\\slash", To: "*star*"}, {From: "*star*", To: "two\nlines"},
		{From: "two\nlines", To: "a:b"}, {From: "a:b", To: "end"},
	}}
	return []Shape{
		shape("chain", "__start__ -> fetch\nfetch -> summarise\nsummarise -> __end__"),
		shape("diamond", "__start__ -> plan\nplan -> left\nplan -> right\nleft -> merge\nright -> merge\nmerge -> __end__"),
		shape("branch", "__start__ -> classify\nclassify .> billing : is about money\nclassify .> human : angry\nclassify .> search : anything else that a customer may possibly want to know\nbilling -> __end__\nhuman -> __end__\nsearch -> __end__"),
		shape("selfloop", "__start__ -> think\nthink .> think : again\nthink .> __end__ : done"),
		shape("loop", "__start__ -> agent\nagent .> tools\ntools -> agent\nagent .> __end__"),
		shape("longloop", "__start__ -> draft\ndraft -> review\nreview .> revise\nrevise -> polish\npolish -> draft\nreview .> publish : approved\npublish -> __end__"),
		shape("fanout", "__start__ -> split\n"+fan("split", "join", 7)+"join -> __end__"),
		shape("skip", "__start__ -> a\na -> b\nb -> c\nc -> d\na -> c\na -> d\nb -> d\nd -> __end__"),
		shape("loose", "__start__ -> a\na -> __end__\non_error\nspare"),
		shape("single", "only"),
		shape("pair", "a -> b\na -> b\nb -> a\na -> a\na .> a : once more"),
		shape("supervisor", "__start__ -> supervisor\nsupervisor .> coder\nsupervisor .> researcher\nsupervisor .> writer\nsupervisor .> __end__ : finish\ncoder -> supervisor\nresearcher -> supervisor\nwriter -> supervisor"),
		shape("wide", "__start__ -> a_node_with_a_name_that_goes_on_and_on_for_quite_a_while\na_node_with_a_name_that_goes_on_and_on_for_quite_a_while -> b\nb -> __end__"),
		meta,
		names,
		{Name: "empty"},
		nested(),
		named(nested().Expand(1), "nested1"),
		named(nested().Expand(2), "nested2"),
	}
}

func named(s Shape, name string) Shape {
	s.Name = name
	return s
}

func fan(from, to string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s -> w%d\nw%d -> %s\n", from, i, i, to)
	}
	return b.String()
}

// random returns a graph of n nodes, some of them in frames.
func random(r *rand.Rand, n, edges int) Shape {
	s := Shape{Name: "random"}
	frames := []string{"", "", "", "f:", "g:", "f:h:"}
	for i := range n {
		s.Nodes = append(s.Nodes, Node{ID: fmt.Sprintf("%sn%d", frames[r.IntN(len(frames))], i)})
	}
	labels := []string{"", "", "", "yes", "no way at all"}
	for range edges {
		s.Edges = append(s.Edges, Edge{
			From: s.Nodes[r.IntN(n)].ID, To: s.Nodes[r.IntN(n)].ID,
			Label: labels[r.IntN(len(labels))], Conditional: r.IntN(3) == 0,
		})
	}
	return s
}
