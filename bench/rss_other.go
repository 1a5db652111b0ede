//go:build !linux

package main

import "errors"

func rss() (float64, error) {
	return 0, &notMeasuredError{"no way to ask for resident memory", errors.ErrUnsupported}
}
