package sentence

import (
	"fmt"
	"hash"
	"io"
	"io/fs"
)

// ReadFile returns the content of a file and adds it to seen. It rejects a file over
// the limit before reading it.
func ReadFile(files fs.FS, name string, limit int64, seen hash.Hash) ([]byte, error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, over the limit of %d", name, info.Size(), limit)
	}
	content := make([]byte, info.Size())
	if _, err := io.ReadFull(file, content); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	seen.Write(content)
	return content, nil
}
