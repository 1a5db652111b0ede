package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server"
)

// pushed is a notification that a receiver got.
type pushed struct {
	header http.Header
	body   string
}

// receiver starts a receiver of notifications.
func receiver(t *testing.T) (address string, got <-chan pushed) {
	t.Helper()
	ch := make(chan pushed, 100)
	hs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		ch <- pushed{r.Header, string(raw)}
	}))
	t.Cleanup(hs.Close)
	return hs.URL, ch
}

func (p *pushed) check(t *testing.T, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(p.body, text) {
			t.Errorf("notification without %s: %s", text, p.body)
		}
	}
	if p.header.Get("X-A2A-Notification-Token") != "secret-token" || p.header.Get("Authorization") != "Bearer secret-credentials" || p.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", p.header)
	}
}

var loopback = &server.Webhooks{AllowLoopback: true}

// config03 and config10 are push configurations of both versions.
func config03(url string) string {
	return fmt.Sprintf(`{"id":"p","url":%q,"token":"secret-token","authentication":{"schemes":["Bearer"],"credentials":"secret-credentials"}}`, url)
}

func config10(url string) string {
	return fmt.Sprintf(`{"id":"p","url":%q,"token":"secret-token","authentication":{"scheme":"Bearer","credentials":"secret-credentials"}}`, url)
}

type sentTask struct {
	ID   string
	Task struct{ ID string }
}

func TestPushNotifiesAboutTask(t *testing.T) {
	c := serve(t, &server.Options{Webhooks: loopback})
	for _, x := range []struct{ method, config, topic, asks, done, answer string }{
		{"message/send", `"pushNotificationConfig":%s`, `{"kind":"data","data":{"topic":"cats"}}`, `"state":"input-required"`, `"state":"completed"`, `{"kind":"text","text":"yes"}`},
		{"SendMessage", `"taskPushNotificationConfig":%s`, `{"data":{"topic":"cats"}}`, `"state":"TASK_STATE_INPUT_REQUIRED"`, `"state":"TASK_STATE_COMPLETED"`, `{"text":"yes"}`},
	} {
		url, got := receiver(t)
		config := config03(url)
		if x.method == "SendMessage" {
			config = config10(url)
		}
		var task sentTask
		if e := c.agent("hitl", x.method, fmt.Sprintf(`{"message":{"role":"user","messageId":"m","parts":[%s]},"configuration":{`+x.config+`}}`, x.topic, config), &task); e != nil {
			t.Fatal(e)
		}
		id := task.ID + task.Task.ID
		asks := <-got
		asks.check(t, id, x.asks, "approve?")
		if v1 := strings.HasPrefix(asks.body, `{"task":{`); v1 != (x.method == "SendMessage") {
			t.Errorf("%s: notification %s", x.method, asks.body)
		}
		if e := c.agent("hitl", x.method, fmt.Sprintf(`{"message":{"role":"user","messageId":"n","taskId":%q,"parts":[%s]}}`, id, x.answer), nil); e != nil {
			t.Fatal(e)
		}
		done := <-got
		done.check(t, id, x.done, `"artifacts"`, "yes")
	}
}

func TestPushNotifiesAboutCanceledTask(t *testing.T) {
	c := serve(t, &server.Options{Webhooks: loopback})
	url, got := receiver(t)
	for assistant, data := range map[string]string{"hitl": `{"topic":"cats"}`, "slow": `{"count":100000,"delay_ms":50}`} {
		var task sentTask
		if e := c.agent(assistant, "message/send", fmt.Sprintf(`{"message":{"role":"user","messageId":"m","parts":[{"kind":"data","data":%s}]},"configuration":{"blocking":%t,"pushNotificationConfig":%s}}`,
			data, assistant == "hitl", config03(url)), &task); e != nil {
			t.Fatal(e)
		}
		if assistant == "hitl" {
			asks := <-got
			asks.check(t, "input-required")
		}
		if e := c.agent(assistant, "tasks/cancel", fmt.Sprintf(`{"id":%q}`, task.ID), nil); e != nil {
			t.Fatal(e)
		}
		canceled := <-got
		canceled.check(t, task.ID, `"state":"canceled"`)
	}
}

