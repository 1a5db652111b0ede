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

// modelFiles is the real model's files, for a test to change one. The contents are shared and stay as they are.
func modelFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	openModel(t) // tells what to do where there are none
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
			// Without its line breaks, so that a test can name what it changes.
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

// rewrite replaces a text that is in the file.
func rewrite(t *testing.T, files fstest.MapFS, name, old, with string) {
	t.Helper()
	before := files[name].Data
	after := bytes.Replace(before, []byte(old), []byte(with), 1)
	if bytes.Equal(before, after) {
		t.Fatalf("%s does not have %s", name, old)
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
	t.Fatalf("there is no tensor %q", tensor)
}

func TestOpenTellsWhatIsWrong(t *testing.T) {
	const (
		not   = ": this is not the Universal Sentence Encoder lite"
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
		{"a missing shard", remove("group1-shard3of7"),
			"a shard that model.json names is missing: open group1-shard3of7: file does not exist"},
		{"a short shard", replace("group1-shard3of7", "short"),
			"the shards have 23709357 bytes and the tensors of model.json have 27903656: take all files from the same place"},
		{"a long shard", replace("group1-shard7of7", strings.Repeat("x", 2737833)),
			"group1-shard7of7 has 2737833 bytes, more than the 2737832 that it may have"},
		{"a shard that is a directory", func(_ *testing.T, files fstest.MapFS) {
			files["group1-shard1of7"] = &fstest.MapFile{Mode: fs.ModeDir}
		}, "group1-shard1of7 is not a regular file"},
		{"a shard elsewhere", edit("model.json", `"group1-shard1of7"`, `"../group1-shard1of7"`),
			`model.json names the shard "../group1-shard1of7", which is not a file beside it`},
		{"a number that is none", func(t *testing.T, files fstest.MapFS) {
			overwrite(t, files, table, math.Float32bits(float32(math.NaN())))
		}, `model.json: tensor "` + table + `" has the number NaN: the shards are damaged`},
		{"another number", func(t *testing.T, files fstest.MapFS) {
			overwrite(t, files, scale, math.Float32bits(0.5))
		}, `model.json: tensor "` + scale + `" is 0.5, want 0.125` + not},

		{"no JSON", replace("model.json", "<html>"), "model.json: invalid character '<' looking for beginning of value"},
		{"a large JSON", replace("model.json", strings.Repeat(" ", maxJSON+1)),
			"model.json has 16777217 bytes, more than the 16777216 that it may have"},
		{"no weights", replace("model.json", "{}"), "model.json: weightsManifest has 0 groups, want 1"},
		{"a missing tensor", edit("model.json", `"name":"`+table+`","shape"`, `"name":"other","shape"`),
			`model.json: tensor "` + table + `" is missing` + not},
		{"another shape", edit("model.json", `"`+table+`","shape":[8002,256]`, `"`+table+`","shape":[256,8002]`),
			`model.json: tensor "` + table + `" is float32[256 8002], want float32[8002 256]` + not},
		{"an unknown type", weights(`{"name": "t", "dtype": "string"}`), `model.json: tensor "t" has dtype "string", want float32 or int32`},
		{"quantized", weights(`{"name": "t", "dtype": "float32", "quantization": {"dtype": "uint8"}}`),
			`model.json: tensor "t" is quantized, which this package does not read`},
		{"twice", weights(`{"name": "t", "dtype": "int32"}, {"name": "t", "dtype": "int32"}`), `model.json: tensor "t" occurs twice`},
		{"a negative shape", weights(`{"name": "t", "dtype": "int32", "shape": [-1, -4]}`), `model.json: tensor "t": impossible shape [-1 -4]`},
		{"a huge shape", weights(`{"name": "t", "dtype": "int32", "shape": [4294967296, 4294967296]}`),
			`model.json: tensor "t": impossible shape [4294967296 4294967296]`},
		{"many large tensors", weights(`{"name": "s", "dtype": "int32", "shape": [9000000]}, {"name": "t", "dtype": "int32", "shape": [9000000]}`),
			`model.json: tensor "t": the tensors have more than 67108864 bytes`},

		{"no list of pieces", replace("vocab.json", `{"a": 1}`),
			"vocab.json: json: cannot unmarshal object into Go value of type []uselite.entry"},
		{"few pieces", replace("vocab.json", "[]"),
			"vocab.json: there are 0 pieces; the first 6 are reserved, so there must be more"},
		{"pieces of another model", replace("vocab.json", `[["?",0],["",0],["",0],["",0],["",0],["",0],["a",-1]]`),
			"vocab.json has 7 pieces and the model has 8000: take vocab.json from the same place as model.json"},
		{"an entry of one", edit("vocab.json", `[".",-3.28450870514]`, `["."]`), "vocab.json: an entry must be [piece, score]"},
		{"an entry that is null", edit("vocab.json", `[".",-3.28450870514]`, `null`), "vocab.json: an entry must be [piece, score]"},
		{"a piece that is null", edit("vocab.json", `[".",`, `[null,`), "vocab.json: an entry must be [piece, score]"},
		{"a score in words", edit("vocab.json", `-3.28450870514`, `"low"`),
			"vocab.json: json: cannot unmarshal string into Go value of type float64"},
		{"an empty piece", edit("vocab.json", `[".",`, `["",`),
			`vocab.json: piece 6 is "": a piece has at least one letter, and '▁' only at its start`},
		{"a piece of two words", edit("vocab.json", `[".",`, `["▁a▁b",`),
			`vocab.json: piece 6 is "▁a▁b": a piece has at least one letter, and '▁' only at its start`},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := modelFiles(t)
			test.change(t, files)
			encoder, err := load(files)
			if err == nil || err.Error() != test.want || encoder != nil {
				t.Errorf("load gives %v\nand should give\n%s", err, test.want)
			}
		})
	}
}

func TestOpenNamesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir)
	if want := "uselite: open the model in " + dir + ": "; !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("an empty directory gives %v, want %s…", err, want)
	}
	missing := filepath.Join(dir, "missing")
	if _, err := Open(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing directory gives %v, which does not name %s", err, missing)
	}
}

// A link is as good as a name with dots in it for reading what is not the model's.
func TestOpenStaysInItsDirectory(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(outside, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "model.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "escapes") {
		t.Errorf("a link out of the directory gives %v", err)
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
			t.Errorf("%d bytes are a network", len(data))
		}
	})
}
