// Release builds the command for all platforms: an archive for each, with the licenses of
// the linked modules, plus checksums and a list of the linked modules (SPDX). The same
// commit produces the same bytes on any machine with the same Go version:
//
//	go run ./internal/release -out dist
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// platforms lists the platforms of a release.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func run(ctx context.Context, args []string, told io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	out := flags.String("out", "dist", "output directory, which must not exist")
	only := flags.String("only", "", "build one platform only, such as linux/arm64")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen := platforms
	if *only != "" {
		var p platform
		p.os, p.arch, _ = strings.Cut(*only, "/")
		chosen = nil
		for _, known := range platforms {
			if p == known {
				chosen = []platform{p}
			}
		}
		if chosen == nil {
			return fmt.Errorf("-only %s: the platforms are %v", *only, platforms)
		}
	}
	r := &release{dir: *out}
	var err error
	if r.version, r.time, err = commit(ctx); err != nil {
		return err
	}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		return err
	}
	for i, p := range chosen {
		fmt.Fprintf(told, "%d/%d %s %s\n", i+1, len(chosen), r.version, p)
		if err := r.build(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return r.finish()
}

// commit returns the version of the checked-out commit, which is its tag if it has one,
// and its time.
func commit(ctx context.Context) (version string, at time.Time, err error) {
	version, err = output(ctx, "git", "describe", "--tags", "--always", "--match=v*", "--dirty")
	if err != nil {
		return "", at, err
	}
	if strings.HasSuffix(version, "-dirty") {
		return "", at, errors.New("uncommitted changes, so the build is not reproducible: commit or remove them")
	}
	seconds, err := output(ctx, "git", "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return "", at, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	return version, time.Unix(n, 0).UTC(), err
}

// output returns the trimmed output of a command.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s %s: %w: %s", name, args[0], err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// compile builds the command. It ignores the flags in the environment, which could affect
// the result.
func compile(ctx context.Context, p platform, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-o", to, "github.com/treadle-go/treadle/cmd/treadle")
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, said)
	}
	return nil
}

func (p platform) binary() string {
	if p.os == "windows" {
		return "treadle.exe"
	}
	return "treadle"
}

// build creates the archive for a platform.
func (r *release) build(ctx context.Context, p platform) error {
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	binary := filepath.Join(temp, p.binary())
	if err := compile(ctx, p, binary); err != nil {
		return err
	}
	linked, err := modulesOf(ctx, binary)
	if err != nil {
		return err
	}
	r.add(linked)
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	notices, err := noticesOf(linked)
	if err != nil {
		return err
	}
	return r.archive(p, []file{{p.binary(), 0o755, program}, {"LICENSES.txt", 0o644, notices}})
}
