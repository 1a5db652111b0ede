package anthropic

import "regexp"

// What a model can do depends on its generation, and the API does not say. Only
// old generations are listed here: their names are known, and new models are
// taken to do all that the newest do.
var (
	beforeEffort  = regexp.MustCompile(`claude-(2|3|instant|(opus|sonnet|haiku)-4(-[015])?([-@]\d{8}|-v\d|$))`)
	beforeOutputs = regexp.MustCompile(`claude-(2|3|instant|(opus|sonnet)-4(-[01])?([-@]\d{8}|-v\d|$))`)
)

// thinksByBudget reports whether a model is told how much to think as a number of
// tokens, as all were before Claude 4.6.
func thinksByBudget(model string) bool { return beforeEffort.MatchString(model) }

// hasOutputs reports whether a model can be held to a schema, as none could before
// Claude 4.5.
func hasOutputs(model string) bool { return !beforeOutputs.MatchString(model) }
