package deep

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/llm"
)

// ShellOptions configures [Shell].
type ShellOptions struct {
	// Sandbox runs the commands.
	Sandbox sandbox.Sandbox
	// Permissions decide about commands; without any, each command is allowed.
	Permissions []CommandPermission
	// At is the directory of the agent's files that are the files of the sandbox, as with
	// [files.Mount]; "" means all files.
	At string
	// OutputLimit is the number of bytes of output that are kept, half of them from the
	// start and half from the end; 0 means 1,000,000.
	OutputLimit int
}

// CommandPermission is a rule about commands. The first rule that matches a command decides;
// if there are rules, and none matches, the command asks a person.
//
// A script is split into its commands, which are compared without quotes. Everything in it must
// be allowed. If it contains more than plain commands, such as variables, substitutions,
// redirections, or control structures, only a rule for all commands, "*", allows it without
// asking. Other rules also match a command behind assignments, redirections, and words such as
// "then".
//
// A rule reads the text of a command, and a program that is allowed may start others: what
// confines a command is the sandbox.
type CommandPermission struct {
	// Commands lists patterns, in which * stands for any text: "git log *" matches "git
	// log" with any arguments or none.
	Commands []string
	Mode     Mode
}

const (
	toolExecute        = "execute"
	partShell          = "shell"
	defaultShellOutput = 1_000_000
)

// shell is the middleware.
type shell struct {
	ShellOptions
	root string

	mu      sync.Mutex
	started map[string]bool // attempts of this process that have not run yet
}

// Shell adds the tool execute, which runs commands in a sandbox. With [New], use
// Options.Shell.
//
// The rules decide whether a command runs, and a question shows the command. Commands reach all
// files of the sandbox, so while a [Permission] other than Allow applies to some of these files, each
// command asks a person.
//
// A command runs at most once. If the process is killed while it runs, and the thread is
// continued, the command is not repeated: the model learns that its outcome is unknown. The same
// applies to a command of a canceled run. This requires a saver that saves each record immediately,
// as with the default durability.
func Shell(opts *ShellOptions) *agent.Middleware {
	s := &shell{started: map[string]bool{}}
	if opts != nil {
		s.ShellOptions = *opts
	}
	s.OutputLimit = cmp.Or(s.OutputLimit, defaultShellOutput)
	describe := "Runs a command with /bin/sh in a sandbox, and returns its output and exit code. "
	root, err := files.Clean(s.At)
	if s.root = root; root == "/" {
		describe += "The working directory contains your files: /notes/a.txt is ./notes/a.txt. "
	} else {
		describe += fmt.Sprintf("The working directory contains your files below %s: %s/a.txt is ./a.txt. Other files are not in the sandbox. ", root, root)
	}
	describe += "Everything that the command starts ends with it, and the next command starts in the same directory."
	return &agent.Middleware{Name: partShell, Tools: []*llm.Tool{llm.NewTool(toolExecute, describe, s.execute)},
		Check: func(agent.Setup) error { return errors.Join(err, s.check()) }}
}

func (s *shell) check() error {
	var errs []error
	if s.Sandbox == nil {
		errs = append(errs, errors.New("no sandbox: set ShellOptions.Sandbox"))
	}
	if s.OutputLimit < 0 {
		errs = append(errs, fmt.Errorf("invalid OutputLimit %d: want 0 or more", s.OutputLimit))
	}
	for i, p := range s.Permissions {
		if p.Mode != Allow && p.Mode != Deny && p.Mode != Confirm {
			errs = append(errs, fmt.Errorf("command permission %d: invalid mode %q: want %s, %s, or %s", i, p.Mode, Allow, Deny, Confirm))
		}
		if len(p.Commands) == 0 {
			errs = append(errs, fmt.Errorf("command permission %d: no commands", i))
		}
		for _, c := range p.Commands {
			if strings.TrimSpace(c) == "" {
				errs = append(errs, fmt.Errorf("command permission %d: empty pattern", i))
			}
		}
	}
	return errors.Join(errs...)
}

type executeArgs struct {
	Command string `json:"command"`
	Timeout int    `json:"timeout,omitempty" jsonschema:"seconds after which the command is stopped"`
}

