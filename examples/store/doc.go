// Package store shows how to remember things across threads. The examples are in
// its tests; read them in this order.
//
//   - basics_test.go: putting, getting, finding items, without a graph.
//   - search_test.go: finding by meaning, and choosing what a query looks at.
//   - graph_test.go: a graph that remembers its user, and one that rewrites its
//     own instructions.
//   - past_test.go: versions, the store as it was, and following its changes.
package store
