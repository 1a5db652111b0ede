package hub

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSlowListenerIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	h := &Hub{Logger: slog.New(slog.NewTextHandler(&out, nil))}
	goOn, got := make(chan struct{}), make(chan byte, 2*queued)
	stop, ok := h.Listen("topic", func(payload []byte) {
		<-goOn
		got <- payload[0]
	})
	if !ok {
		t.Fatal("hub closed")
	}
	defer stop()
	h.Deliver("topic", []byte{0})
	// The first is under way or waits.
	for i := range queued + 20 {
		h.Deliver("topic", []byte{byte(i + 1)})
	}
	h.Dropped("topic")
	close(goOn)
	for i := range queued {
		if n := <-got; n != byte(i) {
			t.Fatalf("signal %d is %d", i, n)
		}
	}
	if n := strings.Count(out.String(), "slow listener misses signals"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, out.String())
	}
}

func TestCloseStopsListeners(t *testing.T) {
	var h Hub
	if _, ok := h.Listen("topic", func([]byte) { t.Error("a call after Close") }); !ok {
		t.Fatal("hub closed")
	}
	if !h.Close() || h.Close() || !h.Closed() {
		t.Error("Close reports something else than its first call")
	}
	h.Deliver("topic", nil)
	if _, ok := h.Listen("topic", func([]byte) {}); ok {
		t.Error("Listen works after Close")
	}
}
