package bedrock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// reportedError is a failure that Bedrock reports in a stream.
type reportedError struct {
	code, message string
	status        int // the status from the model's server, if any
}

func (e *reportedError) Error() string { return e.code + ": " + e.message }

// exception returns the error that an event of a stream reports.
func exception(code string, payload []byte) error {
	var body struct {
		Message, OriginalMessage string
		OriginalStatusCode       int
	}
	_ = json.Unmarshal(payload, &body) // without a message, the code remains
	return &reportedError{code, cmp.Or(body.Message, body.OriginalMessage), body.OriginalStatusCode}
}

// statusOf maps exceptions to HTTP status codes, for failures in a stream.
var statusOf = map[string]int{
	"ThrottlingException":         http.StatusTooManyRequests,
	"ModelNotReadyException":      http.StatusTooManyRequests,
	"ModelTimeoutException":       http.StatusRequestTimeout,
	"ModelStreamErrorException":   http.StatusFailedDependency,
	"ModelErrorException":         http.StatusFailedDependency,
	"ValidationException":         http.StatusBadRequest,
	"AccessDeniedException":       http.StatusForbidden,
	"ResourceNotFoundException":   http.StatusNotFound,
	"InternalServerException":     http.StatusInternalServerError,
	"ServiceUnavailableException": http.StatusServiceUnavailable,
}

// failure returns the error of a call. begun reports whether part of the response
// had arrived.
func (c *client) failure(ctx context.Context, model string, err error, x *exchange, begun bool) error {
	if ctx.Err() != nil {
		return adapter.Canceled(ctx)
	}
	if !x.sent {
		return fmt.Errorf("bedrock: request not sent: %w%s", cause(err), credentialsRemedy(err))
	}
	e := &llm.Error{Provider: provider, Status: x.status, Err: cause(err), RetryAfter: adapter.RetryAfter(x.header),
		Cut: begun || errors.Is(err, errNoEnd) || x.body != nil && errors.Is(err, io.ErrUnexpectedEOF)}
	api, isAPI := errors.AsType[smithy.APIError](err)
	reported, isReported := errors.AsType[*reportedError](err)
	switch {
	case isReported: // after a success status
		e.Code, e.Message = capitalized(reported.code), reported.message
		e.Status = cmp.Or(reported.status, statusOf[e.Code], http.StatusInternalServerError)
	case isAPI:
		e.Code, e.Message = api.ErrorCode(), api.ErrorMessage()
		e.Status = cmp.Or(original(x.report), e.Status)
	case x.status >= http.StatusMultipleChoices:
		e.Message = cmp.Or(adapter.Excerpt(string(x.report)), "empty response") // from a proxy
	case adapter.IsUnknownHost(err):
		e.Message = fmt.Sprintf("%v: check the region %q, or whether Bedrock is available there", e.Err, c.region)
	}
	if e.Message != "" {
		e.Message += c.remedy(e, model)
	}
	return e
}

// cause removes the descriptions that the SDK adds to an error.
func cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e
	}
	for {
		e, ok := errors.AsType[*smithy.OperationError](err)
		if !ok {
			return err
		}
		err = e.Err
	}
}

// capitalized returns a code as responses write it; streams write it in lower case.
func capitalized(code string) string {
	if code == "" {
		return code
	}
	return strings.ToUpper(code[:1]) + code[1:]
}

// original returns the status code of the model's server, if an error response
// contains one.
func original(report []byte) int {
	var body struct {
		Status int `json:"originalStatusCode"`
	}
	_ = json.Unmarshal(report, &body)
	if body.Status < http.StatusBadRequest {
		return 0
	}
	return body.Status
}

// credentialsRemedy returns how to provide credentials, if they are missing.
func credentialsRemedy(err error) string {
	if !strings.Contains(err.Error(), "credentials") {
		return ""
	}
	return ": set " + keyName + " or AWS_ACCESS_KEY_ID, or sign in with the aws command and set AWS_PROFILE"
}

// remedy returns what to do about a failure, to be appended to its message.
func (c *client) remedy(e *llm.Error, model string) string {
	has := func(parts ...string) bool {
		text := strings.ToLower(e.Message)
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	if e.Status == http.StatusForbidden && has("api key", "bearer token") {
		return ": check Options.Key or " + keyName + ", or create a new Bedrock API key"
	}
	switch e.Code {
	case "AccessDeniedException":
		return fmt.Sprintf(": request access to %s in region %s, and allow bedrock:InvokeModel and bedrock:InvokeModelWithResponseStream", model, c.region)
	case "ResourceNotFoundException":
		return fmt.Sprintf(": check that %s is available in region %s", model, c.region)
	case "ExpiredTokenException", "ExpiredToken":
		return ": renew the credentials, for example with aws sso login"
	case "UnrecognizedClientException", "InvalidClientTokenId":
		return ": check the access key, the session token, and the region"
	case "InvalidSignatureException", "SignatureDoesNotMatch":
		return ": check the secret key and the clock of this machine"
	case "ValidationException":
		switch {
		case has("on-demand throughput"):
			return fmt.Sprintf(": use the inference profile, for example %s", profile(c.region, model))
		case has("model identifier is invalid"):
			return fmt.Sprintf(": check the spelling of %s, and whether it is available in region %s", model, c.region)
		case has("toolchoice", "tool choice"):
			return ": remove llm.ToolChoice; for llm.Object, use llm.ByPrompt"
		}
		if r := adapter.Remedy(e.Message); r != "" {
			return ": " + r
		}
	}
	return ""
}
