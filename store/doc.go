// Package store keeps data across threads: the preferences of a user, the memories of
// an agent, documents to search.
//
// An item is a JSON object under a key in a [Namespace], such as
// {"users", "ada", "memories"}. [Store] puts, gets, deletes and searches items;
// a search covers all namespaces with a common prefix and returns the newest items,
// those that pass a filter, or those that fit the words or the meaning of a query.
// [NewMemory] makes a store in memory; packages sqlite and postgres have lasting ones.
//
//	s, err := store.NewMemory(nil)
//	ada := store.Namespace{"users", "ada"}
//	err = s.Put(ctx, ada, "tea", map[string]any{"likes": "green tea"}, nil)
//	items, err := s.Search(ctx, ada, &store.SearchOptions{Query: "what tea?"})
//
// # Backends
//
// Store itself does everything that must be the same on all backends: validation,
// encoding, time to live, indexing, embedding, filters, ranking and its explanation. A
// [Backend] keeps versions and finds candidates for a search; [Query] decides which of
// these are returned. The suite storetest.Run defines and tests a backend.
//
// # History
//
// Each put and delete adds a version to the item's history, up to Options.History.
// [Store.History] lists the versions, [Store.AsOf] reads the store as it was at some
// time, and [Store.Watch] follows changes and can be continued later. These also show
// items that were deleted or have expired since. [Store.Forget] removes an item
// together with its history.
//
// # Branches
//
// A branch is a view of the store as it was at some version, with writes that others do
// not see until [Store.Merge]. [Store.Fork] begins one. With Options.Branches a run from an
// older checkpoint of a thread has one.
package store
