package langgraphimport

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// An encoder turns values of Python into JSON.
type encoder struct {
	problems []string // places in the value, with what could not be converted there
}

// toJSON returns the JSON of a value, and what could not be converted: a place in
// the value, and the reason. Such a part becomes null.
func toJSON(v any) (json.RawMessage, []string) {
	var e encoder
	return e.append(nil, v, ""), e.problems
}

func (e *encoder) fail(b []byte, at, format string, args ...any) []byte {
	text := fmt.Sprintf(format, args...)
	if at != "" {
		text = at + ": " + text
	}
	e.problems = append(e.problems, text)
	return append(b, "null"...)
}

func (e *encoder) append(b []byte, v any, at string) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case json.Number:
		return append(b, v...)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return e.fail(b, at, "%v is a number that JSON does not have", v)
		}
		return append(b, floatText(v, 64)...)
	case string:
		return appendText(b, v)
	case []byte:
		return appendText(b, base64.StdEncoding.EncodeToString(v))
	case []any:
		return e.list(b, v, at)
	case *dict:
		return e.dict(b, v, at, nil)
	case *object:
		return e.object(b, v, at)
	}
	return e.fail(b, at, "%T is not known", v)
}

func appendText(b []byte, s string) []byte {
	raw, _ := json.Marshal(s) // a string always has JSON
	return append(b, raw...)
}

func (e *encoder) list(b []byte, list []any, at string) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.append(b, v, fmt.Sprintf("%s[%d]", at, i))
	}
	return append(b, ']')
}

// dict writes an object. Extra keys come first, and those of d win.
func (e *encoder) dict(b []byte, d *dict, at string, extra map[string]string) []byte {
	b = append(b, '{')
	first := true
	key := func(name string) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendText(b, name), ':')
	}
	for name, text := range extra {
		if _, has := d.get(name); !has {
			key(name)
			b = appendText(b, text)
		}
	}
	if d != nil {
		for i, k := range d.keys {
			name, ok := keyText(k)
			inner := strings.TrimPrefix(at+"."+name, ".")
			if !ok {
				e.fail(nil, at, "a key of type %s has no form in JSON, and its value is left out", kindOf(k))
				continue
			}
			key(name)
			b = e.append(b, d.values[i], inner)
		}
	}
	return append(b, '}')
}

// keyText returns the key of a JSON object for a key of a dict, as Python's json
// does.
func keyText(k any) (string, bool) {
	switch k := k.(type) {
	case string:
		return k, true
	case int64:
		return strconv.FormatInt(k, 10), true
	case uint64:
		return strconv.FormatUint(k, 10), true
	case bool:
		return strconv.FormatBool(k), true
	case nil:
		return "null", true
	case float64:
		return strconv.FormatFloat(k, 'g', -1, 64), true
	case *object:
		if k.class == "UUID" || len(k.args) == 1 && k.fields == nil { // UUIDs and enums
			raw, problems := toJSON(k)
			var s string
			if len(problems) == 0 && json.Unmarshal(raw, &s) == nil {
				return s, true
			}
		}
	}
	return "", false
}

func kindOf(v any) string {
	switch v := v.(type) {
	case *object:
		return strings.TrimPrefix(v.module+"."+v.class, ".")
	case []any:
		return "tuple"
	case []byte:
		return "bytes"
	}
	return fmt.Sprintf("%T", v)
}

// object writes an object of a class: known ones in the form that Go programs read,
// others as their fields.
func (e *encoder) object(b []byte, o *object, at string) []byte {
	if o.unknown != 0 {
		return e.fail(b, at, "msgpack extension %d is not LangGraph's: its program had a serializer of its own", o.unknown)
	}
	if o.data != nil {
		return e.array(b, o, at)
	}
	if list, ok := items(o); ok {
		return e.list(b, list, at)
	}
	if kind := o.message(); kind != "" && o.fields != nil {
		return e.dict(b, o.fields, at, map[string]string{"type": kind})
	}
	switch o.module + "." + o.class {
	case "uuid.UUID":
		if s, ok := o.field("hex", 0).(string); ok && len(s) == 32 {
			return appendText(b, s[:8]+"-"+s[8:12]+"-"+s[12:16]+"-"+s[16:20]+"-"+s[20:])
		}
	case "datetime.date":
		if n, ok := ints(o.args, 3); ok {
			return appendText(b, fmt.Sprintf("%04d-%02d-%02d", n[0], n[1], n[2]))
		}
	case "datetime.timedelta":
		if n, ok := ints(o.args, 3); ok {
			seconds := float64(n[0])*86400 + float64(n[1]) + float64(n[2])/1e6
			return strconv.AppendFloat(b, seconds, 'f', -1, 64)
		}
	case "datetime.time":
		if text, ok := clock(o.fields); ok {
			return appendText(b, text)
		}
	case "datetime.timezone":
		if len(o.args) > 0 {
			if delta, ok := o.args[0].(*object); ok {
				if n, ok := ints(delta.args, 3); ok {
					at := time.FixedZone("", int(n[0]*86400+n[1]))
					return appendText(b, time.Time{}.In(at).Format("-07:00"))
				}
			}
		}
	case "re.compile":
		if s, ok := o.field("pattern", 0).(string); ok {
			return appendText(b, s)
		}
	}
	if strings.HasPrefix(o.module, "pathlib") {
		if text, ok := joined(o.args); ok {
			return appendText(b, text)
		}
	}
	switch {
	case o.fields != nil: // a model, a dataclass, a named tuple
		return e.dict(b, o.fields, at, nil)
	case len(o.args) == 1: // an enum, a Decimal, a datetime, an address, a secret
		return e.append(b, o.args[0], at)
	case o.is("Send") && len(o.args) >= 2:
		return e.dict(b, &dict{keys: []any{"node", "arg"}, values: o.args[:2]}, at, nil)
	}
	return e.fail(b, at, "an object of class %s has no known form", kindOf(o))
}

