// Package treadletype defines the types that package treadle and its engine share: run
// errors, pauses, retry policies, and the information that a node can get about its
// run.
//
// Programs use the aliases in package treadle, such as treadle.NodeError and
// treadle.Pause. The types are defined here because the engine cannot import package
// treadle, and because go doc shows the fields of a type only where it is defined.
package treadletype
