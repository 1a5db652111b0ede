// Package memoryimport imports memories that other systems, mem0 and Letta, have exported
// as JSON into a store. It does not depend on a database.
//
// It reads the formats of mem0ai 2.0.18 (the result of get_all, from the library or the
// platform), Letta 0.16.8 (agent files and lists of archival passages), and Letta 0.6
// (agent files).
package memoryimport