// Whatever cancels a task, its client gets to know.
func TestPushNotifiesHoweverTaskEnds(t *testing.T) {
	c := serve(t, &server.Options{Webhooks: loopback, Workers: 1})
	const waits, works = `"hitl" {"topic":"cats"}`, `"slow" {"count":100000,"delay_ms":50}`
	for name, x := range map[string]struct {
		task  string
		queue bool // behind another run
		end   func(t *testing.T, thread, run string)
	}{
		"running run canceled": {works, false, func(_ *testing.T, thread, run string) {
			c.ok("POST", "/threads/"+thread+"/runs/"+run+"/cancel?wait=true", "", nil)
		}},
		"running run rolled back": {works, false, func(_ *testing.T, thread, run string) {
			c.ok("POST", "/threads/"+thread+"/runs/"+run+"/cancel?wait=true&action=rollback", "", nil)
		}},
		"running run interrupted": {works, false, func(_ *testing.T, thread, _ string) {
			c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"slow","input":{"count":1},"multitask_strategy":"interrupt"}`, nil)
		}},
		"pending run canceled": {works, true, func(_ *testing.T, thread, run string) {
			c.ok("POST", "/threads/"+thread+"/runs/"+run+"/cancel", "", nil)
		}},
		"pending run deleted": {works, true, func(_ *testing.T, thread, run string) {
			c.ok("DELETE", "/threads/"+thread+"/runs/"+run, "", nil)
		}},
		"question edited away": {waits, false, func(_ *testing.T, thread, _ string) {
			c.ok("POST", "/threads/"+thread+"/state", `{"values":null,"as_node":"__end__"}`, nil)
		}},
		"started over": {waits, false, func(_ *testing.T, thread, _ string) {
			c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"hitl","input":{"topic":"dogs"}}`, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			url, got := receiver(t)
			assistant, data, _ := strings.Cut(x.task, " ")
			assistant = strings.Trim(assistant, `"`)
			var before struct {
				ID string `json:"run_id"`
			}
			thread := c.thread()
			if x.queue {
				c.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"slow","input":{"count":100000,"delay_ms":50}}`, &before)
			}
			var task sentTask
			if e := c.agent(assistant, "message/send", fmt.Sprintf(`{"message":{"role":"user","messageId":"m","contextId":%q,"parts":[{"kind":"data","data":%s}]},"configuration":{"blocking":%t,"pushNotificationConfig":%s}}`,
				thread, data, assistant == "hitl", config03(url)), &task); e != nil {
				t.Fatal(e)
			}
			if assistant == "hitl" {
				asks := <-got
				asks.check(t, "input-required")
			} else if !x.queue {
				c.until(thread, "running", func(*threadRow) bool { return c.taskState(assistant, task.ID) == "working" })
			}
			_, run, _ := strings.Cut(task.ID, ":")
			x.end(t, thread, run)
			canceled := <-got
			canceled.check(t, task.ID, `"state":"canceled"`)
			if x.queue {
				c.ok("POST", "/threads/"+thread+"/runs/"+before.ID+"/cancel?wait=true", "", nil)
			}
			if len(got) != 0 {
				t.Errorf("another notification: %+v", <-got)
			}
		})
	}
}

// taskState returns the state of a task.
func (c *client) taskState(assistant, id string) string {
	c.t.Helper()
	var task struct{ Status struct{ State string } }
	if e := c.agent(assistant, "tasks/get", fmt.Sprintf(`{"id":%q}`, id), &task); e != nil {
		c.t.Fatal(e)
	}
	return task.Status.State
}

// Messages that create the thread of their context at the same time all have their notifications.
func TestPushesOfSimultaneousMessages(t *testing.T) {
	c := serve(t, &server.Options{Webhooks: loopback})
	for i := range 5 {
		url, got := receiver(t)
		var sending sync.WaitGroup
		const n = 4
		for k := range n {
			sending.Go(func() {
				_, _, raw := c.do("POST", "/a2a/agent", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","messageId":"m%d","contextId":"new %d","parts":[{"kind":"text","text":"x"}]},"configuration":{"blocking":false,"pushNotificationConfig":%s}}}`,
					k, i, config03(url)))
				if !strings.Contains(string(raw), `"submitted"`) {
					t.Errorf("response %s", raw)
				}
			})
		}
		sending.Wait()
		for range n {
			done := <-got
			done.check(t, `"completed"`)
		}
	}
}

