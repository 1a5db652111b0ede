package langgraphimport

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// An encoder converts Python values to JSON.
type encoder struct {
	problems []string // locations in the value and what could not be converted there
}

// toJSON returns the JSON form of v and a list of problems, each with its location in the
// value. A part that cannot be converted becomes null.
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
			return e.fail(b, at, "%v has no JSON form", v)
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
	return e.fail(b, at, "unknown type %T", v)
}

func appendText(b []byte, s string) []byte {
	raw, _ := json.Marshal(s) // marshaling a string cannot fail
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

// dict writes an object. It writes the extra keys first, except those that d contains. If
// two keys of d are equal in JSON, the string key wins, and otherwise the last key, as in
// Python.
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
	if d == nil {
		return append(b, '}')
	}
	wins := make(map[string]int, len(d.keys)) // index of the written key, by name
	for i, k := range d.keys {
		name, ok := keyText(k)
		if !ok {
			e.fail(nil, at, "value omitted: key of type %s has no JSON form", kindOf(k))
			continue
		}
		old, taken := wins[name]
		if !taken {
			wins[name] = i
			continue
		}
		_, isText := k.(string)
		if _, wasText := d.keys[old].(string); isText || !wasText {
			wins[name], old = i, wins[name]
		} else {
			old = i
		}
		if isText && d.keys[old] == k {
			e.fail(nil, at, "duplicate key %q: only its last value is imported", name)
			continue
		}
		e.fail(nil, at, "keys %s and %s are equal in JSON: value of the first omitted", keyName(d.keys[old]), keyName(d.keys[wins[name]]))
	}
	for i, k := range d.keys {
		name, ok := keyText(k)
		if !ok || wins[name] != i {
			continue
		}
		key(name)
		b = e.append(b, d.values[i], strings.TrimPrefix(at+"."+name, "."))
	}
	return append(b, '}')
}

// keyName returns a dict key in Python syntax.
func keyName(k any) string {
	text, _ := keyText(k)
	switch k.(type) {
	case nil:
		return "None"
	case bool:
		return strings.ToUpper(text[:1]) + text[1:]
	case int64, uint64, float64:
		return text
	}
	return strconv.Quote(text)
}

// keyText converts a dict key to a JSON object key, as Python's json does. A key that
// Python's json does not allow is converted to the text of its value.
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
		return pythonFloat(k), true
	case []byte, *object:
		raw, problems := toJSON(k)
		var s string
		if len(problems) == 0 && json.Unmarshal(raw, &s) == nil {
			return s, true
		}
	}
	return "", false
}

// pythonFloat formats a float as Python's json does.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	text := strconv.FormatFloat(f, format, -1, 64)
	if format == 'f' && !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
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

// object writes an object. Known classes are written in the form that Go programs read,
// others as their fields.
func (e *encoder) object(b []byte, o *object, at string) []byte {
	if o.lost != "" {
		return e.fail(b, at, "%s", o.lost)
	}
	if o.unknown != 0 {
		return e.fail(b, at, "msgpack extension %d is not LangGraph's: the program used a custom serializer", o.unknown)
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
			return append(b, seconds(n)...)
		}
	case "datetime.time":
		if text, ok := clock(o); ok {
			return appendText(b, text)
		}
	case "datetime.timezone":
		if text, ok := offset(o); ok {
			return appendText(b, text)
		}
	case "re.compile":
		return e.pattern(b, o, at)
	}
	if strings.HasPrefix(o.module, "pathlib") {
		if text, ok := joined(o.args); ok {
			return appendText(b, text)
		}
	}
	switch {
	case o.fields != nil: // a model, a dataclass, a named tuple
		if len(o.args) > 0 {
			e.fail(nil, at, "unnamed arguments of the object of class %s omitted", kindOf(o))
		}
		return e.dict(b, o.fields, at, nil)
	case len(o.args) == 1: // an enum, a Decimal, a datetime, an address, a secret
		return e.append(b, o.args[0], at)
	case o.is("Send") && len(o.args) >= 2:
		return e.dict(b, &dict{keys: []any{"node", "arg"}, values: o.args[:2]}, at, nil)
	}
	return e.fail(b, at, "unsupported object of class %s", kindOf(o))
}

