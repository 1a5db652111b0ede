package answer

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestSchemaHasNoBooleans(t *testing.T) {
	raw, err := Schema(reflect.TypeFor[struct {
		Any  any   `json:"any"`
		List []any `json:"list"`
	}]())
	if err != nil || strings.Contains(string(raw), "true") || !strings.Contains(string(raw), `"any":{}`) {
		t.Errorf("the schema is %s, %v", raw, err)
	}
}

func TestAnyTypesHaveNoSchema(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage]()} {
		if raw, err := Schema(typ); raw != nil || err != nil {
			t.Errorf("the schema of %s is %s, %v", typ, raw, err)
		}
	}
}
