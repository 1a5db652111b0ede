package toolindex_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/toolindex"
	"github.com/treadle-go/treadle/llm"
)

func tool(name, description string) *llm.Tool { return &llm.Tool{Name: name, Description: description} }

func named(tools []*llm.Tool) []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}

// found returns the names of the tools that an index without an embedder finds.
func found(t *testing.T, tools []*llm.Tool, text string) []string {
	t.Helper()
	got, err := toolindex.New(tools, nil).Search(t.Context(), text, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	return named(got)
}

func TestIdentifiersAreSplit(t *testing.T) {
	for _, name := range []string{"getWeatherForecast", "get_weather_forecast", "Weather_2_GetForecast", "WEATHERForecast", "geo-weather"} {
		if got := found(t, []*llm.Tool{tool(name, "x"), tool("other", "y")}, "What is the weather?"); !slices.Equal(got, []string{name}) {
			t.Errorf("%s is not found: %v", name, got)
		}
	}
}

func TestArgumentsAreIndexed(t *testing.T) {
	order := tool("submit", "Submits it.")
	order.Parameters = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
		"pizza": {Type: "object", Properties: map[string]*jsonschema.Schema{
			"toppings": {Type: "array", Items: &jsonschema.Schema{Type: "string", Enum: []any{"mushroom", "olive"}}}}},
		"when": {AnyOf: []*jsonschema.Schema{{Type: "string", Description: "delivery time"}}}}}
	for _, text := range []string{"pizzas", "some toppings", "mushrooms", "delivery"} {
		if got := found(t, []*llm.Tool{tool("other", "Does something."), order}, text); !slices.Equal(got, []string{"submit"}) {
			t.Errorf("%q finds %v", text, got)
		}
	}
}

func TestNameCountsMoreThanDescription(t *testing.T) {
	tools := []*llm.Tool{tool("ax", "Books flights now"), tool("by_flight_book", "Does it all"), tool("cx", "Nothing at all")}
	if d := cmp.Diff([]string{"by_flight_book", "ax"}, found(t, tools, "book a flight")); d != "" {
		t.Error(d)
	}
}

func TestMisspelledWordsFindSimilar(t *testing.T) {
	tools := []*llm.Tool{tool("weather", ""), tool("currency_conversion", ""), tool("zoo", "")}
	for text, want := range map[string]string{"wheather": "weather", "convertsion": "currency_conversion", "curency": "currency_conversion"} {
		if got := found(t, tools, text); len(got) == 0 || got[0] != want {
			t.Errorf("%q finds %v", text, got)
		}
	}
	if got := found(t, tools, "qqqq zzzz"); got != nil {
		t.Errorf("unrelated words find %v", got)
	}
}

// The order of the tools given does not matter, and ties are ordered by name.
func TestTiesAreOrderedByName(t *testing.T) {
	var tools []*llm.Tool
	for i := range 50 {
		tools = append(tools, tool(fmt.Sprintf("tool_%02d", i), "Sends a letter."))
	}
	want := named(tools[:10])
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		rnd.Shuffle(len(tools), func(i, j int) { tools[i], tools[j] = tools[j], tools[i] })
		if d := cmp.Diff(want, found(t, tools, "letter")); d != "" {
			t.Fatal(d)
		}
	}
}

func TestDeniedToolsAreSkipped(t *testing.T) {
	x := toolindex.New([]*llm.Tool{tool("send_a", ""), tool("send_b", ""), tool("send_c", "")}, nil)
	got, err := x.Search(t.Context(), "send", 1, func(t *llm.Tool) bool { return t.Name == "send_b" })
	if err != nil || !slices.Equal(named(got), []string{"send_b"}) {
		t.Error(named(got), err)
	}
}

// Hostile schemas and texts cost bounded time: cycles, deep nesting, huge texts.
func TestHostileToolsAreIndexed(t *testing.T) {
	cycle := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	cycle.Properties["again"], cycle.Properties["none"], cycle.Items = cycle, nil, cycle
	deep := &jsonschema.Schema{}
	for range 10_000 {
		deep = &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"a": deep, "b": deep}}
	}
	enum := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"x": {Enum: make([]any, 1_000_000)}}}
	tools := []*llm.Tool{
		{Name: "cycle", Parameters: cycle}, {Name: "deep", Parameters: deep}, {Name: "enum", Parameters: enum},
		tool("long", strings.Repeat("weather ", 1_000_000)), tool("bytes", "\xff\xfe\x00"), tool("", ""), tool("same", ""), tool("same", ""),
	}
	for _, text := range []string{"", "\xff", strings.Repeat("word ", 1_000_000), strings.Repeat("x", 1_000_000), "cycle"} {
		found(t, tools, text)
	}
	if got := found(t, nil, "anything"); got != nil {
		t.Error(got)
	}
}

