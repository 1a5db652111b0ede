package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestToolSearchIsMeasured(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "possible_answer"), 0o700); err != nil {
		t.Fatal(err)
	}
	function := `{"name": "get_weather", "description": "Weather.", "parameters": {"type": "dict", "properties": {"city": {"type": "string", "enum": ["Oslo"]}}}}`
	question := `"question": [[{"role": "system", "content": "sales"}, {"role": "user", "content": "weather in Oslo?"}]]`
	for name, text := range map[string]string{
		"BFCL_v4_simple_python.json": `{"id": "s_0", ` + question + `, "function": [` + function + `]}` + "\n" +
			`{"id": "s_1", ` + question + `, "function": [{"name": "sales", "description": "Sales.", "parameters": {}}]}` + "\n",
		"possible_answer/BFCL_v4_simple_python.json": `{"id": "s_0", "ground_truth": [{"get_weather": {"city": ["Oslo"]}}]}` + "\n" +
			`{"id": "s_1", "ground_truth": [{"sales": {}}, {"get_weather": {}}]}` + "\n",
		"BFCL_v4_irrelevance.json":        `{"id": "i_0", ` + question + `, "function": [` + function + `]}` + "\n",
		"BFCL_v4_format_sensitivity.json": "not read",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, progress strings.Builder
	if err := run(t.Context(), []string{"tools", "-embedder", "hash", dir}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(progress.String(), "2 functions, 1 questions with one function") {
		t.Error(progress.String())
	}
	for _, row := range []string{"BM25 all 1 1.000 1.000 1.000", "cosine simple_* 1 1.000", "keyword simple_python 1 1.000", "hybrid all 1 1.000"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), row) {
			t.Errorf("no row %q in\n%s", row, out.String())
		}
	}
	if err := run(t.Context(), []string{"tools", t.TempDir()}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "no functions") {
		t.Error(err)
	}
}
