//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// serverUser returns the attributes of the server process, which runs in a separate
// process group so that an interrupt from the terminal does not stop it before the tests.
// Postgres refuses to run as root, so if the tests do, serverUser selects another user
// and makes it the owner of dir and file.
func serverUser(dir, file string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return attr, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		for _, path := range []string{dir, file} {
			if err := os.Chown(path, int(uid), int(gid)); err != nil {
				return nil, err
			}
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attr, nil
	}
	return nil, fmt.Errorf("to run Postgres as root, a user postgres or nobody is required: add one or set %s", Env)
}
