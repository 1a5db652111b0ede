package treadle_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/draw"
	"github.com/treadle-go/treadle/reduce"
)

// golden compares got with a file under testdata, or writes the file if the
// tests run with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if *updating {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
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
		t.Errorf("%s (-want +got, -update accepts it):\n%s", file, diff)
	}
}

// nowhere returns a router that is never called.
func nowhere(context.Context, diary) (treadle.Goto, error) { return treadle.To(treadle.End), nil }

// drawn builds a graph of named nodes for a drawing.
func drawn(name string, nodes ...string) *treadle.Builder[diary] {
	b := treadle.New[diary](name)
	for _, n := range nodes {
		treadle.AddNode(b, n, does(n))
	}
	return b
}

// edgesOf returns the lines of the plain diagram without the first.
func edgesOf(s draw.Shape) []string {
	lines := strings.Split(strings.TrimSpace(s.MermaidPlain()), "\n")[1:]
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// The rules of drawings, graph by graph: the edges by hand, the whole text in
// testdata/shape.
//
// Parity: 25, 26, 35, 36, 44, 48, 87, 96.
func TestDrawings(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(t *testing.T) treadle.AnyGraph
		depth int // how many levels are opened
		want  []string
	}{
		{"join", func(t *testing.T) treadle.AnyGraph {
			b := drawn("join", "a", "b", "c")
			b.Edge(treadle.Start, "a")
			b.Edge(treadle.Start, "b")
			b.Join([]any{"a", "b"}, "c")
			b.Edge("c", treadle.End)
			return weave(t, b, nil)
		}, 0, []string{"__start__ --> a;", "__start__ --> b;", "a --> c;", "b --> c;", "c --> __end__;"}},

		{"conditional_entry", func(t *testing.T) treadle.AnyGraph {
			b := drawn("conditional_entry", "left", "right")
			treadle.AddBranch(b, treadle.Start, nowhere, treadle.Label("left", "go-left"), treadle.Label("right", "go-right"))
			treadle.AddBranch(b, "left", nowhere, treadle.End)
			b.Edge("right", treadle.End)
			return weave(t, b, nil)
		}, 0, []string{
			"__start__ -. &nbsp;go-left&nbsp; .-> left;", "__start__ -. &nbsp;go-right&nbsp; .-> right;",
			"left -.-> __end__;", "right --> __end__;",
		}},

		{"multi_edge", func(t *testing.T) treadle.AnyGraph {
			b := drawn("multi_edge", "up", "side", "other", "down")
			b.Edge(treadle.Start, "up")
			b.Edge("up", "side")
			b.Edge("up", "other")
			b.Join([]any{"up", "side"}, "down")
			b.Edge("down", treadle.End)
			return weave(t, b, nil)
		}, 0, []string{
			"__start__ --> up;", "side --> down;", "up --> down;", "up --> other;", "up --> side;", "down --> __end__;", "other --> __end__;",
		}},

		{"repeat_condition", func(t *testing.T) treadle.AnyGraph {
			b := drawn("repeat_condition", "Researcher", "Chart Generator", "Call Tool")
			b.Edge(treadle.Start, "Researcher")
			treadle.AddBranch(b, "Researcher", nowhere, treadle.Label("Researcher", "redo"), treadle.Label("Chart Generator", "continue"), treadle.Label("Call Tool", "call_tool"), treadle.Label(treadle.End, "end"))
			treadle.AddBranch(b, "Chart Generator", nowhere, treadle.Label("Researcher", "continue"), treadle.Label("Call Tool", "call_tool"), treadle.Label(treadle.End, "end"))
			treadle.AddBranch(b, "Call Tool", nowhere, "Researcher", "Chart Generator")
			return weave(t, b, nil)
		}, 0, []string{
			`Call\20Tool -.-> Chart\20Generator;`,
			`Call\20Tool -.-> Researcher;`,
			`Chart\20Generator -. &nbsp;call_tool&nbsp; .-> Call\20Tool;`,
			`Chart\20Generator -. &nbsp;continue&nbsp; .-> Researcher;`,
			`Chart\20Generator -. &nbsp;end&nbsp; .-> __end__;`,
			`Researcher -. &nbsp;call_tool&nbsp; .-> Call\20Tool;`,
			`Researcher -. &nbsp;continue&nbsp; .-> Chart\20Generator;`,
			`Researcher -. &nbsp;end&nbsp; .-> __end__;`,
			`__start__ --> Researcher;`,
			`Researcher -. &nbsp;redo&nbsp; .-> Researcher;`,
		}},

		{"xray", nestedTools, -1, []string{
			"__start__ -.-> tool_one;", "__start__ -.-> tool_three;", `__start__ -.-> tool_two\3a__start__;`,
			"tool_one --> __end__;", "tool_three --> __end__;", `tool_two\3a__end__ --> __end__;`,
			"subgraph tool_two",
			`tool_two\3a__start__ -.-> tool_two\3atool_two_fast;`, `tool_two\3a__start__ -.-> tool_two\3atool_two_slow;`,
			`tool_two\3atool_two_fast --> tool_two\3a__end__;`, `tool_two\3atool_two_slow --> tool_two\3a__end__;`,
			"end",
		}},

		{"xray_closed", nestedTools, 0, []string{
			"__start__ -.-> tool_one;", "__start__ -.-> tool_three;", "__start__ -.-> tool_two;",
			"tool_one --> __end__;", "tool_three --> __end__;", "tool_two --> __end__;",
		}},

		{"xray_three_levels", family, -1, familyOpen},
		{"xray_two_levels", family, 1, familyHalf},

		{"several_exits", func(t *testing.T) treadle.AnyGraph {
			cb := drawn("child", "one", "two", "three")
			cb.Edge(treadle.Start, "one")
			treadle.AddBranch(cb, "one", nowhere, "two", "three")
			b := drawn("several_exits", "uno", "dos")
			treadle.AddGraph(b, "sub", weave(t, cb, nil))
			b.Edge(treadle.Start, "uno")
			treadle.AddBranch(b, "uno", nowhere, "dos", "sub")
			return weave(t, b, nil)
		}, -1, []string{
			"__start__ --> uno;", "uno -.-> dos;", `uno -.-> sub\3aone;`, "dos --> __end__;", `sub\3a__end__ --> __end__;`,
			"subgraph sub",
			`sub\3aone -.-> sub\3athree;`, `sub\3aone -.-> sub\3atwo;`, `sub\3athree --> sub\3a__end__;`, `sub\3atwo --> sub\3a__end__;`,
			"end",
		}},

		{"destinations", func(t *testing.T) treadle.AnyGraph {
			b := treadle.New[diary]("destinations")
			treadle.AddNode(b, "router", nowhere, treadle.Destinations("b", "c"))
			treadle.AddNode(b, "b", does("b"))
			treadle.AddNode(b, "c", does("c"))
			b.Edge(treadle.Start, "router")
			return weave(t, b, nil)
		}, 0, []string{"__start__ --> router;", "router -.-> b;", "router -.-> c;", "b --> __end__;", "c --> __end__;"}},

		{"destinations_labelled", func(t *testing.T) treadle.AnyGraph {
			b := treadle.New[diary]("destinations_labelled")
			treadle.AddNode(b, "router", nowhere, treadle.Destinations(treadle.Label("b", "foo"), treadle.Label("c", "c"), treadle.Label(treadle.End, "stop")))
			treadle.AddNode(b, "b", does("b"))
			treadle.AddNode(b, "c", does("c"))
			b.Edge(treadle.Start, "router")
			return weave(t, b, nil)
		}, 0, []string{
			"__start__ --> router;", "router -. &nbsp;stop&nbsp; .-> __end__;", "router -. &nbsp;foo&nbsp; .-> b;", "router -.-> c;",
			"b --> __end__;", "c --> __end__;",
		}},

		{"handoffs", func(t *testing.T) treadle.AnyGraph {
			b := treadle.New[diary]("handoffs")
			treadle.AddGraph(b, "child", bubbling(t, "child", nil, "b"))
			treadle.AddNode(b, "b", does("b"))
			b.Edge(treadle.Start, "child")
			return weave(t, b, nil)
		}, 0, []string{"__start__ --> child;", "child -.-> b;", "b --> __end__;"}},

		{"anywhere", func(t *testing.T) treadle.AnyGraph {
			b := treadle.New[diary]("anywhere")
			treadle.AddNode(b, "router", nowhere)
			treadle.AddNode(b, "other", does("other"))
			b.Edge(treadle.Start, "router")
			return weave(t, b, nil)
		}, 0, []string{
			"__start__ --> router;", "router -.-> __end__;", "router -.-> other;", "other --> __end__;", "router -.-> router;",
		}},

		{"loop", func(t *testing.T) treadle.AnyGraph {
			b := drawn("loop", "human", "agent")
			b.Edge(treadle.Start, "human")
			b.Edge("human", "agent")
			b.Edge("agent", "human")
			return weave(t, b, nil)
		}, 0, []string{"__start__ --> human;", "agent --> human;", "human --> agent;"}},

		{"self_loop", func(t *testing.T) treadle.AnyGraph {
			b := drawn("self_loop", "worker")
			b.Edge(treadle.Start, "worker")
			treadle.AddBranch(b, "worker", nowhere, "worker", treadle.End)
			return weave(t, b, nil)
		}, 0, []string{"__start__ --> worker;", "worker -.-> __end__;", "worker -.-> worker;"}},

		{"root_state", func(t *testing.T) treadle.AnyGraph {
			type words = reduce.List[string]
			say := func(context.Context, words) (words, error) { return nil, nil }
			cb := treadle.New[words]("child")
			treadle.AddNode(cb, "c_one", say)
			treadle.AddNode(cb, "c_two", say)
			cb.Edge(treadle.Start, "c_one")
			cb.Edge("c_one", "c_two")
			b := treadle.New[words]("root_state")
			treadle.AddNode(b, "p_one", say)
			treadle.AddGraph(b, "p_two", weave(t, cb, nil))
			b.Edge(treadle.Start, "p_one")
			b.Edge("p_one", "p_two")
			return weave(t, b, nil)
		}, -1, []string{
			"__start__ --> p_one;", `p_one --> p_two\3ac_one;`, `p_two\3ac_two --> __end__;`,
			"subgraph p_two", `p_two\3ac_one --> p_two\3ac_two;`, "end",
		}},

		{"not_only_at_the_end", func(t *testing.T) treadle.AnyGraph {
			// A node that may stop or continue has an edge to the end, and so does the
			// last node.
			b := drawn("not_only_at_the_end", "first", "second")
			b.Edge(treadle.Start, "first")
			treadle.AddBranch(b, "first", nowhere, "second", treadle.End)
			return weave(t, b, nil)
		}, 0, []string{"__start__ --> first;", "first -.-> __end__;", "first -.-> second;", "second --> __end__;"}},

		{"deferred", func(t *testing.T) treadle.AnyGraph {
			b := drawn("deferred", "a", "b")
			treadle.AddNode(b, "last", does("last"), treadle.Defer(), treadle.Metadata(map[string]any{"owner": "team"}))
			b.Edge(treadle.Start, "a")
			b.Edge(treadle.Start, "b")
			b.Edge("a", "last")
			b.Edge("b", "last")
			return weave(t, b, nil)
		}, 0, []string{"__start__ --> a;", "__start__ --> b;", "a --> last;", "b --> last;", "last --> __end__;"}},

		{"plain_beats_dashed", func(t *testing.T) treadle.AnyGraph {
			b := drawn("plain_beats_dashed", "a", "b")
			b.Edge(treadle.Start, "a")
			treadle.AddBranch(b, "a", nowhere, "b")
			b.Edge("a", "b")
			return weave(t, b, nil)
		}, 0, []string{"__start__ --> a;", "a --> b;", "b --> __end__;"}},

		{"called_graph", func(t *testing.T) treadle.AnyGraph {
			child := weave(t, chain("child", "c1", "c2"), nil)
			b := treadle.New[diary]("called_graph")
			treadle.AddNode(b, "calls", does("calls"), treadle.Uses(child))
			b.Edge(treadle.Start, "calls")
			return weave(t, b, nil)
		}, -1, []string{
			`__start__ --> calls\3ac1;`, `calls\3ac2 --> __end__;`, "subgraph calls", `calls\3ac1 --> calls\3ac2;`, "end",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shape := tt.build(t).Shape()
			if tt.depth != 0 {
				shape = shape.Expand(tt.depth)
			}
			same(t, "edges", tt.want, edgesOf(shape))
			golden(t, "shape/"+tt.name+".mmd", shape.Mermaid())
		})
	}
}

