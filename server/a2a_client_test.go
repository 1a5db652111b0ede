package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/eventqueue"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client/a2a"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/server"
)

// helper is a graph that does what the last message says.
type helper struct {
	started atomic.Int32
	waiting chan struct{} // gets a value when a run waits
	release chan struct{}
	left    chan struct{} // gets a value when a waiting run is canceled
}

func newHelper() *helper {
	return &helper{waiting: make(chan struct{}, 10), release: make(chan struct{}), left: make(chan struct{}, 10)}
}

func (h *helper) graph(t *testing.T) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[llm.Chat]("helper")
	treadle.AddNode(b, "help", func(ctx context.Context, s llm.Chat) (out said, err error) {
		told := s.Messages[len(s.Messages)-1].Text()
		answer := "done: " + told
		switch told {
		case "ask":
			answer, err = treadle.Interrupt[string](ctx, "Which owl?")
		case "fail":
			err = errors.New("no owls left")
		case "wait":
			h.started.Add(1)
			h.waiting <- struct{}{}
			select {
			case <-h.release:
			case <-ctx.Done():
				h.left <- struct{}{}
				return out, ctx.Err()
			}
		}
		return said{llm.Messages{llm.Assistant(fmt.Sprintf("%s (%d messages)", answer, len(s.Messages)))}}, err
	})
	b.Sequence(treadle.Start, "help", treadle.End)
	return treadle.Must(b.Compile(nil))
}

// overVersions runs a test with the helper as an agent of each version.
func overVersions(t *testing.T, test func(t *testing.T, remote *a2a.Agent, h *helper)) {
	for version, path := range map[string]string{"0.3": "/a2a/helper", "1.0": "/a2a/helper/v1"} {
		t.Run(version, func(t *testing.T) {
			h := newHelper()
			c := startGraphs(t, newMemory(), nil, h.graph(t))
			remote, err := a2a.Connect(t.Context(), c.base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			test(t, remote, h)
		})
	}
}

// calling returns a thread of a workflow that sends its input to an agent and records another
// effect after that.
func calling(t *testing.T, remote *a2a.Agent, saver checkpoint.Saver, effects *atomic.Int32) *treadle.Thread[string, string] {
	t.Helper()
	g, err := treadle.NewWorkflow("calling", func(ctx context.Context, in string) (string, error) {
		reply, err := remote.Send(ctx, "", llm.User(in))
		if err != nil {
			return "", err
		}
		return treadle.Do(ctx, "note", func(context.Context) (string, error) {
			effects.Add(1)
			return reply.Message.Text(), nil
		})
	}, &treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("1")
}

func TestRemoteAgentAnswers(t *testing.T) {
	overVersions(t, func(t *testing.T, remote *a2a.Agent, _ *helper) {
		first, err := remote.Send(t.Context(), "", llm.User("hi"))
		if err != nil || first.Message.Text() != "done: hi (1 messages)" || first.Task == "" || first.Conversation == "" {
			t.Fatalf("reply %+v, %v", first, err)
		}
		next, err := remote.Send(t.Context(), first.Conversation, llm.User("again"))
		if err != nil || next.Message.Text() != "done: again (3 messages)" || next.Conversation != first.Conversation {
			t.Errorf("reply in the same conversation %+v, %v", next, err)
		}
		_, err = remote.Send(t.Context(), "", llm.User("fail"))
		if failed, ok := errors.AsType[*a2a.TaskError](err); !ok || failed.State != "failed" || !strings.Contains(failed.Message, "no owls left") {
			t.Errorf("failed task: %v", err)
		}
		if _, err := remote.Send(t.Context(), "", llm.User("")); err == nil {
			t.Error("an empty message was sent")
		}
	})
}

func TestRemoteAgentIsTool(t *testing.T) {
	overVersions(t, func(t *testing.T, remote *a2a.Agent, _ *helper) {
		tool := remote.Tool()
		model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall(tool.Name, map[string]string{"message": "hi"})), llmtest.Say("ok"))
		a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{tool}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := a.Run(t.Context(), agent.Ask("go"))
		if err != nil || len(out.Messages) != 4 || out.Messages[2].Text() != "done: hi (1 messages)" {
			t.Errorf("messages %+v, %v", out.Messages, err)
		}
	})
}

func TestQuestionOfRemoteAgentInterruptsRun(t *testing.T) {
	overVersions(t, func(t *testing.T, remote *a2a.Agent, _ *helper) {
		var effects atomic.Int32
		saver := checkpoint.NewMemory()
		_, err := calling(t, remote, saver, &effects).Run(t.Context(), "ask")
		stop, ok := errors.AsType[*treadle.InterruptError](err)
		if !ok || len(stop.Pauses) != 1 {
			t.Fatalf("err = %v, want an interrupt", err)
		}
		var q a2a.Question
		if err := stop.Pauses[0].Decode(&q); err != nil || q.Type != "a2a_question" || !strings.Contains(q.Message, "Which owl?") || q.Agent != remote.Name() || len(q.Data) == 0 {
			t.Errorf("question %+v, %v", q, err)
		}
		got, err := calling(t, remote, saver, &effects).Resume(t.Context(), "the white one")
		if err != nil || got != "the white one (1 messages)" || effects.Load() != 1 {
			t.Errorf("result %q, %v, %d effects", got, err, effects.Load())
		}
	})
}

