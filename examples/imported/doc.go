// Package imported continues a thread that a Python program has begun with LangGraph.
//
// refund.py is that program. It has stopped with a question and left its thread in
// langgraph.sqlite, with an item in its store. The command
//
//	treadle import --from langgraph.sqlite --db refunds.db
//
// makes them Treadle's. The test has the same graph in Go, which answers the question.
package imported
