package openai

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/internal/sse"
	"github.com/treadle-go/treadle/llm"
)

// chat is the wire format of the Chat Completions API.
type chat struct{ *Model }

func (c chat) path() string { return "chat/completions" }

func (c chat) body(req *llm.Request, _ relaxed) ([]byte, error) { return c.chatBody(req) }

func (c chat) relax(*relaxed, *llm.Request, error) bool { return false }

func (c chat) explain(*llm.Error) {}

func (c chat) reader(*llm.Request) reader { return &chatReader{warn: c.warn} }

// chatReader converts the pieces of a response.
type chatReader struct {
	answer
	warn  *adapter.Warner
	piece piece
	begun bool
	done  bool
}

func (r *chatReader) event(ev sse.Event) (chunk llm.Chunk, ok bool, err error) {
	if r.done = bytes.HasPrefix(ev.Data, []byte("[DONE]")); r.done {
		return chunk, false, nil
	}
	if err := r.piece.read(ev); err != nil {
		return chunk, false, err
	}
	r.begun = true
	if r.piece.err != nil {
		r.finish = "" // the response is incomplete
		return chunk, false, r.piece.err
	}
	if !r.piece.recognized {
		r.warn.UnknownEvent(ev.Type)
	}
	chunk, ok = r.add(&r.piece)
	return chunk, ok, nil
}

func (r *chatReader) state() (begun, complete, done bool) { return r.begun, r.finish != "", r.done }

func (r *chatReader) whole(raw []byte) (llm.Chunk, error) {
	if err := r.piece.readWhole(raw); err != nil {
		return llm.Chunk{}, err
	}
	if !r.piece.answered {
		return llm.Chunk{}, unanswered("choices", raw)
	}
	first, _ := r.add(&r.piece)
	chunk, err := first.Add(r.last())
	return chunk, errors.Join(r.piece.err, err)
}

// unanswered returns the error for a response without what it must contain. Some
// servers report failures with a success status.
func unanswered(missing string, raw []byte) error {
	var body struct{ Error json.RawMessage }
	if json.Unmarshal(raw, &body) == nil && len(body.Error) > 0 && string(body.Error) != "null" {
		return &toldError{raw}
	}
	return errors.New("response without " + missing + ": " + adapter.Excerpt(string(raw)))
}
