// Package store shows how to keep data across threads. The examples are in its tests; read them
// in this order.
//
//   - basics_test.go: putting, getting, and finding items, without a graph.
//   - search_test.go: semantic search, and choosing what a query searches.
//   - graph_test.go: a graph that remembers its user, and one that rewrites its
//     own instructions.
//   - past_test.go: versions, past states of the store, and following its changes.
package store
