package treadle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/pregel"
)

// TestEveryKindOfEventIsPublished holds the engine's closed set of events
// against publish: a kind without a case there would panic here.
func TestEveryKindOfEventIsPublished(t *testing.T) {
	rec := &pregel.Record{}
	samples := map[pregel.Kind]struct {
		data pregel.Data
		want Event
	}{
		pregel.KindValues:      {&pregel.Values{Record: rec}, Values{}},
		pregel.KindUpdated:     {&pregel.Updated{Record: rec}, Updated{}},
		pregel.KindCustom:      {pregel.Custom{}, Custom{}},
		pregel.KindToken:       {&pregel.Token{}, Token{}},
		pregel.KindTaskStart:   {&pregel.TaskStart{}, TaskStarted{}},
		pregel.KindTaskEnd:     {&pregel.TaskEnd{Record: rec}, TaskFinished{}},
		pregel.KindInterrupted: {&pregel.Interrupted{}, Interrupted{}},
		pregel.KindAbandoned:   {&pregel.Abandoned{}, Abandoned{}},
		pregel.KindCheckpoint:  {&pregel.Checkpoint{Values: rec}, Checkpointed{}},
		pregel.KindSpan:        {&pregel.Span{}, Lifecycle{}},
	}
	for kind := range pregel.Kinds {
		sample, ok := samples[kind]
		if !ok {
			t.Errorf("no sample of event kind %d: add one above, and a case to publish in event.go", kind)
			continue
		}
		if got := sample.data.Kind(); got != kind {
			t.Errorf("%T has kind %d, want %d", sample.data, got, kind)
		}
		var p publisher
		got := p.publish(&pregel.Event{Mode: pregel.ModeDebug, At: &pregel.Origin{Node: "n"}, Data: sample.data})
		if reflect.TypeOf(got) != reflect.TypeOf(sample.want) {
			t.Errorf("%T is published as %T, want %T", sample.data, got, sample.want)
		}
		if at := got.Where(); at.Node != "n" || at.Mode != ModeDebug {
			t.Errorf("%T is published with origin %+v", sample.data, at)
		}
	}
}

func TestEveryNamedModeIsAccepted(t *testing.T) {
	for mode, name := range modeNames {
		if err := mode.check(); err != nil {
			t.Errorf("mode %s: %v: raise the bounds in Mode.String and allModes in event.go", name, err)
		}
	}
	var names []string
	for _, name := range modeNames {
		names = append(names, name)
	}
	all := strings.Split(allModes.String(), "|")
	slices.Sort(names)
	if !slices.Equal(names, slices.Sorted(slices.Values(all))) {
		t.Errorf("allModes prints as %q, but modeNames lists %q: raise the bound in Mode.String in event.go", all, names)
	}
}

func TestUnknownEventDataIsNotCustom(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("publish took an unknown event")
		}
	}()
	var p publisher
	p.publish(&pregel.Event{At: &pregel.Origin{}, Data: unknownData{}})
}

type unknownData struct{}

func (unknownData) Kind() pregel.Kind { return pregel.Kinds }

func TestTokensOfMessageShareOrigin(t *testing.T) {
	var p publisher
	token := func(at *pregel.Origin, of *pregel.Token) *Origin {
		return p.publish(&pregel.Event{Mode: pregel.ModeMessages, At: at, Data: of}).(Token).Origin
	}
	a, b := &pregel.Origin{Node: "a"}, &pregel.Origin{Node: "b"}
	one, two := &pregel.Token{Tags: []string{"one"}}, &pregel.Token{Tags: []string{"two"}}
	first, other := token(a, one), token(b, two)
	if token(a, one) != first || token(b, two) != other {
		t.Error("two models that write side by side: tokens of one message have different origins")
	}
	if got := token(a, two); got == first || !slices.Equal(got.Tags, two.Tags) || !slices.Equal(first.Tags, one.Tags) {
		t.Errorf("two messages of one task have the tags %q and %q", first.Tags, got.Tags)
	}
	for range 3 * maxOrigins {
		token(&pregel.Origin{}, one)
	}
	if n := len(p.origins); n > maxOrigins {
		t.Errorf("%d origins are kept, want at most %d", n, maxOrigins)
	}
	if got := token(a, one); got.Node != "a" {
		t.Errorf("origin of a token: %+v", got)
	}
}

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
