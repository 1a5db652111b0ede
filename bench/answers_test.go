package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// examServer is a model that answers the question about the ferret from the memories, and
// a judge that compares texts.
func examServer(t *testing.T, verdict string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body, reply := string(raw), "not mentioned in the conversation"
		switch {
		case strings.Contains(body, "You grade answers") && verdict != "":
			reply = verdict
		case strings.Contains(body, "You grade answers"):
			reply = "WRONG"
			if strings.Contains(body, `Expected answer: a gray one\nGiven answer: a gray one`) || strings.Contains(body, `not mentioned in the conversation\nGiven answer: not`) {
				reply = "CORRECT"
			}
		case strings.Contains(body, "I adopted a ferret") && strings.Contains(body, "Which ferret"):
			reply = "a gray one"
		}
		text, err := json.Marshal(reply)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"1","model":"gpt-5-mini","choices":[{"index":0,"delta":{"role":"assistant","content":`+string(text)+`},"finish_reason":"stop"}]}

data: {"id":"1","model":"gpt-5-mini","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}

data: [DONE]

`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("OPENAI_API_KEY", "key")
	t.Setenv("OPENAI_BASE_URL", server.URL)
}

var withAnswers = strings.NewReplacer(`"evidence":["D1:1"],`, `"evidence":["D1:1"],"answer":"a gray one",`,
	`"evidence":["D1:2; D2:1"],`, `"evidence":["D1:2; D2:1"],"answer":2023,`).Replace(original)

func TestAnswersAreJudged(t *testing.T) {
	examServer(t, "")
	var out strings.Builder
	if err := run(t.Context(), []string{"answers", "-embedder", "none", locomoFile(t, withAnswers)}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if f := strings.Fields(lines[1]); len(f) != 9 || f[0] != "all" || f[1] != "2" || f[2] != "0.500" || f[5] != "100" || f[7] != "110" || !strings.HasPrefix(f[8], "$0.0") {
		t.Errorf("printed %s", &out)
	}
	if f := strings.Fields(lines[3]); f[0] != "single" || f[2] != "1.000" {
		t.Errorf("printed %s", &out)
	}
}

func TestUnclearVerdictFails(t *testing.T) {
	examServer(t, "It is incorrect.")
	err := run(t.Context(), []string{"answers", "-embedder", "none", "-n", "1", locomoFile(t, withAnswers)}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "want CORRECT or WRONG") {
		t.Error(err)
	}
}

func TestAnswersRejectInvalidArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"0 files":        {},
		"no answers":     {locomoFile(t, original)},
		"unknown":        {"-model", "magic:x", locomoFile(t, withAnswers)},
		"-parallel 0":    {"-parallel", "0", locomoFile(t, withAnswers)},
		"no such file":   {"missing.json"},
		"unknown embedd": {"-model", "ollama:x", "-embedder", "magic", locomoFile(t, withAnswers)},
	} {
		if err := run(t.Context(), append([]string{"answers"}, args...), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
