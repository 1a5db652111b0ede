// Package imported continues a thread that a Python program started with LangGraph.
//
// refund.py is that program. It was interrupted and left its thread in langgraph.sqlite, with
// an item in its store. The command
//
//	treadle import --from langgraph.sqlite --db refunds.db
//
// imports both into Treadle. The test contains the same graph in Go, which resumes the thread
// with an answer.
package imported
