package uselite

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// modelFiles returns the files of the real model, for a test to replace some.
// The contents are shared and must not be modified.
func modelFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	openModel(t) // fails with instructions if the files are missing
	files, err := readModelFiles()
	if err != nil {
		t.Fatal(err)
	}
	return maps.Clone(files)
}

var readModelFiles = sync.OnceValues(func() (fstest.MapFS, error) {
	files := fstest.MapFS{}
	entries, err := os.ReadDir(modelDir)
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(modelDir, entry.Name()))
		if err != nil {
			return nil, err
		}
		if entry.Name() == "model.json" {
			// Remove line breaks, so that a test can refer to what it changes.
			var compact bytes.Buffer
			if err := json.Compact(&compact, content); err != nil {
				return nil, err
			}
			content = compact.Bytes()
		}
		files[entry.Name()] = &fstest.MapFile{Data: content}
	}
	return files, err
})

// rewrite replaces text in a file.
func rewrite(t *testing.T, files fstest.MapFS, name, old, with string) {
	t.Helper()
	before := files[name].Data
	after := bytes.Replace(before, []byte(old), []byte(with), 1)
	if bytes.Equal(before, after) {
		t.Fatalf("%s does not contain %s", name, old)
	}
	files[name] = &fstest.MapFile{Data: after}
}

// overwrite replaces the first number of a tensor.
func overwrite(t *testing.T, files fstest.MapFS, tensor string, bits uint32) {
	t.Helper()
	m, err := parseManifest(files["model.json"].Data)
	if err != nil {
		t.Fatal(err)
	}
	offset := m.tensors[tensor].offset
	for _, name := range m.shards {
		size := int64(len(files[name].Data))
		if offset < size {
			data := bytes.Clone(files[name].Data)
			binary.LittleEndian.PutUint32(data[offset:], bits)
			files[name] = &fstest.MapFile{Data: data}
			return
		}
		offset -= size
	}
	t.Fatalf("missing tensor %q", tensor)
}

