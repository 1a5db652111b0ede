// Package retrieval answers questions from documents, with citations: it keeps an index of a
// folder up to date, searches it, and rejects answers without valid citations.
//
//	index, err := retrieval.Open(db, nil) // a *sqlite.DB or *postgres.DB
//	report, err := index.Sync(ctx, retrieval.Dir("docs", nil), nil)
//	answers, err := agent.New(model, &agent.Options{
//		Middleware: []*agent.Middleware{retrieval.Middleware(index, nil)},
//	})
//
// # Documents
//
// A [Loader] lists sources, such as the files of a folder ([Dir], [FS]). A [Parser] extracts
// documents from the content of a source, and a [Splitter] splits a document into chunks,
// which cover its text. Each [Chunk] records its byte offsets, line, page, and headings. Package retrieval/loaders parses HTML, PDF, and DOCX.
//
// # Index
//
// An [Index] is a namespace in a store. [Index.Sync] makes it match a loader's sources: it
// adds, updates, and deletes by content hash, continues after a crash, and reports what it
// skipped, and why.
//
// # Search
//
// [Index.Search] ranks chunks by semantic similarity and keywords, like package memory. Its options
// filter, rerank, and diversify the hits, and extend them to their neighbors or whole
// documents. [Rewrite] and [Index.Retrieve] are nodes for graphs.
//
// # Citations
//
// [Middleware] gives an agent a search tool and checks that each sentence of its answer cites a
// passage that the index contains. [Cite] does the check for answers of other graphs, and
// [CitationsOf] returns the citations, with the offsets of the cited text.
package retrieval
