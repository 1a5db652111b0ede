package code_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type number struct {
	N int `json:"n"`
}

type text struct {
	Text string `json:"text"`
}

// effects counts the calls of tools by their arguments.
type effects struct {
	mu   sync.Mutex
	made map[string]int
	all  int
}

func (e *effects) note(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made == nil {
		e.made = map[string]int{}
	}
	e.made[what]++
	e.all++
}

// tools returns tools with effects.
func (e *effects) tools() []*llm.Tool {
	return []*llm.Tool{
		llm.NewTool("double", "Doubles a number.", func(_ context.Context, in number) (number, error) {
			e.note(fmt.Sprint("double ", in.N))
			return number{2 * in.N}, nil
		}),
		llm.NewTool("say", "Returns a text.", func(_ context.Context, in text) (string, error) {
			e.note("say " + in.Text)
			return in.Text, nil
		}),
		llm.NewTool("fail", "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("broken pipe") }),
		llm.NewTool("my-tool", "Has a dash.", func(context.Context, struct{}) (string, error) { return "dash", nil }),
	}
}

func script(source string) llm.ToolCall {
	return llmtest.ToolCall("run_code", map[string]string{"code": source})
}

// build returns an agent whose model runs the scripts in one message, and then ends.
func build(t testing.TB, e *effects, o *agent.Options, opts *code.Options, sources ...string) *treadle.Graph[agent.State, agent.State] {
	t.Helper()
	var calls []llm.ToolCall
	for _, s := range sources {
		calls = append(calls, script(s))
	}
	if o == nil {
		o = &agent.Options{}
	}
	o.Tools = append(o.Tools, e.tools()...)
	o.Middleware = append(o.Middleware, code.Mode(opts))
	o.Graph.Saver = checkpoint.NewMemory()
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		if r.Messages[len(r.Messages)-1].Role == llm.RoleTool {
			return llm.Assistant("done"), nil
		}
		return llm.Assistant("", calls...), nil
	})
	a, err := agent.New(model, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// results returns the results of scripts.
func results(s agent.State) (out []llm.Message) {
	for _, m := range s.Messages {
		if m.Role == llm.RoleTool {
			out = append(out, m)
		}
	}
	return out
}

// run runs one script and returns its result.
func run(t testing.TB, opts *code.Options, source string) llm.Message {
	t.Helper()
	out, err := build(t, &effects{}, nil, opts, source).Thread("1").Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	return results(out)[0]
}

func TestScripts(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`return 1 + 1`, "2"},
		{`return "a text"`, "a text"},
		{`return {a: [1, null, true]}`, `{"a":[1,null,true]}`},
		{`const r = await tools.double({n: 4}); return r.n + 1`, "9"},
		{`return await tools.say({text: "1"})`, "1"},
		{`return typeof await tools.say({text: "1"})`, "string"},
		{`return tools["my-tool"]()`, "dash"},
		{`let s = 0; for (const n of [1, 2, 3]) { const r = await tools.double({n}); s += r.n } return s`, "12"},
		{`const all = await Promise.all([3, 1, 2].map(n => tools.double({n}))); return all.map(r => r.n).filter(n => n > 2)`, "[6,4]"},
		{`console.log("a", {b: 1}, undefined, 2n, () => 1); console.error(new Error("x")); return "r"`, "Log:\na {\"b\":1} undefined 2n [function]\nError: x\n\nr"},
		{`console.log("only")`, "Log:\nonly"},
		{``, "(no value)"},
		{`try { await tools.fail() } catch (e) { return [e.name, e instanceof ToolError, e instanceof Error, e.message.includes("broken pipe")] }`, `["ToolError",true,true,true]`},
		{`tools.say({text: "floating"}); return "end"`, "end"},
		{`return [3, 20, 100].sort()`, "[100,20,3]"},
		{`return [[1, [2]], 3].flat().concat([4], 5, [[6]]).flatMap(x => [x, 0]).length`, "12"},
		{`return ["a,b".split(","), "aXbX".replaceAll("X", "-"), "ab1c".match(/\d/)[0], "x".includes("x"), new RegExp("a+").test("caab")]`, `[["a","b"],"a-b-","1",true,true]`},
		{`let n = 0; for (const x of new Set([1, 2, 2])) n += x; for (const [k, v] of Object.entries({a: 3})) n += v; return n + Math.max(...[4, 5])`, "11"},
		{`return [new Date(0).getHours(), new Date(2020, 1, 2).toISOString(), new Date(86400000).toDateString(), typeof Date.now(), new Date() instanceof Date]`,
			`[0,"2020-02-02T00:00:00.000Z","1970-01-02","number",true]`},
		{`return ["2026-11-19T10:00", "2026-11-19T10:00:00.5", "2026-11-19", "2026-11-19T10:00+01:00", "2026-11-19T10:00Z"].map(s => new Date(s).toISOString())`,
			`["2026-11-19T10:00:00.000Z","2026-11-19T10:00:00.500Z","2026-11-19T00:00:00.000Z","2026-11-19T09:00:00.000Z","2026-11-19T10:00:00.000Z"]`},
		{`return ["Nov 19 2026 10:00", "Thu, 19 Nov 2026 10:00:00 GMT", "Nov 19 2026 10:00 EST", "11/19/2026", "2026-11-19 10:00", "Nov 19 2026 10:00 GMT+0100"].map(s => (Date.parse(s) - Date.UTC(2026, 10, 19)) / 3600000)`,
			`[10,10,15,0,10,9]`},
		{`return [new Date(new String("2026-11-19T10:00")).getHours(), isNaN(new Date("no date")), new Date(new Date(5)).getTime(), new Date(String(new Date(0))).getTime()]`, `[10,true,5,0]`},
		{`return Math.random() !== Math.random()`, "true"},
		{`const a = tools.say({text: "a"}).then(x => x + "!"); return [await a, await tools.say({text: "b"}).catch(() => 1), await Promise.race([tools.say({text: "c"}), new Promise(() => {})])]`, `["a!","b","c"]`},
	} {
		if got := run(t, nil, c.source); got.Text() != c.want || got.Status == llm.StatusError {
			t.Errorf("%s\ngot  %q (%s)\nwant %q", c.source, got.Text(), got.Status, c.want)
		}
	}
}