func TestOpenReportsInvalidFiles(t *testing.T) {
	const (
		not   = ": not the Universal Sentence Encoder lite"
		table = "module/Embeddings_en"
		scale = "module_apply_default/Encoder_en/KonaTransformer/Encode/TransformerStack/Layer_0/TransformerLayer/MultiheadAttention/mul/y"
	)
	replace := func(name, content string) func(*testing.T, fstest.MapFS) {
		return func(_ *testing.T, files fstest.MapFS) { files[name] = &fstest.MapFile{Data: []byte(content)} }
	}
	edit := func(name, old, with string) func(*testing.T, fstest.MapFS) {
		return func(t *testing.T, files fstest.MapFS) { rewrite(t, files, name, old, with) }
	}
	remove := func(name string) func(*testing.T, fstest.MapFS) {
		return func(_ *testing.T, files fstest.MapFS) { delete(files, name) }
	}
	weights := func(list string) func(*testing.T, fstest.MapFS) {
		return replace("model.json", `{"weightsManifest": [{"paths": ["a"], "weights": [`+list+`]}]}`)
	}
	for _, test := range []struct {
		name   string
		change func(*testing.T, fstest.MapFS)
		want   string
	}{
		{"no model", remove("model.json"), "open model.json: file does not exist"},
		{"no vocabulary", remove("vocab.json"), "open vocab.json: file does not exist"},
		{"missing shard", remove("group1-shard3of7"),
			"missing shard: open group1-shard3of7: file does not exist"},
		{"short shard", replace("group1-shard3of7", "short"),
			"shards have 23709357 bytes, but the tensors in model.json have 27903656: use files from the same source"},
		{"long shard", replace("group1-shard7of7", strings.Repeat("x", 2737833)),
			"group1-shard7of7 has 2737833 bytes, over the limit of 2737832"},
		{"directory as shard", func(_ *testing.T, files fstest.MapFS) {
			files["group1-shard1of7"] = &fstest.MapFile{Mode: fs.ModeDir}
		}, "group1-shard1of7 is not a regular file"},
		{"shard in another directory", edit("model.json", `"group1-shard1of7"`, `"../group1-shard1of7"`),
			`model.json names invalid shard "../group1-shard1of7": want a file in the same directory`},
		{"NaN", func(t *testing.T, files fstest.MapFS) {
			overwrite(t, files, table, math.Float32bits(float32(math.NaN())))
		}, `model.json: tensor "` + table + `" contains NaN: damaged shards`},
		{"wrong number", func(t *testing.T, files fstest.MapFS) {
			overwrite(t, files, scale, math.Float32bits(0.5))
		}, `model.json: tensor "` + scale + `" is 0.5, want 0.125` + not},

		{"invalid JSON", replace("model.json", "<html>"), "model.json: invalid character '<' looking for beginning of value"},
		{"large JSON", replace("model.json", strings.Repeat(" ", maxJSON+1)),
			"model.json has 16777217 bytes, over the limit of 16777216"},
		{"no weights", replace("model.json", "{}"), "model.json: weightsManifest has 0 groups, want 1"},
		{"missing tensor", edit("model.json", `"name":"`+table+`","shape"`, `"name":"other","shape"`),
			`model.json: missing tensor "` + table + `"` + not},
		{"wrong shape", edit("model.json", `"`+table+`","shape":[8002,256]`, `"`+table+`","shape":[256,8002]`),
			`model.json: tensor "` + table + `" is float32[256 8002], want float32[8002 256]` + not},
		{"unknown type", weights(`{"name": "t", "dtype": "string"}`), `model.json: tensor "t" has dtype "string", want float32 or int32`},
		{"quantized", weights(`{"name": "t", "dtype": "float32", "quantization": {"dtype": "uint8"}}`),
			`model.json: tensor "t" is quantized, which is not supported`},
		{"duplicate tensor", weights(`{"name": "t", "dtype": "int32"}, {"name": "t", "dtype": "int32"}`), `model.json: duplicate tensor "t"`},
		{"negative shape", weights(`{"name": "t", "dtype": "int32", "shape": [-1, -4]}`), `model.json: tensor "t": invalid shape [-1 -4]`},
		{"huge shape", weights(`{"name": "t", "dtype": "int32", "shape": [4294967296, 4294967296]}`),
			`model.json: tensor "t": invalid shape [4294967296 4294967296]`},
		{"many large tensors", weights(`{"name": "s", "dtype": "int32", "shape": [9000000]}, {"name": "t", "dtype": "int32", "shape": [9000000]}`),
			`model.json: tensor "t": total size exceeds 67108864 bytes`},

		{"pieces not in a list", replace("vocab.json", `{"a": 1}`),
			"vocab.json: json: cannot unmarshal object into Go value of type []uselite.entry"},
		{"few pieces", replace("vocab.json", "[]"),
			"vocab.json: 0 pieces: want more than the 6 reserved ones"},
		{"pieces of another model", replace("vocab.json", `[["?",0],["",0],["",0],["",0],["",0],["",0],["a",-1]]`),
			"vocab.json has 7 pieces, but the model has 8000: use vocab.json and model.json from the same source"},
		{"entry of one element", edit("vocab.json", `[".",-3.28450870514]`, `["."]`), "vocab.json: invalid entry: want [piece, score]"},
		{"null entry", edit("vocab.json", `[".",-3.28450870514]`, `null`), "vocab.json: invalid entry: want [piece, score]"},
		{"null piece", edit("vocab.json", `[".",`, `[null,`), "vocab.json: invalid entry: want [piece, score]"},
		{"string as score", edit("vocab.json", `-3.28450870514`, `"low"`),
			"vocab.json: json: cannot unmarshal string into Go value of type float64"},
		{"empty piece", edit("vocab.json", `[".",`, `["",`),
			`vocab.json: invalid piece 6, "": want at least one letter, and '▁' only at the start`},
		{"piece of two words", edit("vocab.json", `[".",`, `["▁a▁b",`),
			`vocab.json: invalid piece 6, "▁a▁b": want at least one letter, and '▁' only at the start`},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := modelFiles(t)
			test.change(t, files)
			encoder, err := load(files)
			if err == nil || err.Error() != test.want || encoder != nil {
				t.Errorf("load: got error\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

func TestOpenErrorNamesDirectory(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir)
	if want := "uselite: open model in " + dir + ": "; !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("empty directory: got %v, want %s…", err, want)
	}
	missing := filepath.Join(dir, "missing")
	if _, err := Open(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing directory: got %v, which does not name %s", err, missing)
	}
}

// A symbolic link can lead out of the directory just like a name with dots.
func TestOpenStaysInItsDirectory(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(outside, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "model.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "escapes") {
		t.Errorf("link out of the directory: got %v", err)
	}
}

func FuzzModelFiles(f *testing.F) {
	f.Add([]byte(`{"weightsManifest": [{"paths": ["a", "b"], "weights": [{"name": "t", "shape": [2, 3], "dtype": "float32"}]}]}`), []byte("123"))
	f.Add([]byte(`{"weightsManifest": [{"paths": ["a"], "weights": [{"name": "module/Embeddings_en", "shape": [], "dtype": "int32"}]}]}`), []byte("1234"))
	f.Add([]byte(`{"weightsManifest": [{"paths": ["a", "a", "..", ""], "weights": [{"shape": [9223372036854775807, 2]}]}]}`), []byte(""))
	f.Fuzz(func(t *testing.T, model, shard []byte) {
		m, err := parseManifest(model)
		if err != nil {
			return
		}
		data, err := m.read(fstest.MapFS{"a": {Data: shard}, "b": {Data: shard}}, sha256.New())
		if err != nil {
			return
		}
		if _, err := newNetwork(tensors{m.tensors, data}); err == nil {
			t.Errorf("network built from %d bytes", len(data))
		}
	})
}
