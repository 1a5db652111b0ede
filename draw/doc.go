// Package draw turns the shape of a graph into pictures.
//
// A [Shape] is plain data: nodes, edges, and subgraphs hanging from nodes.
// The engine fills one in; everything here only reads it. [Shape.Expand]
// opens subgraphs in place, and the renderers draw what they are given:
//
//	          Shape ──Expand──▶ Shape
//	            │
//	  ┌─────────┴──────────┐
//	the words           a layout
//	Mermaid, DOT,       Text, ASCII,
//	JSON                SVG
//
// Mermaid, DOT and JSON leave the placing to whoever reads them and are
// written in one pass. Text and SVG place everything themselves, so that a
// picture needs neither a service nor a browser. They share one layout:
//
//  1. scene.go groups nodes into frames (one per expanded subgraph) and lifts
//     every edge to the innermost frame that holds both of its ends.
//  2. layers.go breaks cycles, puts nodes into layers and orders each layer so
//     that few edges cross. A label is a small box of its own in the layout,
//     so it never lands on something else.
//  3. columns.go chooses columns: neighbours pull at each other, and long edges
//     are pulled straight.
//  4. route.go gives every edge its own lane between two layers. Edges cross
//     but never share a line, so each can be followed from end to end.
//  5. layout.go stacks it all up and hands back rectangles and polylines.
//
// An edge that closes a cycle is drawn upwards, from the top of its source to
// the bottom of its target; an edge from a node to itself loops beside it.
//
// Equal shapes give equal pictures, byte for byte.
package draw
