package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// goCommand runs the go command and returns its output.
func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("treadle dev requires the go command (https://go.dev/dl): %w", err)
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed && ctx.Err() == nil {
		return nil, errors.New(strings.TrimSpace(stderr.String()))
	}
	return out, errors.Join(err, ctx.Err())
}

// aProgram is an example program, for users without one.
const aProgram = `package main

import (
	"log"

	"github.com/treadle-go/treadle/server/standalone"
)

func main() {
	graph, err := newGraph() // returns a compiled graph
	if err != nil {
		log.Fatal(err)
	}
	standalone.Main(nil, graph)
}`

func noProgram(why string) error {
	return fmt.Errorf("%s. Write one as below, or start with treadle new NAME:\n\n%s", why, aProgram)
}

// ownModules are the module of this command and the one above it. Their only program is this
// command, which treadle dev cannot run.
var ownModules = []string{"github.com/treadle-go/treadle", "github.com/treadle-go/treadle/cmd/treadle"}

// modulePath returns the path of a module from its go.mod file.
func modulePath(file []byte) string {
	for line := range strings.Lines(string(file)) {
		if path, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// findProgram returns the package named by the user, or else the program in this directory, or
// else the only one in ./cmd. It returns "" if the user named none and is not in a module that
// could contain one.
func findProgram(ctx context.Context, named string) (string, error) {
	if named != "" {
		name, err := packageName(ctx, named)
		switch {
		case err != nil:
			return "", err
		case name != "main":
			return "", noProgram(fmt.Sprintf("%s is package %s, not a program", named, name))
		}
		return named, nil
	}
	out, err := goCommand(ctx, "env", "GOMOD")
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		if files, _ := filepath.Glob("*.go"); len(files) > 0 {
			return "", noProgram("this directory is not in a Go module")
		}
		return "", nil
	}
	if raw, err := os.ReadFile(mod); err == nil && slices.Contains(ownModules, modulePath(raw)) {
		return "", nil
	}
	if name, err := packageName(ctx, "."); err == nil && name == "main" {
		return ".", nil
	} else if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var found []string
	dirs, _ := filepath.Glob("cmd/*") // the pattern is well-formed
	for _, dir := range dirs {
		pkg := "./" + filepath.ToSlash(filepath.Clean(dir))
		if name, err := packageName(ctx, pkg); err == nil && name == "main" {
			found = append(found, pkg)
		}
	}
	switch len(found) {
	case 0:
		return "", noProgram("no program in this directory or ./cmd")
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several programs: specify one of %s", strings.Join(found, ", "))
}

func packageName(ctx context.Context, pkg string) (string, error) {
	out, err := goCommand(ctx, "list", "-find", "-f", "{{.Name}}", pkg)
	return strings.TrimSpace(string(out)), err
}

// program is the package being built.
type program struct {
	pkg  string
	dir  string // directory of the binaries
	n    int    // builds so far
	file string // the current binary, or "" if there is none
	sum  [sha256.Size]byte
}

// newProgram creates a directory for the binaries in the user's cache. It removes directories
// that killed commands left there more than a day ago.
func newProgram(pkg string) (*program, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	where, err := filepath.Abs(pkg)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256([]byte(where))
	parent := filepath.Join(cache, "treadle", "dev", hex.EncodeToString(key[:8]))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	old, _ := os.ReadDir(parent) // just created
	for _, e := range old {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(filepath.Join(parent, e.Name())) // retried next time if it fails
		}
	}
	dir, err := os.MkdirTemp(parent, "")
	return &program{pkg: pkg, dir: dir}, err
}

func (p *program) close() error { return os.RemoveAll(p.dir) }

// build builds the program. It reports whether the result differs from the previous one. If the
// build fails, it returns the compiler's output.
func (p *program) build(ctx context.Context) (output string, fresh bool, err error) {
	p.n++
	// Each build gets its own name, because the file of a running program cannot be written.
	file := filepath.Join(p.dir, fmt.Sprintf("program-%d", p.n))
	args := []string{"build", "-o", file}
	if !strings.Contains(os.Getenv("GOFLAGS"), "-ldflags") {
		args = append(args, "-ldflags=-w") // linking takes half the time without debug information
	}
	cmd := exec.CommandContext(ctx, "go", append(args, p.pkg)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), false, errors.New("build failed")
	}
	sum, err := sumOf(file)
	if err != nil {
		return "", false, err
	}
	fresh = p.file == "" || sum != p.sum
	if p.file != "" {
		_ = os.Remove(p.file) // if the system keeps a running program's file, close removes it
	}
	p.file, p.sum = file, sum
	return string(out), fresh, nil
}

func sumOf(file string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), errors.Join(err, f.Close())
}
