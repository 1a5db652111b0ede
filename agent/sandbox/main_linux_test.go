package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/internal/test/killtest"
)

const killEnv = "TREADLE_SANDBOX_TEST_DIR"

// No command may leak a goroutine.
func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		go killtest.EndWithParent()
		act := hold
		if os.Getenv("TREADLE_SANDBOX_TEST_RESTORE") != "" {
			act = alternate
		}
		if err := act(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// hold runs a command that starts daemons and does not end. They hold the pipe in dir.
func hold(dir string) error {
	s, err := sandbox.NewLocal(dir, &sandbox.LocalOptions{Unconfined: os.Getenv("TREADLE_SANDBOX_TEST_UNCONFINED") != "", Network: true})
	if err != nil {
		return err
	}
	_, err = s.Exec(context.Background(), sandbox.Command{Script: daemons + "echo started; sleep 1000", Stdout: os.Stdout})
	return err
}

// alternate restores the snapshots in two files in turn. It writes a line when it has
// restored one, and when it sees an exchange of files in progress.
func alternate(dir string) error {
	var all [2][]byte
	for i := range all {
		var err error
		if all[i], err = os.ReadFile(filepath.Join(os.Getenv("TREADLE_SANDBOX_TEST_RESTORE"), fmt.Sprint(i))); err != nil {
			return err
		}
	}
	s, err := sandbox.NewLocal(dir, nil)
	go func() {
		for was := false; ; {
			_, err := os.Lstat(filepath.Join(dir, ".treadle-restore"))
			if is := err == nil; is != was {
				fmt.Println("exchanges:", is)
				was = is
			}
		}
	}()
	for i := 0; err == nil; i = 1 - i {
		err = s.Restore(context.Background(), bytes.NewReader(all[i]))
		fmt.Println("restored")
	}
	return err
}
