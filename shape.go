package treadle

import "github.com/treadle-go/treadle/draw"

// Shape returns the graph's nodes and edges for a diagram. A branch or goto
// without declared destinations has edges to every node.
func (g *Graph[In, Out]) Shape() draw.Shape { return g.core.Shape() }

// Shape implements [AnyGraph].
func (g *core) Shape() draw.Shape { return g.plan.Shape() }