// nestedTools has a graph with two ways through it among its nodes.
func nestedTools(t *testing.T) treadle.AnyGraph {
	cb := drawn("tool_two", "tool_two_slow", "tool_two_fast")
	treadle.AddBranch(cb, treadle.Start, nowhere, "tool_two_slow", "tool_two_fast")
	b := drawn("xray", "tool_one")
	treadle.AddGraph(b, "tool_two", weave(t, cb, nil))
	treadle.AddNode(b, "tool_three", does("tool_three"))
	treadle.AddBranch(b, treadle.Start, nowhere, "tool_one", "tool_two", "tool_three")
	return weave(t, b, nil)
}

// family returns three nested graphs, each a loop of two nodes.
func family(t *testing.T) treadle.AnyGraph {
	level := func(prefix string, inner *treadle.Graph[diary, diary]) *treadle.Graph[diary, diary] {
		b := drawn(prefix, prefix+"_one")
		if inner == nil {
			treadle.AddNode(b, prefix+"_two", does("two"))
		} else {
			treadle.AddGraph(b, prefix+"_two", inner)
		}
		b.Edge(treadle.Start, prefix+"_one")
		b.Edge(prefix+"_two", prefix+"_one")
		treadle.AddBranch(b, prefix+"_one", nowhere, treadle.Label(prefix+"_two", "0"), treadle.Label(treadle.End, "1"))
		return weave(t, b, nil)
	}
	return level("gp", level("p", level("c", nil)))
}

