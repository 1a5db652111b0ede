// Package memoryimport reads memories that other systems have exported as JSON into a
// store: those of mem0 and of Letta. It knows nothing of databases.
//
// The formats are those of mem0ai 2.0.18 (the result of get_all, of the library and of
// the platform) and of Letta 0.16.8 (agent files, and lists of archival passages), with
// the agent files of Letta 0.6.
package memoryimport
