package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/origin"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server/internal/runs"
	"github.com/treadle-go/treadle/treadletype"
)

// sendParams are the parameters of a message sent to an agent.
type sendParams struct {
	Message       *messageBody `json:"message"`
	Configuration struct {
		Blocking          *bool `json:"blocking"`
		ReturnImmediately bool  `json:"returnImmediately"`
		HistoryLength     *int  `json:"historyLength"`

		Push   json.RawMessage `json:"pushNotificationConfig"`     // version 0.3
		PushV1 json.RawMessage `json:"taskPushNotificationConfig"` // version 1.0
	} `json:"configuration"`

	message a2a.Message // with decoded parts
}

// messageBody is a message whose parts may lack the "kind" that version 0.3 requires.
type messageBody struct {
	ID        string            `json:"messageId"`
	ContextID string            `json:"contextId"`
	TaskID    string            `json:"taskId"`
	Role      string            `json:"role"`
	Parts     []json.RawMessage `json:"parts"`
}

// immediate reports whether the client does not wait for the run to end.
func (p *sendParams) immediate() bool {
	blocking := p.Configuration.Blocking
	return p.Configuration.ReturnImmediately || blocking != nil && !*blocking
}

// read validates and decodes the message.
func (p *sendParams) read() error {
	m := p.Message
	switch {
	case m == nil:
		return &rpcError{Code: codeParams, Message: "message: it is missing"}
	case m.ID == "":
		return &rpcError{Code: codeParams, Message: "message.messageId: it is missing"}
	case len(m.Parts) == 0:
		return &rpcError{Code: codeParams, Message: "message.parts: want at least one part"}
	case p.Configuration.HistoryLength != nil && *p.Configuration.HistoryLength < 0:
		return &rpcError{Code: codeParams, Message: "configuration.historyLength: want a number that is not negative"}
	}
	switch strings.ToLower(strings.TrimPrefix(m.Role, "ROLE_")) {
	case "user":
	default:
		return &rpcError{Code: codeParams, Message: fmt.Sprintf("message.role: want user, not %q", m.Role)}
	}
	p.message = a2a.Message{ID: m.ID, ContextID: m.ContextID, TaskID: a2a.TaskID(m.TaskID), Role: a2a.MessageRoleUser}
	for i, raw := range m.Parts {
		part, err := readPart(raw)
		if err != nil {
			return &rpcError{Code: codeParams, Message: fmt.Sprintf("message.parts[%d]: %v", i, err)}
		}
		p.message.Parts = append(p.message.Parts, part)
	}
	return nil
}

// readPart decodes a message part of any version. Drafts of version 0.3 called the kind "type".
func readPart(raw json.RawMessage) (a2a.Part, error) {
	var p map[string]any
	if err := json.Unmarshal(raw, &p); err != nil || p == nil {
		return nil, fmt.Errorf("want an object")
	}
	if p["kind"] == nil {
		switch {
		case p["type"] != nil:
			p["kind"] = p["type"]
		case p["text"] != nil:
			p["kind"] = "text"
		case p["data"] != nil:
			p["kind"] = "data"
		case p["file"] != nil:
			p["kind"] = "file"
		case p["raw"] != nil || p["url"] != nil:
			p["kind"], p["file"] = "file", map[string]any{"bytes": p["raw"], "uri": p["url"], "mimeType": p["mediaType"], "name": p["filename"]}
		default:
			return nil, fmt.Errorf("want a text, data or file")
		}
	}
	list, err := json.Marshal([]any{p})
	if err != nil {
		return nil, err
	}
	var parts a2a.ContentParts
	if err := json.Unmarshal(list, &parts); err != nil {
		return nil, err
	}
	return parts[0], nil
}

// question is an interrupt that a thread waits on.
type question struct {
	ID     string                `json:"id"`
	Value  json.RawMessage       `json:"value"`
	Schema any                   `json:"response_schema,omitempty"`
	Kind   treadletype.PauseKind `json:"kind,omitempty"`
	Key    string                `json:"-"` // the program's name of the question, if any
}

