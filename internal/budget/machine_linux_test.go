package budget

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryRespectsCgroups(t *testing.T) {
	const machine = "MemTotal:       16777216 kB\nMemFree: 1 kB\n" // 16 GiB
	for name, tc := range map[string]struct {
		files  map[string]string
		want   int64
		cgroup bool // the limit is that of a control group
	}{
		"machine":              {map[string]string{"proc/self/cgroup": "0::/\n"}, 16 << 30, false},
		"container":            {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20, true},
		"unlimited":            {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 16 << 30, false},
		"parent of the group":  {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1073741824\n"}, 1 << 30, true},
		"version 1":            {map[string]string{"proc/self/cgroup": "9:cpu:/x\n5:memory:/a\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 256 << 20, true},
		"version 1, unlimited": {map[string]string{"proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16 << 30, false},
		"more than there is":   {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1099511627776\n"}, 16 << 30, true},
	} {
		root := t.TempDir()
		tc.files["proc/meminfo"] = machine
		for file, text := range tc.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, ok := memoryOf(root); got != tc.want || !ok {
			t.Errorf("%s: memory is %d, %t, want %d", name, got, ok, tc.want)
		}
		if _, ok := cgroupLimit(root); ok != tc.cgroup {
			t.Errorf("%s: limited by a control group: %t, want %t", name, ok, tc.cgroup)
		}
	}
	if _, ok := memoryOf(t.TempDir()); ok {
		t.Error("memory found without files")
	}
}

func TestDefaultIsShareOfMemory(t *testing.T) {
	memory, ok := Memory()
	if !ok {
		t.Fatal("memory of this machine unknown")
	}
	if got := Default(); got < leastDefault || got > mostDefault || got > max(memory/16, leastDefault) {
		t.Errorf("default %d for %d bytes of memory", got, memory)
	}
}
