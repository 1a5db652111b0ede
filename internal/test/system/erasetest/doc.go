// Package erasetest tests that all data about a person can be erased. It runs package
// memory's Erasure on every kind of database, with all data that a server and a program
// with memories store about two people, and then searches the bytes of all files and the
// rows of all tables.
package erasetest
