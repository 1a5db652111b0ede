package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each of our graphs exists under the same name on the peers.
func TestServersHaveTheSameGraphs(t *testing.T) {
	for _, p := range []*serverPeer{jsServer(io.Discard), pyServer(io.Discard)} {
		graphs := servedBy(t, p.dir)
		for _, name := range []string{"router", "first", "burst"} {
			if graphs[name] == "" {
				t.Errorf("%s does not serve %s: %v", p.dir, name, graphs)
			}
		}
	}
}

// servedBy returns the graphs in a langgraph.json.
func servedBy(t *testing.T, dir string) map[string]string {
	t.Helper()
	var config struct{ Graphs map[string]string }
	raw, err := os.ReadFile(filepath.Join(dir, "langgraph.json"))
	if err := errors.Join(err, json.Unmarshal(raw, &config)); err != nil {
		t.Fatal(err)
	}
	return config.Graphs
}

// A server with wrong responses must not look fast.
func TestWrongServerResponsesAreErrors(t *testing.T) {
	for name, answer := range map[string]string{
		"another path": `{"path":["route","left"]}`,
		"an error":     `{"__error__":{"error":"E","message":"m"}}`,
		"no JSON":      `hello`,
	} {
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		a := &api{hs.URL, hs.Client()}
		if err := travelTo(t, hs); err == nil {
			t.Errorf("%s: response %s was accepted", name, answer)
		}
		if _, err := a.first(t.Context()); err == nil {
			t.Errorf("%s: stream without an event was accepted", name)
		}
		hs.Close()
	}
}

func travelTo(t *testing.T, hs *httptest.Server) error {
	client := &traveller{address: hs.Listener.Addr().String()}
	defer client.close()
	return client.travel(t.Context())
}

func TestFailedServerStartReportsReason(t *testing.T) {
	h := &host{command: func(ctx context.Context, _ string, _ int) (*exec.Cmd, error) {
		return exec.CommandContext(ctx, "sh", "-c", "echo the reason; exit 3"), nil
	}}
	if _, err := h.start(t.Context()); err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error: %v", err)
	}
}
