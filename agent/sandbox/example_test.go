//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/treadle-go/treadle/agent/sandbox"
)

// A command sees its directory, and neither the network nor the files of the user. It is
// stopped with everything that it has started.
func ExampleNewLocal() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	box, err := sandbox.NewLocal(dir, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = box.Close() }() // the directory stays

	result, err := box.Exec(context.Background(), sandbox.Command{Script: "pwd; ls /home 2>/dev/null || echo no home", Stdout: os.Stdout})
	fmt.Println(result.Code, err)
	result, err = box.Exec(context.Background(), sandbox.Command{Script: "sleep 1000 & sleep 1000", Timeout: 100 * time.Millisecond})
	fmt.Println(result.Stopped, err)
	// Output:
	// /workspace
	// no home
	// 0 <nil>
	// timeout <nil>
}

// A program saves the directory before a command, and returns to it after a failure.
func ExampleSnapshotter() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	box, err := sandbox.NewLocal(dir, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = box.Close() }() // the directory stays

	ctx := context.Background()
	run := func(script string) int {
		r, err := box.Exec(ctx, sandbox.Command{Script: script, Stdout: os.Stdout})
		if err != nil {
			fmt.Println(err)
		}
		return r.Code
	}
	run("echo important > notes.txt")
	var saved bytes.Buffer
	if err := box.Snapshot(ctx, &saved); err != nil {
		fmt.Println(err)
		return
	}
	if code := run("rm notes.txt; touch half-done; exit 1"); code != 0 {
		fmt.Println("restore:", box.Restore(ctx, &saved))
	}
	run("ls; cat notes.txt")
	// Output:
	// restore: <nil>
	// notes.txt
	// important
}
