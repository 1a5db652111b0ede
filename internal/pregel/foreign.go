package pregel

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/treadle-go/treadle/checkpoint"
)

// The saved forms below are for package langgraphimport. It writes checkpoints of
// runs that this engine did not execute, and has no graph.

type (
	// StoredControl describes what runs next.
	StoredControl = controlJSON
	// StoredSend is an input sent to a node.
	StoredSend = sendJSON
	// StoredResult is the result of a task of an unfinished step.
	StoredResult = resultJSON
	// StoredWrite is a write of a task or of the journal.
	StoredWrite = writeJSON
	// StoredTarget is a target of a task's goto.
	StoredTarget = targetJSON
	// StoredRan describes a task of a finished step.
	StoredRan = ranJSON
	// StoredWrote is a write in a StoredRan.
	StoredWrote = wroteJSON
	// StoredFailure is the failure of a task.
	StoredFailure = failedJSON
	// StoredAnswer is an answer.
	StoredAnswer = answer
	// StoredCall is the result of a call.
	StoredCall = callJSON
)

// StoredLog is the channel of a subgraph run's journal, a list of StoredWrite.
const StoredLog = logChannel

// TaskID returns the ID of the task that runs node from a checkpoint. sent is its
// index among the sends of the step, or -1.
func TaskID(from checkpoint.ID, ns string, step int, node string, sent int) string {
	return idOf(taskText(nil, from.String(), ns, step, node, sent))
}

// CallID returns the ID of a task's call with the given number.
func CallID(taskNS string, number int) string { return idOf(callText(taskNS, number)) }

// QuestionID returns the ID of a task's interrupt with the given number.
func QuestionID(taskNS string, number int) string {
	return questionID(taskNS, "#"+strconv.Itoa(number))
}

// taskText appends the text that is hashed to a task ID.
func taskText(b []byte, seed, ns string, step int, node string, sent int) []byte {
	b = append(append(b, seed...), '|')
	b = append(append(b, ns...), '|')
	b = append(strconv.AppendInt(b, int64(step), 10), '|')
	b = append(append(b, node...), '|')
	if sent >= 0 {
		return strconv.AppendInt(append(b, "push"...), int64(sent), 10)
	}
	return append(b, "pull"...)
}

func callText(taskNS string, number int) []byte {
	return []byte(taskNS + "|call " + strconv.Itoa(number))
}

func idOf(text []byte) string {
	sum := sha256.Sum256(text)
	return uuidText(sum[:16])
}

// questionID returns the ID of a task's interrupt at the given place.
func questionID(taskNS, place string) string {
	sum := sha256.Sum256([]byte(taskNS + "|" + place))
	return hex.EncodeToString(sum[:16])
}
