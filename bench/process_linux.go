package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// rss is how much memory the system says that the process has.
func rss() (float64, error) { return rssIn("/proc/self/statm") }

func rssIn(path string) (float64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var size, resident float64
	if _, err := fmt.Fscan(bytes.NewReader(raw), &size, &resident); err != nil {
		return 0, fmt.Errorf("%s is %q: %w", path, raw, err)
	}
	return resident * float64(os.Getpagesize()), nil
}

// rssOf is the memory of the processes of a group, which has the number of its first.
func rssOf(group int) (float64, error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid pgrp …", and a name may have parentheses.
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if len(fields) < 3 || fields[2] != strconv.Itoa(group) {
			continue
		}
		if used, err := rssIn(path + "m"); err == nil {
			sum += used
		}
	}
	if sum == 0 {
		return 0, fmt.Errorf("process %d is gone", group)
	}
	return sum, nil
}

// inGroup gives a command a process group, which its children belong to.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		endGroup(cmd, true)
		return nil
	}
}

// endGroup ends the processes of a command's group.
func endGroup(cmd *exec.Cmd, kill bool) {
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, signal) // there may be none left
}
