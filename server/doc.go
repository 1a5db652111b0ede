// Package server serves graphs over HTTP. It speaks the API of LangGraph Platform, so
// LangGraph's SDKs and user interfaces work with it unchanged.
//
// A program that serves its graphs is short:
//
//	func main() {
//		server.Main(nil, treadle.Must(agents.Support()), treadle.Must(agents.Research()))
//	}
//
// Graphs are compiled without a saver and a store; the server gives them its own. A
// program with an HTTP server of its own mounts a [Server], which is a handler.
package server
