package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"

	"cloud.google.com/go/auth/credentials"
)

// Names of environment variables for Vertex AI.
const (
	vertexURLName = "GOOGLE_VERTEX_BASE_URL"
	projectName   = "GOOGLE_CLOUD_PROJECT"
	locationName  = "GOOGLE_CLOUD_LOCATION"
)

// vertexVersion is the version of Vertex AI's API.
const vertexVersion = "v1beta1"

// locationForm matches locations. They become part of the host that gets the tokens.
var locationForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// vertexOf returns the API of Vertex AI that the options and the environment select.
func vertexOf(opts *Options) (*endpoint, error) {
	at := &endpoint{
		provider: vertexProvider,
		project:  cmp.Or(opts.Project, os.Getenv(projectName)),
		location: cmp.Or(opts.Location, os.Getenv(locationName), "global"),
		token:    opts.Token,
	}
	switch {
	case opts.Key != "":
		return nil, errors.New("key for Vertex AI, which uses tokens: remove Options.Key, and set Options.Token or use Google's application default credentials")
	case at.project == "":
		return nil, fmt.Errorf("no project: set Options.Project or the environment variable %s", projectName)
	case !locationForm.MatchString(at.location):
		return nil, fmt.Errorf("invalid location %q: set Options.Location or the environment variable %s to a region such as europe-west1, or to global", at.location, locationName)
	}
	at.base = cmp.Or(opts.BaseURL, os.Getenv(vertexURLName), address(at.location))
	if at.token == nil {
		if err := at.findCredentials(); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// address returns Google's address for a location.
func address(location string) string {
	switch location {
	case "global":
		return "https://aiplatform.googleapis.com/"
	case "us", "eu":
		return "https://aiplatform." + location + ".rep.googleapis.com/"
	}
	return "https://" + location + "-aiplatform.googleapis.com/"
}

// findCredentials sets the token to that of Google's application default
// credentials. The SDK adds credentials only to its own HTTP client.
func (at *endpoint) findCredentials() error {
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}})
	if err == nil {
		at.quota, err = found.QuotaProjectID(context.Background())
	}
	if err != nil {
		return fmt.Errorf("%w: run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS or Options.Token", err)
	}
	at.token = func(ctx context.Context) (string, error) {
		token, err := found.Token(ctx) // cached until it expires
		if err != nil {
			return "", err
		}
		return token.Value, nil
	}
	return nil
}