// ints returns args as n integers. It returns false if args has a different length or
// other types.
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

// seconds converts days, seconds, and microseconds to a decimal number of seconds.
func seconds(n []int64) string {
	micros := new(big.Int).Mul(big.NewInt(n[0]), big.NewInt(86400))
	micros.Add(micros, big.NewInt(n[1])).Mul(micros, big.NewInt(1e6)).Add(micros, big.NewInt(n[2]))
	text := new(big.Rat).SetFrac(micros, big.NewInt(1e6)).FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// offset formats a time zone with a fixed offset from UTC.
func offset(zone any) (string, bool) {
	o, ok := zone.(*object)
	if !ok || o.module != "datetime" || o.class != "timezone" || len(o.args) == 0 {
		return "", false
	}
	delta, ok := o.args[0].(*object)
	if !ok {
		return "", false
	}
	n, ok := ints(delta.args, 3)
	if !ok || n[0] < -1 || n[0] > 1 || n[1] < 0 || n[1] >= 86400 || n[2] != 0 {
		return "", false
	}
	layout := "-07:00"
	if n[1]%60 != 0 {
		layout = "-07:00:00"
	}
	return time.Time{}.In(time.FixedZone("", int(n[0]*86400+n[1]))).Format(layout), true
}

// clock formats a time of day. Its parts are named, or positional in older JSON.
func clock(o *object) (string, bool) {
	var parts []any
	for i, name := range []string{"hour", "minute", "second", "microsecond"} {
		parts = append(parts, o.field(name, i))
	}
	n, ok := ints(parts, 4)
	if !ok {
		return "", false
	}
	text := fmt.Sprintf("%02d:%02d:%02d", n[0], n[1], n[2])
	if n[3] != 0 {
		text += fmt.Sprintf(".%06d", n[3])
	}
	if zone := o.field("tzinfo", 4); zone != nil {
		shift, ok := offset(zone)
		if !ok {
			return "", false
		}
		text += shift
	}
	return text, true
}

// Flags of Python's regular expressions.
const (
	flagIgnoreCase = 2
	flagMultiline  = 8
	flagDotAll     = 16
	flagUnicode    = 32 // set in every text pattern
)

// pattern writes a regular expression. It writes the flags that Go supports as a prefix.
func (e *encoder) pattern(b []byte, o *object, at string) []byte {
	text, ok := o.field("pattern", 0).(string)
	if !ok {
		return e.fail(b, at, "unsupported regular expression for bytes")
	}
	flags := number(o.field("flags", 1))
	var known []byte
	for _, f := range []struct {
		bit    int64
		letter byte
	}{{flagIgnoreCase, 'i'}, {flagMultiline, 'm'}, {flagDotAll, 's'}} {
		if flags&f.bit != 0 {
			known = append(known, f.letter)
		}
	}
	if rest := flags &^ (flagIgnoreCase | flagMultiline | flagDotAll | flagUnicode); rest != 0 {
		e.fail(nil, at, "flags %d of the regular expression omitted", rest)
	}
	if len(known) > 0 {
		text = "(?" + string(known) + ")" + text
	}
	return appendText(b, text)
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
		return e.fail(b, at, "unsupported NumPy array of type %q", kind)
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
		return e.fail(b, at, "unsupported NumPy array of type %q", kind)
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
				b = e.fail(b, at, "number in the NumPy array has no JSON form")
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
		return e.fail(b, at, "unsupported NumPy array of %d dimensions", len(dims))
	}
	write(0, 0)
	return b
}

// numberAt returns the number at an offset of a NumPy array, or "" if JSON cannot
// represent it. If offset is -1, it returns "ok" if the type is supported and ""
// otherwise.
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