// execute is the tool.
func (s *shell) execute(ctx context.Context, in executeArgs) (any, error) {
	mode := s.mode(ctx, in.Command)
	if mode == Deny {
		return deniedCommand(), nil
	}
	note := ""
	if mode == Confirm {
		args, out, run, err := ask(ctx, "execute runs in the sandbox:\n\n"+visible(in.Command))
		if err != nil || !run {
			return out, err
		}
		if args != nil {
			in = executeArgs{}
			if err := json.Unmarshal(args, &in); err != nil {
				return problem("Error: arguments edited by the person: %v. The call was not made.", err), nil
			}
			if s.mode(ctx, in.Command) == Deny {
				return deniedCommand(), nil
			}
			note = "A person changed the arguments of this call. "
		}
	}
	out, err := s.once(ctx, in)
	if err != nil {
		return nil, err
	}
	out.Text = note + out.Text
	if out.Failed {
		return problem("%s", out.Text), nil
	}
	return out.Text, nil
}

func deniedCommand() llm.Message {
	return problem("Permission denied: this command must not be used. Do not try other ways to run it.")
}

// visible returns a command as a person should see it: characters that would hide a part of it
// are quoted.
func visible(command string) string {
	if strings.ContainsFunc(command, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n' && r != '\t' || r == unicode.ReplacementChar
	}) {
		return fmt.Sprintf("%q", command)
	}
	return command
}

