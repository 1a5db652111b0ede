// Package rerank scores texts by how well they answer a query, with the rerank endpoints
// of Cohere, Voyage, and compatible servers, or with any chat model. Retrieval and memory
// use the scores to reorder search results:
//
//	r, err := rerank.Voyage("rerank-2.5", nil)
//	...
//	hits, err := index.Search(ctx, question, &retrieval.SearchOptions{Reranker: r})
//	recaller, err := memory.NewRecaller(&memory.RecallerOptions{Reranker: r})
//
// Server errors have the type [*llm.Error]. Failed requests are retried like requests of
// [llm.Retry] with the default policy.
package rerank
