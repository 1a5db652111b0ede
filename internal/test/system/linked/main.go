// Linked writes the table in docs/dependencies.md that shows what a program links if it
// imports a package: the modules, the size of the program, and the time of its first
// build. The programs are in testdata, and make test vets them. It takes a few minutes:
//
//	go run ./internal/test/system/linked
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	root := flag.String("root", ".", "the `directory` of the module")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root); err != nil {
		fmt.Fprintln(os.Stderr, "linked:", err)
		os.Exit(1)
	}
}

const (
	module = "github.com/treadle-go/treadle"
	page   = "docs/dependencies.md"
	begin  = "<!-- linked: written by go run ./internal/test/system/linked -->\n"
	end    = "<!-- end of linked -->\n"
)

// programs lists the directories in testdata, with the package that each measures.
var programs = []struct{ dir, pkg string }{
	{"treadle", ""}, {"agent", "agent"}, {"memory", "memory"}, {"client", "client"}, {"sqlite", "sqlite"}, {"postgres", "postgres"},
	{"natsbus", "server/natsbus"}, {"minilm", "store/minilm"}, {"uselite", "store/uselite"}, {"oteltreadle", "oteltreadle"}, {"mcptool", "mcptool"}, {"server", "server"}, {"standalone", "server/standalone"},
	{"openai", "llm/openai"}, {"anthropic", "llm/anthropic"}, {"gemini", "llm/gemini"}, {"bedrock", "llm/bedrock"}, {"ollama", "llm/ollama"}, {"models", "llm/models"}, {"rerank", "llm/rerank"}, {"loaders", "retrieval/loaders"},
}

// base is the program that the first builds of the others are compared with.
const base = "base"

func run(ctx context.Context, root string) error {
	work, err := os.MkdirTemp("", "linked")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	b := &builder{root: root, work: work}
	fmt.Fprintln(os.Stderr, "building a program without Treadle")
	first, size, err := b.build(ctx, base)
	if err != nil {
		return err
	}
	table := &strings.Builder{}
	fmt.Fprintf(table, "%s, %s/%s. A program with net/http and encoding/json alone has %s and takes %.0f s.\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, megabytes(size), first.Seconds())
	table.WriteString("| import | modules | stripped program | first build |\n|---|---|---|---|\n")
	for _, p := range programs {
		fmt.Fprintln(os.Stderr, "building", p.dir)
		took, size, err := b.build(ctx, p.dir)
		if err != nil {
			return err
		}
		modules, err := linked(ctx, root, p.dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "| %s | %s | %s | %.0f s more |\n", name(p.pkg), cell(modules), megabytes(size), took.Seconds())
	}
	path := filepath.Join(root, page)
	old, err := os.ReadFile(path) //nolint:gosec // the page of the module
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", page, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(path, slices.Concat(before, []byte(begin), []byte(table.String()), []byte(end), after), 0o644) //nolint:gosec // world-readable
}

func name(pkg string) string {
	if pkg == "" {
		return "the root package"
	}
	return "`" + pkg + "`"
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// cell formats a list of modules, abbreviating a long list.
func cell(modules []string) string {
	const most = 8
	if len(modules) > most {
		return fmt.Sprintf("%d: %s …", len(modules), strings.Join(modules[:most], ", "))
	}
	return fmt.Sprintf("%d: %s", len(modules), strings.Join(modules, ", "))
}

// linked returns the modules that a program links, except this one.
func linked(ctx context.Context, root, dir string) ([]string, error) {
	out, err := command(ctx, root, nil, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", at(dir)).Output()
	if err != nil {
		return nil, explained(err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	return slices.DeleteFunc(slices.Compact(modules), func(m string) bool { return m == module || strings.HasPrefix(m, module+"/") }), nil
}

func at(dir string) string { return "./internal/test/system/linked/testdata/" + dir }

func command(ctx context.Context, root string, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the programs of this package
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	return cmd
}

func explained(err error) error {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w\n%s", err, failed.Stderr)
	}
	return err
}

// builder builds programs, each with a cache that contains the dependencies of the base
// program.
type builder struct{ root, work string }

// build returns the CPU time of a program's first build and the program's size.
func (b *builder) build(ctx context.Context, dir string) (time.Duration, int64, error) {
	cache, built := filepath.Join(b.work, dir), filepath.Join(b.work, "program")
	if dir != base {
		if err := os.CopyFS(cache, os.DirFS(filepath.Join(b.work, base))); err != nil {
			return 0, 0, err
		}
		defer func() { _ = os.RemoveAll(cache) }()
	}
	cmd := command(ctx, b.root, []string{"GOCACHE=" + cache, "GOFLAGS="}, "build", "-trimpath", "-ldflags=-s -w", "-o", built, at(dir))
	if _, err := cmd.Output(); err != nil {
		return 0, 0, explained(err)
	}
	info, err := os.Stat(built)
	if err != nil {
		return 0, 0, err
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), info.Size(), nil
}
