package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// patience is how long a program may take to end. Its grace for runs is 1s, and it
// waits 5s for connections.
const patience = 10 * time.Second

// child is a program that runs.
type child struct {
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // after done
	waiting sync.WaitGroup
	quit    context.CancelFunc // ends await
}

func startChild(ctx context.Context, file string, args, env []string, stdout, stderr io.Writer) (*child, error) {
	// The end of ctx does not kill it: stop lets it end its steps.
	c := &child{cmd: exec.CommandContext(context.WithoutCancel(ctx), file, args...), done: make(chan struct{}), quit: func() {}}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = env, stdout, stderr
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the program does not start: %w", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// ended is closed when the program has ended by itself; nil for no program.
func (c *child) ended() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.done
}

// reason is why it has ended.
func (c *child) reason() string { return c.cmd.ProcessState.String() }

// forget stops waiting for a program that has ended.
func (c *child) forget() {
	c.quit()
	c.waiting.Wait()
}

// stop ends the program, and kills it if it does not end in time.
func (c *child) stop() error {
	defer c.forget()
	end := os.Signal(syscall.SIGTERM)
	if runtime.GOOS == "windows" {
		end = os.Kill // there is no other
	}
	_ = c.cmd.Process.Signal(end) // fails if it has ended
	select {
	case <-c.done:
		return nil
	case <-time.After(patience):
	}
	_ = c.cmd.Process.Kill()
	<-c.done
	return fmt.Errorf("the program did not end in %v and was killed; its runs continue at the next start", patience)
}

// readiness says that a program answers requests.
type readiness struct {
	file string // the change that it was restarted for
}

// await reports to ready when the program answers requests.
func (c *child) await(ctx context.Context, host string, port int, r readiness, ready chan<- readiness) {
	ctx, c.quit = context.WithCancel(ctx)
	c.waiting.Go(func() {
		url := "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/ok"
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if status, _ := get(ctx, url); status != 0 {
				break
			}
			select {
			case <-tick.C:
			case <-c.done:
				return
			case <-ctx.Done():
				return
			}
		}
		select {
		case ready <- r:
		case <-ctx.Done():
		}
	})
}

// get returns the status of an answer, 0 if there is none.
func get(ctx context.Context, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// pageOf is the page to open: the studio if the server has one, or the API's.
func pageOf(ctx context.Context, url string) string {
	if status, _ := get(ctx, url+"/studio/"); status == http.StatusOK {
		return url + "/studio/"
	}
	return url + "/docs"
}

// mountPrefix is the path that a configuration mounts the server at.
func mountPrefix(config string) string {
	var keys struct {
		HTTP struct {
			Prefix string `json:"mount_prefix"`
		} `json:"http"`
	}
	if raw, err := os.ReadFile(config); err == nil {
		_ = json.Unmarshal(raw, &keys) // the program reports what is wrong
	}
	return keys.HTTP.Prefix
}

// openBrowser opens a page without waiting for the browser.
func openBrowser(ctx context.Context, url string) error {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	return cmd.Run()
}
