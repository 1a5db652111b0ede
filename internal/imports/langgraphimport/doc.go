// Package langgraphimport imports threads and store items saved by the Python library
// langgraph.
//
// It reads LangGraph's storage formats: the tables of its SQLite and Postgres savers and
// stores, the serializer's msgpack and JSON with their Python objects, and the channels,
// versions, and IDs that record what runs next. It produces a [checkpoint.Put] for each
// checkpoint, with the state as JSON and the engine's control data, so that a Treadle
// graph with the same field and node names can continue the thread.
//
// Data that cannot be converted is reported as a [Problem] in the [Report]; nothing is
// dropped silently. The source is opened read-only.
package langgraphimport