// questions returns the pending interrupts of a thread, ordered by task ID. It omits waits for
// a time or a signal.
func questions(interrupts json.RawMessage) (out []question) {
	var byTask map[string][]struct {
		question
		Key string `json:"key"`
	}
	if json.Unmarshal(interrupts, &byTask) != nil {
		return nil
	}
	for _, list := range byTask {
		for _, q := range list {
			q.question.Key = q.Key
			out = append(out, q.question)
		}
	}
	out = slices.DeleteFunc(out, func(q question) bool { return q.Kind != treadletype.QuestionPause })
	slices.SortFunc(out, func(a, b question) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// questionsIn returns the interrupts that a run ended with.
func questionsIn(values json.RawMessage) []question {
	var v struct {
		Questions []question `json:"__interrupt__"`
	}
	if json.Unmarshal(values, &v) != nil {
		return nil
	}
	return v.Questions
}

// asked is like questionsIn, without the waits for a time or a signal.
func asked(values json.RawMessage) []question {
	return slices.DeleteFunc(questionsIn(values), func(q question) bool { return q.Kind != treadletype.QuestionPause })
}

// resume returns the "resume" value of a data part, or nil.
func (p *sendParams) resume() any {
	for _, part := range p.message.Parts {
		if data, ok := part.(a2a.DataPart); ok && data.Data["resume"] != nil {
			return data.Data["resume"]
		}
	}
	return nil
}

// command returns the command that answers the pending interrupts, with a data part's answers
// by ID, or else the message's text or data.
func (p *sendParams) command(open []question) (json.RawMessage, error) {
	answer := p.resume()
	byID := map[string]any{}
	if list, ok := answer.([]any); ok {
		for _, item := range list {
			one, _ := item.(map[string]any)
			id, _ := one["id"].(string)
			if !slices.ContainsFunc(open, func(q question) bool { return q.ID == id }) {
				return nil, &rpcError{Code: codeParams, Message: fmt.Sprintf("message.parts: resume: want objects with id and value; the id %q is not asked", id)}
			}
			byID[id] = one["value"]
		}
		answer = byID
	} else if answer == nil {
		answer = p.plainAnswer()
	}
	if len(byID) == 0 && len(open) > 1 {
		return nil, &rpcError{Code: codeParams, Message: fmt.Sprintf("message.parts: there are %d questions: answer with a data part {\"resume\": [{\"id\", \"value\"}]}", len(open))}
	}
	raw, err := json.Marshal(map[string]any{"resume": answer})
	return raw, err
}

// plainAnswer returns the text of the message, or its data if it has no text.
func (p *sendParams) plainAnswer() any {
	var texts []string
	var data any
	for _, part := range p.message.Parts {
		switch part := part.(type) {
		case a2a.TextPart:
			texts = append(texts, part.Text)
		case a2a.DataPart:
			data = part.Data
		}
	}
	if len(texts) > 0 || data == nil {
		return strings.Join(texts, "\n")
	}
	return data
}

// input returns the graph input: texts and files become a message, and data becomes fields.
func (x *a2aCall) input(p *sendParams) (json.RawMessage, error) {
	input := map[string]any{}
	var blocks []llm.Block
	for i, part := range p.message.Parts {
		switch part := part.(type) {
		case a2a.DataPart:
			maps.Copy(input, part.Data)
		case a2a.TextPart:
			blocks = append(blocks, llm.Text(part.Text))
		case a2a.FilePart:
			block, err := fileBlock(part)
			if err != nil {
				return nil, &rpcError{Code: codeParams, Message: fmt.Sprintf("message.parts[%d]: %v", i, err)}
			}
			blocks = append(blocks, block)
		}
	}
	if len(blocks) > 0 {
		if !slices.Contains(x.fields, "messages") {
			return nil, &rpcError{Code: codeParams, Message: fmt.Sprintf("Assistant '%s' (graph '%s') does not support A2A conversational messages. "+
				"Graph input schema must include a 'messages' field to accept text or file parts. Available input fields: ['%s']", x.a.ID, x.a.Graph, strings.Join(x.fields, "', '"))}
		}
		m := llm.User("", blocks...)
		if len(blocks) == 1 && blocks[0].Type == llm.BlockText {
			m = llm.User(blocks[0].Text)
		}
		m.ID = p.message.ID
		input["messages"] = llm.Messages{m}
	}
	return json.Marshal(input)
}

// fileBlock converts a file to a message block. A link that is not public becomes text: the model's
// provider, or a program that shows the message, would fetch it.
func fileBlock(p a2a.FilePart) (b llm.Block, err error) {
	var meta a2a.FileMeta
	switch f := p.File.(type) {
	case a2a.FileBytes:
		meta = f.FileMeta
		if b.Data, err = base64.StdEncoding.DecodeString(f.Bytes); err != nil {
			return b, fmt.Errorf("file.bytes: want base64: %w", err)
		}
	case a2a.FileURI:
		if !origin.PublicURL(f.URI) {
			return llm.Text(strings.TrimSpace(f.Name + " " + f.URI)), nil
		}
		meta, b.URL = f.FileMeta, f.URI
	}
	b.Type, b.MIMEType = llm.BlockFile, meta.MimeType
	kind, _, _ := strings.Cut(meta.MimeType, "/")
	switch kind {
	case "image":
		b.Type = llm.BlockImage
	case "audio":
		b.Type = llm.BlockAudio
	}
	if meta.Name != "" {
		b.Extra = map[string]any{"filename": meta.Name}
	}
	return b, nil
}

// stateAtEnd returns the state of a task whose last run has just ended, with its open questions.
func stateAtEnd(end *runs.End, open []question) a2a.TaskState {
	switch {
	case end.Lost:
		return a2a.TaskStateWorking
	case end.Failed:
		return a2a.TaskStateFailed
	case end.Paused:
		return stateWaiting(open)
	case end.Status == string(ledger.RunCanceled):
		return a2a.TaskStateCanceled
	}
	return a2a.TaskStateCompleted
}

// stateWaiting returns the state of a task that waits: for answers, or only for times and signals.
func stateWaiting(open []question) a2a.TaskState {
	if len(open) == 0 {
		return a2a.TaskStateWorking
	}
	return a2a.TaskStateInputRequired
}

// state returns the state of the task.
func (s *storedTask) state() a2a.TaskState {
	switch s.run.Status {
	case ledger.Pending:
		return a2a.TaskStateSubmitted
	case ledger.Running:
		return a2a.TaskStateWorking
	case ledger.Error, ledger.TimedOut:
		return a2a.TaskStateFailed
	case ledger.RunCanceled:
		return a2a.TaskStateCanceled
	}
	switch {
	case !s.run.Waits:
		return a2a.TaskStateCompleted
	case s.t.Task != s.run.First(): // the thread was edited, or another run started over
		return a2a.TaskStateCanceled
	}
	return stateWaiting(questions(s.t.Interrupts))
}

// firstRun returns the ID of the first run of the task that a run belongs to.
func firstRun(run *ledger.Run) string { return run.First().String() }

// state returns a task state as the client's protocol version spells it.
func (x *a2aView) state(s a2a.TaskState) a2a.TaskState {
	if x.v1 {
		return a2a.TaskState("TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(string(s), "-", "_")))
	}
	return s
}

// message returns a message of a task, with its role as the client's protocol version spells
// it.
func (x *a2aView) message(run *ledger.Run, role a2a.MessageRole, id string, parts ...a2a.Part) *a2a.Message {
	if x.v1 {
		role = a2a.MessageRole("ROLE_" + strings.ToUpper(string(role)))
	}
	return &a2a.Message{ID: id, Role: role, Parts: parts, TaskID: a2a.TaskID(run.Thread.String() + ":" + firstRun(run)), ContextID: contextOf(run)}
}

// submitted returns a newly created task.
func (x *a2aCall) submitted(run *ledger.Run, p *sendParams) *a2a.Task {
	now := time.Now().UTC()
	m := x.message(run, a2a.MessageRoleUser, p.message.ID, p.message.Parts...)
	return &a2a.Task{ID: m.TaskID, ContextID: m.ContextID, History: []*a2a.Message{m}, Status: a2a.TaskStatus{State: x.state(a2a.TaskStateSubmitted), Timestamp: &now}}
}

func (x *a2aView) update(run *ledger.Run, s a2a.TaskState, m *a2a.Message) a2a.TaskStatusUpdateEvent {
	now := time.Now().UTC()
	return a2a.TaskStatusUpdateEvent{TaskID: m.TaskID, ContextID: contextOf(run), Status: a2a.TaskStatus{State: x.state(s), Timestamp: &now, Message: m}}
}

// task returns a task with the conversation of its thread. The artifact of a completed task is
// the response.
func (x *a2aView) task(run *ledger.Run, s a2a.TaskState, values json.RawMessage) *a2a.Task {
	now := time.Now().UTC()
	m := x.message(run, a2a.MessageRoleAgent, "")
	task := &a2a.Task{ID: m.TaskID, ContextID: m.ContextID, Status: a2a.TaskStatus{State: x.state(s), Timestamp: &now}}
	var v struct {
		Messages llm.Messages   `json:"messages"`
		Response map[string]any `json:"structured_response"`
	}
	talks := slices.Contains(x.fields, "messages") && json.Unmarshal(values, &v) == nil
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
			task.History = append(task.History, x.message(run, a2a.MessageRoleUser, said.ID, a2a.TextPart{Text: text}))
		case said.Role == llm.RoleAI:
			answer = text
			task.History = append(task.History, x.message(run, a2a.MessageRoleAgent, said.ID, a2a.TextPart{Text: text}))
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
	task.Artifacts = []*a2a.Artifact{{ID: a2a.ArtifactID(stableID(run, "artifact")), Name: "Assistant Response", Description: "Response from assistant " + x.assistant.String(), Parts: parts}}
	return task
}

// Keys of a message that is an answer by itself: the graph sets the metadata "a2a" of its last
// message to "message".
const (
	directKey   = "a2a"
	directValue = "message"
)

// direct returns the answer of a completed task as a message, or nil if the graph did not ask for it
// or a message continued the task.
func (x *a2aView) direct(run *ledger.Run, task *a2a.Task, values json.RawMessage) *a2a.Message {
	var v llm.Chat
	if run.Task != uuid.Nil || len(task.Artifacts) == 0 || !slices.Contains(x.fields, "messages") || json.Unmarshal(values, &v) != nil || len(v.Messages) == 0 {
		return nil
	}
	last := v.Messages[len(v.Messages)-1]
	if last.Role != llm.RoleAI || last.Metadata[directKey] != directValue {
		return nil
	}
	m := x.message(run, a2a.MessageRoleAgent, last.ID, task.Artifacts[0].Parts...)
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

// explain adds a status message that states what the task waits for, or why it failed.
func (x *a2aView) explain(run *ledger.Run, task *a2a.Task, failure string, open []question) {
	var parts a2a.ContentParts
	switch task.Status.State {
	case x.state(a2a.TaskStateFailed):
		parts = a2a.ContentParts{a2a.TextPart{Text: failure}}
	case x.state(a2a.TaskStateInputRequired):
		for _, q := range open {
			var text string
			if json.Unmarshal(q.Value, &text) != nil {
				text = string(q.Value)
			}
			parts = append(parts, a2a.TextPart{Text: text})
		}
		parts = append(parts, a2a.DataPart{Data: map[string]any{"interrupts": open}})
	default:
		return
	}
	role := a2a.MessageRoleAgent
	if x.v1 {
		role = "ROLE_AGENT"
	}
	task.Status.Message = &a2a.Message{ID: stableID(run, "status"), Role: role, Parts: parts, TaskID: task.ID, ContextID: task.ContextID}
}

// stableID returns the ID of a part of a run, which is the same in all streams and responses.
func stableID(run *ledger.Run, part string) string {
	return uuid.NewSHA1(run.ID, []byte(part)).String()
}

// trim keeps the last length messages of a task's history; nil keeps all.
func trim(task *a2a.Task, length *int) {
	if length != nil && *length >= 0 && *length < len(task.History) {
		task.History = task.History[len(task.History)-*length:]
	}
}

// streamedText is the text of the response being streamed.
type streamedText struct {
	id, text string
	sent     string // the text sent to the client so far
}

// add adds a chunk of a response and reports whether to send an update. Each update contains
// the whole text, so updates of a long text are less frequent: the total sent is at most about
// 64 times the text.
func (t *streamedText) add(data json.RawMessage) bool {
	var pair []json.RawMessage
	var m struct {
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(data, &pair) != nil || len(pair) == 0 || json.Unmarshal(pair[0], &m) != nil {
		return false
	}
	piece := contentText(m.Content)
	switch {
	case piece == "":
		return false
	case m.Type == "AIMessageChunk" && m.ID == t.id:
		t.text += piece
	case m.Type == "AIMessageChunk", m.Type == "ai":
		t.id, t.text, t.sent = m.ID, piece, ""
	default:
		return false
	}
	if len(t.text) <= len(t.sent)+len(t.sent)/64 {
		return false
	}
	t.sent = t.text
	return true
}

// contentText returns the text of a message's content, which is a string or blocks.
func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []llm.Block
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	m := llm.Message{Blocks: blocks}
	return m.Text()
}
