package openai

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// openItem is an item of a response whose pieces arrive.
type openItem struct {
	id, kind, phase string
	done            bool
	parts           map[int]*openPart

	index *int            // of the block of an item with one block
	parag int             // the number of the current part of reasoning
	said  bool            // a piece of reasoning has arrived
	call  *int            // the index of a call
	args  strings.Builder // the arguments so far
}

// openPart is a text of a message.
type openPart struct {
	index *int // of its block, or nil if the text is Content
	said  bool
	notes []any // annotations
}

// outputItem is an item as the server writes it.
type outputItem struct {
	Type, ID, Status, Phase, Name string
	CallID                        string `json:"call_id"`
	Arguments, Input              string
	Content                       []outputPart
	Summary                       []outputPart
	Encrypted                     string `json:"encrypted_content"`
}

type outputPart struct {
	Type, Text, Refusal   string
	Annotations, LogProbs []any
}

func (r *responseReader) known(id string) *openItem {
	for _, it := range r.items {
		if it.id == id && id != "" {
			return it
		}
	}
	return nil
}

// find returns the item that an event belongs to: the item with an ID, or the last
// one.
func (r *responseReader) find(id string) *openItem {
	if it := r.known(id); it != nil {
		return it
	}
	if n := len(r.items); n > 0 && !r.items[n-1].done {
		return r.items[n-1]
	}
	return r.open(&outputItem{ID: id})
}

func (r *responseReader) open(in *outputItem) *openItem {
	it := &openItem{id: in.ID, kind: in.Type, phase: in.Phase, parts: map[int]*openPart{}}
	r.items = append(r.items, it)
	return it
}

// next returns the index of a new block.
func (r *responseReader) next() *int {
	r.blocks++
	return new(r.blocks - 1)
}

// item reads an item at its start or, if done is set, the complete item.
func (r *responseReader) item(raw []byte, done bool) (llm.Chunk, error) {
	var in outputItem
	if err := json.Unmarshal(raw, &in); err != nil {
		return llm.Chunk{}, fmt.Errorf("output item: %w", err)
	}
	it := r.known(in.ID)
	if n := len(r.items); it == nil && done && n > 0 && !r.items[n-1].done && r.items[n-1].kind == in.Type {
		it = r.items[n-1] // the server omits IDs or changes them
	}
	if it == nil {
		it = r.open(&in)
	}
	var chunk llm.Chunk
	var err error
	switch in.Type {
	case "message":
		if done {
			chunk, err = r.endMessage(it, &in)
		}
	case "reasoning":
		chunk, err = r.reasoning(it, &in, raw, done)
	case "function_call", "custom_tool_call":
		chunk, err = r.call(it, &in, raw, done)
	default:
		chunk, err = r.other(it, &in, raw, done)
	}
	it.done = it.done || done
	return chunk, err
}

func block(b llm.Block) llm.Chunk { return llm.Chunk{Blocks: []llm.Block{b}} }

// part returns a text of a message. A text is a block if it has fields of its own.
func (r *responseReader) part(it *openItem, i int, refusal bool) *openPart {
	p := it.parts[i]
	if p == nil {
		p = &openPart{}
		if refusal || it.phase != "" || r.cites {
			p.index = r.next()
		}
		it.parts[i] = p
	}
	return p
}

// text returns a piece of a text.
func (r *responseReader) text(it *openItem, i int, piece string, refusal bool) llm.Chunk {
	if piece == "" {
		return llm.Chunk{}
	}
	p := r.part(it, i, refusal)
	first := !p.said
	p.said, r.refused = true, r.refused || refusal
	if p.index == nil {
		return llm.Chunk{Content: piece}
	}
	b := llm.Block{Type: llm.BlockText, Index: p.index, Text: piece}
	if first { // once, because strings in Extra are concatenated
		b.Extra = textExtra(it.phase, refusal)
	}
	return block(b)
}

