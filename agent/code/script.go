package code

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"modernc.org/quickjs"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/internal/near"
	"github.com/treadle-go/treadle/llm"
)

//go:embed prelude.js
var preludeSource string

// prelude is on one line, so that in a stack trace, its functions are on line 1.
var prelude = strings.Join(strings.Fields(strings.ReplaceAll(preludeSource, "\n", " ")), " ")

// engine identifies everything that determines how a script is replayed.
var engine = func() string {
	sum := sha256.Sum256([]byte(prelude))
	return quickjs.Version() + "-" + hex.EncodeToString(sum[:4])
}()

func newStart() start {
	return start{Time: time.Now().UnixMilli(), Seed: rand.Int32()} //nolint:gosec // a seed of Math.random
}

// script is a script that runs.
type script struct {
	*mode
	ctx    context.Context
	source string
	start  start
	calls  *agent.Calls
	names  []string

	vm       *quickjs.VM
	left     time.Duration // of the computing time
	made     int
	log      strings.Builder
	logged   int
	done     bool
	value    string
	failure  string
	stopping error // a failure that ends the run, or its pause
}

// grace is the time that a script gets after its time is over. It is over if the engine
// does not react, which should not happen.
const grace = 10 * time.Second

var errTime = errors.New("timeout")

// result runs the script in a separate goroutine.
func (s *script) result() (any, error) {
	type outcome struct {
		out any
		err error
	}
	stuck, ended := make(chan struct{}, 1), make(chan outcome, 1)
	watch := time.AfterFunc(time.Hour, func() {
		select {
		case stuck <- struct{}{}:
		default:
		}
	})
	watch.Stop()
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o = outcome{nil, fmt.Errorf("code: script panicked: %v", p)}
			}
			ended <- o
		}()
		o.out, o.err = s.play(watch)
	}()
	select {
	case o := <-ended:
		return o.out, o.err
	case <-stuck:
		return problem("", fmt.Sprintf("script exceeded %v of computation", s.Time)), nil
	}
}

// play runs the script until it has ended.
func (s *script) play(watch *time.Timer) (out any, err error) {
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, fmt.Errorf("code: new script: %w", err)
	}
	s.vm, s.left = vm, s.Time
	stop := context.AfterFunc(s.ctx, vm.Interrupt)
	defer func() {
		stop()
		err = errors.Join(err, vm.Close())
	}()
	vm.SetMemoryLimit(uintptr(s.Memory)) //nolint:gosec // positive
	if err := vm.RegisterHostFunc("__host", s.host); err != nil {
		return nil, fmt.Errorf("code: new script: %w", err)
	}
	tell, err := vm.EvalValue(prelude, quickjs.EvalGlobal) // not part of the script's time
	if err != nil {
		return nil, fmt.Errorf("code: new script: %w", err)
	}
	defer tell.Free()
	err = s.compute(watch, func() error {
		p, err := vm.EvalValue("(async()=>{\n"+s.source+"\n})()", quickjs.EvalGlobal)
		if err != nil {
			return err
		}
		defer p.Free()
		return s.tell(tell, "main", p)
	})
	if err := s.loop(watch, tell, err); err != nil {
		return s.failed(err)
	}
	if s.failure != "" {
		return problem(s.logText(), s.failure), nil
	}
	value := s.value
	if value == "" {
		value = "(no value)"
		if s.logged > 0 {
			value = ""
		}
	}
	return llm.Message{Content: strings.TrimSuffix(output(s.logText(), cut(value, s.Output)), "\n\n")}, nil
}

// loop delivers the results of calls until none is left.
func (s *script) loop(watch *time.Timer, tell quickjs.Value, err error) error {
	for ; err == nil; err = s.stopping {
		if err := s.compute(watch, s.jobs); err != nil {
			return err
		}
		if s.stopping != nil {
			return s.stopping
		}
		end, ok, err := s.calls.Next()
		if err != nil {
			s.stopping = err
			return err
		}
		if !ok {
			return s.finish(watch, tell)
		}
		err = s.compute(watch, func() error {
			return s.tell(tell, "settle", end.Number, end.Message.Status != llm.StatusError, end.IsJSON, textOf(end.Message), float64(end.Time.UnixMilli()))
		})
		if err != nil {
			return err
		}
	}
	return err
}

// finish checks that the script has ended, and reports errors that it did not handle.
func (s *script) finish(watch *time.Timer, tell quickjs.Value) error {
	if !s.done {
		return errors.New("promise never settles: no tool call is running")
	}
	return s.compute(watch, func() error { return s.tell(tell, "end") })
}

// tell calls the prelude's function.
func (s *script) tell(f quickjs.Value, args ...any) error {
	v, err := f.CallValue(quickjs.UndefinedValue, args...)
	if err == nil {
		v.Free()
	}
	return err
}

