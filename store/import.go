package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"
)

// ImportReport is the result of [Store.Import].
type ImportReport struct {
	Versions int // number of versions added
	Same     int // number of versions that already existed
	// Older counts the versions not added because the store has newer versions of their
	// items. They may be history that the store no longer keeps.
	Older int
	// Conflicts contains the newest change of each item left unchanged because it was
	// changed in this store and the file's version is older.
	Conflicts []Change
}

// ImportError reports a line that cannot be imported. All lines before it have been
// imported; the line itself and all later lines have not.
type ImportError struct {
	Line int // line number, starting at 1
	Err  error
}

func (e *ImportError) Error() string {
	return fmt.Sprintf("store: import: line %d: %v; earlier lines were imported, and importing the file again adds the rest", e.Line, e.Err)
}

func (e *ImportError) Unwrap() error { return e.Err }

// Import adds the items written by [Store.Export] with their history, times, and meta. It
// keeps only Options.History versions of an item and embeds texts again.
//
// A version that the store already has is not added again, so importing a file twice adds
// nothing, and an interrupted import can be repeated. If an item was changed in both stores,
// the newer version becomes current, and the other remains in the history or is reported as a
// conflict. Items deleted in this store after the export stay deleted; forgotten items are
// imported again.
//
// A damaged line ends the import with an [*ImportError]. Versions are written in batches,
// each in one transaction. The report is not nil even if Import returns an error. Importing
// into a branch returns an error.
func (s *Store) Import(ctx context.Context, r io.Reader) (*ImportReport, error) {
	in := &importer{store: s, items: map[string]*importItem{}, report: &ImportReport{}}
	if err := s.ready(ctx); err != nil {
		return in.report, err
	}
	if r == nil {
		return in.report, &InvalidError{What: "reader", Reason: "is nil"}
	}
	if _, branch := s.backend.(*overlay); branch {
		return in.report, &InvalidError{What: "import", Reason: "requires the trunk, not a branch: use Store.Trunk, then create a branch"}
	}
	err := in.all(ctx, &lineReader{r: bufio.NewReaderSize(r, 64<<10), most: maxLine})
	conflicts := in.conflicts(ctx)
	if err == nil {
		err = conflicts
	}
	return in.report, err
}

const (
	importPage  = 256
	importBytes = 4 << 20
	// maxLine is the maximum length of a line: a value and a meta of maximum size, with
	// some room for escapes.
	maxLine = 4*MaxValue + 1<<20
)

// importer adds the versions of a file to a store.
type importer struct {
	store  *Store
	items  map[string]*importItem // by encoded namespace and key
	report *ImportReport

	// The versions to write with the next batch, each key at most once.
	batch []Write
	texts [][]text
	keys  map[string]bool
	size  int
}

// importItem is the import state of an item in the file.
type importItem struct {
	namespace Namespace
	key       string
	have      map[[sha256.Size]byte]bool // the versions in the store
	last      [sha256.Size]byte          // the newest of them, or the version before its expiry
	expired   bool                       // the newest version is of kind Expired
	updated   time.Time                  // of the newest version
	atLast    bool                       // the file's previous version is the newest one
	older     bool                       // the file's previous version was not added
}

func (in *importer) all(ctx context.Context, lines *lineReader) error {
	header, err := lines.next()
	if err == nil {
		err = checkHeader(header)
	} else if errors.Is(err, io.EOF) {
		err = errors.New("empty file")
	}
	if err != nil {
		return &ImportError{1, err}
	}
	versions := 0
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("file truncated after %d versions: last line missing", versions)
		}
		var w *Write
		var end *int
		if err == nil {
			w, end, err = in.store.parseLine(line)
		}
		if err == nil && end != nil {
			return in.end(ctx, lines, versions, *end)
		}
		if err == nil {
			versions++
			err = in.add(ctx, w)
			if _, invalid := errors.AsType[*InvalidError](err); err != nil && !invalid {
				return err // an error of the database or the embedder, not of this line
			}
		}
		if err != nil {
			if err := in.flush(ctx); err != nil {
				return err
			}
			return &ImportError{lines.line, err}
		}
	}
}

