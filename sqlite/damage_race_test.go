//go:build race

package sqlite

// damageCases is how many copies are damaged. Under the race detector SQLite takes
// ten times as long, so there "make test" runs the rest without it.
const damageCases = 60
