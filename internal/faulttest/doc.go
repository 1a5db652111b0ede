// Package faulttest tests faults, each at every place where it can occur: callbacks that
// panic or end their goroutine, and savers that fail, stall, lose data or return invalid
// data.
package faulttest
