package parity_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/draw"
)

// notPorted are the recordings without a counterpart here, and why.
var notPorted = map[string]string{
	"a04_message_forms": "how messages are read from JSON is a matter of package llm",
	"topic":             "a channel that collects the writes of one step: a List and an ephemeral field cover its uses",
}

// A difference is a way in which we differ from the recordings on purpose.
type difference struct {
	id       string
	places   []string // where: graph/part, with * as in file names
	upstream string
	ours     string
	why      string

	// How the comparison allows for it: what was recorded is changed into what
	// we do, or both sides lose what cannot agree.
	want func(p place, want any) any
	both func(v any) any
}

func (d *difference) concerns(p place) bool {
	return slices.ContainsFunc(d.places, func(pattern string) bool { return matches(pattern, p) })
}

// differences are all of them. A new one needs a reason that would convince a
// user of the Python library.
var differences []difference

// The table is filled here, because the adaptions look into it.
func init() { //nolint:gochecknoinits // as a literal the table would refer to itself
	differences = []difference{
		{
			id: "drawn", places: append(placesOf(drawn), mermaidOf(placesOf(drawn))...),
			upstream: "A diagram shows what a trial run finds: not where an undeclared branch or Command leads, nor a handoff to the parent; a deferred node follows whatever ran last; error handlers are separate nodes.",
			ours:     "A diagram shows what is declared: control without declared destinations may go anywhere and is drawn accordingly, a handoff is an edge, and a deferred node has only its own edges.",
			why:      "A diagram that omits what may happen misleads; declared destinations make it small. Labels of bools are Go's.",
			want:     asDrawn,
			both:     sortedLines,
		}, {
			id: "opened", places: []string{"*/graph_json_xray*"},
			upstream: "With xray, the nodes of an opened subgraph come last in the JSON and are named by their full ID.",
			ours:     "They replace the opened node, under their own names.",
			why:      "The order of the list is the order of the diagram; the ID is next to the name.",
			both:     withoutOrder,
		}, {
			id: "mermaid", places: []string{"a13_subgraph_node/mermaid*", "messages_tags/mermaid", "parent_unknown_key/mermaid*", "sub_parallel/mermaid*",
				"sub_custom/mermaid_xray1", "sub_in_loop/mermaid_xray1", "sub_two_levels/mermaid_xray2"},
			upstream: "A node called `end`, `call`, or `subgraph` breaks the Mermaid text; frames of subgraphs two levels down and loops of opened nodes are missing, and two nodes with the same name get a frame.",
			ours:     "Mermaid's keywords are escaped, and exactly the opened subgraphs have frames.",
			why:      "Otherwise the diagram would not render, or not show the graph.",
			want:     redrawn,
			both:     sortedLines,
		}, {
			id: "unreachable", places: []string{"unreachable_node/compile", "join_never_complete/compile", "goto/graph_json", "goto/mermaid",
				"parent_two_levels/graph_json", "parent_two_levels/mermaid"},
			upstream: "An unreachable node is allowed.",
			ours:     "Compile rejects it.",
			why:      "It is a misspelled name or a forgotten edge.",
			want: func(p place, want any) any {
				if p.part == "compile" {
					return "rejected"
				}
				return withoutIslands(p, want)
			},
			both: sortedLines,
		}, {
			id: "unknown key", places: []string{"returns_empty/invoke", "returns_empty/stream*", "chain/input without known keys"},
			upstream: "A key that the state lacks is dropped, in updates and in the input.",
			ours:     "It is an error: from Compile in a struct, at run time in an Update and in JSON.",
			why:      "A misspelled key would silently lose data.",
			want:     refused,
		}, {
			id: "unknown node", places: []string{"goto_unknown/invoke", "goto_unknown/stream*", "send_to_unknown/invoke", "send_to_unknown/stream*", "cond_no_map/unknown node"},
			upstream: "Control that goes to an unknown node goes nowhere.",
			ours:     "It is an error that lists the nodes.",
			why:      "Otherwise the run would end early and appear to succeed.",
			want:     func(_ place, want any) any { return failed(want, "goto") },
		}, {
			id: "typed", places: []string{"returns_invalid/compile", "struct_state/missing required field", "messages_returned/stream messages+updates"},
			upstream: "The type of a node's result, and whether a struct has all its fields, is checked at run time; a single message may replace a list of one.",
			ours:     "Compile rejects a result that is not an update; a missing field is zero unless Validate rejects it; an update has one type.",
			why:      "Static types.",
			want:     typed,
		}, {
			id: "absent", places: []string{"struct_state/stream tasks", "struct_state/stream*v2", "validated_state/stream values v2", "nothing_written/invoke", "a16_logistic_map/empty context"},
			upstream: "If the state is a class, its defaults appear as if they had been written; an output without values is None; an empty context is no context.",
			ours:     "An unwritten field is absent, an output without fields is `{}`, and an empty context is a context.",
			why:      "Absent is not zero, and empty is not nothing.",
			want:     absent,
		}, {
			id: "everywhere", places: []string{"sub_custom/stream custom", "sub_custom/stream custom v2", "sub_custom/stream custom+updates", "messages_subgraph/stream messages", "all_modes/events"},
			upstream: "Tokens and custom events of subgraphs reach a stream only with subgraphs; what a node writes to the custom stream is not an event of `astream_events`.",
			ours:     "Tokens and custom events reach the stream from everywhere, with their namespace, and `Emit` appears in every stream.",
			why:      "What a node sends to the user should not depend on its depth.",
			want:     fromAnywhere,
		}, {
			id: "nested", places: placesOf(handed),
			upstream: "A subgraph receives the parent's whole state and returns its whole output: inherited lists are appended to themselves, and values that it only read count as written.",
			ours:     "It receives the fields that both states have and returns only its own updates, in the order of the writes.",
			why:      "Doubled lists are the best-known trap of subgraphs, and two children that only read a value do not conflict.",
			want:     ownUpdates,
		}, {
			id: "step limit", places: []string{"managed_values/default limit"},
			upstream: "A run may take 10007 steps by default.",
			ours:     "25.",
			why:      "25 is the documented default; an endless loop should not run for minutes.",
			want: func(_ place, want any) any {
				return rewrite(want, func(v any) any {
					if s, ok := v.(string); ok {
						return strings.NewReplacer("left=10006", "left=24", "left=10005", "left=23", "left=10004", "left=22").Replace(s)
					}
					return v
				})
			},
		}, {
			id: "overwrite", places: []string{"overwrite_last_value/invoke", "overwrite_last_value/stream updates"},
			upstream: "An Overwrite of a plain value is saved as the wrapper.",
			ours:     "Its value is saved.",
			why:      "The state should not contain wrappers.",
			want:     func(_ place, want any) any { return swap([]string{`{"__overwrite__":5}`, `5`}, want) },
		}, {
			id: "task result", places: []string{"branch_fails/stream tasks", "command_last_value_twice/stream*"},
			upstream: "A task's result is reported after its branches have run and, if it is alone in its step, its writes were applied: it carries the branch's error, or is not reported.",
			ours:     "It is reported when the node returns; a failing branch or a conflict is the run's error.",
			why:      "The same applies alone and in parallel, and the node did succeed.",
			want:     resultAtOnce,
		}, {
			id: "attempts", places: []string{"retry_success/stream*", "retry_exhausted/stream*"},
			upstream: "The attempts of a task are not reported.",
			ours:     "A retried task reports `attempts` and `retries`.",
			why:      "They show why a run takes long; other tasks lack these keys.",
			both: func(v any) any {
				return rewrite(v, func(v any) any {
					if m, ok := v.(map[string]any); ok && m["retries"] != nil {
						delete(m, "attempts")
						delete(m, "retries")
					}
					return v
				})
			},
		}, {
			id: "names", places: []string{"*/*"},
			upstream: "Diagrams, metadata, and errors name Python classes, LangSmith's `ls_*` keys, library versions, and `seq:step` tags; a default error handler is `__default_error_handler__`.",
			ours:     "They name Go types; errors report where they occurred; a default error handler is `__error_handler__<node>`, like any other.",
			why:      "These names belong to another language's implementation; the kinds and texts of errors agree.",
			both:     func(v any) any { return rewrite(v, withoutNames) },
		},
	}
}

