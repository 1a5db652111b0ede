package main

import (
	"bytes"
	"fmt"
	"os"
)

// rss is how much memory the system says that the process has.
func rss() (float64, error) {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, resident float64
	if _, err := fmt.Fscan(bytes.NewReader(raw), &size, &resident); err != nil {
		return 0, fmt.Errorf("/proc/self/statm is %q: %w", raw, err)
	}
	return resident * float64(os.Getpagesize()), nil
}
