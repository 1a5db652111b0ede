package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/store"
)

const (
	exportHead = `{"format":"treadle store","version":1}` + "\n"
	tea        = `{"namespace":["u"],"key":"k","kind":"put","created":"2026-03-01T12:00:00Z","updated":"2026-03-01T12:00:00Z","value":{"t":"tea"}}` + "\n"
)

func memoryStore(t testing.TB, o *store.Options) *store.Store {
	t.Helper()
	s, err := store.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exportOf(t testing.TB, s *store.Store) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Export(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// changed returns the line for tea with some members replaced, added, or (with
// "") removed.
func changed(t testing.TB, members ...string) string {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(tea), &v); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(members); i += 2 {
		delete(v, members[i])
		if members[i+1] != "" {
			v[members[i]] = json.RawMessage(members[i+1])
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

func TestImportReportsDamagedLine(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for name, test := range map[string]struct {
		file, want string
		line       int
	}{
		"empty file":               {"", "empty", 1},
		"other format":             {`{"format":"mem0"}` + "\n", "invalid export header", 1},
		"no header":                {tea, "invalid export header", 1},
		"later version":            {`{"format":"treadle store","version":2}` + "\n", "newer program", 1},
		"no version":               {`{"format":"treadle store"}` + "\n", "no version", 1},
		"not JSON":                 {exportHead + "hello\n", "not a JSON object", 2},
		"array":                    {exportHead + "[1]\n", "not a JSON object", 2},
		"truncated line":           {exportHead + tea + tea[:60], "invalid JSON", 3},
		"two objects in a line":    {exportHead + strings.TrimSpace(tea) + tea, "data after", 2},
		"missing last line":        {exportHead + tea, "truncated", 3},
		"missing line":             {exportHead + tea + `{"end":2}`, "want 2", 3},
		"data after the last line": {exportHead + tea + `{"end":1}` + "\n" + tea, "one export at a time", 4},
		"duplicate member":         {exportHead + strings.Replace(tea, `"key":"k"`, `"key":"k","key":"l"`, 1), `duplicate member "key"`, 2},
		"unknown member":           {exportHead + changed(t, "color", `"red"`), `"color"`, 2},
		"uppercase member":         {exportHead + strings.Replace(tea, `"key"`, `"KEY"`, 1), `missing member "key"`, 2},
		"no kind":                  {exportHead + changed(t, "kind", ""), `missing member "kind"`, 2},
		"unknown kind":             {exportHead + changed(t, "kind", `"forgotten"`), "forgotten", 2},
		"empty namespace":          {exportHead + changed(t, "namespace", "[]"), "namespace is empty", 2},
		"null namespace":           {exportHead + changed(t, "namespace", "null"), "invalid namespace: null", 2},
		"empty key":                {exportHead + changed(t, "key", `""`), "is empty", 2},
		"no time":                  {exportHead + changed(t, "updated", ""), `missing member "updated"`, 2},
		"time out of range":        {exportHead + changed(t, "updated", `"0001-01-01T00:00:00Z"`), "from 1970", 2},
		"invalid time":             {exportHead + changed(t, "created", `"yesterday"`), "yesterday", 2},
		"number as time":           {exportHead + changed(t, "created", `17`), "invalid created: 17", 2},
		"no value":                 {exportHead + changed(t, "value", ""), `missing member "value"`, 2},
		"list as value":            {exportHead + changed(t, "value", "[]"), "not a JSON object", 2},
		"null meta":                {exportHead + changed(t, "meta", "null"), "not a JSON object", 2},
		"deeply nested value":      {exportHead + strings.Replace(tea, `{"t":"tea"}`, deep, 1), "depth", 2},
		"expiry without TTL":       {exportHead + changed(t, "expires", `"2026-03-01T12:00:00Z"`), "requires ttl_micros", 2},
		"TTL without expiry":       {exportHead + changed(t, "ttl_micros", "5"), `missing member "expires"`, 2},
		"negative TTL":             {exportHead + changed(t, "ttl_micros", "-5", "expires", `"2026-03-01T12:00:00Z"`), "invalid ttl_micros -5", 2},
		"excessive TTL":            {exportHead + changed(t, "ttl_micros", "9223372036854775807", "expires", `"2026-03-01T12:00:00Z"`), "ttl_micros", 2},
		"deletion with value":      {exportHead + changed(t, "kind", `"deleted"`), `only for "put"`, 2},
		"index true":               {exportHead + changed(t, "index", "true"), "list of paths", 2},
		"empty index":              {exportHead + changed(t, "index", "[]"), "list of paths", 2},
		"invalid path":             {exportHead + changed(t, "index", `["a[b"]`), "index path", 2},
		"invalid UTF-8":            {exportHead + strings.Replace(tea, `"k"`, "\"k\xff\"", 1), "UTF-8", 2},
		"end with other members":   {exportHead + `{"end":0,"key":"k"}`, "last line", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := memoryStore(t, nil)
			report, err := s.Import(t.Context(), strings.NewReader(test.file))
			e, ok := errors.AsType[*store.ImportError](err)
			if !ok || e.Line != test.line || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want line %d and %q", err, test.line, test.want)
			}
			if items, err := s.Search(t.Context(), nil, nil); err != nil || len(items) != report.Versions {
				t.Errorf("%v: got %d items and %d reported versions", err, len(items), report.Versions)
			}
		})
	}
}

func TestHugeItemsAreExported(t *testing.T) {
	from := memoryStore(t, nil)
	huge := strings.Repeat("é<\\\"", 10_000)
	for i := range 12 {
		if err := from.Put(t.Context(), store.Namespace{"u"}, fmt.Sprint(i), map[string]string{"t": huge}, &store.PutOptions{NoIndex: true}); err != nil {
			t.Fatal(err)
		}
	}
	file, to := exportOf(t, from), memoryStore(t, nil)
	if _, err := to.Import(t.Context(), strings.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if exportOf(t, to) != file {
		t.Error("import differs from the export")
	}
}

// A clock that was set back leaves versions with decreasing times. An export
// preserves them, because a store can contain them.
func TestDecreasingTimesAreExported(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	from := memoryStore(t, &store.Options{Now: func() time.Time { return now }})
	for i := range 4 {
		if err := from.Put(t.Context(), store.Namespace{"u"}, "k", map[string]int{"v": i}, nil); err != nil {
			t.Fatal(err)
		}
		now = now.Add(-time.Hour)
	}
	file, to := exportOf(t, from), memoryStore(t, nil)
	for range 2 {
		if r, err := to.Import(t.Context(), strings.NewReader(file)); err != nil || len(r.Conflicts) > 0 {
			t.Fatal(r, err)
		}
	}
	if got := exportOf(t, to); got != file {
		t.Errorf("got\n%swant\n%s", got, file)
	}
	item, err := to.Get(t.Context(), store.Namespace{"u"}, "k", nil)
	if err != nil || !item.Updated.Before(item.Created) {
		t.Errorf("%v: got created %v and updated %v", err, item.Created, item.Updated)
	}
}

func TestUnicodeFormsAreDistinctNames(t *testing.T) {
	from := memoryStore(t, nil)
	for _, name := range []string{"é", "e\u0301", "É", "\u0000", "a/b", `a"b`, "日本", "\u2028"} {
		if err := from.Put(t.Context(), store.Namespace{name, "x"}, name, map[string]string{name: name}, nil); err != nil {
			t.Fatal(err)
		}
	}
	file, to := exportOf(t, from), memoryStore(t, nil)
	if r, err := to.Import(t.Context(), strings.NewReader(file)); err != nil || r.Versions != 8 {
		t.Fatal(r, err)
	}
	if exportOf(t, to) != file {
		t.Error("import differs from the export")
	}
}

func TestDuplicateMembersAreExported(t *testing.T) {
	from, to := memoryStore(t, nil), memoryStore(t, nil)
	value := json.RawMessage(`{"a":1,"a":2.0,"n":12345678901234567890}`)
	if err := from.Put(t.Context(), store.Namespace{"u"}, "k", value, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Import(t.Context(), strings.NewReader(exportOf(t, from))); err != nil {
		t.Fatal(err)
	}
	if item, err := to.Get(t.Context(), store.Namespace{"u"}, "k", nil); err != nil || !bytes.Equal(item.Value, value) {
		t.Errorf("%v: got value %s", err, item.Value)
	}
}

func TestEncryptedStoreExportsPlaintext(t *testing.T) {
	from := memoryStore(t, nil)
	if err := from.Put(t.Context(), store.Namespace{"u"}, "k", map[string]string{"t": "tea"}, &store.PutOptions{Index: []string{"t"}}); err != nil {
		t.Fatal(err)
	}
	file := exportOf(t, from)
	sealed, err := store.New(sealedBackend(t, store.NewMemoryBackend(), storeKey(1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := sealed.Import(t.Context(), strings.NewReader(file)); err != nil {
			t.Fatal(err)
		}
	}
	if got := exportOf(t, sealed); got != file {
		t.Errorf("got\n%swant\n%s", got, file)
	}
}

// broken is a writer that fails after some bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestReaderAndWriterErrorsAreReturned(t *testing.T) {
	s := memoryStore(t, nil)
	if err := s.Put(t.Context(), store.Namespace{"u"}, "k", map[string]int{"v": 1}, nil); err != nil {
		t.Fatal(err)
	}
	file := exportOf(t, s)
	for left := range len(file) {
		if _, err := s.Export(t.Context(), &broken{left}); !strings.Contains(fmt.Sprint(err), "disk full") {
			t.Errorf("with room for %d bytes: got error %v", left, err)
		}
		torn := io.MultiReader(strings.NewReader(file[:left]), readError{})
		if _, err := memoryStore(t, nil).Import(t.Context(), torn); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %d bytes: got error %v", left, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := memoryStore(t, nil).Import(ctx, strings.NewReader(file)); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	if _, err := s.Import(t.Context(), nil); err == nil {
		t.Error("nil reader accepted")
	}
	if _, err := s.Export(t.Context(), nil); err == nil {
		t.Error("nil writer accepted")
	}
	if _, err := s.Export(t.Context(), io.Discard, store.Namespace{""}); err == nil {
		t.Error("empty segment accepted")
	}
	var none *store.Store
	if _, err := none.Import(t.Context(), strings.NewReader(file)); !errors.Is(err, store.ErrNoStore) {
		t.Errorf("got error %v", err)
	}
	if _, err := none.Export(t.Context(), io.Discard); !errors.Is(err, store.ErrNoStore) {
		t.Errorf("got error %v", err)
	}
}

type readError struct{}

func (readError) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Importing the file again completes an import that stopped anywhere.
func TestCutOffImportIsCompletedByNext(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		file := randomExport(t, rnd)
		to := memoryStore(t, nil)
		for range 3 {
			cut := file[:rnd.IntN(len(file))]
			if _, err := to.Import(t.Context(), strings.NewReader(cut)); err == nil {
				t.Fatalf("seed %d: truncated file accepted", seed)
			}
		}
		r, err := to.Import(t.Context(), strings.NewReader(file))
		if err != nil || len(r.Conflicts) > 0 {
			t.Fatalf("seed %d: %+v, %v", seed, r, err)
		}
		if got := exportOf(t, to); got != file {
			t.Fatalf("seed %d: got\n%swant\n%s", seed, got, file)
		}
	}
}

// randomExport returns an export of a store after random changes.
func randomExport(t testing.TB, rnd *rand.Rand) string {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := memoryStore(t, &store.Options{Now: func() time.Time { return now }, History: 1 + rnd.IntN(5)})
	for range 40 {
		n, key := store.Namespace{"u", fmt.Sprint(rnd.IntN(2))}, fmt.Sprint(rnd.IntN(3))
		var err error
		switch rnd.IntN(8) {
		case 0:
			err = s.Delete(t.Context(), n, key, nil)
		case 1:
			_, err = s.Sweep(t.Context())
		case 2:
			err = s.Forget(t.Context(), n, key)
		case 3:
			if _, err = s.Get(t.Context(), n, key, nil); errors.Is(err, store.ErrNotFound) {
				err = nil
			}
		default:
			o := &store.PutOptions{TTL: time.Duration(rnd.IntN(2)*3) * time.Minute}
			if rnd.IntN(3) == 0 {
				o.Meta = map[string]int{"m": rnd.IntN(9)}
			}
			err = s.Put(t.Context(), n, key, map[string]int{"v": rnd.IntN(4)}, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Duration(rnd.IntN(90)) * time.Second)
	}
	return exportOf(t, s)
}

// No input makes an import panic, and accepted input can be exported and
// imported again.
func FuzzImport(f *testing.F) {
	f.Add(exportHead + tea + `{"end":1}`)
	f.Add(exportHead + `{"end":0}`)
	f.Add(randomExport(f, rand.New(rand.NewPCG(1, 1))))
	f.Add(exportHead + changed(f, "kind", `"deleted"`, "value", "", "created", "") + `{"end":1}`)
	f.Add(exportHead + changed(f, "index", `["a.b[*]"]`, "meta", `{"a":[]}`) + `{"end":1}`)
	f.Add("\xff\n{\n")
	f.Fuzz(func(t *testing.T, file string) {
		s := memoryStore(t, nil)
		if _, err := s.Import(t.Context(), strings.NewReader(file)); err != nil {
			if _, ok := errors.AsType[*store.ImportError](err); !ok {
				t.Fatalf("got error %v, want one that names a line", err)
			}
		}
		first, again := exportOf(t, s), memoryStore(t, nil)
		if r, err := again.Import(t.Context(), strings.NewReader(first)); err != nil || len(r.Conflicts) > 0 {
			t.Fatalf("%+v, %v:\n%s", r, err, first)
		}
		if second := exportOf(t, again); !slices.Equal(strings.Split(first, "\n"), strings.Split(second, "\n")) {
			t.Fatalf("got\n%swant\n%s", second, first)
		}
	})
}
