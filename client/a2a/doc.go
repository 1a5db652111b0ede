// Package a2a calls agents over the Agent2Agent protocol (A2A), versions 0.3 and 1.0, with
// JSON-RPC. The agents may be made with any framework.
//
//	remote, err := a2a.Connect(ctx, "https://example.com/a2a/support", nil)
//	if err != nil { … }
//	reply, err := remote.Send(ctx, "", llm.User("Where is my owl?"))
//	fmt.Println(reply.Message.Text())
//
// [Agent.Tool] returns the agent as a tool for other agents. In a node, call [Agent.Send]:
//
//	treadle.AddNode(b, "support", func(ctx context.Context, s llm.Chat) (said, error) {
//		reply, err := remote.Send(ctx, s.Ticket, llm.User(s.Last().Text()))
//		…
//	})
//
// On a thread, Send records the task that the remote agent works on. If the node runs again,
// after a crash or an answer, Send follows that task instead of sending the message again. If the
// remote agent needs input, the run stops with a [Question] as its interrupt, and
// [treadle.Thread.Resume] passes the answer on.
package a2a