// end writes the last batch and checks that the file is complete.
func (in *importer) end(ctx context.Context, lines *lineReader, versions, want int) error {
	if err := in.flush(ctx); err != nil {
		return err
	}
	if versions != want {
		return &ImportError{lines.line, fmt.Errorf("file has %d versions, want %d: lines are missing or were added", versions, want)}
	}
	if _, err := lines.next(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("data after the last line of the export: import one export at a time")
		}
		return &ImportError{lines.line, err}
	}
	return nil
}

// add adds a version to the batch, unless the store has it or a newer version.
func (in *importer) add(ctx context.Context, w *Write) error {
	id := append(slices.Clone(w.Namespace), w.Key).Encode()
	item, err := in.item(ctx, id, w)
	if err != nil {
		return err
	}
	digest := versionDigest(w.Kind, w.Times.Created, w.Times.Updated, w.TTL, w.Value, w.Meta)
	swept := w.Kind == Expired && item.expired && item.atLast
	if item.have[digest] || swept {
		item.atLast, item.older = swept || digest == item.last, false
		in.report.Same++
		return nil
	}
	if len(item.have) > 0 && !item.atLast && !w.Times.Updated.After(item.updated) {
		item.older = true
		in.report.Older++
		return nil
	}
	if in.keys[id] || len(in.batch) >= importPage || in.size >= importBytes {
		if err := in.flush(ctx); err != nil {
			return err
		}
	}
	if w.Kind == Put {
		texts, err := in.store.texts(w.Value, w.Indexed.Paths)
		if err != nil {
			return &InvalidError{What: fmt.Sprintf("index of key %q in namespace %v", w.Key, w.Namespace), Reason: err.Error()}
		}
		in.texts = append(in.texts, texts)
	} else {
		in.texts = append(in.texts, nil)
	}
	if in.keys == nil {
		in.keys = map[string]bool{}
	}
	in.batch, in.keys[id] = append(in.batch, *w), true
	in.size += len(w.Value) + len(w.Meta)
	item.have[digest] = true
	item.last = digest
	item.updated = w.Times.Updated
	item.atLast = true
	item.older = false
	item.expired = w.Kind == Expired
	return nil
}

// item returns the import state of the item that w belongs to.
func (in *importer) item(ctx context.Context, id string, w *Write) (*importItem, error) {
	if item := in.items[id]; item != nil {
		return item, nil
	}
	item := &importItem{namespace: w.Namespace, key: w.Key, have: map[[sha256.Size]byte]bool{}}
	records, err := in.store.backend.History(ctx, w.Namespace, w.Key)
	if err != nil {
		return nil, fmt.Errorf("store: import: %w", err)
	}
	for i, r := range records { // newest first
		if r.Kind == Forgotten {
			break // no earlier versions remain
		}
		digest := versionDigest(r.Kind, r.Created, r.Updated, r.TTL, r.Value, r.Meta)
		item.have[digest] = true
		switch {
		case i == 0:
			item.updated, item.last, item.expired = r.Updated, digest, r.Kind == Expired
		case i == 1 && item.expired:
			item.last = digest // a sweep of this store wrote the newest record, so the file may lack it
		}
	}
	in.items[id] = item
	return item, nil
}

