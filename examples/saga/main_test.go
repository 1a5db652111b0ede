package main

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// output is written by nodes and read by the test.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// stopper stops the program when it has written something.
type stopper struct {
	*output
	after string
	stop  func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(s.after)) {
		s.stop()
	}
	return s.output.Write(p)
}

var key = regexp.MustCompile(` \(key [0-9a-f]{8}\)`)

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return key.ReplaceAllString(o.text.String(), "")
}

const begun = "charged 120 euros for a loom\nshipped, worth 120 euros: a loom\nwaiting for \"delivered\"\n"

func TestSagaRefundsMissingDelivery(t *testing.T) {
	out := &output{}
	if err := run(t.Context(), filepath.Join(t.TempDir(), "saga.db"), 300*time.Millisecond, nil, out); err != nil {
		t.Fatal(err)
	}
	if want := begun + "refunded 120 euros for a loom\n"; out.String() != want {
		t.Errorf("it printed\n%s\nwant\n%s", out, want)
	}
}

// The program is stopped while it waits, hears of the delivery, and is started again.
func TestSagaSurvivesRestart(t *testing.T) {
	file, out := filepath.Join(t.TempDir(), "saga.db"), &output{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := run(ctx, file, time.Hour, nil, &stopper{output: out, after: "waiting", stop: stop}); err != nil {
		t.Fatal(err)
	}
	if out.String() != begun {
		t.Fatalf("it printed\n%s\nwant\n%s", out, begun)
	}
	if err := run(t.Context(), file, time.Hour, []string{"delivered"}, out); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), file, time.Hour, nil, out); err != nil {
		t.Fatal(err)
	}
	if want := begun + "delivered\n"; out.String() != want {
		t.Errorf("it printed\n%s\nwant\n%s", out, want)
	}
}
