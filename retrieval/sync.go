package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unicode/utf8"

	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/store"
)

// SyncOptions configures [Index.Sync]. A nil *SyncOptions means the defaults.
type SyncOptions struct {
	// Workers is the number of sources processed at a time; 0 means the number of
	// processors, at most 4. A worker needs memory for the content of one source, its
	// documents and chunks, and for 256 other chunks.
	Workers int
	// Progress, if not nil, is called for each source, never concurrently.
	Progress func(Progress)
	// Rebuild parses and splits all sources again, as if their contents had changed. Use it
	// after changing a parser: Sync recognizes changed contents and splitters by itself.
	Rebuild bool
}

// Sync makes the index match the sources of a loader: it adds new sources, updates those
// whose content has changed, and deletes those that the loader does not list. It recognizes
// changes by a hash of the content, and writes only the chunks that differ.
//
// Sync writes while it reads. After an error or a crash, call it again: it continues where
// the last one stopped. A source with at most 256 chunks changes all at once; a search that
// runs while a longer one is written may find old and new chunks of it. Several processes
// may sync an index at a time, with the same loader and splitter; they may write a source twice,
// but never mix its contents.
//
// A source without usable text does not make Sync fail; the report lists it with the reason.
// Sync fails if the loader cannot list all sources, or if the store or its embedder fails.
// The report is never nil and covers all completed work.
func (x *Index) Sync(ctx context.Context, load Loader, opts *SyncOptions) (*Report, error) {
	s := &syncer{x: x, seen: map[string]bool{}, report: &Report{}}
	if opts != nil {
		s.o = *opts
	}
	if load == nil {
		return s.report, errors.New("retrieval: sync: nil loader")
	}
	s.o.Workers = max(1, cmp.Or(s.o.Workers, min(4, runtime.GOMAXPROCS(0))))
	defer s.report.sort()
	var err error
	if s.records, err = x.records(ctx); err != nil {
		return s.report, err
	}
	if err := s.all(ctx, load); err != nil {
		return s.report, err
	}
	return s.report, s.deleteUnlisted(ctx)
}

// syncer is one call of Sync.
type syncer struct {
	x       *Index
	o       SyncOptions
	records map[string]record // as of the start
	seen    map[string]bool   // used only by the goroutine that lists

	mu     sync.Mutex
	report *Report
}

// listed is a source as its loader yielded it.
type listed struct {
	source Source
	err    error
}

// all processes the sources of the loader.
func (s *syncer) all(ctx context.Context, load Loader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan listed)
	var wait sync.WaitGroup
	for range s.o.Workers {
		wait.Go(func() {
			if err := s.worker(ctx, work); err != nil {
				cancel(err)
			}
		})
	}
	err := s.list(ctx, load, work)
	if err != nil {
		cancel(err)
	}
	close(work)
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// list passes the sources of the loader to the workers.
func (s *syncer) list(ctx context.Context, load Loader, work chan<- listed) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("retrieval: sync: loader: ", p)
		}
	}()
	for source, err := range load(ctx) {
		switch {
		case source.Name == "" && err == nil:
			return errors.New("retrieval: sync: loader yields a source without a name")
		case source.Name == "":
			return err
		case s.seen[source.Name]:
			return fmt.Errorf("retrieval: sync: loader yields two sources with the name %q", source.Name)
		}
		s.seen[source.Name] = true
		select {
		case work <- listed{source, err}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// worker processes sources. It writes the small ones together.
func (s *syncer) worker(ctx context.Context, work <-chan listed) error {
	var g group
	for l := range work {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c := s.read(ctx, l)
		if c == nil {
			continue
		}
		if g.size+len(c.chunks) > maxPuts || len(g.contents) == maxPuts {
			if err := s.flush(ctx, &g); err != nil {
				return err
			}
		}
		g.contents = append(g.contents, c)
		g.size += len(c.chunks)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.flush(ctx, &g)
}

// group is a number of sources to write in one batch.
type group struct {
	contents []*content
	size     int // chunks
}

// read returns the content that the index should have for a source, or nil if it is current.
func (s *syncer) read(ctx context.Context, l listed) *content {
	c := &content{source: l.source}
	var raw []byte
	if l.err == nil {
		raw, l.err = readSource(ctx, l.source)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case l.err != nil && !errors.Is(l.err, ErrSkip):
		s.done(Progress{Source: l.source.Name, Status: Failed, Reason: l.err.Error()})
		return nil
	case l.err != nil:
		c.skipped = l.err.Error()
		c.hash = hashOf("", []byte(c.skipped))
	default:
		c.hash = hashOf(s.x.splitter.name, raw)
	}
	r, known := s.records[l.source.Name]
	if known && r.has(c.hash) && !s.o.Rebuild {
		s.finished(c, r, r, 0)
		return nil
	}
	if l.err == nil {
		c.chunks, l.err = s.x.parse(ctx, l.source, raw)
		if ctx.Err() != nil {
			return nil
		}
		if l.err != nil {
			c.skipped = l.err.Error()
		}
	}
	return c
}

func readSource(ctx context.Context, source Source) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("", p)
		}
	}()
	if source.Read == nil {
		return nil, errors.New("nil Read")
	}
	return source.Read(ctx)
}