// The configurations of a task remain until its context has another task.
func TestPushConfigurationsOfEndedTasksAreRemoved(t *testing.T) {
	c := serve(t, &server.Options{Webhooks: loopback})
	url, got := receiver(t)
	send := func(context string) (task sentTask) {
		if e := c.agent("agent", "message/send", fmt.Sprintf(`{"message":{"role":"user","messageId":"m","contextId":%q,"parts":[{"kind":"text","text":"x"}]},"configuration":{"pushNotificationConfig":%s}}`, context, config03(url)), &task); e != nil {
			t.Fatal(e)
		}
		done := <-got
		done.check(t, task.ID)
		return task
	}
	count := func(task sentTask) int {
		var list []any
		if e := c.agent("agent", "tasks/pushNotificationConfig/list", fmt.Sprintf(`{"id":%q}`, task.ID), &list); e != nil {
			t.Fatal(e)
		}
		return len(list)
	}
	thread := c.thread()
	first := send(thread)
	if n := count(first); n != 1 {
		t.Errorf("%d configurations of the last task", n)
	}
	second := send(thread)
	if a, b := count(first), count(second); a != 0 || b != 1 {
		t.Errorf("%d and %d configurations", a, b)
	}
}

// The configurations of a context are part of its row, so they are limited.
func TestPushConfigurationsAreLimited(t *testing.T) {
	c := serve(t, &server.Options{Webhooks: loopback})
	task := c.task("hitl", catsTopic, "")
	for i := range 10 {
		e := c.agent("hitl", "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"%d","url":"http://127.0.0.1","token":%q,"authentication":{"scheme":%q}}`, task.ID, i, strings.Repeat("t", 4096), strings.Repeat("s", 4096)), nil)
		if want := i == 7; (e != nil) != want || want && e.Code != -32602 {
			t.Fatalf("configuration %d: %+v", i, e)
		} else if want {
			break
		}
	}
}

// A notification about a large task names it, and the receiver gets it.
func TestPushOfLargeTaskIsShort(t *testing.T) {
	c := startGraphs(t, newMemory(), &server.Options{Webhooks: loopback}, treadle.Must(platform.All())...)
	url, got := receiver(t)
	for _, n := range []int{300 << 10, 2 << 20} {
		var task sentTask
		long := strings.Repeat("x", n)
		if e := c.agent("hitl", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"data":{"topic":%q}}]},"configuration":{"taskPushNotificationConfig":%s}}`, long, config10(url)), &task); e != nil {
			t.Fatal(e)
		}
		asks := <-got
		asks.check(t, task.Task.ID, `"TASK_STATE_INPUT_REQUIRED"`, `"contextId"`)
		if len(asks.body) > 1000 {
			t.Errorf("a state of %d bytes: a notification of %d bytes", n, len(asks.body))
		}
	}
}

func TestPushConfigurationsAreManaged(t *testing.T) {
	c := serve(t, &server.Options{Webhooks: loopback})
	url, got := receiver(t)
	task := c.task("hitl", `{"kind":"data","data":{"topic":"cats"}}`, "")
	id := string(task.ID)
	v1 := func(method, params, want string) {
		t.Helper()
		var out any
		e := c.agent("hitl", method, params, &out)
		if raw := asJSON(t, out) + asJSON(t, e); !strings.Contains(raw, want) || strings.Contains(raw, "secret-credentials") {
			t.Errorf("%s: %s, want %s", method, raw, want)
		}
	}
	named := fmt.Sprintf(`{"taskId":%q,"id":"p"}`, id)
	v1("ListTaskPushNotificationConfigs", named, `"configs":[]`)
	v1("GetTaskPushNotificationConfig", named, "-32001")
	v1("CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,`, id)+config10(url)[1:], `"taskId":"`+id)
	v1("GetTaskPushNotificationConfig", named, `"authentication":{"scheme":"Bearer"},"id":"p"`)
	v1("ListTaskPushNotificationConfigs", named, `"id":"p"`)
	old := fmt.Sprintf(`{"id":%q,"pushNotificationConfigId":"q"}`, id)
	v1("tasks/pushNotificationConfig/set", fmt.Sprintf(`{"taskId":%q,"pushNotificationConfig":%s}`, id, strings.Replace(config03(url), `"p"`, `"q"`, 1)), `"schemes":["Bearer"]`)
	v1("tasks/pushNotificationConfig/get", old, `"id":"q"`)
	v1("tasks/pushNotificationConfig/get", fmt.Sprintf(`{"id":%q}`, id), `"id":"p"`)
	for range 2 {
		v1("tasks/pushNotificationConfig/set", fmt.Sprintf(`{"taskId":%q,"pushNotificationConfig":{"url":%q}}`, id, url), `"id":"default"`)
	}
	v1("tasks/pushNotificationConfig/delete", fmt.Sprintf(`{"id":%q,"pushNotificationConfigId":"default"}`, id), "null")
	v1("tasks/pushNotificationConfig/list", old, `"id":"q"`)
	for range 2 { // a second time changes nothing
		v1("tasks/pushNotificationConfig/delete", old, "null")
		v1("DeleteTaskPushNotificationConfig", named, "{}")
	}
	v1("ListTaskPushNotificationConfigs", named, `"configs":[]`)
	for i := range 11 {
		want := fmt.Sprintf(`"id":"%d"`, i)
		if i == 10 {
			want = "has 10 push configurations"
		}
		v1("CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"%d","url":%q}`, id, i, url), want)
		v1("DeleteTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"x"}`, id), "{}")
	}
	if len(got) != 0 {
		t.Errorf("notification %+v", <-got)
	}
	var thread any
	c.ok("GET", "/threads/"+task.ContextID, "", &thread)
	if raw := asJSON(t, thread); strings.Contains(raw, "secret") || strings.Contains(raw, url) {
		t.Errorf("the thread shows push configurations: %s", raw)
	}
}

func TestPushAddressesAreChecked(t *testing.T) {
	c := serve(t, nil)
	id := c.task("hitl", `{"kind":"data","data":{"topic":"cats"}}`, "").ID
	for _, config := range []string{
		`"url":"http://169.254.169.254/latest"`, `"url":"http://127.0.0.1:1"`, `"url":"http://[::1]/"`, `"url":"file:///etc/passwd"`, `"url":""`, `"id":"x"`,
		`"url":"https://example.com","token":"a\r\nX-Evil: 1"`,
		`"url":"https://example.com","authentication":{"scheme":"Bearer","credentials":"a\nb"}`,
		`"url":"https://example.com","authentication":{"credentials":"a"}`,
		`"url":"https://example.com","token":"` + strings.Repeat("a", 5000) + `"`,
	} {
		if e := c.agent("hitl", "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,%s}`, id, config), nil); e == nil || e.Code != -32602 {
			t.Errorf("%s: %+v", config, e)
		}
		if e := c.agent("hitl", "SendMessage", fmt.Sprintf(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"topic":"cats"}}]},"configuration":{"taskPushNotificationConfig":{%s}}}`, config), nil); e == nil || e.Code != -32602 {
			t.Errorf("sent with %s: %+v", config, e)
		}
	}
	c = serve(t, &server.Options{Webhooks: &server.Webhooks{Disable: true}})
	if e := c.agent("hitl", "CreateTaskPushNotificationConfig", `{}`, nil); e == nil || e.Code != -32003 {
		t.Errorf("disabled: %+v", e)
	}
	if _, _, raw := c.do("GET", "/a2a/hitl", ""); strings.Contains(string(raw), `"pushNotifications":true`) {
		t.Errorf("card %s", raw)
	}
}

func TestPushSurvivesRestart(t *testing.T) {
	db := newMemory()
	url, got := receiver(t)
	graphs := treadle.Must(platform.All())
	start := func() (*client, func()) {
		srv, err := server.New(db, graphs, &server.Options{Webhooks: loopback})
		if err != nil {
			t.Fatal(err)
		}
		hs := httptest.NewServer(srv)
		return &client{t: t, base: hs.URL, head: http.Header{}}, func() {
			if err := srv.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			hs.Close()
		}
	}
	c, stop := start()
	var task sentTask
	if e := c.agent("hitl", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"data":{"topic":"cats"}}]},"configuration":{"taskPushNotificationConfig":%s}}`, config10(url)), &task); e != nil {
		t.Fatal(e)
	}
	asks := <-got
	asks.check(t, "TASK_STATE_INPUT_REQUIRED")
	stop()
	c, stop = start()
	defer stop()
	if e := c.agent("hitl", "SendMessage", fmt.Sprintf(`{"message":{"role":"ROLE_USER","messageId":"n","taskId":%q,"parts":[{"text":"yes"}]}}`, task.Task.ID), nil); e != nil {
		t.Fatal(e)
	}
	done := <-got
	done.check(t, task.Task.ID, "TASK_STATE_COMPLETED")
}