// Every mistake and attack is a result that names it.
func TestHostileScripts(t *testing.T) {
	small := &code.Options{Time: 300 * time.Millisecond, Memory: 16 << 20, Calls: 5, Output: 1000}
	for _, c := range []struct{ source, want string }{
		{`for (;;);`, "exceeded 300ms of computation"},
		{`try { for (;;); } catch (e) { return 1 } finally { for (;;); }`, "of computation"},
		{`for (;;) await null`, "of computation"},
		{`const f = () => Promise.resolve().then(f); f(); await new Promise(() => {})`, "of computation|never settles"}, // its promises may fill the memory first, which ends the chain
		{`return /^(?:(a*)*)*$/.test("a".repeat(5000) + "b")`, "of computation"},
		{`const a = []; for (;;) a.push("x".repeat(1e6) + a.length)`, "out of memory"},
		{`return "x".repeat(1e9)`, "out of memory|invalid string length"},
		{`return new ArrayBuffer(1e10)`, "out of memory|invalid array buffer length"},
		{`const f = () => f(); f()`, "stack overflow"},
		{`let x = []; x[0] = x; return x`, "circular"},
		{`let x = 1; for (let i = 0; i < 100000; i++) x = {x}; return x`, "stack overflow|out of memory|of computation"},
		{`return 10n`, "BigInt|bigint"},
		{`return () => 1`, "returned a function"},
		{`return Symbol("x")`, "returned a symbol"},
		{`return {get a() { throw new Error("getter") }}`, "getter"},
		{`return {toJSON() { for (;;); }}`, "of computation"},
		{`throw {toString() { for (;;); }, name: {toString() { throw 1 }}}`, "computed|cannot be read|threw"},
		{`throw null`, "threw null"},
		{`throw new RangeError("odd")`, "RangeError: odd (line 1, column"},
		{"const a = 1;\nconst b = ;\nreturn a", "SyntaxError: unexpected token in expression: ';' (line 2, column 11)"},
		{"const a = 1;\n\n  undefined.x", "(line 3, column"},
		{`await new Promise(() => {})`, "never settles"},
		{`return await tools.fail()`, "ToolError: Error: tool fail: broken pipe"},
		{`tools.fail(); return 1`, "Unhandled error of tools.fail"},
		{`return tools.dubble({n: 1})`, `unknown tool "dubble": did you mean`},
		{`return tools.run_code({code: "1"})`, `unknown tool "run_code"`},
		{`return tools.double(1)`, "call tools.double with one object"},
		{`return tools.double({n: 1n})`, "BigInt|bigint"},
		{`return tools.double({n: "x"})`, "ToolError"},
		{`for (let i = 0; i < 9; i++) await tools.double({n: i})`, "at most 5 tool calls"},
		{`tools.double = () => 1`, "tools cannot be changed"},
		{`return import("fs")`, "Error"},
		{`return eval("1")`, "not defined"},
		{`return new Function("return 1")()`, "code cannot be made from a string"},
		{`return (async () => {}).constructor("return 1")()`, "code cannot be made from a string"},
		{`return [typeof require, typeof process, typeof fetch, typeof setTimeout, typeof os, typeof std, typeof Proxy, typeof WeakRef, typeof Atomics, typeof __host, typeof performance].join()`,
			"undefined,undefined,undefined,undefined,undefined,undefined,undefined,undefined,undefined,undefined,undefined"},
		{`return new Array(4294967295).join("x")`, "array is too long"},
		{`return Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)`, "array methods work only on arrays"},
		{`const a = []; a.length = 4294967295; return new Set(a).size`, "array is too long"},
		{`const a = []; a.length = 4294967295; const i = [].values(); return [[], a].flat().length`, "too long"},
		{`const a = []; a.length = 4294967295; return JSON.stringify({}, a)`, "too long"},
		{`const a = []; const i = a.values(); a.length = 4294967295; return i.drop ? i.drop(4e9).next() : 1`, "of computation|1"},
		{`return "a".repeat(3e6).indexOf("a".repeat(1e6) + "b")`, "too long"},
		{`return new RegExp("[" + "ab".repeat(1e5) + "]")`, "pattern is too long"},
		{`return "x".match("a".repeat(20000))`, "pattern is too long"},
		{`return ("a" + "\u0301".repeat(1e6)).normalize()`, "too long"},
		{`Array.prototype.push = Map.prototype.get = Promise.prototype.then = null; Object.prototype.name = "p"; return (await tools.double({n: 1})).n`, "2|Error"},
		{`Object.defineProperty(Object.prototype, "0", {set() { throw 1 }}); return tools.double({n: 2})`, "4|Error"},
		{`Promise.reject(new Error("ignored")); return 5`, "5"},
		{`for (let i = 0; ; i++) console.log("line " + i)`, "of computation"},
		{`console.log("x".repeat(5000)); return "y".repeat(5000)`, "(cut: 1000 of 5001 bytes)"},
		{`})(); (async () => { return 7`, "never settles|7|(no value)"},
		{"\x00", "SyntaxError"},
	} {
		opts := *small
		if !strings.Contains(c.want, "of computation") {
			opts.Time = time.Minute // the machine may be slow
		}
		got := run(t, &opts, c.source).Text()
		if !anyOf(got, c.want) {
			t.Errorf("%s\ngot  %.300q\nwant %q", c.source, got, c.want)
		}
		if len(got) > 3000 {
			t.Errorf("%s: result has %d bytes", c.source, len(got))
		}
	}
}

