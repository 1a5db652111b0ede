package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/internal/adapter"
)

// Progress is the state of a download; see [Pull].
type Progress struct {
	// Status describes the current step, such as "pulling manifest".
	Status string
	// Digest identifies the file being downloaded, if any. A model consists of
	// several files.
	Digest string
	// Total and Completed are the file's size and the downloaded part, in bytes.
	Total, Completed int64
}

// Pull makes the server download a model. It returns when the model can be used,
// which may take minutes. If progress is not nil, it is called for each report of
// the server, several times a second. A server that already has the model checks
// for a newer version. If ctx is canceled, the server keeps the downloaded part for
// the next attempt.
func Pull(ctx context.Context, model string, opts *Options, progress func(Progress)) error {
	c, err := connect(model, opts)
	if err != nil {
		return fmt.Errorf("ollama: pull %q: %w", model, err)
	}
	if ctx.Err() != nil {
		return adapter.Canceled(ctx)
	}
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.post(call, "api/pull", map[string]any{"model": model, "stream": true})
	if err != nil {
		return c.failure(ctx, model, err, resp, false)
	}
	defer func() { _ = resp.Body.Close() }()
	var p Progress
	for line, err := range lines(resp.Body) {
		p = Progress{}
		if err == nil {
			err = json.Unmarshal(line, &p)
		}
		if err != nil {
			return c.failure(ctx, model, err, resp, false)
		}
		if progress != nil {
			progress(p)
		}
	}
	if p.Status != "success" {
		return c.failure(ctx, model, errNoPull, resp, true)
	}
	return nil
}

var errNoPull = errors.New("stream ended before the download was complete")
