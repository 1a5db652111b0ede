package main

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/server/standalone"
)

// runDemo serves the demo graphs, for users without a program.
func (d *devServer) runDemo(ctx context.Context) error {
	model, err := demo.OpenModel(demo.ModelOptions{})
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	graphs, err := demo.Served(model, filepath.Join(cache, "treadle", "notes"))
	if err != nil {
		return err
	}
	opts, err := demoOptions()
	if err != nil {
		return err
	}
	if err := d.takePort(ctx); err != nil {
		return err
	}
	d.say("no program here: serving the demo; create your own with treadle new NAME")
	args := []string{"dev", "--host=" + d.host, "--port=" + strconv.Itoa(d.port), "--log-requests=false"}
	args = append(args, d.flags()...)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan struct{})
	go func() {
		defer close(told)
		d.announceDemo(ctx)
	}()
	err = standalone.ServeFile(ctx, append(args, d.args...), d.stderr, opts, graphs...)
	cancel()
	<-told
	return cmp.Or(err, context.Cause(ctx))
}

// announceDemo prints the address of the demo as soon as it responds.
func (d *devServer) announceDemo(ctx context.Context) {
	url := "http://" + net.JoinHostPort(d.host, strconv.Itoa(d.port)) + mountPrefix(d.configFile())
	if awaitOK(ctx, url) {
		d.announce(ctx, readiness{})
	}
}

// awaitOK waits until a server responds. It returns false if ctx ends.
func awaitOK(ctx context.Context, url string) bool {
	for ctx.Err() == nil {
		if status, _ := get(ctx, url+"/ok"); status == http.StatusOK {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}
