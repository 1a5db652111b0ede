package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
)

// FilesOptions configures [Dir] and [FS]. A nil *FilesOptions means the defaults.
type FilesOptions struct {
	// Parsers adds parsers by extension, in lower case with the dot, such as ".pdf", and
	// replaces those of this package. A nil parser excludes files with the extension.
	// Package retrieval/loaders has parsers for HTML, PDF, and DOCX.
	Parsers map[string]Parser
	// Match reports whether to index the file with this path; nil means all files. Other
	// files are not reported as skipped.
	Match func(path string) bool
	// MaxSize is the maximum size of a file in bytes; 0 means 16 MiB. Larger files are
	// skipped.
	MaxSize int64
}

const defaultMaxSize = 16 << 20

// Dir returns a loader for the files in a directory and the directories below it. The names
// of the sources are paths relative to it, with slashes. See [FS].
func Dir(dir string, opts *FilesOptions) Loader { return FS(directory(dir), opts) }

// directory is like os.DirFS, but opens no file outside of the directory. Unlike an os.Root,
// it needs no Close: a source may be read after the list has ended.
type directory string

// Open opens a file of the directory.
func (d directory) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return os.OpenInRoot(string(d), name)
}

// FS returns a loader for the files of a file system.
//
// Files with the extensions .csv, .json, .jsonl, .md, and those of source code are parsed as
// such, and all others as text if they contain text in UTF-8, or in UTF-16 with a byte order
// mark. Files that are not text, are too large, or cannot be parsed are skipped. So are
// symbolic links, and files and directories whose names start with a dot.
func FS(fsys fs.FS, opts *FilesOptions) Loader {
	f := files{FilesOptions: FilesOptions{MaxSize: defaultMaxSize}, fsys: fsys}
	if opts != nil {
		f.FilesOptions = *opts
		f.MaxSize = cmp.Or(f.MaxSize, defaultMaxSize)
	}
	return func(ctx context.Context) iter.Seq2[Source, error] {
		return func(yield func(Source, error) bool) { f.walk(ctx, yield) }
	}
}

type files struct {
	FilesOptions
	fsys fs.FS
}

func (f *files) walk(ctx context.Context, yield func(Source, error) bool) {
	if f.fsys == nil {
		yield(Source{}, errors.New("retrieval: list files: nil file system"))
		return
	}
	err := fs.WalkDir(f.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			// The files below are unknown, so nothing can be deleted.
			return fmt.Errorf("retrieval: list files: %w", err)
		}
		if name == "." {
			return nil
		}
		source, err := f.source(name, d)
		switch {
		case errors.Is(err, fs.SkipDir):
			if !yield(Source{Name: name}, skip("directory whose name starts with a dot")) {
				return fs.SkipAll
			}
			return fs.SkipDir
		case d.IsDir() || err == nil && source.Name == "":
			return nil
		case !yield(source, err):
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		yield(Source{}, err)
	}
}

// source returns the source for a directory entry; without a name if it does not match.
func (f *files) source(name string, d fs.DirEntry) (Source, error) {
	hidden := strings.HasPrefix(d.Name(), ".")
	switch {
	case hidden && d.IsDir():
		return Source{}, fs.SkipDir
	case d.IsDir() || f.Match != nil && !f.Match(name):
		return Source{}, nil
	case hidden:
		return Source{Name: name}, skip("name starts with a dot")
	case d.Type()&fs.ModeSymlink != 0:
		return Source{Name: name}, skip("symbolic link")
	case !d.Type().IsRegular():
		return Source{Name: name}, skip("not a regular file")
	}
	extension := strings.ToLower(path.Ext(name))
	parse, set := f.Parsers[extension]
	if !set {
		parse = parserOf(extension)
	}
	if parse == nil {
		return Source{Name: name}, skip("no parser for " + extension)
	}
	info, err := d.Info()
	if err != nil {
		return Source{Name: name}, err
	}
	if info.Size() > f.MaxSize {
		return Source{Name: name}, f.tooLarge()
	}
	return Source{Name: name, Parse: parse, Read: func(context.Context) ([]byte, error) { return f.read(name) }}, nil
}

func (f *files) tooLarge() error { return skip(fmt.Sprintf("larger than %d bytes", f.MaxSize)) }

// read reads a file, which may have grown since it was listed.
func (f *files) read(name string) (content []byte, err error) {
	file, err := f.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content, err = io.ReadAll(io.LimitReader(file, f.MaxSize+1))
	if err == nil && int64(len(content)) > f.MaxSize {
		return nil, f.tooLarge()
	}
	return content, err
}

// skip returns an error that matches ErrSkip and whose text is the reason.
func skip(reason string) error { return skipped(reason) }

type skipped string

func (s skipped) Error() string { return string(s) }

// Is reports that every reason to skip a source matches ErrSkip.
func (skipped) Is(target error) bool { return target == ErrSkip }
