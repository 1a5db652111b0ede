// Package erasetest tests that a person can be erased: package memory's Erasure on every
// kind of database, with everything that a server and a program with memories store of
// two people. It searches the bytes of all files, and the rows of all tables.
package erasetest
