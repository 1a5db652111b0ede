package memtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Load reads cases from the files that match the patterns (see filepath.Glob), sorted by
// name. A file is a JSON array of cases. The names of its cases are prefixed with the file
// name without its extension. Load returns an error for unknown fields, so that a
// misspelled check is not ignored.
func Load(patterns ...string) ([]Case, error) {
	var all []Case
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("memtest: %s: %w", pattern, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("memtest: no file matches %s", pattern)
		}
		for _, file := range files {
			cases, err := loadFile(file)
			if err != nil {
				return nil, fmt.Errorf("memtest: %s: %w", file, err)
			}
			all = append(all, cases...)
		}
	}
	return all, nil
}

func loadFile(file string) ([]Case, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	theme := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return nil, errors.New("not an array of cases")
	}
	var cases []Case
	for d.More() {
		var c Case
		// Include the index, because JSON errors do not always locate the problem.
		if err := d.Decode(&c); err != nil {
			return nil, fmt.Errorf("case %d: %w", len(cases)+1, err)
		}
		if c.Name == "" {
			return nil, fmt.Errorf("case %d has no name", len(cases)+1)
		}
		c.Name = theme + "/" + c.Name
		cases = append(cases, c)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("after case %d: %w", len(cases), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("unexpected data after the array of cases")
	}
	return cases, nil
}
