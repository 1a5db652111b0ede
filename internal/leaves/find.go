package leaves

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Find returns the value at a path in a valid, compact JSON value, or nil. If a key
// occurs twice, the last value counts, as in encoding/json.
func Find(raw []byte, path []string) []byte {
	for _, key := range path {
		switch {
		case len(raw) == 0:
			return nil
		case raw[0] == '{':
			raw = member(raw, key)
		case raw[0] == '[':
			raw = element(raw, key)
		default:
			return nil
		}
		if raw == nil {
			return nil
		}
	}
	return raw
}

func member(raw []byte, key string) []byte {
	var found []byte
	for i := 1; raw[i] != '}'; {
		if raw[i] == ',' {
			i++
		}
		name := raw[i : i+ValueLen(raw[i:])]
		i += len(name) + 1 // the colon
		value := raw[i : i+ValueLen(raw[i:])]
		i += len(value)
		if isKey(name, key) {
			found = value
		}
	}
	return found
}

func isKey(name []byte, key string) bool {
	if inside := name[1 : len(name)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return string(inside) == key
	}
	var decoded string
	_ = json.Unmarshal(name, &decoded) // name is valid
	return decoded == key
}

func element(raw []byte, key string) []byte {
	index, err := strconv.Atoi(key)
	if err != nil || index < 0 || strconv.Itoa(index) != key {
		return nil
	}
	for i, n := 1, 0; raw[i] != ']'; n++ {
		if raw[i] == ',' {
			i++
		}
		value := raw[i : i+ValueLen(raw[i:])]
		if n == index {
			return value
		}
		i += len(value)
	}
	return nil
}

// ValueLen returns the length of the value at the start of raw.
func ValueLen(raw []byte) int {
	switch raw[0] {
	case '"':
		return StringLen(raw)
	case '{', '[':
		depth := 0
		for i := 0; ; {
			switch raw[i] {
			case '"':
				i += StringLen(raw[i:])
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i
			}
		}
	}
	if i := bytes.IndexAny(raw, ",]}"); i >= 0 {
		return i
	}
	return len(raw)
}

// StringLen returns the length of the string at the start of raw.
func StringLen(raw []byte) int {
	if n := bytes.IndexByte(raw[1:], '"'); bytes.IndexByte(raw[1:1+n], '\\') < 0 {
		return n + 2
	}
	for i := 1; ; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}
