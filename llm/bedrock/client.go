package bedrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go/auth/bearer"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/internal/origin"
)

// client sends requests to Bedrock. The SDK finds the address, signs requests, and
// reads error responses. The bodies of requests and successful responses are
// written and read here: the SDK's types lose the order of a schema's properties
// and all fields that the SDK's version lacks, and its streams report no error if
// the connection breaks.
type client struct {
	api    *bedrockruntime.Client
	region string
}

func connect(model string, opts *Options) (*client, error) {
	if model == "" {
		return nil, errors.New("empty model ID")
	}
	if opts.BaseURL != "" {
		if u, err := url.Parse(opts.BaseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("invalid base URL %q: want https://host", opts.BaseURL)
		}
	}
	var cfg aws.Config
	if opts.Config != nil {
		cfg = *opts.Config
	} else {
		var err error
		// The context is for credentials that are read later.
		if cfg, err = config.LoadDefaultConfig(context.Background()); err != nil {
			return nil, fmt.Errorf("AWS configuration: %w", err)
		}
	}
	c := &client{region: cfg.Region}
	if opts.Region != "" {
		c.region = opts.Region
	}
	if c.region == "" {
		c.region = arnRegion(model)
	}
	if c.region == "" {
		return nil, errors.New("missing region: set the environment variable AWS_REGION or Options.Region")
	}
	if cfg.Credentials == nil && cfg.BearerAuthTokenProvider == nil && opts.Key == "" && os.Getenv(keyName) == "" {
		return nil, fmt.Errorf("missing credentials: set Options.Config.Credentials, Options.Key, or the environment variable %s", keyName)
	}
	c.api = bedrockruntime.NewFromConfig(cfg, func(o *bedrockruntime.Options) {
		o.Region = c.region
		o.Retryer = aws.NopRetryer{} // llm.Retry does that for all providers
		o.HTTPClient = transport{sender(opts.HTTPClient, cfg.HTTPClient)}
		if opts.BaseURL != "" {
			o.BaseEndpoint = &opts.BaseURL
		}
		if opts.Key != "" {
			o.BearerAuthTokenProvider = bearer.StaticTokenProvider{Token: bearer.Token{Value: opts.Key}}
			o.AuthSchemePreference = []string{"httpBearerAuth"}
		}
	})
	return c, nil
}

// arnRegion returns the region in an ARN: arn:aws:bedrock:REGION:….
func arnRegion(model string) string {
	if parts := strings.Split(model, ":"); len(parts) > 5 && parts[0] == "arn" {
		return parts[3]
	}
	return ""
}

// sender returns the HTTP client: the caller's, or the client of the AWS configuration.
// It does not follow redirects, unless it is the caller's own implementation.
func sender(own *http.Client, configured aws.HTTPClient) aws.HTTPClient {
	var out http.Client
	switch c := configured.(type) {
	case nil:
		out = *http.DefaultClient
	case *http.Client:
		out = *c
	case *awshttp.BuildableClient:
		out = http.Client{Transport: c.GetTransport(), Timeout: c.GetTimeout()}
	default:
		if own == nil {
			return configured
		}
	}
	if own != nil {
		out = *own
	}
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out
}

// exchange is a request and its response.
type exchange struct {
	request []byte // the body of the request
	sent    bool   // false if the SDK failed before, for example to find credentials
	status  int
	header  http.Header
	body    io.ReadCloser // of a successful response
	report  []byte        // the start of an error response
}

type exchangeKey struct{}

// transport sends the SDK's requests. It keeps each response in the exchange of the
// request's context, which send sets, and gives the SDK an empty one instead.
type transport struct{ next aws.HTTPClient }

// maxReport is the maximum number of bytes read of an error response.
const maxReport = 1 << 20

// Do implements [bedrockruntime.HTTPClient].
func (t transport) Do(req *http.Request) (*http.Response, error) {
	x, _ := req.Context().Value(exchangeKey{}).(*exchange)
	x.sent = true
	// The SDK closes its body when the response arrives. If package http is still
	// checking for the end of the body then, it closes the connection.
	own := *req
	own.Body = io.NopCloser(bytes.NewReader(x.request))
	own.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.request)), nil }
	own.ContentLength = int64(len(x.request))
	resp, err := t.next.Do(adapter.Replayable(&own))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest {
		// Following it would send the conversation to another host.
		_ = resp.Body.Close()
		return nil, fmt.Errorf("redirect to %s: if that is the right address, set Options.BaseURL", origin.Of(resp.Header.Get("Location")))
	}
	x.status, x.header = resp.StatusCode, resp.Header
	if resp.StatusCode < http.StatusMultipleChoices {
		x.body = resp.Body
		resp.Body = http.NoBody
		if !isStream(resp.Header) {
			resp.Body = io.NopCloser(strings.NewReader("{}"))
		}
		return resp, nil
	}
	x.report, err = io.ReadAll(io.LimitReader(resp.Body, maxReport))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(x.report))
	return resp, err
}

// streamType is the content type of event streams.
const streamType = "application/vnd.amazon.eventstream"

func isStream(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), streamType) }

// converse sends a request to the Converse API. On success, the caller must close
// the body of the exchange.
func (c *client) converse(ctx context.Context, model string, body []byte) (*exchange, error) {
	return c.send(ctx, body, func(ctx context.Context, opts func(*bedrockruntime.Options)) error {
		_, err := c.api.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: &model}, opts)
		return err
	})
}

// converseStream is like converse, but requests a stream.
func (c *client) converseStream(ctx context.Context, model string, body []byte) (*exchange, error) {
	return c.send(ctx, body, func(ctx context.Context, opts func(*bedrockruntime.Options)) error {
		_, err := c.api.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: &model}, opts, withoutReader)
		return err
	})
}

// withoutReader keeps the SDK from reading the stream. The readers of all streams of
// a client share a buffer, without a lock.
func withoutReader(o *bedrockruntime.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		_, err := stack.Deserialize.Remove("OperationEventStreamDeserializer")
		return err
	})
}

// invoke sends a request in the model's own format.
func (c *client) invoke(ctx context.Context, model string, body []byte) (*exchange, error) {
	return c.send(ctx, body, func(ctx context.Context, opts func(*bedrockruntime.Options)) error {
		kind := "application/json"
		_, err := c.api.InvokeModel(ctx, &bedrockruntime.InvokeModelInput{ModelId: &model, ContentType: &kind, Accept: &kind, Body: body}, opts)
		return err
	})
}

// send calls an operation of the SDK with a body.
func (c *client) send(ctx context.Context, body []byte, call func(context.Context, func(*bedrockruntime.Options)) error) (*exchange, error) {
	x := &exchange{request: body}
	err := call(context.WithValue(ctx, exchangeKey{}, x), func(o *bedrockruntime.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error { return stack.Serialize.Add(withBody(body), middleware.After) })
	})
	if err != nil && x.body != nil {
		_ = x.body.Close()
	}
	return x, err
}

// withBody replaces the body of the SDK's request, before it is signed.
func withBody(body []byte) middleware.SerializeMiddleware {
	return middleware.SerializeMiddlewareFunc("Body", func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (
		out middleware.SerializeOutput, meta middleware.Metadata, err error) {
		req, ok := in.Request.(*smithyhttp.Request)
		if !ok {
			return out, meta, fmt.Errorf("unexpected request type %T", in.Request)
		}
		if in.Request, err = req.SetStream(bytes.NewReader(body)); err != nil {
			return out, meta, err
		}
		return next.HandleSerialize(ctx, in)
	})
}
