package models

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/openai"
)

// Names of environment variables for Bedrock's other APIs.
const (
	mantleKeyName = "AWS_BEARER_TOKEN_BEDROCK"
	mantleURLName = "BEDROCK_MANTLE_BASE_URL"
)

// mantleOpenAI and mantleAnthropic serve models of Amazon Bedrock with the APIs of
// OpenAI and Anthropic. They need a Bedrock API key; package bedrock also accepts
// credentials.
var (
	mantleOpenAI = llm.Provider{Name: "bedrock_mantle_openai", Model: func(name string) (llm.Model, error) {
		address, key, err := mantle()
		if err != nil {
			return nil, err
		}
		o := &openai.Options{Provider: "bedrock_mantle_openai", BaseURL: address + "/v1", Key: key, API: "chat"}
		if strings.HasPrefix(name, "openai.gpt-") && !strings.HasPrefix(name, "openai.gpt-oss") {
			o.BaseURL, o.API = address+"/openai/v1", "responses"
		}
		return openai.Provider(o).Model(name)
	}}
	mantleAnthropic = llm.Provider{Name: "bedrock_mantle_anthropic", Model: func(name string) (llm.Model, error) {
		address, key, err := mantle()
		if err != nil {
			return nil, err
		}
		// Without a key, package anthropic would use its own key.
		return anthropic.Provider(&anthropic.Options{BaseURL: address + "/anthropic", Key: key,
			Header: http.Header{"X-Api-Key": nil, "Authorization": {"Bearer " + key}}}).Model(name)
	}}
)

// mantle returns the address of the APIs and the key, from the environment.
func mantle() (address, key string, err error) {
	if key = os.Getenv(mantleKeyName); key == "" {
		return "", "", fmt.Errorf("no API key: set the environment variable %s, or use the provider bedrock with AWS credentials", mantleKeyName)
	}
	if address = strings.TrimRight(os.Getenv(mantleURLName), "/"); address != "" {
		return address, key, nil
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" {
		return "", "", errors.New("no region: set the environment variable AWS_REGION")
	}
	return "https://bedrock-mantle." + region + ".api.aws", key, nil
}
