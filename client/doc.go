// Package client calls a graph server: package server of this module, LangGraph
// Platform, or LangGraph's development servers. All of them provide the same HTTP API.
//
//	c, err := client.New("http://127.0.0.1:2024", nil)
//	thread, err := c.Threads.Create(ctx, nil)
//	for ev, err := range c.Runs.Stream(ctx, thread.ID, &client.RunCreate{Assistant: "agent", Input: in}) {
//		…
//	}
//
// The methods are grouped as in LangGraph's SDKs: [Client.Assistants], [Client.Threads],
// [Client.Runs], [Client.Crons], and [Client.Store]. State values are json.RawMessage, because a
// client need not depend on the types of a graph. [Graph] adds Go types.
//
// # Remote graphs
//
// A [Graph] is a graph on a server, with Go types. Its Run method has the signature of a node:
//
//	research := client.NewGraph[Topic, Report](c, "research", nil)
//	treadle.AddNode(b, "research", research.Run)
//
// On a thread, the node is durable: if its process dies or the connection is lost, it continues with the run
// that it has started. If the remote graph is interrupted, so is the node, and the answer is sent to the
// remote graph.
//
// # Failures
//
// If the server rejects a request, the method returns an [*Error]; if a run fails on the server,
// it returns a [*RunError]. Requests that are safe to repeat are retried if the connection breaks
// or the server is unavailable, as configured by [Options.Retry]. A broken stream resumes after
// the last event received.
package client
