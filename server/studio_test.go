package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/server"
)

func TestStudioOption(t *testing.T) {
	refuse := &server.Auth{Authenticate: server.APIKeys(map[string]*server.User{"k": {Identity: "u"}})}
	for _, tt := range []struct {
		o    *server.Options
		path string
		want int
	}{
		{nil, "/studio/", http.StatusNotFound},
		{&server.Options{Studio: true}, "/studio/", http.StatusOK},
		{&server.Options{Studio: true}, "/studio/studio.js", http.StatusOK},
		{&server.Options{Studio: true}, "/studios", http.StatusNotFound},
		{&server.Options{Studio: true, Auth: refuse}, "/studio/", http.StatusOK}, // the page asks for the key
		{&server.Options{Studio: true, Auth: refuse}, "/threads/search", http.StatusMethodNotAllowed},
	} {
		c := serve(t, tt.o)
		status, _, body := c.do("GET", tt.path, "")
		if status != tt.want {
			t.Errorf("%s: %d", tt.path, status)
		}
		if tt.path == "/studio/" && tt.want == http.StatusOK && !strings.Contains(string(body), "Treadle Studio") {
			t.Errorf("%s: %.200s", tt.path, body)
		}
	}
}
