// Package faulttest injects faults at every place where they can occur: callbacks that
// panic or end their goroutine, and savers that fail, stall, lose data, or return invalid
// data.
package faulttest
