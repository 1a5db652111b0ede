package langgraphimport

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// An object is a Python object: its class and the arguments from which the serializer
// would construct it. lost explains why its value was not saved.
type object struct {
	module, class string
	args          []any // positional
	fields        *dict // by name
	data          []any // for a NumPy array: type, shape, order, bytes
	unknown       int8  // code of an unknown extension
	lost          string
}

// Codes of the serializer's msgpack extensions.
const (
	extArgument  = 0 // module, class, one argument
	extArguments = 1 // module, class, arguments
	extFields    = 2 // module, class, named arguments
	extMethod    = 3 // module, class, one argument, method
	extPydantic1 = 4 // module, class, fields
	extPydantic2 = 5 // module, class, fields, method
	extNumPy     = 6 // type, shape, order, bytes
	extDelta     = 7 // snapshot of a DeltaChannel
)

// extended returns the object that an extension represents.
func extended(code int8, v any) (any, error) {
	if code == extDelta {
		return v, nil
	}
	if code < 0 || code > extDelta {
		return &object{unknown: code}, nil
	}
	bad := func() (any, error) {
		return nil, fmt.Errorf("invalid LangGraph extension %d", code)
	}
	parts, ok := v.([]any)
	if !ok {
		return bad()
	}
	if code == extNumPy {
		if len(parts) != 4 {
			return bad()
		}
		return &object{module: "numpy", class: "ndarray", data: parts}, nil
	}
	if len(parts) < 3 {
		return bad()
	}
	o := &object{}
	if o.module, ok = parts[0].(string); !ok {
		return bad()
	}
	if o.class, ok = parts[1].(string); !ok {
		return bad()
	}
	switch code {
	case extArgument, extMethod:
		o.args = parts[2:3]
	case extArguments:
		if o.args, ok = parts[2].([]any); !ok {
			return bad()
		}
	default:
		if o.fields, ok = parts[2].(*dict); !ok {
			return bad()
		}
	}
	return o, nil
}

// is reports whether the object's class is the given LangGraph type. Before 0.2.24, the
// types were in other modules.
func (o *object) is(class string) bool {
	return o.class == class && slices.Contains([]string{"langgraph.types", "langgraph.constants", "langgraph.pregel.types"}, o.module)
}

// field returns a field that is stored by name or by position.
func (o *object) field(name string, position int) any {
	if v, ok := o.fields.get(name); ok {
		return v
	}
	if position < len(o.args) {
		return o.args[position]
	}
	return nil
}

// load decodes a value that LangGraph's serializer wrote with the given type.
func load(kind string, data []byte) (any, error) {
	switch kind {
	case "null", "empty":
		return nil, nil
	case "bytes", "bytearray":
		return data, nil
	case "msgpack":
		return unpack(data)
	case "json":
		return parseJSON(data)
	case "pickle":
		return nil, errors.New("pickle, which only Python can read: store it in another format and import again")
	}
	if _, cipher, ok := strings.Cut(kind, "+"); ok {
		return nil, fmt.Errorf("encrypted (%s): copy the threads with a saver without EncryptedSerializer and import the copy", cipher)
	}
	return nil, fmt.Errorf("unknown serialization type %q", kind)
}

// parseJSON decodes JSON, including LangChain's marked objects.
func parseJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(withoutNaN(data)))
	d.UseNumber()
	v, err := jsonValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the JSON value")
	}
	return v, nil
}

// jsonValue reads the next value. It keeps the order of keys, which json.Unmarshal would
// lose.
func jsonValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nesting exceeds %d levels", maxDepth)
	}
	t, err := d.Token()
	if errors.Is(err, io.EOF) {
		err = errCutOff
	}
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := jsonValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, cutOff(err)
	case json.Delim('{'):
		m := &dict{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, cutOff(err)
			}
			v, err := jsonValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			m.keys, m.values = append(m.keys, k), append(m.values, v)
		}
		_, err := d.Token()
		return revived(m), cutOff(err)
	}
	return t, nil
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return errCutOff
	}
	return err
}

