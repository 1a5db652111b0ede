// Package treadletype defines the types that package treadle and its engine share: the
// errors of a run, pauses, retry policies, and what a node can know about its run.
//
// Programs use the aliases of package treadle, such as treadle.NodeError and
// treadle.Pause. The types are defined here because the engine cannot import package treadle,
// and because documentation shows the fields of a type only where it is defined.
package treadletype
