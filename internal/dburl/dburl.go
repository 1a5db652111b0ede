// Package dburl parses the database names that programs accept in flags and environment
// variables: a file, a Postgres URL, or a Postgres connection string.
package dburl

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A Name is a parsed database name.
type Name struct {
	Postgres bool   // false means an SQLite file
	Open     string // the argument for postgres.Open or sqlite.Open
	Shown    string // the name without passwords, for logs and messages
}

var (
	scheme  = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
	keyword = regexp.MustCompile(`^\s*([A-Za-z_]+)\s*=`)
	almost  = regexp.MustCompile(`^(?i:postgres(?:ql)?|sqlite):`)
)

// keywords lists the keywords that may start a Postgres connection string.
var keywords = []string{
	"application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "fallback_application_name", "gssencmode", "host", "hostaddr",
	"keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "krbspn", "krbsrvname", "load_balance_hosts", "min_protocol_version", "max_protocol_version",
	"options", "passfile", "password", "pool_health_check_period", "pool_max_conn_idle_time", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conns",
	"pool_min_conns", "pool_min_idle_conns", "port", "require_auth", "search_path", "service", "servicefile", "sslcert", "sslkey", "sslmode", "sslnegotiation", "sslpassword",
	"sslrootcert", "sslsni", "target_session_attrs", "tcp_user_timeout", "timezone", "user",
}

// shownKeywords lists the keywords of a connection string that Shown includes.
var shownKeywords = []string{"host", "hostaddr", "port", "dbname", "user"}

// Parse parses a database name:
//
//	agent.db, file:agent.db, sqlite://agent.db, sqlite:///var/lib/agent.db    an SQLite file
//	:memory:                                                                  SQLite in memory
//	postgres://user@host/name, postgresql://…                                 Postgres
//	host=… dbname=…                                                           Postgres
//
// Its errors do not contain the name, which may contain a password.
func Parse(text string) (Name, error) {
	if text == "" {
		return Name{}, errors.New("empty database name: want a file or postgres://…")
	}
	if m := scheme.FindStringSubmatch(text); m != nil {
		switch m[1] {
		case "postgres", "postgresql":
			return parseURL(text)
		case "sqlite", "file":
			return file(strings.TrimPrefix(text, m[0]))
		}
		return Name{}, fmt.Errorf("unknown database scheme %q: want a file, postgres://…, or sqlite://…", m[1]+"://")
	}
	if m := keyword.FindStringSubmatch(text); m != nil {
		if !slices.Contains(keywords, m[1]) {
			return Name{}, fmt.Errorf("unknown keyword %q in Postgres connection string: for a file, write ./ before its name", m[1])
		}
		return Name{Postgres: true, Open: text, Shown: shown(text)}, nil
	}
	if m := almost.FindString(text); m != "" {
		return Name{}, fmt.Errorf("invalid database URL: want %s//…", m)
	}
	return file(strings.TrimPrefix(text, "file:"))
}

func file(name string) (Name, error) {
	if name == "" {
		return Name{}, errors.New("empty file name")
	}
	return Name{Open: name, Shown: name}, nil
}

// parseURL parses a Postgres URL. It does not return the error of package url, which may
// contain part of the password.
func parseURL(text string) (Name, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Name{}, errors.New("invalid Postgres URL: write special characters of the user name and password as %XX")
	}
	s := u.Scheme + "://"
	if name := u.User.Username(); name != "" {
		s += url.User(name).String() + "@"
	}
	return Name{Postgres: true, Open: text, Shown: s + u.Host + u.EscapedPath()}, nil // parameters can contain a password too
}

// shown returns the non-secret parts of a connection string.
func shown(text string) string {
	var out []string
	text = strings.TrimSpace(text)
	for text != "" {
		key, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		key = strings.TrimSpace(key)
		var value string
		if value, text, ok = cutValue(strings.TrimSpace(rest)); !ok {
			break
		}
		if slices.Contains(shownKeywords, key) {
			out = append(out, key+"="+value)
		}
		text = strings.TrimSpace(text)
	}
	return strings.TrimSpace("postgres " + strings.Join(out, " "))
}

// cutValue cuts the first value off a connection string. In quotes, a backslash escapes a
// quote or a backslash.
func cutValue(text string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(text, "'")
	if quoted {
		text = text[1:]
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case quoted && c == '\'', !quoted && strings.IndexByte(" \t\r\n", c) >= 0:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", !quoted
}
