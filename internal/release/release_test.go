package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)

// linked returns the modules of this test program.
func linked(t *testing.T) []module {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all, err := modulesOf(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNoticesCoverLinkedModules(t *testing.T) {
	modules := append(linked(t), module{"made up", "v1", t.TempDir()})
	if _, err := noticesOf(modules); err == nil || !strings.Contains(err.Error(), "made up v1 has no license") {
		t.Errorf("a module without a license: %v", err)
	}
	text, err := noticesOf(modules[:len(modules)-1])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"==== std go1.", "The Go Authors", "==== github.com/treadle-go/treadle", "The Treadle Authors"} {
		if !bytes.Contains(text, []byte(part)) {
			t.Errorf("the notices lack %q", part)
		}
	}
}

func TestModuleListHasVersionsAndLicenses(t *testing.T) {
	r := &release{version: "v0.2.0", time: at}
	r.add(linked(t))
	raw, err := spdx(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Packages []struct {
			Name        string
			VersionInfo string
			License     string `json:"licenseConcluded"`
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	licenses := map[string]string{}
	for _, p := range got.Packages {
		licenses[p.Name] = p.VersionInfo + " " + p.License
	}
	if got := licenses["github.com/treadle-go/treadle"]; got != "v0.2.0 MIT" {
		t.Errorf("Treadle is %q", got)
	}
	if got := licenses["std"]; !strings.HasPrefix(got, "go1.") || !strings.HasSuffix(got, " BSD-3-Clause") {
		t.Errorf("the standard library is %q", got)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("You may not."), 0o600); err != nil {
		t.Fatal(err)
	}
	r.add([]module{{"odd", "v1", dir}})
	if _, err := spdx(r); err == nil || !strings.Contains(err.Error(), "odd v1") {
		t.Errorf("an unknown license: %v", err)
	}
}

func TestArchivesHaveCommitTime(t *testing.T) {
	r := &release{dir: t.TempDir(), version: "v0.2.0", time: at}
	files := []file{{"treadle", 0o755, []byte("program")}, {"LICENSES.txt", 0o644, []byte("text")}}
	for _, p := range []platform{{"linux", "arm64"}, {"windows", "amd64"}} {
		if err := r.archive(p, files); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.finish(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(r.dir, "treadle_v0.2.0_linux_arm64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(z)
	h, err := tr.Next()
	if err != nil || h.Name != "treadle_v0.2.0_linux_arm64/treadle" || h.Mode != 0o755 || !h.ModTime.Equal(at) {
		t.Errorf("the first file is %+v, %v", h, err)
	}
	if data, err := io.ReadAll(tr); string(data) != "program" || err != nil {
		t.Errorf("it has %q, %v", data, err)
	}
	packed, err := zip.OpenReader(filepath.Join(r.dir, "treadle_v0.2.0_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	if n := len(packed.File); n != 2 || packed.File[0].Mode().Perm() != 0o755 {
		t.Errorf("the zip has %d files, the first with %v", n, packed.File[0].Mode())
	}
	sums, err := os.ReadFile(filepath.Join(r.dir, "SHA256SUMS"))
	if n := strings.Count(string(sums), "\n"); err != nil || n != 3 {
		t.Errorf("there are %d sums, %v", n, err)
	}
}

func TestUnbuiltPlatformIsNamed(t *testing.T) {
	if err := run(t.Context(), []string{"-only", "plan9/arm"}, io.Discard); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("%v", err)
	}
}