func anyOf(got, want string) bool {
	for part := range strings.SplitSeq(want, "|") {
		if strings.Contains(got, part) {
			return true
		}
	}
	return false
}

func TestLongScriptIsRejected(t *testing.T) {
	got := run(t, &code.Options{Source: 10}, "return 1 + 1 + 1")
	if want := "Error: the script is too long: 16 bytes, at most 10"; got.Text() != want || got.Status != llm.StatusError {
		t.Errorf("got %q, want %q", got.Text(), want)
	}
}

func TestCanceledScriptEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := &agent.Options{Tools: []*llm.Tool{llm.NewTool("stop", "Cancels the run.", func(context.Context, struct{}) (string, error) {
		cancel()
		return "", nil
	})}}
	_, err := build(t, &effects{}, o, nil, `await tools.stop(); for (;;);`).Thread("1").Run(ctx, agent.Ask("go"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// gated is a script that mixes calls with and without a gate, the clock, and random numbers.
const gated = `
const first = await tools.double({n: 1});
const [a, b] = await Promise.all([tools.say({text: "gate " + first.n}), tools.double({n: 3})]);
const at = Date.now(), random = Math.random();
const c = await tools.say({text: "gate " + b.n});
return [a, c, at, random].join()`

func ask() *agent.Options {
	return &agent.Options{Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "say"})}}
}

