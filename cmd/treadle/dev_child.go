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

// patience is the time that a program has to end. Its grace period for runs is 1s, and it waits
// 5s for connections.
const patience = 10 * time.Second

// child is a running program.
type child struct {
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // set before done is closed
	waiting sync.WaitGroup
	quit    context.CancelFunc // ends await
}

func startChild(ctx context.Context, file string, args, env []string, stdout, stderr io.Writer) (*child, error) {
	// The end of ctx does not kill the program: stop lets it finish its steps.
	c := &child{cmd: exec.CommandContext(context.WithoutCancel(ctx), file, args...), done: make(chan struct{}), quit: func() {}}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = env, stdout, stderr
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start program: %w", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// ended returns a channel that is closed when the program has ended; nil if there is no
// program.
func (c *child) ended() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.done
}

// reason describes how the program ended.
func (c *child) reason() string { return c.cmd.ProcessState.String() }

// forget stops waiting for the program to become ready.
func (c *child) forget() {
	c.quit()
	c.waiting.Wait()
}

// stop ends the program, and kills it if it does not end in time.
func (c *child) stop() error {
	defer c.forget()
	end := os.Signal(syscall.SIGTERM)
	if runtime.GOOS == "windows" {
		end = os.Kill // the only supported signal
	}
	_ = c.cmd.Process.Signal(end) // fails if the program has ended
	select {
	case <-c.done:
		return nil
	case <-time.After(patience):
	}
	_ = c.cmd.Process.Kill()
	<-c.done
	return fmt.Errorf("killed program that did not end within %v; its runs continue after the next start", patience)
}

// readiness reports that a program responds to requests.
type readiness struct {
	file string // the change that caused the restart
}

// await sends r to ready when the program responds to requests.
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

// get returns the HTTP status of a response, or 0 if there is none.
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

// pageOf returns the page to open: the studio if the server has one, or else the API
// documentation.
func pageOf(ctx context.Context, url string) string {
	if status, _ := get(ctx, url+"/studio/"); status == http.StatusOK {
		return url + "/studio/"
	}
	return url + "/docs"
}

// mountPrefix returns the path where a configuration mounts the server.
func mountPrefix(config string) string {
	var keys struct {
		HTTP struct {
			Prefix string `json:"mount_prefix"`
		} `json:"http"`
	}
	if raw, err := os.ReadFile(config); err == nil {
		_ = json.Unmarshal(raw, &keys) // the program reports errors
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
