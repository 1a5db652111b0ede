//go:build !linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

func rss() (float64, error) {
	return 0, &notMeasuredError{"resident memory not available", errors.ErrUnsupported}
}

func rssOf(int) (float64, error) { return rss() }

func cpu() (time.Duration, error) { return 0, errors.ErrUnsupported }

func cpuOf(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

func inGroup(*exec.Cmd) {}

// endGroup ends a command, but not its children.
func endGroup(cmd *exec.Cmd, kill bool) {
	signal := os.Interrupt
	if kill {
		signal = os.Kill
	}
	_ = cmd.Process.Signal(signal) // fails if the command has ended
}
