package oteltreadle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/oteltreadle"
)

func TestLogRecordsHaveSpanAndNode(t *testing.T) {
	r, tel := newRecorder(t)
	var out bytes.Buffer
	log := slog.New(oteltreadle.LogHandler(slog.NewJSONHandler(&out, nil)))
	g := oneNode(func(ctx context.Context, c count) (count, error) {
		log.InfoContext(ctx, "inside", "node", "mine")
		log.With("a", 1).WithGroup("g").InfoContext(ctx, "inside")
		return c, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if _, err := g.Thread("7").Run(tel.Context(t.Context()), count{}); err != nil {
		t.Fatal(err)
	}
	log.Info("outside")
	node := r.only("node count")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"trace_id": node.SpanContext.TraceID().String(), "span_id": node.SpanContext.SpanID().String(),
		"run": attr(node, "treadle.run.id"), "thread": "7", "node": "mine"} {
		if first[key] != want {
			t.Errorf("%s is %v, want %s", key, first[key], want)
		}
	}
	if !strings.Contains(lines[1], `"g":{"trace_id"`) || strings.Contains(lines[2], "trace_id") {
		t.Errorf("log:\n%s", out.String())
	}
}

func TestLogHandlerConforms(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return oteltreadle.LogHandler(slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}
