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

// secrets hides the confidential values of a server's configuration. Errors hide all
// configuration values, because they are not needed there. Results hide only values whose names
// indicate secrets: a file server may mention a directory that it was given.
type secrets struct {
	inErrors, inResults *strings.Replacer
}

const hidden = "[hidden]"

// secretName matches the names of variables, headers, and parameters that contain secrets.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|pwd|auth|cred|cookie|session|private|signature|sig$|dsn|jwt|bearer|pat$`)

// gather collects the secrets of a configuration while its variables are substituted.
type gather struct{ all, named []string }

// add records a value with the name of its variable, header, or parameter.
func (g *gather) add(name, value string) {
	const least = 6 // shorter values would match parts of words
	if len(value) >= least && !slices.Contains(inherited, name) {
		g.all = append(g.all, value)
	}
	if len(value) >= 4 && secretName.MatchString(name) {
		g.named = append(g.named, value)
	}
}

// header records the values of a header, and the part after Bearer or Basic.
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

// address records all parts of an address except the host.
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
	if u.Path != "" && u.Path != "/" { // some servers expect their key in the path
		g.all = append(g.all, u.Path)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if len(part) >= 16 && strings.ContainsAny(part, "0123456789") {
			g.add("key", part)
		}
	}
}

// replacers returns replacers that hide the recorded values in every encoding in which they may
// appear.
func (g *gather) replacers() secrets {
	replacer := func(values []string) *strings.Replacer {
		values = slices.Clone(values)
		for _, v := range values {
			quoted := strconv.Quote(v)
			asJSON, _ := json.Marshal(v)
			values = append(values, url.QueryEscape(v), url.PathEscape(v), quoted[1:len(quoted)-1], string(asJSON[1:len(asJSON)-1]),
				base64.StdEncoding.EncodeToString([]byte(v)))
		}
		// Longest first, because one value may be part of another.
		slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		var pairs []string
		for _, v := range slices.Compact(values) {
			pairs = append(pairs, v, hidden)
		}
		return strings.NewReplacer(pairs...)
	}
	return secrets{replacer(slices.Concat(g.all, g.named)), replacer(g.named)}
}

// clean hides secrets in an error. errors.Is and errors.As still work, but the original texts
// are out of reach.
func (s *session) clean(err error) *failure {
	address := s.URL
	if u, ok := errors.AsType[*url.Error](err); ok {
		address = u.URL // possibly the address of a redirect
		u.URL = origin.Of(u.URL)
	}
	if refusal, ok := errors.AsType[*jsonrpc.Error](err); ok {
		if text := s.show(refusal.Message); text != refusal.Message {
			refusal.Message = text
		}
	}
	name := fmt.Sprintf("mcptool: server %q: ", s.Name)          // the name may also be a value of Env
	text := strings.ReplaceAll(err.Error(), ": mcptool: ", ": ") // in the texts of ErrNoResponse and ErrClosed
	text = strings.TrimPrefix(text, name)
	for _, a := range []string{address, s.URL} {
		if a != "" {
			text = strings.ReplaceAll(text, a, origin.Of(a))
		}
	}
	return &failure{server: s.Name, text: name + shorten(s.secrets.inErrors.Replace(text), 4000), err: err}
}

// failure is an error whose text may be shown. Models see a separate sentence that reveals
// neither the server's address nor its program's output.
type failure struct {
	server, tool string
	text         string
	err          error
}

// Error returns the text for the program.
func (f *failure) Error() string { return f.text }

// Is delegates to the wrapped error, which is not accessible because it contains what the text
// hides.
func (f *failure) Is(target error) bool { return errors.Is(f.err, target) }

// As is like Is.
func (f *failure) As(target any) bool { return errors.As(f.err, target) }

// ForModel returns the text for a model; see [llm.ToolResult].
func (f *failure) ForModel() string {
	who := fmt.Sprintf("The MCP server %q", f.server)
	if f.tool != "" {
		who = fmt.Sprintf("The tool %s of the MCP server %q", f.tool, f.server)
	}
	switch {
	case answered(f.err):
		refusal, _ := errors.AsType[*jsonrpc.Error](f.err)
		return who + " rejected the call: " + shorten(refusal.Message, 1000)
	case errors.Is(f.err, errRefused):
		return who + " requested input that is not permitted."
	case errors.Is(f.err, errInvalid):
		return who + " returned a result that does not match its output schema."
	case errors.Is(f.err, errModel):
		return who + " requested sampling, and the model failed."
	case errors.Is(f.err, context.DeadlineExceeded):
		return who + " did not respond in time."
	case errors.Is(f.err, ErrClosed):
		return who + " is no longer connected."
	}
	return who + " did not respond."
}

// show hides the secrets in a server's text.
func (s *session) show(text string) string { return s.secrets.inResults.Replace(text) }

// shorten removes the middle of a long text.
func shorten(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size/2], "") + " … " + strings.ToValidUTF8(text[len(text)-size/2:], "")
}
