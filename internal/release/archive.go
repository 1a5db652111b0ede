package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is the state of the build.
type release struct {
	dir     string
	version string
	time    time.Time // the commit time, used for all files
	sums    map[string][sha256.Size]byte
	modules map[string]module // by path, for all platforms
}

type file struct {
	name string
	mode fs.FileMode
	data []byte
}

func (r *release) add(linked []module) {
	if r.modules == nil {
		r.modules = map[string]module{}
	}
	for _, m := range linked {
		r.modules[m.Path] = m
	}
}

// archive writes files in the platform's usual archive format.
func (r *release) archive(p platform, files []file) error {
	name := fmt.Sprintf("treadle_%s_%s_%s", r.version, p.os, p.arch)
	pack, end := tarball, ".tar.gz"
	if p.os == "windows" {
		pack, end = zipped, ".zip"
	}
	var b bytes.Buffer
	if err := pack(&b, name, r.time, files); err != nil {
		return err
	}
	return r.write(name+end, b.Bytes())
}

// write writes a file of the release and records its checksum.
func (r *release) write(name string, data []byte) error {
	if r.sums == nil {
		r.sums = map[string][sha256.Size]byte{}
	}
	r.sums[name] = sha256.Sum256(data)
	return os.WriteFile(filepath.Join(r.dir, name), data, 0o644) //nolint:gosec // to be read by all
}

// finish writes the files that all platforms share.
func (r *release) finish() error {
	list, err := spdx(r)
	if err != nil {
		return err
	}
	if err := r.write("treadle_"+r.version+".spdx.json", list); err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		fmt.Fprintf(&sums, "%x  %s\n", r.sums[name], name)
	}
	return os.WriteFile(filepath.Join(r.dir, "SHA256SUMS"), []byte(sums.String()), 0o644) //nolint:gosec // to be read by all
}

func tarball(w io.Writer, dir string, at time.Time, files []file) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: dir + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: at, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

func zipped(w io.Writer, dir string, at time.Time, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}
