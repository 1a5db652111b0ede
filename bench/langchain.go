package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/treadle-go/treadle/store"
)

// searchGroup contains documents that are searched together, and questions about them.
type searchGroup struct {
	Documents []searchDocument `json:"documents"`
	Questions []string         `json:"questions"`
}

type searchDocument struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// peerSearch lists the documents that a retriever found for each question of all groups, best
// first.
type peerSearch struct {
	Name  string     `json:"name"`
	Found [][]string `json:"found"`
}

// group returns the turns and the questions of a conversation.
func (c *conversation) group() (g searchGroup) {
	for _, m := range c.Memories {
		g.Documents = append(g.Documents, searchDocument{m.ID, m.Text})
	}
	for _, q := range c.Questions {
		g.Questions = append(g.Questions, q.Text)
	}
	return g
}

// langchain searches with LangChain's retrievers in the same documents, with the vectors of the
// same embedder.
func langchain(ctx context.Context, python string, groups []searchGroup, e store.Embedder, stderr io.Writer) (searches []peerSearch, err error) {
	url := ""
	if e != nil {
		var listener net.Listener
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		server := &http.Server{Handler: embeddings(e), ReadHeaderTimeout: time.Minute}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		defer func() {
			err = errors.Join(err, server.Close())
			<-ended
		}()
		url = "http://" + listener.Addr().String()
	}
	input, err := json.Marshal(groups)
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, python, filepath.Join("py", "retrieval.py"), url) //nolint:gosec // the user's interpreter
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &output, stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("langchain: %w", err)
	}
	if err := json.Unmarshal(output.Bytes(), &searches); err != nil {
		return nil, fmt.Errorf("langchain: %w", err)
	}
	questions := 0
	for _, g := range groups {
		questions += len(g.Questions)
	}
	for _, s := range searches {
		if len(s.Found) != questions {
			return nil, fmt.Errorf("langchain: %s: results of %d questions, want %d", s.Name, len(s.Found), questions)
		}
	}
	return searches, nil
}

// embeddings maps a JSON list of texts to a list of vectors.
func embeddings(e store.Embedder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var texts []string
		err := json.NewDecoder(io.LimitReader(r.Body, maxVectors)).Decode(&texts)
		if err == nil {
			var vectors [][]float32
			if vectors, err = e.Embed(r.Context(), texts); err == nil {
				err = json.NewEncoder(w).Encode(vectors)
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}
