package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func offline(t *testing.T, args ...string) []string {
	t.Helper()
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("TREADLE_ENCODER", t.TempDir())
	return append([]string{"-folder", "../../docs", "-db", filepath.Join(t.TempDir(), "test.db")}, args...)
}

func TestAnswersCiteDocs(t *testing.T) {
	args := offline(t, "How do I erase everything stored about a person?")
	for _, want := range []string{" added, 0 updated, 0 unchanged", "0 added, 0 updated, "} { // the second finds nothing to do
		var out strings.Builder
		if err := run(t.Context(), args, &out); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{want, "The page ", "] ", ", bytes "} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s\nlacks %q", out.String(), part)
			}
		}
	}
}

func TestEvaluationReportsMetrics(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), offline(t, "-evaluate"), &out); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`\nhybrid +R@10 [01]\.\d\d  MRR [01]\.\d\d  nDCG@10 [01]\.\d\d\n`).MatchString(out.String()) {
		t.Error(out.String())
	}
}

func TestServedAgentAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	args := offline(t, "-serve", "--", "--port", "0", "--db", ":memory:")
	go func() {
		err := run(ctx, args, write)
		done <- err
		_ = write.CloseWithError(io.EOF)
	}()
	var base string
	lines := bufio.NewScanner(read)
	for base == "" && lines.Scan() {
		base = regexp.MustCompile(`http://[\d.:]+\d`).FindString(lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	for path, want := range map[string]string{
		"/studio/":   "<html",
		"/runs/wait": "The page ",
	} {
		body, method := "", http.MethodGet
		if path == "/runs/wait" {
			body, method = `{"assistant_id":"answers","input":{"messages":[{"role":"user","content":"How do I erase a person?"}]}}`, http.MethodPost
		}
		req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %.300s %v", path, text, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