// meanings is an embedder with one dimension per topic.
type meanings struct {
	batches [][]string
	fail    error
	vector  func(text string) []float32
}

func (m *meanings) Model() string  { return "meanings" }
func (m *meanings) Dimension() int { return 2 }

func (m *meanings) Embed(_ context.Context, texts []string) ([][]float32, error) {
	m.batches = append(m.batches, texts)
	var out [][]float32
	for _, text := range texts {
		out = append(out, m.vector(text))
	}
	return out, m.fail
}

// queries also embeds queries.
type queries struct {
	meanings
	asked []string
}

func (q *queries) EmbedQueries(_ context.Context, texts []string) ([][]float32, error) {
	q.asked = append(q.asked, texts...)
	return [][]float32{{0, 1}}, nil
}

func byTopic(text string) []float32 {
	if strings.Contains(text, "car") {
		return []float32{0, 9}
	}
	return []float32{5, 0}
}

func TestEmbedderFindsByMeaning(t *testing.T) {
	e := &queries{meanings: meanings{vector: byTopic, fail: errors.New("down")}}
	x := toolindex.New([]*llm.Tool{tool("rentCar", "Rents one."), tool("boats", "Sails.")}, e)
	if _, err := x.Search(t.Context(), "automobile", 1, nil); err == nil || !strings.Contains(err.Error(), "embed with meanings: down") {
		t.Fatal(err)
	}
	e.fail = nil // the next search tries again
	for range 2 {
		got, err := x.Search(t.Context(), "automobile", 1, nil)
		if err != nil || !slices.Equal(named(got), []string{"rentCar"}) {
			t.Fatal(named(got), err)
		}
	}
	if d := cmp.Diff([][]string{{"boats: Sails.", "rent car: Rents one."}}, e.batches[1:]); d != "" {
		t.Errorf("tools are embedded once (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"automobile", "automobile"}, e.asked); d != "" {
		t.Error(d)
	}
}

func TestInvalidVectorsAreReported(t *testing.T) {
	for want, v := range map[string][]float32{"vector of 1 numbers, want 2": {1}, "not finite": {float32(math.NaN()), 1}} {
		e := &meanings{vector: func(string) []float32 { return v }}
		_, err := toolindex.New([]*llm.Tool{tool("a", "")}, e).Search(t.Context(), "a", 1, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	zero := &meanings{vector: func(string) []float32 { return []float32{0, 0} }}
	got, err := toolindex.New([]*llm.Tool{tool("a", ""), tool("b", "")}, zero).Search(t.Context(), "b", 2, nil)
	if err != nil || !slices.Equal(named(got), []string{"b"}) {
		t.Error(named(got), err)
	}
}

func TestEmbedderGetsBatches(t *testing.T) {
	e := &meanings{vector: byTopic}
	if _, err := toolindex.New(many(600), e).Search(t.Context(), "x", 1, nil); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, b := range e.batches {
		sizes = append(sizes, len(b))
	}
	if d := cmp.Diff([]int{256, 256, 88, 1}, sizes); d != "" {
		t.Error(d)
	}
}

// many returns tools with different names and descriptions of common and rare words.
func many(n int) []*llm.Tool {
	rnd := rand.New(rand.NewPCG(3, 4))
	words := make([]string, 3000)
	for i := range words {
		words[i] = fmt.Sprintf("w%cord%c%c", 'a'+rune(i%26), 'a'+rune(i/26%26), 'a'+rune(i/676))
	}
	pick := func() string { return words[min(len(words)-1, int(rnd.ExpFloat64()*300))] }
	var out []*llm.Tool
	for i := range n {
		args := map[string]*jsonschema.Schema{}
		for range 4 {
			args[pick()] = &jsonschema.Schema{Type: "string", Description: strings.Join([]string{pick(), pick(), pick(), pick()}, " ")}
		}
		out = append(out, &llm.Tool{Name: fmt.Sprintf("%s_%s_%d", pick(), pick(), i), Description: strings.Join([]string{"Gets the", pick(), pick(), "of the", pick(), pick(), pick()}, " "),
			Parameters: &jsonschema.Schema{Type: "object", Properties: args}})
	}
	return out
}

func BenchmarkSearch2000(b *testing.B) {
	x := toolindex.New(many(2000), nil)
	for b.Loop() {
		if _, err := x.Search(b.Context(), "Please get the wbordba of the wcordcb and the wdorded with its wrongword for me, in the wfordfa", 5, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew2000(b *testing.B) {
	tools := many(2000)
	for b.Loop() {
		toolindex.New(tools, nil)
	}
}
