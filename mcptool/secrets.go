package mcptool

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/treadle-go/treadle/internal/origin"
)

// secrets are the texts of a server's configuration that must not be shown.
// Errors hide all values of the configuration, since nobody needs them there. What
// a server says hides only those that are secret by their name: a server of files
// may well speak of a directory that it was given.
type secrets struct {
	inErrors, inResults *strings.Replacer
}

const hidden = "[hidden]"

// secretName tells variables, headers and parameters that hold secrets.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|pwd|auth|cred|cookie|session|private|signature|sig$|dsn|jwt|bearer|pat$`)

// gather collects the secrets of a configuration while its variables are put in.
type gather struct{ all, named []string }

// add notes a value under the name of its variable, header or parameter.
func (g *gather) add(name, value string) {
	const least = 6 // shorter values would be found in words
	if len(value) >= least && !slices.Contains(inherited, name) {
		g.all = append(g.all, value)
	}
	if len(value) >= 4 && secretName.MatchString(name) {
		g.named = append(g.named, value)
	}
}

// header notes the values of a header, and what follows Bearer or Basic.
func (g *gather) header(h http.Header) {
	for name, values := range h {
		for _, v := range values {
			g.add(name, v)
			if _, token, ok := strings.Cut(v, " "); ok {
				g.add(name, token)
			}
		}
	}
}

// address notes what stands in an address besides the host.
func (g *gather) address(raw string) {
	u, err := url.Parse(raw)
	if err != nil {
		g.all = append(g.all, raw)
		return
	}
	if password, ok := u.User.Password(); ok {
		g.add("password", password)
		g.add("password", base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	} else if u.User != nil {
		g.add("user token", u.User.Username())
	}
	for name, values := range u.Query() {
		for _, v := range values {
			g.add(name, v)
		}
	}
	if u.Path != "" && u.Path != "/" { // some servers have their key in the path
		g.all = append(g.all, u.Path)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if len(part) >= 16 && strings.ContainsAny(part, "0123456789") {
			g.add("key", part)
		}
	}
}

// replacers hide what was gathered, in the forms in which it may be written.
func (g *gather) replacers() secrets {
	replacer := func(values []string) *strings.Replacer {
		values = slices.Clone(values)
		for _, v := range values {
			quoted := strconv.Quote(v)
			asJSON, _ := json.Marshal(v)
			values = append(values, url.QueryEscape(v), url.PathEscape(v), quoted[1:len(quoted)-1], string(asJSON[1:len(asJSON)-1]),
				base64.StdEncoding.EncodeToString([]byte(v)))
		}
		// The longest first: one may be a part of another.
		slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		var pairs []string
		for _, v := range slices.Compact(values) {
			pairs = append(pairs, v, hidden)
		}
		return strings.NewReplacer(pairs...)
	}
	return secrets{replacer(slices.Concat(g.all, g.named)), replacer(g.named)}
}

// clean hides secrets in an error. What the error is can still be asked with
// errors.Is and errors.As, but the texts inside are out of reach.
func (s *session) clean(err error) *failure {
	address := s.URL
	if u, ok := errors.AsType[*url.Error](err); ok {
		address = u.URL // that of a redirect, perhaps
		u.URL = origin.Of(u.URL)
	}
	if refusal, ok := errors.AsType[*jsonrpc.Error](err); ok {
		if text := s.show(refusal.Message); text != refusal.Message {
			refusal.Message = text
		}
	}
	name := fmt.Sprintf("mcptool: server %q: ", s.Name) // it may be a value of Env, too
	text := strings.TrimPrefix(err.Error(), name)
	for _, a := range []string{address, s.URL} {
		if a != "" {
			text = strings.ReplaceAll(text, a, origin.Of(a))
		}
	}
	return &failure{server: s.Name, text: name + shorten(s.secrets.inErrors.Replace(text), 4000), err: err}
}

// failure is an error whose text may be shown. For the model there is a sentence
// without anything about where the server is or what its program wrote.
type failure struct {
	server, tool string
	text         string
	err          error
}

// Error is the text for the program.
func (f *failure) Error() string { return f.text }

// Is and As ask the error inside, which cannot be had itself: its parts hold what
// the text does not.
func (f *failure) Is(target error) bool { return errors.Is(f.err, target) }

// As is like Is.
func (f *failure) As(target any) bool { return errors.As(f.err, target) }

// ForModel is what a model is told; see [llm.ToolResult].
func (f *failure) ForModel() string {
	who := fmt.Sprintf("The MCP server %q", f.server)
	if f.tool != "" {
		who = fmt.Sprintf("The tool %s of the MCP server %q", f.tool, f.server)
	}
	switch refusal, _ := errors.AsType[*jsonrpc.Error](f.err); {
	case answered(f.err):
		return who + " refused the call: " + shorten(refusal.Message, 1000)
	case errors.Is(f.err, context.DeadlineExceeded):
		return who + " did not answer in time."
	case errors.Is(f.err, ErrClosed):
		return who + " is no longer connected."
	}
	return who + " gave no answer."
}

// show is a text of the server as it may be shown to people and models: without
// secrets.
func (s *session) show(text string) string { return s.secrets.inResults.Replace(text) }

// shorten cuts a text in the middle.
func shorten(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size/2], "") + " … " + strings.ToValidUTF8(text[len(text)-size/2:], "")
}
