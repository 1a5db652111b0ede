package a2awire

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
)

// View shows the runs of an assistant as tasks.
type View struct {
	V1        bool // for version 1.0
	Assistant uuid.UUID
	Fields    []string // fields of the graph's input
}

// ContextKey is the key of a run's metadata that holds the client's ID of its context, if it is
// not the ID of the thread.
const ContextKey = "a2a_context_id"

// ContextOf returns the context ID of a run.
func ContextOf(run *ledger.Run) string {
	if id, _ := run.Metadata[ContextKey].(string); id != "" {
		return id
	}
	return run.Thread.String()
}

// TaskID returns the ID of the task that a run belongs to: its thread and first run.
func TaskID(run *ledger.Run) string { return run.Thread.String() + ":" + run.First().String() }

// State returns a task state as the client's protocol version spells it.
func (x *View) State(s a2a.TaskState) a2a.TaskState {
	if x.V1 {
		return a2a.TaskState("TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(string(s), "-", "_")))
	}
	return s
}

// Message returns a message of a task, with its role as the client's protocol version spells
// it.
func (x *View) Message(run *ledger.Run, role a2a.MessageRole, id string, parts ...a2a.Part) *a2a.Message {
	if x.V1 {
		role = a2a.MessageRole("ROLE_" + strings.ToUpper(string(role)))
	}
	return &a2a.Message{ID: id, Role: role, Parts: parts, TaskID: a2a.TaskID(TaskID(run)), ContextID: ContextOf(run)}
}

// Submitted returns a newly created task.
func (x *View) Submitted(run *ledger.Run, p *SendParams) *a2a.Task {
	now := time.Now().UTC()
	m := x.Message(run, a2a.MessageRoleUser, p.Decoded.ID, p.Decoded.Parts...)
	return &a2a.Task{ID: m.TaskID, ContextID: m.ContextID, History: []*a2a.Message{m}, Status: a2a.TaskStatus{State: x.State(a2a.TaskStateSubmitted), Timestamp: &now}}
}

// Update returns an event about the state of a task, with a message.
func (x *View) Update(run *ledger.Run, s a2a.TaskState, m *a2a.Message) a2a.TaskStatusUpdateEvent {
	now := time.Now().UTC()
	return a2a.TaskStatusUpdateEvent{TaskID: m.TaskID, ContextID: ContextOf(run), Status: a2a.TaskStatus{State: x.State(s), Timestamp: &now, Message: m}}
}

// Task returns a task with the conversation of its thread. The artifact of a completed task is
// the response.
func (x *View) Task(run *ledger.Run, s a2a.TaskState, values json.RawMessage) *a2a.Task {
	now := time.Now().UTC()
	m := x.Message(run, a2a.MessageRoleAgent, "")
	task := &a2a.Task{ID: m.TaskID, ContextID: m.ContextID, Status: a2a.TaskStatus{State: x.State(s), Timestamp: &now}}
	var v struct {
		Messages llm.Messages   `json:"messages"`
		Response map[string]any `json:"structured_response"`
	}
	talks := slices.Contains(x.Fields, "messages") && json.Unmarshal(values, &v) == nil
	answer := ""
	var parts a2a.ContentParts // other than the text
	for _, said := range v.Messages {
		text := said.Text()
		switch said.Role {
		case llm.RoleHuman:
			answer, parts = "", nil
		case llm.RoleAI:
			parts = append(parts, fileParts(said)...)
		}
		switch {
		case text == "":
		case said.Role == llm.RoleHuman:
			task.History = append(task.History, x.Message(run, a2a.MessageRoleUser, said.ID, a2a.TextPart{Text: text}))
		case said.Role == llm.RoleAI:
			answer = text
			task.History = append(task.History, x.Message(run, a2a.MessageRoleAgent, said.ID, a2a.TextPart{Text: text}))
		}
	}
	if s != a2a.TaskStateCompleted {
		return task
	}
	switch {
	case !talks:
		var data map[string]any
		if json.Unmarshal(values, &data) != nil || data == nil {
			data = map[string]any{"result": values}
		}
		parts = a2a.ContentParts{a2a.DataPart{Data: data}}
	case v.Response != nil:
		parts = append(parts, a2a.DataPart{Data: v.Response})
	}
	if answer != "" || len(parts) == 0 {
		parts = append(a2a.ContentParts{a2a.TextPart{Text: answer}}, parts...)
	}
	task.Artifacts = []*a2a.Artifact{{ID: a2a.ArtifactID(StableID(run, "artifact")), Name: "Assistant Response", Description: "Response from assistant " + x.Assistant.String(), Parts: parts}}
	return task
}

// Keys of a message that is an answer by itself: the graph sets the metadata "a2a" of its last
// message to "message".
const (
	directKey   = "a2a"
	directValue = "message"
)

// Direct returns the answer of a completed task as a message, or nil if the graph did not ask for it
// or a message continued the task.
func (x *View) Direct(run *ledger.Run, task *a2a.Task, values json.RawMessage) *a2a.Message {
	var v llm.Chat
	if run.Task != uuid.Nil || len(task.Artifacts) == 0 || !slices.Contains(x.Fields, "messages") || json.Unmarshal(values, &v) != nil || len(v.Messages) == 0 {
		return nil
	}
	last := v.Messages[len(v.Messages)-1]
	if last.Role != llm.RoleAI || last.Metadata[directKey] != directValue {
		return nil
	}
	m := x.Message(run, a2a.MessageRoleAgent, last.ID, task.Artifacts[0].Parts...)
	m.TaskID = ""
	return m
}

// fileParts returns the media that a model has written.
func fileParts(m llm.Message) (parts a2a.ContentParts) {
	for _, b := range m.Parts() {
		meta := a2a.FileMeta{MimeType: b.MIMEType, Name: b.Filename()}
		switch {
		case !slices.Contains([]string{llm.BlockImage, llm.BlockAudio, llm.BlockVideo, llm.BlockFile}, b.Type):
		case b.URL != "":
			parts = append(parts, a2a.FilePart{File: a2a.FileURI{FileMeta: meta, URI: b.URL}})
		case len(b.Data) > 0:
			parts = append(parts, a2a.FilePart{File: a2a.FileBytes{FileMeta: meta, Bytes: base64.StdEncoding.EncodeToString(b.Data)}})
		}
	}
	return parts
}

// Explain adds a status message that states what the task waits for, or why it failed. Open describes the
// pending interrupts, and questions contains their values.
func (x *View) Explain(run *ledger.Run, task *a2a.Task, failure string, questions []json.RawMessage, open any) {
	var parts a2a.ContentParts
	switch task.Status.State {
	case x.State(a2a.TaskStateFailed):
		parts = a2a.ContentParts{a2a.TextPart{Text: failure}}
	case x.State(a2a.TaskStateInputRequired):
		for _, q := range questions {
			var text string
			if json.Unmarshal(q, &text) != nil {
				text = string(q)
			}
			parts = append(parts, a2a.TextPart{Text: text})
		}
		parts = append(parts, a2a.DataPart{Data: map[string]any{"interrupts": open}})
	default:
		return
	}
	role := a2a.MessageRoleAgent
	if x.V1 {
		role = "ROLE_AGENT"
	}
	task.Status.Message = &a2a.Message{ID: StableID(run, "status"), Role: role, Parts: parts, TaskID: task.ID, ContextID: task.ContextID}
}

// StableID returns the ID of a part of a run, which is the same in all streams and responses.
func StableID(run *ledger.Run, part string) string {
	return uuid.NewSHA1(run.ID, []byte(part)).String()
}

// Trim keeps the last length messages of a task's history; nil keeps all.
func Trim(task *a2a.Task, length *int) {
	if length != nil && *length >= 0 && *length < len(task.History) {
		task.History = task.History[len(task.History)-*length:]
	}
}

// Body returns the body of a notification with a task.
func (x *View) Body(task *a2a.Task) ([]byte, error) {
	if !x.V1 {
		return json.Marshal(task)
	}
	shown, err := AsV1(task)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"task": shown})
}
