package saved

import (
	"bytes"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// A pending write is a row of task, kind and data, of which task and kind are the
// key. The run that recorded it is kept in these columns, which are older than
// runs of writes are: in the kind, so that each run has a row of its own; but for
// a result in front of the data, since there is one of a task and the next
// checkpoint removes it by its kind.

// runMark is in front of the data of a result with a run. Nothing else begins so:
// data is JSON, or encrypted and then random from its second byte on.
const runMark = "\x00treadle run\x00"

// WriteRow are the kind and data of a pending write's row.
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

// ParseWrite is the pending write of a row.
func ParseWrite(task string, kind, data []byte) checkpoint.Write {
	w := checkpoint.Write{Task: task, Data: data}
	of, run, _ := strings.Cut(string(kind), "\x00")
	w.Kind, w.RunID = checkpoint.WriteKind(of), run
	if rest, ok := bytes.CutPrefix(data, []byte(runMark)); ok && w.Kind == checkpoint.Done {
		r := Reader{Rest: rest}
		if name := r.Bytes(); !r.Bad {
			w.RunID, w.Data = string(name), r.Rest
		}
	}
	return w
}

// Latest are those of the pending writes that count: of several of a task and
// kind the last, at the place of the first.
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
