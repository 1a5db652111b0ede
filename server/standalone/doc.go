// Package standalone is the program around package server: it parses flags, reads a
// configuration file, opens the database, and serves graphs until the process receives a
// signal. A program that serves its graphs is short:
//
//	func main() {
//		standalone.Main(nil, treadle.Must(agents.Support()), treadle.Must(agents.Research()))
//	}
//
// The package links SQLite, Postgres, and NATS. To serve graphs in a program that opens its own
// database or has other routes, use [server.New].
package standalone