func stopped(t *testing.T, err error) []treadle.Pause {
	t.Helper()
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatalf("want a question, got %v", err)
	}
	return stop.Pauses
}

func approve(ps []treadle.Pause, d agent.Decision) treadle.Answers {
	out := treadle.Answers{}
	for _, p := range ps {
		out[p.ID] = agent.Decisions{d}
	}
	return out
}

func TestGatesApplyToNestedCalls(t *testing.T) {
	e := &effects{}
	thread := build(t, e, ask(), nil, gated).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	for i, want := range []string{`{"text":"gate 2"}`, `{"text":"gate 6"}`} {
		ps := stopped(t, err)
		var about agent.Review
		if err := ps[0].Decode(&about); err != nil || len(ps) != 1 || string(about.Calls[0].Args) != want {
			t.Fatalf("question %d: got %d %+v %v, want %s", i, len(ps), about, err, want)
		}
		if e.made["say gate 2"] != i {
			t.Errorf("%d: a call ran without approval: %v", i, e.made)
		}
		_, err = thread.Resume(t.Context(), approve(ps, agent.Decision{Type: agent.Approve}))
	}
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range e.made {
		if n != 1 {
			t.Errorf("%s ran %d times", what, n)
		}
	}
	if len(e.made) != 4 {
		t.Errorf("got %v, want 4 calls", e.made)
	}
}

// A script that was started by another version of the engine fails its run: the model must not
// get the chance to do its work again.
func TestOtherEngineFailsRun(t *testing.T) {
	e := &effects{}
	thread := build(t, e, ask(), nil, `await tools.double({n: 1}); await tools.say({text: "a"}); return "end"`).Thread("1")
	_, err := thread.Run(t.Context(), agent.Ask("go"))
	answer := approve(stopped(t, err), agent.Decision{Type: agent.Approve})
	restore := code.SetEngine("other")
	_, err = thread.Resume(t.Context(), answer)
	restore()
	if err == nil || !strings.Contains(err.Error(), "another version of the engine") || !strings.Contains(err.Error(), "with engine other") {
		t.Fatalf("got %v, want an error that names the versions", err)
	}
	if _, err = thread.Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e.made["double 1"] != 1 || e.made["say a"] != 1 || e.all != 2 {
		t.Errorf("got calls %v, want each once", e.made)
	}
}

// A script may be replayed on a machine in another time zone.
func TestScriptsIgnoreTimeZone(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestScripts$") //nolint:gosec // this test binary
	cmd.Env = append(os.Environ(), "TZ=America/New_York")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPersonEditsAndRejectsNestedCalls(t *testing.T) {
	source := `try { return await tools.say({text: "a"}) } catch (e) { return "caught " + e.message }`
	for _, c := range []struct {
		agent.Decision
		want string
	}{
		{agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: "say", Args: json.RawMessage(`{"text":"edited"}`)}}, "edited"},
		{agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: "double", Args: json.RawMessage(`{"n":1}`)}}, "caught Error: the person replaced the call"},
		{agent.Decision{Type: agent.Reject, Message: "no"}, "caught User rejected"},
		{agent.Decision{Type: agent.Respond, Message: "instead"}, "instead"},
	} {
		e := &effects{}
		thread := build(t, e, ask(), nil, source).Thread("1")
		_, err := thread.Run(t.Context(), agent.Ask("go"))
		out, err := thread.Resume(t.Context(), approve(stopped(t, err), c.Decision))
		if err != nil {
			t.Fatal(err)
		}
		if got := results(out)[0].Text(); !strings.HasPrefix(got, c.want) || e.made["say a"] > 0 {
			t.Errorf("%s: got %q, calls %v, want %q", c.Type, got, e.made, c.want)
		}
	}
}

