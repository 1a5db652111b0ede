package treadle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math/bits"
	"slices"
	"testing"

	"github.com/treadle-go/treadle/internal/pregel"
)

// The constants are written out so that documentation shows their values; the
// engine has the same.
func TestConstantsMatchEngine(t *testing.T) {
	for ours, engines := range map[string]string{
		Start: pregel.Start, End: pregel.End, InputNode: pregel.InputNode, CopyNode: pregel.CopyNode,
		TagHidden: pregel.TagHidden, TagNoStream: pregel.TagNoStream,
	} {
		if ours != engines {
			t.Errorf("%q is %q in the engine", ours, engines)
		}
	}
	public, engines := modeConstants(t, "event.go"), modeConstants(t, "internal/pregel/event.go")
	if !slices.Equal(public, engines) {
		t.Errorf("the modes are %v, and %v in the engine", public, engines)
	}
	if n := len(public) - 1; n != bits.OnesCount16(uint16(allModes)) || n != len(modeNames) {
		t.Errorf("there are %d modes, but allModes is %b, and modeNames has %d", n, allModes, len(modeNames))
	}
	for ours, engines := range map[Durability]pregel.Durability{Sync: pregel.Sync, Async: pregel.Async, Exit: pregel.Exit} {
		if ours != Durability(engines) {
			t.Errorf("durability %d is %d in the engine", ours, engines)
		}
	}
}

// modeConstants returns the expression of the first Mode constant in a file, and the
// names of all Mode constants that continue it.
func modeConstants(t *testing.T, file string) (out []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			switch first := len(out) == 0; {
			case first && (value.Type == nil || types.ExprString(value.Type) != "Mode"):
				continue
			case first:
				out = []string{types.ExprString(value.Values[0])}
			case value.Values != nil:
				return out
			}
			out = append(out, value.Names[0].Name)
		}
		if out != nil {
			return out
		}
	}
	t.Fatalf("%s has no Mode constants", file)
	return nil
}