// parse returns the chunks of a source. The content is untrusted, so a panic of the parser is
// an error.
func (x *Index) parse(ctx context.Context, source Source, raw []byte) (chunks []Chunk, err error) {
	defer func() {
		if p := recover(); p != nil {
			chunks, err = nil, caught.New("parser: ", p)
		}
	}()
	if source.Parse == nil {
		return nil, errors.New("nil Parse")
	}
	docs, err := source.Parse(ctx, source.Name, raw)
	if err != nil {
		return nil, err
	}
	sizes := make([]int, len(docs)) // of each Meta as JSON
	for i, d := range docs {
		if !utf8.ValidString(d.Text) || !utf8.ValidString(d.ID) {
			return nil, errors.New("invalid UTF-8 in the text of a document")
		}
		encoded, err := encode(&Chunk{Meta: d.Meta})
		if err != nil {
			return nil, fmt.Errorf("meta of document %q: %w", d.ID, err)
		}
		if sizes[i] = len(encoded); sizes[i] > maxMeta {
			return nil, fmt.Errorf("meta of document %q exceeds %d bytes", d.ID, maxMeta)
		}
	}
	if chunks, err = x.chunksOf(source.Name, docs, sizes); err == nil && len(chunks) == 0 {
		err = errors.New("no text")
	}
	return chunks, err
}

// Limits of what each chunk repeats. Without them, a small source could fill the disk.
const (
	maxMeta     = 64 << 10  // bytes of a document's Meta as JSON
	maxRepeated = 128 << 20 // bytes of Meta and headings in all chunks of a source
)

