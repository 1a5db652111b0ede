package anthropic

import "regexp"

// A model's features depend on its generation, and the API does not report them.
// Only old generations are listed: their names are known, and new models are
// assumed to support everything that the newest do.
var (
	beforeEffort  = regexp.MustCompile(`claude-(2|3|instant|(opus|sonnet|haiku)-4(-[015])?([-@]\d{8}|-v\d|$))`)
	beforeOutputs = regexp.MustCompile(`claude-(2|3|instant|(opus|sonnet)-4(-[01])?([-@]\d{8}|-v\d|$))`)
)

// thinksByBudget reports whether a model's thinking is set as a token budget, as
// for all models before Claude 4.6.
func thinksByBudget(model string) bool { return beforeEffort.MatchString(model) }

// hasOutputs reports whether a model supports structured output, as none did before
// Claude 4.5.
func hasOutputs(model string) bool { return !beforeOutputs.MatchString(model) }
