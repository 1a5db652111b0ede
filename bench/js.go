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
		// Fan-outs make node warn of ten abort listeners and more; on stderr that
		// would only hide the reason of a failure.
		script: []string{"node", "--no-warnings", "bench.mjs"},
	}
}

// installJS makes sure that node is there and that the pinned packages are.
func installJS(ctx context.Context, p *scriptPeer) error {
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("-peers needs Node.js 20 or newer for LangGraph.js, and node was not found in PATH")
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
	// Its SQLite is C, fetched or compiled by the one script that package.json
	// allows. Without it the jobs that need it say so.
	if err := npm(ctx, p, "rebuild", "better-sqlite3"); err != nil {
		fmt.Fprintln(p.progress, "langgraph.js: without SQLite:", err)
	}
	return nil
}

func npm(ctx context.Context, p *scriptPeer, args ...string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.New("-peers installs LangGraph.js with npm, and npm was not found in PATH")
	}
	fmt.Fprintf(p.progress, "langgraph.js: npm %s, the first time only\n", args[0])
	return p.do(ctx, "npm", args...)
}
