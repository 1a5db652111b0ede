package saved

import (
	"bytes"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// A pending write is a row of task, kind, and data; task and kind are the key. The run ID
// has no column, because it is part of the key of some kinds only. It is appended to the
// kind, so that each run has its own row. For a result, it precedes the data, because a
// task has one result and the next checkpoint removes it by its kind.

// runMark precedes the data of a result with a run ID. No other data starts with it: data
// is JSON or, if encrypted, starts with another byte.
const runMark = "\x00treadle run\x00"

// WriteRow returns the kind and data columns of a pending write.
func WriteRow(w *checkpoint.Write) (kind, data []byte) {
	kind, data = []byte(w.Kind), w.Data
	switch {
	case w.RunID == "":
	case w.Kind == checkpoint.Done:
		data = append(AppendBytes([]byte(runMark), []byte(w.RunID)), w.Data...)
	default:
		kind = append(append(kind, 0), w.RunID...)
	}
	return kind, data
}

// ParseWrite returns the pending write stored in a row.
func ParseWrite(task string, kind, data []byte) checkpoint.Write {
	w := checkpoint.Write{Task: task, Data: data}
	of, run, _ := strings.Cut(string(kind), "\x00")
	w.Kind, w.RunID = checkpoint.WriteKind(of), run
	if rest, ok := bytes.CutPrefix(data, []byte(runMark)); ok && w.Kind == checkpoint.Done {
		r := Reader{Rest: rest}
		name := r.Bytes()
		if !r.Bad {
			w.RunID, w.Data = string(name), r.Rest
		}
	}
	return w
}

// Latest returns the effective pending writes: for each task and kind, the last write, at
// the position of the first. It reuses the memory of all.
func Latest(all []checkpoint.Write) []checkpoint.Write {
	out := all[:0]
	for _, w := range all {
		same := func(o checkpoint.Write) bool { return o.Task == w.Task && o.Kind == w.Kind }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = w
		} else {
			out = append(out, w)
		}
	}
	return out
}
