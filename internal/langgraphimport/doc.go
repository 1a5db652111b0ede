// Package langgraphimport reads threads and store items that the Python library
// langgraph has saved, and stores them as Treadle's.
//
// It hides LangGraph's stored bytes: the tables of its SQLite and Postgres savers and
// stores, the serializer's msgpack and JSON with their Python objects, and the
// channels, versions and ids in which LangGraph keeps what runs next. What comes out is
// a [checkpoint.Put] for each checkpoint, with the state as JSON and the engine's
// control, so that a Treadle graph with the same names of fields and nodes continues
// the thread.
//
// What cannot be converted is a [Problem] of the [Report]: nothing is left out
// silently. The source is opened for reading only.
package langgraphimport