var familyOpen = []string{
	"__start__ --> gp_one;",
	"gp_one -. &nbsp;1&nbsp; .-> __end__;",
	`gp_one -. &nbsp;0&nbsp; .-> gp_two\3ap_one;`,
	`gp_two\3a__end__ --> gp_one;`,
	"subgraph gp_two",
	`gp_two\3ap_one -. &nbsp;1&nbsp; .-> gp_two\3a__end__;`,
	`gp_two\3ap_one -. &nbsp;0&nbsp; .-> gp_two\3ap_two\3ac_one;`,
	`gp_two\3ap_two\3a__end__ --> gp_two\3ap_one;`,
	"subgraph p_two",
	`gp_two\3ap_two\3ac_one -. &nbsp;1&nbsp; .-> gp_two\3ap_two\3a__end__;`,
	`gp_two\3ap_two\3ac_one -. &nbsp;0&nbsp; .-> gp_two\3ap_two\3ac_two;`,
	`gp_two\3ap_two\3ac_two --> gp_two\3ap_two\3ac_one;`,
	"end",
	"end",
}

var familyHalf = []string{
	"__start__ --> gp_one;",
	"gp_one -. &nbsp;1&nbsp; .-> __end__;",
	`gp_one -. &nbsp;0&nbsp; .-> gp_two\3ap_one;`,
	`gp_two\3a__end__ --> gp_one;`,
	"subgraph gp_two",
	`gp_two\3ap_one -. &nbsp;1&nbsp; .-> gp_two\3a__end__;`,
	`gp_two\3ap_one -. &nbsp;0&nbsp; .-> gp_two\3ap_two;`,
	`gp_two\3ap_two --> gp_two\3ap_one;`,
	"end",
}

