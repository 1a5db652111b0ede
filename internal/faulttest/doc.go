// Package faulttest makes things fail, one at a time and everywhere, and checks
// the outcome: callbacks that panic or end their goroutine, savers that fail,
// stall, lose data or hand out nonsense.
package faulttest
