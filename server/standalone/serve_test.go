package standalone_test

import (
	"context"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/standalone"
)

var served = regexp.MustCompile(`address=(http://[0-9.:]+)`)

// start runs Serve on a file and returns a client and a function that ends it.
func start(t *testing.T, db string) (*client, func()) {
	t.Helper()
	c, _, stop := startWith(t, nil, "--db", db)
	return c, stop
}

// startWith runs Serve with options and arguments.
func startWith(t *testing.T, o *server.Options, args ...string) (c *client, out *output, stop func()) {
	t.Helper()
	out = &output{}
	c, stop = startLogged(t, out, o, args...)
	return c, out, stop
}

// startLogged is startWith for a server that logs to out.
func startLogged(t *testing.T, out *output, o *server.Options, args ...string) (*client, func()) {
	t.Helper()
	all, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- standalone.Serve(ctx, append(args, "--port", "0"), out, o, all...) }()
	var address string
	for deadline := time.Now().Add(2 * time.Minute); address == ""; {
		if m := served.FindStringSubmatch(out.String()); m != nil {
			address = m[1]
		} else if len(done) > 0 || time.Now().After(deadline) {
			t.Fatalf("the server does not start: %s", out)
		} else {
			time.Sleep(time.Millisecond) //nolint:forbidigo // a server over HTTP is waited for
		}
	}
	return &client{t: t, base: address, head: http.Header{}}, func() {
		t.Helper()
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v\n%s", err, out)
		}
	}
}

func TestServeKeepsThreadsAfterRestart(t *testing.T) {
	db := filepath.Join(t.TempDir(), "treadle.db")
	c, stop := start(t, db)
	c.ok("GET", "/ok?check_db=1", "", nil)
	id := c.thread()
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"hitl","input":{"topic":"cats"}}`, nil)
	stop()
	c, stop = start(t, db)
	defer stop()
	var got map[string]any
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"hitl","command":{"resume":"yes"}}`, &got)
	if got["approval"] != "yes" {
		t.Errorf("values after the restart: %v", got)
	}
}

// A run that a shutdown stops goes on when the server is started again.
func TestServeContinuesRunsAfterRestart(t *testing.T) {
	db := filepath.Join(t.TempDir(), "treadle.db")
	c, stop := start(t, db)
	id := c.thread()
	var run struct {
		ID string `json:"run_id"`
	}
	c.ok("POST", "/threads/"+id+"/runs", `{"assistant_id":"slow","input":{"count":6,"delay_ms":50,"label":"s"}}`, &run)
	ticks := func() int {
		var st struct{ Values struct{ Ticks []string } }
		c.ok("GET", "/threads/"+id+"/state", "", &st)
		return len(st.Values.Ticks)
	}
	for ticks() < 2 {
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // a server over HTTP is waited for
	}
	stop()
	c, stop = start(t, db)
	defer stop()
	var got struct{ Ticks []string }
	c.ok("GET", "/threads/"+id+"/runs/"+run.ID+"/join", "", &got)
	if want := "s0 s1 s2 s3 s4 s5"; strings.Join(got.Ticks, " ") != want {
		t.Errorf("ticks %v, want %s", got.Ticks, want)
	}
}
