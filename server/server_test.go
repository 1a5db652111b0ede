package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/store"
)

// client calls a server over real HTTP.
type client struct {
	t    *testing.T
	base string
	head http.Header
}

// serve starts a server of the platform's graphs.
func serve(t *testing.T, o *server.Options) *client {
	t.Helper()
	return serveOn(t, newMemory(), o)
}

// serveOn starts a server with a database.
func serveOn(t *testing.T, db server.Database, o *server.Options) *client {
	t.Helper()
	return startGraphs(t, db, o, treadle.Must(platform.All())...)
}

// startGraphs starts a server of graphs with a database.
func startGraphs(t *testing.T, db server.Database, o *server.Options, graphs ...treadle.AnyGraph) *client {
	t.Helper()
	srv, err := server.New(db, graphs, o)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		hs.Close()
	})
	return &client{t: t, base: hs.URL, head: http.Header{}}
}

// do sends a request and returns the answer's status, headers and body.
func (c *client) do(method, path, body string) (int, http.Header, []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = c.head.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, raw
}

// ok sends a request that must succeed and decodes the answer.
func (c *client) ok(method, path, body string, into any) http.Header {
	c.t.Helper()
	status, head, raw := c.do(method, path, body)
	if status >= 300 {
		c.t.Fatalf("%s %s %s: %d %s", method, path, body, status, raw)
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			c.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	return head
}

// asJSON encodes v as JSON.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// thread creates a thread.
func (c *client) thread() string {
	c.t.Helper()
	var t struct {
		ID string `json:"thread_id"`
	}
	c.ok("POST", "/threads", "{}", &t)
	return t.ID
}

// frame is a server-sent event.
type frame struct{ event, data, id string }

func frames(raw []byte) (out []frame) {
	for block := range bytes.SplitSeq(raw, []byte("\n\n")) {
		var f frame
		for line := range strings.SplitSeq(string(block), "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				f.event = v
			} else if v, ok := strings.CutPrefix(line, "data: "); ok {
				f.data = v
			} else if v, ok := strings.CutPrefix(line, "id: "); ok {
				f.id = v
			}
		}
		if f.event != "" {
			out = append(out, f)
		}
	}
	return out
}

// letters is an embedder that counts letters.
type letters struct{}

func (letters) Model() string  { return "letters" }
func (letters) Dimension() int { return 26 }

func (letters) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = make([]float32, 26)
		for _, r := range strings.ToLower(text) {
			if 'a' <= r && r <= 'z' {
				out[i][r-'a']++
			}
		}
	}
	return out, nil
}

func TestWaitReturnsFinalValues(t *testing.T) {
	c := serve(t, nil)
	id := c.thread()
	var got map[string]any
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"router","input":{"target":"right"}}`, &got)
	if path := got["path"].([]any); len(path) != 2 || path[1] != "right" {
		t.Errorf("values %v", got)
	}
	var th struct {
		Status   string
		Values   map[string]any
		Metadata map[string]any
	}
	c.ok("GET", "/threads/"+id, "", &th)
	if th.Status != "idle" || th.Metadata["graph_id"] != "router" || len(th.Values["path"].([]any)) != 2 {
		t.Errorf("thread %+v", th)
	}
	c.ok("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, &got)
	if path := got["path"].([]any); path[1] != "left" {
		t.Errorf("values of a run without a thread: %v", got)
	}
	var failed struct {
		Error struct{ Error, Message string } `json:"__error__"`
	}
	c.ok("POST", "/runs/wait", `{"assistant_id":"failing","input":{"message":"m"}}`, &failed)
	if failed.Error.Message != "boom: m" {
		t.Errorf("error %+v", failed)
	}
}

func TestStreamSendsRequestedModes(t *testing.T) {
	c := serve(t, nil)
	id := c.thread()
	_, head, raw := c.do("POST", "/threads/"+id+"/runs/stream", `{"assistant_id":"hitl","input":{"topic":"cats"},"stream_mode":["values","updates"]}`)
	fs := frames(raw)
	if got := strings.Join(eventsOf(raw), " "); got != "metadata values updates values updates values" {
		t.Errorf("frames %s\n%s", got, raw)
	}
	if !strings.Contains(head.Get("Location"), "/stream") || !strings.HasPrefix(head.Get("Content-Location"), "/threads/"+id+"/runs/") {
		t.Errorf("headers %v", head)
	}
	if last := fs[len(fs)-1].data; !strings.Contains(last, `"__interrupt__"`) || !strings.Contains(last, `"topic":"cats"`) {
		t.Errorf("the last values are %s", last)
	}
	var got map[string]any
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"hitl","command":{"resume":{"ok":true}}}`, &got)
	if got["approval"] == nil {
		t.Errorf("values after the answer: %v", got)
	}
}

