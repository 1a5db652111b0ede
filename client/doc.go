// Package client calls a server of graphs: package server of this module, LangGraph
// Platform, or LangGraph's own development servers, which all have one HTTP API.
//
//	c, err := client.New("http://127.0.0.1:2024", nil)
//	thread, err := c.Threads.Create(ctx, nil)
//	for ev, err := range c.Runs.Stream(ctx, thread.ID, &client.RunCreate{Assistant: "agent", Input: in}) {
//		…
//	}
//
// The requests are grouped as in LangGraph's SDKs: [Client.Assistants],
// [Client.Threads], [Client.Runs], [Client.Crons] and [Client.Store]. Values of states
// are json.RawMessage, since a client need not know the types of a graph. Where it
// does, [Graph] has them.
//
// # Remote graphs
//
// A [Graph] is a graph on a server with Go types. Its Run has the signature of a node:
//
//	research := client.NewGraph[Topic, Report](c, "research", nil)
//	treadle.AddNode(b, "research", research.Run)
//
// On a thread the node is durable: if its process dies or the connection is lost, it goes
// on with the run that it has started. If the remote graph asks a question, so does the
// node, and the answer is sent to the remote graph.
//
// # Failures
//
// A request that the server refuses fails with an [*Error], a run that fails on the server
// with a [*RunError]. Requests that may be repeated are tried again if the connection
// breaks or the server is out of order, as [Options.Retry] says. A stream that breaks is
// continued behind the last event that came.
package client