// ints returns n integers.
func ints(args []any, n int) ([]int64, bool) {
	if len(args) != n {
		return nil, false
	}
	out := make([]int64, n)
	for i, a := range args {
		switch a := a.(type) {
		case int64:
			out[i] = a
		case json.Number:
			var err error
			if out[i], err = a.Int64(); err != nil {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return out, true
}

// clock returns the text of a time of day without a zone.
func clock(f *dict) (string, bool) {
	var parts []any
	for _, name := range []string{"hour", "minute", "second", "microsecond"} {
		v, _ := f.get(name)
		parts = append(parts, v)
	}
	if zone, _ := f.get("tzinfo"); zone != nil {
		return "", false
	}
	n, ok := ints(parts, 4)
	if !ok {
		return "", false
	}
	text := fmt.Sprintf("%02d:%02d:%02d", n[0], n[1], n[2])
	if n[3] != 0 {
		text += fmt.Sprintf(".%06d", n[3])
	}
	return text, true
}

// joined returns the text of a path.
func joined(parts []any) (string, bool) {
	var names []string
	for _, p := range parts {
		name, ok := p.(string)
		if !ok {
			return "", false
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ".", true
	}
	if strings.HasSuffix(names[0], "/") || strings.HasSuffix(names[0], `\`) {
		return names[0] + strings.Join(names[1:], names[0][len(names[0])-1:]), true
	}
	return strings.Join(names, "/"), true
}

// array writes a NumPy array of numbers as nested lists.
func (e *encoder) array(b []byte, o *object, at string) []byte {
	kind, _ := o.data[0].(string)
	shape, _ := o.data[1].([]any)
	order, _ := o.data[2].(string)
	raw, _ := o.data[3].([]byte)
	dims, ok := ints(shape, len(shape))
	if !ok || len(kind) != 3 || kind[0] == '>' {
		return e.fail(b, at, "a NumPy array of type %q cannot be converted", kind)
	}
	size := int64(kind[2] - '0')
	want := size
	for _, d := range dims {
		if d < 0 || d > int64(len(raw)) {
			want = -1
			break
		}
		want *= d
		if want > int64(len(raw)) {
			break
		}
	}
	if want != int64(len(raw)) || numberAt(kind, raw, -1) != "ok" {
		return e.fail(b, at, "a NumPy array of type %q cannot be converted", kind)
	}
	strides := make([]int64, len(dims))
	step := int64(1)
	for i := range dims {
		k := len(dims) - 1 - i
		if order == "F" {
			k = i
		}
		strides[k] = step
		step *= dims[k]
	}
	var write func(axis int, offset int64)
	write = func(axis int, offset int64) {
		if axis == len(dims) {
			text := numberAt(kind, raw, offset*size)
			if text == "" {
				b = e.fail(b, at, "the NumPy array has a number that JSON does not have")
				return
			}
			b = append(b, text...)
			return
		}
		b = append(b, '[')
		for i := range dims[axis] {
			if i > 0 {
				b = append(b, ',')
			}
			write(axis+1, offset+i*strides[axis])
		}
		b = append(b, ']')
	}
	if len(dims) > 32 {
		return e.fail(b, at, "a NumPy array of %d dimensions cannot be converted", len(dims))
	}
	write(0, 0)
	return b
}

// numberAt returns the number of a NumPy array at an offset, "" for one that JSON
// does not have, and for offset -1 whether the type is known: "ok".
func numberAt(kind string, raw []byte, offset int64) string {
	if offset < 0 {
		switch kind[1:] {
		case "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1":
			return "ok"
		}
		return ""
	}
	data := raw[offset:]
	switch kind[1:] {
	case "f4":
		return floatText(float64(math.Float32frombits(binary.LittleEndian.Uint32(data))), 32)
	case "f8":
		return floatText(math.Float64frombits(binary.LittleEndian.Uint64(data)), 64)
	case "i1":
		return strconv.Itoa(int(int8(data[0])))
	case "i2":
		return strconv.Itoa(int(int16(binary.LittleEndian.Uint16(data))))
	case "i4":
		return strconv.Itoa(int(int32(binary.LittleEndian.Uint32(data))))
	case "i8":
		return strconv.FormatInt(int64(binary.LittleEndian.Uint64(data)), 10)
	case "u1":
		return strconv.Itoa(int(data[0]))
	case "u2":
		return strconv.Itoa(int(binary.LittleEndian.Uint16(data)))
	case "u4":
		return strconv.FormatUint(uint64(binary.LittleEndian.Uint32(data)), 10)
	case "u8":
		return strconv.FormatUint(binary.LittleEndian.Uint64(data), 10)
	default:
		return strconv.FormatBool(data[0] != 0)
	}
}

func floatText(f float64, bits int) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}
