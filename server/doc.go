// Package server serves graphs over the LangGraph Platform HTTP API, so LangGraph's SDKs and
// user interfaces work unchanged.
//
// A [Server] is an [http.Handler], so it can be mounted in any mux alongside other routes:
//
//	srv, err := server.New(db, graphs, &server.Options{Auth: auth})
//	mux.Handle("/agents/", http.StripPrefix("/agents", srv))
//
// Compile graphs without a saver or store; the server provides both from its [Database], such as
// a *sqlite.DB or *postgres.DB. This package links no database driver. Package
// server/standalone adds the rest of a program (flags, a configuration file, a database by URL,
// and signals) in a single call.
package server
