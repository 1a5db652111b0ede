package budget

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryOf returns the minimum of the machine's memory and the limits of the process's control
// groups. root is the directory that contains proc and sys.
func memoryOf(root string) (bytes int64, ok bool) {
	take := func(n int64) {
		if n > 0 && (!ok || n < bytes) {
			bytes, ok = n, true
		}
	}
	take(total(filepath.Join(root, "proc", "meminfo")))
	for _, file := range limitFiles(root) {
		take(number(file))
	}
	return bytes, ok
}

// CgroupLimit returns the memory limit of the process's control groups. It reports false if
// there is none.
func CgroupLimit() (bytes int64, ok bool) { return cgroupLimit("/") }

func cgroupLimit(root string) (bytes int64, ok bool) {
	for _, file := range limitFiles(root) {
		if n := number(file); n > 0 && (!ok || n < bytes) {
			bytes, ok = n, true
		}
	}
	return bytes, ok
}

// total returns MemTotal from a meminfo file, or 0.
func total(file string) int64 {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// number returns the number in a file, or 0 if the file is missing or contains "max". Instead
// of "max", version 1 of control groups uses a number larger than any memory.
func number(file string) int64 {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil || n >= 1<<60 {
		return 0
	}
	return n
}

// limitFiles returns the files that may contain a limit for the process: the files of its
// control groups and of their ancestors. In a container, a process often sees its own group as
// the root.
func limitFiles(root string) (files []string) {
	f, err := os.Open(filepath.Join(root, "proc", "self", "cgroup"))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	add := func(mount, group, name string) {
		for dir := filepath.Join("/", group); ; dir = filepath.Dir(dir) {
			files = append(files, filepath.Join(root, mount, dir, name))
			if dir == "/" {
				return
			}
		}
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3) // hierarchy, controllers, path
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			add("sys/fs/cgroup", parts[2], "memory.max")
		case strings.Contains(","+parts[1]+",", ",memory,"):
			add("sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes")
		}
	}
	return files
}
