// Package store keeps data across threads, such as user preferences, an agent's memories,
// and documents to search.
//
// An item is a JSON object under a key in a [Namespace], such as
// {"users", "ada", "memories"}. A [Store] puts, gets, deletes, and searches items. A search
// covers all namespaces with a common prefix and returns the newest items, the items that
// match a filter, or the items that match a query by keywords, meaning, or both. [NewMemory]
// returns an in-memory store; packages sqlite and postgres provide persistent stores.
//
//	s, err := store.NewMemory(nil)
//	ada := store.Namespace{"users", "ada"}
//	err = s.Put(ctx, ada, "tea", map[string]any{"likes": "green tea"}, nil)
//	items, err := s.Search(ctx, ada, &store.SearchOptions{Query: "what tea?"})
//
// # Backends
//
// Store implements everything that must behave the same on all backends: validation,
// encoding, TTLs, indexing, embedding, filters, ranking, and score explanations. A [Backend]
// keeps versions and finds candidates for a search; [Query] decides which of them are
// returned. The test suite storetest.Run defines the behavior of a backend.
//
// # History
//
// Each put and delete adds a version to the item's history, up to Options.History versions.
// [Store.History] lists the versions, [Store.AsOf] reads the store as of a given time, and
// [Store.Watch] follows changes and can be resumed later. They also show items that have
// since been deleted or have expired. [Store.Forget] removes an item together with its
// history.
//
// # Branches
//
// A branch is a view of the store as of some version, with writes that stay private until
// [Store.Merge]. [Store.Fork] creates a branch. With Options.Branches, a run from an older
// checkpoint of a thread uses a branch.
package store
