//go:build !linux

package budget

// memoryOf reports false, because the standard library does not provide the number.
func memoryOf(string) (bytes int64, ok bool) { return 0, false }

// CgroupLimit reports false, because only Linux has control groups.
func CgroupLimit() (bytes int64, ok bool) { return 0, false }
