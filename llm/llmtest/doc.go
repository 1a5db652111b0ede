// Package llmtest tests what talks to models.
//
// [Script] is a model for tests of programs: it answers what the test says, and
// fails the test when it is asked something else. [Cassette] records the calls of
// a real model and replays them. [Run] is the suite that every provider passes.
package llmtest
