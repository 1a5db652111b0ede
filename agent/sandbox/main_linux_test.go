package sandbox_test

import (
	"context"
	"fmt"
	"os"
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
		if err := hold(dir); err != nil {
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
