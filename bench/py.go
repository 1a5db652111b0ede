package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
)

// pyJobs lists the jobs for LangGraph for Python.
var pyJobs = []string{
	"chain10", "chain100", "chain1000", "send100", "send1000", "chain100_sqlite", "history500_sqlite", "react10", "react100",
}

var pyLacks = func() map[string]string {
	lacks := map[string]string{}
	for _, j := range catalogue {
		lacks[j.name] = "not measured: LangGraph.js shows the same"
	}
	maps.Copy(lacks, jsLacks)
	for _, name := range pyJobs {
		delete(lacks, name)
	}
	return lacks
}()

// venvPython is the path of the virtual environment's interpreter, relative to the
// directory py.
var venvPython = filepath.Join(".venv", "bin", "python")

func pyPeer(progress io.Writer) *scriptPeer {
	return &scriptPeer{
		name: "langgraph", dir: "py", progress: progress, lacks: pyLacks, install: installPy,
		script: []string{venvPython, "bench.py"},
	}
}

// installPy creates a virtual environment with the pinned packages unless it
// exists. .ci/python creates the same one.
func installPy(ctx context.Context, p *scriptPeer) error {
	return installVenv(ctx, p, "--only-binary", ":all:")
}

// installVenv creates a virtual environment from the pins in the peer's directory.
func installVenv(ctx context.Context, p *scriptPeer, binaries ...string) error {
	if _, err := exec.LookPath("python3"); err != nil {
		return errors.New("python3 was not found in PATH: -peers requires Python 3.11 or newer for LangGraph")
	}
	done := filepath.Join(p.dir, ".venv", "installed")
	missing, err := olderThan(done, filepath.Join(p.dir, "requirements.txt"))
	if err != nil || !missing {
		return err
	}
	fmt.Fprintln(p.progress, "langgraph: pip install, the first time only")
	if err := p.do(ctx, "python3", "-m", "venv", "--clear", ".venv"); err != nil {
		return err
	}
	pip := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-compile", "-r", "requirements.txt"}
	if err := p.do(ctx, venvPython, append(pip, binaries...)...); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o644)
}
