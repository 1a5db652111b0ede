// Package dynamic runs graphs whose Go types are unknown at compile time, for servers and
// tools that handle any graph. A program that builds its own graphs does not need it.
//
// [Open] returns a handle to a thread that takes and returns JSON:
//
//	thread := dynamic.Open(graph, "thread-1")
//	output, err := thread.RunJSON(ctx, json.RawMessage(`{"question": "why?"}`))
//
// Input, output, and updates are objects with the JSON names of the fields;
// [treadle.Graph.Schemas] describes them. A nil input continues the thread, and
// [Thread.CommandJSON] resumes it with answers.
//
// # LangGraph's formats
//
// [Wire] encodes events as LangGraph's streams do, and [StateJSON] encodes a
// [treadle.Snapshot] as LangGraph Platform's thread states. Commands and bulk updates are in
// LangGraph's format, too.
//
// # Hosting
//
// A server compiles no graphs. [Host] provides the server's saver, store, and lease on the
// thread to a graph that was compiled without them:
//
//	host := dynamic.Host{Saver: saver, Store: items, Fence: epoch}
//	thread := dynamic.Open(graph, "thread-1", host.Option())
package dynamic
