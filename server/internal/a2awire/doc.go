// Package a2awire translates between A2A, a protocol between agents, and the threads and runs of the server.
//
// [SendParams] reads a message and converts it to the input of a graph or to an answer, and [View]
// converts runs to tasks, both in the versions 0.3 and 1.0. Objects have the shape of version 0.3
// until [AsV1] converts them, because version 1.0 has other names of states, roles, and methods, and
// tells objects apart by their keys instead of "kind".
package a2awire
