package openai

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/internal/sse"
	"github.com/treadle-go/treadle/llm"
)

// piece contains the fields common to a whole response and a piece of a streamed
// one. A piece is reused for all events of a stream.
type piece struct {
	head     head
	usage    *llm.Usage
	answered bool // the response contains a choice
	// recognized is set if the piece has the fields of one, even if they are empty.
	recognized bool
	choice
}

// head contains data about the response that the server repeats with every piece.
type head struct{ id, model, fingerprint, tier string }

// choice is one of the n requested responses, or a piece of it.
type choice struct {
	index            int64
	content, refusal string
	calls            []callPiece
	finish           string
	reasoning        reasoning
	audio            *llm.Block
	meta             map[string]any // annotations and logprobs
	err              error          // a decoding error
}

// callPiece is a tool call or a piece of one.
type callPiece struct {
	index          int64
	id, name, args string
	// content is extra_content, which contains the signatures of Gemini's
	// compatible server. The server requires them back.
	content any
}

const extraContent = "extra_content"

// read decodes an event of a stream. It returns a *toldError if the event reports a
// failure.
func (p *piece) read(ev sse.Event) error {
	s := scanner{data: ev.Data}
	isObject := s.peek() == '{'
	told := p.scan(&s, false)
	s.end()
	switch {
	case s.broken:
		return cmp.Or(json.Unmarshal(ev.Data, new(json.RawMessage)), errNoJSON)
	case told || ev.Type == "error":
		return &toldError{bytes.Clone(ev.Data)}
	case !isObject:
		return fmt.Errorf("event is not a JSON object: %s", adapter.Excerpt(string(ev.Data)))
	}
	return nil
}

// readWhole decodes a whole response.
func (p *piece) readWhole(raw []byte) error {
	s := scanner{data: raw}
	p.scan(&s, true)
	if s.broken {
		return notJSON(raw)
	}
	// A whole response without a finish reason is nevertheless complete.
	p.finish = cmp.Or(p.finish, "stop")
	return nil
}

var errNoJSON = errors.New("invalid JSON")

// notJSON returns encoding/json's error for a response that the scanner rejects.
func notJSON(raw []byte) error {
	err := json.NewDecoder(bytes.NewReader(raw)).Decode(new(json.RawMessage))
	return fmt.Errorf("error parsing response json: %w", cmp.Or(err, errNoJSON))
}

// scan decodes a response and reports whether it contains an error.
func (p *piece) scan(s *scanner, whole bool) (told bool) {
	p.usage = nil
	p.answered = false
	p.recognized = false
	p.choice = choice{}
	if !s.open('{') {
		return false
	}
	for s.more('}') {
		switch string(s.key()) {
		case "choices":
			p.recognized = true
			p.scanChoices(s, whole)
		case "id":
			p.head.id = s.text(p.head.id)
		case "model":
			p.head.model = s.text(p.head.model)
		case "system_fingerprint":
			p.head.fingerprint = s.str(p.head.fingerprint)
		case "service_tier":
			p.head.tier = s.text(p.head.tier)
		case "usage":
			p.recognized = true
			p.usage = scanUsage(s)
		case "error":
			told = s.peek() != 'n'
			s.skip()
		default:
			s.skip()
		}
	}
	return told
}

func (p *piece) scanChoices(s *scanner, whole bool) {
	if !s.open('[') {
		return
	}
	for s.more(']') {
		if whole && p.answered {
			s.skip()
			continue
		}
		var c choice
		c.scan(s, whole)
		switch {
		case !whole && c.index != 0: // ignore further choices, requested with the setting n
		case !p.answered:
			p.answered, p.choice = true, c
		default:
			p.join(c)
		}
	}
}

// join adds another piece of the same response.
func (c *choice) join(next choice) {
	c.content += next.content
	c.refusal += next.refusal
	c.calls = append(c.calls, next.calls...)
	c.finish = cmp.Or(next.finish, c.finish)
	c.reasoning.text += next.reasoning.text
	c.reasoning.field = cmp.Or(next.reasoning.field, c.reasoning.field)
	c.reasoning.details = append(c.reasoning.details, next.reasoning.details...)
	c.audio = cmp.Or(next.audio, c.audio)
	if c.meta == nil {
		c.meta = next.meta
	}
	maps.Copy(c.meta, next.meta)
	c.err = cmp.Or(c.err, next.err)
}

func (c *choice) scan(s *scanner, whole bool) {
	if !s.open('{') {
		return
	}
	for s.more('}') {
		switch key := s.key(); string(key) {
		case "index":
			c.index = s.number()
		case "finish_reason":
			c.finish = s.text("")
		case "logprobs":
			c.keep("logprobs", s.raw())
		case "delta", "message":
			if whole == (string(key) == "message") {
				c.scanMessage(s, whole)
			} else {
				s.skip()
			}
		default:
			s.skip()
		}
	}
}

func (c *choice) scanMessage(s *scanner, whole bool) {
	if !s.open('{') {
		return
	}
	var thinking, plain string
	var details []byte
	for s.more('}') {
		switch string(s.key()) {
		case "content":
			if s.peek() == '[' {
				c.addParts(s.raw())
			} else {
				c.content = s.text("")
			}
		case "refusal":
			c.refusal = s.text("")
		case "tool_calls":
			c.scanCalls(s, whole)
		case fieldContent:
			thinking = s.str("")
		case fieldPlain:
			plain = s.str("")
		case fieldDetails:
			details = s.raw()
		case "audio":
			c.scanAudio(s)
		case "annotations":
			c.keep("annotations", s.raw())
		default:
			s.skip()
		}
	}
	inParts := c.reasoning.text
	c.reasoning = reasoningOf(thinking, plain, details)
	c.reasoning.text += inParts
}

