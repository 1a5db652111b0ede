package pgtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/internal/test/need"
)

// PGlite returns the URL of a Postgres server with pgvector: real Postgres, compiled for
// Node.js. The test binary shares one server. It has a single session that all
// connections share, so its tests must use one connection at a time and no prepared
// statements. It is slow to start and slow to run.
func PGlite(t testing.TB) string {
	t.Helper()
	need.Program(t, need.Node)
	lite.once.Do(func() { lite.err = lite.start() })
	if lite.err != nil {
		t.Fatal(lite.err)
	}
	return lite.url
}

// lite is the test binary's PGlite.
var lite pglite

type pglite struct {
	once  sync.Once
	err   error
	url   string
	stdin io.WriteCloser // closing it stops the server
	ended chan error
}

func (p *pglite) stop() error {
	if p.stdin == nil {
		return nil
	}
	if err := p.stdin.Close(); err != nil {
		return fmt.Errorf("stop the tests' pglite: %w", err)
	}
	p.stdin = nil
	return <-p.ended
}

func (p *pglite) start() error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := packages(here)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	var log bytes.Buffer
	server := exec.CommandContext(context.Background(), "node", "pglite.mjs", strconv.Itoa(port))
	server.Dir, server.Stderr = dir, &log
	stdin, err := server.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start a pglite for the tests: %w", err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return errors.Join(fmt.Errorf("start a pglite for the tests: %w", err), stdin.Close(), server.Wait(), errors.New(log.String()))
	}
	p.stdin, p.ended = stdin, make(chan error, 1)
	go func() { p.ended <- server.Wait() }()
	p.url = fmt.Sprintf("postgres://postgres:postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	return nil
}

// packages returns the directory with the npm packages, searching upward from dir.
func packages(dir string) (string, error) {
	for {
		npm := filepath.Join(dir, "internal", "test", "npm")
		if exists(filepath.Join(npm, "package.json")) {
			if !exists(filepath.Join(npm, "node_modules", "@electric-sql", "pglite-pgvector")) {
				return "", errors.New("these tests need a Postgres with pgvector from npm, and it is not there: run .ci/npm")
			}
			return npm, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("these tests run below the directory of the module only")
		}
		dir = filepath.Dir(dir)
	}
}
