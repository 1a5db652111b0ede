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
	Questions []searchQuestion `json:"questions"`
}

type searchDocument struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type searchQuestion struct {
	Text    string   `json:"text"`
	Sources []string `json:"sources"`
}

// group returns the turns and the questions of a conversation.
func (c *conversation) group() (g searchGroup) {
	for _, m := range c.Memories {
		g.Documents = append(g.Documents, searchDocument{m.ID, m.Text})
	}
	for _, q := range c.Questions {
		g.Questions = append(g.Questions, searchQuestion{q.Text, q.Gold})
	}
	return g
}

// langchain measures LangChain's retrievers on the same documents and questions, with
// the vectors of the same embedder, and prints a line for each.
func langchain(ctx context.Context, python string, groups []searchGroup, e store.Embedder, stdout, stderr io.Writer) (err error) {
	url := ""
	if e != nil {
		var listener net.Listener
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
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
		return err
	}
	cmd := exec.CommandContext(ctx, python, filepath.Join("py", "retrieval.py"), url) //nolint:gosec // the user's interpreter
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("langchain: %w", err)
	}
	return nil
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
