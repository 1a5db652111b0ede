// Package treadletype has the types that package treadle and its engine share:
// the errors of a run, the questions that a run waits with, retry policies and
// what a node can know about its run.
//
// Programs rarely import it. Those that are used every day have an alias in
// package treadle: [NodeError], [InterruptError], [StepLimitError], [BuildError],
// [Pause], [RetryPolicy], [Info] and [Edit]. The other errors are looked for with
// errors.AsType where a program has something to do about them:
//
//	if e, ok := errors.AsType[*treadletype.ConflictError](err); ok {
//		log.Printf("field %s was written by %v in one step", e.Field, e.Nodes)
//	}
//
// Each error wraps its cause, so errors.Is and errors.As see through it.
// docs/errors.md lists what to do about each.
package treadletype
