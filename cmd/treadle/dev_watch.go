package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/treadle-go/treadle/internal/envfile"
)

// watcher reports changes to the files that a program is built from. It watches directories,
// because editors replace files.
type watcher struct {
	w      *fsnotify.Watcher
	root   string // root of the module, or "" if there is none
	here   string // the working directory
	config []string
	embeds []embedding
}

// embedding is a pattern from a go:embed line.
type embedding struct{ dir, pattern string }

func newWatcher(ctx context.Context, config string) (*watcher, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	mod, err := goCommand(ctx, "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	w := &watcher{here: here}
	if file := strings.TrimSpace(string(mod)); file != "" && file != os.DevNull {
		w.root = filepath.Dir(file)
	}
	if w.w, err = fsnotify.NewWatcher(); err != nil {
		return nil, err
	}
	for _, name := range envfile.Names {
		w.config = append(w.config, filepath.Join(here, name))
	}
	err = w.w.Add(here)
	if w.root != "" {
		err = errors.Join(err, w.addTree(w.root))
	}
	w.addConfig(config)
	if err != nil {
		return nil, errors.Join(err, w.w.Close())
	}
	return w, nil
}

// addConfig watches a configuration file, if there is one, and the environment file that it
// names.
func (w *watcher) addConfig(file string) {
	if file == "" {
		return
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return
	}
	files := []string{file}
	if env, err := envfile.Of(file); err == nil && env.File != "" { // the program reports errors
		files = append(files, filepath.Clean(env.Path(filepath.Dir(file))))
	}
	for _, f := range files {
		if !w.isConfig(f) && w.w.Add(filepath.Dir(f)) == nil {
			w.config = append(w.config, f)
		}
	}
}

func (w *watcher) close() error                  { return w.w.Close() }
func (w *watcher) events() <-chan fsnotify.Event { return w.w.Events }
func (w *watcher) errors() <-chan error          { return w.w.Errors }
func (w *watcher) isConfig(file string) bool     { return slices.Contains(w.config, file) }

// relative returns a file name relative to the working directory, for people.
func (w *watcher) relative(file string) string {
	if rel, err := filepath.Rel(w.here, file); err == nil && filepath.IsAbs(file) {
		return rel
	}
	return file
}

// addTree watches a directory and its subdirectories, except those without packages of the
// module.
func (w *watcher) addTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // already removed
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case name != w.root && w.skips(name):
			return fs.SkipDir
		}
		if err := w.w.Add(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func (w *watcher) skips(dir string) bool {
	base := filepath.Base(dir)
	if base == "node_modules" || base == "vendor" || strings.HasPrefix(base, ".") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil // another module
}

// follow watches the program's packages outside of the module, such as those of a module
// replaced by a directory, and the files that any of its packages embed.
func (w *watcher) follow(ctx context.Context, pkg string) error {
	out, err := goCommand(ctx, "list", "-deps", "-json=Dir,Standard,Module,EmbedPatterns", pkg)
	if err != nil {
		return err
	}
	w.embeds = nil
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir           string
			Standard      bool
			EmbedPatterns []string
			Module        *struct {
				Main    bool
				Replace *struct{ Version string }
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		local := p.Module != nil && (p.Module.Main || p.Module.Replace != nil && p.Module.Replace.Version == "")
		if p.Standard || !local {
			continue
		}
		if err := w.w.Add(p.Dir); err != nil {
			return err
		}
		for _, pattern := range p.EmbedPatterns {
			w.embed(p.Dir, pattern)
		}
	}
}

// embed watches the files matched by a package's embed pattern.
func (w *watcher) embed(dir, pattern string) {
	pattern = filepath.FromSlash(strings.TrimPrefix(pattern, "all:"))
	w.embeds = append(w.embeds, embedding{dir, pattern})
	files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the compiler checks the pattern
	for _, file := range files {
		info, err := os.Stat(file)
		switch {
		case err != nil:
		case info.IsDir():
			_ = w.addTree(file)
		default:
			_ = w.w.Add(filepath.Dir(file))
		}
	}
}

// changed returns the file of an event if the program depends on it, or "". It watches new
// directories; a Go file in one counts as a change.
func (w *watcher) changed(ev fsnotify.Event) string {
	if ev.Op == fsnotify.Chmod {
		return ""
	}
	if ev.Has(fsnotify.Create) {
		if info, err := os.Stat(ev.Name); err == nil && info.IsDir() {
			return w.newDir(ev.Name)
		}
	}
	if w.matters(ev.Name) {
		return ev.Name
	}
	return ""
}

// newDir watches a new directory and returns a relevant file that was created in it before the
// watch started, or "".
func (w *watcher) newDir(dir string) (file string) {
	if w.skips(dir) {
		return ""
	}
	_ = w.addTree(dir) // may already be removed
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && w.matters(name) {
			file = name
			return fs.SkipAll
		}
		return nil
	})
	return file
}

// matters reports whether the program depends on a file.
func (w *watcher) matters(file string) bool {
	base := filepath.Base(file)
	switch {
	case w.isConfig(file):
		return true
	case strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"):
		return w.embedded(file) // otherwise an editor's own file
	case filepath.Ext(base) == ".go":
		return !strings.HasSuffix(base, "_test.go")
	case base == "go.mod" || base == "go.sum" || base == "go.work":
		return true
	}
	return w.embedded(file)
}

func (w *watcher) embedded(file string) bool {
	return slices.ContainsFunc(w.embeds, func(e embedding) bool {
		rel, err := filepath.Rel(e.dir, file)
		if err != nil || strings.HasPrefix(rel, "..") {
			return false
		}
		for ; rel != "."; rel = filepath.Dir(rel) { // a pattern may name a directory
			if ok, err := filepath.Match(e.pattern, rel); ok && err == nil {
				return true
			}
		}
		return false
	})
}
