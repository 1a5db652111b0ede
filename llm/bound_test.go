package llm_test

import (
	"context"
	"iter"
	"reflect"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

type asked struct{ req *llm.Request }

func (a *asked) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	a.req = req
	return func(func(llm.Chunk, error) bool) {}
}

// A model with something bound to it is asked all that it is asked around it,
// whichever settings a request will have.
func TestBindingPassesOnEveryField(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[llm.Request]()) {
		var outer llm.Request
		v := reflect.ValueOf(&outer).Elem().FieldByIndex(f.Index)
		switch f.Type.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Pointer:
			v.Set(reflect.New(f.Type.Elem()))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(f.Type, 1, 1))
		case reflect.Map:
			v.Set(reflect.MakeMap(f.Type))
			v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
		default:
			t.Fatalf("this test cannot set %s, a %v", f.Name, f.Type)
		}
		var inner asked
		for range llm.With(&inner).Stream(t.Context(), &outer) {
		}
		if got := reflect.ValueOf(inner.req).Elem().FieldByIndex(f.Index); !reflect.DeepEqual(got.Interface(), v.Interface()) {
			t.Errorf("%s is %v inside, and %v outside", f.Name, got, v)
		}
	}
}