func textExtra(phase string, refusal bool) map[string]any {
	extra := map[string]any{}
	if phase != "" {
		extra["phase"] = phase
	}
	if refusal {
		extra[extraRefusal] = true
	}
	if len(extra) == 0 {
		return nil
	}
	return extra
}

// annotate keeps an annotation until the text is complete.
func (it *openItem) annotate(i int, raw []byte) {
	if p := it.parts[i]; p != nil {
		if v := valueOf(raw); v != nil {
			p.notes = append(p.notes, v)
		}
	}
}

// endMessage returns the parts of a message that did not come in pieces.
func (r *responseReader) endMessage(it *openItem, in *outputItem) (sum llm.Chunk, err error) {
	for i, part := range in.Content {
		if part.Type != "output_text" && part.Type != "refusal" {
			continue
		}
		refusal := part.Type == "refusal"
		var next llm.Chunk
		if p := r.part(it, i, refusal); !p.said {
			next = r.text(it, i, part.Text+part.Refusal, refusal)
		}
		if sum, err = sum.Add(next); err != nil {
			return sum, err
		}
		if sum, err = sum.Add(r.notes(it.parts[i], &part)); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// notes returns what belongs to a whole text.
func (r *responseReader) notes(p *openPart, part *outputPart) llm.Chunk {
	extra := map[string]any{}
	if len(part.Annotations) == 0 {
		part.Annotations = p.notes
	}
	if len(part.Annotations) > 0 {
		extra["annotations"] = part.Annotations
	}
	if len(part.LogProbs) > 0 {
		extra["logprobs"] = part.LogProbs
	}
	if len(extra) == 0 {
		return llm.Chunk{}
	}
	if p.index == nil {
		p.index = r.next()
	}
	return block(llm.Block{Type: llm.BlockText, Index: p.index, Extra: extra})
}

// thought returns a piece of reasoning. A blank line separates its parts.
func (r *responseReader) thought(it *openItem, part int, piece string) llm.Chunk {
	if piece == "" {
		return llm.Chunk{}
	}
	b := r.thoughtBlock(it)
	if it.said && part != it.parag {
		piece = "\n\n" + piece
	}
	it.said, it.parag = true, part
	b.Reasoning = piece
	return block(b)
}

func (r *responseReader) thoughtBlock(it *openItem) llm.Block {
	if it.index == nil {
		it.index = r.next()
	}
	return llm.Block{Type: llm.BlockReasoning, Index: it.index, ID: it.id}
}

// reasoning returns the end of reasoning.
func (r *responseReader) reasoning(it *openItem, in *outputItem, raw []byte, done bool) (sum llm.Chunk, err error) {
	if !done {
		return llm.Chunk{}, nil
	}
	if !it.said {
		for i, part := range append(in.Summary, in.Content...) {
			if sum, err = sum.Add(r.thought(it, i, part.Text)); err != nil {
				return sum, err
			}
		}
	}
	b := r.thoughtBlock(it)
	b.Extra, err = reasoningExtra(in, raw)
	if err != nil {
		return sum, err
	}
	return sum.Add(block(b))
}

// reasoningExtra returns what is sent back with reasoning: the encrypted content,
// the summary if it has several parts, and the text of open models.
func reasoningExtra(in *outputItem, raw []byte) (map[string]any, error) {
	var lists struct{ Summary, Content []any }
	if err := json.Unmarshal(raw, &lists); err != nil {
		return nil, err
	}
	extra := map[string]any{}
	if in.Encrypted != "" {
		extra["encrypted_content"] = in.Encrypted
	}
	if len(lists.Summary) > 1 || len(lists.Summary) > 0 && len(lists.Content) > 0 {
		extra["summary"] = lists.Summary
	}
	if len(lists.Content) > 0 {
		extra["content"] = lists.Content
	}
	if len(extra) == 0 {
		return nil, nil
	}
	return extra, nil
}

// arguments returns a piece of a call's arguments.
func (r *responseReader) arguments(it *openItem, piece string) llm.Chunk {
	it.args.WriteString(piece)
	if piece == "" || it.call == nil {
		return llm.Chunk{}
	}
	return llm.Chunk{ToolCalls: []llm.ToolCallChunk{{Index: it.call, Args: piece}}}
}

// parallelCalls is the name under which models sometimes write several calls as
// one.
const parallelCalls = "multi_tool_use.parallel"

// call returns the start of a call, or the rest of its arguments.
func (r *responseReader) call(it *openItem, in *outputItem, raw []byte, done bool) (llm.Chunk, error) {
	if in.Name == parallelCalls {
		if !done {
			return llm.Chunk{}, nil
		}
		return r.several(in)
	}
	custom := in.Type == "custom_tool_call"
	var call llm.ToolCallChunk
	if it.call == nil {
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			return llm.Chunk{}, err
		}
		call = r.begin(callID(in.CallID), in.Name)
		call.Extra = callExtra(fields, custom)
		it.call = call.Index
		call.Args = it.args.String() // pieces that came before the start
	}
	call.Index = it.call
	if done {
		call.Args += it.rest(in, custom)
	}
	if call.ID == "" && call.Args == "" {
		return llm.Chunk{}, nil
	}
	return llm.Chunk{ToolCalls: []llm.ToolCallChunk{call}}, nil
}

// begin returns a new call.
func (r *responseReader) begin(id, name string) llm.ToolCallChunk {
	r.calls++
	if id == "" {
		id = "call_" + rand.Text()
	}
	return llm.ToolCallChunk{Index: new(r.calls - 1), ID: id, Name: name}
}

// rest returns the arguments that have not come in pieces. A call cut by the token
// limit must not be valid.
func (it *openItem) rest(in *outputItem, custom bool) string {
	all := in.Arguments
	if custom {
		raw, _ := json.Marshal(map[string]string{customArg: in.Input}) // strings can always be encoded
		all = string(raw)
	}
	rest, _ := strings.CutPrefix(all, it.args.String())
	if it.args.Len() > 0 && len(rest) == len(all) {
		rest = "" // the server wrote the arguments differently
	}
	it.args.WriteString(rest)
	if in.Status == "incomplete" && (it.args.Len() == 0 || custom) {
		return "{"
	}
	return rest
}

func callExtra(fields map[string]any, custom bool) map[string]any {
	extra := map[string]any{}
	for _, name := range returned {
		if v := fields[name]; v != nil {
			extra[name] = v
		}
	}
	if custom {
		extra[extraCustom] = true
	}
	if len(extra) == 0 {
		return nil
	}
	return extra
}

// several returns the calls in a call of parallelCalls.
func (r *responseReader) several(in *outputItem) (chunk llm.Chunk, err error) {
	var args struct {
		Uses []struct {
			Name       string `json:"recipient_name"`
			Parameters json.RawMessage
		} `json:"tool_uses"`
	}
	if err := json.Unmarshal([]byte(in.Arguments), &args); err != nil {
		return chunk, fmt.Errorf("call of %s: %w", parallelCalls, err)
	}
	for i, use := range args.Uses {
		call := r.begin(fmt.Sprintf("%s_%d", callID(in.CallID), i), strings.TrimPrefix(use.Name, "functions."))
		call.Args = string(use.Parameters)
		chunk.ToolCalls = append(chunk.ToolCalls, call)
	}
	return chunk, nil
}

// customInput returns the text for a custom tool.
func customInput(args json.RawMessage) string {
	var fields map[string]string
	if json.Unmarshal(args, &fields) == nil {
		if text, ok := fields[customArg]; ok {
			return text
		}
	}
	return string(args)
}

// other returns an item of another type, such as a web search: its type at the
// start, and the rest at the end.
func (r *responseReader) other(it *openItem, in *outputItem, raw []byte, done bool) (llm.Chunk, error) {
	if it.index == nil {
		it.index = r.next()
	}
	b := llm.Block{Type: in.Type, ID: in.ID}
	if done {
		if err := json.Unmarshal(raw, &b); err != nil {
			return llm.Chunk{}, err
		}
	}
	b.Index = it.index
	return block(b), nil
}
