//go:build !unix

package pgtest

import (
	"fmt"
	"syscall"
)

func serverUser(string, string) (*syscall.SysProcAttr, error) {
	return nil, fmt.Errorf("private Postgres is supported only on Unix: set %s", Env)
}
