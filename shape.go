package treadle

import "github.com/treadle-go/treadle/draw"

// Shape returns the graph's nodes and edges, to be drawn. A branch or goto
// without declared destinations may go anywhere and is drawn to every node.
func (g *core) Shape() draw.Shape { return g.plan.Shape() }