// addParts adds content that is a list of parts, which is how Mistral sends
// reasoning.
func (c *choice) addParts(raw []byte) {
	type part struct {
		Type, Text string
		Thinking   []part
	}
	var parts []part
	if err := json.Unmarshal(raw, &parts); err != nil && raw != nil {
		c.err = fmt.Errorf("response content: %w", err)
	}
	for _, one := range parts {
		c.content += one.Text
		for _, t := range one.Thinking {
			c.reasoning.text += t.Text
		}
	}
}

func (c *choice) scanCalls(s *scanner, whole bool) {
	if !s.open('[') {
		return
	}
	for s.more(']') {
		var call callPiece
		call.scan(s)
		if whole {
			call.index = int64(len(c.calls))
		}
		c.calls = append(c.calls, call)
	}
}

func (c *callPiece) scan(s *scanner) {
	if !s.open('{') {
		return
	}
	for s.more('}') {
		switch string(s.key()) {
		case "index":
			c.index = s.number()
		case "id":
			c.id = s.text("")
		case "function", "custom": // a custom tool has an input instead of arguments
			c.scanFunction(s)
		case extraContent:
			c.content = valueOf(s.raw())
		default:
			s.skip()
		}
	}
}

// scanFunction reads a name and arguments, which are a string that contains JSON
// or, from some servers, the JSON itself.
func (c *callPiece) scanFunction(s *scanner) {
	if !s.open('{') {
		return
	}
	for s.more('}') {
		switch string(s.key()) {
		case "name":
			c.name = s.text("")
		case "arguments", "input":
			c.args = s.text("")
		default:
			s.skip()
		}
	}
}

// scanAudio reads audio. The pieces of a stream are encoded separately.
func (c *choice) scanAudio(s *scanner) {
	if !s.open('{') {
		return
	}
	var id, data, transcript string
	for s.more('}') {
		switch string(s.key()) {
		case "id":
			id = s.text("")
		case "data":
			data = s.text("")
		case "transcript":
			transcript = s.text("")
		default:
			s.skip()
		}
	}
	if id == "" && data == "" && transcript == "" {
		return
	}
	sound, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		c.err = fmt.Errorf("response audio: %w", err)
	}
	c.audio = &llm.Block{Type: llm.BlockAudio, ID: id, Index: new(audioIndex), Data: sound}
	if transcript != "" {
		c.audio.Extra = map[string]any{"transcript": transcript}
	}
}

// Indexes of the blocks that are streamed in pieces.
const thoughtIndex, audioIndex = 0, 1

// valueOf decodes a value that is passed on unchanged. It returns nil for null.
func valueOf(raw []byte) any {
	if len(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	var v any
	_ = json.Unmarshal(raw, &v)
	return v
}

// keep adds a value to the metadata, unless it is empty.
func (c *choice) keep(name string, raw []byte) {
	v := valueOf(raw)
	if list, ok := v.([]any); v == nil || ok && len(list) == 0 {
		return
	}
	if c.meta == nil {
		c.meta = map[string]any{}
	}
	c.meta[name] = v
}

// add updates h with the fields set in next.
func (h *head) add(next head) {
	h.id = cmp.Or(next.id, h.id)
	h.model = cmp.Or(next.model, h.model)
	h.fingerprint = cmp.Or(next.fingerprint, h.fingerprint)
	h.tier = cmp.Or(next.tier, h.tier)
}

// metadata returns the server's data about the response. OpenAI has deprecated the
// fingerprint, but local servers identify themselves with it.
func (h *head) metadata() map[string]any {
	meta := map[string]any{"model_provider": provider}
	for name, v := range map[string]string{"id": h.id, "model_name": h.model, "system_fingerprint": h.fingerprint, "service_tier": h.tier} {
		if v != "" {
			meta[name] = v
		}
	}
	return meta
}

// scanUsage reads the token counts, if any.
func scanUsage(s *scanner) *llm.Usage {
	if !s.open('{') {
		return nil
	}
	var u llm.Usage
	for s.more('}') {
		switch string(s.key()) {
		case "prompt_tokens", "input_tokens":
			u.Input = int(s.number())
		case "completion_tokens", "output_tokens":
			u.Output = int(s.number())
		case "total_tokens":
			u.Total = int(s.number())
		case "prompt_tokens_details", "input_tokens_details":
			u.InputDetails = scanDetails(s, inputDetails)
		case "completion_tokens_details", "output_tokens_details":
			u.OutputDetails = scanDetails(s, outputDetails)
		default:
			s.skip()
		}
	}
	if u.Total == 0 {
		u.Total = u.Input + u.Output
	}
	return &u
}

// Names of counts in the API that have a name in package llm.
var (
	inputDetails  = map[string]string{"cached_tokens": llm.UsageCacheRead, "cache_write_tokens": llm.UsageCacheCreation, "audio_tokens": llm.UsageAudio}
	outputDetails = map[string]string{"reasoning_tokens": llm.UsageReasoning, "audio_tokens": llm.UsageAudio}
)

// scanDetails reads the nonzero counts in names.
func scanDetails(s *scanner, names map[string]string) (out map[string]int) {
	if !s.open('{') {
		return nil
	}
	for s.more('}') {
		name := names[string(s.key())]
		if n := int(s.number()); name != "" && n != 0 {
			if out == nil {
				out = map[string]int{}
			}
			out[name] = n
		}
	}
	return out
}