func TestExtendedCardNeedsAuth(t *testing.T) {
	c := serve(t, nil)
	if _, _, raw := c.do("GET", "/a2a/hitl", ""); strings.Contains(string(raw), "xtendedCard\":true") {
		t.Errorf("card %s", raw)
	}
	c = as(serve(t, &server.Options{Auth: annAndBen()}), "key-a")
	for path, want := range map[string]string{"/a2a/hitl": `"supportsAuthenticatedExtendedCard":true`, "/a2a/hitl/v1/.well-known/agent-card.json": `"extendedAgentCard":true`} {
		if _, _, raw := c.do("GET", path, ""); !strings.Contains(string(raw), want) {
			t.Errorf("%s: card %s", path, raw)
		}
	}
	for method, want := range map[string]string{"agent/getAuthenticatedExtendedCard": "protocolVersion", "GetExtendedAgentCard": "capabilities"} {
		var card map[string]any
		if e := c.agent("hitl", method, "{}", &card); e != nil || card["name"] != "hitl" || card[want] == nil {
			t.Errorf("%s: %+v, %v", method, e, card)
		}
	}
}

// Only callers who may change a task see the tokens of its push configurations.
func TestPushTokenIsHiddenFromReaders(t *testing.T) {
	auth := annAndBen()
	auth.On["threads"] = func(_ context.Context, a *server.Access) (server.Decision, error) {
		if a.Action == "update" && a.User.Identity != "ann" {
			return server.Decision{}, nil
		}
		return server.Allow(nil), nil
	}
	c := as(serve(t, &server.Options{Auth: auth, Webhooks: loopback}), "key-a")
	task := c.task("hitl", catsTopic, "")
	if e := c.agent("hitl", "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,`, task.ID)+config10("http://127.0.0.1")[1:], nil); e != nil {
		t.Fatal(e)
	}
	for key, shown := range map[string]bool{"key-a": true, "key-b": false} {
		c := as(c, key)
		for _, method := range []string{"GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"} {
			var out any
			if e := c.agent("hitl", method, fmt.Sprintf(`{"taskId":%q,"id":"p"}`, task.ID), &out); e != nil || strings.Contains(asJSON(t, out), "secret-token") != shown {
				t.Errorf("%s: %s: %s, %+v", key, method, asJSON(t, out), e)
			}
		}
	}
}

