package database

import (
	"runtime"
	"testing"
)

func TestMaxConns(t *testing.T) {
	usual := int32(max(usualConns, runtime.NumCPU()))
	for _, c := range []struct {
		url   string
		conns int
		want  int32
	}{
		{"postgres://localhost/db", 0, usual},
		{"postgres://localhost/db?pool_max_conns=3", 0, 3},
		{"host=localhost pool_max_conns=5", 0, 5},
		{"postgres://localhost/db?pool_max_conns=3", 40, 40},
		{"postgres://localhost/db", 1, 1},
	} {
		config, err := poolConfig(c.url, &Options{MaxConns: c.conns})
		if err != nil {
			t.Fatal(err)
		}
		if config.MaxConns != c.want {
			t.Errorf("%s with %d: %d connections, want %d", c.url, c.conns, config.MaxConns, c.want)
		}
	}
	if _, err := poolConfig("postgres://localhost/db?pool_max_conns=many", &Options{}); err == nil {
		t.Error("a number of connections that is none is taken")
	}
}
