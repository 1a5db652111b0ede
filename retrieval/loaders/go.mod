module github.com/treadle-go/treadle/retrieval/loaders

go 1.26.0

require (
	github.com/treadle-go/treadle v0.1.0
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.62.0
)

require (
	github.com/google/jsonschema-go v0.4.3 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