func TestStorageReportsThreadSize(t *testing.T) {
	c := serve(t, nil)
	id := c.thread()
	var got struct {
		Thread      string `json:"thread_id"`
		Bytes       int64  `json:"total_bytes"`
		Checkpoints struct {
			Count int
			Bytes int64
		}
	}
	c.ok("GET", "/threads/"+id+"/storage", "", &got)
	if got.Thread != id || got.Bytes != 0 || got.Checkpoints.Count != 0 {
		t.Errorf("a thread that has not run: %+v", got)
	}
	c.ok("POST", "/threads/"+id+"/runs/wait", `{"assistant_id":"router","input":{}}`, nil)
	c.ok("GET", "/threads/"+id+"/storage", "", &got)
	if got.Bytes == 0 || got.Checkpoints.Count != 4 || got.Checkpoints.Bytes != got.Bytes {
		t.Errorf("a thread with four checkpoints: %+v", got)
	}
	if status, _, raw := c.do("GET", "/threads/00000000-0000-4000-8000-000000000000/storage", ""); status != http.StatusNotFound {
		t.Errorf("a thread that does not exist: %d %s", status, raw)
	}
}

// A queued run starts when the previous one ends, not when the server next polls for work
// of other processes, seconds later.
func TestWaitingRunsStartImmediately(t *testing.T) {
	const slow = `{"assistant_id":"slow","input":{"count":1,"delay_ms":100}}`
	for name, test := range map[string]struct {
		workers       int
		first, second string
	}{
		"for their thread, of another graph": {4, "/threads/{id}/runs", "/threads/{id}/runs/wait"},
		"for a worker":                       {1, "/runs", "/runs/wait"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, &server.Options{Workers: test.workers})
			id := c.thread()
			soon(t, 3*time.Second, func() {
				c.ok("POST", strings.ReplaceAll(test.first, "{id}", id), slow, nil)
				c.ok("POST", strings.ReplaceAll(test.second, "{id}", id), `{"assistant_id":"router","input":{"target":"left"}}`, nil)
			})
		})
	}
}

func TestCancelWithWaitReturnsObject(t *testing.T) {
	c := serve(t, nil)
	id := c.thread()
	var run struct {
		ID string `json:"run_id"`
	}
	c.ok("POST", "/threads/"+id+"/runs", `{"assistant_id":"slow","input":{"count":100,"delay_ms":50}}`, &run)
	path := "/threads/" + id + "/runs/" + run.ID
	status, head, raw := c.do("POST", path+"/cancel?wait=true", "")
	if status != http.StatusOK || string(bytes.TrimSpace(raw)) != "{}" || head.Get("Location") != path+"/join" {
		t.Errorf("%d %s with location %q", status, raw, head.Get("Location"))
	}
}

func TestPruneKeepsThreadsWithoutRuns(t *testing.T) {
	c := serve(t, nil)
	id := c.thread()
	var got struct {
		Count int `json:"pruned_count"`
	}
	c.ok("POST", "/threads/prune", `{"thread_ids":["`+id+`"],"strategy":"keep_latest"}`, &got)
	if got.Count != 1 {
		t.Errorf("%d threads are pruned", got.Count)
	}
	c.ok("GET", "/threads/"+id, "", nil)
}

func TestWebhookContainsRequest(t *testing.T) {
	got := make(chan []byte, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got <- raw
	}))
	defer hook.Close()
	c := serve(t, &server.Options{Webhooks: &server.Webhooks{AllowPrivate: true}})
	c.ok("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"},"webhook":"`+hook.URL+`"}`, nil)
	var sent struct {
		Kwargs struct {
			Input   map[string]any
			Webhook string
		}
	}
	if raw := <-got; json.Unmarshal(raw, &sent) != nil || sent.Kwargs.Input["target"] != "left" || sent.Kwargs.Webhook != hook.URL {
		t.Errorf("the webhook is sent %s", raw)
	}
}

// An item that is read lives on, unless the request says otherwise.
func TestReadsRenewItemsOnRequestOnly(t *testing.T) {
	now := time.Now()
	c := serve(t, &server.Options{Store: &store.Options{Now: func() time.Time { return now }}})
	for name, read := range map[string]func(refresh string){
		"get": func(refresh string) { c.ok("GET", "/store/items?namespace=a&key=k&refresh_ttl="+refresh, "", nil) },
		"search": func(refresh string) {
			c.ok("POST", "/store/items/search", `{"namespace_prefix":["a"],"refresh_ttl":`+refresh+`}`, nil)
		},
	} {
		for refresh, there := range map[string]bool{"true": true, "false": false} {
			c.ok("PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{},"ttl":10}`, nil)
			now = now.Add(6 * time.Minute)
			read(refresh)
			now = now.Add(6 * time.Minute)
			if status, _, raw := c.do("GET", "/store/items?namespace=a&key=k", ""); status != http.StatusOK || (string(raw) != "null") != there {
				t.Errorf("%s with refresh_ttl %s: %d %s; want the item: %v", name, refresh, status, raw, there)
			}
		}
	}
}

