// Package llmtest has models for tests, and the suite for providers.
//
// [Script] is a model with scripted answers for tests of programs. It can check the
// requests that it gets. [Cassette] records the calls of a real model and replays
// them. [Run] is the suite that every provider's package must pass.
package llmtest
