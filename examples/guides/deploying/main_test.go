package main

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/server/standalone"
)

// start serves the graph from a file and returns a client and a function that shuts the server down.
func start(t *testing.T, file string) (*client.Client, func()) {
	t.Helper()
	g, err := newGraph(20 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	opts, err := newOptions("ann=secret")
	if err != nil {
		t.Fatal(err)
	}
	ctx, shutdown := context.WithCancel(t.Context())
	logs, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := standalone.Serve(ctx, []string{"serve", "--port", "0", "--db", file, "--config", "treadle.json", "--log", "text"}, out, opts, g)
		_ = out.Close()
		ended <- err
	}()
	address := make(chan string, 1)
	go func() {
		text, buffer := "", make([]byte, 4096)
		for {
			n, err := logs.Read(buffer)
			text += string(buffer[:n])
			if found := regexp.MustCompile(`address=(http://[0-9.:]+)`).FindStringSubmatch(text); found != nil {
				select {
				case address <- found[1]:
				default:
				}
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case url := <-address:
		c, err := client.New(url, &client.Options{APIKey: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		return c, func() {
			t.Helper()
			shutdown()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	case err := <-ended:
		t.Fatalf("server ended: %v", err)
		return nil, nil
	}
}

func TestRunContinuesAfterRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.db")
	c, stop := start(t, file)
	thread, err := c.Threads.Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.Runs.Create(t.Context(), thread.ID, &client.RunCreate{Assistant: "job", Input: Job{}})
	if err != nil {
		t.Fatal(err)
	}
	stop()

	c, stop = start(t, file)
	defer stop()
	values, err := c.Runs.Join(t.Context(), thread.ID, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	var job Job
	if err := json.Unmarshal(values, &job); err != nil || job.Done != 10 {
		t.Errorf("state %s, %v", values, err)
	}
}

func TestKeysAreRequired(t *testing.T) {
	if _, err := newOptions(""); err == nil || !strings.Contains(err.Error(), "API_KEYS") {
		t.Errorf("error %v", err)
	}
}
