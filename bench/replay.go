package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// replay prints the results that an earlier run with -json wrote to a file, so that
// tables and lines come from the same run.
func replay(path string, out printer) (err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := json.NewDecoder(bytes.NewReader(raw))
	for {
		var l json.RawMessage
		err := lines.Decode(&l)
		if errors.Is(err, io.EOF) {
			return out.flush()
		}
		if err == nil {
			err = replayLine(l, out)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func replayLine(raw []byte, out printer) error {
	var ours line
	var peer peerLine
	if err := errors.Join(json.Unmarshal(raw, &ours), json.Unmarshal(raw, &peer)); err != nil {
		return err
	}
	j, ok := findJob(ours.Name)
	switch {
	case !ok:
		return fmt.Errorf("unknown job %q", ours.Name)
	case peer.Peer != "":
		return out.peer(peer)
	}
	return out.ours(ours, j.unit)
}
