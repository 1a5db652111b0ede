// Package memorytest tests package memory on databases: encryption, erasure, recall, and
// processes that are killed. Its benchmarks measure search and recall over 100,000
// memories.
package memorytest