// flush writes the sources of a group, in one batch if possible.
func (s *syncer) flush(ctx context.Context, g *group) error {
	contents := g.contents
	*g = group{}
	if len(contents) == 0 {
		return nil
	}
	var ops []store.Op
	steps := make([]*step, len(contents))
	together := len(contents) > 1
	for i, c := range contents {
		if !together {
			break
		}
		var err error
		if steps[i], err = s.x.step(ctx, c, s.recordOf(c)); err != nil {
			return err
		}
		together = steps[i].last
		ops = append(ops, steps[i].ops...)
	}
	if together {
		_, err := s.x.store.Batch(ctx, ops...)
		if err == nil {
			for i, c := range contents {
				s.finished(c, s.recordOf(c), steps[i].after, steps[i].puts)
			}
			return nil
		}
		if !alone(err) {
			return fmt.Errorf("retrieval: write chunks: %w", err)
		}
	}
	for _, c := range contents {
		if err := s.write(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// alone reports whether a batch failed because of one of its sources.
func alone(err error) bool {
	_, conflict := errors.AsType[*store.ConflictError](err)
	_, invalid := errors.AsType[*store.InvalidError](err)
	return conflict || invalid
}

func (s *syncer) recordOf(c *content) record {
	if r, ok := s.records[c.source.Name]; ok {
		return r
	}
	return record{Source: c.source.Name}
}

// maxFights limits how often concurrent syncs may start to write different content of the same
// source; then write returns an error.
const maxFights = 20

// write writes a source in as many batches as it needs. Two syncs that write the same content
// continue each other's work, so they always make progress.
func (s *syncer) write(ctx context.Context, c *content) error {
	first := s.recordOf(c)
	r, puts, fights := first, 0, 0
	for {
		if fights > 0 && (r.has(c.hash) && !s.o.Rebuild || c.remove && r.version == 0) {
			s.finished(c, r, r, puts)
			return nil
		}
		step, err := s.x.step(ctx, c, r)
		if err != nil {
			return err
		}
		results, err := s.x.store.Batch(ctx, step.ops...)
		if invalid, ok := errors.AsType[*store.InvalidError](err); ok && c.skipped == "" {
			c.chunks, c.skipped = nil, invalid.Error()
			continue
		}
		if _, ok := errors.AsType[*store.ConflictError](err); ok {
			fights++
			if fights > maxFights {
				s.done(Progress{Source: c.source.Name, Status: Failed, Reason: "another sync keeps writing it: give both the same loader and splitter"})
				return nil
			}
			if c, r, err = s.again(ctx, c); err != nil || c == nil {
				return err
			}
			if c.remove && r.version > 0 && (r.Next == nil || r.Next.Hash != "") {
				return nil // another sync, which listed the sources later, has written it
			}
			if r.Next != nil && r.Next.Hash == c.hash {
				fights = 1 // the other sync helps
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("retrieval: write chunks of %q: %w", c.source.Name, err)
		}
		puts += step.puts
		if step.last {
			s.finished(c, first, step.after, puts)
			return nil
		}
		item := results[len(results)-1].Item
		if r, err = recordOf(item); err != nil {
			return err
		}
	}
}

// again reads a source that another sync has written in the meantime, because its content may
// have changed.
func (s *syncer) again(ctx context.Context, c *content) (*content, record, error) {
	r, err := s.x.record(ctx, c.source.Name)
	if err != nil || c.remove || c.skipped != "" || r.has(c.hash) || r.Next != nil && r.Next.Hash == c.hash {
		return c, r, err
	}
	raw, err := readSource(ctx, c.source)
	switch {
	case ctx.Err() != nil:
		return nil, r, context.Cause(ctx)
	case err != nil:
		s.done(Progress{Source: c.source.Name, Status: Failed, Reason: err.Error()})
		return nil, r, nil //nolint:nilerr // the error is in the report
	}
	newer := &content{source: c.source, hash: hashOf(s.x.splitter.name, raw)}
	if newer.chunks, err = s.x.parse(ctx, c.source, raw); err != nil {
		newer.skipped = err.Error()
	}
	return newer, r, nil
}

// deleteUnlisted deletes the sources that the loader has not listed.
func (s *syncer) deleteUnlisted(ctx context.Context) error {
	for name := range s.records {
		if s.seen[name] {
			continue
		}
		if err := s.write(ctx, &content{source: Source{Name: name}, remove: true}); err != nil {
			return err
		}
	}
	return nil
}

// finished reports a source whose record was before and is now after.
func (s *syncer) finished(c *content, before, after record, puts int) {
	p := Progress{Source: c.source.Name, Chunks: puts}
	switch {
	case c.remove && before.Skipped != "":
		return // it was never in the index
	case c.remove:
		p.Status = Deleted
	case after.Skipped != "":
		p.Status, p.Reason = Skipped, after.Skipped
	case before.has(after.Hash) && !s.o.Rebuild:
		p.Status = Unchanged
	case before.Hash == "" || before.Skipped != "":
		p.Status = Added
	default:
		p.Status = Updated
	}
	s.done(p)
}

func (s *syncer) done(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.add(p)
	if s.o.Progress != nil {
		s.o.Progress(p)
	}
}