func TestCardDeclaresSecuritySchemes(t *testing.T) {
	auth := annAndBen()
	auth.Schemes = map[string]server.SecurityScheme{"key": {Type: "apiKey", In: "header", Name: "X-Api-Key"}, "token": {Type: "http", Scheme: "bearer"}}
	c := as(serve(t, &server.Options{Auth: auth}), "key-a")
	for path, want := range map[string]string{
		"/a2a/hitl": `{"key":{"in":"header","name":"X-Api-Key","type":"apiKey"},"token":{"scheme":"bearer","type":"http"}} [{"key":[]},{"token":[]}]`,
		"/a2a/hitl/v1/.well-known/agent-card.json": `{"key":{"apiKeySecurityScheme":{"location":"header","name":"X-Api-Key"}},"token":{"httpAuthSecurityScheme":{"scheme":"bearer"}}} [{"schemes":{"key":{"list":[]}}},{"schemes":{"token":{"list":[]}}}]`,
	} {
		var card map[string]any
		c.ok("GET", path, "", &card)
		security := card["security"]
		if security == nil {
			security = card["securityRequirements"]
		}
		if got := asJSON(t, card["securitySchemes"]) + " " + asJSON(t, security); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	auth.Schemes["x"] = server.SecurityScheme{Type: "magic"}
	if _, err := server.New(newMemory(), treadle.Must(platform.All()), &server.Options{Auth: auth}); err == nil || !strings.Contains(err.Error(), "magic") {
		t.Errorf("%v", err)
	}
}
