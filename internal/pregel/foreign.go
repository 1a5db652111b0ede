package pregel

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/treadle-go/treadle/checkpoint"
)

// The stored forms of a checkpoint's parts are for package langgraphimport. It writes
// checkpoints of runs that this engine has not made, and has no graph.

type (
	// StoredControl is what runs next.
	StoredControl = controlJSON
	// StoredSend is an input that was sent.
	StoredSend = sendJSON
	// StoredResult is the result of a task of an unfinished step.
	StoredResult = resultJSON
	// StoredWrite is a write of a task or of the journal.
	StoredWrite = writeJSON
	// StoredTarget is a target of a task's goto.
	StoredTarget = targetJSON
	// StoredRan is a task of a finished step.
	StoredRan = ranJSON
	// StoredWrote is a write of such a task.
	StoredWrote = wroteJSON
	// StoredFailure is the failure of a task.
	StoredFailure = failedJSON
	// StoredAnswer is an answer.
	StoredAnswer = answer
	// StoredCall is the result of a call.
	StoredCall = callJSON
)

// StoredLog is the channel of a nested run's journal, a list of StoredWrite.
const StoredLog = logChannel

// TaskID returns the id of the task of a node that runs from a checkpoint. sent is
// its number among the sends of the step, or -1.
func TaskID(from checkpoint.ID, ns string, step int, node string, sent int) string {
	return idOf(taskText(nil, from.String(), ns, step, node, sent))
}

// CallID returns the id of a call, by its number, of a task.
func CallID(taskNS string, number int) string { return idOf(callText(taskNS, number)) }

// QuestionID returns the id of a question, by its number, of a task.
func QuestionID(taskNS string, number int) string {
	return questionID(taskNS, "#"+strconv.Itoa(number))
}

// taskText appends the text that a task's id is made of.
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

// questionID returns the id of a question that a task asks at a place.
func questionID(taskNS, place string) string {
	sum := sha256.Sum256([]byte(taskNS + "|" + place))
	return hex.EncodeToString(sum[:16])
}
