// Package scaffold writes the files of a new module that serves an agent.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed all:module
var files embed.FS

const treadle = "github.com/treadle-go/treadle"

// Options configures [Write].
type Options struct {
	Module  string // module path
	Dir     string // target directory; it must not exist
	Version string // version of Treadle; "" leaves the choice to go mod tidy
	Replace string // checkout of Treadle to use instead, if not ""
}

// element matches an element of a module path.
var element = regexp.MustCompile(`^[a-zA-Z0-9_~-][a-zA-Z0-9._~-]*$`)

// Check returns an error if module is not a valid module path.
func Check(module string) error {
	bad := func(why string) error {
		return fmt.Errorf("%q cannot be the path of a module: %s; use a name such as shop or example.com/team/shop", module, why)
	}
	switch {
	case module == "":
		return bad("it is empty")
	case path.IsAbs(module) || strings.Contains(module, `\`) || strings.HasPrefix(module, "."):
		return bad("it is a path of a file")
	case module == treadle || strings.HasPrefix(module, treadle+"/"):
		return bad("it is Treadle's")
	}
	for part := range strings.SplitSeq(module, "/") {
		switch {
		case part == "":
			return bad("a part of it is empty")
		case !element.MatchString(part):
			return bad(fmt.Sprintf("%q has other characters than letters, digits and -._~", part))
		case strings.HasSuffix(part, "."):
			return bad(fmt.Sprintf("%q ends with a dot", part))
		}
	}
	if first, _, _ := strings.Cut(module, "/"); strings.HasPrefix(first, "-") {
		return bad("it begins with a dash")
	}
	if std(module) {
		return bad("the standard library has that package")
	}
	return nil
}

// std reports whether a path starts like a standard library package or is reserved by the go
// command. Such a module could not import itself.
func std(module string) bool {
	const names = " all archive arena bufio builtin bytes cmd cmp compress container context crypto database debug embed encoding errors expvar flag fmt go hash html image index internal io iter log main maps math mime net os path plugin reflect regexp runtime slices sort std strconv strings structs sync syscall test testing text time tool unicode unique unsafe vendor weak "
	first, _, _ := strings.Cut(module, "/")
	return strings.Contains(names, " "+first+" ")
}

// Name returns the name of a module's directory and program.
func Name(module string) string {
	name := path.Base(module)
	if dir := path.Dir(module); version.MatchString(name) && dir != "." { // example.com/shop/v2
		name = path.Base(dir)
	}
	return name
}

var version = regexp.MustCompile(`^v[2-9]$|^v[1-9][0-9]+$`)

// names maps template names to the names of files that a Go module directory cannot contain
// unchanged, or that tools would take for their own.
var names = map[string]string{"gitignore": ".gitignore", "dockerignore": ".dockerignore", "env.example": ".env.example"}

// Write writes the module and returns the files, relative to its directory. If it fails, it
// leaves nothing behind.
func Write(o Options) (written []string, err error) {
	if err := Check(o.Module); err != nil {
		return nil, err
	}
	if err := os.Mkdir(o.Dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s exists already: choose another name, or remove it", o.Dir)
		}
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(o.Dir))
		}
	}()
	fill := strings.NewReplacer("MODULE", o.Module, "NAME", Name(o.Module))
	err = fs.WalkDir(files, "module", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		to := strings.TrimSuffix(strings.TrimPrefix(name, "module/"), ".tmpl")
		if other := names[to]; other != "" {
			to = other
		}
		text := fill.Replace(string(raw))
		if to == "go.mod" {
			text += o.requires()
		}
		file := filepath.Join(o.Dir, filepath.FromSlash(to))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		written = append(written, to)
		return os.WriteFile(file, []byte(text), 0o644)
	})
	return written, err
}

// requires returns the lines of go.mod about Treadle.
func (o Options) requires() string {
	switch {
	case o.Replace != "":
		return "\nrequire " + treadle + " v0.0.0\n\nreplace " + treadle + " => " + o.Replace + "\n"
	case o.Version != "":
		return "\nrequire " + treadle + " " + o.Version + "\n"
	}
	return ""
}
