// Package store remembers things across threads: what a user likes, what an
// agent has learnt, documents to look things up in.
//
// An item is a JSON object under a key in a [Namespace], such as
// {"users", "ada", "memories"}. [Store] puts, gets, deletes and searches items;
// searches go over all namespaces with a common prefix, by newest, by filter,
// by the words of a query or by its meaning. [NewMemory] is a store that lives
// in the process; packages sqlite and postgres have stores that last.
//
//	s, err := store.NewMemory(nil)
//	ada := store.Namespace{"users", "ada"}
//	err = s.Put(ctx, ada, "tea", map[string]any{"likes": "green tea"}, nil)
//	items, err := s.Search(ctx, ada, &store.SearchOptions{Query: "what tea?"})
//
// # One behaviour, several backends
//
// What must be the same wherever items are kept is done once, by Store:
// validation, encoding, time to live, which texts of an item are indexed and
// how, embedding, filters, ranking and its explanation. A [Backend] keeps
// versions and finds candidates, and asks [Query] which of them it may return.
// Whoever writes a backend has its definition in storetest.Run.
//
// # The past
//
// A put or delete adds a version to the item's history, up to a bound.
// [Store.History] lists them, [Store.AsOf] reads the store as it was at a time,
// [Store.Watch] follows changes as they come and goes on where it stopped.
// These look at the past, so they also see what has been deleted or has expired
// since. [Store.Forget] removes an item with its past.
package store
