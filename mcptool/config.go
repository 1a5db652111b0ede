package mcptool

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/store"
)

// Server configures the connection to an MCP server, by Command or by URL.
//
// ${NAME} in Command, Env, URL, and Header is replaced by that environment variable. [Connect]
// rejects unset variables. These values are hidden from errors and models.
type Server struct {
	// Name identifies the server in errors and events, and is the prefix of its tool names if
	// Prefix is set.
	Name string

	// Command is the program to start and its arguments. The program gets the variables in Env.
	// From the environment of this process, it inherits only the variables that programs need
	// to run (PATH, HOME, …), so that it cannot see unrelated secrets.
	Command []string
	Env     map[string]string
	Dir     string // working directory of the program; empty means the current directory
	// Log receives the program's standard error and the lines of its standard output that are
	// not messages, including any secrets that the program writes. Nil discards them. Log is
	// written to by one goroutine at a time.
	Log io.Writer

	// URL is the address of a streamable HTTP server. Header is sent with every request to the
	// URL's host. A redirect to another host fails.
	URL    string
	Header http.Header
	// HTTP sends the requests; nil means a new client for this server.
	HTTP *http.Client

	// OAuth authorizes the requests to URL, such as an [auth.AuthorizationCodeHandler], which
	// sends the user to the server's login page and renews the tokens.
	OAuth auth.OAuthHandler

	// Policy, if not nil, decides about each call of a tool, such as [ByAnnotations]. It gets the
	// tool's current definition, so the tools are listed before each call.
	Policy func(*mcp.Tool) Permission
	// Pins, if not nil, keeps fingerprints of the definitions of tools, in the namespace
	// ("mcp_tools", Name): the first that [Servers.Tools] lists, and then each that a person
	// approves. With it, Policy detects changes since then, even if the program was restarted.
	// Delete an item to accept the current definition. If the store is unavailable, Tools and
	// calls return its error.
	Pins *store.Store
	// Elicit allows the server to ask the user questions during a tool call. A question
	// interrupts the run with an [Elicitation]. Without Elicit, the call fails.
	Elicit bool
	// Sampling, if not nil, allows the server to use a model during a tool call.
	Sampling *Sampling
	// Roots lists the directories that the server should work in, as file:// URLs.
	Roots []string

	// Configure, if not nil, edits the options of the SDK's client, such as its handlers for log
	// messages, changed lists, and updated resources. It cannot replace the handlers and
	// capabilities that the other fields control.
	Configure func(*mcp.ClientOptions)

	// Prefix prepends the server's name to its tool names, as in math_add.
	Prefix bool
	// Timeout limits each tool call, each listing of tools or resources, and each read of a resource
	// or prompt; 0 means 5 minutes, and a negative value means no limit.
	Timeout time.Duration

	secrets secrets // set by resolve
}

// defaultTimeout is the Timeout of servers without one.
const defaultTimeout = 5 * time.Minute

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// resolve validates the configuration and substitutes the variables.
func (s Server) resolve() (Server, error) {
	switch {
	case s.Name == "":
		return s, errors.New("mcptool: server without Name")
	case (len(s.Command) == 0) == (s.URL == ""):
		return s, fmt.Errorf("mcptool: server %q: set either Command or URL", s.Name)
	case s.OAuth != nil && s.URL == "":
		return s, fmt.Errorf("mcptool: server %q: OAuth requires URL", s.Name)
	case s.Sampling != nil && s.Sampling.Model == nil:
		return s, fmt.Errorf("mcptool: server %q: Sampling requires Model", s.Name)
	case s.Sampling != nil && s.Sampling.MaxCalls < 0:
		return s, fmt.Errorf("mcptool: server %q: invalid Sampling.MaxCalls %d: want 1 or more, or 0 for 10", s.Name, s.Sampling.MaxCalls)
	case s.Sampling != nil && s.Sampling.MaxTokens < 0:
		return s, fmt.Errorf("mcptool: server %q: invalid Sampling.MaxTokens %d: want 1 or more, or 0 for 50,000", s.Name, s.Sampling.MaxTokens)
	case s.Pins != nil && s.Policy == nil:
		return s, fmt.Errorf("mcptool: server %q: Pins requires Policy", s.Name)
	case len(s.Command) > 0 && s.Command[0] == "":
		return s, fmt.Errorf("mcptool: server %q: empty program name in Command[0]", s.Name)
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	var problems []error
	var found gather
	expand := func(in string) string {
		return variable.ReplaceAllStringFunc(in, func(ref string) string {
			name := ref[2 : len(ref)-1]
			v, ok := os.LookupEnv(name)
			if !ok {
				problems = append(problems, fmt.Errorf("mcptool: server %q: environment variable %s is not set", s.Name, name))
			}
			found.add(name, v)
			return v
		})
	}
	s.URL = expand(s.URL)
	s.Command = slices.Clone(s.Command)
	for i, arg := range s.Command {
		s.Command[i] = expand(arg)
	}
	for _, uri := range s.Roots {
		if !strings.HasPrefix(uri, "file:///") {
			problems = append(problems, fmt.Errorf("mcptool: server %q: invalid root %q: want a file:/// URL", s.Name, uri))
		}
	}
	s.Roots = slices.Clone(s.Roots)
	s.Env = maps.Clone(s.Env)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		s.Env[name] = expand(s.Env[name])
		found.add(name, s.Env[name])
	}
	s.Header = s.Header.Clone()
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		for i, v := range s.Header[name] {
			s.Header[name][i] = expand(v)
		}
	}
	found.header(s.Header)
	if s.URL != "" {
		found.address(s.URL)
		if u, err := url.Parse(s.URL); len(problems) == 0 && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			problems = append(problems, fmt.Errorf("mcptool: server %q: invalid URL: want https:// or http://", s.Name))
		}
	}
	s.secrets = found.replacers()
	return s, errors.Join(problems...)
}

// inherited lists the variables that every program inherits.
var inherited = []string{
	"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
	// Windows
	"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE",
	"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
}

func (s Server) environ() []string {
	env := []string{}
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name]) // the last value wins
	}
	return env
}
