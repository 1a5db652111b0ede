package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/llm"
)

// Tools that a model has in addition to the kinds.
const (
	toolPatch  = "PatchDoc"
	toolRemove = "RemoveDoc"
	toolDone   = "Done"
	toolFix    = "FixCall"
)

// never fails. It is the function of tools whose calls the extractor executes itself.
func never(context.Context, json.RawMessage) (any, error) {
	return nil, errors.New("memory: this tool cannot be called")
}

func text(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

func object(order []string, properties map[string]*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: properties, PropertyOrder: order, Required: order}
}

// patchesSchema describes a list of [PatchOp] to the model.
func patchesSchema() *jsonschema.Schema {
	op := object([]string{"op", "path"}, map[string]*jsonschema.Schema{
		"op":    {Type: "string", Enum: []any{"add", "remove", "replace"}},
		"path":  text(`a JSON Pointer such as /address/city; end it with /- to append to a list or a text`),
		"value": {Description: "for add and replace"},
	})
	op.PropertyOrder = []string{"op", "path", "value"}
	return &jsonschema.Schema{Type: "array", Items: op, Description: "JSON Patch operations, done in order. " +
		"Replace before you remove, remove the highest index first, and add last."}
}

var (
	doneTool = &llm.Tool{Name: toolDone, Run: never,
		Description: "Say that nothing, or nothing more, is to be changed. Prefer this to writing what is not worth keeping.",
		Parameters:  &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}}
	patchTool = &llm.Tool{Name: toolPatch, Run: never, Description: "Edit an existing document. What you do not mention stays as it is.",
		Parameters: object([]string{"json_doc_id", "planned_edits", "patches"}, map[string]*jsonschema.Schema{
			"json_doc_id":   text("the id of the document"),
			"planned_edits": text("what is to be changed, and why"),
			"patches":       patchesSchema(),
		})}
	fixTool = &llm.Tool{Name: toolFix, Run: never, Description: "Correct the arguments of your last call by patching them.",
		Parameters: object([]string{"planned_edits", "patches"}, map[string]*jsonschema.Schema{
			"planned_edits": text("what is wrong, and how to put it right"),
			"patches":       patchesSchema(),
		})}
)

// tools returns the tools that the model can use now. Done is always available.
func (x *extractor) tools(d *draftSet) []*llm.Tool {
	var out []*llm.Tool
	live := d.live()
	if x.mayInsert(d) {
		out = append(out, x.inserters...)
	}
	if !x.NoUpdates && len(live) > 0 {
		out = append(out, x.patcher)
	}
	if x.Deletes && len(live) > 0 {
		out = append(out, removeTool(live))
	}
	return append(out, doneTool)
}

// mayInsert reports whether the model may create another document.
func (x *extractor) mayInsert(d *draftSet) bool {
	return !x.NoInserts || !x.NoUpdates && len(d.drafts) == 0
}

func removeTool(live []*draft) *llm.Tool {
	id := text("the id of the document")
	for _, w := range live {
		id.Enum = append(id.Enum, w.short)
	}
	return &llm.Tool{Name: toolRemove, Run: never, Description: "Remove a document that is wrong, outdated or a repetition.",
		Parameters: object([]string{"json_doc_id"}, map[string]*jsonschema.Schema{"json_doc_id": id})}
}

// do executes a call. Its error is written for the model.
func (x *extractor) do(d *draftSet, call llm.ToolCall) (ack string, err error) {
	k, known := x.kind(call.Name)
	switch {
	case known && x.mayInsert(d):
		return x.insert(d, k, call)
	case call.Name == toolPatch && !x.NoUpdates:
		return x.patch(d, call)
	case call.Name == toolRemove && x.Deletes:
		return x.remove(d, call)
	}
	var names []string
	for _, t := range x.tools(d) {
		names = append(names, t.Name)
	}
	if known {
		return "", fmt.Errorf("no more calls of %s allowed: use one of %s", call.Name, strings.Join(names, ", "))
	}
	return "", fmt.Errorf("unknown tool %q: use one of %s", call.Name, strings.Join(names, ", "))
}

