// Package thirdparty contains extensions of Treadle as another module would write them:
// a model provider ([Model]), a saver ([Saver]), a store backend ([Backend]), a bus
// ([Exchange]), and a middleware ([Breaker]). They use only the public API and pass the
// public suites, so a part of the API that only Treadle's own packages can reach breaks
// this module. It is never published.
package thirdparty