// versionDigest identifies a version. It excludes the expiry time, because reads change
// it.
func versionDigest(kind Kind, created, updated time.Time, ttl time.Duration, value, meta json.RawMessage) (digest [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d %d %d ", kind, created.UnixMicro(), updated.UnixMicro(), ttl.Microseconds(), len(value), len(meta))
	h.Write(value)
	h.Write(meta)
	h.Sum(digest[:0])
	return digest
}

// flush writes the batch.
func (in *importer) flush(ctx context.Context) error {
	if len(in.batch) == 0 {
		return nil
	}
	s := in.store
	var e embedding
	if s.opts.Embedder != nil {
		for _, texts := range in.texts {
			for _, t := range texts {
				e.add(t.text)
			}
		}
		if err := s.embed(ctx, &e); err != nil {
			return err
		}
	}
	for i := range in.batch {
		if w := &in.batch[i]; w.Kind == Put {
			w.Indexed = s.indexed(w.Indexed.Paths, in.texts[i], &e)
		}
	}
	if _, err := s.backend.Do(ctx, &Batch{Now: s.now(), Writes: in.batch}); err != nil {
		return fmt.Errorf("store: import: %w", err)
	}
	in.report.Versions += len(in.batch)
	in.batch = nil
	in.texts = nil
	in.keys = nil
	in.size = 0
	return nil
}

// conflicts reports the items whose newest version in the file was not added.
func (in *importer) conflicts(ctx context.Context) error {
	for _, id := range sortedIDs(in.items) {
		item := in.items[id]
		if !item.older {
			continue
		}
		records, err := in.store.backend.History(ctx, item.namespace, item.key)
		if err != nil {
			return fmt.Errorf("store: import: %w", err)
		}
		if len(records) > 0 {
			in.report.Conflicts = append(in.report.Conflicts, changeOf(records[0]))
		}
	}
	return nil
}

func sortedIDs(items map[string]*importItem) []string {
	ids := make([]string, 0, len(items))
	for id := range items {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func checkHeader(line []byte) error {
	members, err := lineMembers(line)
	if err != nil {
		return err
	}
	var h exportHeader
	if json.Unmarshal(members["format"], &h.Format) != nil || h.Format != exportFormat {
		return fmt.Errorf("invalid export header: want {\"format\":%q,\"version\":%d}", exportFormat, exportVersion)
	}
	if json.Unmarshal(members["version"], &h.Version) != nil || h.Version < 1 {
		return fmt.Errorf("export header has no version: want %d", exportVersion)
	}
	if h.Version > exportVersion {
		return fmt.Errorf("unsupported export version %d: this program reads version %d: use a newer program", h.Version, exportVersion)
	}
	return nil
}

// lineMembers returns the members of a JSON object. It rejects duplicate members,
// because parsers differ in which one they use.
func lineMembers(line []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("invalid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: %.40q", line)
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("invalid JSON: %w", orEOF(err))
		}
		if _, ok := members[name]; ok {
			return nil, fmt.Errorf("duplicate member %q", name)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("invalid JSON: %w", orEOF(err))
		}
		members[name] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", orEOF(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the JSON object")
	}
	return members, nil
}

// orEOF converts the end of a line to io.ErrUnexpectedEOF, so that it is not mistaken
// for the end of the file.
func orEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseLine parses a line after the header: a version, or the end.
func (s *Store) parseLine(line []byte) (w *Write, end *int, err error) {
	members, err := lineMembers(line)
	if err != nil {
		return nil, nil, err
	}
	if raw, ok := members["end"]; ok {
		var n int
		if len(members) > 1 || json.Unmarshal(raw, &n) != nil {
			return nil, nil, errors.New(`invalid last line: want {"end":n}`)
		}
		return nil, &n, nil
	}
	m := &importMembers{members: members}
	w = &Write{Kind: Put, Keep: s.opts.History, Times: &Times{}}
	m.read("namespace", &w.Namespace, true)
	m.read("key", &w.Key, true)
	m.read("kind", &w.Kind, true)
	put := w.Kind == Put
	w.Times.Updated = m.time("updated", true)
	w.Times.Created = m.time("created", put)
	var micros int64
	m.read("ttl_micros", &micros, false)
	w.Times.Expires = m.time("expires", micros != 0)
	index, value, meta := m.take("index", false), m.take("value", put), m.take("meta", false)
	switch {
	case m.err != nil:
		return nil, nil, m.err
	case len(m.members) > 0:
		return nil, nil, fmt.Errorf("unknown member %q", firstKey(m.members))
	case w.Kind != Put && w.Kind != Deleted && w.Kind != Expired:
		return nil, nil, fmt.Errorf("invalid kind %q: want %q, %q, or %q", w.Kind, Put, Deleted, Expired)
	case micros < 0 || micros > maxTTL:
		return nil, nil, fmt.Errorf("invalid ttl_micros %d: want 1 to %d", micros, maxTTL)
	case !w.Times.Expires.IsZero() && micros == 0:
		return nil, nil, errors.New("expires requires ttl_micros")
	case !put && (!w.Times.Created.IsZero() || micros != 0 || index != nil || value != nil || meta != nil):
		return nil, nil, fmt.Errorf("line of kind %q has members allowed only for %q", w.Kind, Put)
	}
	if err := checkKey(w.Namespace, w.Key); err != nil {
		return nil, nil, err
	}
	w.TTL = time.Duration(micros) * time.Microsecond
	if !put {
		return w, nil, nil
	}
	if w.Value, err = object(value); err != nil {
		return nil, nil, fmt.Errorf("value %w", err)
	}
	if meta != nil {
		if w.Meta, err = object(meta); err != nil {
			return nil, nil, fmt.Errorf("meta %w", err)
		}
	}
	w.Indexed.Paths, err = readIndex(index)
	return w, nil, err
}

