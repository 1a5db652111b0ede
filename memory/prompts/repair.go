package prompts

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// LostVariablesError reports a rewritten prompt that lacks variables of the original.
type LostVariablesError struct {
	Prompt    string // the prompt's name
	Variables []string
}

// Error returns a message with the missing variables, written for the model.
func (e *LostVariablesError) Error() string {
	return fmt.Sprintf("new prompt lacks {%s}: keep every variable of the original verbatim", strings.Join(e.Variables, "}, {"))
}

// repairPrompt converts the model's text for p into a template. It returns an error for
// problems that only the model can correct.
func repairPrompt(p Prompt, text string) (string, error) {
	text = repairTemplate(p.Text, text)
	if strings.TrimSpace(text) == "" {
		return "", errors.New("new prompt is empty: return the complete prompt")
	}
	var lost []string
	has := promptVariables(text)
	for _, v := range promptVariables(p.Text) {
		if !slices.Contains(has, v) {
			lost = append(lost, v)
		}
	}
	if lost != nil {
		return "", &LostVariablesError{Prompt: p.Name, Variables: lost}
	}
	return text, nil
}

var (
	optimizeTag    = regexp.MustCompile(`<` + toOptimize + `(\s[^>]*)?>\n?|\n?</` + toOptimize + `>`)
	promptVariable = regexp.MustCompile(`^\{[\pL_][\pL\pN_.-]*\}`)
)

// repairTemplate removes the tags around the prompt from a text, and doubles braces that do
// not belong to a variable of the original.
//
// If the original itself contains single braces, its program does not use doubled braces,
// so repairTemplate leaves braces unchanged.
func repairTemplate(original, text string) string {
	text = optimizeTag.ReplaceAllString(text, "")
	known := promptVariables(original)
	if strayBraces(original) {
		return text
	}
	var out strings.Builder
	for piece := range templatePieces(text) {
		switch {
		case piece == "{" || piece == "}":
			out.WriteString(piece + piece)
		case isPromptVariable(piece) && !slices.Contains(known, promptVariableName(piece)):
			out.WriteString("{" + piece + "}")
		default:
			out.WriteString(piece)
		}
	}
	return out.String()
}

// promptVariables returns the distinct variables of a template, in order.
func promptVariables(text string) []string {
	var out []string
	for piece := range templatePieces(text) {
		if name := promptVariableName(piece); isPromptVariable(piece) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func strayBraces(text string) bool {
	for piece := range templatePieces(text) {
		if piece == "{" || piece == "}" {
			return true
		}
	}
	return false
}

// Fill returns the text of a prompt with its variables replaced by their values and its
// doubled braces by single ones. If the text contains unpaired single braces, Fill leaves
// doubled braces unchanged. It returns the first error from value.
func Fill(text string, value func(name string) (string, error)) (string, error) {
	doubled := !strayBraces(text)
	var out strings.Builder
	for piece := range templatePieces(text) {
		switch {
		case doubled && (piece == "{{" || piece == "}}"):
			piece = piece[:1]
		case isPromptVariable(piece):
			v, err := value(promptVariableName(piece))
			if err != nil {
				return "", err
			}
			piece = v
		}
		out.WriteString(piece)
	}
	return out.String(), nil
}

func isPromptVariable(piece string) bool     { return len(piece) > 2 && piece[0] == '{' }
func promptVariableName(piece string) string { return strings.Trim(piece, "{}") }

// templatePieces splits a template into doubled braces, variables with their braces, single
// braces, and the text in between.
func templatePieces(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			n := strings.IndexAny(text, "{}")
			switch {
			case n < 0:
				n = len(text)
			case n > 0: // the text before a brace
			case strings.HasPrefix(text, "{{") || strings.HasPrefix(text, "}}"):
				n = 2
			default:
				n = max(1, len(promptVariable.FindString(text)))
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}
