// Package scaffold writes the files of a new module that serves an agent.
package scaffold

import (
	"bytes"
	"cmp"
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

// files are the files of every module, in module, and those of each kind of agent.
//
//go:embed all:module all:support all:deep
var files embed.FS

const treadle = "github.com/treadle-go/treadle"

// Options configures [Write].
type Options struct {
	Module  string // module path
	Dir     string // target directory; it must not exist
	Version string // version of Treadle; "" leaves the choice to go mod tidy
	Replace string // checkout of Treadle to use instead, if not ""
	Deep    bool   // a deep agent instead of an agent with a tool
}

// element matches an element of a module path.
var element = regexp.MustCompile(`^[a-zA-Z0-9_~-][a-zA-Z0-9._~-]*$`)

// Check returns an error if module is not a valid module path.
func Check(module string) error {
	bad := func(why string) error {
		return fmt.Errorf("invalid module path %q: %s: use a name such as shop or example.com/team/shop", module, why)
	}
	switch {
	case module == "":
		return bad("empty")
	case path.IsAbs(module) || strings.Contains(module, `\`) || strings.HasPrefix(module, "."):
		return bad("file path")
	case module == treadle || strings.HasPrefix(module, treadle+"/"):
		return bad("reserved for Treadle")
	}
	for part := range strings.SplitSeq(module, "/") {
		switch {
		case part == "":
			return bad("empty element")
		case !element.MatchString(part):
			return bad(fmt.Sprintf("%q contains characters other than letters, digits, and -._~", part))
		case strings.HasSuffix(part, "."):
			return bad(fmt.Sprintf("%q ends with a dot", part))
		}
	}
	if first, _, _ := strings.Cut(module, "/"); strings.HasPrefix(first, "-") {
		return bad("starts with a dash")
	}
	if std(module) {
		return bad("conflicts with the standard library")
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
			return nil, fmt.Errorf("%s already exists: choose another name, or remove it", o.Dir)
		}
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(o.Dir))
		}
	}()
	kind := "support"
	if o.Deep {
		kind = "deep"
	}
	for _, from := range []string{"module", kind} {
		more, err := o.copy(from)
		if err != nil {
			return nil, err
		}
		written = append(written, more...)
	}
	if o.Replace != "" {
		// The module may be in the checkout, whose workspace does not contain it.
		written = append(written, "go.work")
		err = os.WriteFile(filepath.Join(o.Dir, "go.work"), []byte("go 1.26.0\n\nuse .\n"), 0o644)
	}
	return written, err
}

// copy writes the files of an embedded directory.
func (o Options) copy(from string) (written []string, err error) {
	fill := strings.NewReplacer("MODULE", o.Module, "NAME", Name(o.Module))
	err = fs.WalkDir(files, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		to := strings.TrimSuffix(strings.TrimPrefix(name, from+"/"), ".tmpl")
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

// required lists Treadle's modules whose packages the new module imports, and replaced all of its
// modules, relative to the first one.
var (
	required = []string{"", "/server"}
	replaced = []string{"", "/sqlite", "/postgres", "/server"}
)

// requires returns the lines of go.mod about Treadle.
func (o Options) requires() string {
	if o.Version == "" && o.Replace == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nrequire (\n")
	for _, m := range required {
		fmt.Fprintf(&b, "\t%s%s %s\n", treadle, m, cmp.Or(o.Version, "v0.0.0"))
	}
	b.WriteString(")\n")
	if o.Replace != "" {
		b.WriteString("\nreplace (\n")
		for _, m := range replaced {
			fmt.Fprintf(&b, "\t%s%s => %s\n", treadle, m, o.Replace+filepath.FromSlash(m))
		}
		b.WriteString(")\n")
	}
	return b.String()
}

// Checkout returns the root of the checkout of Treadle that contains dir, or "" if there is none.
func Checkout(dir string) string {
	for {
		raw, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(raw, []byte("module "+treadle+"\n")) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
