//go:build !linux

package budget

// memoryOf reports false: the standard library cannot tell.
func memoryOf(string) (bytes int64, ok bool) { return 0, false }

// CgroupLimit reports false: only Linux has control groups.
func CgroupLimit() (bytes int64, ok bool) { return 0, false }
