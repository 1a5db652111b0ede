package gemini

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/llm"
)

// configOf returns all of a request except its messages.
func configOf(req *llm.Request, model string) (*genai.GenerateContentConfig, error) {
	c := &genai.GenerateContentConfig{
		StopSequences: req.StopWords,
		// Otherwise the SDK continues a response with its own requests, even after
		// a broken connection.
		AutomaticContinuation: new(false),
	}
	if req.Temperature != nil {
		c.Temperature = new(float32(*req.Temperature))
	}
	if req.TopP != nil {
		c.TopP = new(float32(*req.TopP))
	}
	if req.MaxTokens > math.MaxInt32 {
		return nil, fmt.Errorf("MaxTokens %d exceeds the maximum of %d", req.MaxTokens, math.MaxInt32)
	}
	c.MaxOutputTokens = int32(req.MaxTokens)
	if req.Seed != nil {
		if *req.Seed != int64(int32(*req.Seed)) {
			return nil, fmt.Errorf("seed %d exceeds 32 bits: use a smaller number", *req.Seed)
		}
		c.Seed = new(int32(*req.Seed))
	}
	var err error
	if c.ThinkingConfig, err = thinking(req.Reasoning, model); err != nil {
		return nil, err
	}
	if err := setTools(c, req); err != nil {
		return nil, err
	}
	if req.Output != nil {
		c.ResponseMIMEType = "application/json"
		if c.ResponseJsonSchema, err = schemaOf(req.Output.Schema); err != nil {
			return nil, fmt.Errorf("output schema: %w", err)
		}
	}
	settings, err := plainJSON[map[string]any](req.Settings)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	c.HTTPOptions = &genai.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
		completeParts(body)
		overlay(body, settings)
		return body
	}}
	return c, nil
}

// plainJSON converts a value through its JSON.
func plainJSON[T any](v any) (out T, err error) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

// overlay merges settings into body recursively. (The SDK's own merge writes to the
// log if the types differ.)
func overlay(body, settings map[string]any) {
	for name, v := range settings {
		under, ok := body[name].(map[string]any)
		over, both := v.(map[string]any)
		if ok && both {
			overlay(under, over)
			continue
		}
		body[name] = v
	}
}

// Models of the first two generations differ: their thinking is set as a token
// budget, and they do not require signatures.
var early = regexp.MustCompile(`gemini-[12](\.|-|$)`)

// insistsOnSignatures reports whether a model rejects calls without a signature.
// Names without a version denote the newest models.
func insistsOnSignatures(model string) bool {
	return strings.Contains(model, "gemini-") && !early.MatchString(model)
}

// budgets lists the budgets that Google's OpenAI-compatible API uses for each
// effort.
var budgets = map[string]int32{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}

func thinking(effort, model string) (*genai.ThinkingConfig, error) {
	if effort == "" {
		return nil, nil
	}
	c := &genai.ThinkingConfig{IncludeThoughts: effort != "none"}
	if n, err := strconv.ParseInt(effort, 10, 32); err == nil {
		c.ThinkingBudget = new(int32(n))
		c.IncludeThoughts = n != 0
		return c, nil
	}
	if early.MatchString(model) {
		n, ok := budgets[effort]
		if !ok {
			return nil, fmt.Errorf("reasoning %q: %s supports none, low, medium, high, and a number of tokens", effort, model)
		}
		c.ThinkingBudget = &n
		return c, nil
	}
	if effort == "none" {
		effort = "minimal"
	}
	c.ThinkingLevel = genai.ThinkingLevel(strings.ToUpper(effort))
	return c, nil
}
