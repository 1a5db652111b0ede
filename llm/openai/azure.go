package openai

import (
	"fmt"
	"net/url"
	"strings"
)

// Names of environment variables for Azure.
const (
	azureURLName   = "AZURE_OPENAI_ENDPOINT"
	azureKeyName   = "AZURE_OPENAI_API_KEY"
	azureTokenName = "AZURE_OPENAI_AD_TOKEN"
)

// azurePath is the path of the API without dated versions.
const azurePath = "/openai/v1"

// isAzure reports whether a host belongs to Azure, including its sovereign clouds.
func isAzure(host string) bool {
	host = strings.ToLower(host)
	for _, end := range []string{".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com", ".openai.azure.us", ".cognitiveservices.azure.us", ".openai.azure.cn", ".cognitiveservices.azure.cn"} {
		if strings.HasSuffix(host, end) {
			return true
		}
	}
	return false
}

// setAzurePath completes the address of a resource. Gateways may have a path before
// Azure's.
func setAzurePath(u *url.URL) error {
	path := strings.TrimSuffix(u.Path, "/")
	switch {
	case strings.Contains(path+"/", "/openai/deployments/"):
		return fmt.Errorf("base URL %q contains a deployment: use %s://%s%s, and the deployment as the model name", u.Redacted(), u.Scheme, u.Host, azurePath)
	case strings.HasSuffix(path, azurePath):
	case strings.HasSuffix(path, "/openai"):
		path += "/v1"
	default:
		path += azurePath
	}
	u.Path, u.RawPath = path, ""
	return nil
}

// Codes for an unknown model: of Azure, and of OpenAI.
const (
	codeNoDeployment = "DeploymentNotFound"
	codeNoModel      = "model_not_found"
)
