package treadle

import "github.com/treadle-go/treadle/internal/draw"

// Shape is a drawable picture of a graph: its nodes, in the order they were
// added, and its edges. Expand opens the graphs inside nodes; Mermaid, DOT,
// Text, ASCII and SVG draw it, all of them without a service or the network.
// Its JSON is LangGraph's.
type Shape = draw.Shape

// Shape returns the graph's picture. A branch or goto without declared
// destinations may go anywhere and is drawn to every node.
func (g *core) Shape() Shape { return g.plan.Shape() }
