// Package modeltest runs the adapters for OpenAI's and Anthropic's protocols, and an
// agent, with a real language model: SmolLM2-135M, which llama.cpp serves. The model is
// too small to call tools; the tests of the adapters cover tool calls.
package modeltest