// withoutNaN replaces the numbers that only Python writes to JSON with objects that
// revived decodes.
func withoutNaN(data []byte) []byte {
	if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		return data
	}
	var out []byte
	quoted := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\' && i+1 < len(data):
			out = append(out, c, data[i+1])
			i++
			continue
		case c == '"':
			quoted = !quoted
		case !quoted:
			number := ""
			for _, n := range []string{"NaN", "Infinity", "-Infinity"} {
				if bytes.HasPrefix(data[i:], []byte(n)) {
					number = n
				}
			}
			if number != "" {
				out = append(out, `{"lc":2,"type":"constructor","id":["builtins","float"],"args":["`+number+`"]}`...)
				i += len(number) - 1
				continue
			}
		}
		out = append(out, data[i])
	}
	return out
}

// revived returns the object that a marked dict represents, or the dict itself.
func revived(m *dict) any {
	mark, _ := m.get("lc")
	if n, ok := mark.(json.Number); !ok || n != "1" && n != "2" {
		return m
	}
	raw, _ := m.get("id")
	path, _ := raw.([]any)
	var names []string
	for _, p := range path {
		name, ok := p.(string)
		if !ok {
			return m
		}
		names = append(names, name)
	}
	kind, _ := m.get("type")
	switch {
	case len(names) == 0:
		return m
	case kind == "secret":
		return &object{lost: fmt.Sprintf("LangChain does not save the secret %s: it reads it from the environment", strings.Join(names, "."))}
	case kind == "not_implemented":
		return &object{lost: fmt.Sprintf("LangChain did not save the object of class %s", strings.Join(names, "."))}
	case kind != "constructor" || len(names) < 2:
		return m
	}
	o := &object{module: strings.Join(names[:len(names)-1], "."), class: names[len(names)-1]}
	if v, _ := m.get("args"); v != nil {
		args, ok := v.([]any)
		if !ok {
			return m
		}
		o.args = args
	}
	if v, _ := m.get("kwargs"); v != nil {
		fields, ok := v.(*dict)
		if !ok {
			return m
		}
		o.fields = fields
	}
	if len(o.args) == 0 && o.fields == nil {
		o.fields = &dict{}
	}
	if len(o.args) > 0 && o.fields != nil && len(o.fields.keys) == 0 {
		o.fields = nil // the serializer writes {} for no fields
	}
	return builtin(o)
}

// builtin returns the value of a built-in type that has no JSON form, such as bytes, or o
// itself.
func builtin(o *object) any {
	if o.module != "builtins" || len(o.args) != 1 {
		return o
	}
	text, ok := o.args[0].(string)
	switch {
	case !ok:
	case o.class == "bytes" || o.class == "bytearray":
		data, err := hex.DecodeString(text)
		if err != nil {
			return &object{lost: fmt.Sprintf("%s %.20q is not hexadecimal", o.class, text)}
		}
		return data
	case o.class == "float":
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	}
	return o
}

// messageTypes maps message classes to their types in JSON.
var messageTypes = map[string]string{
	"HumanMessage": "human", "AIMessage": "ai", "SystemMessage": "system", "ToolMessage": "tool",
	"FunctionMessage": "function", "ChatMessage": "chat", "RemoveMessage": "remove",
}

// message returns the type of a LangChain message, or "" if the object is not a message.
func (o *object) message() string {
	if !strings.HasPrefix(o.module, "langchain") {
		return ""
	}
	return messageTypes[strings.TrimSuffix(o.class, "Chunk")]
}

// items returns the elements of a list, tuple, set, or deque.
func items(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case *object:
		if slices.Contains([]string{"set", "frozenset", "deque"}, v.class) && len(v.args) == 1 {
			list, ok := v.args[0].([]any)
			return list, ok
		}
		return nil, (v.class == "set" || v.class == "frozenset" || v.class == "deque") && len(v.args) == 0
	}
	return nil, false
}
