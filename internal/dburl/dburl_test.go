package dburl

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Name{
		"agent.db":                        {false, "agent.db", "agent.db"},
		":memory:":                        {false, ":memory:", ":memory:"},
		"/var/lib/agent.db":               {false, "/var/lib/agent.db", "/var/lib/agent.db"},
		"./host=x.db":                     {false, "./host=x.db", "./host=x.db"},
		`C:\data\agent.db`:                {false, `C:\data\agent.db`, `C:\data\agent.db`},
		"file:agent.db":                   {false, "agent.db", "agent.db"},
		"file:///var/agent.db":            {false, "/var/agent.db", "/var/agent.db"},
		"sqlite://agent.db":               {false, "agent.db", "agent.db"},
		"sqlite:///var/agent.db":          {false, "/var/agent.db", "/var/agent.db"},
		"my agent.db":                     {false, "my agent.db", "my agent.db"},
		"postgres://db/x":                 {true, "postgres://db/x", "postgres://db/x"},
		"postgresql://u:SECRET@db:5432/x": {true, "postgresql://u:SECRET@db:5432/x", "postgresql://u@db:5432/x"},
		"postgres://a%40b:SECRET@db/x?sslmode=off&password=SECRET": {true, "postgres://a%40b:SECRET@db/x?sslmode=off&password=SECRET", "postgres://a%40b@db/x"},
		"postgres:///x?host=/run/pg&sslpassword=SECRET":            {true, "postgres:///x?host=/run/pg&sslpassword=SECRET", "postgres:///x"},
		"host=db user=u password=SECRET":                           {true, "host=db user=u password=SECRET", "postgres host=db user=u"},
		"password=SECRET host=db":                                  {true, "password=SECRET host=db", "postgres host=db"},
		` host = db  password = 'SEC RET\' host=SECRET' dbname=x`:  {true, ` host = db  password = 'SEC RET\' host=SECRET' dbname=x`, "postgres host=db dbname=x"},
		`host=db password='SECRET dbname=SECRET`:                   {true, `host=db password='SECRET dbname=SECRET`, "postgres host=db"},
		`host=db password=SEC\ RET dbname=x`:                       {true, `host=db password=SEC\ RET dbname=x`, "postgres host=db dbname=x"},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if strings.Contains(got.Shown, "SECRET") {
			t.Errorf("%s: shown as %s", text, got.Shown)
		}
	}
}

func TestParseErrorsHideName(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "empty database name",
		"file:":                         "empty file name",
		"sqlite://":                     "empty file name",
		"postgress://u:SECRET@db/x":     `unknown database scheme "postgress://"`,
		"mysql://u:SECRET@db/x":         `unknown database scheme "mysql://"`,
		"POSTGRES://u:SECRET@db/x":      `unknown database scheme "POSTGRES://"`,
		"postgresql+psycopg://u:SECRET": `unknown database scheme "postgresql+psycopg://"`,
		"postgres:/u:SECRET@db/x":       "want postgres://…",
		"postgres:u:SECRET@db/x":        "want postgres://…",
		"sqlite:agent.db":               "want sqlite://…",
		"postgres://u:SECRET/x@db/x":    "invalid Postgres URL",
		"postgres://u:SEC RET@db/x":     "",
		"Server=db;Password=SECRET":     `unknown keyword "Server"`,
		"HOST=db PASSWORD=SECRET":       `unknown keyword "HOST"`,
	} {
		_, err := Parse(text)
		if want == "" && err == nil {
			continue // package url accepts it
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SEC") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"agent.db", "postgres://u:p@db/x", "host=db password='a b'", `host=\`, "sqlite:///x", "a=b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Parse(text)
		if (err == nil) != (n.Open != "") {
			t.Errorf("%q: %+v, %v", text, n, err)
		}
	})
}

// No value of a password reaches what is shown.
func FuzzShownHidesPassword(f *testing.F) {
	f.Add("secret", true)
	f.Add(`it's \ secret`, false)
	f.Fuzz(func(t *testing.T, password string, first bool) {
		password = "hunter2" + password
		value := `'` + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password) + `'`
		text := "host=db password=" + value + " dbname=x"
		if first {
			text = "password=" + value + " host=db dbname=x"
		}
		n, err := Parse(text)
		if err != nil || n.Shown != "postgres host=db dbname=x" {
			t.Errorf("%s: %+v, %v", text, n, err)
		}
	})
}
