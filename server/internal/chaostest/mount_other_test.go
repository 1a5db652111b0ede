//go:build !linux

package chaostest

import "errors"

func mountMemory(string, int) error { return errors.New("only Linux mounts file systems in memory") }
