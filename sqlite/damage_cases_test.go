//go:build !race

package sqlite

// underRace: see damage_race_test.go.
const underRace = false

// damageCases is how many copies are damaged.
const damageCases = 2000
