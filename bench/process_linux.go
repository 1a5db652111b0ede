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
	"time"
)

// rss returns the resident memory of the process.
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

// cpu returns the processor time that the process has used.
func cpu() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}

// rssOf returns the resident memory of a process group.
func rssOf(group int) (float64, error) {
	var sum float64
	err := eachOf(group, func(path string, _ []string) {
		if used, err := rssIn(path + "m"); err == nil {
			sum += used
		}
	})
	return sum, err
}

// cpuOf returns the processor time that the processes of a group have used.
func cpuOf(group int) (time.Duration, error) {
	const tick = 10 * time.Millisecond // on Linux, on all platforms that Go supports
	var sum time.Duration
	err := eachOf(group, func(_ string, fields []string) {
		const user, system = 11, 12
		for _, text := range fields[user : system+1] {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				sum += time.Duration(n) * tick
			}
		}
	})
	return sum, err
}

// eachOf calls do for the processes of a group with the path of its stat file and the fields
// there, from the process state on. It fails if the group has no process.
func eachOf(group int, do func(path string, fields []string)) error {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	found := false
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		// "pid (name) state ppid pgrp …", and a name may have parentheses.
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if len(fields) < 13 || fields[2] != strconv.Itoa(group) {
			continue
		}
		found = true
		do(path, fields)
	}
	if !found {
		return fmt.Errorf("process %d has ended", group)
	}
	return nil
}

// inGroup starts a command in a new process group, to which its children belong.
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
	_ = syscall.Kill(-cmd.Process.Pid, signal) // fails if the group has ended
}
