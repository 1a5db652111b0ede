// Package llmtest provides models for tests and a conformance suite for providers.
//
// [Script] is a model with scripted responses, for tests of programs. It can check
// the requests that it receives. [Func] is a model made from a function. [Cassette] records the calls of a real model and
// replays them. [Run] is the suite that every provider's package must pass.
package llmtest