// A run that stops while the remote agent works continues with the same task.
func TestRemoteTaskIsFollowedAfterStop(t *testing.T) {
	overVersions(t, func(t *testing.T, remote *a2a.Agent, h *helper) {
		var effects atomic.Int32
		saver := checkpoint.NewMemory()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			<-h.waiting
			cancel()
		}()
		if _, err := calling(t, remote, saver, &effects).Run(ctx, "wait"); !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v", err)
		}
		close(h.release)
		got, err := calling(t, remote, saver, &effects).Continue(t.Context())
		if err != nil || got != "done: wait (1 messages)" || h.started.Load() != 1 || effects.Load() != 1 {
			t.Errorf("result %q, %v, %d tasks, %d effects", got, err, h.started.Load(), effects.Load())
		}
	})
}

func TestRemoteTaskWithoutThreadEndsWithItsCaller(t *testing.T) {
	overVersions(t, func(t *testing.T, remote *a2a.Agent, h *helper) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			<-h.waiting
			cancel()
		}()
		if _, err := remote.Send(ctx, "", llm.User("wait")); !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v", err)
		}
		<-h.left
	})
}

// parrot is an agent made with the SDK of A2A.
type parrot struct{}

func (parrot) Execute(ctx context.Context, r *a2asrv.RequestContext, queue eventqueue.Queue) error {
	told := r.Message.Parts[0].(sdk.TextPart).Text
	if told == "message" {
		return queue.Write(ctx, sdk.NewMessage(sdk.MessageRoleAgent, sdk.TextPart{Text: "at once"}))
	}
	state, reason := sdk.TaskStateCompleted, (*sdk.Message)(nil)
	switch told {
	case "ask":
		state, reason = sdk.TaskStateInputRequired, sdk.NewMessage(sdk.MessageRoleAgent, sdk.TextPart{Text: "Which owl?"})
	case "reject":
		state, reason = sdk.TaskStateRejected, sdk.NewMessage(sdk.MessageRoleAgent, sdk.TextPart{Text: "no owls"})
	default:
		parts := []sdk.Part{sdk.TextPart{Text: "you said " + told}, sdk.DataPart{Data: map[string]any{"n": 1}},
			sdk.FilePart{File: sdk.FileBytes{FileMeta: sdk.FileMeta{Name: "owl.png", MimeType: "image/png"}, Bytes: "b3ds"}}}
		if err := queue.Write(ctx, sdk.NewStatusUpdateEvent(r, sdk.TaskStateWorking, nil)); err != nil {
			return err
		}
		if err := queue.Write(ctx, sdk.NewArtifactEvent(r, parts...)); err != nil {
			return err
		}
	}
	end := sdk.NewStatusUpdateEvent(r, state, reason)
	end.Final = true
	return queue.Write(ctx, end)
}

func (parrot) Cancel(context.Context, *a2asrv.RequestContext, eventqueue.Queue) error {
	return errors.New("not cancelable")
}

func TestAgentOfOtherSDKAnswers(t *testing.T) {
	mux := http.NewServeMux()
	hs := httptest.NewServer(mux)
	defer hs.Close()
	mux.Handle("/", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(parrot{})))
	mux.Handle("/.well-known/agent-card.json", a2asrv.NewStaticAgentCardHandler(&sdk.AgentCard{
		Name: "Echo agent", Description: "Repeats.", URL: hs.URL, PreferredTransport: sdk.TransportProtocolJSONRPC, ProtocolVersion: "0.3.0"}))
	remote, err := a2a.Connect(t.Context(), hs.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tool := remote.Tool(); tool.Name != "Echo_agent" || tool.Description != "Repeats." {
		t.Errorf("tool %s: %s", tool.Name, tool.Description)
	}
	reply, err := remote.Send(t.Context(), "", llm.User("hi"))
	if err != nil || len(reply.Message.Blocks) != 3 || reply.Message.Blocks[0].Text != "you said hi" || reply.Message.Blocks[1].Text != `{"n":1}` ||
		string(reply.Message.Blocks[2].Data) != "owl" || reply.Message.Blocks[2].Type != llm.BlockImage {
		t.Errorf("reply %+v, %v", reply, err)
	}
	if reply, err = remote.Send(t.Context(), "", llm.User("message")); err != nil || reply.Message.Text() != "at once" || reply.Task != "" {
		t.Errorf("reply without a task %+v, %v", reply, err)
	}
	_, err = remote.Send(t.Context(), "", llm.User("reject"))
	if refused, ok := errors.AsType[*a2a.TaskError](err); !ok || refused.State != "rejected" || refused.Message != "no owls" {
		t.Errorf("rejected task: %v", err)
	}
	var effects atomic.Int32
	thread := calling(t, remote, checkpoint.NewMemory(), &effects)
	_, err = thread.Run(t.Context(), "ask")
	if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
		t.Fatalf("err = %v, want an interrupt", err)
	}
	if got, err := thread.Resume(t.Context(), "the white one"); err != nil || !strings.HasPrefix(got, "you said the white one") {
		t.Errorf("result %q, %v", got, err)
	}
}

func TestRemoteAgentNeedsCredentials(t *testing.T) {
	o := &server.Options{Auth: &server.Auth{Authenticate: server.APIKeys(map[string]*server.User{"key-a": {Identity: "a"}}), On: server.Rules{
		"*": func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil }}}}
	c := startGraphs(t, newMemory(), o, newHelper().graph(t))
	if _, err := a2a.Connect(t.Context(), c.base+"/a2a/helper", nil); err == nil {
		t.Error("connected without credentials")
	}
	remote, err := a2a.Connect(t.Context(), c.base+"/a2a/helper", &a2a.Options{Header: http.Header{"X-Api-Key": {"key-a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := remote.Send(t.Context(), "", llm.User("hi")); err != nil || reply.Message.Text() != "done: hi (1 messages)" {
		t.Errorf("reply %+v, %v", reply, err)
	}
}
