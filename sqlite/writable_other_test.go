//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package sqlite

const openAs = "TREADLE_TEST_OPEN"

func openAsNobody(string) {}