func (x *extractor) insert(d *draftSet, k Kind, call llm.ToolCall) (string, error) {
	args, r, err := x.unrated(call)
	if err != nil {
		return "", err
	}
	content, err := k.check(args)
	if err != nil {
		return "", err
	}
	w := d.twin(k.name, content, false)
	if w != nil && !r.dates() {
		return fmt.Sprintf("Document %s says this already.", w.short), nil
	}
	if x.NoUpdates {
		w = d.twin(k.name, content, true) // existing documents are left unchanged; a new one may be valid at a different time
	}
	var held Validity
	if w != nil {
		held = w.holds // the same content with a different validity
	}
	holds, err := held.with(r)
	if err != nil {
		return "", err
	}
	ack := "Document %s says this already, and holds as you say."
	if w == nil {
		w, ack = d.insert(k.name, content), "Document %s inserted."
	}
	w.holds = holds
	w.rating.add(r)
	return fmt.Sprintf(ack, w.short), nil
}

func (x *extractor) patch(d *draftSet, call llm.ToolCall) (string, error) {
	raw, r, err := x.unrated(call)
	if err != nil {
		return "", err
	}
	var args struct {
		ID      string          `json:"json_doc_id"`
		Plan    json.RawMessage `json:"planned_edits"` // some models send a list
		Patches json.RawMessage `json:"patches"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return "", err
	}
	w, err := d.find(args.ID)
	if err != nil {
		return "", err
	}
	ops, err := readPatches(args.Patches)
	if err != nil {
		return "", err
	}
	holds, err := w.holds.with(r)
	if err != nil {
		return "", err
	}
	switch {
	case len(ops) == 0 && holds == w.holds && !r.isZero():
		return fmt.Sprintf("Document %s kept as it is, and so is its rating: rate what you change.", w.short), nil
	case len(ops) == 0 && holds == w.holds:
		return fmt.Sprintf("Document %s kept as it is.", w.short), nil
	}
	content, err := applyPatch(w.now, ops)
	if err != nil {
		return "", err
	}
	if k, ok := x.kind(w.kind); ok {
		if content, err = k.checkChange(w.before, content); err != nil {
			return "", fmt.Errorf("document %s would no longer be a valid %s: %w", w.short, w.kind, err)
		}
	} else if content[0] != '{' {
		return "", fmt.Errorf("document %s would no longer be an object", w.short)
	}
	w.now, w.patch, w.reason = content, append(w.patch, ops...), plainText(args.Plan)
	w.holds = holds
	w.rating.add(r)
	return fmt.Sprintf("Document %s updated.", w.short), nil
}

func (x *extractor) remove(d *draftSet, call llm.ToolCall) (string, error) {
	var args struct {
		ID string `json:"json_doc_id"`
	}
	if err := json.Unmarshal(argsOf(call), &args); err != nil {
		return "", err
	}
	w, err := d.find(args.ID)
	if err != nil {
		return "", err
	}
	w.now = nil
	return fmt.Sprintf("Document %s removed.", w.short), nil
}

// fix returns the call with patched arguments.
func (t *pendingCall) fix(by llm.ToolCall) (llm.ToolCall, error) {
	if t.invalid != nil {
		return llm.ToolCall{}, fmt.Errorf("no arguments to patch: call %s again", t.call.Name)
	}
	var args struct {
		Patches json.RawMessage `json:"patches"`
	}
	if err := json.Unmarshal(argsOf(by), &args); err != nil {
		return llm.ToolCall{}, err
	}
	ops, err := readPatches(args.Patches)
	if err != nil {
		return llm.ToolCall{}, err
	}
	fixed := t.call
	fixed.Args, err = applyPatch(argsOf(t.call), ops)
	return fixed, err
}

func argsOf(call llm.ToolCall) json.RawMessage {
	if len(call.Args) == 0 {
		return json.RawMessage("{}")
	}
	return call.Args
}

// plainText returns the value of a JSON string, and other JSON verbatim.
func plainText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
