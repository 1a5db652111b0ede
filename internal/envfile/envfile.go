// Package envfile reads the environment variables that a configuration file specifies: a
// file of NAME=value lines, or an object.
package envfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names lists the names of configuration files, in order of preference.
var Names = []string{"treadle.json", "langgraph.json"}

// Find returns the path of the configuration file in dir, or "".
func Find(dir string) string {
	for _, name := range Names {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}

// Env is the value of the key "env" in a configuration.
type Env struct {
	File string // verbatim, or "" if the configuration names no file
	Vars map[string]string
}

// UnmarshalJSON decodes a file name or an object of strings.
func (e *Env) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &e.File) == nil {
		return nil
	}
	if json.Unmarshal(raw, &e.Vars) == nil {
		return nil
	}
	return errors.New("want the name of a file, or an object of strings")
}

// Load returns the variables. A relative file name is resolved against dir, the directory
// of the configuration. If the file does not exist, the error matches fs.ErrNotExist.
func (e Env) Load(dir string) (map[string]string, error) {
	if e.File == "" {
		return e.Vars, nil
	}
	file := e.Path(dir)
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	vars, err := Parse(string(raw))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return vars, nil
}

// Path returns the path of the file, or "" if the configuration names no file.
func (e Env) Path(dir string) string {
	if e.File == "" || filepath.IsAbs(e.File) {
		return e.File
	}
	return filepath.Join(dir, e.File)
}

// Of reads only the key "env" of a configuration file. It returns the zero Env if the
// file or the key does not exist.
func Of(config string) (Env, error) {
	var keys struct{ Env Env }
	raw, err := os.ReadFile(config)
	if errors.Is(err, fs.ErrNotExist) || config == "" {
		return Env{}, nil
	}
	if err != nil {
		return Env{}, err
	}
	if err := json.Unmarshal(raw, &keys); err != nil {
		return Env{}, fmt.Errorf("%s: %w", config, err)
	}
	return keys.Env, nil
}

// Parse parses lines of the form NAME=value. It skips empty lines, lines that start with
// #, and "export " before a name. A value in double quotes may contain the escapes \n,
// \t, \", and \\; a value in single quotes is used verbatim. After an unquoted value,
// " #" starts a comment.
func Parse(text string) (map[string]string, error) {
	vars := map[string]string{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " \t\x00") {
			return nil, fmt.Errorf("line %d: want NAME=value", n)
		}
		value, err := unquote(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", n, name, err)
		}
		vars[name] = value
	}
	return vars, nil
}

var escapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t")

// unquote decodes a value.
func unquote(v string) (string, error) {
	if v == "" || v[0] != '"' && v[0] != '\'' {
		if at := strings.Index(v, " #"); at >= 0 {
			v = strings.TrimSpace(v[:at])
		}
		if strings.HasPrefix(v, "#") {
			v = ""
		}
		return v, nil
	}
	end := closing(v)
	if end < 0 {
		return "", errors.New("unclosed quote")
	}
	if rest := strings.TrimSpace(v[end+1:]); rest != "" && rest[0] != '#' {
		return "", fmt.Errorf("unexpected %q after the quote", rest)
	}
	if v[0] == '\'' {
		return v[1:end], nil
	}
	return escapes.Replace(v[1:end]), nil
}

// closing returns the index of the quote that closes v's opening quote, or -1.
func closing(v string) int {
	for i := 1; i < len(v); i++ {
		switch {
		case v[i] == '\\' && v[0] == '"':
			i++
		case v[i] == v[0]:
			return i
		}
	}
	return -1
}
