package bedrock_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// shape is a type in AWS's description of the service. The file has the types of
// the Converse operations; it names its source.
type shape struct {
	Type     string
	Union    bool
	Document bool
	Members  map[string]string
	Required []string
	Member   string // of lists
	Value    string // of maps
	Enum     []string
	Min, Max *float64
	Pattern  string
}

var shapes = sync.OnceValue(func() map[string]shape {
	raw, err := os.ReadFile("testdata/bedrock-runtime.json")
	var file struct{ Shapes map[string]shape }
	if err == nil {
		err = json.Unmarshal(raw, &file)
	}
	if err != nil {
		panic(err)
	}
	return file.Shapes
})

// matches returns an error if encoded JSON does not have a type.
func matches(name string, raw []byte) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return shapes()[name].check(name, v)
}

func (s shape) check(path string, v any) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	}
	sized := func(n int) error {
		if s.Min != nil && float64(n) < *s.Min || s.Max != nil && float64(n) > *s.Max {
			return wrong("size %d", n)
		}
		return nil
	}
	switch v := v.(type) {
	case object:
		if s.Document {
			return nil
		}
		if s.Type == "map" {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if err := shapes()[s.Value].check(path+"."+name, v[name]); err != nil {
					return err
				}
			}
			return sized(len(v))
		}
		if s.Type != "structure" {
			return wrong("object, want %s", s.Type)
		}
		if s.Union && len(v) != 1 {
			return wrong("%d members of a union", len(v))
		}
		for _, name := range s.Required {
			if v[name] == nil {
				return wrong("missing %s", name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member, ok := s.Members[name]
			if !ok {
				return wrong("unknown member %s", name)
			}
			if err := shapes()[member].check(path+"."+name, v[name]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if s.Type != "list" {
			return wrong("list, want %s", s.Type)
		}
		for i, e := range v {
			if err := shapes()[s.Member].check(fmt.Sprintf("%s[%d]", path, i), e); err != nil {
				return err
			}
		}
		return sized(len(v))
	case string:
		if s.Type == "blob" {
			raw, err := base64.StdEncoding.DecodeString(v)
			if err != nil {
				return wrong("%v", err)
			}
			return sized(len(raw))
		}
		if s.Type != "string" || s.Enum != nil && !slices.Contains(s.Enum, v) || s.Pattern != "" && !regexp.MustCompile("^(?:"+s.Pattern+")$").MatchString(v) {
			return wrong("%q is not a %s %v %s", v, s.Type, s.Enum, s.Pattern)
		}
		return sized(len(v))
	case float64:
		if !slices.Contains([]string{"integer", "long", "float", "double"}, s.Type) || s.Min != nil && v < *s.Min || s.Max != nil && v > *s.Max {
			return wrong("number %v, want %s", v, s.Type)
		}
		return nil
	case bool:
		if s.Type != "boolean" {
			return wrong("boolean, want %s", s.Type)
		}
		return nil
	}
	return nil // null
}

// The responses in the tests match the service description. Requests are checked
// when the test server receives them.
func TestFixturesMatchServiceDescription(t *testing.T) {
	reply := llmtest.Reply{Reasoning: []string{"Hm"}, Signature: "cw==", Text: []string{"Hi"}, Stop: llm.StopTools, Usage: llm.Usage{Input: 3, Output: 2, Total: 5},
		Calls: []llmtest.Call{{ID: "1", Name: "look", Args: []string{`{}`}}}}
	if err := matches("ConverseResponse", writeWhole(reply)); err != nil {
		t.Error(err)
	}
	for _, invalid := range []string{`{"messages":[{"role":"user","content":[{"txt":"Hi"}]}]}`, `{"messages":[{"role":"robot","content":[]}]}`, `{"toolConfig":{"tools":[]}}`} {
		if matches("ConverseRequest", []byte(invalid)) == nil {
			t.Errorf("the invalid request %s matches", invalid)
		}
	}
	for _, frame := range writeStream(reply) {
		headers := int(frame[4])<<24 | int(frame[5])<<16 | int(frame[6])<<8 | int(frame[7])
		typ := regexp.MustCompile(`:event-type\x07\x00.(\w+)\x0d`).FindSubmatch(frame[12 : 12+headers])[1]
		var payload object
		if err := json.Unmarshal(frame[12+headers:len(frame)-4], &payload); err != nil {
			t.Fatal(err)
		}
		delete(payload, "p") // padding, which the description does not have
		if err := matches("ConverseStreamOutput", marshal(object{string(typ): payload})); err != nil {
			t.Error(err)
		}
	}
}