// maxDifferences keeps the table a list of decisions, not of excuses.
const maxDifferences = 15

func TestDifferencesAreFew(t *testing.T) {
	if n := len(differences); n > maxDifferences {
		t.Errorf("%d differences, want at most %d", n, maxDifferences)
	}
}

var update = flag.Bool("update", false, "write differences.md")

// TestDifferencesAreDocumented: differences.md is the table.
func TestDifferencesAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| # | where | upstream | Treadle | why |\n|---|---|---|---|---|\n")
	for i, d := range differences {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", i+1, where(d.places), d.upstream, d.ours, d.why)
	}
	if *update {
		if err := os.WriteFile("differences.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("differences.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Error("differences.md is stale: run go test ./parity -run TestDifferencesAreDocumented -update")
	}
}

// where names the graphs of places, each once, and the first few of many.
func where(places []string) string {
	var names []string
	for _, p := range places {
		name, part, _ := strings.Cut(p, "/")
		if name == "*" {
			name = "all"
			if part != "*" {
				name = "all, " + part
			}
		}
		name = "`" + name + "`"
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if few := 6; len(names) > few+1 {
		names = append(names[:few:few], fmt.Sprintf("and %d more", len(names)-few))
	}
	return strings.Join(names, " ")
}

func placesOf[V any](table map[string]V) []string {
	var places []string
	for p := range table {
		places = append(places, p)
	}
	slices.Sort(places)
	return places
}

// ownText stands for an error text of the engine.
const ownText = "<text>"

// withoutNames drops what names Python's or Go's parts.
func withoutNames(v any) any {
	switch v := v.(type) {
	case []any:
		return slices.DeleteFunc(v, func(e any) bool { return e == "seq:step:1" })
	case map[string]any:
		for k := range v {
			if strings.HasPrefix(k, "ls_") || k == "lc_versions" {
				delete(v, k)
			}
		}
		if update, ok := v["__default_error_handler__"]; ok {
			return map[string]any{"__error_handler__bad": update}
		}
		if data, ok := v["data"].(map[string]any); ok && v["type"] == "runnable" {
			delete(data, "id")
		}
		if v["id"] == start || v["id"] == end {
			delete(v, "type")
			delete(v, "data")
		}
		if text, ok := v["message"].(string); ok && len(v) == 2 && v["type"] != nil {
			// The type is dropped; the text without what we add to it.
			if strings.HasPrefix(text, "graph ") {
				text = ownText
			}
			return map[string]any{"message": regexp.MustCompile(`^error handler: (.*) \(handling: .*\)$`).ReplaceAllString(text, "$1")}
		}
	}
	return v
}

// drawn says how our drawing differs from the recorded one, in steps: x?y adds
// an edge that may be taken (x?y=label with a label, x?* one to every node and
// the end), x>y one that always is, -x>y removes either, !x removes a node and
// +x adds one. ^ is the start, $ the end.
var drawn = map[string]string{
	"a08_conditional/graph_json":              "node_a?*",
	"a08_conditional_entry/graph_json":        "^?*",
	"a08_conditional_entry_map/graph_json":    "-^>node_b ^?node_b=true -^>node_c ^?node_c=false",
	"a08_conditional_map/graph_json":          "-node_a>node_b node_a?node_b=true -node_a>node_c node_a?node_c=false",
	"a09_send_jokes/graph_json":               "node_a?*",
	"a18_parent_handoff/graph_json":           "alice?bob",
	"a18_parent_handoff/graph_json_xray1":     "alice:some_node?bob",
	"command_empty/graph_json":                "a?*",
	"command_last_value_twice/graph_json":     "a?*",
	"command_list_root/graph_json":            "a?*",
	"command_pairs/graph_json":                "a?*",
	"command_struct/graph_json":               "a?*",
	"concurrent_sends/graph_json":             "1?* 1.1?* 2?*",
	"cond_edge_after_send/graph_json":         "1?* 2?*",
	"cond_mixed/graph_json":                   "a?*",
	"cond_no_map/graph_json":                  "a?*",
	"defer_loop/graph_json":                   "-b>d",
	"defer_two/graph_json":                    "-a>d1 -a>d2",
	"defer_with_join/graph_json":              "-x3>d",
	"error_handler/graph_json":                "!__error_handler__bad",
	"error_handler_after_retry/graph_json":    "!__error_handler__flaky",
	"error_handler_default/graph_json":        "!__default_error_handler__",
	"error_handler_fails/graph_json":          "!__error_handler__bad",
	"error_handler_goto/graph_json":           "!__error_handler__bad bad?*",
	"error_handler_sibling/graph_json":        "!__error_handler__bad",
	"error_handler_subgraph/graph_json":       "!__error_handler__sub",
	"error_handler_subgraph/graph_json_xray1": "!__error_handler__sub",
	"goto_end_with_edge/graph_json":           "a?*",
	"goto_same_as_edge/graph_json":            "-a>b a>b",
	"goto_unknown/graph_json":                 "a?*",
	"limit_loop/graph_json":                   "-b>$",
	"messages_command/graph_json":             "-b>$ b?$",
	"parent_at_root/graph_json":               "a?*",
	"parent_from_call/graph_json":             "target>$",
	"parent_from_call/graph_json_xray1":       "target>$",
	"parent_list/graph_json":                  "sub?target",
	"parent_list/graph_json_xray1":            "sub:c?target",
	"parent_one_level/graph_json":             "sub?target",
	"parent_one_level/graph_json_xray1":       "sub:c3?target",
	"parent_relay/graph_json":                 "middle?top_target",
	"parent_relay/graph_json_xray1":           "!middle +middle:inner +middle:relay ^>middle:inner middle:inner?middle:relay middle:relay?top_target",
	"parent_relay/graph_json_xray2":           "!middle +middle:inner:leaf +middle:relay ^>middle:inner:leaf middle:inner:leaf?middle:relay middle:relay?top_target",
	"parent_sends/graph_json":                 "sub?w sub?z",
	"parent_sends/graph_json_xray1":           "sub:c?w sub:c?z",
	"parent_two_levels/graph_json_xray1":      "!top_target !middle +middle:inner +middle:mid_target ^>middle:inner middle:inner?middle:mid_target",
	"parent_two_levels/graph_json_xray2":      "!top_target !middle +middle:inner:leaf +middle:mid_target ^>middle:inner:leaf middle:inner:leaf?middle:mid_target",
	"planner_loop/graph_json":                 "planner?* one>planner two>planner three>planner four>planner",
	"send_and_edge/graph_json":                "-a>w a>w",
	"send_cascade/graph_json":                 "mid?*",
	"send_from_node/graph_json":               "a?*",
	"send_sequences/graph_json":               "1?* 1.1?* 2?*",
	"send_to_end/graph_json":                  "a?*",
	"send_to_unknown/graph_json":              "a?*",
	"worked_trace/graph_json":                 "j?*",
}

// asDrawn takes the steps of drawn.
func asDrawn(p place, want any) any {
	if strings.HasPrefix(p.part, "mermaid") {
		return redrawn(p, want)
	}
	nodes, edges := graphOfJSON(want)
	for step := range strings.FieldsSeq(drawn[p.String()]) {
		full := strings.NewReplacer("^", start, "$", end).Replace(step)
		op := strings.IndexAny(full, "?>")
		switch full[0] {
		case '!':
			nodes = slices.DeleteFunc(nodes, func(n draw.Node) bool { return n.ID == full[1:] })
			edges = slices.DeleteFunc(edges, func(e draw.Edge) bool { return e.From == full[1:] || e.To == full[1:] })
		case '+':
			nodes = append(nodes, draw.Node{ID: full[1:]})
		case '-':
			edges = slices.DeleteFunc(edges, func(e draw.Edge) bool { return e.From == full[1:op] && e.To == full[op+1:] })
		default:
			from := full[:op]
			to, label, _ := strings.Cut(full[op+1:], "=")
			targets := []string{to}
			if to == "*" {
				targets = []string{end}
				for _, n := range nodes {
					if n.ID != start && n.ID != end {
						targets = append(targets, n.ID)
					}
				}
			}
			if slices.ContainsFunc(targets, func(t string) bool { return t != end }) {
				// It was drawn to the end because nothing else was known.
				edges = slices.DeleteFunc(edges, func(e draw.Edge) bool { return e.From == from && e.To == end })
			}
			for _, t := range targets {
				if !slices.ContainsFunc(edges, func(e draw.Edge) bool { return e.From == from && e.To == t }) {
					edges = append(edges, draw.Edge{From: from, To: t, Label: label, Conditional: full[op] == '?'})
				}
			}
		}
	}
	for _, n := range nodes {
		if n.ID != end && !slices.ContainsFunc(edges, func(e draw.Edge) bool { return e.From == n.ID }) {
			edges = append(edges, draw.Edge{From: n.ID, To: end})
		}
	}
	reached := slices.ContainsFunc(edges, func(e draw.Edge) bool { return e.To == end })
	nodes = slices.DeleteFunc(nodes, func(n draw.Node) bool { return n.ID == end })
	if reached {
		nodes = append(nodes, draw.Node{ID: end})
	}
	rank := func(e draw.Edge) int {
		if e.To == end && !e.Conditional && e.From != start {
			return 1 // what surely ends comes last
		}
		return 0
	}
	slices.SortStableFunc(edges, func(a, b draw.Edge) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return jsonOfGraph(nodes, edges)
}

// graphOfJSON reads a drawing in JSON.
func graphOfJSON(v any) ([]draw.Node, []draw.Edge) {
	var g struct {
		Nodes []struct {
			ID       string
			Metadata map[string]any
		}
		Edges []draw.Edge
	}
	if err := json.Unmarshal([]byte(canonical(v)), &g); err != nil {
		panic(err)
	}
	var nodes []draw.Node
	for _, n := range g.Nodes {
		nodes = append(nodes, draw.Node{ID: n.ID, Metadata: n.Metadata})
	}
	return nodes, g.Edges
}

func jsonOfGraph(nodes []draw.Node, edges []draw.Edge) any {
	raw, err := json.Marshal(draw.Shape{Nodes: nodes, Edges: edges})
	if err != nil {
		panic(err)
	}
	v, err := decode(raw)
	if err != nil {
		panic(err)
	}
	return rewrite(v, withoutNames)
}

// mermaidOf turns places of drawings in JSON into those of Mermaid texts.
func mermaidOf(places []string) []string {
	out := make([]string, len(places))
	for i, p := range places {
		out[i] = strings.Replace(p, "/graph_json", "/mermaid", 1)
	}
	return out
}

// redrawn draws the recorded graph, after applying the differences, as Mermaid text.
func redrawn(p place, _ any) any {
	at := place{p.graph, strings.Replace(p.part, "mermaid", "graph_json", 1)}
	var ds []*difference
	for _, d := range concerning(at) {
		if d.id == "names" || d.id == "drawn" || d.id == "unreachable" {
			ds = append(ds, d)
		}
	}
	v, _ := adapted(at, ds, recordings[p.graph].drawings[at.part], nil, nil)
	nodes, edges := graphOfJSON(v)
	return draw.Shape{Nodes: nodes, Edges: edges}.Mermaid()
}

// sortedLines lets the lines of a text come in any order.
func sortedLines(v any) any {
	if text, ok := v.(string); ok {
		lines := strings.Split(text, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	return v
}

// withoutOrder sorts a drawing in JSON and drops the names of nodes.
func withoutOrder(v any) any {
	nodes, edges := graphOfJSON(v)
	slices.SortFunc(nodes, func(a, b draw.Node) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(edges, func(a, b draw.Edge) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return jsonOfGraph(nodes, edges)
}

// withoutIslands drops nodes that no edge touches.
func withoutIslands(p place, v any) any {
	if strings.HasPrefix(p.part, "mermaid") {
		return redrawn(p, v)
	}
	nodes, edges := graphOfJSON(v)
	nodes = slices.DeleteFunc(nodes, func(n draw.Node) bool {
		return !slices.ContainsFunc(edges, func(e draw.Edge) bool { return e.From == n.ID || e.To == n.ID })
	})
	return jsonOfGraph(nodes, edges)
}

// failed returns a trace whose call ends with an error instead of an output.
func failed(want any, kind string) any {
	m := want.(map[string]any)
	m["error"] = kind
	delete(m, "output")
	return m
}

// refused returns a trace of returns_empty that ends when its node b returns, or of
// a rejected input.
func refused(p place, want any) any {
	m := failed(want, "update").(map[string]any)
	chunks, _ := m["chunks"].([]any)
	switch p.part {
	case "stream updates", "stream values":
		m["chunks"] = chunks[:1]
	case "stream tasks":
		m["chunks"] = chunks[:4]
		chunks[3].(map[string]any)["error"] = map[string]any{"message": ownText}
	}
	return m
}

func typed(p place, want any) any {
	m, _ := want.(map[string]any)
	switch p.graph {
	case "returns_invalid":
		return "rejected"
	case "struct_state":
		m["error"], m["output"] = nil, map[string]any{"name": "!", "count": 0.0, "log": []any{""}}
	default:
		update := m["chunks"].([]any)[1].([]any)[1].(map[string]any)["first"].(map[string]any)
		update["messages"] = []any{update["messages"]}
	}
	return m
}

func absent(p place, want any) any {
	switch p.graph {
	case "nothing_written":
		want.(map[string]any)["output"] = map[string]any{}
		return want
	case "a16_logistic_map":
		return map[string]any{"error": nil, "output": map[string]any{"x": []any{0.5, 0.25}}}
	}
	// Until a node has written it, count only shows because it has a default.
	return rewrite(want, func(v any) any {
		if m, ok := v.(map[string]any); ok && m["count"] == 0.0 && m["name"] == "n" {
			delete(m, "count")
		}
		return v
	})
}

// fromAnywhere returns the recording with subgraphs, without the namespace where the
// framing has none, and without the updates of subgraphs.
func fromAnywhere(p place, want any) any {
	if p.graph == "all_modes" {
		return withCustomEvents(want)
	}
	with := map[string]string{
		"stream custom":         "stream custom subgraphs",
		"stream custom v2":      "stream custom subgraphs v2",
		"stream custom+updates": "stream custom+updates subgraphs",
		"stream messages":       "stream messages subgraphs",
	}[p.part]
	recorded := recordedRun(place{p.graph, with}).trace().(map[string]any)
	var chunks []any
	for _, c := range recorded["chunks"].([]any) {
		framed, ok := c.([]any)
		switch {
		case !ok: // version 2 always has the namespace
			chunks = append(chunks, c)
		case len(framed) == 2:
			chunks = append(chunks, framed[1])
		case len(framed[0].([]any)) == 0 || framed[1] == "custom":
			chunks = append(chunks, framed[1:])
		}
	}
	recorded["chunks"] = chunks
	return recorded
}

// withCustomEvents adds the events of what the nodes of all_modes emit.
func withCustomEvents(want any) any {
	m := want.(map[string]any)
	var out []any
	emit := func(like any, data any) {
		ev := like.(map[string]any)
		out = append(out, map[string]any{"event": "on_custom_event", "name": ev["name"], "tags": ev["tags"], "metadata": ev["metadata"], "data": data})
	}
	for _, c := range m["chunks"].([]any) {
		ev := c.(map[string]any)
		if ev["name"] == "tell" && ev["event"] == "on_chain_stream" {
			emit(ev, map[string]any{"told": true})
		}
		out = append(out, c)
		if ev["name"] == "refine" && ev["event"] == "on_chain_start" {
			emit(ev, "refining")
		}
	}
	m["chunks"] = out
	return m
}

// resultAtOnce puts in what we tell of a task before its step fails.
func resultAtOnce(p place, want any) any {
	m := want.(map[string]any)
	chunks := m["chunks"].([]any)
	switch {
	case p.graph == "branch_fails":
		chunks[1].(map[string]any)["error"] = nil
	case p.part == "stream updates":
		chunks = append(chunks, map[string]any{"a": []any{map[string]any{"v": "one"}, map[string]any{"v": "two"}}})
	default:
		chunks = append(chunks, map[string]any{"id": "<id>", "name": "a", "error": nil, "interrupts": []any{},
			"result": map[string]any{"v": map[string]any{"$writes": []any{"one", "two"}}}})
	}
	m["chunks"] = chunks
	return m
}

// swap replaces parts of a JSON value, given as JSON in pairs of old and new.
func swap(pairs []string, v any) any {
	swaps := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		swaps[canonical(parsed(pairs[i]))] = parsed(pairs[i+1])
	}
	var replace func(v any) any
	replace = func(v any) any {
		if now, ok := swaps[canonical(v)]; ok {
			return now
		}
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				v[k] = replace(e)
			}
		case []any:
			for i, e := range v {
				v[i] = replace(e)
			}
		}
		return v
	}
	return replace(v)
}

func parsed(text string) any {
	v, err := decode([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return v
}

func canonical(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%v came from JSON: %v", v, err))
	}
	return string(raw)
}

// handed are the values that graphs inside graphs inherit and hand up, where
// they differ: pairs of what was recorded and what we give.
var handed = map[string][]string{
	"a22_subgraph_stream/events":                          nil,
	"messages_subgraph/stream messages+updates subgraphs": nil,
	"parent_two_levels/*": {
		`["in","in","leaf","mid_target"]`, `["in","leaf","mid_target"]`,
		`{"middle":{"log":["in","leaf","mid_target"]}}`, `{"middle":[{"log":["leaf"]},{"log":["mid_target"]}]}`,
	},
	"sub_custom/stream custom+updates*": {`{"sub":{"log":["in","p","c"]}}`, `{"sub":{"log":["c"]}}`},
	"sub_extra_keys/*": {
		`{"id":"<id>","name":"sub","input":{"shared":"s","parent_only":"p"},"triggers":["branch:to:sub"]}`,
		`{"id":"<id>","name":"sub","input":{"shared":"s"},"triggers":["branch:to:sub"]}`,
	},
	"sub_recursion_limit/*": {`["in","in","c1","c2","c3"]`, `["in","c1","c2","c3"]`},
	"sub_reducer_duplicates/*": {
		`["in","p","in","p","c"]`, `["in","p","c"]`,
		`{"sub":{"log":["in","p","c"]}}`, `{"sub":{"log":["c"]}}`,
	},
	"sub_sent/*": {
		`["in","1","c1","2","c2"]`, `["in","c1","c2"]`,
		`{"sub":{"log":["1","c1"]}}`, `{"sub":{"log":["c1"]}}`,
		`{"sub":{"log":["2","c2"]}}`, `{"sub":{"log":["c2"]}}`,
	},
	"sub_shared_keys/*": {
		`{"sub":{"a":2,"b":2}}`, `{"sub":{"a":2}}`,
		`{"id":"<id>","name":"sub","error":null,"result":{"a":2,"b":2},"interrupts":[]}`,
		`{"id":"<id>","name":"sub","error":null,"result":{"a":2},"interrupts":[]}`,
	},
	"sub_two_levels/*": {
		`{"inner":{"log":["in","t","m","leaf"]}}`, `{"inner":{"log":["leaf"]}}`,
		`{"middle":{"log":["in","t","m","in","t","m","leaf"]}}`, `{"middle":[{"log":["m"]},{"log":["leaf"]}]}`,
		`{"id":"<id>","name":"inner","error":null,"result":{"log":["in","t","m","leaf"]},"interrupts":[]}`,
		`{"id":"<id>","name":"inner","error":null,"result":{"log":["leaf"]},"interrupts":[]}`,
		`{"id":"<id>","name":"middle","error":null,"result":{"log":["in","t","m","in","t","m","leaf"]},"interrupts":[]}`,
		`{"id":"<id>","name":"middle","error":null,"result":{"log":{"$writes":[["m"],["leaf"]]}},"interrupts":[]}`,
		`["in","t","m","in","t","m","leaf"]`, `["in","t","m","leaf"]`,
		`["in","t","in","t","m","in","t","m","leaf"]`, `["in","t","m","leaf"]`,
	},
}

// handedEvents are the results of nodes that are graphs, in lifecycle events.
var handedEvents = map[string]map[string]string{
	"a22_subgraph_stream": {"node_2": `{"foo":"hi! foobar"}`},
	"sub_two_levels":      {"inner": `{"log":["leaf"]}`, "middle": `[{"log":["m"]},{"log":["leaf"]}]`},
}

// ownUpdates makes nested graphs hand up what they wrote themselves.
func ownUpdates(p place, want any) any {
	trace, ok := want.(map[string]any)
	if !ok {
		return want // a drawing
	}
	for pattern, pairs := range handed {
		if matches(pattern, p) {
			swap(pairs, trace)
		}
	}
	chunks, _ := trace["chunks"].([]any)
	if p.graph == "messages_subgraph" {
		last := chunks[len(chunks)-1].([]any)
		all := last[2].(map[string]any)["sub"].(map[string]any)["messages"].([]any)
		last[2] = map[string]any{"sub": []any{map[string]any{"messages": all[1:2]}, map[string]any{"messages": all[2:]}}}
	}
	if p.part == "events" {
		for _, c := range chunks {
			ev := c.(map[string]any)
			data := ev["data"].(map[string]any)
			for _, key := range []string{"chunk", "output"} {
				if out := handedEvents[p.graph][ev["name"].(string)]; out != "" && data[key] != nil {
					data[key] = parsed(out)
				}
			}
		}
	}
	return want
}
