package sandbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/agent/sandbox"
)

func TestInvalidOptions(t *testing.T) {
	for want, o := range map[string]sandbox.LocalOptions{
		"set Network too":                   {Unconfined: true},
		"Share has no effect":               {Unconfined: true, Network: true, Share: []string{"/usr"}},
		`shared directory "usr"`:            {Share: []string{"usr"}},
		`invalid environment entry "SECRET`: {Env: []string{"SECRET"}},
	} {
		if _, err := sandbox.NewLocal(t.TempDir(), &o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, dir := range []string{"/", "/nonexistent"} {
		if _, err := sandbox.NewLocal(dir, nil); err == nil {
			t.Errorf("%s accepted", dir)
		}
	}
}

func TestClosedSandbox(t *testing.T) {
	s, err := sandbox.NewLocal(t.TempDir(), &sandbox.LocalOptions{Unconfined: true, Network: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Exec(t.Context(), sandbox.Command{Script: "true"}); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