// The history of an item also has its deletion, and stays after it.
func TestItemHistory(t *testing.T) {
	c := serve(t, nil)
	for _, n := range []string{"1", "2"} {
		c.ok("PUT", "/store/items", `{"namespace":["a","b"],"key":"k","value":{"n":`+n+`},"meta":{"from":"t`+n+`"}}`, nil)
	}
	c.ok("DELETE", "/store/items", `{"namespace":["a","b"],"key":"k"}`, nil)
	var got struct {
		Changes []struct {
			Kind        string
			At          time.Time
			Value, Meta json.RawMessage
		}
	}
	c.ok("GET", "/store/items/history?namespace=a.b&key=k", "", &got)
	var told []string
	for i, change := range got.Changes {
		told = append(told, fmt.Sprintf("%s %s %s", change.Kind, change.Value, change.Meta))
		if change.At.IsZero() || i > 0 && change.At.After(got.Changes[i-1].At) {
			t.Errorf("change %d was at %v", i, change.At)
		}
	}
	if want := []string{"deleted  ", `put {"n":2} {"from":"t2"}`, `put {"n":1} {"from":"t1"}`}; !slices.Equal(told, want) {
		t.Errorf("the changes are %q, want %q", told, want)
	}
	for path, want := range map[string]string{
		"namespace=a&key=none": `{"changes":[]}`,
		"namespace=a..b&key=k": "",
		"namespace=a":          "",
	} {
		status, _, raw := c.do("GET", "/store/items/history?"+path, "")
		if want == "" && status != http.StatusUnprocessableEntity && status != http.StatusBadRequest || want != "" && string(raw) != want {
			t.Errorf("%s: %d %s", path, status, raw)
		}
	}
}

// A search explains an item's score on request.
func TestSearchExplainsScores(t *testing.T) {
	c := serve(t, &server.Options{Store: &store.Options{Embedder: letters{}, Fields: []string{"text"}}})
	for key, text := range map[string]string{"1": "a zebra", "2": "bananas"} {
		c.ok("PUT", "/store/items", `{"namespace":["a"],"key":"`+key+`","value":{"text":"`+text+`"}}`, nil)
	}
	type item struct {
		Key         string
		Score       float64
		Explanation *struct {
			Similarity     float64
			SimilarityRank int `json:"similarity_rank"`
			Field          string
		}
	}
	var found struct{ Items []item }
	c.ok("POST", "/store/items/search", `{"namespace_prefix":["a"],"query":"bananas","explain":true}`, &found)
	if len(found.Items) != 2 || found.Items[0].Key != "2" {
		t.Fatalf("found %+v", found.Items)
	}
	if why := found.Items[0].Explanation; why == nil || why.SimilarityRank != 1 || why.Field != "text" || why.Similarity < 0.99 {
		t.Errorf("the best match is explained by %+v", why)
	}
	for _, body := range []string{`{"query":"bananas"}`, `{"explain":true}`} {
		found.Items = nil
		c.ok("POST", "/store/items/search", body, &found)
		if len(found.Items) != 2 || found.Items[0].Explanation != nil {
			t.Errorf("%s finds %+v", body, found.Items)
		}
	}
}

// Meta has where a memory comes from, which clients show and keep when they edit it.
func TestItemsHaveTheirMeta(t *testing.T) {
	c := serve(t, nil)
	read := func() string {
		_, _, raw := c.do("GET", "/store/items?namespace=a&key=k", "")
		var item struct{ Meta json.RawMessage }
		if err := json.Unmarshal(raw, &item); err != nil {
			t.Fatal(err, raw)
		}
		return string(item.Meta)
	}
	c.ok("PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{},"meta":{"provenance":{"thread":"t1"}}}`, nil)
	if got, want := read(), `{"provenance":{"thread":"t1"}}`; got != want {
		t.Errorf("meta is %s, want %s", got, want)
	}
	var found struct {
		Items []struct{ Meta map[string]any }
	}
	c.ok("POST", "/store/items/search", `{"namespace_prefix":["a"]}`, &found)
	if len(found.Items) != 1 || found.Items[0].Meta["provenance"] == nil {
		t.Errorf("found %+v", found.Items)
	}
	c.ok("PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{}}`, nil)
	if got := read(); got != "" {
		t.Errorf("after a put without meta it is %s", got)
	}
	if status, _, raw := c.do("PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{},"meta":[1]}`); status != http.StatusUnprocessableEntity {
		t.Errorf("a list as meta: %d %s", status, raw)
	}
}

func TestMissingItemIsNull(t *testing.T) {
	c := serve(t, nil)
	status, head, raw := c.do("GET", "/store/items?namespace=a.b&key=k", "")
	if status != http.StatusOK || string(raw) != "null" || head.Get("Content-Type") != "application/json" {
		t.Errorf("GET of a missing item: %d %s %s; want 200 null", status, head.Get("Content-Type"), raw)
	}
}