// jobs runs what the script does after its promises have settled.
func (s *script) jobs() error {
	for begin := time.Now(); ; {
		n, err := s.vm.ExecutePendingJobs()
		var thrown *quickjs.Error
		switch {
		case n == 0 || s.stopping != nil || errors.As(err, &thrown):
			return err
		case time.Since(begin) >= s.left:
			return errTime
		}
		// Another error means that there were many jobs, which is no mistake.
	}
}

// compute runs a part of the script within the time that is left.
func (s *script) compute(watch *time.Timer, f func() error) error {
	if s.stopping != nil {
		return s.stopping
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if s.left <= 0 {
		return errTime
	}
	if err := s.vm.SetEvalTimeout(s.left); err != nil {
		return fmt.Errorf("code: limit time: %w", err)
	}
	watch.Reset(s.left + grace)
	begin := time.Now()
	err := f()
	s.left -= time.Since(begin)
	watch.Stop()
	switch {
	case s.stopping != nil:
		return s.stopping
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case s.left <= 0:
		return errTime
	}
	return err
}

// failed returns the result for the failure of the script, or the error of the run.
func (s *script) failed(err error) (any, error) {
	if s.stopping != nil {
		return nil, s.stopping
	}
	if final := treadle.Propagate(s.ctx, err); final != nil {
		return nil, final
	}
	var thrown *quickjs.Error
	switch {
	case errors.Is(err, errTime):
		err = fmt.Errorf("script exceeded %v of computation: split it", s.Time)
	case errors.As(err, &thrown):
		text := thrown.Message
		if thrown.Name != "" {
			text = thrown.Name + ": " + text
		}
		if text == "" || strings.Contains(text, "out of memory") || text == "null" {
			text = fmt.Sprintf("out of memory: the script needs more than %d bytes", s.Memory)
		}
		if thrown.LineNumber > 1 {
			text = fmt.Sprintf("%s (line %d, column %d)", text, thrown.LineNumber-1, thrown.ColumnNumber)
		} else {
			text += place(thrown.Stack)
		}
		err = errors.New(text)
	}
	return problem(s.logText(), cut(err.Error(), s.Output)), nil
}

var frame = regexp.MustCompile(`<eval>:(\d+):(\d+)`)

// place returns the place of an error in the script.
func place(stack string) string {
	for _, m := range frame.FindAllStringSubmatch(stack, -1) {
		if line, err := strconv.Atoi(m[1]); err == nil && line > 1 {
			return fmt.Sprintf(" (line %d, column %s)", line-1, m[2])
		}
	}
	return ""
}

func (s *script) logText() string {
	text := s.log.String()
	if s.logged > len(text) {
		text += fmt.Sprintf("… (cut: %d of %d bytes)", len(text), s.logged)
	}
	return text
}

// host is the function through which the prelude reaches the program.
func (s *script) host(args []any) (any, error) {
	text := func(i int) string {
		if i >= len(args) {
			return ""
		}
		t, _ := args[i].(string)
		return t
	}
	switch text(0) {
	case "names":
		raw, err := json.Marshal(s.names)
		return string(raw), err
	case "start":
		return s.start.json(), nil
	case "call":
		return s.call(text(1), text(2))
	case "unknown":
		return fmt.Sprintf("unknown tool %q%s", text(1), near.Hint(cut(text(1), 100), s.names)), nil
	case "log":
		line := text(1) + "\n"
		s.logged += len(line)
		if room := s.Output - s.log.Len(); room > 0 {
			s.log.WriteString(strings.ToValidUTF8(line[:min(room, len(line))], ""))
		}
	case "done":
		s.done, s.value = true, text(1)
	case "fail":
		s.done, s.failure = true, cut(text(1), s.Output)+place(text(2))
	}
	return nil, nil
}

// call starts a tool call. Its number is the same each time the script runs.
func (s *script) call(name, args string) (any, error) {
	if s.stopping != nil {
		return nil, s.stopping
	}
	if !slices.Contains(s.names, name) { // the prelude rejects other names, but nothing relies on it
		return nil, fmt.Errorf("unknown tool %q", name)
	}
	if s.made++; s.made > s.Calls {
		return nil, fmt.Errorf("a script can make at most %d tool calls", s.Calls)
	}
	if !json.Valid([]byte(args)) {
		return nil, fmt.Errorf("call tools.%s with one object", name)
	}
	n, err := s.calls.Start(name, json.RawMessage(args))
	if err != nil {
		s.stopping = err
		s.vm.Interrupt() // the script must not catch it
		return nil, err
	}
	return n, nil
}

// textOf returns the text of a result.
func textOf(m llm.Message) string {
	var text strings.Builder
	text.WriteString(m.Text())
	for _, b := range m.Blocks {
		if b.Type != llm.BlockText && b.Type != llm.BlockPlain {
			fmt.Fprintf(&text, "[%s: call the tool directly to see it]", b.Type)
		}
	}
	return text.String()
}
