package draw

import (
	"fmt"
	"strings"
)

// DOT returns the shape in Graphviz's DOT language. The subgraphs of an expanded shape
// are clusters.
func (s Shape) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotQuote(s.Name))
	b.WriteString("\trankdir=TB;\n" +
		"\tnode [shape=box, style=\"rounded,filled\", fillcolor=\"#f2f0ff\", fontname=\"sans-serif\"];\n" +
		"\tedge [fontname=\"sans-serif\"];\n")
	dotGroup(&b, s.groups(), "\t")
	for _, e := range s.Edges {
		fmt.Fprintf(&b, "\t%s -> %s", dotQuote(e.From), dotQuote(e.To))
		var attrs []string
		if e.Conditional {
			attrs = append(attrs, "style=dashed")
		}
		if e.Label != "" {
			attrs = append(attrs, "label="+dotLabel(e.Label))
		}
		if len(attrs) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(attrs, ", "))
		}
		b.WriteString(";\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func dotGroup(b *strings.Builder, g *group, indent string) {
	for _, n := range g.nodes {
		text := strings.Join(append([]string{n.title()}, n.notes()...), "\n")
		shape := ""
		if n.terminal() {
			shape = ", shape=oval"
		}
		fmt.Fprintf(b, "%s%s [label=%s%s];\n", indent, dotQuote(n.ID), dotLabel(text), shape)
	}
	for _, c := range g.children {
		if c.loop {
			continue // all edges follow the nodes: an edge inside a cluster would pull its ends in
		}
		_, title := cutLast(c.prefix)
		fmt.Fprintf(b, "%ssubgraph %s {\n", indent, dotQuote("cluster_"+c.prefix))
		fmt.Fprintf(b, "%s\tlabel=%s;\n%s\tstyle=rounded;\n", indent, dotLabel(title), indent)
		dotGroup(b, c, indent+"\t")
		fmt.Fprintf(b, "%s}\n", indent)
	}
}

// dotQuote quotes s. It doubles backslashes, because labels interpret \N and similar
// sequences as placeholders.
func dotQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "", "\n", `\n`, "\x00", "").Replace(s) + `"`
}

// dotLabel quotes displayed text, where Graphviz would resolve entities.
func dotLabel(s string) string { return dotQuote(strings.ReplaceAll(s, "&", "&amp;")) }
