package retrieval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
)

// A Document is a text to index, with its place in the source that it comes from.
type Document struct {
	// ID identifies the document within its source, for example "row 7"; empty if it is
	// the only one.
	ID string
	// Text is valid UTF-8. All offsets refer to its bytes. For text, Markdown, and code, it
	// is the content of the file.
	Text string
	// Format selects the splitter: "markdown", "code", or empty for prose. See [Split].
	Format string
	// Line is the line of the source where Text starts, counting from 1; 0 if the lines of
	// Text are not lines of the source.
	Line int
	// Pages contains the offsets in Text where the pages start, if the source has pages.
	Pages []int
	// Meta contains further fields for filters, such as "author". It must be encodable as
	// JSON of at most 64 KiB.
	Meta map[string]any
}

// A Source is a file, a web page, or another unit that changes as a whole.
type Source struct {
	// Name identifies the source among the [Loader]'s sources, for example by its path.
	Name string
	// Read returns the content. A sync parses it only if it has changed. An error that
	// matches [ErrSkip] means that the source has no text for the index.
	Read func(ctx context.Context) ([]byte, error)
	// Parse extracts documents from the content. An error means that the content is
	// unusable.
	Parse Parser
}

// A Parser extracts documents from the content of the source with the given name. It is
// called for untrusted content: it must limit the time and memory that it takes.
type Parser func(ctx context.Context, name string, content []byte) ([]Document, error)

// A Loader lists sources. If the error of a pair is not nil, the sync does not index the
// source with this Name, and continues; if the Name is empty, the list is incomplete, and the
// sync fails without deleting anything. [Dir], [FS], and [Documents] return loaders.
type Loader func(ctx context.Context) iter.Seq2[Source, error]

// ErrSkip is matched by the error of a [Loader] or a Source.Read if the source has no text
// for the index, for example because it is an image. A sync then removes the source from
// the index. After any other error, the index keeps the text of the source, because it may
// be readable again later.
var ErrSkip = errors.New("skipped")

// Documents returns a loader with one source per document. The ID of each document must be
// unique; it becomes the name of its source.
func Documents(docs ...Document) Loader {
	return func(context.Context) iter.Seq2[Source, error] {
		return func(yield func(Source, error) bool) {
			for _, d := range docs {
				if !yield(sourceOf(d), nil) {
					return
				}
			}
		}
	}
}

func sourceOf(d Document) Source {
	name := d.ID
	d.ID = ""
	return Source{
		Name: name,
		Read: func(context.Context) ([]byte, error) { return json.Marshal(d) },
		Parse: func(context.Context, string, []byte) ([]Document, error) {
			return []Document{d}, nil
		},
	}
}

// hashOf returns the hash of a source's content and of everything else that its chunks
// depend on.
func hashOf(splitter string, content []byte) string {
	h := sha256.New()
	h.Write([]byte(format + "\x00" + splitter + "\x00"))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// format is the version of the parsers and of the stored chunks. Changing it makes a sync
// write all sources again.
const format = "1"
