//go:build !linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

func rss() (float64, error) {
	return 0, &notMeasuredError{"no way to ask for resident memory", errors.ErrUnsupported}
}

func rssOf(int) (float64, error) { return rss() }

func cpuOf(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

func inGroup(*exec.Cmd) {}

// endGroup ends a command. Its children are left to it.
func endGroup(cmd *exec.Cmd, kill bool) {
	signal := os.Interrupt
	if kill {
		signal = os.Kill
	}
	_ = cmd.Process.Signal(signal) // it may be gone
}