// No way to reach a gated tool from a script avoids its gate.
func TestScriptsCannotBypassGates(t *testing.T) {
	for _, source := range []string{
		`const f = tools.say; return f({text: "x"})`,
		`return tools.say.call(null, {text: "x"})`,
		`return Reflect.apply(tools["s" + "ay"], {}, [{text: "x"}])`,
		`const {say} = tools; return say({text: "x"})`,
		`return Object.getOwnPropertyDescriptor(tools, "say").value({text: "x"})`,
		`return tools.double.constructor.prototype.call.call(tools.say, tools.double, {text: "x"})`,
		`Object.defineProperty(Function.prototype, "name", {value: "double"}); return tools.say({text: "x"})`,
		`JSON.stringify = () => '{"n":1}'; return tools.say({text: "x"})`,
		`Object.prototype.say = tools.double; return tools.say({text: "x"})`,
		`String.prototype.toString = () => "double"; return tools.say({text: "x"})`,
		`return Object.values(tools)[Object.keys(tools).indexOf("say")]({text: "x"})`,
	} {
		e := &effects{}
		_, err := build(t, e, ask(), nil, source).Thread("1").Run(t.Context(), agent.Ask("go"))
		stopped(t, err)
		if e.all != 0 {
			t.Errorf("%s: ran %v", source, e.made)
		}
	}
	for _, source := range []string{
		`return tools.Say({text: "x"})`, `return tools["say "]({text: "x"})`, `return tools["say\0"]({text: "x"})`, `return tools.ѕay({text: "x"})`,
		`return tools[["say", ""]]({text: "x"})`, `return tools.__proto__.say({text: "x"})`, `return tools.constructor("say")`,
		`return tools[Symbol.for("say")]({text: "x"})`, `return __host("call", "say", '{"text":"x"}')`, `return globalThis.__host("call", "say", "{}")`,
	} {
		e := &effects{}
		out, err := build(t, e, ask(), nil, source).Thread("1").Run(t.Context(), agent.Ask("go"))
		if err != nil || e.all != 0 || results(out)[0].Status != llm.StatusError {
			t.Errorf("%s: got %v, ran %v", source, err, e.made)
		}
	}
}

func TestToolsOptionLimitsScripts(t *testing.T) {
	got := run(t, &code.Options{Tools: []string{"say"}}, `return tools.double({n: 1})`)
	if !strings.Contains(got.Text(), `unknown tool "double"`) {
		t.Errorf("got %q", got.Text())
	}
}

func TestLimitsCountNestedCalls(t *testing.T) {
	source := `const out = []; for (let n = 0; n < 4; n++) { try { await tools.double({n}); out.push(n) } catch (e) { out.push(e.message) } } return out`
	for _, c := range []struct {
		sources []string
		made    int
	}{{[]string{source}, 3}, {[]string{source, source}, 3}} {
		e := &effects{}
		o := &agent.Options{Middleware: []*agent.Middleware{agent.LimitToolCalls("double", agent.Limit{Run: 3}), agent.LimitToolCalls("", agent.Limit{Run: 100})}}
		thread := build(t, e, o, nil, c.sources...).Thread("1")
		for turn := range 2 {
			out, err := thread.Run(t.Context(), agent.Ask("go"))
			if err != nil {
				t.Fatal(err)
			}
			if e.all != c.made*(turn+1) {
				t.Errorf("%d scripts, turn %d: %d calls, want %d", len(c.sources), turn, e.all, c.made*(turn+1))
			}
			if got := results(out)[0].Text(); !strings.Contains(got, "Tool call limit exceeded. Do not call 'double' again.") {
				t.Errorf("got %q", got)
			}
		}
	}
}

