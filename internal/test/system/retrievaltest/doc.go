// Package retrievaltest tests package retrieval with databases: processes that die during a
// sync, concurrent processes, and the speed with 100,000 chunks.
package retrievaltest