// A diagram as JSON has LangGraph's format: typed nodes and edges with their conditions.
func TestDiagramAsJSON(t *testing.T) {
	b := drawn("json", "a")
	treadle.AddGraph(b, "sub", weave(t, chain("child", "c"), nil), treadle.Metadata(map[string]any{"k": "v"}))
	b.Edge(treadle.Start, "a")
	treadle.AddBranch(b, "a", nowhere, treadle.Label(treadle.End, "false"), treadle.Label("sub", "true"))
	raw, err := json.Marshal(weave(t, b, nil).Shape())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "json", `{"nodes":[{"id":"__start__"},`+
		`{"id":"a","type":"runnable","data":{"id":["treadle","Node"],"name":"a"}},`+
		`{"id":"sub","type":"runnable","data":{"id":["treadle","Graph"],"name":"sub"},"metadata":{"k":"v"}},`+
		`{"id":"__end__"}],"edges":[{"source":"__start__","target":"a"},`+
		`{"source":"a","target":"__end__","data":"false","conditional":true},`+
		`{"source":"a","target":"sub","data":"true","conditional":true},`+
		`{"source":"sub","target":"__end__"}]}`, string(raw))
}

// The same graph gives the same drawing.
func TestDrawingIsStable(t *testing.T) {
	first := family(t).Shape().Expand(-1).Mermaid()
	for range 20 {
		same(t, "drawing", first, family(t).Shape().Expand(-1).Mermaid())
	}
}

// A drawing marks the graph's breakpoints as LangGraph's do.
func TestDrawingsShowBreakpoints(t *testing.T) {
	b := drawn("stops", "a", "b", "c")
	treadle.AddNode(b, "d", does("d"), treadle.Metadata(map[string]any{"k": "v"}))
	b.Sequence(treadle.Start, "a", "b", "c", "d")
	saver := checkpoint.NewMemory()
	shape := weave(t, b, &treadle.Options{Saver: saver, Before: []any{"a", "b"}, After: []any{"b", "d"}}).Shape()
	for _, want := range []string{
		"\ta(a<hr/><small><em>__interrupt = before</em></small>)\n",
		"\tb(b<hr/><small><em>__interrupt = before,after</em></small>)\n",
		"\tc(c)\n",
		"\td(d<hr/><small><em>k = v\n__interrupt = after</em></small>)\n",
	} {
		if got := shape.Mermaid(); !strings.Contains(got, want) {
			t.Errorf("the drawing lacks %q:\n%s", want, got)
		}
	}
	raw, err := json.Marshal(shape)
	if err != nil || !strings.Contains(string(raw), `"metadata":{"__interrupt":"before"}`) {
		t.Errorf("got %s, %v", raw, err)
	}
	if got := shape.ASCII(); !strings.Contains(got, "__interrupt = before,after") {
		t.Errorf("the drawing has no breakpoint:\n%s", got)
	}
	all := weave(t, b, &treadle.Options{Saver: saver, Before: []any{"*"}}).Shape()
	if got := strings.Count(all.Mermaid(), "__interrupt = before"); got != 4 {
		t.Errorf("%d breakpoints, want one at every node:\n%s", got, all.Mermaid())
	}
}