func TestThreadLimitCountsNestedCalls(t *testing.T) {
	source := `for (let n = 0; n < 4; n++) await tools.double({n}).catch(() => 0)`
	e := &effects{}
	o := &agent.Options{Middleware: []*agent.Middleware{agent.LimitToolCalls("double", agent.Limit{Thread: 5})}}
	thread := build(t, e, o, nil, source).Thread("1")
	for turn, want := range []int{4, 5, 5} {
		if _, err := thread.Run(t.Context(), agent.Ask("go")); err != nil {
			t.Fatal(err)
		}
		if e.all != want {
			t.Errorf("turn %d: %d calls, want %d", turn, e.all, want)
		}
	}
}

func TestReachedLimitFailsRun(t *testing.T) {
	e := &effects{}
	o := &agent.Options{Middleware: []*agent.Middleware{agent.LimitToolCalls("double", agent.Limit{Run: 1, OnLimit: agent.OnLimitFail})}}
	_, err := build(t, e, o, nil, `for (;;) { try { await tools.double({n: 1}) } catch {} }`).Thread("1").Run(t.Context(), agent.Ask("go"))
	if _, ok := errors.AsType[*agent.LimitError](err); !ok || e.all != 1 {
		t.Errorf("got %v after %d calls, want a LimitError after 1", err, e.all)
	}
}

func TestRetriesApplyToNestedCalls(t *testing.T) {
	var tries atomic.Int32
	flaky := llm.NewTool("flaky", "Fails twice.", func(context.Context, struct{}) (string, error) {
		if tries.Add(1) < 3 {
			return "", errors.New("try again")
		}
		return "ok", nil
	})
	policy := &treadle.RetryPolicy{Attempts: 3, Initial: time.Nanosecond, On: func(error) bool { return true }}
	o := &agent.Options{Tools: []*llm.Tool{flaky}, Middleware: []*agent.Middleware{agent.RetryTools(policy, "flaky")}}
	out, err := build(t, &effects{}, o, nil, `return tools.flaky()`).Thread("1").Run(t.Context(), agent.Ask("go"))
	if err != nil || results(out)[0].Text() != "ok" {
		t.Errorf("got %v %v", out, err)
	}
}

// A run that fails at each of its calls continues without repeating a call, and with the
// same clock and random numbers.
func TestScriptContinuesAfterFailure(t *testing.T) {
	const source = `
const seen = [];
const chain = async (n) => {
  for (let i = 0; i < 3; i++) { const r = await tools.double({n: 10 * n + i}); seen.push(r.n, Math.random(), Date.now()); }
};
await Promise.all([chain(1), chain(2), chain(3)]);
await tools.say({text: JSON.stringify(seen)});
return seen`
	for at := 1; at <= 10; at++ {
		e := &effects{}
		var calls atomic.Int32
		var broken atomic.Bool
		die := &agent.Middleware{Name: "die", WrapTool: func(ctx context.Context, c agent.ToolCall, next agent.ToolFunc) (any, error) {
			if c.Name != "run_code" && int(calls.Add(1)) == at {
				broken.Store(true)
			}
			if c.Name != "run_code" && broken.Load() {
				return nil, errors.New("killed")
			}
			return next(ctx, c)
		}}
		o := &agent.Options{Middleware: []*agent.Middleware{die}, ToolOptions: agent.ToolOptions{OnToolError: func(_ context.Context, _ agent.ToolCall, err error) (string, error) { return "", err }}}
		thread := build(t, e, o, nil, source).Thread("1")
		if _, err := thread.Run(t.Context(), agent.Ask("go")); err == nil {
			t.Fatalf("%d: run did not fail", at)
		}
		broken.Store(false)
		calls.Store(100)
		out, err := thread.Continue(t.Context())
		if err != nil {
			t.Fatalf("%d: %v", at, err)
		}
		for what, n := range e.made {
			if n != 1 {
				t.Errorf("%d: %s ran %d times", at, what, n)
			}
		}
		if got := results(out)[0].Text(); e.made["say "+got] != 1 || len(e.made) != 10 {
			t.Errorf("%d: the result %s differs from what the script saw: %v", at, got, e.made)
		}
	}
}