const maxTTL = int64(1<<63-1) / int64(time.Microsecond)

// readIndex returns the Indexed.Paths encoded by a line's index.
func readIndex(raw json.RawMessage) (string, error) {
	var paths []string
	switch {
	case raw == nil:
		return "", nil
	case string(raw) == "false":
		return noPaths, nil
	case json.Unmarshal(raw, &paths) != nil || len(paths) == 0:
		return "", errors.New("invalid index: want a list of paths, or false")
	}
	for _, p := range paths {
		if _, err := parsePath(p); err != nil {
			return "", fmt.Errorf("index path %.80q %w", p, err)
		}
	}
	out, err := json.Marshal(paths)
	return string(out), err
}

func firstKey(members map[string]json.RawMessage) string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	return slices.Min(names)
}

// importMembers removes the members of a line one by one.
type importMembers struct {
	members map[string]json.RawMessage
	err     error // the first error
}

// take removes and returns a member; it returns nil if the member is absent.
func (m *importMembers) take(name string, required bool) json.RawMessage {
	raw, ok := m.members[name]
	delete(m.members, name)
	if m.err == nil && required && !ok {
		m.err = fmt.Errorf("missing member %q", name)
	}
	return raw
}

func (m *importMembers) read(name string, into any, required bool) {
	raw := m.take(name, required)
	if raw == nil || m.err != nil {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil || string(raw) == "null" {
		m.err = fmt.Errorf("invalid %s: %.60s", name, raw)
	}
}

// time reads a time. Databases store microseconds since 1970, with 0 meaning no time.
func (m *importMembers) time(name string, required bool) time.Time {
	var t time.Time
	raw := m.members[name]
	m.read(name, &t, required)
	if raw == nil || m.err != nil {
		return time.Time{}
	}
	if t = wholeMicros(t); t.Year() > 9999 || t.UnixMicro() <= 0 {
		m.err = fmt.Errorf("%s is out of range: %.60s: want a time from 1970 to 9999", name, raw)
	}
	return t
}

// lineReader reads lines of limited length and skips blank lines.
type lineReader struct {
	r    *bufio.Reader
	most int // the maximum length of a line
	line int // the number of the last line read
}

// next returns the next line, or io.EOF.
func (l *lineReader) next() ([]byte, error) {
	for {
		l.line++
		var line []byte
		for {
			part, err := l.r.ReadSlice('\n')
			line = append(line, part...)
			switch {
			case len(line) > l.most:
				return nil, fmt.Errorf("line exceeds %d bytes", l.most)
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) == 0:
				return nil, io.EOF
			case err != nil && !errors.Is(err, io.EOF):
				return nil, err
			}
			break
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}
