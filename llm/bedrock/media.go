package bedrock

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// formats maps MIME types to the API's formats for each kind of media. The format
// of other MIME types is their subtype.
var formats = map[string]map[string]string{
	"image": {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"},
	"document": {"application/pdf": "pdf", "text/csv": "csv", "application/msword": "doc", "application/vnd.ms-excel": "xls", "text/html": "html",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
		"text/plain": "txt", "text/markdown": "md", "application/json": "txt"},
	"video": {"video/mp4": "mp4", "video/quicktime": "mov", "video/x-matroska": "mkv", "video/webm": "webm", "video/x-flv": "flv",
		"video/mpeg": "mpeg", "video/x-ms-wmv": "wmv", "video/3gpp": "three_gp"},
	"audio": {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/ogg": "ogg", "audio/opus": "opus",
		"audio/flac": "flac", "audio/aac": "aac", "audio/mp4": "m4a", "audio/x-m4a": "m4a", "audio/webm": "webm"},
}

// block returns a block of a user message or tool result in the API's format.
func (h *history) block(b llm.Block) (object, error) {
	switch b.Type {
	case llm.BlockText:
		return object{"text": b.Text}, nil
	case llm.BlockPlain:
		b.Data, b.MIMEType = []byte(b.Text), cmp.Or(b.MIMEType, "text/plain")
		return h.document(b)
	case llm.BlockFile:
		if kind, _, _ := strings.Cut(b.MIMEType, "/"); kind == "image" || kind == "audio" || kind == "video" {
			return media(kind, b)
		}
		return h.document(b)
	case llm.BlockImage, llm.BlockAudio, llm.BlockVideo:
		return media(b.Type, b)
	case nonStandard:
		if value, ok := b.Extra["value"].(map[string]any); ok {
			return value, nil
		}
	}
	return nil, fmt.Errorf("block of type %q, which Bedrock does not accept", b.Type)
}

func media(kind string, b llm.Block) (object, error) {
	source, mimeType, err := sourceOf(kind, b)
	if err != nil {
		return nil, err
	}
	format := formats[kind][mimeType]
	if format == "" {
		return nil, fmt.Errorf("%s of type %q: Bedrock accepts %s", kind, mimeType, supported(kind))
	}
	return object{kind: object{"format": format, "source": source}}, nil
}

// supported lists the formats of a kind of media.
func supported(kind string) string {
	var list []string
	for _, f := range formats[kind] {
		list = append(list, f)
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// sourceOf returns the bytes or the S3 location of media, and the MIME type.
func sourceOf(kind string, b llm.Block) (object, string, error) {
	mimeType, _, _ := mime.ParseMediaType(b.MIMEType)
	if head, data, ok := strings.Cut(strings.TrimPrefix(b.URL, "data:"), ";base64,"); ok && strings.HasPrefix(b.URL, "data:") {
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, "", fmt.Errorf("%s with an invalid data: URL: %w", kind, err)
		}
		b.Data, mimeType = raw, head
	}
	switch {
	case len(b.Data) > 0:
		if mimeType == "" {
			mimeType, _, _ = mime.ParseMediaType(http.DetectContentType(b.Data))
		}
		return object{"bytes": b.Data}, mimeType, nil
	case strings.HasPrefix(b.URL, "s3://"):
		if mimeType == "" {
			mimeType, _, _ = mime.ParseMediaType(mime.TypeByExtension(path.Ext(b.URL)))
		}
		location := object{"uri": b.URL}
		if owner, ok := b.Extra["bucket_owner"].(string); ok {
			location["bucketOwner"] = owner
		}
		return object{"s3Location": location}, mimeType, nil
	}
	return nil, "", fmt.Errorf("%s without Data (URL %q, file ID %q): Bedrock accepts only bytes and s3:// URLs: download it first", kind, b.URL, b.FileID)
}

func (h *history) document(b llm.Block) (object, error) {
	source, mimeType, err := sourceOf("document", b)
	if err != nil {
		return nil, err
	}
	format := formats["document"][mimeType]
	if format == "" {
		return nil, fmt.Errorf("file %q of type %q: Bedrock accepts %s", b.Filename(), mimeType, supported("document"))
	}
	doc := object{"format": format, "name": h.name(b), "source": source}
	for _, field := range []string{"context", "citations"} {
		if v, ok := b.Extra[field]; ok && v != nil {
			doc[field] = v
		}
	}
	return object{"document": doc}, nil
}

var (
	notInName = regexp.MustCompile(`[^a-zA-Z0-9\-()\[\] ]+`)
	spaces    = regexp.MustCompile(` {2,}`)
)

// name returns a document's name in the API's format. Names are unique within a
// request, and the same in each request of a conversation, as the prompt cache
// requires.
func (h *history) name(b llm.Block) string {
	name := strings.TrimSuffix(b.Filename(), path.Ext(b.Filename()))
	name = strings.TrimSpace(spaces.ReplaceAllString(notInName.ReplaceAllString(name, " "), " "))
	name = strings.TrimSpace(name[:min(len(name), 150)])
	if name == "" {
		sum := sha256.Sum256(append([]byte(b.URL), b.Data...))
		name = "document-" + hex.EncodeToString(sum[:4])
	}
	if h.names == nil {
		h.names = map[string]bool{}
	}
	unique := name
	for n := 2; h.names[unique]; n++ {
		unique = fmt.Sprintf("%s (%d)", name, n)
	}
	h.names[unique] = true
	return unique
}
