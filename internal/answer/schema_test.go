package answer

import (
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
