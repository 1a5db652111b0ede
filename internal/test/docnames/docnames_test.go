package docnames

import (
	"strings"
	"sync"
	"testing"
)

// load reads the repository once for all tests.
var load = sync.OnceValues(func() (*Tree, error) { return Load("../../..") })

func loaded(t *testing.T) *Tree {
	t.Helper()
	tree, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// If this test fails, correct the page. A name of other software belongs in a column, a block,
// or a phrase that says so (the package comment lists them), or in allow.go with a reason.
func TestDocsNameExistingIdentifiers(t *testing.T) {
	problems, err := loaded(t).Check()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// Each line of a page that names something false gives the problem next to it.
func TestCheckFindsFalseNames(t *testing.T) {
	tree := loaded(t)
	for text, want := range map[string]string{
		"`treadle.AddNod`":                            `unknown name "treadle.AddNod": did you mean "treadle.AddNode"?`,
		"`Thread.Resum`":                              `unknown name "Thread.Resum": did you mean "Thread.Resume"?`,
		"`treadle.Options.StepLimits`":                `unknown name "treadle.Options.StepLimits": did you mean "treadle.Options.StepLimit"?`,
		"`g.Thread(id).Run(ctx, in)` and `g.Runn(x)`": `unknown method or field "g.Runn"`,
		"`payloadOff`":                                `unknown name "payloadOff": did you mean "payloadOf"?`,
		"`TestThatNeverWas`":                          `unknown name "TestThatNeverWas"`,
		"`memory.TestThatNeverWas`":                   `unknown name "memory.TestThatNeverWas"`,
		"`examples/store.Example_basicUs`":            `unknown name "examples/store.Example_basicUs"`,
		"`store/sqlite/open.go`":                      `unknown path "store/sqlite/open.go"`,
		"`natsbus/stream.go`":                         `unknown path "natsbus/stream.go": did you mean "server/natsbus/stream.go"?`,
		"`internal/studio`":                           `unknown path "internal/studio"`,
		"`nothing_here.go`":                           `unknown file "nothing_here.go"`,
		"`--reversion`":                               `unknown flag "--reversion": did you mean "--revision"?`,
		"`treadle thread list`":                       `unknown subcommand of treadle "thread": did you mean "threads"?`,
		"`treadle draw essay --forma svg`":            `unknown flag of treadle draw "--forma": did you mean "--format"?`,
		"`make tests`":                                `unknown make target "tests": did you mean "test"?`,
		"`go test ./natsbus`":                         `unknown package "./natsbus"`,
		"`go test . -run TestThatNeverWas`":           `unknown test in . "TestThatNeverWas"`,
		"`cd bench && go run . -jsn`":                 `unknown flag of bench "-jsn": did you mean "-json"?`,
		"TREADLE_TEST_POSTGRESS":                      `unknown environment variable "TREADLE_TEST_POSTGRESS": did you mean "TREADLE_TEST_POSTGRES"?`,
		"`treadle.run.duraton`":                       `unknown metric or attribute "treadle.run.duraton": did you mean "treadle.run.duration"?`,
		"`gen_ai.agent.nam`":                          `unknown metric or attribute "gen_ai.agent.nam"`,
		"`PUT /threads`":                              `unknown endpoint of PUT "/threads"`,
		"`POST /threads/{id}/signal`":                 `unknown endpoint of POST "/threads/{id}/signal"`,
		"`/runs/waits`":                               `unknown endpoint "/runs/waits": did you mean "/runs/wait"?`,
		"```go\ng := treadle.Compil(b)\n```":          `unknown name "treadle.Compil": did you mean "treadle.Compile"?`,
		"```sh\nmake benchmarks\n```":                 `unknown make target "benchmarks"`,
		"1. `dynamic/wire.go`: add it to `Scrubber`":  `unknown name in dynamic/wire.go "Scrubber"`,
	} {
		c := &checker{Tree: tree, used: map[string]bool{}}
		c.check(markdown("docs/extending.md", []byte(text+"\n")))
		found := c.problems()
		if len(found) != 1 || !strings.HasPrefix(found[0].Text, want) {
			t.Errorf("%s: got %v, want %s", text, found, want)
		}
	}
}

func TestCheckFindsFalseFlagsInGuides(t *testing.T) {
	for command, want := range map[string]string{
		"API_KEYS=ann=secret ./agent --dbx agent.db": `unknown flag of ./agent "--dbx": did you mean "--db"?`,
		"treadle threads show waiting --dbb x.db":    `unknown flag of treadle threads "--dbb": did you mean "--db"?`,
		"go run ./cmd/askk":                          `unknown package "./cmd/askk"`,
	} {
		c := &checker{Tree: loaded(t), used: map[string]bool{}}
		c.check(markdown("docs/deploying.md", []byte("```sh\n"+command+"\n```\n")))
		if found := c.problems(); len(found) != 1 || !strings.HasPrefix(found[0].Text, want) {
			t.Errorf("%s: got %v, want %s", command, found, want)
		}
	}
}

func TestCheckAcceptsTrueNames(t *testing.T) {
	tree := loaded(t)
	for _, text := range []string{
		"`treadle.AddNode`, `Thread.Run`, `*treadle.NodeError`, `treadle.New[State](name)`, `reduce.List[string]`",
		"`http.Handler`, `context.Canceled`, `application/json`, `memories/<agent>`",
		"LangGraph's `RateLimitError`, LangChain's class `ToolNode`",
		"| LangGraph | Treadle |\n|---|---|\n| `RateLimitError` | `client.Error` |",
		"```python\nclient.Threads.Never()\n```",
		"```sh\ncd bench && go run . -json -peers > lines\ngo run . -markdown -from lines\n```",
		"```sh\n(cd sqlite && go test ./internal/ledger -run TestDamagedLedgerIsError)\ngo test ./sqlite/internal/ledger\n```",
		"`treadle dev ./cmd/shop -- --db /tmp/try.db`, `treadle threads list --json`, `--revision 3`, `-race`",
		"`GET /threads/{id}/state`, `POST /ui/{agent}`, `/store`, `/studio/`, `POST /threads/7/runs/wait`",
		"`TREADLE_SOAK=1 go test ./server/internal/chaostest -run LostProcess`, `OPENAI_API_KEY`",
		"`gen_ai.usage.*`, `gen_ai.workflow.name`, `treadle.run.duration`",
	} {
		c := &checker{Tree: tree, used: map[string]bool{}}
		c.check(markdown("docs/page.md", []byte(text+"\n")))
		for _, p := range c.problems() {
			t.Errorf("%s: %s", text, p)
		}
	}
}
