package chaostest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// disk is a directory whose file system can run full. It is a small separate file system
// if the test may mount one. Otherwise, the servers' files may not grow any further, which
// needs no privileges.
type disk struct {
	dir     string
	mounted bool
}

// diskSize is the size of a mounted disk.
const diskSize = 64 << 20

func newDisk(t testing.TB) *disk {
	t.Helper()
	d := &disk{dir: t.TempDir()}
	if err := mountMemory(d.dir, diskSize); err != nil {
		t.Logf("full disks are limits of the servers' files: %v", err)
		return d
	}
	d.mounted = true
	t.Cleanup(func() {
		if err := syscall.Unmount(d.dir, 0); err != nil {
			t.Errorf("unmount %s: %v", d.dir, err)
		}
	})
	return d
}

// fill leaves no room on the disk.
func (c *cluster) fill() error {
	if !c.disk.mounted {
		return c.limit("100")
	}
	f, err := os.OpenFile(c.disk.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				return err
			}
			size /= 2
		}
	}
	return nil
}

// empty frees space on the disk.
func (c *cluster) empty() error {
	if !c.disk.mounted {
		return c.limit("")
	}
	return os.Remove(c.disk.filler())
}

func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

// limit bounds the size of the servers' files; "" lifts the bound.
func (c *cluster) limit(bytes string) error {
	for _, n := range c.nodes {
		n.mu.Lock()
		base := n.report
		n.mu.Unlock()
		if base == "" {
			continue // a new process has no limit
		}
		req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, base+"/limit?bytes="+bytes, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("limit the files of server %d: %s", n.i, resp.Status)
		}
	}
	return nil
}
