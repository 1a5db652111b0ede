//go:build race

package sqlite

// underRace: the race detector watches. SQLite takes ten times as long under it, so
// suites run on files alone there; "make test" runs all of this package once more
// without it.
const underRace = true

// damageCases is how many copies are damaged.
const damageCases = 60