func TestDescriptionDeclaresTools(t *testing.T) {
	type query struct {
		Text  string            `json:"text" jsonschema:"what to find"`
		Kind  string            `json:"kind" enum:"a,b" default:"a"`
		Tags  []string          `json:"tags,omitempty"`
		Where map[string]number `json:"where,omitempty"`
	}
	find := llm.NewTool("find", "Finds things.\nMore about it.", func(context.Context, query) (string, error) { return "", nil })
	for _, only := range []bool{false, true} {
		var seen []*llm.Tool
		model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			seen = r.Tools
			return llm.Assistant("done"), nil
		})
		a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{find}, Middleware: []*agent.Middleware{code.Mode(&code.Options{Only: only})}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Run(t.Context(), agent.Ask("go")); err != nil {
			t.Fatal(err)
		}
		want := `find(args: { text: string /* what to find */; kind?: "a" | "b"; tags?: string[]; where?: Record<string, { n: number; }>; }): Promise<any>;`
		about := seen[len(seen)-1].Description
		if !strings.Contains(about, want) || strings.Contains(about, "More about it") != only || len(seen) != map[bool]int{false: 2, true: 1}[only] {
			t.Errorf("only %v: %d tools, description:\n%s\nwant %s", only, len(seen), about, want)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, c := range []struct {
		code.Options
		want string
	}{
		{code.Options{Calls: -1}, "invalid Calls -1: want more than 0, or 0 for the default"},
		{code.Options{Memory: 100}, "invalid Memory 100"},
		{code.Options{Tools: []string{"run_code"}}, "a script cannot run scripts"},
		{code.Options{Tools: []string{"sya"}}, `unknown tool "sya"`},
	} {
		_, err := agent.New(llmtest.NewScript(), &agent.Options{Tools: (&effects{}).tools(), Middleware: []*agent.Middleware{code.Mode(&c.Options)}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.Options, err, c.want)
		}
	}
}

// A call in a script costs at most two plain calls, by the allocations of a run.
func TestNestedCallOverhead(t *testing.T) {
	const n = 50
	unchecked := new(bool)
	cost := func(calls ...llm.ToolCall) float64 {
		i := 0
		model := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) {
			if i++; i > len(calls) {
				i = 0
				return llm.Assistant("done"), nil
			}
			return llm.Assistant("", calls[i-1]), nil
		})
		a, err := agent.New(model, &agent.Options{Tools: (&effects{}).tools(), Middleware: []*agent.Middleware{code.Mode(nil)},
			Graph: treadle.Options{Saver: checkpoint.NewMemory(), Check: unchecked, StepLimit: 1000}})
		if err != nil {
			t.Fatal(err)
		}
		thread := 0
		return testing.AllocsPerRun(5, func() {
			thread++
			if _, err := a.Thread(fmt.Sprint(thread)).Run(t.Context(), agent.Ask("go")); err != nil {
				t.Fatal(err)
			}
		})
	}
	var plain []llm.ToolCall
	for range n {
		plain = append(plain, llmtest.ToolCall("double", number{1}))
	}
	one := (cost(plain...) - cost(plain[0])) / (n - 1)
	loop := func(n int) llm.ToolCall {
		return script(fmt.Sprintf(`for (let i = 0; i < %d; i++) await tools.double({n: 1})`, n))
	}
	nested := (cost(loop(n)) - cost(loop(1))) / (n - 1)
	t.Logf("allocations: %.0f for a plain call, %.0f in a script (%.2f ×)", one, nested, nested/one)
	if nested > 2*one {
		t.Errorf("a call in a script costs %.2f × a plain call, want at most 2", nested/one)
	}
}