// executed is the recorded result of a command.
type executed struct {
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// once runs a command, unless an earlier attempt has started it. Before it starts, the
// attempt is recorded, with an ID that only this process knows.
func (s *shell) once(ctx context.Context, in executeArgs) (executed, error) {
	if !inRun(ctx) {
		return s.run(ctx, in)
	}
	id, err := treadle.Do(ctx, toolExecute+" start", func(context.Context) (string, error) {
		id := rand.Text()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.started[id] = true
		return id, nil
	})
	if err != nil {
		return executed{}, err
	}
	return treadle.Do(ctx, toolExecute, func(ctx context.Context) (executed, error) {
		s.mu.Lock()
		own := s.started[id]
		delete(s.started, id)
		s.mu.Unlock()
		if !own {
			return executed{"Error: the outcome of this command is unknown: the process that ran it was stopped. The command was not run again. " +
				"It may have done all of its work, a part, or nothing: look at the files before you decide whether to repeat it.", true}, nil
		}
		return s.run(ctx, in)
	})
}

// run runs a command.
func (s *shell) run(ctx context.Context, in executeArgs) (executed, error) {
	if in.Timeout < 0 {
		return executed{"Error: timeout is negative.", true}, nil
	}
	out := &ends{limit: s.OutputLimit / 2}
	r, err := s.Sandbox.Exec(ctx, sandbox.Command{Script: in.Command, Stdout: out, Timeout: time.Duration(min(in.Timeout, 1_000_000)) * time.Second})
	if ctx.Err() != nil {
		return executed{}, context.Cause(ctx)
	}
	if err != nil {
		return executed{"Error: " + strings.TrimPrefix(err.Error(), "sandbox: "), true}, nil
	}
	text := out.text()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if r.Stopped != "" {
		return executed{fmt.Sprintf("%s[stopped: %s limit]", text, r.Stopped), true}, nil
	}
	return executed{Text: fmt.Sprintf("%s[exit code %d]", text, r.Code)}, nil
}

// ends keeps the first and the last bytes that were written to it.
type ends struct {
	limit      int
	head, tail []byte
	lost       int
}

// Write implements [io.Writer].
func (e *ends) Write(p []byte) (int, error) {
	n := len(p)
	first := min(n, e.limit-len(e.head))
	e.head, p = append(e.head, p[:first]...), p[first:]
	e.tail = append(e.tail, p...)
	if more := len(e.tail) - e.limit; more > e.limit+4096 { // rarely, so that copying is cheap
		e.tail = append(e.tail[:0:0], e.tail[more:]...)
		e.lost += more
	}
	return n, nil
}

func (e *ends) text() string {
	clean := func(raw []byte) string { return strings.ToValidUTF8(string(raw), "\uFFFD") }
	more := max(0, len(e.tail)-e.limit)
	if lost := e.lost + more; lost > 0 {
		return fmt.Sprintf("%s\n… (%d bytes omitted)\n%s", clean(e.head), lost, clean(e.tail[more:]))
	}
	return clean(append(slices.Clip(e.head), e.tail...))
}

// mode returns the decision of the rules about a script.
func (s *shell) mode(ctx context.Context, script string) Mode {
	out := s.commandMode(script)
	if out == Allow && policyFrom(ctx).restricts(s.root) {
		return Confirm
	}
	return out
}

func (s *shell) commandMode(script string) Mode {
	if len(s.Permissions) == 0 {
		return Allow
	}
	commands, plain := splitScript(script)
	out := Allow
	for _, c := range commands {
		switch s.ruleMode(c, plain) {
		case Deny:
			return Deny
		case Confirm:
			out = Confirm
		}
	}
	return out
}

// ruleMode returns the decision of the rules about a command.
func (s *shell) ruleMode(command simpleCommand, plain bool) Mode {
	for _, p := range s.Permissions {
		for _, pattern := range p.Commands {
			pattern = strings.TrimSpace(pattern)
			if !matchCommand(pattern, command.text) && (p.Mode == Allow || !matchCommand(pattern, command.bare)) {
				continue
			}
			if p.Mode == Allow && !plain && pattern != "*" {
				return Confirm
			}
			return p.Mode
		}
	}
	return Confirm
}

// matchCommand reports whether a pattern matches a command.
func matchCommand(pattern, command string) bool {
	if head, ok := strings.CutSuffix(pattern, " *"); ok && matchCommand(head, command) {
		return true
	}
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(command, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

// simpleCommand is a command of a script, its words separated by single spaces and without
// quotes.
type simpleCommand struct {
	text string
	bare string // without assignments, redirections, and words of control structures
}

var (
	shellWords  = []string{"if", "then", "elif", "else", "while", "until", "do", "time", "!", "{"}
	assignment  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\+?=`)
	redirection = regexp.MustCompile(`^[0-9]*[<>]`)
	operator    = regexp.MustCompile(`^[0-9]*[<>]+[&|-]?$`) // the next word is its target
)

// newSimpleCommand returns the command that consists of the words. control reports whether it
// starts with a word of a control structure.
func newSimpleCommand(words []string) (c simpleCommand, control bool) {
	c.text = strings.Join(words, " ")
	control = slices.Contains(shellWords, words[0])
	for first := 0; first < len(words); {
		switch word := words[first]; {
		case operator.MatchString(word):
			words = slices.Delete(slices.Clone(words), first, min(first+2, len(words)))
		case redirection.MatchString(word):
			words = slices.Delete(slices.Clone(words), first, first+1)
		case first == 0 && (slices.Contains(shellWords, word) || assignment.MatchString(word)):
			words = words[1:]
		default:
			first++
		}
	}
	c.bare = strings.Join(words, " ")
	return c, control
}

// splitScript returns the commands of a script. plain is false if the script contains more than
// plain commands.
func splitScript(script string) (commands []simpleCommand, plain bool) {
	plain = true
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		if endWord(); len(words) > 0 {
			c, control := newSimpleCommand(words)
			commands = append(commands, c)
			plain = plain && !control
		}
		words = nil
	}
	runes := []rune(script)
	quote := rune(0)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		redirects := i > 0 && (runes[i-1] == '<' || runes[i-1] == '>')
		switch {
		case quote == '"' && (r == '`' || r == '$' && i+1 < len(runes) && runes[i+1] == '('): // a command within a text
			plain = false
			endCommand()
			if inWord = true; r == '$' {
				i++
			}
		case quote == '\'' && r != '\'', quote == '"' && r != '"' && r != '\\' && r != '$' && r != '`':
			word.WriteRune(r)
		case quote != 0 && r == quote:
			quote = 0
		case r == '\\' && i+1 < len(runes):
			i++
			if inWord = true; runes[i] != '\n' {
				word.WriteRune(runes[i])
			} else {
				plain = false
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			endWord()
		case quote == 0 && (r == '<' || r == '>'):
			if plain = false; !redirects && strings.Trim(word.String(), "0123456789") != "" {
				endWord() // the digits of a file descriptor belong to the redirection
			}
			word.WriteRune(r)
			inWord = true
		case quote == 0 && redirects && (r == '&' || r == '|'):
			word.WriteRune(r)
		case quote == 0 && (r == ';' || r == '&' || r == '|' || r == '\n'):
			endCommand()
		case quote == 0 && (r == '(' || r == ')' || r == '`'):
			plain = false
			endCommand()
		default:
			if strings.ContainsRune("$`\\{}#!~\r", r) || r == '=' && len(words) == 0 || unicode.IsControl(r) {
				plain = false
			}
			word.WriteRune(r)
			inWord = true
		}
	}
	endCommand()
	return commands, plain && quote == 0
}

// restricts reports whether a rule may apply to files below a directory.
func (p policy) restricts(dir string) bool {
	for _, rules := range p {
		for _, r := range rules {
			if r.mode == Allow {
				continue
			}
			for _, pat := range r.paths {
				if files.Below(dir, pat.Anchor()) || files.Below(pat.Anchor(), dir) {
					return true
				}
			}
		}
	}
	return false
}
