//go:build !race

package sqlite

// damageCases is how many copies are damaged.
const damageCases = 2000
