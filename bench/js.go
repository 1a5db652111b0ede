package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

var jsLacks = withStores(map[string]string{
	"chain100_postgres":   noPostgres,
	"history500_postgres": noPostgres,
	"threads10k_rss":      noRSS,
	"message_reduce_10k":  noGraph,
	"trim_10k":            noGraph,
})

func jsPeer(progress io.Writer) *scriptPeer {
	return &scriptPeer{
		name: "langgraph.js", dir: "js", progress: progress, lacks: jsLacks, install: installJS,
		// Fan-outs make node warn about more than ten abort listeners, which would
		// hide the reason for a failure on stderr.
		script: []string{"node", "--no-warnings", "bench.mjs"},
	}
}

// installJS checks that node exists and installs the pinned packages.
func installJS(ctx context.Context, p *scriptPeer) error {
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("node was not found in PATH: -peers requires Node.js 20 or newer for LangGraph.js")
	}
	modules := filepath.Join(p.dir, "node_modules")
	missing, err := olderThan(filepath.Join(modules, ".package-lock.json"), filepath.Join(p.dir, "package-lock.json"))
	if err != nil {
		return err
	}
	if missing {
		if err := npm(ctx, p, "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			return err
		}
	}
	_, err = os.Stat(filepath.Join(modules, "better-sqlite3", "build", "Release", "better_sqlite3.node"))
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// Its SQLite is written in C, and the only script that package.json allows
	// downloads or compiles it. Without it, the jobs that need it report that.
	if err := npm(ctx, p, "rebuild", "better-sqlite3"); err != nil {
		fmt.Fprintln(p.progress, "langgraph.js: without SQLite:", err)
	}
	return nil
}

func npm(ctx context.Context, p *scriptPeer, args ...string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.New("npm was not found in PATH: -peers requires it to install LangGraph.js")
	}
	fmt.Fprintf(p.progress, "langgraph.js: npm %s, the first time only\n", args[0])
	return p.do(ctx, "npm", args...)
}
