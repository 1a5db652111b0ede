package adapter

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestWarnerLogsEachEventOnce(t *testing.T) {
	var log bytes.Buffer
	w := NewWarner(slog.New(slog.NewTextHandler(&log, nil)), "acme", "m")
	for range 2 {
		w.UnknownEvent("surprise")
		w.UnknownEvent(strings.Repeat("x", 10_000))
	}
	if n := strings.Count(log.String(), `msg="acme: ignoring unknown event" type=`); n != 2 || log.Len() > 2_000 {
		t.Errorf("%d lines, want 2 short ones:\n%s", n, &log)
	}
	for i := range 1000 { // the server chooses the names
		w.UnknownEvent(fmt.Sprint("surprise ", i))
	}
	if n := strings.Count(log.String(), "\n"); n != maxEvents {
		t.Errorf("%d lines, want %d", n, maxEvents)
	}
}
