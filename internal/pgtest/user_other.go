//go:build !unix

package pgtest

import (
	"fmt"
	"syscall"
)

func serverUser(string, string) (*syscall.SysProcAttr, error) {
	return nil, fmt.Errorf("a private Postgres is made on Unix only: set %s", Env)
}
