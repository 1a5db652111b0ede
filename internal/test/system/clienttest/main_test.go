package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/store"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(parentEnv); url != "" {
		go killtest.EndWithParent()
		fmt.Fprintln(os.Stderr, doomedParent(url, os.Getenv(parentFile)))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// memory is a database that ends with the process.
type memory struct {
	*checkpoint.Memory
	rows ledger.Backend
}

func (m *memory) Ledger() ledger.Backend { return m.rows }

func (*memory) Store(o *store.Options) (*store.Store, error) { return store.NewMemory(o) }

// serve serves graphs until the test ends, and returns the address.
func serve(t testing.TB, o *server.Options, graphs ...treadle.AnyGraph) string {
	t.Helper()
	srv, err := server.New(&memory{checkpoint.NewMemory(), ledger.NewMemory()}, graphs, o)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := srv.Drain(ctx); err != nil {
			t.Error(err)
		}
		hs.Close()
	})
	return hs.URL
}

// ten returns the graphs that servers are compared by.
func ten(t testing.TB) []treadle.AnyGraph {
	t.Helper()
	graphs, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	return graphs
}

// quick returns a retry policy without delays.
func quick(attempts int) treadle.RetryPolicy {
	return treadle.RetryPolicy{Initial: time.Millisecond, Max: 20 * time.Millisecond, Attempts: attempts, NoJitter: true}
}

// connect returns a client whose connections are closed when the test ends.
func connect(t testing.TB, url string, o *client.Options) *client.Client {
	t.Helper()
	made := client.Options{}
	if o != nil {
		made = *o
	}
	if made.Retry.Attempts == 0 {
		made.Retry = quick(3)
	}
	if made.HTTPClient == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		made.HTTPClient = &http.Client{Transport: transport}
	}
	c, err := client.New(url, &made)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// must returns v if there is no error.
func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails checks the kind of an error.
func fails(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// says checks the text of an error.
func says(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Fatalf("error %v, want one with %q", err, part)
		}
	}
}

// same compares a value with JSON.
func same(t testing.TB, got any, want string) {
	t.Helper()
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(raw, &a), json.Unmarshal([]byte(want), &b)); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("got  %s\nwant %s", raw, want)
	}
}

// recorder records requests.
type recorder struct {
	http.RoundTripper
	mu       sync.Mutex
	requests []*http.Request
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.requests = append(r.requests, req)
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(req)
}
