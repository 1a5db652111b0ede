// Package draw renders the shape of a graph as a diagram.
//
// A [Shape] is plain data: nodes, edges, and subgraphs attached to nodes. The engine creates it;
// this package only reads it. [Shape.Expand] expands subgraphs in place, and the renderers draw
// the result:
//
//	          Shape ──Expand──▶ Shape
//	            │
//	  ┌─────────┴──────────┐
//	the words           a layout
//	Mermaid, DOT,       Text, ASCII,
//	JSON                SVG
//
// Mermaid, DOT, and JSON leave the layout to the program that reads them and are written in one
// pass. Text and SVG compute the layout themselves, so that a diagram needs neither a service nor
// a browser. They share one layout:
//
//  1. scene.go groups nodes into frames (one per expanded subgraph) and lifts every edge to the
//     innermost frame that contains both of its ends.
//  2. layers.go breaks cycles, assigns nodes to layers, and orders each layer to minimize edge
//     crossings. A label is a separate small box in the layout, so it never overlaps other items.
//  3. columns.go chooses columns: neighbors attract each other, and long edges are straightened.
//  4. route.go gives every edge a separate lane between two layers. Edges cross but never share a
//     line, so each can be followed from end to end.
//  5. layout.go stacks the layers and returns rectangles and polylines.
//
// An edge that closes a cycle is drawn upward, from the top of its source to the bottom of its
// target; an edge from a node to itself loops beside the node.
//
// Equal shapes yield byte-for-byte equal diagrams.
package draw
