package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A PatchOp is one edit of a JSON document: an operation of JSON Patch (RFC 6902). The
// supported operations are add, remove, and replace.
type PatchOp struct {
	Op string `json:"op"`
	// Path is a JSON Pointer (RFC 6901), such as "/address/city" or "/tags/0". In an add, a
	// final "-" appends to an array or a string.
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"` // for add and replace
}

// String returns the operation on one line.
func (p PatchOp) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Op, p.Path, p.Value))
}

// applyPatch applies the edits in order, all or none. It returns an error if a path does
// not exist, so that the model does not assume the edit succeeded.
func applyPatch(doc json.RawMessage, ops []PatchOp) (json.RawMessage, error) {
	root, err := decodeAny(doc)
	if err != nil {
		return nil, err
	}
	for _, op := range ops {
		if root, err = op.apply(root); err != nil {
			return nil, fmt.Errorf("patch %q: %w", op, err)
		}
	}
	return encodeAny(root)
}

func (p PatchOp) apply(root any) (any, error) {
	tokens, err := splitPointer(p.Path)
	if err != nil {
		return nil, err
	}
	var value any
	switch p.Op {
	case "add", "replace":
		if len(p.Value) == 0 {
			return nil, errors.New("missing value")
		}
		if value, err = decodeAny(p.Value); err != nil {
			return nil, err
		}
	case "remove":
		if len(tokens) == 0 {
			return nil, errors.New("patch cannot remove the whole document")
		}
	default:
		return nil, fmt.Errorf("unknown operation %q: use add, remove, or replace", p.Op)
	}
	return edit(root, tokens, p.Op, value)
}

// splitPointer parses a JSON Pointer.
func splitPointer(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' {
		return nil, fmt.Errorf("path %q does not start with /", path)
	}
	tokens := strings.Split(path[1:], "/")
	for i, t := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return tokens, nil
}

// edit returns the value with the operation applied at the path.
func edit(at any, tokens []string, op string, value any) (any, error) {
	if len(tokens) == 0 {
		return value, nil
	}
	token, rest := tokens[0], tokens[1:]
	switch at := at.(type) {
	case map[string]any:
		return editObject(at, token, rest, op, value)
	case []any:
		return editArray(at, token, rest, op, value)
	case string:
		more, ok := value.(string)
		if op == "add" && token == "-" && len(rest) == 0 && ok {
			return at + more, nil
		}
	}
	return nil, fmt.Errorf("no %q in %s", token, typeName(at))
}

func editObject(at map[string]any, token string, rest []string, op string, value any) (any, error) {
	old, there := at[token]
	if !there && (len(rest) > 0 || op != "add") {
		return nil, fmt.Errorf("no member %q", token)
	}
	if len(rest) == 0 && op == "remove" {
		delete(at, token)
		return at, nil
	}
	v, err := edit(old, rest, op, value)
	if err != nil {
		return nil, err
	}
	at[token] = v
	return at, nil
}

func editArray(at []any, token string, rest []string, op string, value any) (any, error) {
	adds := op == "add" && len(rest) == 0
	if adds && token == "-" {
		return append(at, value), nil
	}
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || strconv.Itoa(i) != token {
		return nil, fmt.Errorf("%q is not an array index", token)
	}
	if i > len(at) || i == len(at) && !adds {
		return nil, fmt.Errorf("no element %d in an array of %d elements", i, len(at))
	}
	switch {
	case adds:
		return slices.Insert(at, i, value), nil
	case len(rest) == 0 && op == "remove":
		return slices.Delete(at, i, i+1), nil
	}
	v, err := edit(at[i], rest, op, value)
	if err != nil {
		return nil, err
	}
	at[i] = v
	return at, nil
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	}
	return fmt.Sprintf("%T", v)
}

// readPatches parses a model's edits: a list, a single edit, or a string that contains a
// list, as some models send it.
func readPatches(raw json.RawMessage) ([]PatchOp, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var ops []PatchOp
	err := json.Unmarshal(raw, &ops)
	if err == nil {
		return ops, nil
	}
	var op PatchOp
	if json.Unmarshal(raw, &op) == nil && op.Op != "" {
		return []PatchOp{op}, nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, fmt.Errorf("patches are not a list of {op, path, value}: %w", err)
	}
	for i := strings.IndexByte(text, '['); i >= 0 && i < len(text); {
		if json.NewDecoder(strings.NewReader(text[i:])).Decode(&ops) == nil {
			return ops, nil
		}
		next := strings.IndexByte(text[i+1:], '[')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return nil, errors.New("patches are a string without a list of {op, path, value}")
}

// decodeAny decodes a JSON value. Numbers keep all their digits.
func decodeAny(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if d.More() {
		return nil, errors.New("not JSON: data after the value")
	}
	return v, nil
}

// encodeAny encodes a value without escaping HTML characters.
func encodeAny(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// sameJSON reports whether two documents are equal apart from formatting and member order.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := decodeAny(a)
	y, errY := decodeAny(b)
	if errX != nil || errY != nil {
		return false
	}
	// Maps are encoded in key order.
	p, errX := encodeAny(x)
	q, errY := encodeAny(y)
	return errX == nil && errY == nil && bytes.Equal(p, q)
}
