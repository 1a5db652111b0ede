// Package server serves graphs over the LangGraph Platform HTTP API, so LangGraph's SDKs and
// user interfaces work unchanged.
//
// A program that serves its graphs is short:
//
//	func main() {
//		server.Main(nil, treadle.Must(agents.Support()), treadle.Must(agents.Research()))
//	}
//
// Compile graphs without a saver or store; the server provides both. To add the API to an
// existing HTTP server, mount a [Server], which is an [http.Handler].
package server
