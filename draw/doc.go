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
// a browser. They share one layout: nodes are arranged in layers, and every edge has a separate
// lane, so each can be followed from end to end.
//
// An edge that closes a cycle is drawn upward, from the top of its source to the bottom of its
// target; an edge from a node to itself loops beside the node.
//
// Equal shapes yield byte-for-byte equal diagrams.
package draw
