package deep

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
)

// mediaKey is the metadata of a tool result that lists the paths of its media.
const mediaKey = "media_files"

// moveMedia writes the large media of a result to files named by their content, so that equal
// media are saved once. A text with the path takes the place of each. The result of read_file
// refers to such a file, too, but its other media stay, because they are in files already. Media
// that cannot be written, or shown by read_file, stay.
func (f *fileSystem) moveMedia(ctx context.Context, call llm.ToolCall, m llm.Message) (llm.Message, bool) {
	var paths []string
	blocks := m.Blocks
	for i, b := range m.Blocks {
		ext := extensionOf(b)
		if base64.StdEncoding.EncodedLen(len(b.Data)) <= f.ResultLimit || int64(len(b.Data)) > f.FileLimit || ext == "" {
			continue
		}
		p := dirResults + "/" + string(files.VersionOf(b.Data)) + ext
		old, err := f.current(ctx, p)
		if err == nil && old == nil && call.Name != toolRead {
			old, err = b.Data, f.Backend.Write(ctx, p, b.Data, files.Absent)
		}
		if err != nil {
			treadle.LoggerFrom(ctx).WarnContext(ctx, "large media not written to a file", "tool", call.Name, "call", call.ID, "error", err)
		}
		if err != nil || old == nil {
			continue
		}
		if paths == nil {
			blocks = slices.Clone(blocks)
		}
		paths = append(paths, p)
		blocks[i] = llm.Text(fmt.Sprintf("[%s, %d bytes, in %s: use %s to see it in a later answer.]", b.MIMEType, len(b.Data), p, toolRead))
	}
	if paths == nil {
		return m, false
	}
	m.Blocks = blocks
	if m.Metadata = maps.Clone(m.Metadata); m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	m.Metadata[mediaKey] = paths
	return m, true
}

// withMedia returns messages as the model sees them: with the media of results that it has not
// seen yet, which moveMedia has written to files.
func withMedia(ms llm.Messages, saved files.Records) llm.Messages {
	out, copied := ms, false
	for i := len(ms) - 1; i >= 0 && ms[i].Role != llm.RoleAI; i-- {
		blocks := mediaOf(&ms[i], saved)
		if len(blocks) == 0 {
			continue
		}
		if !copied {
			out, copied = slices.Clone(ms), true
		}
		out[i].Blocks = slices.Concat(ms[i].Blocks, blocks)
	}
	return out
}

// mediaOf returns the media that a result refers to. Media whose file was deleted are missing.
func mediaOf(m *llm.Message, saved files.Records) []llm.Block {
	var paths []string
	switch v := m.Metadata[mediaKey].(type) {
	case []string:
		paths = v
	case []any: // decoded
		for _, one := range v {
			p, _ := one.(string)
			paths = append(paths, p)
		}
	}
	var out []llm.Block
	for _, p := range paths {
		if r := saved[p]; r != nil && m.Role == llm.RoleTool {
			if b, ok := mediaBlock(p, r.Content); ok {
				out = append(out, b)
			}
		}
	}
	return out
}

// mediaBlock returns the block for a file whose extension is not that of a text.
func mediaBlock(p string, raw []byte) (llm.Block, bool) {
	kind, ok := media[strings.ToLower(path.Ext(p))]
	if !ok {
		return llm.Block{}, false
	}
	if kind.block == llm.BlockFile {
		return llm.File(path.Base(p), kind.mime, raw), true
	}
	return llm.Block{Type: kind.block, MIMEType: kind.mime, Data: raw}, true
}

// extensionOf returns the extension of a file that mediaBlock reads as b, or "".
func extensionOf(b llm.Block) string {
	for _, ext := range slices.Sorted(maps.Keys(media)) {
		if kind := media[ext]; kind.block == b.Type && kind.mime == b.MIMEType {
			return ext
		}
	}
	return ""
}
