// Package agui translates between AG-UI, a protocol between agents and the pages that show
// them, and the threads and runs of the server.
//
// [Input] is the body of a request, [Encoder] converts the frames of a run to AG-UI events,
// and [Messages] converts a conversation.
package agui
